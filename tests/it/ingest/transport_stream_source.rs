//! An external source: an MPEG transport stream sent in real time, whose connections can be cut.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::kit::media;

/// Length of the film of most tests: longer than they wait for anything, so that the source does not end before them.
pub const FILM_SECONDS: u32 = 200;

/// A source of an MPEG transport stream over HTTP. Dropping it stops it.
pub struct TransportStreamSource {
    address: SocketAddr,
    state: Arc<SourceState>,
    task: tokio::task::JoinHandle<()>,
}

struct SourceState {
    /// Connections accepted so far, and those that are open.
    accepted_connections: AtomicUsize,
    open_connections: AtomicUsize,
    /// Whether connections are refused.
    is_off: AtomicBool,
    disconnect: watch::Sender<u64>,
}

impl TransportStreamSource {
    /// Sends a film of `seconds` seconds on each connection.
    pub async fn start(film: &Path, seconds: u32) -> Self {
        let bytes: Arc<[u8]> = std::fs::read(film).unwrap().into();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(SourceState {
            accepted_connections: AtomicUsize::new(0),
            open_connections: AtomicUsize::new(0),
            is_off: AtomicBool::new(false),
            disconnect: watch::channel(0).0,
        });
        let task_state = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                if !task_state.is_off.load(Ordering::SeqCst) {
                    tokio::spawn(send_film(socket, bytes.clone(), seconds, task_state.clone()));
                }
            }
        });
        Self { address, state, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}/live/secret/1.ts", self.address)
    }

    pub fn accepted_connections(&self) -> usize {
        self.state.accepted_connections.load(Ordering::SeqCst)
    }

    pub fn open_connections(&self) -> usize {
        self.state.open_connections.load(Ordering::SeqCst)
    }

    /// Cuts every connection and refuses new ones until [`Self::switch_on`].
    pub fn switch_off(&self) {
        self.state.is_off.store(true, Ordering::SeqCst);
        self.state.disconnect.send_modify(|cuts| *cuts += 1);
    }

    pub fn switch_on(&self) {
        self.state.is_off.store(false, Ordering::SeqCst);
    }
}

impl Drop for TransportStreamSource {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn send_film(mut socket: TcpStream, film: Arc<[u8]>, seconds: u32, state: Arc<SourceState>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match socket.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    state.accepted_connections.fetch_add(1, Ordering::SeqCst);
    state.open_connections.fetch_add(1, Ordering::SeqCst);
    let mut disconnected = state.disconnect.subscribe();
    let stream = async {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: video/mp2t\r\nconnection: close\r\n\r\n";
        socket.write_all(head.as_bytes()).await?;
        let (started, rate) = (Instant::now(), film.len() as f64 / f64::from(seconds));
        let mut sent = 0;
        while sent < film.len() {
            // Like a broadcast: whole packets, not before their time.
            let due_bytes = ((started.elapsed().as_secs_f64() + 0.2) * rate) as usize / 188 * 188;
            let due = due_bytes.min(film.len());
            if due > sent {
                socket.write_all(&film[sent..due]).await?;
                sent = due;
            }
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        Ok::<_, std::io::Error>(())
    };
    tokio::select! {
        _ = stream => {}
        _ = disconnected.changed() => {}
    }
    state.open_connections.fetch_sub(1, Ordering::SeqCst);
}

/// Makes a transport stream of [`FILM_SECONDS`] with a keyframe every second.
pub fn make_transport_stream(path: &Path) {
    media::flash_and_beep(path, FILM_SECONDS, "-c:v libx264 -preset ultrafast -g 25 -bf 2 -c:a aac -f mpegts");
}
