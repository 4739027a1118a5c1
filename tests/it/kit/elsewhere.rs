//! A remote HTTP server: the test writes its responses, and it records the requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server on a loopback address; dropping it stops it.
pub struct Elsewhere {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Elsewhere {
    /// Answers each request with the raw bytes, head included, that `answer` returns for its path and query.
    pub async fn serve(on: &str, answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((on, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (heads, answer) = (asked.clone(), Arc::new(answer));
        let serving = tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (heads, answer) = (heads.clone(), answer.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        match socket.read_u8().await {
                            Ok(byte) => head.push(byte),
                            Err(_) => return,
                        }
                    }
                    let head = String::from_utf8_lossy(&head).into_owned();
                    let path = head.split(' ').nth(1).unwrap_or("/").to_owned();
                    heads.lock().unwrap().push(head);
                    let _ = socket.write_all(&answer(&path)).await;
                    let _ = socket.shutdown().await;
                });
            }
        });
        Self { address, asked, serving }
    }

    /// The URL of a path on this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Heads of all requests so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A 200 response with a body.
pub fn ok(content_type: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A 302 redirect.
pub fn moved(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
}
