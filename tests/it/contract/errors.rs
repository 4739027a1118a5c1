//! Errors have one shape, whatever the request.

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit;
use crate::kit::response::expect_error;

#[tokio::test]
async fn unknown_routes_and_methods_get_the_common_error_shape() {
    let server = kit::start_server(&[]).await;
    for path in [
        "/api/nowhere",
        "/api",
        "/api/",
        "/api/health/",
        "//api/health",
        "/api/auth/me/",
        "/API/HEALTH",
        "/api/%2e%2e/health",
    ] {
        expect_error(server.get(path).send().await.unwrap(), 404, "NOT_FOUND").await;
    }
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::TRACE, "BREW".parse().unwrap()] {
        let answer = server.request(method, "/api/health").send().await.unwrap();
        assert_eq!(answer.headers()["allow"], "GET, HEAD, OPTIONS");
        expect_error(answer, 405, "METHOD_NOT_ALLOWED").await;
    }
    let answer = server.request(Method::PUT, "/api/auth/sessions").send().await.unwrap();
    assert_eq!(answer.headers()["allow"], "DELETE, GET, HEAD, OPTIONS");
}

#[tokio::test]
async fn missing_credentials_are_401_and_missing_rights_403() {
    let server = kit::start_server(&[]).await;
    let send_authorization = async |value: &[u8]| {
        let value = reqwest::header::HeaderValue::from_bytes(value).unwrap();
        server.request(Method::GET, "/api/auth/me").header("authorization", value).send().await.unwrap()
    };
    expect_error(server.request(Method::GET, "/api/auth/me").send().await.unwrap(), 401, "UNAUTHORIZED").await;
    for wrong in [&b"Bearer"[..], b"Bearer ", b"Basic YTpi", b"Bearer nonsense", b"Bearer hc_\xff", b""] {
        expect_error(send_authorization(wrong).await, 401, "UNAUTHORIZED").await;
    }
    assert_eq!(send_authorization(format!("bEaReR {}", server.token).as_bytes()).await.status(), 200);
    expect_error(server.get("/api/users").send().await.unwrap(), 403, "FORBIDDEN").await;
    // A public route ignores a stale token.
    let answer =
        server.request(Method::GET, "/api/auth/status").header("authorization", "Bearer x").send().await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn malformed_bodies_are_client_errors() {
    let server = kit::start_server(&[]).await;
    let login = async |body: String| {
        let request = server.request(Method::POST, "/api/auth/login").header("content-type", "application/json");
        request.body(body).send().await.unwrap()
    };
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    for wrong in [
        "",
        "{",
        "nul",
        "{\"username\":NaN}",
        "{\"username\":1e999}",
        "{\"username\":\"a\",\"password\":\"x\"} {}",
        "\u{feff}{}",
        &deep[1..],
        "{\"username\":\"\\ud800\"}",
    ] {
        expect_error(login(wrong.to_owned()).await, 400, "BAD_REQUEST").await;
    }
    let first_field = |body: &serde_json::Value| body["details"]["fields"][0]["field"].as_str().map(str::to_owned);
    for (wrong, field) in [
        (json!([]), "body"),
        (json!(["a", "x", null]), "body"),
        (json!("a"), "body"),
        (json!({}), "username"),
        (json!({"username": 1, "password": "x"}), "username"),
        (json!({"username": "a", "password": null}), "password"),
        (json!({"username": "a", "password": {"deep": 1}}), "password"),
        (json!({"username": "a", "password": "x", "deviceName": -1}), "deviceName"),
    ] {
        let body = expect_error(login(wrong.to_string()).await, 400, "VALIDATION_ERROR").await;
        assert_eq!(first_field(&body).as_deref(), Some(field), "{wrong}");
    }
    // Nesting in an unknown field is skipped, not parsed recursively.
    let ignored = format!("{{\"username\":\"a\",\"password\":\"x\",\"other\":{deep}}}");
    expect_error(login(ignored).await, 401, "INVALID_CREDENTIALS").await;

    let request =
        server.request(Method::POST, "/api/auth/login").header("content-type", "application/x-www-form-urlencoded");
    expect_error(request.body("username=a").send().await.unwrap(), 415, "UNSUPPORTED_MEDIA_TYPE").await;
    let request = server.request(Method::POST, "/api/auth/login").header("content-type", "application/json");
    expect_error(request.body(b"{\"username\":\"\xff\"}".to_vec()).send().await.unwrap(), 400, "BAD_REQUEST").await;
}

#[tokio::test]
async fn large_bodies_are_refused_early_and_the_refusal_arrives() {
    let server = kit::start_server(&[]).await;
    let request = || server.request(Method::POST, "/api/auth/login").header("content-type", "application/json");
    for _ in 0..4 {
        expect_error(request().body(vec![b' '; 10 << 20]).send().await.unwrap(), 413, "PAYLOAD_TOO_LARGE").await;
        let chunks = futures_util::stream::iter((0..160).map(|_| Ok::<_, std::io::Error>(vec![b' '; 64 << 10])));
        let chunked = request().body(reqwest::Body::wrap_stream(chunks)).send().await.unwrap();
        expect_error(chunked, 413, "PAYLOAD_TOO_LARGE").await;
        let unsigned =
            server.request(Method::POST, "/api/auth/password").body(vec![b' '; 10 << 20]).send().await.unwrap();
        expect_error(unsigned, 401, "UNAUTHORIZED").await;
    }
    let mut body = b"{\"username\":\"a\",\"password\":\"x\"}".to_vec();
    body.resize(64 << 10, b' ');
    expect_error(request().body(body.clone()).send().await.unwrap(), 401, "INVALID_CREDENTIALS").await;
    body.push(b' ');
    expect_error(request().body(body).send().await.unwrap(), 413, "PAYLOAD_TOO_LARGE").await;

    // The declared length is enough: the body need not be sent.
    let address = server.base.strip_prefix("http://").unwrap();
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    socket.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
}

#[tokio::test]
async fn targets_are_decoded_strictly() {
    let server = kit::start_server(&[]).await;
    for query in ["path=%", "path=%zz", "path=%ff%fe", "path=a&path=b", "st=1&st=1", "%61=1&a=2"] {
        let answer = server.get(&format!("/api/stream/info/full?{query}")).send().await.unwrap();
        expect_error(answer, 400, "BAD_REQUEST").await;
    }
    for id in ["%", "%zz", "%ff"] {
        let request = server.request(Method::DELETE, &format!("/api/auth/sessions/{id}")).bearer_auth(&server.token);
        expect_error(request.send().await.unwrap(), 400, "BAD_REQUEST").await;
    }
    let request = server.request(Method::DELETE, "/api/auth/sessions/%2F%00%F0%9F%98%80").bearer_auth(&server.token);
    expect_error(request.send().await.unwrap(), 404, "NOT_FOUND").await;
}
