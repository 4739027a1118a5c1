//! Ingest of external channels: one outbound connection and one timeline per channel, for any number of viewers.
//!
//! An ingest starts with the first viewer of a channel and ends some time after the last one left. `source_client`
//! fetches and sends pieces; the task here puts them on the timeline, or a slate if none arrive.
#![doc = include_str!("README.md")]

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::domain::audio_layout::AudioLayout;
use crate::domain::channel::Channel;
use crate::domain::external::ExternalStream;
use crate::domain::ingest::live_segmenter::IngestSegment;
use crate::domain::ingest::timeline::{ExternalTimeline, SLATE_DURATION, SegmentOrigin};
use crate::domain::live_window::LiveSegment;
use crate::domain::mpegts::channel_timeline::{TimelineSpan, place_on_timeline};
use crate::domain::time::{ChannelMs, Ticks};
use crate::error::{Code, Error, Result};
use crate::service::Service;

mod connection_end;
mod hls_client;
mod ingest_input;
mod source_client;

use ingest_input::FeedEvent;

/// How often the timeline is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Most ingests at once.
const MAX_INGESTS: usize = 64;

/// Most pieces that wait for their time; further ones hold back the source.
const MAX_WAITING_PIECES: usize = 8;

/// Most bytes of one channel's segments: a minute beyond its playlist at 12 Mbit/s.
const MAX_CHANNEL_BYTES: usize = 128 << 20;

/// Most bytes of all channels' segments, except for one segment each. Beyond it, a channel with more than an even share
/// keeps less catch-up. At three quarters, no further ingest starts.
const MAX_TOTAL_BYTES: usize = 512 << 20;

/// All ingests.
#[derive(Default)]
pub struct Ingests {
    by_channel: Mutex<HashMap<u32, Arc<Ingest>>>,
    /// Bytes of the segments of all ingests.
    total_bytes: Arc<AtomicUsize>,
}

/// Start, end and audio frame time of a slate.
const SLATE_TIMES: [Ticks; 3] = [Ticks::ZERO, SLATE_DURATION, Ticks::ZERO];

/// The ingest of one channel.
pub struct Ingest {
    state: Mutex<IngestState>,
    /// Bytes of the segments of all ingests.
    total_bytes: Arc<AtomicUsize>,
}

struct IngestState {
    timeline: ExternalTimeline,
    /// The end of the last segment and of its audio, since 1970.
    last_ends: Option<(Ticks, Ticks)>,
    /// Oldest first.
    segments: VecDeque<TimelineSegment>,
    size_bytes: usize,
    /// Outbound connections so far, and why the last one ended.
    connections: u64,
    fault: Option<String>,
}

impl IngestState {
    /// Start of the oldest segment in memory. Earlier segments were evicted; later ones may still be in production.
    fn oldest_ms(&self) -> ChannelMs {
        self.segments.front().map_or(ChannelMs::MIN, |oldest| oldest.start_ms)
    }
}

struct TimelineSegment {
    start_ms: ChannelMs,
    bytes: Bytes,
    /// Whether a slate replaces the source.
    is_slate: bool,
}

/// Health of an ingest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestHealth {
    pub connections: u64,
    pub fault: Option<String>,
    /// Whether the latest segment came from the source; otherwise it is a slate.
    pub shows_source: bool,
    pub buffered_bytes: usize,
}

impl Ingests {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<Ingest>>> {
        self.by_channel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, channel: u32) -> Option<Arc<Ingest>> {
        self.lock().get(&channel).cloned()
    }

    /// Health of a channel's ingest; None if it has none.
    pub fn health(&self, channel: u32) -> Option<IngestHealth> {
        let ingest = self.get(channel)?;
        let state = ingest.lock();
        Some(IngestHealth {
            connections: state.connections,
            fault: state.fault.clone(),
            shows_source: state.timeline.shows_source(),
            buffered_bytes: state.size_bytes,
        })
    }
}

impl Ingest {
    fn new(start: Ticks, total_bytes: Arc<AtomicUsize>) -> Self {
        let state = IngestState {
            timeline: ExternalTimeline::new(start),
            last_ends: None,
            segments: VecDeque::new(),
            size_bytes: 0,
            connections: 0,
            fault: None,
        };
        Self { state: Mutex::new(state), total_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, IngestState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an interval of a stream on the timeline. All but `now` are times on the stream's own clock.
    fn place(&self, origin: SegmentOrigin, [start, end, base]: [Ticks; 3], now: Ticks) -> (LiveSegment, TimelineSpan) {
        let (mut state, from, to) = (self.lock(), start - base, end - base);
        let segment = state.timeline.append(origin, to - from, now);
        let previous_audio_end = state.last_ends.filter(|(end, _)| *end == segment.start).map(|(_, audio)| audio);
        let span = TimelineSpan {
            item_start: from,
            item_end: to,
            starts_item: from == Ticks::ZERO,
            ends_item: origin == SegmentOrigin::Slate,
            base_timestamp: base,
            item_offset: Ticks::ZERO,
            channel_origin: segment.start - from,
            previous_audio_end,
            audio_layout: AudioLayout::Stereo,
        };
        state.last_ends = Some((segment.end, span.audio_end()));
        (segment, span)
    }

    /// The first segment in memory that satisfies the predicate, and whether it is a slate.
    fn next(&self, accepts: impl Fn(&LiveSegment) -> bool) -> Option<(LiveSegment, Bytes, bool)> {
        let state = self.lock();
        let oldest_ms = state.oldest_ms();
        let segment = state.timeline.find_segment(|one| one.programme_start_ms >= oldest_ms && accepts(one))?;
        let stored = state.segments.iter().find(|stored| stored.start_ms == segment.programme_start_ms)?;
        Some((segment, stored.bytes.clone(), stored.is_slate))
    }

    /// Stores a segment and evicts old ones and those that exceed the memory. `channel_count` channels share it.
    fn store_segment(&self, segment: TimelineSegment, channel_count: usize) {
        let mut state = self.lock();
        let size_bytes = segment.bytes.len();
        state.size_bytes += size_bytes;
        let mut total_bytes = self.total_bytes.fetch_add(size_bytes, Ordering::Relaxed) + size_bytes;
        state.segments.push_back(segment);
        let evicted_through_ms = state.timeline.prune(6).last().map_or(ChannelMs::MIN, |last| last.programme_start_ms);
        while state.segments.front().is_some_and(|oldest| oldest.start_ms <= evicted_through_ms)
            || exceeds_memory(state.size_bytes, total_bytes, channel_count)
        {
            let Some(oldest) = state.segments.pop_front() else { break };
            let size_bytes = oldest.bytes.len();
            state.size_bytes -= size_bytes;
            total_bytes = self.total_bytes.fetch_sub(size_bytes, Ordering::Relaxed) - size_bytes;
        }
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        self.total_bytes.fetch_sub(self.lock().size_bytes, Ordering::Relaxed);
    }
}

/// The task that fetches a source, and its pieces. Dropping it ends the task.
struct Client {
    /// The addresses when the task was started.
    stream: ExternalStream,
    events: mpsc::Receiver<FeedEvent>,
    task: JoinHandle<()>,
}

impl Client {
    fn start(service: &Arc<Service>, id: u32, ingest: &Arc<Ingest>, stream: ExternalStream) -> Self {
        let (pieces, events) = mpsc::channel(MAX_WAITING_PIECES);
        let task = service.tasks.spawn(source_client::run(Arc::downgrade(service), id, ingest.clone(), pieces));
        Self { stream, events, task }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether a channel exceeds its share of the memory.
fn exceeds_memory(channel_bytes: usize, total_bytes: usize, channel_count: usize) -> bool {
    channel_bytes > MAX_CHANNEL_BYTES
        || total_bytes > MAX_TOTAL_BYTES && channel_bytes > MAX_TOTAL_BYTES / channel_count.max(1)
}

/// Starts the ingest of a channel unless it runs. Must be called inside the runtime.
///
/// # Errors
/// `RIGHTS_WITHDRAWN`; `SERVER_BUSY` if too many ingests run.
pub fn start_ingest(service: &Arc<Service>, channel: &Channel) -> Result<()> {
    service.check_showing_rights(channel)?;
    let mut all = service.ingests.lock();
    let Some(external) = channel.external.as_deref().filter(|_| !all.contains_key(&channel.id)) else {
        return Ok(());
    };
    let total_bytes = service.ingests.total_bytes.load(Ordering::Relaxed);
    if all.len() >= MAX_INGESTS || total_bytes >= MAX_TOTAL_BYTES / 4 * 3 {
        return Err(Error::new(Code::ServerBusy, "too many external channels are being watched").with_retry_after(10));
    }
    let ingest = Arc::new(Ingest::new(now_ticks(service), service.ingests.total_bytes.clone()));
    all.insert(channel.id, ingest.clone());
    let client = Client::start(service, channel.id, &ingest, external.stream.clone());
    let (weak_service, id) = (Arc::downgrade(service), channel.id);
    service.tasks.spawn(async move {
        let upgrade = || weak_service.upgrade();
        run_timeline(upgrade, id, &ingest, client).await;
        if let Some(service) = weak_service.upgrade() {
            service.ingests.lock().remove(&id);
        }
    });
    Ok(())
}

/// The present playlist window of a channel.
pub fn playlist_window(service: &Service, channel: &Channel) -> Arc<[LiveSegment]> {
    let Some(ingest) = service.ingests.get(channel.id) else { return Arc::default() };
    let state = ingest.lock();
    let mut segments = state.timeline.window(channel.output.target_seconds);
    // Evicted segments are not listed; one that is still being made is.
    let oldest_ms = state.oldest_ms();
    segments.retain(|segment| segment.programme_start_ms >= oldest_ms);
    segments.into()
}

/// A segment by its start.
pub fn find_segment(service: &Service, channel: &Channel, start_ms: ChannelMs) -> Option<Bytes> {
    let ingest = service.ingests.get(channel.id)?;
    let state = ingest.lock();
    state.segments.iter().rev().find(|segment| segment.start_ms == start_ms).map(|segment| segment.bytes.clone())
}

/// The first segment in memory that satisfies `accepts`, and whether it is a slate.
pub fn next_segment(
    service: &Service,
    channel: &Channel,
    accepts: impl Fn(&LiveSegment) -> bool,
) -> Option<(LiveSegment, Bytes, bool)> {
    service.ingests.get(channel.id)?.next(accepts)
}

/// Now, since 1970.
fn now_ticks(service: &Service) -> Ticks {
    ChannelMs::without_clock(service.clock.now_ms()).to_ticks()
}

/// Puts pieces on the timeline until the channel has had no viewer for `ingest_linger`.
async fn run_timeline(upgrade: impl Fn() -> Option<Arc<Service>>, id: u32, ingest: &Arc<Ingest>, mut client: Client) {
    let Some(mut rights) = upgrade().map(|service| service.rights_changes.subscribe()) else { return };
    let (mut waiting_event, mut is_disconnected) = (None, false);
    let mut last_needed = Instant::now();
    loop {
        let Some(service) = upgrade() else { return };
        let Ok(channel) = service.channels.get(id) else { return };
        let external = channel.external.as_deref().filter(|_| service.check_showing_rights(&channel).is_ok());
        let Some(external) = external else { return };
        if client.stream != external.stream {
            tracing::info!(channel.id = id, "the source of an external channel changed: connecting to the new one");
            client = Client::start(&service, id, ingest, external.stream.clone());
            (waiting_event, is_disconnected) = (None, true);
        }
        let viewers = &service.viewers;
        let is_always_on = channel.settings.always_on && channel.settings.enabled;
        if is_always_on || viewers.viewer_count(id) > 0 || viewers.warm_channels().contains(&id) {
            last_needed = Instant::now();
        }
        if last_needed.elapsed() >= service.config.limits.ingest_linger {
            tracing::info!(channel.id = id, "ingest ended: the external channel has no viewers");
            return;
        }
        let now = now_ticks(&service);
        let is_due = ingest.lock().timeline.is_due(now);
        match waiting_event.take() {
            Some(FeedEvent::Piece(connection, piece)) if is_due => {
                is_disconnected = false;
                let origin = SegmentOrigin::Source { connection, format: piece.format };
                air_piece(&service, &channel, ingest, origin, Some(piece), now).await;
                continue;
            }
            Some(FeedEvent::Disconnected) => is_disconnected = true,
            other => waiting_event = other,
        }
        if waiting_event.is_none() && ingest.lock().timeline.needs_slate(now, is_disconnected) {
            air_piece(&service, &channel, ingest, SegmentOrigin::Slate, None, now).await;
            continue;
        }
        drop((service, channel));
        tokio::select! {
            next = client.events.recv(), if waiting_event.is_none() => match next {
                Some(next) => waiting_event = Some(next),
                None => return,
            },
            Ok(()) = rights.changed() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

/// Puts a piece on the timeline, or a slate if no piece is given.
async fn air_piece(
    service: &Service,
    channel: &Channel,
    ingest: &Ingest,
    origin: SegmentOrigin,
    piece: Option<IngestSegment>,
    now: Ticks,
) {
    let still = match service.slates.default_slate(service, channel).await {
        Ok(still) => still,
        Err(fault) if piece.is_none() => {
            tracing::warn!(%fault, "no slate is available");
            tokio::time::sleep(Duration::from_secs(1)).await;
            return;
        }
        Err(_) => Arc::default(),
    };
    let times = piece.as_ref().map_or(SLATE_TIMES, |piece| [piece.start, piece.end, piece.audio_frame_time]);
    let (live, span) = ingest.place(origin, times, now);
    let segment_task = tokio::task::spawn_blocking(move || {
        let bytes = piece.map_or_else(Vec::new, |new| if new.is_first { new.drop_undecodable() } else { new.bytes });
        place_on_timeline(&bytes, span, &still)
    });
    let Ok(bytes) = segment_task.await else { return };
    let segment = TimelineSegment {
        start_ms: live.programme_start_ms,
        bytes: bytes.into(),
        is_slate: origin == SegmentOrigin::Slate,
    };
    ingest.store_segment(segment, service.ingests.lock().len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_fell_back_continues_at_the_oldest_segment_in_memory() {
        let start = Ticks::from_ms(1_767_225_600_000);
        let ingest = Ingest::new(start, Arc::default());
        // Three segments fill the memory of a channel, so the first of four is evicted. They share one buffer.
        let bytes: Bytes = vec![0u8; MAX_CHANNEL_BYTES / 3].into();
        let origin = SegmentOrigin::Source { connection: 1, format: 7 };
        let put = |n: i64| {
            let (segment, _) = ingest.place(origin, SLATE_TIMES, start + SLATE_DURATION * n);
            let stored =
                TimelineSegment { start_ms: segment.programme_start_ms, bytes: bytes.clone(), is_slate: false };
            ingest.store_segment(stored, 1);
            segment
        };
        let segments: Vec<LiveSegment> = (1..=4).map(put).collect();
        assert_eq!(ingest.lock().segments.len(), 3);
        let next = |after| ingest.next(|segment| segment.start >= after).map(|(next, ..)| next.start);
        assert_eq!(next(segments[0].start), Some(segments[1].start), "the first segment is skipped");
        assert_eq!(next(segments[2].start), Some(segments[2].start));
        assert_eq!(next(segments[3].end), None);
    }
}
