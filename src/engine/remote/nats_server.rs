//! How a nats-server introduces itself, for diagnostics: the first line of a connection (INFO of the NATS client protocol), which needs
//! no login.

use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

/// Port of nats-server, where an address states none.
pub const DEFAULT_PORT: u16 = 4222;

/// Time limit of connection and line.
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// Longest line that is read, bytes.
const MAX_INFO_BYTES: u64 = 64 << 10;

/// A nats-server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NatsServer {
    pub version: String,
    /// Whether it has JetStream.
    #[serde(default)]
    pub jetstream: bool,
    /// Whether it checks who connects.
    #[serde(default)]
    pub auth_required: bool,
}

impl NatsServer {
    /// The server at an address such as `nats://127.0.0.1:4222`.
    ///
    /// # Errors
    /// When nothing answers in 3 s, or something that is no nats-server; for people.
    pub async fn at(address: &str) -> Result<Self, String> {
        let read = async {
            let url = Url::parse(address).map_err(|cause| cause.to_string())?;
            let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
            let connection = TcpStream::connect((host, url.port().unwrap_or(DEFAULT_PORT))).await;
            let mut lines = BufReader::new(connection.map_err(|cause| cause.to_string())?.take(MAX_INFO_BYTES));
            let mut line = String::new();
            lines.read_line(&mut line).await.map_err(|cause| cause.to_string())?;
            Self::from_info(&line).ok_or_else(|| "this is no nats-server".to_owned())
        };
        timeout(TIME_LIMIT, read).await.map_err(|_| "no answer in 3 s".to_owned())?
    }

    fn from_info(line: &str) -> Option<Self> {
        serde_json::from_str(line.strip_prefix("INFO ")?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_what_it_is() {
        let server = |jetstream, auth_required| NatsServer { version: "2.9.10".into(), jetstream, auth_required };
        let parse = NatsServer::from_info;
        assert_eq!(parse("INFO {\"version\":\"2.9.10\"}\r\n"), Some(server(false, false)));
        let line = "INFO {\"version\":\"2.9.10\",\"jetstream\":true,\"auth_required\":true,\"nonce\":\"x\"} \r\n";
        assert_eq!(parse(line), Some(server(true, true)));
        assert_eq!(parse("220 mail.example ESMTP\r\n"), None);
        assert_eq!(parse(""), None);
    }
}
