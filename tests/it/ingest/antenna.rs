//! An external source: an MPEG transport stream sent in real time, whose connections can be cut.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::kit::film;

/// A source of an MPEG transport stream over HTTP. Dropping it stops it.
pub struct Antenna {
    address: SocketAddr,
    state: Arc<State>,
    serving: tokio::task::JoinHandle<()>,
}

struct State {
    /// Connections accepted so far, and those that are open.
    made: AtomicUsize,
    open: AtomicUsize,
    /// Whether connections are refused.
    off: AtomicBool,
    cut: watch::Sender<u64>,
}

impl Antenna {
    /// Sends a film of `seconds` seconds on each connection.
    pub async fn of(film: &Path, seconds: u32) -> Self {
        let bytes: Arc<[u8]> = std::fs::read(film).unwrap().into();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            made: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            off: AtomicBool::new(false),
            cut: watch::channel(0).0,
        });
        let theirs = state.clone();
        let serving = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                if !theirs.off.load(Ordering::SeqCst) {
                    tokio::spawn(send(socket, bytes.clone(), seconds, theirs.clone()));
                }
            }
        });
        Self { address, state, serving }
    }

    pub fn url(&self) -> String {
        format!("http://{}/live/secret/1.ts", self.address)
    }

    pub fn made(&self) -> usize {
        self.state.made.load(Ordering::SeqCst)
    }

    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    /// Cuts every connection and refuses new ones until [`Self::on`].
    pub fn off(&self) {
        self.state.off.store(true, Ordering::SeqCst);
        self.state.cut.send_modify(|cuts| *cuts += 1);
    }

    pub fn on(&self) {
        self.state.off.store(false, Ordering::SeqCst);
    }
}

impl Drop for Antenna {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn send(mut socket: TcpStream, film: Arc<[u8]>, seconds: u32, state: Arc<State>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match socket.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    state.made.fetch_add(1, Ordering::SeqCst);
    state.open.fetch_add(1, Ordering::SeqCst);
    let mut cut = state.cut.subscribe();
    let stream = async {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: video/mp2t\r\nconnection: close\r\n\r\n";
        socket.write_all(head.as_bytes()).await?;
        let (began, rate) = (Instant::now(), film.len() as f64 / f64::from(seconds));
        let mut sent = 0;
        while sent < film.len() {
            // Like a broadcast: whole packets, not before their time.
            let due = ((began.elapsed().as_secs_f64() + 0.2) * rate) as usize / 188 * 188;
            let due = due.min(film.len());
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
        _ = cut.changed() => {}
    }
    state.open.fetch_sub(1, Ordering::SeqCst);
}

/// Makes a transport stream with a keyframe every second.
pub fn film(path: &Path, seconds: u32) {
    film::flash_and_beep(path, seconds, "-c:v libx264 -preset ultrafast -g 25 -bf 2 -c:a aac -f mpegts");
}
