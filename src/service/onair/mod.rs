//! Live channels: segments named by a playlist are made on request, and a little before.
//!
//! A channel has no task and no state of its own. This module keeps only what viewers cost: open files and the runs that
//! work ahead of the viewers, one `Reel` for each programme that is watched. While there are any, one maintenance task
//! (`keeper`) cares for all of them.
#![doc = include_str!("README.md")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::time::Instant;

use crate::domain::channel::Channel;
use crate::domain::live::{self, LiveSegment, PlaylistView};
use crate::domain::mpegts::channel_timeline::{TimelineSpan, StillImage, place_on_timeline};
use crate::domain::schedule::segmentation::{Segmentation, VideoFormat};
use crate::domain::schedule::{ScheduleItem, Programme};
use crate::domain::time::TICKS_PER_SECOND;
use crate::engine::TIMELINE_BASE_SECONDS;
use crate::error::{Code, Error, Result};
use crate::service::encode_slots::Admission;
use crate::service::{Service, ingest};

mod admission;
mod herald;
mod keeper;
mod reel;
mod stills;
mod tuner;
mod viewers;

use admission::patiently;
pub use admission::{admit, is_kept, is_kept_by, needs_room_to_warm, room_to_warm, start_session};
use herald::Herald;
pub use herald::announce;
pub use keeper::{hurry, make, make_for, prepare, wake};
use reel::Reel;
use stills::{Says, Stills};
pub use tuner::Tuner;
use tuner::Tuners;
use viewers::Viewers;
pub use viewers::{START_OVER, State, Viewer};

/// How far before the live window a request still belongs to the live viewers, ms.
const BEHIND_MS: i64 = 60_000;

/// How long before its time a segment may be requested, ms.
const EARLY_MS: i64 = 10_000;

/// Live windows in the cache at most.
const MOST_WINDOWS: usize = 2048;

/// Programmes with a run or an open file at most.
const MOST_REELS: usize = 512;

/// Of these, the programmes that one login reads apart from the live viewers.
const LOGIN_REELS: usize = 16;

/// One reading of a programme. All live viewers share one; every other viewer has their own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    channel: u32,
    /// The number of the programme's revision: after an edit another item may begin at the same instant.
    revision: u32,
    programme_ms: i64,
    reader: String,
}

/// Viewers who share programmes: a channel's live viewers (with an empty name), or one named viewer.
type Audience = (u32, String);

impl Key {
    fn new(channel: &Channel, programme: &Programme, reader: String) -> Self {
        let revision = channel.definition.revisions[programme.revision_index].number;
        Self { channel: channel.id, revision, programme_ms: programme.start_ms, reader }
    }

    /// The reader without its view's name.
    fn login(&self) -> &str {
        self.reader.rsplit_once('/').map_or(&self.reader, |(login, _)| login)
    }
}

/// Everything that live channels have open.
#[derive(Default)]
pub struct OnAir {
    reels: Mutex<HashMap<Key, Arc<Reel>>>,
    viewers: Viewers,
    stills: Stills,
    windows: Mutex<HashMap<u32, Window>>,
    looked_after: AtomicBool,
    tuners: Arc<Tuners>,
    herald: Herald,
    closed: AtomicBool,
    /// Admissions to the encode slots, kept from one programme to the next: by channel, and by viewer for those who watch
    /// alone.
    admissions: Mutex<HashMap<Audience, Arc<Admission>>>,
    /// When an unwatched programme last gave up its encode slot.
    gave_way: Mutex<Option<Instant>>,
}

/// A cached live window of a channel.
struct Window {
    version: u32,
    /// The window is valid until then, ticks: the end of the first segment that is not listed yet.
    until: i64,
    slots: Arc<[LiveSegment]>,
}

/// A segment of a channel, retimed and ready to be sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub bytes: Bytes,
    pub etag: String,
    /// The programme cannot be shown, and a slate replaces it.
    pub is_slate: bool,
}

impl OnAir {
    /// The channel's still image in the default size, for times without a programme.
    ///
    /// # Errors
    /// `TRANSCODER_UNAVAILABLE` when no video encoder works.
    pub async fn still(&self, service: &Service, channel: &Channel) -> Result<Arc<StillImage>> {
        self.stills.of(service, &VideoFormat::default(), &says(channel)).await
    }

    pub fn viewers(&self) -> &Viewers {
        &self.viewers
    }

    /// Ends every endless stream, because the server shuts down.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn gave_way(&self) -> Option<Instant> {
        *self.gave_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The live viewers' reading of the programme that starts at an instant; None before its first request.
    fn shared(&self, channel: &Channel, programme_ms: i64) -> Option<Arc<Reel>> {
        let (programme, _) = programme(channel, programme_ms).ok()?;
        self.reels().get(&Key::new(channel, &programme, String::new())).cloned()
    }

    /// Drops programmes that an edit took off their channel, with their encode slots.
    fn drop_outdated(&self, service: &Service) {
        let known: Vec<(Key, Arc<Reel>)> = self.reels().iter().map(|(key, reel)| (key.clone(), reel.clone())).collect();
        let now_ms = service.clock.now().as_millisecond();
        for (key, reel) in known {
            let is_current = service.channels.get(key.channel).is_ok_and(|channel| {
                programme(&channel, key.programme_ms).is_ok_and(|(programme, _)| {
                    let has_begun = programme.start_ms <= channel.channel_ms_at(now_ms);
                    key == Key::new(&channel, &programme, key.reader.clone())
                        && (has_begun || reel.is_made_for(&channel.output))
                })
            });
            if !is_current {
                self.reels().remove(&key);
            }
        }
    }

    fn reels(&self) -> MutexGuard<'_, HashMap<Key, Arc<Reel>>> {
        self.reels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reel(&self, key: Key) -> Result<Arc<Reel>> {
        let mut reels = self.reels();
        if let Some(known) = reels.get(&key) {
            return Ok(known.clone());
        }
        // Clients choose the names of views, so a new name displaces only programmes of the same login.
        let own = reels.iter().filter(|(other, _)| !key.reader.is_empty() && other.login() == key.login());
        let own: Vec<(Instant, &Key)> = own.map(|(other, reel)| (reel.used(), other)).collect();
        if own.len() >= LOGIN_REELS
            && let Some(oldest) = own.iter().min_by_key(|(used, _)| *used).map(|(_, oldest)| (*oldest).clone())
        {
            reels.remove(&oldest);
        }
        if reels.len() >= MOST_REELS {
            return Err(Error::new(Code::ServerBusy, "too many programmes are watched at once").with_retry_after(10));
        }
        let reader = key.reader.clone();
        Ok(reels.entry(key).or_insert_with(|| Arc::new(Reel::new(reader))).clone())
    }

    fn admission(&self, audience: &Audience) -> Option<Arc<Admission>> {
        self.admissions().get(audience).cloned()
    }

    fn admissions(&self) -> MutexGuard<'_, HashMap<Audience, Arc<Admission>>> {
        self.admissions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The channel's current segment window and the channel time it was computed for (ms). Live windows are cached.
pub fn listed(service: &Service, channel: &Channel, view: PlaylistView) -> (Arc<[LiveSegment]>, i64) {
    let now_ms = service.clock.now().as_millisecond();
    if channel.external.is_some() {
        return (ingest::listed(service, channel), now_ms);
    }
    let now_ms = channel.channel_ms_at(now_ms);
    let pace = channel.clock.as_deref();
    let reckon = || live::listed_segments(&channel.definition, pace, view, channel.output.target_seconds, now_ms).into();
    if view != PlaylistView::Live {
        return (reckon(), now_ms);
    }
    let mut windows = service.onair.windows.lock().unwrap_or_else(PoisonError::into_inner);
    let known = windows.get(&channel.id).filter(|window| {
        let began = window.slots.last().is_some_and(|last| last.end_ticks <= now_ms * 90);
        window.version == channel.version && began && now_ms * 90 < window.until
    });
    if let Some(window) = known {
        return (window.slots.clone(), now_ms);
    }
    let slots: Arc<[LiveSegment]> = reckon();
    let until = live::segments_from(&channel.definition, pace, now_ms).next().map_or(0, |next| next.end_ticks);
    if windows.len() >= MOST_WINDOWS {
        windows.clear();
    }
    windows.insert(channel.id, Window { version: channel.version, until, slots: slots.clone() });
    (slots, now_ms)
}

/// The content of the channel's slate.
fn says(channel: &Channel) -> Says {
    let picture = channel.settings.slate_image.clone().map(|path| (path, channel.version));
    Says { line: channel.settings.slate_text.clone(), picture }
}

/// The programme that starts at an instant, and its item.
fn programme(channel: &Channel, programme_ms: i64) -> Result<(Programme, &ScheduleItem)> {
    let found = channel.definition.programme_at(programme_ms).filter(|found| found.start_ms == programme_ms);
    let found =
        found.ok_or_else(|| Error::new(Code::AssetNotFound, "no programme of this channel starts at that time"))?;
    Ok((found, channel.definition.item_of(&found)))
}

/// One segment of a channel, made now if it is missing. `reader` separates viewers who do not watch live: a
/// [`Viewer::name`], or the id of a recording.
///
/// # Errors
/// `ASSET_NOT_FOUND` for a segment that is not on air; `TRANSCODER_BUSY`, `SEGMENT_TIMEOUT`. An item that cannot be shown is
/// no error: a slate replaces it.
pub async fn segment(
    service: &Arc<Service>,
    channel: &Channel,
    (programme_ms, index): (i64, usize),
    reader: &str,
) -> Result<Sent> {
    service.may_show(channel)?;
    if channel.external.is_some() {
        let none = || Error::new(Code::AssetNotFound, "this segment is not on air");
        let bytes = ingest::segment(service, channel, programme_ms).filter(|_| index == 0).ok_or_else(none)?;
        return Ok(Sent { etag: format!("\"e-{programme_ms}-{}\"", bytes.len()), bytes, is_slate: false });
    }
    let not_on_air = || Error::new(Code::AssetNotFound, "this segment is not on air");
    let now_ms = channel.channel_ms_at(service.clock.now().as_millisecond());
    // First, because the schedule of a far instant takes long to compute.
    if programme_ms > now_ms + EARLY_MS {
        return Err(not_on_air());
    }
    let (programme, item) = programme(channel, programme_ms)?;
    let spans = channel.definition.segment_ranges(&programme);
    let origin = programme_ms * 90;
    if index >= spans.len() || origin + spans.segment_start(index) > (now_ms + EARLY_MS) * 90 {
        return Err(not_on_air());
    }
    let is_wanted = spans.shows_item(index) && !channel.definition.is_slate(&programme);
    let made = if is_wanted {
        let reel = service.onair.reel(key(channel, &programme, index, now_ms, reader))?;
        wake(service);
        patiently(service, || reel.segment(service, channel, &programme, index)).await?
    } else {
        None
    };
    let span = TimelineSpan {
        item_start: spans.start_in_item() + spans.segment_start(index),
        item_end: spans.start_in_item() + spans.segment_end(index),
        starts_item: index == 0,
        ends_item: spans.is_last_of_item(index),
        base_timestamp: TIMELINE_BASE_SECONDS * TICKS_PER_SECOND,
        item_offset: item.segmentation.first_frame_ticks(),
        // Skipped time does not advance the timestamps.
        channel_origin: origin - spans.start_in_item() - channel.clock.as_ref().map_or(0, |pace| pace.interval_of(programme_ms).skipped_ticks),
        previous_audio_end: None,
    };
    let is_slate = is_wanted && made.is_none();
    let (source, digest) = match made {
        Some((bytes, etag)) => (bytes, etag.trim_matches('"').to_owned()),
        None => (Bytes::new(), "slate".to_owned()),
    };
    let says = if source.is_empty() { says(channel) } else { Says::default() };
    let needs_still = source.is_empty() || matches!(item.segmentation, Segmentation::Steps { .. });
    let still = if needs_still { service.onair.stills.of(service, &item.video_format, &says).await? } else { Arc::default() };
    let bytes = tokio::task::spawn_blocking(move || place_on_timeline(&source, span, &still)).await.map_err(Error::internal)?;
    let said = match says == Says::default() {
        true => 0,
        false => {
            let text = format!("{says:?}");
            u32::from_le_bytes(blake3::hash(text.as_bytes()).as_bytes()[..4].try_into().expect("four"))
        }
    };
    let etag = format!("\"{digest}-{programme_ms}-{index}-{said:x}\"");
    Ok(Sent { bytes: bytes.into(), etag, is_slate })
}

/// The reading that a segment belongs to: the one of all live viewers, or the viewer's own when the segment is long past.
fn key(channel: &Channel, programme: &Programme, index: usize, now_ms: i64, reader: &str) -> Key {
    let end = programme.start_ms * 90 + channel.definition.segment_ranges(programme).segment_end(index);
    let recent = end / 90 >= live::rewind_aired(channel.clock.as_deref(), now_ms, BEHIND_MS, 0);
    let reader = if recent { String::new() } else { reader.to_owned() };
    Key::new(channel, programme, reader)
}

/// The segment a player that joins now requests first: three target durations before the end of the list.
pub fn first_wanted(slots: &[LiveSegment], target: u64) -> Option<LiveSegment> {
    let mut left = 3 * target as i64 * TICKS_PER_SECOND;
    let begins = |slot: &&LiveSegment| {
        left -= slot.end_ticks - slot.start_ticks;
        left <= 0
    };
    slots.iter().rev().find(begins).or(slots.first()).copied()
}

/// Whether a segment shows an item, so that a backend has to make it.
fn shows_item(channel: &Channel, slot: &LiveSegment) -> bool {
    let Ok((programme, _)) = programme(channel, slot.programme_start_ms) else { return false };
    channel.definition.segment_ranges(&programme).shows_item(slot.index) && !channel.definition.is_slate(&programme)
}

/// Whether a segment can be sent at once.
pub fn is_made(service: &Service, channel: &Channel, slot: &LiveSegment) -> bool {
    if !shows_item(channel, slot) {
        return true;
    }
    let reel = service.onair.shared(channel, slot.programme_start_ms);
    reel.is_some_and(|reel| reel.is_made(service, slot.item_index))
}

/// Whether the current programme's video is encoded.
pub fn encodes(service: &Service, channel: &Channel) -> bool {
    let on = service.channels.on_air(channel, service.clock.now().as_millisecond());
    on.is_some_and(|on| matches!(channel.definition.item_of(&on).segmentation, Segmentation::Frames(_)))
}

/// Whether any programme of a channel is still open.
fn is_open(service: &Service, channel: &Channel) -> bool {
    service.onair.reels().iter().any(|(key, reel)| key.channel == channel.id && reel.is_open())
}

/// Whether a slate replaces the current programme because it cannot be shown.
fn is_broken(service: &Service, channel: &Channel) -> bool {
    let on = service.channels.on_air(channel, service.clock.now().as_millisecond());
    on.is_some_and(|on| service.onair.shared(channel, on.start_ms).is_some_and(|reel| reel.is_broken()))
}

/// Whether a viewer who joins now can start playback at once, whether the channel is watched or not.
pub fn is_ready(service: &Service, channel: &Channel) -> bool {
    match channel.external {
        Some(_) => matches!(state(service, channel), State::Warm | State::Live),
        None => keeper::is_stocked(service, channel),
    }
}

/// A channel's state, as the API reports it.
pub fn state(service: &Service, channel: &Channel) -> State {
    let viewers = service.onair.viewers();
    let made = || {
        if is_open(service, channel) {
            return true;
        }
        let slots = listed(service, channel, PlaylistView::Live).0;
        first_wanted(&slots, channel.output.target_seconds).is_some_and(|slot| is_made(service, channel, &slot))
    };
    let warm = || viewers.warm().contains(&channel.id) || (channel.settings.always_on && channel.settings.enabled);
    let watched = viewers.count(channel.id) > 0;
    if (watched || warm()) && is_broken(service, channel) {
        return State::Error;
    }
    if watched {
        return if made() { State::Live } else { State::Starting };
    }
    match warm() {
        true if keeper::is_stocked(service, channel) => State::Warm,
        true => State::Starting,
        false => State::Idle,
    }
}
