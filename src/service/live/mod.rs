//! Live channels: segments named by a playlist are made on request, and a little before.
//!
//! A channel has no task and no state of its own. This module keeps only what viewers cost: open files and the runs that
//! work ahead of the viewers, one `ActiveProgramme` for each programme that is watched. While there are any, one
//! maintenance task (`maintenance`) cares for all of them.
#![doc = include_str!("README.md")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::domain::channel::Channel;
use crate::domain::channel_state::ChannelState;
use crate::domain::live_window::{self, LiveSegment, PlaylistView};
use crate::domain::schedule::Programme;
use crate::domain::schedule::segmentation::Segmentation;
use crate::domain::time::{ChannelMs, Ticks};
use crate::domain::video_class::VideoClasses;
use crate::error::{Code, Error, Result};
use crate::service::renditions::encode_slots::Admission;
use crate::service::{Service, ingest};

mod active_programme;
mod admission;
mod aired_segment;
mod copied_segment;
mod likely_zaps;
mod maintenance;
mod open_rendition;
mod state_publisher;
mod tuner;
mod varieties;
mod warm;
mod watch;
mod zap_times;

use active_programme::{ActiveProgramme, admit};
use admission::retry_when_busy;
pub use admission::{MAX_ADMISSION_WAIT, make_room};
use aired_segment::not_on_air_error;
pub use aired_segment::{AiredSegment, ScheduledSegment, air_segment};
pub use copied_segment::{CopiedSegment, copied_init};
pub use maintenance::{make_ahead, skip, start_maintenance};
use state_publisher::StatePublisher;
pub use state_publisher::publish_programmes;
use tuner::StreamCounts;
pub use tuner::TunerStream;
use varieties::Varieties;
pub use varieties::{variety_for, variety_of};
use warm::is_kept_by;
pub use warm::{Readiness, save_channel, warm, warm_channels};
pub use watch::{Opening, RequestedView, copied_segment, leave, open, playlist, segment};
pub use zap_times::{ZapKind, ZapTimes};

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
    programme_start_ms: ChannelMs,
    reader: String,
    /// The variety of the channel.
    copies: VideoClasses,
}

/// Viewers who share programmes: a channel's live viewers (with an empty name), or one named viewer.
type Audience = (u32, String);

impl ProgrammeKey {
    fn new(channel: &Channel, programme: &Programme, reader: String) -> Self {
        let revision_number = channel.definition.revisions[programme.revision_index].number;
        let programme_start_ms = programme.start_ms;
        Self { channel: channel.id, revision_number, programme_start_ms, reader, copies: channel.copies }
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
    /// By channel and variety.
    windows: Mutex<HashMap<(u32, VideoClasses), LiveWindow>>,
    varieties: Varieties,
    has_maintenance_task: AtomicBool,
    tuner_streams: Arc<StreamCounts>,
    state_publisher: StatePublisher,
    is_closed: AtomicBool,
    /// Admissions to the encode slots, kept from one programme to the next: by channel, and by viewer for those who watch
    /// alone.
    admissions: Mutex<HashMap<Audience, Arc<Admission>>>,
    /// When an unwatched programme last gave up its encode slot.
    last_preemption: Mutex<Option<Instant>>,
    pub zap_times: ZapTimes,
}

/// A cached live window of a channel.
struct LiveWindow {
    version: u32,
    /// The window is valid until then: the end of the first segment that is not listed yet.
    until_ticks: Ticks,
    segments: Arc<[LiveSegment]>,
}

/// The segments that a playlist names.
pub struct ListedSegments {
    pub segments: Arc<[LiveSegment]>,
    /// The one that a player who joins now requests first.
    pub first: Option<LiveSegment>,
    /// The channel time of the list.
    pub now_ms: ChannelMs,
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

    /// A programme that was requested before.
    fn existing_programme(&self, key: &ProgrammeKey) -> Option<Arc<ActiveProgramme>> {
        self.active_programmes().get(key).cloned()
    }

    /// Drops programmes that an edit took off their channel, with their encode slots.
    fn drop_outdated(&self, service: &Service) {
        let open_programmes: Vec<(ProgrammeKey, Arc<ActiveProgramme>)> =
            self.active_programmes().iter().map(|(key, active)| (key.clone(), active.clone())).collect();
        let now_ms = service.clock.now_ms();
        for (key, active) in open_programmes {
            let is_current = service.channels.get(key.channel).is_ok_and(|channel| {
                channel.definition.programme_at(key.programme_start_ms).is_some_and(|programme| {
                    let has_begun = programme.start_ms <= channel.channel_ms_at(now_ms);
                    let current = ProgrammeKey::new(&channel, &programme, key.reader.clone());
                    key == ProgrammeKey { copies: key.copies, ..current }
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

    fn admission(&self, audience: &Audience) -> Option<Arc<Admission>> {
        self.admissions().get(audience).cloned()
    }

    fn admissions(&self) -> MutexGuard<'_, HashMap<Audience, Arc<Admission>>> {
        self.admissions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The programme of a key, new on its first request. While there is one, the maintenance task runs.
///
/// # Errors
/// `SERVER_BUSY` when too many programmes are open.
fn find_or_add_programme(service: &Arc<Service>, key: &ProgrammeKey) -> Result<Arc<ActiveProgramme>> {
    let mut active_programmes = service.live_channels.active_programmes();
    if let Some(active) = active_programmes.get(key) {
        return Ok(active.clone());
    }
    // Clients choose the names of views, so a new name displaces only programmes of the same login.
    let own_programmes = active_programmes
        .iter()
        .filter(|(other, _)| !key.reader.is_empty() && other.reader_login() == key.reader_login());
    let own_programmes: Vec<(Instant, &ProgrammeKey)> =
        own_programmes.map(|(other, active)| (active.last_use(), other)).collect();
    if own_programmes.len() >= MAX_PROGRAMMES_PER_LOGIN
        && let Some(oldest) = own_programmes.iter().min_by_key(|(used, _)| *used).map(|(_, oldest)| (*oldest).clone())
    {
        active_programmes.remove(&oldest);
    }
    if active_programmes.len() >= MAX_ACTIVE_PROGRAMMES {
        return Err(Error::new(Code::ServerBusy, "too many programmes are watched at once").with_retry_after(10));
    }
    let active = Arc::new(ActiveProgramme::new(key.reader.clone()));
    active_programmes.insert(key.clone(), active.clone());
    drop(active_programmes);
    start_maintenance(service);
    Ok(active)
}

/// The segments of a view now. Live windows are cached.
pub fn listed_segments(service: &Service, channel: &Channel, view: PlaylistView) -> ListedSegments {
    let now_ms = channel.channel_ms_at(service.clock.now_ms());
    let (clock, target_seconds) = (channel.clock.as_deref(), channel.target_seconds());
    let variety = (channel.id, channel.copies);
    let compute_window =
        || live_window::listed_segments(&channel.definition, clock, view, target_seconds, now_ms).into();
    let segments: Arc<[LiveSegment]> = match view {
        _ if channel.external.is_some() => ingest::playlist_window(service, channel),
        PlaylistView::Live => {
            let mut windows = service.live_channels.windows.lock().unwrap_or_else(PoisonError::into_inner);
            let cached = windows.get(&variety).filter(|window| {
                let has_begun = window.segments.last().is_some_and(|last| last.end <= now_ms.to_ticks());
                window.version == channel.version && has_begun && now_ms.to_ticks() < window.until_ticks
            });
            let cached_segments = cached.map(|window| window.segments.clone());
            cached_segments.unwrap_or_else(|| {
                let segments: Arc<[LiveSegment]> = compute_window();
                let next = live_window::segments_from(&channel.definition, clock, now_ms).next();
                let until_ticks = next.map_or(Ticks::ZERO, |next| next.end);
                if windows.len() >= MAX_WINDOWS {
                    windows.clear();
                }
                let window = LiveWindow { version: channel.version, until_ticks, segments: segments.clone() };
                windows.insert(variety, window);
                segments
            })
        }
        _ => compute_window(),
    };
    // A player begins a live view three target durations before the end of the list, and others at its start.
    let mut left_ticks = match view {
        PlaylistView::Live => Ticks::from_ms(3 * target_seconds as i64 * 1000),
        _ => Ticks::MAX,
    };
    let is_reached = |segment: &&LiveSegment| {
        left_ticks += segment.start - segment.end;
        left_ticks <= Ticks::ZERO
    };
    let first = segments.iter().rev().find(is_reached).or(segments.first()).copied();
    ListedSegments { segments, first, now_ms }
}

/// Whether a segment can be sent at once.
pub fn is_made(service: &Service, channel: &Channel, segment: &LiveSegment) -> bool {
    ScheduledSegment::find_shared(service, channel, segment).is_none_or(|segment| segment.is_made(service))
}

/// Whether the current programme's video is encoded.
fn is_current_encoded(service: &Service, channel: &Channel) -> bool {
    let current = service.channels.current_programme(channel, service.clock.now_ms());
    current.is_some_and(|current| matches!(channel.definition.item_of(&current).segmentation, Segmentation::Frames(_)))
}

/// Whether a slate replaces the current programme because it cannot be shown.
fn is_current_broken(service: &Service, channel: &Channel) -> bool {
    let current = service.channels.current_programme(channel, service.clock.now_ms());
    current.is_some_and(|current| {
        let key = ProgrammeKey::new(channel, &current, String::new());
        service.live_channels.existing_programme(&key).is_some_and(|active| active.is_broken())
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
    let has_open_programme = || {
        let active_programmes = service.live_channels.active_programmes();
        active_programmes.iter().any(|(key, active)| key.channel == channel.id && active.rendition_name().is_some())
    };
    let has_first_segment = || {
        let first = || listed_segments(service, channel, PlaylistView::Live).first;
        has_open_programme() || first().is_some_and(|segment| is_made(service, channel, &segment))
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
