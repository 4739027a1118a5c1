//! `/api/stream/transcode/…`: transcode sessions over HLS.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, HeaderValue, REFERRER_POLICY, RETRY_AFTER, USER_AGENT, VARY};
use jiff::Timestamp;

use crate::domain::access::Principal;
use crate::domain::playback::accepts_start_in_multivariant;
use crate::domain::playlist::{InitId, PlaylistTrack, SessionAsset, parse_asset};
use crate::domain::segment_format::SegmentFormat;
use crate::http::api::prelude::*;
use crate::service::playback::{self, FoundSession};
use crate::service::renditions::planner::{self, PlannedPlayback};
use crate::service::sessions::Session;

pub mod list;
mod request;
mod segment_response;
mod start_response;
mod status;

pub(super) use request::CapabilitiesBody;
use request::StartBody;
pub(super) use segment_response::{media_segment_response, segment_response};
use start_response::Started;
use status::{Preparing, StatusBody};

/// Lifetime of the grant in session URLs, seconds. An idle session ends long before that.
const GRANT_SECONDS: i64 = 24 * 3600;

/// How long `index.m3u8` is held, seconds: default and maximum.
const DEFAULT_HOLD_SECONDS: f64 = 10.0;
const MAX_HOLD_SECONDS: f64 = 20.0;

pub(super) fn grant_resource(session_id: &str) -> String {
    format!("stream/transcode/{session_id}")
}

fn grant_expiry(session: &Session) -> Timestamp {
    session.started_at + Duration::from_secs(GRANT_SECONDS.unsigned_abs())
}

fn session_grant(service: &Service, principal: &Principal, session: &Session) -> String {
    service.accounts.sign_grant(principal, &grant_resource(&session.id), grant_expiry(session).as_second())
}

/// The live session of a request. The future has no reference to the request, whose body other threads must not see.
fn find_live(service: &Arc<Service>, call: &Call) -> impl Future<Output = Result<Arc<Session>>> + use<> {
    let (service, user, id) = (service.clone(), call.user().cloned(), call.params[0].clone());
    async move { service.find_live_session(&user?, &id).await }
}

/// Starts a session, or returns the URL of the file if it can be played directly.
#[utoipa::path(post, path = "/api/stream/transcode/start", request_body = StartBody, responses(
    (status = 200, body = Started), (status = 400), (status = 403), (status = 404), (status = 415), (status = 422),
    (status = 429), (status = 503)))]
pub async fn start(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let principal = call.user()?.clone();
    let agent = call.header(USER_AGENT).map(str::to_owned);
    let request = call.json::<StartBody>().await?.into_request(agent.as_deref())?;
    let body = match planner::plan_playback(&service, &principal.visibility, request).await? {
        PlannedPlayback::Direct(play) => Started::for_file(&service, &principal, &play).await?,
        PlannedPlayback::Session(plan) => {
            let session = playback::start_session(&service, &principal, *plan).await?;
            Started::for_session(&service, &principal, &session)
        }
    };
    Ok(reply::secretive(reply::json(&body)))
}

/// The multivariant playlist. The request is held until the segment at the start position is ready.
#[utoipa::path(get, path = "/api/stream/transcode/{sessionId}/index.m3u8", params(
    ("sessionId" = String, Path),
    ("wait" = Option<f64>, Query, description = "Seconds to hold the request, 0 to 20; default 10"),
    ("st" = Option<String>, Query, description = "Signed grant, instead of a bearer token")), responses(
    (status = 200, description = "The playlist, or the progress towards it", content((String = "application/vnd.apple.mpegurl"), (Preparing = "application/json"))),
    (status = 400), (status = 404), (status = 410), (status = 429), (status = 500), (status = 503)))]
pub async fn index(service: Arc<Service>, call: Call) -> Result<Response> {
    let wait = match call.query("wait") {
        None => DEFAULT_HOLD_SECONDS,
        Some(text) => {
            let wait = text.parse::<f64>().ok().filter(|wait| (0.0..=MAX_HOLD_SECONDS).contains(wait));
            wait.ok_or_else(|| Error::invalid_field("wait", "must be a number from 0 to 20"))?
        }
    };
    let session = find_live(&service, &call).await?;
    if session.wait_ready(Duration::from_secs_f64(wait)).await? {
        // The only playlist that depends on the player.
        let with_start = call.header(USER_AGENT).is_some_and(accepts_start_in_multivariant);
        let text = session.multivariant(with_start, &session_grant(&service, call.user()?, &session));
        let mut response = playlist_response(text);
        response.headers_mut().append(VARY, HeaderValue::from_static("user-agent"));
        return Ok(response);
    }
    let mut response = reply::json(&Preparing::new(&session.status()));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    Ok(response)
}

pub(super) fn playlist_response(text: Bytes) -> Response {
    let mut response = reply::bytes("application/vnd.apple.mpegurl", text);
    // Its URLs are signed for one viewer.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// A media playlist, an I-frame playlist or a segment of a session. Segments in fMP4 have byte ranges.
#[utoipa::path(get, path = "/api/stream/transcode/{sessionId}/{asset}", params(
    ("sessionId" = String, Path),
    ("asset" = String, Path, description = "`v0.m3u8`, `v0-00000.ts` (`v1` and so on in an adaptive session), `a0.m3u8`, `a0-00000.ts`, `s0.m3u8`, `s0-00000.vtt`; in fMP4 `v0-00000.m4s`, `a0-00000.m4s`, and their init segments, which the playlists name; `v0-iframes.m3u8`, of encoded rungs only of the smallest, and `v0-iframe-00000.m4s`, which it names unless its entries are byte ranges"),
    ("Range" = Option<String>, Header, description = "Of a segment in fMP4: `bytes=first-last`, `bytes=first-` or `bytes=-count`"),
    ("st" = Option<String>, Query, description = "Signed grant, instead of a bearer token")), responses(
    (status = 200, content((Vec<u8> = "video/mp2t"), (Vec<u8> = "video/mp4"), (Vec<u8> = "audio/mp4"), (String = "application/vnd.apple.mpegurl"), (String = "text/vtt"))),
    (status = 206, description = "The requested bytes of a segment in fMP4", content((Vec<u8> = "video/mp4"), (Vec<u8> = "audio/mp4"))),
    (status = 304), (status = 404), (status = 410),
    (status = 416, description = "`RANGE_NOT_SATISFIABLE`, with `Content-Range: bytes */size`"), (status = 429), (status = 500),
    (status = 503), (status = 504)))]
pub async fn session_asset(service: Arc<Service>, call: Call) -> Result<Response> {
    let session = find_live(&service, &call).await?;
    session.ensure_live()?;
    let name = &call.params[1];
    match parse_asset(name).ok_or_else(no_asset)? {
        SessionAsset::Playlist(track) => {
            let grant = session_grant(&service, call.user()?, &session);
            Ok(playlist_response(session.media_playlist(track, &grant).await?))
        }
        SessionAsset::Segment(PlaylistTrack::Subtitles(track), format, index) => {
            let text = session.subtitle_segment(&service.subtitles, track, index).await?;
            let etag = etag_of(text.as_bytes());
            Ok(segment_response(format.content_type(), text.into(), &etag, &call.headers))
        }
        SessionAsset::Segment(track, format, index) => {
            let id = session.plan.rendition_of_track(track).filter(|_| format == session.plan.format());
            let stored = session.segment(id.ok_or_else(no_asset)?, index).await?;
            let kind = (content_type(track, format), format);
            media_segment_response(&service, session.source(), kind, stored, &call)
        }
        SessionAsset::Init(track, init_id) => {
            let made = session.made_iframe_init().filter(|init| InitId::of(init) == init_id);
            let init = match (made, session.plan.rendition_of_track(track)) {
                (Some(init), Some(_)) => init.clone(),
                (_, id) => session.init_segment(id.ok_or_else(no_asset)?).await?,
            };
            if InitId::of(&init) != init_id {
                return Err(no_asset());
            }
            let etag = etag_of(&init);
            Ok(segment_response(content_type(track, SegmentFormat::Fmp4), init, &etag, &call.headers))
        }
        SessionAsset::IFramePlaylist(track) => {
            let grant = session_grant(&service, call.user()?, &session);
            Ok(playlist_response(playback::iframe_playlist(&service, &session, track, &grant).await?))
        }
        SessionAsset::IFrame(track, segment) => {
            let frame = playback::iframe(&service, &session, track, segment).await?;
            let etag = etag_of(&frame);
            Ok(segment_response(content_type(track, SegmentFormat::Fmp4), frame, &etag, &call.headers))
        }
    }
}

fn no_asset() -> Error {
    Error::new(Code::AssetNotFound, "the session has no such asset")
}

fn etag_of(content: &[u8]) -> String {
    format!("\"{}\"", &blake3::hash(content).to_hex()[..24])
}

fn content_type(track: PlaylistTrack, format: SegmentFormat) -> &'static str {
    match track {
        PlaylistTrack::Audio(_) => format.audio_content_type(),
        PlaylistTrack::Video(_) | PlaylistTrack::Subtitles(_) => format.content_type(),
    }
}

/// The status of a session.
#[utoipa::path(get, path = "/api/stream/transcode/{sessionId}/status", params(
    ("sessionId" = String, Path),
    ("st" = Option<String>, Query, description = "Signed grant, instead of a bearer token")), responses(
    (status = 200, body = StatusBody), (status = 404), (status = 429), (status = 503)))]
pub async fn status(service: Arc<Service>, call: Call) -> Result<Response> {
    let (user, id) = (call.user()?.clone(), call.params[0].clone());
    Ok(reply::json(&match service.find_session(&user, &id).await? {
        FoundSession::Live(session) => StatusBody::new(&session),
        FoundSession::Ended(ended) => StatusBody::for_ended(&ended),
    }))
}

/// Stops a session.
#[utoipa::path(delete, path = "/api/stream/transcode/{sessionId}", params(
    ("sessionId" = String, Path),
    ("st" = Option<String>, Query, description = "Signed grant, instead of a bearer token")), responses(
    (status = 200, body = Stopped), (status = 404)))]
pub async fn stop(service: Arc<Service>, call: Call) -> Result<Response> {
    let session_id = call.params[0].clone();
    let stopped = service.stop_session(call.user()?, &session_id).await?;
    Ok(reply::json(&Stopped { session_id, stopped }))
}

/// Stops a session, for clients such as `navigator.sendBeacon` that can send neither `DELETE` nor headers.
#[utoipa::path(post, path = "/api/stream/transcode/{sessionId}/stop", params(
    ("sessionId" = String, Path),
    ("st" = Option<String>, Query, description = "Signed grant, instead of a bearer token")), responses(
    (status = 200, body = Stopped), (status = 404)))]
pub async fn stop_by_post(service: Arc<Service>, call: Call) -> Result<Response> {
    stop(service, call).await
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stopped {
    session_id: String,
    /// False if the session had already ended.
    stopped: bool,
}
