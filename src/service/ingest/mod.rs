//! Ingest of external channels: one outbound connection and one timeline per channel, for any number of viewers.
//!
//! An ingest starts with the first viewer of a channel and ends some time after the last one left. `feeder` fetches and
//! sends pieces; the task here puts them on the timeline, or a slate if none arrive.
#![doc = include_str!("README.md")]

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::domain::channel::Channel;
use crate::domain::external::ExternalStream;
use crate::domain::ingest::timeline::{ExternalTimeline, SegmentOrigin, SLATE_TICKS};
use crate::domain::ingest::live_segmenter::IngestSegment;
use crate::domain::live_window::LiveSegment;
use crate::domain::mpegts::channel_timeline::{TimelineSpan, place_on_timeline};
use crate::error::{Code, Error, Result};
use crate::service::Service;

mod feeder;
mod hls;
mod intake;

use feeder::Fed;

/// How often the timeline is checked.
const TICK: Duration = Duration::from_millis(100);

/// Most ingests at once.
const MOST: usize = 64;

/// Most pieces that wait for their time; further ones hold back the source.
const WAITING: usize = 8;

/// Most bytes of one channel's segments: a minute beyond its playlist at 12 Mbit/s.
const MOST_BYTES: usize = 128 << 20;

/// Most bytes of all channels' segments, except for one segment each. Beyond it, a channel with more than an even share
/// keeps less catch-up. At three quarters, no further ingest starts.
const MOST_BYTES_IN_ALL: usize = 512 << 20;

/// All ingests.
#[derive(Default)]
pub struct Ingests {
    all: Mutex<HashMap<u32, Arc<Ingest>>>,
    /// Bytes of the segments of all ingests.
    bytes: Arc<AtomicUsize>,
}

/// The ingest of one channel.
pub struct Ingest {
    state: Mutex<State>,
    /// Bytes of the segments of all ingests.
    bytes: Arc<AtomicUsize>,
}

struct State {
    air: ExternalTimeline,
    /// The end of the last slot and of its audio, ticks since 1970.
    sounded: Option<(i64, i64)>,
    /// Oldest first.
    segments: VecDeque<Segment>,
    size: usize,
    /// Outbound connections so far, and why the last one ended.
    connections: u64,
    fault: Option<String>,
}

impl State {
    /// Start of the oldest segment in memory, ms. Earlier slots were evicted; later ones may still be in production.
    fn oldest_ms(&self) -> i64 {
        self.segments.front().map_or(i64::MIN, |oldest| oldest.start_ms)
    }
}

struct Segment {
    /// The start of its slot, ms.
    start_ms: i64,
    bytes: Bytes,
    /// Whether a slate replaces the source.
    is_slate: bool,
}

/// Health of an ingest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub connections: u64,
    pub fault: Option<String>,
    /// Whether the latest segment came from the source; otherwise it is a slate.
    pub from_source: bool,
    pub buffered_bytes: usize,
}

impl Ingests {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<Ingest>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, channel: u32) -> Option<Arc<Ingest>> {
        self.lock().get(&channel).cloned()
    }

    /// Health of a channel's ingest; None if it has none.
    pub fn report(&self, channel: u32) -> Option<Report> {
        let ingest = self.get(channel)?;
        let state = ingest.lock();
        Some(Report {
            connections: state.connections,
            fault: state.fault.clone(),
            from_source: state.air.shows_source(),
            buffered_bytes: state.size,
        })
    }
}

impl Ingest {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an interval of a stream on the timeline. `from` and `to` are ticks after `base` on the stream's own clock.
    fn put(&self, shows: SegmentOrigin, (from, to): (i64, i64), base: i64, now: i64) -> (LiveSegment, TimelineSpan) {
        let mut state = self.lock();
        let slot = state.air.append(shows, to - from, now);
        let sounded = state.sounded.filter(|(end, _)| *end == slot.start_ticks).map(|(_, sounded)| sounded);
        let closes = shows == SegmentOrigin::Slate;
        let (opens, origin) = (from == 0, slot.start_ticks - from);
        let span = TimelineSpan { item_start: from, item_end: to, starts_item: opens, ends_item: closes, base_timestamp: base, item_offset: 0, channel_origin: origin, previous_audio_end: sounded };
        state.sounded = Some((slot.end_ticks, span.audio_end()));
        (slot, span)
    }

    /// The first segment in memory whose slot satisfies the predicate, and whether it is a slate.
    fn next(&self, accepts: impl Fn(&LiveSegment) -> bool) -> Option<(LiveSegment, Bytes, bool)> {
        let state = self.lock();
        let oldest_ms = state.oldest_ms();
        let slot = state.air.find_segment(|slot| slot.programme_start_ms >= oldest_ms && accepts(slot))?;
        let segment = state.segments.iter().find(|segment| segment.start_ms == slot.programme_start_ms)?;
        Some((slot, segment.bytes.clone(), segment.is_slate))
    }

    /// Stores a segment and evicts old ones and those that exceed the memory. `channels` channels share it.
    fn store(&self, segment: Segment, channels: usize) {
        let mut state = self.lock();
        let size = segment.bytes.len();
        state.size += size;
        let mut in_all = self.bytes.fetch_add(size, Ordering::Relaxed) + size;
        state.segments.push_back(segment);
        let gone = state.air.prune(6).last().map_or(i64::MIN, |last| last.programme_start_ms);
        while state.segments.front().is_some_and(|oldest| oldest.start_ms <= gone)
            || is_too_much(state.size, in_all, channels)
        {
            let Some(oldest) = state.segments.pop_front() else { break };
            let size = oldest.bytes.len();
            state.size -= size;
            in_all = self.bytes.fetch_sub(size, Ordering::Relaxed) - size;
        }
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.lock().size, Ordering::Relaxed);
    }
}

/// The task that fetches a source, and its pieces. Dropping it ends the task.
struct Client {
    /// The addresses when the task was started.
    feed: ExternalStream,
    fed: mpsc::Receiver<Fed>,
    task: JoinHandle<()>,
}

impl Client {
    fn start(service: &Arc<Service>, id: u32, ingest: &Arc<Ingest>, feed: ExternalStream) -> Self {
        let (pieces, fed) = mpsc::channel(WAITING);
        let task = tokio::spawn(feeder::run(service.clone(), id, ingest.clone(), pieces));
        Self { feed, fed, task }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether a channel exceeds its share of the memory.
fn is_too_much(own: usize, in_all: usize, channels: usize) -> bool {
    own > MOST_BYTES || in_all > MOST_BYTES_IN_ALL && own > MOST_BYTES_IN_ALL / channels.max(1)
}

/// Starts the ingest of a channel unless it runs. Must be called inside the runtime.
///
/// # Errors
/// `RIGHTS_WITHDRAWN`; `SERVER_BUSY` if too many ingests run.
pub fn keep(service: &Arc<Service>, channel: &Channel) -> Result<()> {
    service.check_showing_rights(channel)?;
    let mut all = service.ingests.lock();
    let Some(external) = channel.external.as_deref().filter(|_| !all.contains_key(&channel.id)) else {
        return Ok(());
    };
    let in_all = service.ingests.bytes.load(Ordering::Relaxed);
    if all.len() >= MOST || in_all >= MOST_BYTES_IN_ALL / 4 * 3 {
        return Err(Error::new(Code::ServerBusy, "too many external channels are being watched").with_retry_after(10));
    }
    let state = State {
        air: ExternalTimeline::new(now(service)),
        sounded: None,
        segments: VecDeque::new(),
        size: 0,
        connections: 0,
        fault: None,
    };
    let ingest = Arc::new(Ingest { state: Mutex::new(state), bytes: service.ingests.bytes.clone() });
    all.insert(channel.id, ingest.clone());
    let client = Client::start(service, channel.id, &ingest, external.stream.clone());
    let (service, id) = (Arc::downgrade(service), channel.id);
    tokio::spawn(async move {
        let upgrade = || service.upgrade();
        run(upgrade, id, &ingest, client).await;
        if let Some(service) = service.upgrade() {
            service.ingests.lock().remove(&id);
        }
    });
    Ok(())
}

/// The present playlist window of a channel.
pub fn listed(service: &Service, channel: &Channel) -> Arc<[LiveSegment]> {
    let Some(ingest) = service.ingests.get(channel.id) else { return Arc::default() };
    let state = ingest.lock();
    let mut slots = state.air.window(channel.output.target_seconds);
    // Evicted segments are not listed; a slot whose segment is still being made is.
    let oldest_ms = state.oldest_ms();
    slots.retain(|slot| slot.programme_start_ms >= oldest_ms);
    slots.into()
}

/// A segment by the start of its slot, ms.
pub fn segment(service: &Service, channel: &Channel, start_ms: i64) -> Option<Bytes> {
    let ingest = service.ingests.get(channel.id)?;
    let state = ingest.lock();
    state.segments.iter().rev().find(|segment| segment.start_ms == start_ms).map(|segment| segment.bytes.clone())
}

/// The first segment whose slot `wanted` accepts, and whether it is a slate.
pub fn next(service: &Service, channel: &Channel, wanted: impl Fn(&LiveSegment) -> bool) -> Option<(LiveSegment, Bytes, bool)> {
    service.ingests.get(channel.id)?.next(wanted)
}

/// Ticks since 1970.
fn now(service: &Service) -> i64 {
    service.clock.now().as_millisecond() * 90
}

/// Puts pieces on the timeline until the channel has had no viewer for `ingest_linger`.
async fn run(upgrade: impl Fn() -> Option<Arc<Service>>, id: u32, ingest: &Arc<Ingest>, mut client: Client) {
    let Some(mut rights) = upgrade().map(|service| service.rights_changes.subscribe()) else { return };
    let (mut waiting, mut away) = (None, false);
    let mut wanted = Instant::now();
    loop {
        let Some(service) = upgrade() else { return };
        let Ok(channel) = service.channels.get(id) else { return };
        let external = channel.external.as_deref().filter(|_| service.check_showing_rights(&channel).is_ok());
        let Some(external) = external else { return };
        if client.feed != external.stream {
            tracing::info!(channel.id = id, "the source of an external channel changed: connecting to the new one");
            client = Client::start(&service, id, ingest, external.stream.clone());
            (waiting, away) = (None, true);
        }
        let viewers = service.live_channels.viewers();
        let always = channel.settings.always_on && channel.settings.enabled;
        if always || viewers.viewer_count(id) > 0 || viewers.warm_channels().contains(&id) {
            wanted = Instant::now();
        }
        if wanted.elapsed() >= service.config.limits.ingest_linger {
            tracing::info!(channel.id = id, "ingest ended: the external channel has no viewers");
            return;
        }
        let at = now(&service);
        let due = ingest.lock().air.is_due(at);
        match waiting.take() {
            Some(Fed::Piece(connection, piece)) if due => {
                away = false;
                let from = SegmentOrigin::Source { connection, format: piece.format };
                show(&service, &channel, ingest, from, Some(piece), at).await;
                continue;
            }
            Some(Fed::Gone) => away = true,
            other => waiting = other,
        }
        if waiting.is_none() && ingest.lock().air.needs_slate(at, away) {
            show(&service, &channel, ingest, SegmentOrigin::Slate, None, at).await;
            continue;
        }
        drop((service, channel));
        tokio::select! {
            next = client.fed.recv(), if waiting.is_none() => match next {
                Some(next) => waiting = Some(next),
                None => return,
            },
            Ok(()) = rights.changed() => {}
            () = tokio::time::sleep(TICK) => {}
        }
    }
}

/// Puts a piece on the timeline, or a slate if no piece is given.
async fn show(service: &Service, channel: &Channel, ingest: &Ingest, from: SegmentOrigin, piece: Option<IngestSegment>, now: i64) {
    let still = match service.live_channels.still_image(service, channel).await {
        Ok(still) => still,
        Err(fault) if piece.is_none() => {
            tracing::warn!(%fault, "no slate is available");
            tokio::time::sleep(Duration::from_secs(1)).await;
            return;
        }
        Err(_) => Arc::default(),
    };
    let slate = (0, SLATE_TICKS, 0);
    let (begin, end, beat) = piece.as_ref().map_or(slate, |piece| (piece.start, piece.end, piece.audio_frame_time));
    let (slot, span) = ingest.put(from, (begin - beat, end - beat), beat, now);
    let made = tokio::task::spawn_blocking(move || {
        let bytes = piece.map_or_else(Vec::new, |piece| if piece.is_first { piece.drop_undecodable() } else { piece.bytes });
        place_on_timeline(&bytes, span, &still)
    });
    let Ok(bytes) = made.await else { return };
    let segment = Segment { start_ms: slot.programme_start_ms, bytes: bytes.into(), is_slate: from == SegmentOrigin::Slate };
    ingest.store(segment, service.ingests.lock().len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_fell_back_continues_at_the_oldest_segment_in_memory() {
        let start = 1_767_225_600 * 90_000;
        let state = State {
            air: ExternalTimeline::new(start),
            sounded: None,
            segments: VecDeque::new(),
            size: 0,
            connections: 0,
            fault: None,
        };
        let ingest = Ingest { state: Mutex::new(state), bytes: Arc::default() };
        // Three segments fill the memory of a channel, so the first of four is evicted. They share one buffer.
        let bytes: Bytes = vec![0u8; MOST_BYTES / 3].into();
        let from = SegmentOrigin::Source { connection: 1, format: 7 };
        let put = |n: i64| {
            let (slot, _) = ingest.put(from, (0, SLATE_TICKS), 0, start + n * SLATE_TICKS);
            ingest.store(Segment { start_ms: slot.programme_start_ms, bytes: bytes.clone(), is_slate: false }, 1);
            slot
        };
        let slots: Vec<LiveSegment> = (1..=4).map(put).collect();
        assert_eq!(ingest.lock().segments.len(), 3);
        let next = |after: i64| ingest.next(|slot| slot.start_ticks >= after).map(|(slot, ..)| slot.start_ticks);
        assert_eq!(next(slots[0].start_ticks), Some(slots[1].start_ticks), "the first segment is skipped");
        assert_eq!(next(slots[2].start_ticks), Some(slots[2].start_ticks));
        assert_eq!(next(slots[3].end_ticks), None);
    }
}
