//! The view of a channel that a watch request selects: live, start-over (`fromStart`) or catch-up (`at`).

use jiff::Timestamp;
use utoipa::IntoParams;

use crate::domain::time::WallMs;
use crate::http::api::prelude::*;
use crate::service::live::RequestedView;

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
    pub view: RequestedView,
    pub watch_session: Option<String>,
}

impl ViewQuery {
    /// `default_session` is the viewer name used for start-over requests without a `watchSession`.
    pub fn from_request(call: &Call, default_session: Option<&str>) -> Result<Self> {
        let is_start_over = !matches!(call.query("fromStart"), None | Some("" | "0" | "false"));
        let session = parse_watch_session(call)?;
        let at = ["at", "utc"].into_iter().find_map(|field| Some((field, call.query(field)?)));
        let at_ms = at.map(|(field, text)| parse_instant_ms(field, text)).transpose()?;
        let end_ms = call.query("end").map(|text| parse_instant_ms("end", text)).transpose()?;
        let duration = call.query("duration").map(|text| {
            let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=1e6).contains(seconds));
            seconds.ok_or_else(|| Error::invalid_field("duration", "must be a number of seconds from 0 to 1000000"))
        });
        let duration_ms = duration.transpose()?.map(|seconds| (seconds * 1000.0) as i64);
        let end_ms = end_ms.or(at_ms.zip(duration_ms).map(|(at_ms, duration_ms)| at_ms + duration_ms));
        let view = match (at_ms, end_ms) {
            (Some(at_ms), Some(end_ms)) if end_ms <= at_ms => {
                return Err(Error::invalid_field("end", "must be later than at"));
            }
            (Some(at_ms), Some(end_ms)) => RequestedView::Between(at_ms, end_ms),
            (Some(at_ms), None) => RequestedView::From(at_ms),
            (None, _) if is_start_over => RequestedView::StartOver,
            (None, _) => RequestedView::Live,
        };
        let session = session.or(default_session.filter(|_| view == RequestedView::StartOver));
        Ok(Self { view, watch_session: session.map(str::to_owned) })
    }
}

/// The parameters that select the same view again, each after `&`.
impl std::fmt::Display for RequestedView {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Live => Ok(()),
            Self::StartOver => write!(formatter, "&fromStart=1"),
            Self::From(at) => write!(formatter, "&at={}", UnixSecondsText(at)),
            Self::Between(at, end) => write!(formatter, "&at={}&end={}", UnixSecondsText(at), UnixSecondsText(end)),
        }
    }
}

pub fn parse_watch_session(call: &Call) -> Result<Option<&str>> {
    let Some(session) = call.query("watchSession") else { return Ok(None) };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    match (1..=64).contains(&session.len()) && session.bytes().all(is_allowed) {
        true => Ok(Some(session)),
        false => Err(Error::invalid_field("watchSession", "must be 1 to 64 letters, digits, _ or -")),
    }
}

/// Parses an instant in ISO 8601 or unix seconds.
fn parse_instant_ms(field: &str, text: &str) -> Result<WallMs> {
    let unix_seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..1e11).contains(seconds));
    let ms = unix_seconds.map(|seconds| WallMs((seconds * 1000.0).round() as i64));
    let parse_iso = || text.replace(' ', "+").parse::<Timestamp>().ok().map(WallMs::from);
    ms.or_else(parse_iso).ok_or_else(|| Error::invalid_field(field, "must be an instant in ISO 8601 or unix seconds"))
}

/// An instant, displayed as unix seconds.
pub struct UnixSecondsText(pub WallMs);

impl std::fmt::Display for UnixSecondsText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{:03}", self.0.0.div_euclid(1000), self.0.0.rem_euclid(1000))
    }
}
