//! Live channels: segments named by a playlist are made on request, and a little before.
//!
//! A channel has no task and no state of its own. This module keeps only what viewers cost: open files and the runs that
//! work ahead of the viewers, one `ActiveProgramme` for each programme that is watched. While there are any, one
//! maintenance task (`maintenance`) cares for all of them.
#![doc = include_str!("README.md")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::time::Instant;

use crate::domain::channel::Channel;
use crate::domain::channel_state::ChannelState;
use crate::domain::live_window::{self, LiveSegment, PlaylistView};
use crate::domain::mpegts::channel_timeline::{TimelineSpan, place_on_timeline};
use crate::domain::schedule::segmentation::Segmentation;
use crate::domain::schedule::{Programme, ScheduleItem};
use crate::domain::time::TICKS_PER_SECOND;
use crate::engine::TIMELINE_BASE_SECONDS;
use crate::error::{Code, Error, Result};
use crate::service::channels::slates::SlateContent;
use crate::service::renditions::encode_slots::Admission;
use crate::service::{Service, ingest};

mod active_programme;
mod admission;
mod maintenance;
mod state_publisher;
mod tuner;
mod warm;
mod watch;

use active_programme::ActiveProgramme;
pub use admission::{MAX_ADMISSION_WAIT, RETRY_INTERVAL, make_room};
use admission::{admit, retry_when_busy};
pub use maintenance::{make_for, skip, start_maintenance};
use state_publisher::StatePublisher;
pub use state_publisher::publish_programmes;
use tuner::StreamCounts;
pub use tuner::TunerStream;
use warm::is_kept_by;
pub use warm::{Readiness, save_channel, warm, warm_channels};
pub use watch::{ChannelPlaylist, Opening, RequestedView, leave, open, playlist, segment};

/// How far before the live window a request still belongs to the live viewers, ms.
const MAX_LIVE_LAG_MS: i64 = 60_000;

/// How long before its time a segment may be requested, ms.
const MAX_EARLY_MS: i64 = 10_000;

/// Live windows in the cache at most.
const MAX_WINDOWS: usize = 2048;

/// Programmes with a run or an open file at most.
const MAX_ACTIVE_PROGRAMMES: usize = 512;

/// Of these, the programmes that one login reads apart from the live viewers.
const MAX_PROGRAMMES_PER_LOGIN: usize = 16;

/// One reading of a programme. All live viewers share one; every other viewer has their own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ProgrammeKey {
    channel: u32,
    /// The number of the programme's revision: after an edit another item may begin at the same instant.
    revision_number: u32,
    programme_start_ms: i64,
    reader: String,
}

/// Viewers who share programmes: a channel's live viewers (with an empty name), or one named viewer.
type Audience = (u32, String);

impl ProgrammeKey {
    fn new(channel: &Channel, programme: &Programme, reader: String) -> Self {
        let revision_number = channel.definition.revisions[programme.revision_index].number;
        Self { channel: channel.id, revision_number, programme_start_ms: programme.start_ms, reader }
    }

    /// The reader without its view's name.
    fn reader_login(&self) -> &str {
        self.reader.rsplit_once('/').map_or(&self.reader, |(login, _)| login)
    }
}

/// Everything that live channels have open.
#[derive(Default)]
pub struct LiveChannels {
    active_programmes: Mutex<HashMap<ProgrammeKey, Arc<ActiveProgramme>>>,
    windows: Mutex<HashMap<u32, LiveWindow>>,
    has_maintenance_task: AtomicBool,
    tuner_streams: Arc<StreamCounts>,
    state_publisher: StatePublisher,
    is_closed: AtomicBool,
    /// Admissions to the encode slots, kept from one programme to the next: by channel, and by viewer for those who watch
    /// alone.
    admissions: Mutex<HashMap<Audience, Arc<Admission>>>,
    /// When an unwatched programme last gave up its encode slot.
    last_preemption: Mutex<Option<Instant>>,
}

/// A cached live window of a channel.
struct LiveWindow {
    version: u32,
    /// The window is valid until then, ticks: the end of the first segment that is not listed yet.
    until_ticks: i64,
    segments: Arc<[LiveSegment]>,
}

/// A segment of a channel, retimed and ready to be sent.
#[derive(Clone, Debug)]
pub struct AiredSegment {
    pub bytes: Bytes,
    pub etag: String,
    /// The programme cannot be shown, and a slate replaces it.
    pub is_slate: bool,
}

impl LiveChannels {
    /// Ends every endless stream, because the server shuts down.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    fn last_preemption(&self) -> Option<Instant> {
        *self.last_preemption.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The live viewers' reading of the programme that starts at an instant; None before its first request.
    fn shared_programme(&self, channel: &Channel, programme_start_ms: i64) -> Option<Arc<ActiveProgramme>> {
        let (programme, _) = programme_starting_at(channel, programme_start_ms).ok()?;
        self.active_programmes().get(&ProgrammeKey::new(channel, &programme, String::new())).cloned()
    }

    /// Drops programmes that an edit took off their channel, with their encode slots.
    fn drop_outdated(&self, service: &Service) {
        let open_programmes: Vec<(ProgrammeKey, Arc<ActiveProgramme>)> =
            self.active_programmes().iter().map(|(key, active)| (key.clone(), active.clone())).collect();
        let now_ms = service.clock.now().as_millisecond();
        for (key, active) in open_programmes {
            let is_current = service.channels.get(key.channel).is_ok_and(|channel| {
                programme_starting_at(&channel, key.programme_start_ms).is_ok_and(|(programme, _)| {
                    let has_begun = programme.start_ms <= channel.channel_ms_at(now_ms);
                    key == ProgrammeKey::new(&channel, &programme, key.reader.clone())
                        && (has_begun || active.matches_output(&channel.output))
                })
            });
            if !is_current {
                self.active_programmes().remove(&key);
            }
        }
    }

    fn active_programmes(&self) -> MutexGuard<'_, HashMap<ProgrammeKey, Arc<ActiveProgramme>>> {
        self.active_programmes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn active_programme(&self, key: ProgrammeKey) -> Result<Arc<ActiveProgramme>> {
        let mut active_programmes = self.active_programmes();
        if let Some(active) = active_programmes.get(&key) {
            return Ok(active.clone());
        }
        // Clients choose the names of views, so a new name displaces only programmes of the same login.
        let own_programmes = active_programmes
            .iter()
            .filter(|(other, _)| !key.reader.is_empty() && other.reader_login() == key.reader_login());
        let own_programmes: Vec<(Instant, &ProgrammeKey)> =
            own_programmes.map(|(other, active)| (active.last_use(), other)).collect();
        if own_programmes.len() >= MAX_PROGRAMMES_PER_LOGIN
            && let Some(oldest) =
                own_programmes.iter().min_by_key(|(used, _)| *used).map(|(_, oldest)| (*oldest).clone())
        {
            active_programmes.remove(&oldest);
        }
        if active_programmes.len() >= MAX_ACTIVE_PROGRAMMES {
            return Err(Error::new(Code::ServerBusy, "too many programmes are watched at once").with_retry_after(10));
        }
        let reader = key.reader.clone();
        Ok(active_programmes.entry(key).or_insert_with(|| Arc::new(ActiveProgramme::new(reader))).clone())
    }

    fn admission(&self, audience: &Audience) -> Option<Arc<Admission>> {
        self.admissions().get(audience).cloned()
    }

    fn admissions(&self) -> MutexGuard<'_, HashMap<Audience, Arc<Admission>>> {
        self.admissions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The channel's current segment window and the channel time it was computed for (ms). Live windows are cached.
pub fn listed_segments(service: &Service, channel: &Channel, view: PlaylistView) -> (Arc<[LiveSegment]>, i64) {
    let now_ms = service.clock.now().as_millisecond();
    if channel.external.is_some() {
        return (ingest::playlist_window(service, channel), now_ms);
    }
    let now_ms = channel.channel_ms_at(now_ms);
    let clock = channel.clock.as_deref();
    let compute_window =
        || live_window::listed_segments(&channel.definition, clock, view, channel.output.target_seconds, now_ms).into();
    if view != PlaylistView::Live {
        return (compute_window(), now_ms);
    }
    let mut windows = service.live_channels.windows.lock().unwrap_or_else(PoisonError::into_inner);
    let cached = windows.get(&channel.id).filter(|window| {
        let has_begun = window.segments.last().is_some_and(|last| last.end_ticks <= now_ms * 90);
        window.version == channel.version && has_begun && now_ms * 90 < window.until_ticks
    });
    if let Some(window) = cached {
        return (window.segments.clone(), now_ms);
    }
    let segments: Arc<[LiveSegment]> = compute_window();
    let until_ticks =
        live_window::segments_from(&channel.definition, clock, now_ms).next().map_or(0, |next| next.end_ticks);
    if windows.len() >= MAX_WINDOWS {
        windows.clear();
    }
    windows.insert(channel.id, LiveWindow { version: channel.version, until_ticks, segments: segments.clone() });
    (segments, now_ms)
}

/// The programme that starts at an instant, and its item.
fn programme_starting_at(channel: &Channel, programme_start_ms: i64) -> Result<(Programme, &ScheduleItem)> {
    let programme = channel
        .definition
        .programme_at(programme_start_ms)
        .filter(|candidate| candidate.start_ms == programme_start_ms);
    let found =
        programme.ok_or_else(|| Error::new(Code::AssetNotFound, "no programme of this channel starts at that time"))?;
    Ok((found, channel.definition.item_of(&found)))
}

/// One segment of a channel, made now if it is missing. `reader` separates viewers who do not watch live: a
/// [`Viewer::unique_name`](crate::service::channels::Viewer::unique_name), or the id of a recording.
///
/// # Errors
/// `ASSET_NOT_FOUND` for a segment that is not on air; `TRANSCODER_BUSY`, `SEGMENT_TIMEOUT`. An item that cannot be shown is
/// no error: a slate replaces it.
pub async fn produce_segment(
    service: &Arc<Service>,
    channel: &Channel,
    (programme_start_ms, index): (i64, usize),
    reader: &str,
) -> Result<AiredSegment> {
    service.check_showing_rights(channel)?;
    let not_on_air = || Error::new(Code::AssetNotFound, "this segment is not on air");
    if channel.external.is_some() {
        let found = ingest::find_segment(service, channel, programme_start_ms).filter(|_| index == 0);
        let bytes = found.ok_or_else(not_on_air)?;
        let etag = format!("\"e-{programme_start_ms}-{}\"", bytes.len());
        return Ok(AiredSegment { bytes, etag, is_slate: false });
    }
    let now_ms = channel.channel_ms_at(service.clock.now().as_millisecond());
    // First, because the schedule of a far instant takes long to compute.
    if programme_start_ms > now_ms + MAX_EARLY_MS {
        return Err(not_on_air());
    }
    let (programme, item) = programme_starting_at(channel, programme_start_ms)?;
    let ranges = channel.definition.segment_ranges(&programme);
    let origin_ticks = programme_start_ms * 90;
    if index >= ranges.len() || origin_ticks + ranges.segment_start(index) > (now_ms + MAX_EARLY_MS) * 90 {
        return Err(not_on_air());
    }
    let needs_item = ranges.shows_item(index) && !channel.definition.is_slate(&programme);
    let item_segment = if needs_item {
        let active =
            service.live_channels.active_programme(programme_key(channel, &programme, index, now_ms, reader))?;
        start_maintenance(service);
        retry_when_busy(service, || active.make_segment(service, channel, &programme, index)).await?
    } else {
        None
    };
    let span = TimelineSpan {
        item_start: ranges.start_in_item() + ranges.segment_start(index),
        item_end: ranges.start_in_item() + ranges.segment_end(index),
        starts_item: index == 0,
        ends_item: ranges.is_last_of_item(index),
        base_timestamp: TIMELINE_BASE_SECONDS * TICKS_PER_SECOND,
        item_offset: item.segmentation.first_frame_ticks(),
        // Skipped time does not advance the timestamps.
        channel_origin: origin_ticks
            - ranges.start_in_item()
            - channel.clock.as_ref().map_or(0, |clock| clock.interval_of(programme_start_ms).skipped_ticks),
        previous_audio_end: None,
    };
    let is_slate = needs_item && item_segment.is_none();
    let (source, digest) = match item_segment {
        Some((bytes, etag)) => (bytes, etag.trim_matches('"').to_owned()),
        None => (Bytes::new(), "slate".to_owned()),
    };
    let content = if source.is_empty() { SlateContent::of_channel(channel) } else { SlateContent::default() };
    let needs_still = source.is_empty() || matches!(item.segmentation, Segmentation::Steps { .. });
    let still = if needs_still {
        service.slates.get_or_make(service, &item.video_format, &content).await?
    } else {
        Arc::default()
    };
    let bytes =
        tokio::task::spawn_blocking(move || place_on_timeline(&source, span, &still)).await.map_err(Error::internal)?;
    let content_hash = match content == SlateContent::default() {
        true => 0,
        false => {
            let text = format!("{content:?}");
            u32::from_le_bytes(blake3::hash(text.as_bytes()).as_bytes()[..4].try_into().expect("four"))
        }
    };
    let etag = format!("\"{digest}-{programme_start_ms}-{index}-{content_hash:x}\"");
    Ok(AiredSegment { bytes: bytes.into(), etag, is_slate })
}

/// The reading that a segment belongs to: the one of all live viewers, or the viewer's own when the segment is long past.
fn programme_key(channel: &Channel, programme: &Programme, index: usize, now_ms: i64, reader: &str) -> ProgrammeKey {
    let end = programme.start_ms * 90 + channel.definition.segment_ranges(programme).segment_end(index);
    let is_recent = end / 90 >= live_window::rewind_aired(channel.clock.as_deref(), now_ms, MAX_LIVE_LAG_MS, 0);
    let reader = if is_recent { String::new() } else { reader.to_owned() };
    ProgrammeKey::new(channel, programme, reader)
}

/// The segment a player that joins now requests first: three target durations before the end of the list.
pub fn first_requested_segment(segments: &[LiveSegment], target: u64) -> Option<LiveSegment> {
    let mut left_ticks = 3 * target as i64 * TICKS_PER_SECOND;
    let is_reached = |segment: &&LiveSegment| {
        left_ticks -= segment.end_ticks - segment.start_ticks;
        left_ticks <= 0
    };
    segments.iter().rev().find(is_reached).or(segments.first()).copied()
}

/// Whether a segment shows an item, so that a backend has to make it.
fn shows_item(channel: &Channel, segment: &LiveSegment) -> bool {
    let Ok((programme, _)) = programme_starting_at(channel, segment.programme_start_ms) else { return false };
    channel.definition.segment_ranges(&programme).shows_item(segment.index) && !channel.definition.is_slate(&programme)
}

/// Whether a segment can be sent at once.
pub fn is_made(service: &Service, channel: &Channel, segment: &LiveSegment) -> bool {
    if !shows_item(channel, segment) {
        return true;
    }
    let active = service.live_channels.shared_programme(channel, segment.programme_start_ms);
    active.is_some_and(|active| active.is_made(service, segment.item_index))
}

/// Whether the current programme's video is encoded.
fn is_current_encoded(service: &Service, channel: &Channel) -> bool {
    let current = service.channels.current_programme(channel, service.clock.now().as_millisecond());
    current.is_some_and(|current| matches!(channel.definition.item_of(&current).segmentation, Segmentation::Frames(_)))
}

/// Whether any programme of a channel is still open.
fn has_open_programme(service: &Service, channel: &Channel) -> bool {
    service.live_channels.active_programmes().iter().any(|(key, active)| key.channel == channel.id && active.is_open())
}

/// Whether a slate replaces the current programme because it cannot be shown.
fn is_current_broken(service: &Service, channel: &Channel) -> bool {
    let current = service.channels.current_programme(channel, service.clock.now().as_millisecond());
    current.is_some_and(|current| {
        service.live_channels.shared_programme(channel, current.start_ms).is_some_and(|active| active.is_broken())
    })
}

/// Whether a viewer who joins now can start playback at once, whether the channel is watched or not.
fn is_ready(service: &Service, channel: &Channel) -> bool {
    match channel.external {
        Some(_) => matches!(channel_state(service, channel), ChannelState::Warm | ChannelState::Live),
        None => maintenance::can_join_at_once(service, channel),
    }
}

/// A channel's state, as the API reports it.
pub fn channel_state(service: &Service, channel: &Channel) -> ChannelState {
    let viewers = &service.viewers;
    let has_first_segment = || {
        if has_open_programme(service, channel) {
            return true;
        }
        let segments = listed_segments(service, channel, PlaylistView::Live).0;
        first_requested_segment(&segments, channel.output.target_seconds)
            .is_some_and(|segment| is_made(service, channel, &segment))
    };
    let is_kept_warm =
        || viewers.warm_channels().contains(&channel.id) || (channel.settings.always_on && channel.settings.enabled);
    let is_watched = viewers.viewer_count(channel.id) > 0;
    if (is_watched || is_kept_warm()) && is_current_broken(service, channel) {
        return ChannelState::Error;
    }
    if is_watched {
        return if has_first_segment() { ChannelState::Live } else { ChannelState::Starting };
    }
    match is_kept_warm() {
        true if maintenance::can_join_at_once(service, channel) => ChannelState::Warm,
        true => ChannelState::Starting,
        false => ChannelState::Idle,
    }
}
