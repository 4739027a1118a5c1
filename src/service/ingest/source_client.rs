//! The client of an external channel: connects, reads, and reconnects with exponential backoff, trying the fallback
//! addresses in turn.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Ingest;
use super::connection_end::ConnectionEnd;
use super::hls_client::HlsClient;
use super::ingest_input::{FeedEvent, IngestInput, VideoHandling};
use crate::domain::address::Address;
use crate::domain::external::ExternalStream;
use crate::engine::outbound::{OutboundClient, OutboundError, OutboundRequest, OutboundResponse, rtsp};
use crate::engine::worker::message::SrtWork;
use crate::service::Service;

/// The first and the longest pause between two attempts at the whole list of addresses.
const RECONNECT_PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// After a connection of at least this length, the next pause is short again.
const STABLE_AFTER: Duration = Duration::from_secs(4);

/// A response body, by its first bytes.
pub(super) enum SourceBody<'a> {
    /// A stream, and its bytes read so far.
    Stream(Box<OutboundResponse>, Vec<u8>),
    Playlist(Box<HlsClient<'a>>),
}

/// Connects and reconnects until the task is aborted or the receiver is gone.
pub(super) async fn run(service: Weak<Service>, id: u32, ingest: Arc<Ingest>, pieces: mpsc::Sender<FeedEvent>) {
    let (mut address_turn, mut pause, mut video_handling) = (0usize, RECONNECT_PAUSES.0, VideoHandling::default());
    loop {
        // Upgraded per attempt, so that this task does not keep the whole server alive.
        let Some(service) = service.upgrade() else { return };
        let Some(source) = find_source(&service, id) else { return };
        let addresses: Vec<&Address> = std::iter::once(&source.url).chain(&source.failover).collect();
        let address = addresses[address_turn % addresses.len()];
        let connection = {
            let mut state = ingest.lock();
            state.connections += 1;
            state.connections
        };
        let began = Instant::now();
        let mut input = IngestInput::new(&service, connection, &pieces, video_handling);
        let ended = connect(&service, &source, address, &mut input).await;
        drop(input);
        let Err(ended) = ended else { return };
        if pieces.send(FeedEvent::Disconnected).await.is_err() {
            return;
        }
        tracing::info!(channel.id = id, %address, %ended, "connection to a source ended");
        ingest.lock().fault = Some(ended.to_string());
        if matches!(ended, ConnectionEnd::NeedsEncoding) && video_handling != VideoHandling::Encode {
            // Reconnect to the same address at once.
            video_handling = VideoHandling::Encode;
            continue;
        }
        if began.elapsed() >= STABLE_AFTER {
            pause = RECONNECT_PAUSES.0;
        } else {
            address_turn += 1;
        }
        let wait = if address_turn % addresses.len() == 0 || began.elapsed() >= STABLE_AFTER {
            pause
        } else {
            RECONNECT_PAUSES.0
        };
        if address_turn % addresses.len() == 0 {
            pause = (pause * 2).min(RECONNECT_PAUSES.1);
        }
        drop(service);
        tokio::time::sleep(wait).await;
    }
}

fn find_source(service: &Service, id: u32) -> Option<ExternalStream> {
    let channel = service.channels.get(id).ok()?;
    service.check_showing_rights(&channel).ok()?;
    channel.external.as_deref().map(|external| external.stream.clone())
}

/// One connection, from its first byte to its end. Ok only if the receiver is gone.
async fn connect(
    service: &Service,
    source: &ExternalStream,
    address: &Address,
    input: &mut IngestInput<'_>,
) -> Result<(), ConnectionEnd> {
    let outbound = &service.outbound;
    if address.is_srt() {
        let (server, _connection_slot) = outbound.resolve_and_reserve(address).await?;
        let work = SrtWork { server, options: srt_options(address) };
        let mut stream = service.isolation.receive_srt(work).await.map_err(OutboundError::ConnectionFailed)?;
        while !input.feed(&stream.next().await.map_err(OutboundError::ConnectionFailed)?).await? {}
        return Ok(());
    }
    if address.is_rtsp() {
        let to = outbound.resolve_and_reserve(address).await?;
        let mut stream = rtsp::connect(address, to, source.user_agent.as_deref(), rtsp::RtspTimeouts::default());
        while !input.feed(&stream.next().await?).await? {}
        return Ok(());
    }
    match open_body(outbound, source, address).await? {
        SourceBody::Playlist(mut hls) => hls.follow(input).await,
        SourceBody::Stream(mut answer, head) => {
            if input.feed(&head).await? {
                return Ok(());
            }
            while let Some(bytes) = answer.next_chunk().await? {
                if input.feed(&bytes).await? {
                    return Ok(());
                }
            }
            Err(ConnectionEnd::StreamEnded)
        }
    }
}

/// The options of an SRT address. A worker gets them by its socket, so that no list of processes shows a passphrase.
fn srt_options(address: &Address) -> Vec<(String, String)> {
    let pairs = address.full_url().query_pairs();
    let is_option = |name: &str| matches!(name, "streamid" | "passphrase" | "latency" | "pbkeylen");
    pairs.filter(|(name, _)| is_option(name)).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// Requests an address and identifies the body.
async fn open_body<'a>(
    outbound: &'a OutboundClient,
    source: &ExternalStream,
    address: &Address,
) -> Result<SourceBody<'a>, ConnectionEnd> {
    let request = OutboundRequest { user_agent: source.user_agent.clone(), ..OutboundRequest::for_stream() };
    let mut answer = outbound.get(address, &request).await?;
    let mut head = Vec::new();
    while head.len() < 16 {
        match answer.next_chunk().await? {
            Some(bytes) => head.extend_from_slice(&bytes),
            None => break,
        }
    }
    let text = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&head).trim_ascii_start();
    match text.starts_with(b"#EXTM3U") {
        true => Ok(SourceBody::Playlist(Box::new(HlsClient::open(outbound, source, answer, head).await?))),
        false if text.starts_with(b"<") => {
            Err(ConnectionEnd::Unsupported("the server sent a web page instead of a stream"))
        }
        false => Ok(SourceBody::Stream(Box::new(answer), head)),
    }
}
