//! The maintenance task of live channels. It runs while anything is open, releases what is unused and prepares the next
//! programmes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{
    ListedSegments, ProgrammeKey, ScheduledSegment, find_or_add_programme, is_kept_by, is_made,
    likely_zaps::likely_zaps, listed_segments, varieties::watched_varieties,
};
use crate::domain::channel::Channel;
use crate::domain::live_window::{self, LiveAudio, LiveSegment, PlaylistView};
use crate::domain::schedule::Programme;
use crate::domain::time::{ChannelMs, Ticks, WallMs};
use crate::error::Result;
use crate::service::{Service, ingest};

/// How long a programme's run outlives the last request for it.
const LINGER: Duration = Duration::from_secs(60);

/// How far ahead of the clock a channel that is kept ready is made, ms: the segments its list names next, and a little more.
const READY_AHEAD_MS: i64 = 4_000;

/// How long an unwatched channel takes no encode slot after it gave one up.
const PREEMPTION_COOLDOWN: Duration = Duration::from_secs(10);

/// Interval of the maintenance.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);

/// How long before its start the next programme is prepared.
const PREPARE_AHEAD_MS: i64 = 20_000;

/// How many short programmes are prepared within that time.
const MAX_PREPARED: usize = 3;

/// Starts the maintenance task unless it is running. It ends when nothing is open.
pub fn start_maintenance(service: &Arc<Service>) {
    if service.live_channels.has_maintenance_task.swap(true, Ordering::SeqCst) {
        return;
    }
    let weak_service = Arc::downgrade(service);
    service.tasks.spawn(async move {
        loop {
            let Some(service) = weak_service.upgrade() else { return };
            if !maintain(&service) {
                let has_task = &service.live_channels.has_maintenance_task;
                has_task.store(false, Ordering::SeqCst);
                // A programme may have been opened meanwhile, and its `start_maintenance` found the task running.
                if !maintain(&service) || has_task.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
            drop(service);
            tokio::time::sleep(MAINTENANCE_INTERVAL).await;
        }
    });
}

/// Releases what is unused and prepares the next programmes. False when nothing needs maintenance.
fn maintain(service: &Arc<Service>) -> bool {
    let live_channels = &service.live_channels;
    service.viewers.expire_views();
    let now_ms = service.clock.now_ms();
    let watched: HashSet<u32> = service.viewers.watched_channels();
    let warm = service.viewers.warm_channels();
    let channels = service.channels.all();
    let is_cooling_down =
        live_channels.last_preemption().is_some_and(|since: Instant| since.elapsed() < PREEMPTION_COOLDOWN);
    let likely_zaps = match is_cooling_down {
        true => HashSet::new(),
        false => likely_zaps(service, &channels, |channel| is_kept_by(&warm, channel)),
    };
    let is_kept_ready = |channel: &Channel| is_kept_by(&warm, channel) || likely_zaps.contains(&channel.id);
    let published = live_channels.state_publisher.published_channels();
    let mut has_work = !published.is_empty();
    for channel in published.iter().filter(|id| !channels.iter().any(|channel| channel.id == **id)) {
        live_channels.state_publisher.remove(*channel);
    }
    for channel in channels
        .iter()
        .filter(|channel| published.contains(&channel.id) && !watched.contains(&channel.id) && !is_kept_ready(channel))
    {
        live_channels.state_publisher.publish(service, channel);
    }
    for channel in channels.iter().filter(|channel| is_kept_ready(channel) || watched.contains(&channel.id)) {
        has_work = true;
        if let Err(fault) = ingest::start_ingest(service, channel) {
            tracing::debug!(channel.id = channel.id, %fault, "an external channel cannot be received");
        }
        let may_take_slots = !is_cooling_down || watched.contains(&channel.id);
        if is_kept_ready(channel) {
            make_missing(service, channel, may_take_slots);
        }
        for variety in watched_varieties(service, channel, is_kept_ready(channel)) {
            prepare_upcoming(service, &variety, now_ms, may_take_slots);
        }
        live_channels.state_publisher.publish(service, channel);
    }
    live_channels.drop_outdated(service);
    let mut active_programmes = live_channels.active_programmes();
    active_programmes.retain(|_, active| {
        active.release_when_complete(service);
        !active.is_idle(LINGER)
    });
    // An audience keeps its admission to the encode slots while it is present, whatever its programmes need.
    live_channels.admissions().retain(|(channel, reader), _| {
        let is_present = match reader.is_empty() {
            true => watched.contains(channel) || channels.iter().any(|one| one.id == *channel && is_kept_ready(one)),
            false => service.viewers.is_watching(*channel, reader),
        };
        let is_audience = |key: &ProgrammeKey| key.channel == *channel && key.reader == *reader;
        is_present || active_programmes.iter().any(|(key, active)| is_audience(key) && active.may_be_leased())
    });
    has_work || !active_programmes.is_empty()
}

/// Prepares the next programmes of a channel, or of a variety of it.
fn prepare_upcoming(service: &Arc<Service>, channel: &Arc<Channel>, now_ms: WallMs, may_take_slots: bool) {
    let now_ms = channel.channel_ms_at(now_ms);
    let current = channel.definition.programme_at(now_ms);
    // The part after a break waits until its run has made the part before.
    let continues_current = |next: &Programme| {
        next.continues_programme
            && current.is_some_and(|current| {
                (current.revision_index, current.item_index) == (next.revision_index, next.item_index)
            })
    };
    let upcoming = channel.definition.programmes_between(now_ms, now_ms + PREPARE_AHEAD_MS);
    let upcoming = upcoming.filter(|next| next.start_ms > now_ms && !continues_current(next));
    let upcoming = upcoming.take(MAX_PREPARED).filter(|_| may_take_slots && has_first_segment(service, channel));
    let played_audio = played_audio(service, channel, now_ms);
    for next in upcoming {
        make_shared(service, channel, (next.start_ms, 0));
        make_audio_ahead(service, channel, next.start_ms, &played_audio);
    }
}

/// The segments a viewer who joins now needs, from their first one to those the list is about to name. Empty for an external
/// channel, because it has no schedule.
fn join_segments(service: &Service, channel: &Channel) -> Vec<LiveSegment> {
    let ListedSegments { first, now_ms, .. } = listed_segments(service, channel, PlaylistView::Live);
    let (definition, clock) = (&channel.definition, channel.clock.as_deref());
    // Before anything is listed: the segment that will be first.
    let first = first.or_else(|| live_window::segments_from(definition, clock, now_ms).next());
    let Some(first_segment) = first else { return Vec::new() };
    let segments = live_window::segments_from(definition, clock, ChannelMs::from_ticks(first_segment.start));
    let segments = segments.skip_while(|segment| segment.media_sequence < first_segment.media_sequence);
    segments.take_while(|segment| segment.start < (now_ms + READY_AHEAD_MS).to_ticks()).collect()
}

/// Whether the first segment of a viewer who joins is made, or never will be. Before that the next programme must not take
/// the one encode slot that this segment needs.
fn has_first_segment(service: &Service, channel: &Channel) -> bool {
    let first = listed_segments(service, channel, PlaylistView::Live).first;
    let first = first.and_then(|first| ScheduledSegment::find_shared(service, channel, &first));
    first.is_none_or(|segment| {
        let active = service.live_channels.existing_programme(&segment.key);
        segment.is_made(service) || active.is_some_and(|active| active.is_broken())
    })
}

/// Whether a viewer who joins now can start playback at once: their first segment and the one after it are made.
pub(super) fn can_join_at_once(service: &Service, channel: &Channel) -> bool {
    join_segments(service, channel).iter().take(2).all(|segment| is_made(service, channel, segment))
}

/// Makes the missing segments of a channel's stock, the first one of each programme, and reports the clock's position to the
/// runs, which work ahead of that position at the clock's speed. A new encode slot is taken only if `may_take_slots` is set.
fn make_missing(service: &Arc<Service>, channel: &Arc<Channel>, may_take_slots: bool) {
    let segments = join_segments(service, channel);
    let Some(first_segment) = segments.first() else { return };
    for programme_segments in segments.chunk_by(|one, next| one.programme_start_ms == next.programme_start_ms) {
        let scheduled =
            programme_segments.iter().map(|segment| ScheduledSegment::find_shared(service, channel, segment));
        let scheduled: Vec<ScheduledSegment> = scheduled.flatten().collect();
        let active = scheduled.first().and_then(|first| service.live_channels.existing_programme(&first.key));
        let missing = scheduled.into_iter().find(|segment| !segment.is_made(service));
        let last_reached = programme_segments
            .iter()
            .rfind(|segment| segment.start <= first_segment.start + Ticks::from_ms(READY_AHEAD_MS));
        match (missing, last_reached, active) {
            (Some(missing), _, active)
                if may_take_slots || active.as_ref().is_some_and(|active| active.is_leased()) =>
            {
                let _ = make_ahead(service, channel, &missing);
            }
            (None, Some(reached), Some(active)) => {
                active.touch();
                active.report_position(reached.item_index);
            }
            _ => {}
        }
    }
}

/// Skips the current programme of an on-demand channel. If it is watched, the next one is made at once, because there was no
/// time to prepare it.
///
/// # Errors
/// Those of [`Channels::skip_programme`](crate::service::channels::Channels::skip_programme).
pub async fn skip(service: &Arc<Service>, id: u32) -> Result<Arc<Channel>> {
    let channel = service.channels.skip_programme(id).await?;
    let now_ms = channel.channel_ms_at(service.clock.now_ms());
    let current = live_window::segments_from(&channel.definition, channel.clock.as_deref(), now_ms).next();
    if let Some(segment) = current.filter(|_| service.viewers.viewer_count(id) > 0) {
        make_shared(service, &channel, (segment.programme_start_ms, segment.index));
    }
    Ok(channel)
}

/// Makes the first segment of a channel whose list is still empty.
pub(super) fn make_first(service: &Arc<Service>, channel: &Arc<Channel>) {
    if let Some(segment) = join_segments(service, channel).first() {
        make_shared(service, channel, (segment.programme_start_ms, segment.index));
    }
}

/// Makes a segment that is about to be requested, unless it is made or its programme is already making one ahead. So the
/// tasks that outlive their requests are at most one for each open programme.
///
/// # Errors
/// `SERVER_BUSY` when too many programmes are open. The task returns `TRANSCODER_BUSY` and `SEGMENT_TIMEOUT`.
pub fn make_ahead(
    service: &Arc<Service>,
    channel: &Arc<Channel>,
    segment: &ScheduledSegment,
) -> Result<Option<JoinHandle<Result<()>>>> {
    if !segment.shows_item {
        return Ok(None);
    }
    let active = find_or_add_programme(service, &segment.key)?;
    active.touch();
    if segment.is_made(service) {
        return Ok(None);
    }
    let Some(making) = active.start_making_ahead() else { return Ok(None) };
    let (service, channel, segment) = (service.clone(), channel.clone(), segment.clone());
    Ok(Some(tokio::spawn(async move {
        let made = active.make_segment(&service, &channel, &segment, None).await;
        drop(making);
        made.map(drop).inspect_err(|error| {
            tracing::debug!(channel.id = channel.id, %error, "a segment could not be made ahead");
        })
    })))
}

/// The audio tracks beside the default one that the live viewers of a channel play now, each once.
fn played_audio(service: &Service, channel: &Channel, now_ms: ChannelMs) -> Vec<LiveAudio> {
    let active_programmes = service.live_channels.active_programmes();
    let is_of_channel = |key: &ProgrammeKey| (key.channel, key.copies) == (channel.id, channel.copies);
    let on_air = active_programmes
        .iter()
        .filter(|(key, _)| is_of_channel(key) && key.reader.is_empty() && key.programme_start_ms <= now_ms);
    let mut tracks: Vec<LiveAudio> = Vec::new();
    for track in on_air.flat_map(|(_, active)| active.played_audio()) {
        if !tracks.contains(&track) {
            tracks.push(track);
        }
    }
    tracks
}

/// Makes the first missing one of these tracks of a programme's first segment, once its video is made.
fn make_audio_ahead(service: &Arc<Service>, channel: &Arc<Channel>, start_ms: ChannelMs, tracks: &[LiveAudio]) {
    let Ok(segment) = ScheduledSegment::find(service, channel, (start_ms, 0), "") else { return };
    let Some(active) = service.live_channels.existing_programme(&segment.key) else { return };
    if !segment.shows_item || !segment.is_made(service) {
        return;
    }
    let is_missing = |track: &&LiveAudio| !active.has_audio(service, track, segment.item_index);
    let Some(track) = tracks.iter().find(is_missing).cloned() else { return };
    let Some(making) = active.start_making_ahead() else { return };
    let (service, channel) = (service.clone(), channel.clone());
    tokio::spawn(async move {
        let made = active.make_segment(&service, &channel, &segment, Some(&track)).await;
        drop(making);
        if let Err(error) = made {
            tracing::debug!(channel.id = channel.id, %error, "an audio track could not be made ahead");
        }
    });
}

/// Makes a segment of the live viewers ahead, if the schedule has it. An error is reported by the request for it.
fn make_shared(service: &Arc<Service>, channel: &Arc<Channel>, segment_id: (ChannelMs, usize)) {
    if let Ok(segment) = ScheduledSegment::find(service, channel, segment_id, "") {
        let _ = make_ahead(service, channel, &segment);
    }
}
