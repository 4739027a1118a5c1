use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{AUTHORIZATION, ORIGIN};
use http_body_util::BodyExt;
use tempfile::TempDir;

use super::*;
use crate::config::Config;
use crate::domain::access::{Access, Role};
use crate::http::server::ConnectionSlots;

pub(in crate::http) fn service() -> (Arc<Service>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Service::open(Config::new(dir.path().join("state"), dir.path().join("cache"))).unwrap(), dir)
}

pub(in crate::http) fn request(method: Method, path: &str, headers: HeaderMap) -> RequestParts {
    let empty_body = futures_util::stream::empty::<Result<bytes::Bytes, warp::Error>>();
    RequestParts {
        method,
        path: path.to_owned(),
        query: String::new(),
        body: RequestBody::new(&headers, empty_body),
        headers: Arc::new(headers),
        info: RequestInfo::default(),
        slot: Arc::new(ConnectionSlots::new(8, &[]).acquire([192, 0, 2, 1].into()).unwrap()),
    }
}

async fn request_json(dispatcher: &Arc<Dispatcher>, method: Method, path: &str) -> (u16, serde_json::Value) {
    let response = dispatcher.clone().respond(request(method, path, HeaderMap::new())).await;
    assert_eq!(response.headers()["x-api-version"], "1");
    assert!(response.headers().get(ORIGIN).is_none());
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn a_panic_is_a_500_without_details() {
    let (service, _dir) = service();
    let panicking = |_: Arc<Service>, call: Call| async move { panic!("secret {}", call.method) };
    let endpoints = vec![
        Endpoint::new(Method::GET, "/a", Access::Public, panicking),
        Endpoint::new(Method::POST, "/a", Access::Public, panicking),
    ];
    let dispatcher = Arc::new(Dispatcher::new(&service, endpoints));
    for method in [Method::GET, Method::POST] {
        let (status, body) = request_json(&dispatcher, method, "/a").await;
        assert_eq!((status, &body["code"]), (500, &"INTERNAL".into()));
        assert!(!body.to_string().contains("secret"), "{body}");
    }
}

/// `POST /slow`: takes this long, then sets `done`.
fn slow_change(duration: Duration, done: &Arc<AtomicBool>) -> Endpoint {
    let done = done.clone();
    Endpoint::new(Method::POST, "/slow", Access::Public, move |_, _| {
        let done = done.clone();
        async move {
            tokio::time::sleep(duration).await;
            done.store(true, Ordering::Relaxed);
            Ok(reply::empty())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_stuck_handler_times_out_and_a_change_is_completed() {
    let (service, _dir) = service();
    let done = Arc::new(AtomicBool::new(false));
    let endpoints = vec![
        Endpoint::new(Method::GET, "/stuck", Access::Public, |_, _| std::future::pending()),
        slow_change(Duration::from_secs(5), &done),
    ];
    let dispatcher = Arc::new(Dispatcher::new(&service, endpoints));
    let (status, body) = request_json(&dispatcher, Method::GET, "/stuck").await;
    assert_eq!((status, &body["code"]), (503, &"SERVER_BUSY".into()));

    let gone = tokio::time::timeout(Duration::from_secs(1), request_json(&dispatcher, Method::POST, "/slow")).await;
    assert!(gone.is_err(), "the client went away");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(done.load(Ordering::Relaxed), "and the change was made");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_misses_the_deadline_is_completed() {
    let (service, _dir) = service();
    let done = Arc::new(AtomicBool::new(false));
    let slow = slow_change(RESPONSE_TIMEOUT + Duration::from_secs(5), &done);
    let dispatcher = Arc::new(Dispatcher::new(&service, vec![slow]));
    let (status, body) = request_json(&dispatcher, Method::POST, "/slow").await;
    assert_eq!((status, &body["code"]), (503, &"SERVER_BUSY".into()));
    assert!(!done.load(Ordering::Relaxed));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(done.load(Ordering::Relaxed), "after the answer");
}

#[tokio::test]
async fn templates_match_whole_path_segments() {
    let (service, _dir) = service();
    let template = "/api/x/{id}/status";
    let mount = |path| Endpoint::new(Method::GET, path, Access::Public, |_, _| std::future::pending());
    let dispatcher = Dispatcher::new(&service, vec![mount("/api/x/{id}/{asset}"), mount(template)]);
    let found = |path: &'static str| {
        dispatcher.find_endpoint(&Method::GET, path).map(|(endpoint, values)| (endpoint.path, values))
    };
    assert_eq!(found("/api/x/a%20b/status"), Some((template, vec!["a%20b"])));
    for other in ["/api/x//status", "/api/x/a/status/", "/api/x/a", "/api/x/a/b/status", "//api/x/a/status", ""] {
        assert_eq!(found(other), None, "{other}");
    }
}

#[tokio::test]
async fn the_more_specific_route_wins() {
    let (service, _dir) = service();
    let echo_as =
        |name: &'static str| move |_: Arc<Service>, call: Call| async move { Ok(reply::json(&(name, call.params))) };
    let endpoints = vec![
        Endpoint::new(Method::GET, "/a/{x}/{y}", Access::Public, echo_as("open")),
        Endpoint::new(Method::GET, "/a/{x}/status", Access::Public, echo_as("status")),
        Endpoint::new(Method::GET, "/a/b/status", Access::Public, echo_as("fixed")),
    ];
    let dispatcher = Arc::new(Dispatcher::new(&service, endpoints));
    for (path, expected) in [
        ("/a/b/status", serde_json::json!(["fixed", []])),
        ("/a/c/status", serde_json::json!(["status", ["c"]])),
        ("/a/c/%C3%B6", serde_json::json!(["open", ["c", "ö"]])),
    ] {
        assert_eq!(request_json(&dispatcher, Method::GET, path).await, (200, expected), "{path}");
    }
}

#[tokio::test]
async fn credentials_protect_a_connection_while_its_request_is_held() {
    let (service, _dir) = service();
    let token = service.accounts.issue_token("viewer", Role::User).await.unwrap();
    let endpoints = vec![Endpoint::new(Method::GET, "/held", Access::User, |_, _| std::future::pending())];
    let dispatcher = Arc::new(Dispatcher::new(&service, endpoints));
    for (token, is_held) in [(token.as_str(), true), ("unknown", false)] {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        let request = request(Method::GET, "/held", headers);
        let slot = request.slot.clone();
        assert!(!slot.is_authenticated());
        assert_eq!(dispatcher.clone().respond(request).now_or_never().is_none(), is_held, "{token}");
        assert_eq!(slot.is_authenticated(), is_held, "{token}");
    }
}
