//! A connection outward for a client that makes its own: it connects to us, and we to where was checked.
//!
//! So it reaches one server and no other, whatever that server says; and what it holds in memory of what it was sent
//! stays below a limit it does not know.

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

/// Bytes a client was given and made nothing of yet.
#[derive(Debug)]
pub struct Held {
    bytes: AtomicU64,
    most: AtomicU64,
    over: AtomicBool,
}

impl Held {
    /// The client gave out what it was at: it holds next to nothing.
    pub fn made(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// From now on it may hold so many.
    pub fn may(&self, most: u64) {
        self.made();
        self.most.store(most, Ordering::Relaxed);
    }

    /// Whether it was cut off because it held too much; how much it may.
    pub fn is_over(&self) -> Option<u64> {
        self.over.load(Ordering::Relaxed).then(|| self.most.load(Ordering::Relaxed))
    }
}

/// Connects to `to`, and waits on loopback for one client, who may hold `most` bytes: its port, for it to call. The
/// connection ends with the client's, and holds the place until then.
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
    let server = server.map_err(|_| Fault::TooSlow("it does not take the connection"))?.map_err(broken)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(broken)?;
    let port = listener.local_addr().map_err(broken)?.port();
    let held = Arc::new(Held { bytes: AtomicU64::new(0), most: AtomicU64::new(most), over: AtomicBool::new(false) });
    let counted = held.clone();
    tokio::spawn(async move {
        // Whichever side ends it, both are closed.
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
