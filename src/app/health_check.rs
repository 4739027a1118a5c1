//! A health check from outside: whether a server answers a request at an address. For readiness and `hearthcast health`.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::standby::reachable_address;

/// How long the answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// First bytes of an answer that the server is up (RFC 9112, section 4).
const HEALTHY: &[u8] = b"HTTP/1.1 200";

/// Requests `/api/health` from the server that listens on `listen`.
///
/// # Errors
/// Why it is not healthy, for people.
pub async fn check(listen: SocketAddr) -> Result<(), String> {
    let address = reachable_address(listen);
    match tokio::time::timeout(TIMEOUT, read_status(address)).await {
        Ok(Ok(status)) if status == HEALTHY => Ok(()),
        Ok(Ok(status)) => Err(format!("{address} answered {:?}", String::from_utf8_lossy(&status))),
        Ok(Err(cause)) => Err(format!("{address} does not answer: {cause}")),
        Err(_) => Err(format!("{address} did not answer within {} s", TIMEOUT.as_secs())),
    }
}

/// The first bytes of the answer, as many as [`HEALTHY`] has.
async fn read_status(address: SocketAddr) -> std::io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect(address).await?;
    let request = format!("GET /api/health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut status = vec![0; HEALTHY.len()];
    connection.read_exact(&mut status).await?;
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_server_that_answers_200_is_healthy() {
        for (answer, is_healthy) in
            [("HTTP/1.1 200 OK\r\n\r\n", true), ("HTTP/1.1 503 Busy\r\n\r\n", false), ("", false)]
        {
            let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = async {
                let (mut connection, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    connection.read_buf(&mut request).await.unwrap();
                }
                assert!(request.starts_with(b"GET /api/health HTTP/1.1\r\n"));
                connection.write_all(answer.as_bytes()).await.unwrap();
            };
            let (checked, ()) = tokio::join!(check(address), server);
            assert_eq!(checked.is_ok(), is_healthy, "{answer:?}: {checked:?}");
        }
    }
}
