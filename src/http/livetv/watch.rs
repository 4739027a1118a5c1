//! `/api/livetv/watch/…`: playback of channels: watch, playlist, segments.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue, LOCATION, REFERRER_POLICY, RETRY_AFTER, USER_AGENT, VARY};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use warp::reply::Response;

use super::asked::{Asked, Unix, ViewParams, session};
use crate::domain::channel::Channel;
use crate::domain::live_window::{self, LiveSegment, PlaylistView};
use crate::error::{Code, Error, Result};
use crate::http::urls::ResourceUrls;
use crate::http::call::Call;
use crate::http::reply;
use crate::http::transcode;
use crate::service::Service;
use crate::service::accounts::random_bytes;
use crate::service::live::{START_OVER, Viewer};
use crate::service::{ingest, live};

/// Lifetime of the grant in child URLs after the end of the current hour, seconds: twelve hours.
const GRANT_SECONDS: i64 = 12 * 3600;

/// Shortest time a watch request is held: copied video is ready by then.
const LEAST_HOLD: Duration = Duration::from_millis(250);

/// How often a held watch request checks whether the programme has finished the segment it is making.
const MAKING_POLL: Duration = Duration::from_millis(20);

/// Longest hold, seconds: of a watch request with `wait`, and of a playlist request without segments to list.
const MOST_HOLD_SECONDS: f64 = 15.0;

/// A channel whose first segment is not ready yet.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Starting {
    ready: bool,
    message: String,
    channel_id: u32,
    /// Send it as `watchSession` with the next request.
    watch_session: String,
    /// Progress towards the first segment, percent.
    progress: u8,
    retry_after_ms: u32,
}

/// Result of leaving a channel.
#[derive(Serialize, ToSchema)]
pub struct Ended {
    ended: bool,
}

/// Credentials of a request without a bearer token.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "OpenAPI only: the endpoint reads the query")]
pub struct CredentialParams {
    /// Signed grant, instead of a bearer token.
    st: Option<String>,
    /// Stream token; with `exp` and `sig`, the `token` of a signed URL.
    token: Option<String>,
    /// Expiry of a signed URL, unix seconds.
    exp: Option<String>,
    /// Signature of a signed URL.
    sig: Option<String>,
}

/// The resource that a grant for a channel covers.
pub fn resource(call: &Call) -> Option<String> {
    let raw = call.params.first()?;
    Some(match raw.parse::<u32>() {
        Ok(id) => format!("livetv/watch/{id}"),
        Err(_) => format!("livetv/watch/{raw}"),
    })
}

/// Watch a channel: redirects to its playlist once the first segment is ready
#[utoipa::path(get, path = "/api/livetv/watch/{id}",
    params(
        ("id" = u32, Path, description = "Channel id"),
        ("wait" = Option<f64>, Query, description = "Hold the request for up to this many seconds, 0 to 15; `Prefer: wait=` is an alternative"),
        ViewParams,
        CredentialParams,
    ),
    responses(
        (status = 302, description = "Redirect to the playlist, with a grant in its URL"),
        (status = 202, description = "The channel is starting; retry after `retryAfterMs`", body = Starting),
        (status = 403, description = "`RIGHTS_WITHDRAWN`"),
        (status = 404, description = "`CHANNEL_NOT_FOUND`; `NOT_FOUND`: the start is in the future or older than the catch-up window"),
        (status = 503, description = "`CHANNEL_UNAVAILABLE`, `TRANSCODER_BUSY`")))]
pub async fn watch(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = channel_of(&service, &call)?;
    let asked = Asked::read(&service, &call, &channel, None)?;
    let session = asked.session.clone().unwrap_or_else(|| format!("ws_{}", HEXLOWER.encode(&random_bytes::<8>())));
    let wait = wait(&call)?.unwrap_or(Duration::ZERO).max(LEAST_HOLD);
    let viewer = Viewer::new(call.user()?, Some(&session));
    asked.record(&service, &channel, &viewer);
    let channel = asked.run(&service, channel).await?;
    live::start_maintenance(&service);

    let mut slots = live::listed_segments(&service, &channel, asked.view).0;
    if channel.external.is_some() {
        ingest::start_ingest(&service, &channel)?;
        let until = tokio::time::Instant::now() + wait;
        while slots.is_empty() && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(100)).await;
            slots = live::listed_segments(&service, &channel, asked.view).0;
        }
    }
    let wanted = match asked.view {
        PlaylistView::Live => live::first_requested_segment(&slots, channel.output.target_seconds),
        _ => slots.first().copied(),
    };
    let Some(slot) = wanted else {
        live::make_first(&service, &channel);
        return Ok(starting(&channel, session, 0));
    };
    live::admit(&service, &channel, &slot, &viewer.unique_name()).await?;
    let until = tokio::time::Instant::now() + wait;
    while !live::is_made(&service, &channel, &slot) {
        // Continues after the request has ended: the next request finds the segment ready.
        if let Some(making) = live::make_for(&service, &channel, slot, &viewer.unique_name())? {
            match tokio::time::timeout_at(until, making).await {
                Ok(made) => made.map_err(Error::internal)??,
                Err(_) => return Ok(starting(&channel, session, 30)),
            }
            break;
        }
        if tokio::time::Instant::now() >= until {
            return Ok(starting(&channel, session, 30));
        }
        tokio::time::sleep(MAKING_POLL).await;
    }
    let mut location =
        ResourceUrls::from_config(&service.config).live_playlist(channel.id) + "?" + &tail(&service, &call, &channel, Some(&session))?;
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

/// The channel in the path, if its rights permit showing it.
fn channel_of(service: &Service, call: &Call) -> Result<Arc<Channel>> {
    let channel = super::seen(service, call, super::id(call)?)?;
    service.check_showing_rights(&channel)?;
    Ok(channel)
}

fn starting(channel: &Channel, watch_session: String, progress: u8) -> Response {
    let body = Starting {
        ready: false,
        message: format!("Starting channel {}", channel.settings.name),
        channel_id: channel.id,
        watch_session,
        progress,
        retry_after_ms: 300,
    };
    let mut response = reply::json_with(StatusCode::ACCEPTED, &body);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Media playlist of a channel: live, start-over or catch-up
#[utoipa::path(get, path = "/api/livetv/watch/{id}/live.m3u8",
    params(
        ("id" = u32, Path, description = "Channel id"),
        ViewParams,
        CredentialParams,
    ),
    responses(
        (status = 200, description = "A sliding window (live), a growing playlist, or a complete one", content_type = "application/vnd.apple.mpegurl", body = String),
        (status = 403, description = "`RIGHTS_WITHDRAWN`"),
        (status = 404, description = "`CHANNEL_NOT_FOUND`; `NOT_FOUND`: the start is in the future or older than the catch-up window"),
        (status = 503, description = "`CHANNEL_UNAVAILABLE`: no segment is ready yet; `TRANSCODER_BUSY`: all encode slots are in use")))]
pub async fn playlist(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = channel_of(&service, &call)?;
    let asked = Asked::read(&service, &call, &channel, Some(START_OVER))?;
    let viewer = Viewer::new(call.user()?, asked.session.as_deref());
    asked.record(&service, &channel, &viewer);
    let channel = asked.run(&service, channel).await?;
    let target = channel.output.target_seconds;
    ingest::start_ingest(&service, &channel)?;
    let mut held = 0.0;
    let (slots, now_ms) = loop {
        let (slots, now_ms) = live::listed_segments(&service, &channel, asked.view);
        if !slots.is_empty() {
            break (slots, now_ms);
        }
        if held == 0.0 {
            live::make_first(&service, &channel);
        }
        if held >= MOST_HOLD_SECONDS {
            return Err(Error::new(Code::ChannelUnavailable, "the channel has no segment yet; retry in 5 s")
                .with_retry_after(5));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        held += 0.2;
    };
    let first = match asked.view {
        PlaylistView::Live => live::first_requested_segment(&slots, target),
        _ => slots.first().copied(),
    };
    if let Some(slot) = first {
        // A playlist must not list segments that no encode slot is free for.
        live::admit(&service, &channel, &slot, &viewer.unique_name()).await?;
        // Start making the first segment before the player requests it.
        if asked.view == PlaylistView::Live {
            live::make_ahead(&service, &channel, slot);
        }
    }
    live::start_maintenance(&service);
    let tail = tail(&service, &call, &channel, asked.session.as_deref())?;
    let slots = if stumbles(&call) { slots.iter().map(|slot| LiveSegment { discontinuities: 0, ..*slot }).collect() } else { slots };
    let (definition, pace) = (&channel.definition, channel.clock.as_deref());
    let stands = pace.is_some_and(|pace| pace.is_paused_at(service.clock.now().as_millisecond()));
    let ended = live_window::is_complete(definition, pace, asked.view, &slots, now_ms, stands);
    let text = live_window::render_playlist(&slots, pace, asked.view, target, ended, &format!("?{tail}"));
    let mut response = transcode::playlist(Bytes::from(text));
    response.headers_mut().append(VARY, HeaderValue::from_static("user-agent"));
    Ok(response)
}

/// Whether to suppress `EXT-X-DISCONTINUITY` for this player. VLC 3 takes the tag for the end of the stream and loses the
/// last 0.4 s of every programme (measured). Tracks and timestamps continue here, so the tag is only a SHOULD (RFC 8216
/// section 4.3.2.3), and VLC plays everything without it.
fn stumbles(call: &Call) -> bool {
    call.header(USER_AGENT).is_some_and(|name| name.starts_with("VLC/3."))
}

/// Media segment of a channel
#[utoipa::path(get, path = "/api/livetv/watch/{id}/{segment}",
    params(
        ("id" = u32, Path, description = "Channel id"),
        ("segment" = String, Path, description = "Name as in the playlist"),
        ("watchSession" = Option<String>, Query, description = "Identifies the viewer"),
        CredentialParams,
    ),
    responses(
        (status = 200, description = "MPEG-TS", content_type = "video/mp2t", body = Vec<u8>),
        (status = 304, description = "The cached segment is still valid"),
        (status = 403, description = "`RIGHTS_WITHDRAWN`"),
        (status = 404, description = "`ASSET_NOT_FOUND`: no such segment, or it is not on air yet"),
        (status = 503, description = "`TRANSCODER_BUSY`"),
        (status = 504, description = "`SEGMENT_TIMEOUT`")))]
pub async fn segment(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = channel_of(&service, &call)?;
    let none = || Error::new(Code::AssetNotFound, "the channel has no segment with this name");
    let named = live_window::parse_segment_name(&call.params[1]).ok_or_else(none)?;
    let session = session(&call)?;
    let viewer = Viewer::new(call.user()?, session);
    if session.is_some() {
        service.live_channels.viewers().record_request(channel.id, &viewer, None);
    }
    if named.0 < channel.channel_ms_at(service.clock.now().as_millisecond() - live_window::CATCHUP_MS) - live_window::MAX_PLAYLIST_MS {
        return Err(none());
    }
    let sent = live::produce_segment(&service, &channel, named, &viewer.unique_name()).await?;
    let mut response = transcode::segment("video/mp2t", sent.bytes, &sent.etag, &call.headers);
    if sent.is_slate {
        // The item is tried again, and this URL then shows it.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    Ok(response)
}

/// Stop watching: ends a view of the same login
#[utoipa::path(delete, path = "/api/livetv/watch/{id}",
    params(
        ("id" = u32, Path, description = "Channel id"),
        ("watchSession" = String, Query, description = "Identifies the viewer"),
        CredentialParams,
    ),
    responses((status = 200, description = "`ended` is false if there was no such viewer", body = Ended)))]
pub async fn leave(service: Arc<Service>, call: Call) -> Result<Response> {
    let id = super::id(&call)?;
    // Leaving a channel that has since been deleted must succeed.
    if service.channels.get(id).is_ok() {
        super::seen(&service, &call, id)?;
    }
    let session = session(&call)?.ok_or_else(|| Error::invalid_field("watchSession", "is missing"))?;
    let viewers = service.live_channels.viewers();
    let ended = viewers.leave(id, &Viewer::new(call.user()?, Some(session)));
    if ended {
        service.channels.pause_clock(id, || viewers.viewer_count(id) > 0).await;
    }
    Ok(reply::json(&Ended { ended }))
}

/// The requested hold time, from `wait` or `Prefer`.
fn wait(call: &Call) -> Result<Option<Duration>> {
    let prefer = call.header("prefer").and_then(|prefer| {
        prefer.split([',', ';']).find_map(|part| part.trim().strip_prefix("wait=")?.parse::<f64>().ok())
    });
    let prefer = prefer.filter(|seconds| !seconds.is_nan());
    let asked = match call.query("wait")? {
        None => prefer.map(|seconds| seconds.clamp(0.0, MOST_HOLD_SECONDS)),
        Some(text) => {
            let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=MOST_HOLD_SECONDS).contains(seconds));
            Some(seconds.ok_or_else(|| Error::invalid_field("wait", "must be a number from 0 to 15"))?)
        }
    };
    Ok(asked.map(Duration::from_secs_f64))
}

/// Query of every child URL: a grant, which expires no later than the credentials of this request, and the watch session.
fn tail(service: &Service, call: &Call, channel: &Channel, session: Option<&str>) -> Result<String> {
    // Rounded to the hour, so that URLs do not change between reloads of the playlist.
    let hour = service.clock.now().as_second() / 3600 * 3600;
    let resource = format!("livetv/watch/{}", channel.id);
    let mut tail = format!("st={}", service.accounts.sign_grant(call.user()?, &resource, hour + 3600 + GRANT_SECONDS));
    if let Some(session) = session {
        tail += &format!("&watchSession={session}");
    }
    Ok(tail)
}
