//! The classes of routes that `/metrics` counts.

use crate::domain::traffic::RouteClass;

/// The class of a route by its template; `-` is no route.
pub fn route_class(template: &str) -> RouteClass {
    let has_prefix = |prefixes: &[&str]| prefixes.iter().any(|prefix| template.starts_with(prefix));
    match template {
        "-" => RouteClass::Unknown,
        "/api/health" | "/metrics" => RouteClass::Monitoring,
        "/api/events" => RouteClass::Events,
        "/api/stream/transcode/start" | "/api/stream/transcode/sessions" => RouteClass::Api,
        _ if template.contains("/artwork/") || has_prefix(&["/api/livetv/logos/", "/api/livetv/icons/"]) => {
            RouteClass::Image
        }
        "/api/workers/runs/{run}/source" => RouteClass::File,
        _ if has_prefix(&["/api/stream/file", "/api/stream/subtitle", "/api/stream/attachment"]) => RouteClass::File,
        _ if has_prefix(&["/api/stream/transcode/"]) => RouteClass::Session,
        _ if has_prefix(&["/api/livetv/watch/", "/api/livetv/segments/", "/hdhr/"]) => RouteClass::Channel,
        _ if has_prefix(&["/api/"]) => RouteClass::Api,
        _ => RouteClass::Page,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_has_the_class_of_what_it_serves() {
        let expected = [
            ("-", RouteClass::Unknown),
            ("/", RouteClass::Page),
            ("/web/{file}", RouteClass::Page),
            ("/help/{file}", RouteClass::Page),
            ("/metrics", RouteClass::Monitoring),
            ("/api/events", RouteClass::Events),
            ("/api/library/items/{id}/artwork/{kind}", RouteClass::Image),
            ("/api/livetv/icons/{id}/{start}", RouteClass::Image),
            ("/api/stream/file", RouteClass::File),
            ("/api/workers/runs/{run}/source", RouteClass::File),
            ("/api/stream/transcode/start", RouteClass::Api),
            ("/api/stream/transcode/{sessionId}/{asset}", RouteClass::Session),
            ("/api/livetv/watch/{id}/{asset}", RouteClass::Channel),
            ("/api/livetv/segments/{grant}/{id}/{version}/{asset}", RouteClass::Channel),
            ("/hdhr/{token}/auto/{channel}", RouteClass::Channel),
            ("/api/livetv/channels", RouteClass::Api),
        ];
        for (template, class) in expected {
            assert_eq!(route_class(template), class, "{template}");
        }
    }
}
