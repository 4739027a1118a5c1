//! A file of the server for ffmpeg: HTTP at a loopback port, with ranges (RFC 9110 section 14).
//!
//! ffmpeg reads open ranges and hangs up, so that an upstream server would send megabytes for nothing. Here they come from the
//! block cache. Other programs of this machine do not know the path, which is random.

use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::block_cache::BlockCache;

/// Largest head of a request, bytes.
const MAX_HEAD_BYTES: usize = 8 << 10;

/// Connections at once: ffmpeg has one, and while it seeks another.
const MAX_CONNECTIONS: usize = 8;

/// Bytes sent ahead of ffmpeg, which hangs up when it has read enough. The system would let them grow to 4 MB.
const SEND_BUFFER_BYTES: usize = 128 << 10;

const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// The server of one file.
pub struct RangeServer {
    listener: TcpListener,
    path: String,
    file: Arc<BlockCache>,
}

impl RangeServer {
    /// # Errors
    /// When no port is free.
    pub async fn bind(file: BlockCache) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        Ok(Self { listener, path: crate::engine::remote::random_id(), file: Arc::new(file) })
    }

    /// The port and the path of the file.
    ///
    /// # Errors
    /// Those of the system.
    pub fn address(&self) -> std::io::Result<(u16, String)> {
        Ok((self.listener.local_addr()?.port(), self.path.clone()))
    }

    /// Serves until it is dropped.
    pub async fn serve(self) {
        let mut connections = JoinSet::new();
        loop {
            while connections.len() >= MAX_CONNECTIONS {
                connections.join_next().await;
            }
            let Ok((connection, _)) = self.listener.accept().await else { return };
            while connections.try_join_next().is_some() {}
            let _ = set_socket_send_buffer_size(&connection, SEND_BUFFER_BYTES);
            let (path, file) = (self.path.clone(), self.file.clone());
            connections.spawn(async move {
                // An error ends the connection; ffmpeg reports it.
                if let Err(reason) = answer(connection, &path, &file).await {
                    tracing::debug!(%reason, "a read of the source ended");
                }
            });
        }
    }
}

/// Answers one request, and closes the connection.
async fn answer(mut connection: TcpStream, path: &str, file: &BlockCache) -> std::io::Result<()> {
    let head = timeout(HEAD_TIMEOUT, read_head(&mut connection)).await.map_err(std::io::Error::other)??;
    let Some(request) = RangeRequest::parse(&head).filter(|request| request.path == path) else {
        return connection.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
    };
    let len = file.len();
    if request.first >= len {
        let head = format!(
            "HTTP/1.1 416 Range Not Satisfiable\r\ncontent-range: bytes */{len}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        return connection.write_all(head.as_bytes()).await;
    }
    let last = request.last.unwrap_or(u64::MAX).min(len - 1);
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\naccept-ranges: bytes\r\ncontent-type: application/octet-stream\r\n\
         content-range: bytes {}-{last}/{len}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        request.first,
        last + 1 - request.first
    );
    connection.write_all(head.as_bytes()).await?;
    let mut offset = request.first;
    while offset <= last {
        let bytes = file.read(offset).await.map_err(std::io::Error::other)?;
        let count = (bytes.len() as u64).min(last + 1 - offset);
        connection.write_all(&bytes[..count as usize]).await?;
        offset += count;
    }
    connection.shutdown().await
}

async fn read_head(connection: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_HEAD_BYTES || connection.read_buf(&mut head).await? == 0 {
            return Err(std::io::Error::other("no request"));
        }
    }
    String::from_utf8(head).map_err(std::io::Error::other)
}

/// A `GET` of a file from a position on.
#[derive(Debug, PartialEq, Eq)]
struct RangeRequest<'a> {
    path: &'a str,
    first: u64,
    last: Option<u64>,
}

impl<'a> RangeRequest<'a> {
    fn parse(head: &'a str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let path = lines.next()?.strip_prefix("GET /")?.strip_suffix(" HTTP/1.1")?;
        let range = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("range").then(|| value.trim())
        });
        let Some(range) = range else { return Some(Self { path, first: 0, last: None }) };
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        let last = if last.is_empty() { None } else { Some(last.parse().ok()?) };
        Some(Self { path, first: first.parse().ok()?, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_ffmpeg_are_understood_and_others_refused() {
        let parse = |range: &str| {
            let head = format!("GET /abc HTTP/1.1\r\nHost: a\r\n{range}\r\n\r\n");
            RangeRequest::parse(&head).map(|request| (request.path.to_owned(), request.first, request.last))
        };
        let expected = |first, last| Some(("abc".to_owned(), first, last));
        assert_eq!(parse("Range: bytes=5-"), expected(5, None));
        assert_eq!(parse("RANGE:bytes=5-9"), expected(5, Some(9)));
        assert_eq!(parse("Accept: */*"), expected(0, None));
        assert_eq!(parse("Range: bytes=-9"), None);
        assert_eq!(parse("Range: items=1-2"), None);
        assert_eq!(RangeRequest::parse("POST /abc HTTP/1.1\r\n\r\n"), None);
    }
}
