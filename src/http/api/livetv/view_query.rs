//! The view of a channel that a watch request selects: live, start-over (`fromStart`) or catch-up (`at`).

use std::sync::Arc;

use jiff::Timestamp;
use utoipa::IntoParams;

use crate::domain::channel::Channel;
use crate::domain::live_window::{CATCHUP_MS, PlaylistView};
use crate::error::{Code, Error, Result};
use crate::http::call::Call;
use crate::service::Service;
use crate::service::channels::Viewer;

/// Query parameters that select the view of a channel.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[allow(dead_code, reason = "OpenAPI only: the query is parsed by hand")]
pub struct ViewParams {
    /// `1`: start over, from the start of the programme that is on at the first such request of this `watchSession`, or at the
    /// first one after a live request of it. Without a `watchSession`, the server keeps one start per login or stream token
    /// until 30 s pass without a request.
    from_start: Option<String>,
    /// Catch-up: the start, as ISO 8601 or unix seconds. `utc` is an alias; `lutc` (the current time, which players send
    /// with it) is ignored.
    at: Option<String>,
    /// With `at`: the end, in the same formats.
    end: Option<String>,
    /// With `at`: the length in seconds, instead of `end`.
    duration: Option<f64>,
    /// Identifies the viewer: `[A-Za-z0-9_-]{1,64}`; generated when absent.
    watch_session: Option<String>,
}

/// The view a watch request selects.
pub struct ViewQuery {
    /// In channel time.
    pub view: PlaylistView,
    /// Start and end of a start-over or catch-up view in unix milliseconds; None for the live view.
    pub absolute_range_ms: Option<(i64, Option<i64>)>,
    pub watch_session: Option<String>,
    /// Whether the request is `fromStart` without `at`.
    starts_over: bool,
    /// Whether the view includes the present, so that the channel clock must run.
    includes_present: bool,
}

impl ViewQuery {
    /// `default_session` is the viewer name used for start-over requests without a `watchSession`.
    ///
    /// # Errors
    /// `VALIDATION_ERROR`; `NOT_FOUND` for a start that is in the future or older than the catch-up window.
    pub fn from_request(
        service: &Service,
        call: &Call,
        channel: &Channel,
        default_session: Option<&str>,
    ) -> Result<Self> {
        let is_start_over = !matches!(call.query("fromStart")?, None | Some("" | "0" | "false"));
        let session = parse_watch_session(call)?;
        let now_ms = service.clock.now().as_millisecond();
        let at = match call.query("at")? {
            None => call.query("utc")?.map(|text| ("utc", text)),
            at => at.map(|text| ("at", text)),
        };
        let at_ms = at.map(|(field, text)| parse_instant_ms(field, text)).transpose()?;
        let end = call.query("end")?.map(|text| parse_instant_ms("end", text)).transpose()?;
        let duration = call.query("duration")?.map(|text| {
            let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=1e6).contains(seconds));
            seconds.ok_or_else(|| Error::invalid_field("duration", "must be a number of seconds from 0 to 1000000"))
        });
        let duration = duration.transpose()?.map(|seconds| (seconds * 1000.0) as i64);
        let end = end.or(at_ms.zip(duration).map(|(at, duration)| at + duration));
        let session = session.or(default_session.filter(|_| is_start_over && at_ms.is_none())).map(str::to_owned);
        let view = match at_ms {
            Some(at_ms) => match end {
                Some(end) if end <= at_ms => return Err(Error::invalid_field("end", "must be later than at")),
                Some(end) => resolve_range(channel, at_ms, end, now_ms)?,
                None => PlaylistView::From(resolve_start(channel, at_ms, now_ms)?),
            },
            None if !is_start_over => PlaylistView::Live,
            None => {
                let stored_start = match &session {
                    Some(session) => {
                        service.viewers.view_start_ms(channel.id, &Viewer::new(call.user()?, Some(session)))
                    }
                    None => None,
                };
                let current_start =
                    || channel.definition.programme_bounds(channel.channel_ms_at(now_ms)).map(|(start, _)| start);
                stored_start.or_else(current_start).map_or(PlaylistView::Live, PlaylistView::From)
            }
        };
        let absolute_range_ms = match view {
            PlaylistView::Live => None,
            PlaylistView::From(from) => Some((at_ms.unwrap_or_else(|| channel.wall_ms_at(from)), None)),
            PlaylistView::Between(from, _) => Some((at_ms.unwrap_or(from), end)),
        };
        let includes_present = !matches!(view, PlaylistView::Between(..)) || end.is_some_and(|end| end > now_ms);
        Ok(Self {
            view,
            absolute_range_ms,
            watch_session: session,
            starts_over: is_start_over && at_ms.is_none(),
            includes_present,
        })
    }

    /// Starts the channel clock if the view includes the present.
    pub async fn start_clock(&self, service: &Service, channel: Arc<Channel>) -> Result<Arc<Channel>> {
        if self.includes_present { service.channels.extend_clock(&channel).await } else { Ok(channel) }
    }

    /// Records the request of a viewer. A start-over view keeps its start; a live view gives an earlier one up, so that the
    /// next start-over begins with the programme that is on then.
    pub fn record(&self, service: &Service, channel: &Channel, viewer: &Viewer) {
        let viewers = &service.viewers;
        let start = match self.view {
            PlaylistView::From(from) if self.starts_over => Some(from),
            _ => None,
        };
        if self.view == PlaylistView::Live {
            viewers.clear_start(channel.id, viewer);
        }
        viewers.record_request(channel.id, viewer, start);
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

fn resolve_range(channel: &Channel, at_ms: i64, end: i64, now_ms: i64) -> Result<PlaylistView> {
    let start_ms = resolve_start(channel, at_ms, now_ms)?;
    // The channel clock runs while this is watched, so the future part of the view lasts as long as in real time.
    let end_ms = channel.channel_ms_at(end.min(now_ms)) + (end - now_ms).max(0);
    match end_ms > start_ms {
        true => Ok(PlaylistView::Between(start_ms, end_ms)),
        false => Err(Error::new(Code::NotFound, "the channel was paused at that time and aired nothing")),
    }
}

pub fn parse_watch_session(call: &Call) -> Result<Option<&str>> {
    let Some(session) = call.query("watchSession")? else { return Ok(None) };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    match (1..=64).contains(&session.len()) && session.bytes().all(is_allowed) {
        true => Ok(Some(session)),
        false => Err(Error::invalid_field("watchSession", "must be 1 to 64 letters, digits, _ or -")),
    }
}

/// Parses an instant (ISO 8601 or unix seconds) to unix milliseconds.
fn parse_instant_ms(field: &str, text: &str) -> Result<i64> {
    let unix_seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..1e11).contains(seconds));
    let unix_ms = unix_seconds.map(|seconds| (seconds * 1000.0).round() as i64);
    let parse_iso = || text.replace(' ', "+").parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    unix_ms
        .or_else(parse_iso)
        .ok_or_else(|| Error::invalid_field(field, "must be an instant in ISO 8601 or unix seconds"))
}

/// Unix milliseconds, displayed as seconds.
pub struct UnixSecondsText(pub i64);

impl std::fmt::Display for UnixSecondsText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{:03}", self.0.div_euclid(1000), self.0.rem_euclid(1000))
    }
}
