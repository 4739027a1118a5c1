//! The OpenAPI document and the door of every route.

use std::collections::BTreeSet;

use hearthcast::domain::access::Access;
use hearthcast::http::{endpoints, openapi};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::answer::refused;
use crate::kit::{self, Server, film, schema};

/// Routes of the web page, which is no part of the interface.
const PAGES: [&str; 3] = ["/", "/web/{file}", "/web/vendor/{file}"];

fn operations() -> impl Iterator<Item = (String, String, &'static Value)> {
    let paths = openapi::document()["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, item)| {
        item.as_object()
            .unwrap()
            .iter()
            .map(move |(method, operation)| (method.to_uppercase(), path.clone(), operation))
    })
}

#[tokio::test]
async fn every_route_is_documented_and_nothing_else() {
    let server = kit::server(&[]).await;
    let mounted: BTreeSet<(String, String)> = endpoints(&server.service)
        .iter()
        .filter(|endpoint| !PAGES.contains(&endpoint.path))
        .map(|endpoint| (endpoint.method.to_string(), endpoint.path.to_owned()))
        .collect();
    let documented: BTreeSet<_> = operations().map(|(method, path, _)| (method, path)).collect();
    assert_eq!(mounted, documented, "list the handler of a new route in src/http/openapi.rs");
    let served = server.ask(Method::GET, "/api/openapi.json").send().await.unwrap();
    assert_eq!(served.headers()["content-type"], "application/json");
    assert_eq!(&served.json::<Value>().await.unwrap(), openapi::document());
    assert!(openapi::document()["openapi"].as_str().unwrap().starts_with("3.1"));

    let ids: Vec<&str> = operations().map(|(_, _, operation)| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    let names = |path: &str| -> BTreeSet<String> {
        path.split('/').filter_map(|part| Some(part.strip_prefix('{')?.strip_suffix('}')?.to_owned())).collect()
    };
    for (method, path, operation) in operations() {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let described: BTreeSet<String> =
            parameters.filter(|p| p["in"] == "path").map(|p| p["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(described, names(&path), "{method} {path}");
    }
}

#[tokio::test]
async fn every_route_has_a_door_and_every_media_byte_is_behind_it() {
    let server = kit::server(&[]).await;
    for endpoint in endpoints(&server.service) {
        if PAGES.contains(&endpoint.path) {
            assert_eq!((endpoint.access, endpoint.method), (Access::Public, Method::GET));
            continue;
        }
        assert_eq!(
            endpoint.access,
            openapi::access(endpoint.path),
            "{} {}: see src/http/openapi.rs",
            endpoint.method,
            endpoint.path
        );
        let public = openapi::PUBLIC.contains(&endpoint.path);
        assert_eq!(endpoint.access == Access::Public, public, "{}", endpoint.path);
        assert!(!public || !endpoint.path.starts_with("/api/stream"), "{} would give media to anybody", endpoint.path);
        if public {
            continue;
        }
        let path: String = endpoint.path.replace(['{', '}'], "");
        for query in
            ["", "?path=%2Fetc%2Fpasswd", "?st=9999999999.l_x.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA&path=/a"]
        {
            for (header, value) in
                [("accept", "*/*"), ("authorization", "Bearer hc_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")]
            {
                let request = server.ask(endpoint.method.clone(), &format!("{path}{query}")).header(header, value);
                let answer = request.json(&json!({})).send().await.unwrap();
                let forged = query.contains("st=") && header != "authorization" && endpoint.access == Access::Granted;
                let (status, code) = if forged { (403, "SIGNATURE_INVALID") } else { (401, "UNAUTHORIZED") };
                refused(answer, status, code).await;
            }
        }
        if endpoint.access == Access::Admin {
            let answer =
                server.ask(endpoint.method, &path).bearer_auth(&server.token).json(&json!({})).send().await.unwrap();
            refused(answer, 403, "FORBIDDEN").await;
        }
    }
}

/// Asks, and holds the answer against the document.
async fn holds(server: &Server, token: &str, method: &str, path: &str, query: &str, body: Option<Value>) -> Value {
    let operation = &openapi::document()["paths"][path][method];
    assert!(operation.is_object(), "{method} {path}");
    let request = server.ask(method.to_uppercase().parse().unwrap(), &format!("{path}{query}")).bearer_auth(token);
    let request = if let Some(body) = body { request.json(&body) } else { request };
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let described = operation["responses"].get(status.to_string()).unwrap_or(&operation["responses"]["default"]);
    let text = answer.text().await.unwrap();
    let Some(schema) = described["content"]["application/json"].get("schema") else {
        assert!(text.is_empty(), "{method} {path} {status}: {text} has no schema");
        return Value::Null;
    };
    let value: Value =
        serde_json::from_str(&text).unwrap_or_else(|fault| panic!("{method} {path}: {fault} in {text:?}"));
    let faults = schema::faults(openapi::document(), schema, &value);
    assert!(faults.is_empty(), "{method} {path}{query} {status}: {faults:#?}\n{value:#}");
    value
}

#[tokio::test]
async fn real_answers_fit_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it's 100% \u{1f600}.mp4");
    film::flash_and_beep(&path, 1, "-c:v libx264 -preset ultrafast -c:a aac");
    let server = kit::server(&[folder.path()]).await;
    server.service.accounts.add_user("ada", hearthcast::domain::access::Role::Admin, "correct horse").await.unwrap();
    let login = json!({"username": "ada", "password": "correct horse"});
    let ada =
        holds(&server, "", "post", "/api/auth/login", "", Some(login)).await["token"].as_str().unwrap().to_owned();
    let media = format!("?path={}", percent(path.to_str().unwrap()));
    let root = format!("?path={}", percent(folder.path().to_str().unwrap()));
    let asked = [
        ("get", "/api/health", ""),
        ("get", "/api/openapi.json", ""),
        ("get", "/api/auth/status", ""),
        ("get", "/api/auth/me", ""),
        ("get", "/api/auth/sessions", ""),
        ("get", "/api/users", ""),
        ("get", "/api/library", ""),
        ("get", "/api/library", &root),
        ("get", "/api/stream/info/full", &media),
        ("get", "/api/stream/v2-workers", ""),
        ("get", "/api/stream/progress", &media),
        ("get", "/api/stream/history", ""),
        ("get", "/api/stream/next-up", ""),
        ("get", "/api/stream/audiobook", &media),
        ("get", "/api/stream/audiobook/progress", &media),
        ("get", "/api/stream/audiobook/history", ""),
        // Refusals have a schema too.
        ("get", "/api/stream/info/full", "?path=relative"),
        ("get", "/api/library", "?path=/etc"),
        ("delete", "/api/stream/progress", &media),
        ("delete", "/api/stream/audiobook/progress", &media),
        ("delete", "/api/auth/sessions", ""),
    ];
    let saved = json!({"mediaPath": path, "positionSeconds": 1, "completed": true});
    holds(&server, &ada, "post", "/api/stream/progress", "", Some(saved)).await;
    let saved = json!({"mediaPath": path});
    holds(&server, &ada, "post", "/api/stream/progress/watched", "", Some(saved)).await;
    let saved = json!({"audiobookPath": path, "positionSeconds": 0.5});
    holds(&server, &ada, "post", "/api/stream/audiobook/progress", "", Some(saved)).await;
    for (method, path, query) in asked {
        holds(&server, &ada, method, path, query, None).await;
    }
    holds(&server, "", "get", "/api/auth/me", "", None).await;
    let new = json!({"username": "bob", "password": "battery staple"});
    holds(&server, &ada, "post", "/api/users", "", Some(new.clone())).await;
    holds(&server, &ada, "post", "/api/users", "", Some(new)).await;
    holds(&server, &ada, "post", "/api/users", "", Some(json!({"username": 1}))).await;
}

fn percent(path: &str) -> String {
    percent_encoding::utf8_percent_encode(path, percent_encoding::NON_ALPHANUMERIC).to_string()
}
