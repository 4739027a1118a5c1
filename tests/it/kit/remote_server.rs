//! A remote HTTP server: the test writes its responses, and it records the requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server on a loopback address; dropping it stops it.
pub struct RemoteServer {
    pub address: SocketAddr,
    request_heads: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl RemoteServer {
    /// Answers each request with the raw bytes, head included, that `respond` returns for its path and query.
    pub async fn serve(host: &str, respond: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let request_heads = Arc::new(Mutex::new(Vec::new()));
        let (heads, answer) = (request_heads.clone(), Arc::new(respond));
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
        Self { address, request_heads, task: serving }
    }

    /// The URL of a path on this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Heads of all requests so far.
    pub fn request_heads(&self) -> Vec<String> {
        self.request_heads.lock().unwrap().clone()
    }
}

impl Drop for RemoteServer {
    fn drop(&mut self) {
        self.task.abort();
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
pub fn redirect(location: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
}
