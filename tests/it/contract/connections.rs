//! Connections: invalid request heads, connection limits, shutdown during a response.

use std::time::Instant;

use hearthcast::domain::access::Role;
use hearthcast::domain::library::Root;
use hearthcast::service::Service;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;

use crate::kit;
use crate::kit::service_config::service_config;
use crate::kit::wait::MAX_WAIT;
use crate::library::{file_url_of_text, mp4_bytes};

/// Sends bytes on a new connection and reads the response until the server closes it or the JSON body ends.
async fn send_and_read(server: &kit::Server, request: &[u8]) -> String {
    let mut socket = TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
    // The server may answer and close before it has read everything.
    let _ = socket.write_all(request).await;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !answer.ends_with(b"}") {
        match tokio::time::timeout(MAX_WAIT, socket.read(&mut buffer)).await.expect("no hang") {
            Ok(0) | Err(_) => break,
            Ok(n) => answer.extend_from_slice(&buffer[..n]),
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn invalid_heads_get_the_common_error_shape() {
    let server = kit::start_server(&[]).await;
    let many_headers = format!("GET /api/health HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(150));
    let large_header = format!("GET /api/health HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "b".repeat(20_000));
    let huge_header = format!("GET /api/health HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "b".repeat(100_000));
    let long_target = format!("GET /api/health?{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(20_000));
    let table: [(&[u8], u16, &str); 7] = [
        (many_headers.as_bytes(), 431, "HEADERS_TOO_LARGE"),
        (large_header.as_bytes(), 431, "HEADERS_TOO_LARGE"),
        (huge_header.as_bytes(), 431, "HEADERS_TOO_LARGE"),
        (long_target.as_bytes(), 414, "URI_TOO_LONG"),
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n", 400, "BAD_REQUEST"),
        (b"GET /api/health HTTP/1.1\r\nbad header\r\n\r\n", 400, "BAD_REQUEST"),
        (b"GET /api/health HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400, "BAD_REQUEST"),
    ];
    for (request, status, code) in table {
        let answer = send_and_read(&server, request).await;
        let name = String::from_utf8_lossy(&request[..request.len().min(40)]).into_owned();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{name}: {answer}");
        assert!(answer.to_ascii_lowercase().contains("\r\nx-request-id: "), "{name}: {answer}");
        let body: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).expect(&answer);
        assert_eq!(body["code"], code, "{name}");
        assert!(body["error"].is_string() && body["requestId"].is_string());
    }
    // The server still works.
    assert_eq!(server.get("/api/health").send().await.unwrap().status(), 200);
}

/// Connects from the given loopback address.
async fn connect(server: &kit::Server, from: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    socket.connect(server.base.trim_start_matches("http://").parse().unwrap()).await.unwrap()
}

/// Connects from the given address and requests something large without reading the response. Returns when the response has
/// begun: the server's threads accept connections in any order.
async fn connect_without_reading(server: &kit::Server, from: &str) -> TcpStream {
    let mut socket = connect(server, from).await;
    let request = b"GET /web/vendor/subtitles-octopus-worker.wasm HTTP/1.1\r\nhost: x\r\n\r\n";
    let _ = socket.write_all(request).await;
    let _ = tokio::time::timeout(MAX_WAIT, socket.peek(&mut [0])).await.expect("no hang");
    socket
}

/// The beginning of the response on a connection.
async fn response_start(socket: &mut TcpStream) -> String {
    let mut buffer = [0; 512];
    let length = tokio::time::timeout(MAX_WAIT, socket.read(&mut buffer)).await.expect("no hang");
    String::from_utf8_lossy(&buffer[..length.unwrap_or(0)]).into_owned()
}

#[tokio::test]
async fn clients_that_do_not_read_do_not_exhaust_connections() {
    let server = kit::start_server_with(&[], |config| config.limits.connections = 16).await;
    // From here on the server knows this address as one that signed in.
    assert_eq!(server.get("/api/auth/me").send().await.unwrap().status(), 200);
    let mut connections = Vec::new();
    for _ in 0..16 {
        connections.push(connect_without_reading(&server, "127.0.0.2").await);
    }
    let refused = response_start(&mut connect(&server, "127.0.0.2").await).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("\"code\":\"SERVER_BUSY\""), "{refused}");
    let (head, body) = refused.split_once("\r\n\r\n").expect("a whole head");
    let id = head.lines().find_map(|line| line.strip_prefix("x-request-id: ")).expect("an id in the head");
    assert!(id.len() == 16 && body.contains(&format!("\"requestId\":\"{id}\"")), "{refused}");
    let health = || reqwest::get(format!("{}/api/health", server.base));
    assert_eq!(health().await.unwrap().status(), 200, "sixteen connections from one address");
    for _ in 0..16 {
        connections.push(connect_without_reading(&server, "127.0.0.3").await);
    }
    // Three quarters are taken: the rest is for addresses that signed in before.
    assert!(response_start(&mut connect(&server, "127.0.0.4").await).await.starts_with("HTTP/1.1 503 "));
    assert_eq!(health().await.unwrap().status(), 200, "connections from two addresses");
    drop(connections);
    let deadline = Instant::now() + MAX_WAIT;
    while !response_start(&mut connect_without_reading(&server, "127.0.0.4").await).await.starts_with("HTTP/1.1 200 ") {
        assert!(Instant::now() < deadline, "connection slots are released");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn shutdown_finishes_running_responses_and_accepts_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mp4");
    std::fs::write(&film, mp4_bytes(30_000_000)).unwrap();
    let mut config = service_config(&folder.path().join("state"), &folder.path().join("cache"));
    config.roots = vec![Root { id: "r".into(), path: folder.path().to_owned() }];
    let service = Service::open(config).unwrap();
    let token = service.accounts.issue_token("viewer", Role::User).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(hearthcast::http::serve(service, listener, async {
        let _ = stopped.await;
    }));
    let url = format!("http://{address}{}", file_url_of_text(film.to_str().unwrap()));
    let mut answer = reqwest::Client::new().get(url).bearer_auth(token).send().await.unwrap();
    let mut received = answer.chunk().await.unwrap().unwrap().len();
    stop.send(()).unwrap();
    let deadline = Instant::now() + MAX_WAIT;
    while TcpStream::connect(address).await.is_ok() {
        assert!(Instant::now() < deadline, "the server still accepts connections");
        tokio::task::yield_now().await;
    }
    assert!(!serving.is_finished(), "the server waits for the running response");
    while let Some(chunk) = answer.chunk().await.unwrap() {
        received += chunk.len();
    }
    assert_eq!(received, 30_000_000);
    tokio::time::timeout(MAX_WAIT, serving).await.expect("a clean end").unwrap().unwrap();
}

/// This test lasts as long as the server's time limits, 10 s for a body and 15 s for a head.
#[tokio::test]
async fn slow_requests_time_out() {
    let server = kit::start_server(&[]).await;
    let response_to = async |request: &str| {
        let mut socket = TcpStream::connect(server.base.trim_start_matches("http://")).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = socket.read_to_string(&mut answer);
        tokio::time::timeout(MAX_WAIT, read).await.expect("the server closes the connection").unwrap();
        answer
    };
    let login = "POST /api/auth/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"us";
    let (slow_body, slow_head, no_head, idle) = tokio::join!(
        response_to(login),
        response_to("GET /api/health HTTP/1.1\r\nhost: x\r\n"),
        response_to(""),
        response_to("GET /api/health HTTP/1.1\r\nhost: x\r\n\r\n"),
    );
    assert!(slow_body.starts_with("HTTP/1.1 408 ") && slow_body.contains(r#""code":"REQUEST_TIMEOUT""#), "{slow_body}");
    assert!(slow_head.is_empty() || slow_head.starts_with("HTTP/1.1 408 "), "{slow_head}");
    assert!(no_head.is_empty() || no_head.starts_with("HTTP/1.1 408 "), "{no_head}");
    assert!(idle.starts_with("HTTP/1.1 200 ") && idle.matches("HTTP/1.1").count() == 1, "{idle}");
    assert_eq!(server.get("/api/health").send().await.unwrap().status(), 200);
}
