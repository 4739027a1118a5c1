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

use super::{CONNECT, Fault};

const READ_BYTES: usize = 32 << 10;

/// Counts the bytes sent to a client that it has not turned into output yet.
#[derive(Debug)]
pub struct Held {
    bytes: AtomicU64,
    most: AtomicU64,
    over: AtomicBool,
}

impl Held {
    /// The client produced output, so it buffers next to nothing.
    pub fn made(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Resets the count and sets a new limit, bytes.
    pub fn may(&self, most: u64) {
        self.made();
        self.most.store(most, Ordering::Relaxed);
    }

    /// The limit, if the client was cut off because it exceeded it.
    pub fn is_over(&self) -> Option<u64> {
        self.over.load(Ordering::Relaxed).then(|| self.most.load(Ordering::Relaxed))
    }
}

/// Connects to `to` and waits on loopback for one client, which may buffer `most` bytes. Returns the port for the client
/// to connect to. The connection ends with the client's and occupies its slot until then.
///
/// # Errors
/// `Fault::TooSlow`, `Fault::Broken`.
pub async fn open(
    to: SocketAddr,
    most: u64,
    place: Arc<OwnedSemaphorePermit>,
) -> std::result::Result<(u16, Arc<Held>), Fault> {
    let broken = |cause: std::io::Error| Fault::Broken(cause.to_string());
    let server = timeout(CONNECT, TcpStream::connect(to)).await;
    let server = server.map_err(|_| Fault::TooSlow("the server does not accept the connection"))?.map_err(broken)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(broken)?;
    let port = listener.local_addr().map_err(broken)?.port();
    let held = Arc::new(Held { bytes: AtomicU64::new(0), most: AtomicU64::new(most), over: AtomicBool::new(false) });
    let counted = held.clone();
    tokio::spawn(async move {
        // When either side ends, both are closed.
        let _ = pass(listener, server, &counted).await;
        drop(place);
    });
    Ok((port, held))
}

async fn pass(listener: TcpListener, server: TcpStream, held: &Held) -> Result<()> {
    let (client, _) = timeout(CONNECT, listener.accept()).await??;
    drop(listener);
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let down = async {
        let mut bytes = vec![0; READ_BYTES];
        loop {
            let read = from_server.read(&mut bytes).await?;
            let now = held.bytes.fetch_add(read as u64, Ordering::Relaxed) + read as u64;
            let over = now > held.most.load(Ordering::Relaxed);
            held.over.fetch_or(over, Ordering::Relaxed);
            if read == 0 || over {
                return Ok(());
            }
            to_client.write_all(&bytes[..read]).await?;
        }
    };
    tokio::select! {
        up = copy(&mut from_client, &mut to_server) => up.map(drop),
        down = down => down,
    }
}
