//! A viewer's requests to a channel: it is opened, listed, received in segments, and left.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::maintenance::make_first;
use super::varieties::record_request;
use super::{
    AiredSegment, CopiedSegment, ListedSegments, MAX_EARLY_MS, ScheduledSegment, ZapKind, admit, air_segment,
    listed_segments, make_ahead, not_on_air_error, retry_when_busy, start_maintenance,
};
use crate::domain::channel::Channel;
use crate::domain::live_window::{CATCHUP_MS, LivePlaylist, LiveTrack, MAX_PLAYLIST_MS, PlaylistView};
use crate::domain::time::{ChannelMs, WallMs};
use crate::error::{Code, Error, Result};
use crate::service::channels::{ViewStart, Viewer};
use crate::service::{Service, ingest};

/// How often a request without segments to list checks whether there are any.
const LIST_POLL: Duration = Duration::from_millis(100);

/// How often a held request checks whether the programme has finished the segment it is making.
const MAKING_POLL: Duration = Duration::from_millis(20);

/// The part of a channel that a viewer requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedView {
    Live,
    /// From the start of the programme that is on at the viewer's first such request.
    StartOver,
    /// Catch-up from an instant.
    From(WallMs),
    /// Catch-up between two instants.
    Between(WallMs, WallMs),
}

/// Start and end of a start-over or catch-up view; without an end it continues to the present.
pub type RangeMs = (WallMs, Option<WallMs>);

/// A channel as a viewer requested it.
pub enum Opening {
    /// Its first segment can be sent. The live view has no range.
    Ready { range_ms: Option<RangeMs> },
    /// Its first segment is being made; the progress is in percent.
    Starting { progress: u8 },
}

/// A channel's playlist for a viewer. It names no segment that the encode slots do not suffice for.
struct ChannelPlaylist {
    playlist: LivePlaylist,
    /// None for the live view.
    range_ms: Option<RangeMs>,
    /// The segment that a player requests first; None for an external channel.
    first: Option<ScheduledSegment>,
}

impl RequestedView {
    /// The view in channel time, and its start and end unless it is live.
    fn resolve(
        self,
        service: &Service,
        channel: &Channel,
        viewer: &Viewer,
        now_ms: WallMs,
    ) -> Result<(PlaylistView, Option<RangeMs>)> {
        Ok(match self {
            Self::Live => (PlaylistView::Live, None),
            Self::StartOver => {
                let current_start =
                    || channel.definition.programme_bounds(channel.channel_ms_at(now_ms)).map(|(start, _)| start);
                match service.viewers.view_start_ms(channel.id, viewer).or_else(current_start) {
                    Some(from) => (PlaylistView::From(from), Some((channel.wall_ms_at(from), None))),
                    None => (PlaylistView::Live, None),
                }
            }
            Self::From(at_ms) => (PlaylistView::From(resolve_start(channel, at_ms, now_ms)?), Some((at_ms, None))),
            Self::Between(at_ms, end_ms) => {
                (resolve_range(channel, at_ms, end_ms, now_ms)?, Some((at_ms, Some(end_ms))))
            }
        })
    }
}

/// The start of a catch-up view.
fn resolve_start(channel: &Channel, at_ms: WallMs, now_ms: WallMs) -> Result<ChannelMs> {
    let start_ms = channel.channel_ms_at(at_ms);
    // The catch-up window of a paused channel is counted in channel time.
    let is_kept_by_pause = || {
        let oldest_kept = channel.definition.programme_at(channel.channel_ms_at(now_ms - CATCHUP_MS));
        channel.clock.is_some() && oldest_kept.is_some_and(|oldest| oldest.start_ms <= start_ms)
    };
    // Last, because the schedule of a far instant takes long to compute.
    let has_programme = || channel.definition.programme_at(start_ms).is_some();
    match at_ms <= now_ms && (at_ms >= now_ms - CATCHUP_MS || is_kept_by_pause()) && has_programme() {
        true => Ok(start_ms),
        false => {
            Err(Error::new(Code::NotFound, "the requested time is older than the catch-up window, or in the future"))
        }
    }
}

fn resolve_range(channel: &Channel, at_ms: WallMs, end_ms: WallMs, now_ms: WallMs) -> Result<PlaylistView> {
    let start_ms = resolve_start(channel, at_ms, now_ms)?;
    // The channel clock runs while this is watched, so the future part of the view lasts as long as in real time.
    let end_ms = channel.channel_ms_at(end_ms.min(now_ms)) + (end_ms - now_ms).max(0);
    match end_ms > start_ms {
        true => Ok(PlaylistView::Between(start_ms, end_ms)),
        false => Err(Error::new(Code::NotFound, "the channel was paused at that time and aired nothing")),
    }
}

/// Opens a channel for a viewer, and waits for its first segment. The segment is made even after the wait.
///
/// # Errors
/// `NOT_FOUND` for a start that is in the future or older than the catch-up window; `RIGHTS_WITHDRAWN`;
/// `TRANSCODER_BUSY`; `SERVER_BUSY`; `SEGMENT_TIMEOUT`.
pub async fn open(
    service: &Arc<Service>,
    channel: Arc<Channel>,
    viewer: &Viewer,
    view: RequestedView,
    wait: Duration,
) -> Result<Opening> {
    let (since, is_external, audience) =
        (Instant::now(), channel.external.is_some(), (channel.id, viewer.unique_name()));
    // What a scheduled channel lists is known at once.
    let list_wait = if is_external { wait } else { Duration::ZERO };
    let playlist = list(service, channel, viewer, view, list_wait).await?;
    let is_made = playlist.as_ref().and_then(|list| list.first.as_ref()).is_some_and(|first| first.is_made(service));
    let kind = match (is_external, is_made) {
        (true, _) => ZapKind::External,
        (false, true) => ZapKind::Prepared,
        (false, false) => ZapKind::Made,
    };
    let opening = wait_for_first(service, playlist, wait).await?;
    let times = &service.live_channels.zap_times;
    match opening {
        Opening::Starting { .. } => times.record_start(audience, since, kind),
        Opening::Ready { .. } => times.record_ready(&audience, since, kind),
    }
    Ok(opening)
}

/// Has the first segment of a playlist made, for at most `wait`.
async fn wait_for_first(service: &Arc<Service>, playlist: Option<ChannelPlaylist>, wait: Duration) -> Result<Opening> {
    let Some(ChannelPlaylist { playlist, range_ms, first }) = playlist else {
        return Ok(Opening::Starting { progress: 0 });
    };
    let make = || async {
        let Some(first) = &first else { return Ok(()) };
        while !first.is_made(service) {
            match make_ahead(service, &playlist.channel, first)? {
                // Continues after the request has ended: the next request finds the segment ready.
                Some(task) => return task.await.map_err(Error::internal)?,
                None => tokio::time::sleep(MAKING_POLL).await,
            }
        }
        Ok::<(), Error>(())
    };
    match tokio::time::timeout(wait, retry_when_busy(service, make)).await {
        Ok(made) => made.map(|()| Opening::Ready { range_ms }),
        Err(_) => Ok(Opening::Starting { progress: 30 }),
    }
}

/// The playlist of a channel as soon as there is a segment to list.
///
/// # Errors
/// Those of [`open`]; `CHANNEL_UNAVAILABLE` if there is no segment after `wait`.
pub async fn playlist(
    service: &Arc<Service>,
    channel: Arc<Channel>,
    viewer: &Viewer,
    view: RequestedView,
    wait: Duration,
) -> Result<LivePlaylist> {
    let ChannelPlaylist { playlist, first, .. } =
        list(service, channel, viewer, view, wait).await?.ok_or_else(no_segment_error)?;
    if playlist.view == PlaylistView::Live
        && let Some(first) = &first
    {
        // An error is reported when the player requests it. This also keeps the programme in use while a shared cache sends its
        // segments.
        let _ = make_ahead(service, &playlist.channel, first);
    }
    Ok(playlist)
}

/// The answer while a channel has no segment.
pub(super) fn no_segment_error() -> Error {
    Error::new(Code::ChannelUnavailable, "the channel has no segment yet; retry in 5 s").with_retry_after(5)
}

/// Records the viewer's request, starts what the channel needs and lists its segments; None if `wait` ends without any.
async fn list(
    service: &Arc<Service>,
    channel: Arc<Channel>,
    viewer: &Viewer,
    requested: RequestedView,
    wait: Duration,
) -> Result<Option<ChannelPlaylist>> {
    let now_ms = service.clock.now_ms();
    let (view, range_ms) = requested.resolve(service, &channel, viewer, now_ms)?;
    let start = match view {
        PlaylistView::Live => ViewStart::Cleared,
        PlaylistView::From(from_ms) if requested == RequestedView::StartOver => ViewStart::At(from_ms),
        _ => ViewStart::Unchanged,
    };
    service.viewers.record_request(channel.id, viewer, start);
    record_request(service, &channel);
    // The past needs no running clock.
    let is_past = matches!(requested, RequestedView::Between(_, end_ms) if end_ms <= now_ms);
    let channel = match channel.clock {
        Some(_) if !is_past => service.channels.extend_clock(&channel).await?,
        _ => channel,
    };
    start_maintenance(service);
    if channel.external.is_some() {
        ingest::start_ingest(service, &channel)?;
    }
    let deadline = Instant::now() + wait;
    let mut listed = listed_segments(service, &channel, view);
    if listed.segments.is_empty() {
        make_first(service, &channel);
    }
    while listed.segments.is_empty() && Instant::now() < deadline {
        tokio::time::sleep(LIST_POLL).await;
        let current = service.channels.get(channel.id)?;
        service.check_showing_rights(&current)?;
        listed = listed_segments(service, &channel, view);
    }
    let ListedSegments { segments, first: Some(first), now_ms } = listed else { return Ok(None) };
    let segment_id = (first.programme_start_ms, first.index);
    // None for an external channel.
    let first = ScheduledSegment::find(service, &channel, segment_id, &viewer.unique_name()).ok();
    if let Some(first) = &first {
        admit(service, &channel, first).await?;
    }
    let is_paused = channel.clock.as_ref().is_some_and(|clock| clock.is_paused_at(service.clock.now_ms()));
    let playlist = LivePlaylist { channel, view, segments, channel_now_ms: now_ms, is_paused };
    Ok(Some(ChannelPlaylist { playlist, range_ms, first }))
}

/// A segment of a channel's track for a viewer, made now if it is missing. The caller has checked the right to show the channel.
///
/// # Errors
/// `ASSET_NOT_FOUND` for one that is not on air yet, or that no playlist names any more; those of [`air_segment`].
pub async fn segment(
    service: &Arc<Service>,
    channel: &Channel,
    track: &LiveTrack,
    (programme_start_ms, index): (ChannelMs, usize),
    viewer: &Viewer,
) -> Result<AiredSegment> {
    if channel.external.is_none() {
        let segment = find_segment(service, channel, (programme_start_ms, index), viewer)?;
        return air_segment(service, channel, &segment, track).await;
    }
    if viewer.is_named() {
        service.viewers.record_request(channel.id, viewer, ViewStart::Unchanged);
    }
    let has_name = index == 0 && *track == LiveTrack::Muxed;
    let found = ingest::find_segment(service, channel, programme_start_ms).filter(|_| has_name);
    let bytes = found.ok_or_else(not_on_air_error)?;
    let etag = format!("\"e-{}-{}\"", programme_start_ms.0, bytes.len());
    Ok(AiredSegment { bytes, etag, is_slate: false, is_outdated: false })
}

/// A segment of video that is copied alone; None if it is not, and [`segment`] makes it. The caller has checked the right to show
/// the channel.
///
/// # Errors
/// `ASSET_NOT_FOUND`, also if the item cannot be copied now.
pub async fn copied_segment(
    service: &Arc<Service>,
    channel: &Channel,
    segment_id: (ChannelMs, usize),
    viewer: &Viewer,
) -> Result<Option<CopiedSegment>> {
    let segment = find_segment(service, channel, segment_id, viewer)?;
    match segment.is_copied {
        true => super::copied_segment::lay_out(service, channel, &segment).await.map(Some),
        false => Ok(None),
    }
}

/// A segment of a scheduled channel that a playlist may name now.
fn find_segment(
    service: &Service,
    channel: &Channel,
    (programme_start_ms, index): (ChannelMs, usize),
    viewer: &Viewer,
) -> Result<ScheduledSegment> {
    if viewer.is_named() {
        service.viewers.record_request(channel.id, viewer, ViewStart::Unchanged);
    }
    record_request(service, channel);
    let now_ms = service.clock.now_ms();
    let oldest_ms = channel.channel_ms_at(now_ms - CATCHUP_MS) - MAX_PLAYLIST_MS;
    if programme_start_ms < oldest_ms {
        return Err(Error::new(Code::AssetNotFound, "the channel has no segment with this name"));
    }
    let latest_ms = channel.channel_ms_at(now_ms) + MAX_EARLY_MS;
    // First, because the schedule of a far instant takes long to compute.
    if programme_start_ms > latest_ms {
        return Err(not_on_air_error());
    }
    let segment = ScheduledSegment::find(service, channel, (programme_start_ms, index), &viewer.unique_name())?;
    if programme_start_ms.to_ticks() + segment.ranges.segment_start(index) > latest_ms.to_ticks() {
        return Err(not_on_air_error());
    }
    Ok(segment)
}

/// Ends a viewer's view; false when there was none. Without viewers, an on-demand channel pauses.
pub async fn leave(service: &Service, channel: u32, viewer: &Viewer) -> bool {
    let has_left = service.viewers.leave(channel, viewer);
    if has_left {
        service.channels.pause_clock(channel, || service.viewers.viewer_count(channel) > 0).await;
    }
    has_left
}
