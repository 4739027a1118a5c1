//! `/api/stream/transcode/…`: sessions over HLS (contract section 5).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{CACHE_CONTROL, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, RETRY_AFTER};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use warp::reply::Response;

use super::call::Call;
use super::endpoint::{Endpoint, delete, get, post};
use super::reply;
use crate::domain::access::{Access, Principal};
use crate::domain::plan::{AudioPlan, VideoPlan};
use crate::domain::playback::{DeviceProfile, RUNGS, Reason};
use crate::domain::playlist::{Asset, Track, asset};
use crate::domain::session::State;
use crate::domain::time::round_ms;
use crate::engine::RunError;
use crate::engine::source::Source;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::planner::{self, Plan, Planned, StartRequest, SubtitleRequest};
use crate::service::sessions::{Failure, Session, Status, told};

/// How long a session's address works, at most; a session that nobody watches ends long before.
const GRANT_SECONDS: i64 = 24 * 3600;

/// How long `index.m3u8` is held by default, and at most, seconds.
const HOLD_SECONDS: f64 = 10.0;
const MOST_HOLD_SECONDS: f64 = 20.0;

const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

pub fn endpoints(service: &Arc<Service>) -> Vec<Endpoint> {
    let resource = |call: &Call| call.params.first().map(|id| resource(id));
    vec![
        get("/api/stream/transcode/{sessionId}/index.m3u8", Access::Granted).resource(resource).to(service, index),
        get("/api/stream/transcode/{sessionId}/status", Access::Granted).resource(resource).to(service, status),
        get("/api/stream/transcode/{sessionId}/{asset}", Access::Granted).resource(resource).to(service, session_asset),
        post("/api/stream/transcode/start", Access::User).to(service, start),
        post("/api/stream/transcode/{sessionId}/stop", Access::Granted).resource(resource).to(service, stop_by_post),
        delete("/api/stream/transcode/{sessionId}", Access::Granted).resource(resource).to(service, stop),
    ]
}

fn resource(session_id: &str) -> String {
    format!("stream/transcode/{session_id}")
}

/// Body of a start. Only `mediaPath` is required.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartBody {
    #[schema(example = "/library/movies/Example (2020).mkv")]
    media_path: Option<String>,
    /// Index of an audio stream; absent or null = the default track.
    audio_stream_index: Option<u32>,
    #[schema(minimum = 0, default = 0)]
    start_position_seconds: Option<f64>,
    profile: Option<ProfileBody>,
    /// `none`, `embedded`, `external` or `burn`; default `embedded` with a `subtitleStreamIndex`, else `none`.
    subtitle_mode: Option<String>,
    subtitle_stream_index: Option<u32>,
    /// A text subtitle file of the library, for `external` and `burn`.
    subtitle_path: Option<String>,
    force_transcode: Option<bool>,
    #[schema(value_type = Option<Object>)]
    device_profile: Option<DeviceProfile>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProfileBody {
    /// `original`, `2160p`, `1440p`, `1080p`, `720p`, `480p`, `360p` or `240p`.
    #[schema(default = "original")]
    resolution: Option<String>,
    max_bitrate_kbps: Option<u32>,
    max_audio_channels: Option<u32>,
}

impl StartBody {
    fn into_request(self) -> Result<StartRequest> {
        let media_path = self.media_path.ok_or_else(|| Error::field("mediaPath", "is required"))?;
        let start_seconds = self.start_position_seconds.unwrap_or(0.0);
        if !start_seconds.is_finite() || start_seconds < 0.0 {
            return Err(Error::field("startPositionSeconds", "must be a number of at least 0"));
        }
        let profile = self.profile.unwrap_or_default();
        let max_height = match profile.resolution.as_deref() {
            None | Some("original") => None,
            Some(label) => {
                let rung = RUNGS.iter().find(|(known, ..)| *known == label);
                let known = || Error::field("profile.resolution", format!("{:?} is no known label", clipped(label)));
                Some(rung.ok_or_else(known)?.1)
            }
        };
        if profile.max_bitrate_kbps == Some(0) {
            return Err(Error::field("profile.maxBitrateKbps", "must be at least 1"));
        }
        if profile.max_audio_channels == Some(0) {
            return Err(Error::field("profile.maxAudioChannels", "must be at least 1"));
        }
        let subtitle = match self.subtitle_mode.as_deref() {
            None if self.subtitle_stream_index.is_some() => SubtitleRequest::Embedded,
            None | Some("none") => SubtitleRequest::None,
            Some("embedded") => SubtitleRequest::Embedded,
            Some("external") => SubtitleRequest::External,
            Some("burn") => SubtitleRequest::Burn,
            Some(other) => {
                return Err(Error::field("subtitleMode", format!("{:?} is no known mode", clipped(other))));
            }
        };
        Ok(StartRequest {
            media_path,
            audio_stream: self.audio_stream_index,
            subtitle,
            subtitle_stream: self.subtitle_stream_index,
            subtitle_path: self.subtitle_path,
            start_seconds: round_ms(start_seconds),
            max_height,
            max_bitrate_kbps: profile.max_bitrate_kbps,
            max_audio_channels: profile.max_audio_channels,
            device: self.device_profile.unwrap_or_default(),
            force_transcode: self.force_transcode.unwrap_or(false),
        })
    }
}

/// What came in, short enough to send back.
fn clipped(text: &str) -> String {
    text.chars().take(40).collect()
}

/// A started session, or the address of the file itself.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Started {
    /// Null when the file is played directly.
    session_id: Option<String>,
    /// `transcode` (copied video too) or `direct`.
    playback_mode: &'static str,
    playlist_url: Option<String>,
    /// For players that cannot send a header.
    signed_playlist_url: Option<String>,
    direct_url: Option<String>,
    signed_direct_url: Option<String>,
    start_position_seconds: f64,
    duration_seconds: Option<f64>,
    segment_seconds: Option<f64>,
    decision: DecisionBody,
    /// When the signed addresses stop working.
    expires_at: String,
    idle_timeout_seconds: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DecisionBody {
    /// `direct` or `transmux`.
    container: &'static str,
    /// `direct`, `copy`, `encode`, or null when the item has none.
    video: Option<&'static str>,
    audio: Option<&'static str>,
    /// `none`, `webvtt` or `burn`.
    subtitle: &'static str,
    reasons: Vec<&'static str>,
}

fn words(reasons: &[Reason]) -> Vec<&'static str> {
    reasons.iter().map(|reason| reason.as_str()).collect()
}

/// Starts a session, or says that the file plays as it is.
#[utoipa::path(
    post, path = "/api/stream/transcode/start", tag = "stream", request_body = StartBody,
    responses(
        (status = 200, body = Started), (status = 400), (status = 403), (status = 404), (status = 415),
        (status = 422), (status = 429), (status = 503)
    )
)]
pub(super) async fn start(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let principal = call.user()?.clone();
    let request = call.json::<StartBody>().await?.into_request()?;
    let start_seconds = request.start_seconds;
    let started = match planner::plan(&service, request).await? {
        Planned::Direct { source, duration_seconds, reasons } => {
            direct(&service, &principal, &source, start_seconds, duration_seconds, &reasons)
        }
        Planned::Session(plan) => {
            let session = service.sessions.start(&principal, *plan).await?;
            transcoded(&service, &principal, &session)
        }
    };
    let mut response = reply::json(&started);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}

fn direct(
    service: &Service,
    principal: &Principal,
    source: &Source,
    start_seconds: f64,
    duration_seconds: Option<f64>,
    reasons: &[Reason],
) -> Started {
    let expires = Timestamp::now() + Duration::from_secs(GRANT_SECONDS.unsigned_abs());
    let url = format!("/api/stream/file?path={}", utf8_percent_encode(&source.path, QUERY));
    let grant = service.accounts.grant(principal, &format!("stream/file:{}", source.path), expires.as_second());
    Started {
        session_id: None,
        playback_mode: "direct",
        playlist_url: None,
        signed_playlist_url: None,
        signed_direct_url: Some(format!("{url}&st={grant}")),
        direct_url: Some(url),
        start_position_seconds: start_seconds,
        duration_seconds: duration_seconds.map(round_ms),
        segment_seconds: None,
        decision: DecisionBody {
            container: "direct",
            video: Some("direct"),
            audio: Some("direct"),
            subtitle: "none",
            reasons: words(reasons),
        },
        expires_at: instant(expires),
        idle_timeout_seconds: None,
    }
}

fn transcoded(service: &Service, principal: &Principal, session: &Session) -> Started {
    let (plan, rendition) = (&session.plan, &session.plan.work.rendition);
    let url = format!("/api/stream/transcode/{}/index.m3u8", session.id);
    let video = rendition.video.as_ref();
    let burns = matches!(video, Some(VideoPlan::Encode(encode)) if encode.burn.is_some());
    Started {
        session_id: Some(session.id.clone()),
        playback_mode: "transcode",
        signed_playlist_url: Some(format!("{url}?st={}", grant(service, principal, session))),
        playlist_url: Some(url),
        direct_url: None,
        signed_direct_url: None,
        start_position_seconds: plan.request.start_seconds,
        duration_seconds: Some(round_ms(plan.duration_seconds)),
        segment_seconds: Some(service.config.segment_seconds),
        decision: DecisionBody {
            container: "transmux",
            video: video.map(|plan| if matches!(plan, VideoPlan::Copy { .. }) { "copy" } else { "encode" }),
            audio: rendition.audio.as_ref().map(audio_action),
            subtitle: if burns {
                "burn"
            } else if plan.subtitles.is_some() {
                "webvtt"
            } else {
                "none"
            },
            reasons: words(&plan.reasons),
        },
        expires_at: instant(expires(session)),
        idle_timeout_seconds: Some(service.config.limits.session_idle.as_secs()),
    }
}

fn audio_action(plan: &AudioPlan) -> &'static str {
    if matches!(plan, AudioPlan::Copy { .. }) { "copy" } else { "encode" }
}

fn expires(session: &Session) -> Timestamp {
    session.started_at + Duration::from_secs(GRANT_SECONDS.unsigned_abs())
}

fn grant(service: &Service, principal: &Principal, session: &Session) -> String {
    service.accounts.grant(principal, &resource(&session.id), expires(session).as_second())
}

fn instant(at: Timestamp) -> String {
    format!("{at:.3}")
}

fn find(service: &Service, call: &Call) -> Result<Arc<Session>> {
    service.sessions.find(call.user()?, &call.params[0])
}

/// The multivariant playlist. Held until the segment at the start position exists.
#[utoipa::path(
    get, path = "/api/stream/transcode/{sessionId}/index.m3u8", tag = "stream",
    params(
        ("sessionId" = String, Path),
        ("wait" = Option<f64>, Query, description = "seconds to hold the request, 0 to 20, default 10"),
        ("st" = Option<String>, Query, description = "signed grant, instead of a bearer token")
    ),
    responses(
        (status = 200, description = "the playlist, or `Preparing` as JSON", body = String, content_type = "application/vnd.apple.mpegurl"),
        (status = 400), (status = 404), (status = 410), (status = 500)
    )
)]
pub(super) async fn index(service: Arc<Service>, call: Call) -> Result<Response> {
    let wait = match call.query("wait")? {
        None => HOLD_SECONDS,
        Some(text) => {
            let wait = text.parse::<f64>().ok().filter(|wait| (0.0..=MOST_HOLD_SECONDS).contains(wait));
            wait.ok_or_else(|| Error::field("wait", "must be a number from 0 to 20"))?
        }
    };
    let session = find(&service, &call)?;
    if session.ready(Duration::from_secs_f64(wait)).await? {
        return Ok(playlist(session.multivariant(&grant(&service, call.user()?, &session))));
    }
    let progress = readiness(&session.status());
    let mut response = reply::json(&Preparing { status: "preparing", ready: false, progress, retry_after_ms: 300 });
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    Ok(response)
}

/// The answer while the first segment is being made.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Preparing {
    status: &'static str,
    ready: bool,
    /// Percent of the way to a playable session.
    progress: u8,
    retry_after_ms: u32,
}

fn playlist(text: Bytes) -> Response {
    let mut response = reply::bytes("application/vnd.apple.mpegurl", text);
    // Its addresses are signed for one viewer.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// A media playlist or a segment of a session.
#[utoipa::path(
    get, path = "/api/stream/transcode/{sessionId}/{asset}", tag = "stream",
    params(
        ("sessionId" = String, Path),
        ("asset" = String, Path, description = "`v0.m3u8`, `v0-00000.ts`, `a0.m3u8`, `a0-00000.ts`, `s0.m3u8`, `s0-00000.vtt`"),
        ("st" = Option<String>, Query, description = "signed grant, instead of a bearer token")
    ),
    responses(
        (status = 200, body = Vec<u8>, content_type = "video/mp2t"), (status = 304), (status = 404), (status = 410),
        (status = 500), (status = 504)
    )
)]
pub(super) async fn session_asset(service: Arc<Service>, call: Call) -> Result<Response> {
    let session = find(&service, &call)?;
    session.serves()?;
    let name = &call.params[1];
    match asset(name).ok_or_else(|| Error::new(Code::AssetNotFound, "the session has no asset of this name"))? {
        Asset::Playlist(track) => {
            Ok(playlist(session.media_playlist(track, &grant(&service, call.user()?, &session))?))
        }
        Asset::Segment(track, index) if track == session.main_track() => {
            let stored = session.segment(index).await?;
            Ok(segment("video/mp2t", stored.bytes, &stored.etag, &call.headers))
        }
        Asset::Segment(Track::Subtitles, index) => {
            let text = session.subtitle_segment(&service.subtitles, index).await?;
            let etag = format!("\"{}\"", &blake3::hash(text.as_bytes()).to_hex()[..24]);
            Ok(segment("text/vtt; charset=utf-8", text.into(), &etag, &call.headers))
        }
        Asset::Segment(..) => Err(Error::new(Code::AssetNotFound, "the session has no such track")),
    }
}

fn segment(content_type: &'static str, bytes: Bytes, etag: &str, headers: &HeaderMap) -> Response {
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let fresh = known.is_some_and(|known| known.split(',').any(|one| one.trim().trim_start_matches("W/") == etag));
    let mut response = if fresh {
        let mut response = reply::empty();
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        reply::bytes(content_type, bytes)
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600, immutable"));
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(ETAG, etag);
    }
    response
}

/// How a session stands.
#[utoipa::path(
    get, path = "/api/stream/transcode/{sessionId}/status", tag = "stream",
    params(
        ("sessionId" = String, Path),
        ("st" = Option<String>, Query, description = "signed grant, instead of a bearer token")
    ),
    responses((status = 200, body = StatusBody), (status = 404))
)]
pub(super) async fn status(service: Arc<Service>, call: Call) -> Result<Response> {
    let session = find(&service, &call)?;
    Ok(reply::json(&StatusBody::new(&session)))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusBody {
    session_id: String,
    /// The segment at the start position exists and the session serves.
    ready: bool,
    /// Percent of the way to `ready`.
    progress: u8,
    error: Option<FailureBody>,
    mode: &'static str,
    /// `starting`, `running`, `paused`, `complete`, `failed` or `stopped`.
    state: &'static str,
    diagnostics: Diagnostics,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FailureBody {
    /// `DECODE_FAILED`, `ENCODER_FAILED`, `SOURCE_READ_FAILED`, `SOURCE_CHANGED`, `TIMEOUT` or `INTERNAL`.
    code: &'static str,
    message: &'static str,
    /// Whether starting again may help.
    retryable: bool,
    at: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Diagnostics {
    /// Name of the encoder at work; `copy` when nothing is encoded.
    encoder: String,
    /// Codec of the source's picture, or of its sound.
    decoder: Option<String>,
    pipeline: &'static str,
    fallback: bool,
    video: Option<VideoBody>,
    audio: Option<AudioBody>,
    /// Seconds of media made per second of work.
    speed: Option<f64>,
    segments_ready: usize,
    produced_seconds: f64,
    buffered_bytes: u64,
    started_at: String,
    last_access_at: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct VideoBody {
    action: &'static str,
    width: Option<u32>,
    height: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AudioBody {
    action: &'static str,
    codec: String,
}

fn readiness(status: &Status) -> u8 {
    match status.state {
        State::Starting if status.progress.segments_ready > 0 => 50,
        State::Starting => 10,
        State::Running | State::Paused | State::Complete => 100,
        State::Failed | State::Stopped => 0,
    }
}

impl StatusBody {
    fn new(session: &Session) -> Self {
        let status = session.status();
        Self {
            session_id: session.id.clone(),
            ready: status.state.is_ready(),
            progress: readiness(&status),
            error: status.failure.as_ref().map(FailureBody::new),
            mode: "transcode",
            state: status.state.as_str(),
            diagnostics: Diagnostics::new(session, &status),
        }
    }
}

impl FailureBody {
    fn new(failure: &Failure) -> Self {
        let (code, retryable) = match &failure.error {
            RunError::Decode(_) => ("DECODE_FAILED", false),
            RunError::Encoder(_) => ("ENCODER_FAILED", true),
            RunError::SourceRead(_) => ("SOURCE_READ_FAILED", true),
            RunError::SourceChanged => ("SOURCE_CHANGED", true),
            RunError::SourceEnded => ("SOURCE_READ_FAILED", false),
            RunError::Stalled(_) => ("TIMEOUT", true),
            RunError::Internal(_) => ("INTERNAL", true),
        };
        Self { code, message: told(&failure.error), retryable, at: instant(failure.at) }
    }
}

impl Diagnostics {
    fn new(session: &Session, status: &Status) -> Self {
        let Plan { work, size, .. } = &session.plan;
        let codec = |index: u32| work.media.stream(index).map(|stream| stream.codec.clone());
        let (video, encoder, decoder) = match &work.rendition.video {
            None => (None, None, None),
            Some(VideoPlan::Copy { stream }) => (Some("copy"), None, codec(*stream)),
            Some(VideoPlan::Encode(plan)) => (Some("encode"), Some(plan.encoder.clone()), codec(plan.stream)),
        };
        let sound = work.rendition.audio.as_ref().map(|plan| match plan {
            AudioPlan::Copy { stream } => (audio_action(plan), codec(*stream).unwrap_or_default(), *stream),
            AudioPlan::Encode { stream, .. } => (audio_action(plan), "aac".to_owned(), *stream),
        });
        let sound_encoder =
            sound.as_ref().filter(|(action, ..)| *action == "encode").map(|(_, codec, _)| codec.clone());
        Self {
            encoder: encoder.or(sound_encoder).unwrap_or_else(|| "copy".into()),
            decoder: decoder.or_else(|| sound.as_ref().and_then(|(.., stream)| codec(*stream))),
            pipeline: session.producer,
            fallback: false,
            video: video.map(|action| VideoBody {
                action,
                width: size.map(|(width, _)| width),
                height: size.map(|(_, height)| height),
            }),
            audio: sound.map(|(action, codec, _)| AudioBody { action, codec }),
            speed: status.progress.speed.map(|speed| (speed * 100.0).round() / 100.0),
            segments_ready: status.progress.segments_ready,
            produced_seconds: round_ms(status.progress.produced_seconds),
            buffered_bytes: status.progress.buffered_bytes,
            started_at: instant(session.started_at),
            last_access_at: instant(status.last_access_at),
        }
    }
}

/// Stops a session.
#[utoipa::path(
    delete, path = "/api/stream/transcode/{sessionId}", tag = "stream",
    params(
        ("sessionId" = String, Path),
        ("st" = Option<String>, Query, description = "signed grant, instead of a bearer token")
    ),
    responses((status = 200, body = Stopped), (status = 404))
)]
pub(super) async fn stop(service: Arc<Service>, call: Call) -> Result<Response> {
    let session_id = call.params[0].clone();
    let stopped = service.sessions.stop(call.user()?, &session_id).await?;
    Ok(reply::json(&Stopped { session_id, stopped }))
}

/// Stops a session, for `navigator.sendBeacon`, which can send neither DELETE nor a header.
#[utoipa::path(
    post, path = "/api/stream/transcode/{sessionId}/stop", tag = "stream",
    params(
        ("sessionId" = String, Path),
        ("st" = Option<String>, Query, description = "signed grant, instead of a bearer token")
    ),
    responses((status = 200, body = Stopped), (status = 404))
)]
pub(super) async fn stop_by_post(service: Arc<Service>, call: Call) -> Result<Response> {
    stop(service, call).await
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stopped {
    session_id: String,
    /// False when it had ended before.
    stopped: bool,
}
