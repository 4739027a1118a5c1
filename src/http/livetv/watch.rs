//! `/api/livetv/watch/…`: channels as they are played (contract section 10).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue, LOCATION, REFERRER_POLICY, RETRY_AFTER, USER_AGENT, VARY};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use warp::reply::Response;

use crate::domain::channel::Channel;
use crate::domain::live::{self, CATCHUP_MS, Slot, View};
use crate::error::{Code, Error, Result};
use crate::http::call::Call;
use crate::http::reply;
use crate::http::transcode;
use crate::service::Service;
use crate::service::accounts::random;
use crate::service::{ingest, onair};

/// A child address works for at least so long, and is the same for a whole such stretch: twelve hours.
const GRANT_SECONDS: i64 = 12 * 3600;

/// How long a watch request is held anyway: what is copied is there by then.
const LEAST_HOLD: Duration = Duration::from_millis(250);

/// Longest hold, of a watch request that asks for it and of a playlist that has nothing to list yet, seconds.
const MOST_HOLD_SECONDS: f64 = 15.0;

/// A channel whose first segment is being made.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Starting {
    ready: bool,
    message: String,
    channel_id: u32,
    /// To be sent along with the next request.
    watch_session: String,
    /// Percent of the way to the first picture.
    progress: u8,
    retry_after_ms: u32,
}

/// A view that was ended.
#[derive(Serialize, ToSchema)]
pub struct Ended {
    ended: bool,
}

/// What of a channel is asked for.
#[derive(IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[allow(dead_code, reason = "a description: `Asked` reads the real ones")]
pub struct ViewParams {
    /// `1`: from the start of what is on; with `watchSession`, of what was on at the first such request.
    from_start: Option<String>,
    /// Catch-up: from an instant on, ISO 8601 or unix seconds. `utc` means the same; the `lutc` that players send with it
    /// is the time it is, and taken no notice of.
    at: Option<String>,
    /// With `at`: to this instant.
    end: Option<String>,
    /// With `at`: for so many seconds.
    duration: Option<f64>,
    /// Who watches: `[A-Za-z0-9_-]{1,64}`; made up when absent.
    watch_session: Option<String>,
}

/// What lets in who sends no bearer token.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "a description: `Endpoint::admit` reads the real ones")]
pub struct PassParams {
    /// Signed grant, instead of a bearer token.
    st: Option<String>,
    /// Stream token, or with `exp` and `sig` that of a signed address.
    token: Option<String>,
    /// Of a signed address: until when it works, unix seconds.
    exp: Option<String>,
    /// Of a signed address.
    sig: Option<String>,
}

/// The resource a grant for a channel names.
pub fn resource(call: &Call) -> Option<String> {
    let raw = call.params.first()?;
    Some(match raw.parse::<u32>() {
        Ok(id) => format!("livetv/watch/{id}"),
        Err(_) => format!("livetv/watch/{raw}"),
    })
}

/// Watch a channel: the way to its playlist, once the first segment is there
#[utoipa::path(get, path = "/api/livetv/watch/{id}",
    params(
        ("id" = u32, Path, description = "As listed"),
        ("wait" = Option<f64>, Query, description = "Hold the request for up to so many seconds, 15 at most; `Prefer: wait=` means the same"),
        ViewParams,
        PassParams,
    ),
    responses(
        (status = 302, description = "To the playlist, with a grant of its own"),
        (status = 202, description = "It is starting: ask again", body = Starting),
        (status = 403, description = "`RIGHTS_WITHDRAWN`"),
        (status = 404, description = "`CHANNEL_NOT_FOUND`; `NOT_FOUND`: longer ago than is kept"),
        (status = 503, description = "`CHANNEL_UNAVAILABLE`, `TRANSCODER_BUSY`")))]
pub async fn watch(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = channel_of(&service, &call)?;
    let asked = Asked::read(&service, &call, &channel)?;
    let session = asked.session.clone().unwrap_or_else(|| format!("ws_{}", HEXLOWER.encode(&random::<8>())));
    let wait = wait(&call)?.unwrap_or(Duration::ZERO).max(LEAST_HOLD);
    service.onair.viewers().seen(channel.id, &session, asked.start());
    let channel = asked.run(&service, channel).await?;
    onair::wake(&service);

    let mut slots = onair::listed(&service, &channel, asked.view).0;
    if channel.external.is_some() {
        ingest::keep(&service, &channel)?;
        let until = tokio::time::Instant::now() + wait;
        while slots.is_empty() && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(100)).await;
            slots = onair::listed(&service, &channel, asked.view).0;
        }
    }
    let wanted = match asked.view {
        View::Live => onair::first_wanted(&slots, channel.output.target),
        _ => slots.first().copied(),
    };
    let Some(slot) = wanted else {
        onair::prepare(&service, &channel);
        return Ok(starting(&channel, session, 0));
    };
    if !onair::is_made(&service, &channel, &slot) {
        let (making, aired, reader) = (service.clone(), channel.clone(), session.clone());
        // Goes on when nobody waits any more: the next request finds it made.
        let making = tokio::spawn(async move {
            onair::segment(&making, &aired, (slot.programme_ms, slot.index), &reader).await.map(drop)
        });
        match tokio::time::timeout(wait, making).await {
            Ok(made) => made.map_err(Error::internal)??,
            Err(_) => return Ok(starting(&channel, session, 30)),
        }
    }
    let mut location =
        format!("/api/livetv/watch/{}/live.m3u8?{}", channel.id, tail(&service, &call, &channel, Some(&session))?);
    if let Some((from, to)) = asked.span {
        location += &format!("&at={}", Unix(from));
        if let Some(to) = to {
            location += &format!("&end={}", Unix(to));
        }
    }
    let mut response = reply::empty();
    *response.status_mut() = StatusCode::FOUND;
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::try_from(location).map_err(Error::internal)?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}

/// The channel of the path, if it may be shown.
fn channel_of(service: &Service, call: &Call) -> Result<Arc<Channel>> {
    let channel = super::seen(service, call, super::id(call)?)?;
    service.may_show(&channel)?;
    Ok(channel)
}

fn starting(channel: &Channel, watch_session: String, progress: u8) -> Response {
    let body = Starting {
        ready: false,
        message: format!("Starting channel {}", channel.face.name),
        channel_id: channel.id,
        watch_session,
        progress,
        retry_after_ms: 300,
    };
    let mut response = reply::json_with(StatusCode::ACCEPTED, &body);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// The channel's playlist: what was on just now, or from an earlier instant on
#[utoipa::path(get, path = "/api/livetv/watch/{id}/live.m3u8",
    params(
        ("id" = u32, Path, description = "As listed"),
        ViewParams,
        PassParams,
    ),
    responses(
        (status = 200, description = "A sliding window, or a list that grows or is whole", content_type = "application/vnd.apple.mpegurl", body = String),
        (status = 403, description = "`RIGHTS_WITHDRAWN`"),
        (status = 404, description = "`CHANNEL_NOT_FOUND`; `NOT_FOUND`: longer ago than is kept"),
        (status = 503, description = "`CHANNEL_UNAVAILABLE`: it has not begun")))]
pub async fn playlist(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = channel_of(&service, &call)?;
    let asked = Asked::read(&service, &call, &channel)?;
    let viewer =
        asked.session.clone().unwrap_or_else(|| call.user().map(|user| user.login_id.clone()).unwrap_or_default());
    service.onair.viewers().seen(channel.id, &viewer, asked.start());
    let channel = asked.run(&service, channel).await?;
    let target = channel.output.target;
    ingest::keep(&service, &channel)?;
    let mut held = 0.0;
    let (slots, now_ms) = loop {
        let (slots, now_ms) = onair::listed(&service, &channel, asked.view);
        if !slots.is_empty() {
            break (slots, now_ms);
        }
        if held == 0.0 {
            onair::prepare(&service, &channel);
        }
        if held >= MOST_HOLD_SECONDS {
            return Err(Error::new(Code::ChannelUnavailable, "the channel has not begun").with_retry_after(5));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        held += 0.2;
    };
    // The first segment is on its way before the player has read where it is.
    if asked.view == View::Live
        && let Some(slot) = onair::first_wanted(&slots, target)
    {
        onair::make(&service, &channel, slot);
    }
    onair::wake(&service);
    let tail = tail(&service, &call, &channel, asked.session.as_deref())?;
    let slots = if stumbles(&call) { slots.iter().map(|slot| Slot { changes: 0, ..*slot }).collect() } else { slots };
    let (definition, pace) = (&channel.definition, channel.pace.as_deref());
    let stands = pace.is_some_and(|pace| pace.stands(service.clock.now().as_millisecond()));
    let ended = live::is_over(definition, pace, asked.view, &slots, now_ms, stands);
    let text = live::playlist(&slots, pace, asked.view, target, ended, &format!("?{tail}"));
    let mut response = transcode::playlist(Bytes::from(text));
    response.headers_mut().append(VARY, HeaderValue::from_static("user-agent"));
    Ok(response)
}

/// Whether a player is told of no change of the picture. VLC 3 takes `EXT-X-DISCONTINUITY` for the end of a stream, and
/// loses the last 0.4 s of every film (measured); as streams and clock go on, it is asked for by a SHOULD alone (RFC 8216
/// section 4.3.2.3), and without it VLC loses nothing.
fn stumbles(call: &Call) -> bool {
    call.header(USER_AGENT).is_some_and(|name| name.starts_with("VLC/3."))
}

/// A segment of a channel
#[utoipa::path(get, path = "/api/livetv/watch/{id}/{segment}",
    params(
        ("id" = u32, Path, description = "As listed"),
        ("segment" = String, Path, description = "As the playlist names it"),
        ("watchSession" = Option<String>, Query, description = "Who watches"),
        PassParams,
    ),
    responses(
        (status = 200, description = "MPEG-TS", content_type = "video/mp2t", body = Vec<u8>),
        (status = 304, description = "The one that is known"),
        (status = 403, description = "`RIGHTS_WITHDRAWN`"),
        (status = 404, description = "`ASSET_NOT_FOUND`: it was not or is not yet on air"),
        (status = 503, description = "`TRANSCODER_BUSY`"),
        (status = 504, description = "`SEGMENT_TIMEOUT`")))]
pub async fn segment(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = channel_of(&service, &call)?;
    let none = || Error::new(Code::AssetNotFound, "the channel has no segment of this name");
    let named = live::named(&call.params[1]).ok_or_else(none)?;
    let session = session(&call)?;
    if let Some(session) = session {
        service.onair.viewers().seen(channel.id, session, None);
    }
    if named.0 < channel.time(service.clock.now().as_millisecond() - CATCHUP_MS) - live::LONGEST_MS {
        return Err(none());
    }
    let sent = onair::segment(&service, &channel, named, session.unwrap_or(&call.user()?.login_id)).await?;
    Ok(transcode::segment("video/mp2t", sent.bytes, &sent.etag, &call.headers))
}

/// Stop watching
#[utoipa::path(delete, path = "/api/livetv/watch/{id}",
    params(
        ("id" = u32, Path, description = "As listed"),
        ("watchSession" = String, Query, description = "Who watched"),
        PassParams,
    ),
    responses((status = 200, description = "`ended` is false when nobody of that name watched", body = Ended)))]
pub async fn leave(service: Arc<Service>, call: Call) -> Result<Response> {
    let id = super::id(&call)?;
    // Whoever watched a channel that is gone by now leaves it all the same.
    if service.channels.get(id).is_ok() {
        super::seen(&service, &call, id)?;
    }
    let session = session(&call)?.ok_or_else(|| Error::field("watchSession", "is missing"))?;
    let viewers = service.onair.viewers();
    let ended = viewers.leave(id, session);
    if ended {
        service.channels.halt(id, || viewers.count(id) > 0).await;
    }
    Ok(reply::json(&Ended { ended }))
}

/// What a request asks to see.
struct Asked {
    /// In the channel's own time.
    view: View,
    /// The same of a view that does not follow the clock, in everybody's.
    span: Option<(i64, Option<i64>)>,
    session: Option<String>,
    /// Whether they watch what goes on, so that the clock must.
    goes_on: bool,
}

impl Asked {
    fn read(service: &Service, call: &Call, channel: &Channel) -> Result<Self> {
        let session = session(call)?.map(str::to_owned);
        let now_ms = service.clock.now().as_millisecond();
        let at = match call.query("at")? {
            None => call.query("utc")?.map(|text| ("utc", text)),
            at => at.map(|text| ("at", text)),
        };
        let at = at.map(|(field, text)| moment(field, text)).transpose()?;
        let end = call.query("end")?.map(|text| moment("end", text)).transpose()?;
        let duration = call.query("duration")?.map(|text| {
            let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=1e6).contains(seconds));
            seconds.ok_or_else(|| Error::field("duration", "must be a number of seconds"))
        });
        let duration = duration.transpose()?.map(|seconds| (seconds * 1000.0) as i64);
        let end = end.or(at.zip(duration).map(|(at, duration)| at + duration));
        let view = match (at, call.query("fromStart")?) {
            (Some(at), _) => match end {
                Some(end) if end <= at => return Err(Error::field("end", "must be later than at")),
                Some(end) => between(channel, at, end, now_ms)?,
                None => View::From(begins(channel, at, now_ms)?),
            },
            (None, None | Some("" | "0" | "false")) => View::Live,
            (None, Some(_)) => {
                let kept = session.as_deref().and_then(|session| service.onair.viewers().start_of(channel.id, session));
                let on = || channel.definition.whole(channel.time(now_ms)).map(|(start, _)| start);
                kept.or_else(on).map_or(View::Live, View::From)
            }
        };
        let span = match view {
            View::Live => None,
            View::From(from) => Some((at.unwrap_or_else(|| channel.instant(from)), None)),
            View::Between(from, _) => Some((at.unwrap_or(from), end)),
        };
        let goes_on = !matches!(view, View::Between(..)) || end.is_some_and(|end| end > now_ms);
        Ok(Self { view, span, session, goes_on })
    }

    /// Lets a channel's own clock run, where it is that which is watched.
    async fn run(&self, service: &Service, channel: Arc<Channel>) -> Result<Arc<Channel>> {
        if self.goes_on { service.channels.run(&channel).await } else { Ok(channel) }
    }

    fn start(&self) -> Option<i64> {
        match self.view {
            View::Live => None,
            View::From(from) | View::Between(from, _) => Some(from),
        }
    }
}

/// Where a view begins that was asked for, in the channel's own time.
fn begins(channel: &Channel, at: i64, now_ms: i64) -> Result<i64> {
    let from = channel.time(at);
    // What stood for longer than is kept is there as a whole.
    let stood = || {
        let oldest = channel.definition.programme(channel.time(now_ms - CATCHUP_MS));
        channel.pace.is_some() && oldest.is_some_and(|oldest| oldest.start_ms <= from)
    };
    let known = channel.definition.programme(from).is_some();
    match known && at <= now_ms && (at >= now_ms - CATCHUP_MS || stood()) {
        true => Ok(from),
        false => Err(Error::new(Code::NotFound, "this is longer ago than is kept, or still to come")),
    }
}

fn between(channel: &Channel, at: i64, end: i64, now_ms: i64) -> Result<View> {
    let from = begins(channel, at, now_ms)?;
    // What is to come of it comes as long as this is watched.
    let to = channel.time(end.min(now_ms)) + (end - now_ms).max(0);
    match to > from {
        true => Ok(View::Between(from, to)),
        false => Err(Error::new(Code::NotFound, "the channel aired nothing then: nobody watched")),
    }
}

fn session(call: &Call) -> Result<Option<&str>> {
    let Some(session) = call.query("watchSession")? else { return Ok(None) };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    match (1..=64).contains(&session.len()) && session.bytes().all(fits) {
        true => Ok(Some(session)),
        false => Err(Error::field("watchSession", "must be 1 to 64 letters, digits, _ or -")),
    }
}

/// An instant: ISO 8601, or unix seconds. Milliseconds.
fn moment(field: &str, text: &str) -> Result<i64> {
    let unix = text.parse::<f64>().ok().filter(|seconds| (0.0..1e11).contains(seconds));
    let unix = unix.map(|seconds| (seconds * 1000.0).round() as i64);
    let iso = || text.replace(' ', "+").parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    unix.or_else(iso).ok_or_else(|| Error::field(field, "must be an instant: ISO 8601, or unix seconds"))
}

/// Unix milliseconds, written as seconds.
pub struct Unix(pub i64);

impl std::fmt::Display for Unix {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(text, "{}.{:03}", self.0.div_euclid(1000), self.0.rem_euclid(1000))
    }
}

/// Seconds a request may be held.
fn wait(call: &Call) -> Result<Option<Duration>> {
    let prefer = call.header("prefer").and_then(|prefer| {
        prefer.split([',', ';']).find_map(|part| part.trim().strip_prefix("wait=")?.parse::<f64>().ok())
    });
    let asked = match call.query("wait")? {
        None => prefer.map(|seconds| seconds.clamp(0.0, MOST_HOLD_SECONDS)),
        Some(text) => {
            let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=MOST_HOLD_SECONDS).contains(seconds));
            Some(seconds.ok_or_else(|| Error::field("wait", "must be a number from 0 to 15"))?)
        }
    };
    Ok(asked.map(Duration::from_secs_f64))
}

/// What every child address carries: a grant of its own, and who watches.
fn tail(service: &Service, call: &Call, channel: &Channel, session: Option<&str>) -> Result<String> {
    // The same for hours, so that an address stays the same from one reading of the list to the next.
    let hour = service.clock.now().as_second() / 3600 * 3600;
    let resource = format!("livetv/watch/{}", channel.id);
    let mut tail = format!("st={}", service.accounts.grant(call.user()?, &resource, hour + 3600 + GRANT_SECONDS));
    if let Some(session) = session {
        tail += &format!("&watchSession={session}");
    }
    Ok(tail)
}
