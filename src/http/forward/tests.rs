use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::*;

/// A standby on a free port, and what decides about it.
struct TestStandby {
    address: String,
    active: watch::Sender<ActiveServer>,
    /// Dropping it stops the standby.
    _stop: oneshot::Sender<()>,
}

impl TestStandby {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (active, receiver) = watch::channel(ActiveServer::default());
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            let replica = CurrentReplica::new(Config::default());
            serve(&Config::default(), listener, receiver, replica, std::future::pending(), stopped).await.unwrap();
        });
        Self { address, active, _stop: stop }
    }

    fn set_active(&self, address: &str) {
        let keys = Arc::new(vec![[7; 32]]);
        self.active.send_replace(ActiveServer { address: Some(address.to_owned()), is_this: false, keys });
    }

    /// The whole response to a request, whose connection is closed afterwards.
    async fn send(&self, head: &str, body: &str) -> String {
        let mut socket = TcpStream::connect(&self.address).await.unwrap();
        let length = body.len();
        let request =
            format!("{head} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        socket.read_to_string(&mut response).await.unwrap();
        response
    }
}

/// A server that closes its first `failing` connections once it has read a request, and answers on the others with the
/// request; returns its address and the number of connections.
async fn start_active(failing: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, count) = (listener.local_addr().unwrap().to_string(), Arc::new(AtomicUsize::new(0)));
    let connections = count.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let number = connections.fetch_add(1, Ordering::Relaxed);
            let mut request = vec![0; 8192];
            let length = socket.read(&mut request).await.unwrap();
            if number >= failing {
                let text = String::from_utf8_lossy(&request[..length]).into_owned();
                let response =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nx-request-id: its\r\n\r\n{text}", text.len());
                socket.write_all(response.as_bytes()).await.unwrap();
            }
        }
    });
    (address, count)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_active_server_requests_get_503_and_health_is_answered() {
    let standby = TestStandby::start().await;
    let response = standby.send("GET /api/health", "").await;
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with(r#"{"status":"standby"}"#), "{response}");
    // Not known, refused, and itself: an old address must not make a loop.
    let (refused, itself) = ("127.0.0.1:1".to_owned(), standby.address.clone());
    for active in [None, Some(refused), Some(itself)] {
        if let Some(active) = active {
            standby.set_active(&active);
        }
        for (head, body) in [("GET /a", ""), ("POST /a", "{}")] {
            let began = Instant::now();
            let response = standby.send(head, body).await;
            assert!(response.starts_with("HTTP/1.1 503"), "{response}");
            assert!(response.contains("SERVER_BUSY") && response.contains("retry-after: 2"), "{response}");
            assert!(began.elapsed() < HOLD_TIMEOUT * 5, "{:?}", began.elapsed());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_repeated_and_changes_are_not() {
    let standby = TestStandby::start().await;
    let (active, count) = start_active(1).await;
    standby.set_active(&active);
    let response = standby.send("GET /a?b=%20c", "").await;
    assert!(response.starts_with("HTTP/1.1 200") && response.contains("x-request-id: its"), "{response}");
    assert!(response.contains("GET /a?b=%20c HTTP/1.1\r\n") && response.contains("host: a\r\n"), "{response}");
    assert!(response.contains("x-hearthcast-client: 127.0.0.1 ") && response.contains("x-forwarded-for: 127.0.0.1"));
    assert_eq!(count.load(Ordering::Relaxed), 2);

    let (active, count) = start_active(1).await;
    standby.set_active(&active);
    let response = standby.send("POST /a", "{}").await;
    assert!(response.starts_with("HTTP/1.1 500") && response.contains("is unknown: check"), "{response}");
    assert_eq!(count.load(Ordering::Relaxed), 1);
    let response = standby.send("POST /a", "{}").await;
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("\r\n\r\n{}"), "{response}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_request_is_passed_on_to_the_new_active_server() {
    let standby = TestStandby::start().await;
    let (active, _) = start_active(0).await;
    let become_active = async {
        tokio::time::sleep(HOLD_TIMEOUT / 4).await;
        standby.set_active(&active);
    };
    let (response, ()) = tokio::join!(standby.send("POST /a", "{}"), become_active);
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
}

#[test]
fn an_address_gives_host_and_port() {
    for (address, expected) in [
        ("http://10.0.0.2:8470", Some("10.0.0.2:8470")),
        ("http://[fd00::1]:8470", Some("[fd00::1]:8470")),
        ("http://tv.example", Some("tv.example:80")),
        ("https://tv.example", None),
        ("", None),
    ] {
        assert_eq!(host_and_port(address).as_deref(), expected, "{address}");
    }
}
