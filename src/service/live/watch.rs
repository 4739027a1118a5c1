//! A viewer's requests to a channel: it is opened, listed, received in segments, and left.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::maintenance::{make_ahead, make_first};
use super::{
    AiredSegment, admit, first_requested_segment, is_made, listed_segments, make_for, produce_segment,
    start_maintenance,
};
use crate::domain::channel::Channel;
use crate::domain::live_window::{self, CATCHUP_MS, LiveSegment, PlaylistView};
use crate::error::{Code, Error, Result};
use crate::service::channels::Viewer;
use crate::service::{Service, ingest};

/// How often a request without segments to list checks whether there are any.
const LIST_POLL: Duration = Duration::from_millis(100);

/// How often a held request checks whether the programme has finished the segment it is making.
const MAKING_POLL: Duration = Duration::from_millis(20);

/// The part of a channel that a viewer requests. All instants are unix ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedView {
    Live,
    /// From the start of the programme that is on at the viewer's first such request.
    StartOver,
    /// Catch-up from an instant.
    From(i64),
    /// Catch-up between two instants.
    Between(i64, i64),
}

/// Start and end of a start-over or catch-up view, unix ms; without an end it extends to the present.
pub type RangeMs = (i64, Option<i64>);

/// A channel as a viewer requested it.
pub enum Opening {
    /// Its first segment can be sent.
    Ready(ChannelPlaylist),
    /// Its first segment is being made; the progress is in percent.
    Starting { progress: u8 },
}

/// A media playlist of a channel. It names no segment that the encode slots do not suffice for.
pub struct ChannelPlaylist {
    channel: Arc<Channel>,
    view: PlaylistView,
    /// None for the live view.
    pub range_ms: Option<RangeMs>,
    segments: Arc<[LiveSegment]>,
    /// The segment that a player requests first.
    first: LiveSegment,
    is_complete: bool,
}

impl RequestedView {
    /// The view in channel time, and its start and end in unix ms unless it is live.
    fn resolve(
        self,
        service: &Service,
        channel: &Channel,
        viewer: &Viewer,
        now_ms: i64,
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

/// The start of a catch-up view in channel time.
fn resolve_start(channel: &Channel, at_ms: i64, now_ms: i64) -> Result<i64> {
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

fn resolve_range(channel: &Channel, at_ms: i64, end_ms: i64, now_ms: i64) -> Result<PlaylistView> {
    let start_ms = resolve_start(channel, at_ms, now_ms)?;
    // The channel clock runs while this is watched, so the future part of the view lasts as long as in real time.
    let end_ms = channel.channel_ms_at(end_ms.min(now_ms)) + (end_ms - now_ms).max(0);
    match end_ms > start_ms {
        true => Ok(PlaylistView::Between(start_ms, end_ms)),
        false => Err(Error::new(Code::NotFound, "the channel was paused at that time and aired nothing")),
    }
}

impl ChannelPlaylist {
    /// `query` is appended to every address.
    pub fn render(&self, query: &str) -> String {
        let (clock, target_seconds) = (self.channel.clock.as_deref(), self.channel.output.target_seconds);
        live_window::render_playlist(&self.segments, clock, self.view, target_seconds, self.is_complete, query)
    }

    /// Leaves out `EXT-X-DISCONTINUITY`.
    pub fn remove_discontinuities(&mut self) {
        self.segments = self.segments.iter().map(|segment| LiveSegment { discontinuities: 0, ..*segment }).collect();
    }
}

/// Opens a channel for a viewer, and waits for its first segment. The segment is made even after the wait.
///
/// # Errors
/// `NOT_FOUND` for a start that is in the future or older than the catch-up window; `RIGHTS_WITHDRAWN`;
/// `TRANSCODER_BUSY`; `SERVER_BUSY`; those of [`produce_segment`].
pub async fn open(
    service: &Arc<Service>,
    channel: Arc<Channel>,
    viewer: &Viewer,
    view: RequestedView,
    wait: Duration,
) -> Result<Opening> {
    // What a scheduled channel lists is known at once.
    let list_wait = if channel.external.is_some() { wait } else { Duration::ZERO };
    let Some(playlist) = list(service, channel, viewer, view, list_wait).await? else {
        return Ok(Opening::Starting { progress: 0 });
    };
    let (channel, first) = (&playlist.channel, playlist.first);
    let first_made = async {
        while !is_made(service, channel, &first) {
            match make_for(service, channel, first, &viewer.unique_name())? {
                // Continues after the request has ended: the next request finds the segment ready.
                Some(task) => return task.await.map_err(Error::internal)?,
                None => tokio::time::sleep(MAKING_POLL).await,
            }
        }
        Ok::<(), Error>(())
    };
    let made = tokio::time::timeout(wait, first_made).await;
    match made {
        Ok(made) => made.map(|()| Opening::Ready(playlist)),
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
) -> Result<ChannelPlaylist> {
    let playlist = list(service, channel, viewer, view, wait).await?.ok_or_else(no_segment_error)?;
    // Before the player requests it.
    if playlist.view == PlaylistView::Live {
        make_ahead(service, &playlist.channel, playlist.first);
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
    let now_ms = service.clock.now().as_millisecond();
    let (view, range_ms) = requested.resolve(service, &channel, viewer, now_ms)?;
    // A start-over view keeps its start. A live view gives it up, so that the next start-over begins with the programme that
    // is on then.
    let kept_start_ms = match view {
        PlaylistView::From(from_ms) if requested == RequestedView::StartOver => Some(from_ms),
        _ => None,
    };
    if view == PlaylistView::Live {
        service.viewers.clear_start(channel.id, viewer);
    }
    service.viewers.record_request(channel.id, viewer, kept_start_ms);
    let channel = match requested {
        // The past needs no clock.
        RequestedView::Between(_, end_ms) if end_ms <= now_ms => channel,
        _ => service.channels.extend_clock(&channel).await?,
    };
    start_maintenance(service);
    ingest::start_ingest(service, &channel)?;
    let deadline = Instant::now() + wait;
    let (mut segments, mut now_ms) = listed_segments(service, &channel, view);
    if segments.is_empty() {
        make_first(service, &channel);
    }
    while segments.is_empty() && Instant::now() < deadline {
        tokio::time::sleep(LIST_POLL).await;
        service.check_showing_rights(&service.channels.get(channel.id)?)?;
        (segments, now_ms) = listed_segments(service, &channel, view);
    }
    let first = match view {
        PlaylistView::Live => first_requested_segment(&segments, channel.output.target_seconds),
        _ => segments.first().copied(),
    };
    let Some(first) = first else { return Ok(None) };
    admit(service, &channel, &first, &viewer.unique_name()).await?;
    let clock = channel.clock.as_deref();
    let is_paused = clock.is_some_and(|clock| clock.is_paused_at(service.clock.now().as_millisecond()));
    let is_complete = live_window::is_complete(&channel.definition, clock, view, &segments, now_ms, is_paused);
    Ok(Some(ChannelPlaylist { channel, view, range_ms, segments, first, is_complete }))
}

/// A segment of a channel for a viewer, made now if it is missing.
///
/// # Errors
/// `ASSET_NOT_FOUND` for one that no playlist names any more, and those of [`produce_segment`].
pub async fn segment(
    service: &Arc<Service>,
    channel: &Channel,
    segment_id: (i64, usize),
    viewer: &Viewer,
) -> Result<AiredSegment> {
    if viewer.is_named() {
        service.viewers.record_request(channel.id, viewer, None);
    }
    let oldest_ms =
        channel.channel_ms_at(service.clock.now().as_millisecond() - CATCHUP_MS) - live_window::MAX_PLAYLIST_MS;
    if segment_id.0 < oldest_ms {
        return Err(Error::new(Code::AssetNotFound, "the channel has no segment with this name"));
    }
    produce_segment(service, channel, segment_id, &viewer.unique_name()).await
}

/// Ends a viewer's view; false when there was none. Without viewers, an on-demand channel pauses.
pub async fn leave(service: &Service, channel: u32, viewer: &Viewer) -> bool {
    let has_left = service.viewers.leave(channel, viewer);
    if has_left {
        service.channels.pause_clock(channel, || service.viewers.viewer_count(channel) > 0).await;
    }
    has_left
}
