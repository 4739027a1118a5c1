//! Headers of every response, HEAD compared with GET, and CORS.

use reqwest::Method;

use crate::kit;

#[tokio::test]
async fn head_is_get_without_the_body() {
    let server = kit::start_server(&[]).await;
    for path in ["/api/health", "/api/auth/status", "/api/auth/me", "/api/auth/sessions", "/api/nowhere", "/"] {
        let get = server.get(path).send().await.unwrap();
        let head = server.request(Method::HEAD, path).bearer_auth(&server.token).send().await.unwrap();
        assert_eq!(head.status(), get.status(), "{path}");
        let names = |answer: &reqwest::Response| {
            let mut names: Vec<String> = answer.headers().keys().map(|name| name.to_string()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&head), names(&get), "{path}");
        assert_eq!(head.headers()["content-type"], get.headers()["content-type"], "{path}");
        let ids = [&head, &get].map(|answer| answer.headers()["x-request-id"].clone());
        assert!(ids[0] != ids[1] && ids[0].len() >= 16, "{path}");
        let length = get.headers()["content-length"].clone();
        assert_eq!(length.to_str().unwrap(), get.bytes().await.unwrap().len().to_string(), "{path}");
        if !path.ends_with("sessions") && !path.ends_with("me") {
            assert_eq!(head.headers()["content-length"], length, "{path}");
        }
        assert!(head.bytes().await.unwrap().is_empty(), "{path}");
    }
}

#[tokio::test]
async fn cors_allows_configured_origins_only() {
    const ALLOWED_ORIGIN: &str = "https://tv.example";
    let server = kit::start_server_with(&[], |config| config.allowed_origins = vec![ALLOWED_ORIGIN.to_owned()]).await;
    let preflight = async |origin: &str, path: &str| {
        let request = server.request(Method::OPTIONS, path).header("origin", origin);
        request
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization")
            .send()
            .await
            .unwrap()
    };
    let answer = preflight(ALLOWED_ORIGIN, "/api/auth/login").await;
    assert_eq!(answer.status(), 204);
    let headers = answer.headers();
    assert_eq!(headers["access-control-allow-origin"], ALLOWED_ORIGIN);
    assert_eq!(headers["access-control-allow-methods"], "OPTIONS, POST");
    let allowed_headers = headers["access-control-allow-headers"].to_str().unwrap();
    for name in ["authorization", "content-type", "range", "last-event-id"] {
        assert!(allowed_headers.split(", ").any(|allowed| allowed == name), "{name}: {allowed_headers}");
    }
    assert_eq!((&headers["vary"], &headers["allow"]), (&"origin".parse().unwrap(), &"OPTIONS, POST".parse().unwrap()));
    assert!(!headers.contains_key("access-control-allow-credentials"));
    assert_eq!(preflight(ALLOWED_ORIGIN, "/api/nowhere").await.status(), 404);

    for other in ["https://evil.example", "https://tv.example.evil.example", "http://tv.example", "null"] {
        for answer in [
            preflight(other, "/api/auth/login").await,
            server.get("/api/health").header("origin", other).send().await.unwrap(),
        ] {
            assert!(answer.headers().keys().all(|name| !name.as_str().starts_with("access-control")), "{other}");
            assert_eq!(answer.headers()["vary"], "origin");
        }
    }
    for path in ["/api/auth/me", "/api/nowhere"] {
        let answer = server.get(path).header("origin", ALLOWED_ORIGIN).send().await.unwrap();
        assert_eq!(answer.headers()["access-control-allow-origin"], ALLOWED_ORIGIN, "errors can be read, too");
        assert!(answer.headers()["access-control-expose-headers"].to_str().unwrap().contains("content-range"));
    }
    let server = kit::start_server(&[]).await;
    let answer = server.get("/api/health").header("origin", ALLOWED_ORIGIN).send().await.unwrap();
    assert!(answer.headers().keys().all(|name| !name.as_str().starts_with("access-control")), "no CORS by default");
}
