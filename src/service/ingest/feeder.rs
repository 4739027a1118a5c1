//! The client of an external channel: connects, reads, and reconnects with exponential backoff, trying the fallback
//! addresses in turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Ingest;
use super::hls::Hls;
use super::intake::{Intake, Verdict};
use crate::domain::address::Address;
use crate::domain::external::{ExternalChannel, ExternalStream};
use crate::domain::ingest::live_segmenter::IngestSegment;
use crate::engine::outbound::{OutboundResponse, OutboundRequest, OutboundError, rtsp, srt};
use crate::service::Service;

/// The first and the longest pause between two attempts at the whole list of addresses.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// After a connection of at least this length, the next pause is short again.
const GOOD: Duration = Duration::from_secs(4);

/// Events from the source client.
pub(super) enum Fed {
    /// A piece, with the number of its connection (the first is 1).
    Piece(u64, IngestSegment),
    /// The connection to the source has ended.
    Gone,
}

/// A response body, by its first bytes.
pub(super) enum Body {
    /// A stream, and its bytes read so far.
    Stream(Box<OutboundResponse>, Vec<u8>),
    Playlist(Box<Hls>),
}

/// Why a connection ended; the messages contain no address.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("{0}")]
    Fetch(#[from] OutboundError),
    #[error("{0}")]
    Unfit(&'static str),
    #[error("{0}")]
    Made(String),
    #[error("the stream ended")]
    Over,
    #[error("its video must be encoded")]
    Encode,
}

/// Connects and reconnects until the task is aborted or the receiver is gone.
pub(super) async fn run(service: Arc<Service>, id: u32, ingest: Arc<Ingest>, pieces: mpsc::Sender<Fed>) {
    // Upgraded per attempt, so that this task does not keep the whole server alive.
    let service = Arc::downgrade(&service);
    let (mut turn, mut pause, mut verdict) = (0usize, PAUSE.0, Verdict::default());
    loop {
        let Some(service) = service.upgrade() else { return };
        let Some(feed) = feed(&service, id) else { return };
        let addresses: Vec<&Address> = std::iter::once(&feed.url).chain(&feed.failover).collect();
        let address = addresses[turn % addresses.len()];
        let connection = {
            let mut state = ingest.lock();
            state.connections += 1;
            state.connections
        };
        let began = Instant::now();
        let mut intake = Intake::new(&service, connection, &pieces, verdict);
        let ended = connect(&service, &feed, address, &mut intake).await;
        drop(intake);
        let Err(ended) = ended else { return };
        if pieces.send(Fed::Gone).await.is_err() {
            return;
        }
        tracing::info!(channel.id = id, %address, %ended, "connection to a source ended");
        ingest.lock().fault = Some(ended.to_string());
        if matches!(ended, Ended::Encode) && verdict != Verdict::Encode {
            // Reconnect to the same address at once.
            verdict = Verdict::Encode;
            continue;
        }
        if began.elapsed() >= GOOD {
            pause = PAUSE.0;
        } else {
            turn += 1;
        }
        let wait = if turn % addresses.len() == 0 || began.elapsed() >= GOOD { pause } else { PAUSE.0 };
        if turn % addresses.len() == 0 {
            pause = (pause * 2).min(PAUSE.1);
        }
        drop(service);
        tokio::time::sleep(wait).await;
    }
}

fn feed(service: &Service, id: u32) -> Option<ExternalStream> {
    let channel = service.channels.get(id).ok()?;
    service.check_showing_rights(&channel).ok()?;
    channel.external.as_deref().map(|ExternalChannel { stream: feed, .. }| feed.clone())
}

/// One connection, from its first byte to its end. Ok only if the receiver is gone.
async fn connect(service: &Arc<Service>, feed: &ExternalStream, address: &Address, intake: &mut Intake<'_>) -> Result<(), Ended> {
    if address.is_srt() {
        let (to, place) = service.outbound.resolve_and_reserve(address).await?;
        let mut stream = srt::connect(address, to, place).await?;
        while !intake.put(&stream.next().await?).await? {}
        return Ok(());
    }
    if address.is_rtsp() {
        let to = service.outbound.resolve_and_reserve(address).await?;
        let mut stream = rtsp::connect(address, to, feed.user_agent.as_deref(), rtsp::RtspTimeouts::default());
        while !intake.put(&stream.next().await?).await? {}
        return Ok(());
    }
    match open(service, feed, address).await? {
        Body::Playlist(mut hls) => hls.follow(service, intake).await,
        Body::Stream(mut answer, head) => {
            if intake.put(&head).await? {
                return Ok(());
            }
            while let Some(bytes) = answer.next_chunk().await? {
                if intake.put(&bytes).await? {
                    return Ok(());
                }
            }
            Err(Ended::Over)
        }
    }
}

/// Requests an address and identifies the body.
async fn open(service: &Arc<Service>, feed: &ExternalStream, address: &Address) -> Result<Body, Ended> {
    let ask = OutboundRequest { user_agent: feed.user_agent.clone(), ..OutboundRequest::for_stream() };
    let mut answer = service.outbound.get(address, &ask).await?;
    let mut head = Vec::new();
    while head.len() < 16 {
        match answer.next_chunk().await? {
            Some(bytes) => head.extend_from_slice(&bytes),
            None => break,
        }
    }
    let text = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&head).trim_ascii_start();
    match text.starts_with(b"#EXTM3U") {
        true => Ok(Body::Playlist(Box::new(Hls::begin(service, feed, answer, head).await?))),
        false if text.starts_with(b"<") => Err(Ended::Unfit("the server sent a web page instead of a stream")),
        false => Ok(Body::Stream(Box::new(answer), head)),
    }
}
