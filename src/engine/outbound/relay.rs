//! A relay for a client that opens its own connection: the client connects to us, and we connect to the checked address.
//!
//! So the client reaches that one server, whatever the server replies. The relay also limits how many bytes the client may
//! buffer, which the client itself does not.

use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::{CONNECT_TIMEOUT, OutboundError};

const READ_BYTES: usize = 32 << 10;

/// Counts the bytes sent to a client that it has not turned into output yet.
#[derive(Debug, Default)]
pub struct UnparsedBytes {
    count: AtomicU64,
    limit: AtomicU64,
    is_exceeded: AtomicBool,
}

impl UnparsedBytes {
    /// The client produced output, so it buffers next to nothing.
    pub fn reset(&self) {
        self.count.store(0, Ordering::Relaxed);
    }

    /// Resets the count and sets a new limit, bytes.
    pub fn set_limit(&self, limit: u64) {
        self.reset();
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// The limit, if the client was cut off because it exceeded it.
    pub fn exceeded_limit(&self) -> Option<u64> {
        self.is_exceeded.load(Ordering::Relaxed).then(|| self.limit.load(Ordering::Relaxed))
    }
}

/// Connects to the server and waits on loopback for one client, which may buffer `limit` bytes. Returns the port for the
/// client to connect to. The connection ends with the client's and occupies its slot until then.
pub async fn open_relay(
    server_address: SocketAddr,
    limit: u64,
    slot: Arc<OwnedSemaphorePermit>,
) -> std::result::Result<(u16, Arc<UnparsedBytes>), OutboundError> {
    let failed = |cause: std::io::Error| OutboundError::ConnectionFailed(cause.to_string());
    let server = timeout(CONNECT_TIMEOUT, TcpStream::connect(server_address)).await;
    let server =
        server.map_err(|_| OutboundError::Timeout("the server does not accept the connection"))?.map_err(failed)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let unparsed = Arc::new(UnparsedBytes { limit: limit.into(), ..UnparsedBytes::default() });
    let task_unparsed = unparsed.clone();
    tokio::spawn(async move {
        // When either side ends, both are closed.
        let _ = forward(listener, server, &task_unparsed).await;
        drop(slot);
    });
    Ok((port, unparsed))
}

async fn forward(listener: TcpListener, server: TcpStream, unparsed: &UnparsedBytes) -> Result<()> {
    let (client, _) = timeout(CONNECT_TIMEOUT, listener.accept()).await??;
    drop(listener);
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let down = async {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let read = from_server.read(&mut buffer).await?;
            let count = unparsed.count.fetch_add(read as u64, Ordering::Relaxed) + read as u64;
            let is_exceeded = count > unparsed.limit.load(Ordering::Relaxed);
            unparsed.is_exceeded.fetch_or(is_exceeded, Ordering::Relaxed);
            if read == 0 || is_exceeded {
                return Ok(());
            }
            to_client.write_all(&buffer[..read]).await?;
        }
    };
    tokio::select! {
        up = copy(&mut from_client, &mut to_server) => up.map(drop),
        down = down => down,
    }
}
