//! A stream by SRT, received in this process, for servers without worker processes.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::OutboundError;
use crate::domain::address::Address;
use crate::engine::gst::srt::SrtStream;

/// Maximum time without a packet, the first one included.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Parameters of an address that the receiver understands.
const OPTIONS: [&str; 4] = ["streamid", "passphrase", "latency", "pbkeylen"];

/// A running stream. Dropping it closes the connection.
#[derive(Debug)]
pub struct SrtReceiver {
    stream: SrtStream,
    _slot: OwnedSemaphorePermit,
}

/// The options of an SRT address, for [`SrtStream::connect`] in this process or in a worker.
pub fn options_of(address: &Address) -> Vec<(String, String)> {
    let parameters = address.full_url().query_pairs().filter(|(name, _)| OPTIONS.contains(&&**name));
    parameters.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// Connects as a caller to the socket address that `address` was resolved to.
///
/// # Errors
/// `OutboundError::ConnectionFailed` if GStreamer has no `srtsrc`, or if the connection fails at once.
pub async fn connect(
    address: &Address,
    server: SocketAddr,
    slot: OwnedSemaphorePermit,
) -> Result<SrtReceiver, OutboundError> {
    let options = options_of(address);
    // Opening blocks until the server responds.
    let connected = tokio::task::spawn_blocking(move || SrtStream::connect(server, &options)).await;
    let connected = connected.map_err(|fault| OutboundError::ConnectionFailed(fault.to_string()))?;
    Ok(SrtReceiver { stream: connected.map_err(OutboundError::ConnectionFailed)?, _slot: slot })
}

impl SrtReceiver {
    /// The next packets, as many as are queued; the error is why there are no more.
    pub async fn next(&mut self) -> Result<Bytes, OutboundError> {
        let next = timeout(IDLE_TIMEOUT, self.stream.next()).await;
        next.map_err(|_| OutboundError::Timeout("no data received"))?.map_err(OutboundError::ConnectionFailed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_options_of_the_receiver_are_passed_on() {
        let url = "srt://192.0.2.1:9000?passphrase=a%20long%20secret&latency=120&mode=caller&transtype=file&streamid=x";
        let options = options_of(&Address::parse_stream(url).unwrap());
        let expected = [("passphrase", "a long secret"), ("latency", "120"), ("streamid", "x")];
        assert_eq!(options, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
