//! `/api/livetv/watch/…`: playback of channels: watch, playlist, segments.

use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue, LOCATION, REFERRER_POLICY, RETRY_AFTER, USER_AGENT, VARY};
use utoipa::IntoParams;

use super::decoded_video::DecodedVideo;
use super::segments;
use super::view_query::{UnixSecondsText, ViewParams, ViewQuery, parse_watch_session};
use crate::domain::audio_layout::AudioLayout;
use crate::domain::channel::Channel;
use crate::domain::live_window::{self, LiveAsset, LiveTrack, SegmentAddresses};
use crate::domain::schedule::LineupLanguages;
use crate::domain::segment_format::SegmentFormat;
use crate::domain::video_class::VideoClasses;
use crate::http::api::prelude::*;
use crate::http::api::transcode;
use crate::service::accounts::random_bytes;
use crate::service::channels::{START_OVER, Viewer};
use crate::service::live::{self, Opening};

/// Lifetime of the grant in child URLs after the end of the current hour, seconds: twelve hours.
const GRANT_SECONDS: i64 = 12 * 3600;

/// Shortest time a watch request is held: copied video is ready by then.
const MIN_HOLD: Duration = Duration::from_millis(250);

/// Longest hold, seconds: of a watch request with `wait`, and of a playlist request without segments to list.
const MAX_HOLD_SECONDS: f64 = 15.0;

/// Largest number of audio channels that a client may state: that of AudioContext in browsers is at most 32.
const MAX_CHANNELS: u32 = 64;

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
pub fn grant_resource(call: &Call) -> Option<String> {
    let raw = call.params.first()?;
    let id = raw.parse::<u32>().map_or_else(|_| raw.clone(), |id| id.to_string());
    Some(format!("livetv/watch/{id}"))
}

/// Watch a channel: redirects to its playlist once the first segment is ready
#[utoipa::path(get, path = "/api/livetv/watch/{id}", params(
    ("id" = u32, Path, description = "Channel id"),
    ("wait" = Option<f64>, Query, description = "Hold the request for up to this many seconds, 0 to 15; `Prefer: wait=` is an alternative"),
    ("format" = Option<String>, Query, description = "`mpeg-ts` (default); `fmp4` for the renditions of `index.m3u8`, which external channels do not have; `auto` for `fmp4` where there are several audio languages or text subtitles to choose from, 5.1 that the client plays, or items of which the client decodes the video (`videoCodecs`)"),
    ("maxAudioChannels" = Option<u32>, Query, description = "As in `index.m3u8`, to which it is passed on"),
    ("videoCodecs" = Option<String>, Query, description = "As in `index.m3u8`, to which it is passed on"),
    ("videoRanges" = Option<String>, Query, description = "As in `index.m3u8`, to which it is passed on"),
    ViewParams,
    CredentialParams), responses(
    (status = 302, description = "Redirect to the playlist, with a grant in its URL"),
    (status = 202, description = "The channel is starting; retry after `retryAfterMs`", body = Starting),
    (status = 403, description = "`RIGHTS_WITHDRAWN`"),
    (status = 404, description = "`CHANNEL_NOT_FOUND`; `NOT_FOUND`: the start is in the future or older than the catch-up window"),
    (status = 503, description = "`CHANNEL_UNAVAILABLE`, `TRANSCODER_BUSY`")))]
pub async fn watch(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = channel_of(&service, &call)?;
    let query = ViewQuery::from_request(&call, None)?;
    let session = query.watch_session.unwrap_or_else(|| format!("ws_{}", HEXLOWER.encode(&random_bytes::<8>())));
    let wait = parse_wait(&call)?.unwrap_or(Duration::ZERO).max(MIN_HOLD);
    let max_channels = parse_max_audio_channels(&call)?;
    let decoded = DecodedVideo::from_request(&call)?;
    let format = parse_format(&call, &channel, (max_channels, decoded.classes))?;
    let viewer = Viewer::new(call.user()?, Some(&session));
    let variety = match format {
        SegmentFormat::Fmp4 => live::variety_for(&service, &channel, decoded.classes),
        _ => channel.clone(),
    };
    let range_ms = match live::open(&service, variety, &viewer, query.view, wait).await? {
        Opening::Ready { range_ms } => range_ms,
        Opening::Starting { progress } => return Ok(starting_response(&channel, session, progress)),
    };
    let grant = child_query(&service, &call, &channel, Some(&session))?;
    let urls = ResourceUrls::from_config(&service.config);
    let playlist = match format {
        SegmentFormat::Fmp4 => urls.live_multivariant(channel.id),
        _ => urls.live_playlist(channel.id),
    };
    let mut location = format!("{playlist}?{grant}");
    if let Some(max_channels) = max_channels.filter(|_| format == SegmentFormat::Fmp4) {
        location += &format!("&maxAudioChannels={max_channels}");
    }
    if format == SegmentFormat::Fmp4 {
        location += &decoded.query();
    }
    if let Some((start_ms, end_ms)) = range_ms {
        location += &format!("&at={}", UnixSecondsText(start_ms));
        if let Some(end_ms) = end_ms {
            location += &format!("&end={}", UnixSecondsText(end_ms));
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
    let channel = super::find_visible_channel(service, call, super::parse_channel_id(call)?)?;
    service.check_showing_rights(&channel)?;
    Ok(channel)
}

fn starting_response(channel: &Channel, watch_session: String, progress: u8) -> Response {
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
#[utoipa::path(get, path = "/api/livetv/watch/{id}/live.m3u8", params(
    ("id" = u32, Path, description = "Channel id"),
    ViewParams,
    CredentialParams), responses(
    (status = 200, description = "A sliding window (live), a growing playlist, or a complete one", content_type = "application/vnd.apple.mpegurl", body = String),
    (status = 403, description = "`RIGHTS_WITHDRAWN`"),
    (status = 404, description = "`CHANNEL_NOT_FOUND`; `NOT_FOUND`: the start is in the future or older than the catch-up window"),
    (status = 503, description = "`CHANNEL_UNAVAILABLE`: no segment is ready yet; `TRANSCODER_BUSY`: all encode slots are in use")))]
pub async fn playlist(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = channel_of(&service, &call)?;
    let mut response = media_playlist(&service, call, channel, &LiveTrack::Muxed).await?;
    response.headers_mut().append(VARY, HeaderValue::from_static("user-agent"));
    Ok(response)
}

async fn media_playlist(
    service: &Arc<Service>,
    call: Call,
    channel: Arc<Channel>,
    track: &LiveTrack,
) -> Result<Response> {
    let query = ViewQuery::from_request(&call, Some(START_OVER))?;
    let session = query.watch_session.as_deref();
    let viewer = Viewer::new(call.user()?, session);
    let wait = Duration::from_secs_f64(MAX_HOLD_SECONDS);
    let mut playlist = live::playlist(service, channel.clone(), &viewer, query.view, wait).await?;
    // VLC 3 takes `EXT-X-DISCONTINUITY` for the end of the stream and loses the last 0.4 s of every programme (measured).
    // Tracks and timestamps continue here, so the tag is only a SHOULD (RFC 8216 section 4.3.2.3), and VLC plays everything
    // without it.
    let is_vlc = || call.header(USER_AGENT).is_some_and(|name| name.starts_with("VLC/3."));
    if *track == LiveTrack::Muxed && is_vlc() {
        playlist.remove_discontinuities();
    }
    let text = match segments::shared_path(service, &playlist) {
        Some(path) => playlist.render(track, SegmentAddresses::Shared(&path)),
        None => {
            let query = child_query(service, &call, &channel, session)?;
            playlist.render(track, SegmentAddresses::Private(&format!("?{query}")))
        }
    };
    Ok(transcode::playlist_response(Bytes::from(text)))
}

/// Multivariant playlist of a channel in fMP4
///
/// Video, audio and text subtitles are renditions of their own, in up to three languages each: those of the channel's items. Where an
/// item lacks a language, it has its default audio and no text. Channels with 5.1 among their items offer it beside stereo, as a
/// second audio group; items with fewer channels are silent in the others. For a client that decodes the video of items which are
/// encoded for others, the channel has a variety in which they are copied: same programmes, other segments.
#[utoipa::path(get, path = "/api/livetv/watch/{id}/index.m3u8", params(
    ("id" = u32, Path, description = "Channel id"),
    ("maxAudioChannels" = Option<u32>, Query, description = "The most audio channels that the client plays, 1 to 64: below 6 only stereo is offered, from 6 on only 5.1 where the channel has it"),
    ("videoCodecs" = Option<String>, Query, description = "The video that the client decodes in fMP4, as RFC 6381 codec strings, e.g. `hvc1.2.4.L153.B0,av01.0.13M.10`. Items in HEVC, AV1 or VP9 that these include are copied instead of encoded, in the size of the file. Dolby Vision of profile 5 is copied for clients that name it (`dvh1.05.06`); that of profile 8 is HDR10, HLG or SDR"),
    ("videoRanges" = Option<String>, Query, description = "`hdr10,hlg`: what the client shows in its range. Other HDR is encoded in SDR"),
    ViewParams,
    CredentialParams), responses(
    (status = 200, description = "Its media playlists have the same view", content_type = "application/vnd.apple.mpegurl", body = String),
    (status = 400, description = "`VALIDATION_ERROR`: the channel is external and has only `live.m3u8`, `maxAudioChannels` is no such number, or `videoCodecs` or `videoRanges` is no such list"),
    (status = 403, description = "`RIGHTS_WITHDRAWN`"),
    (status = 404, description = "`CHANNEL_NOT_FOUND`")))]
pub async fn multivariant(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = channel_of(&service, &call)?;
    if channel.external.is_some() {
        return Err(external_format_error());
    }
    let query = ViewQuery::from_request(&call, Some(START_OVER))?;
    let session = query.watch_session.as_deref();
    let children = format!("?{}{}", child_query(&service, &call, &channel, session)?, query.view);
    let max_channels = parse_max_audio_channels(&call)?;
    let channel = live::variety_for(&service, &channel, DecodedVideo::from_request(&call)?.classes);
    Ok(transcode::playlist_response(live_window::render_multivariant(&channel, max_channels, &children).into()))
}

fn external_format_error() -> Error {
    Error::invalid_field("format", "must be mpeg-ts for an external channel")
}

/// Media segment of a channel, or a media playlist or an init segment of it in fMP4
#[utoipa::path(get, path = "/api/livetv/watch/{id}/{asset}", params(
    ("id" = u32, Path, description = "Channel id"),
    ("asset" = String, Path, description = "Name as in the playlist: a segment `1795378500000-00450.ts`; in fMP4 `video.m3u8`, `audio-de.m3u8`, `surround-de.m3u8`, `text-de.m3u8`, and the segments and init segments that these name"),
    ViewParams,
    CredentialParams), responses(
    (status = 200, content((Vec<u8> = "video/mp2t"), (Vec<u8> = "video/mp4"), (Vec<u8> = "audio/mp4"), (String = "application/vnd.apple.mpegurl"), (String = "text/vtt"))),
    (status = 304, description = "The cached segment is still valid"),
    (status = 403, description = "`RIGHTS_WITHDRAWN`"),
    (status = 404, description = "`ASSET_NOT_FOUND`: no such segment, or it is not on air yet; of a playlist as for `live.m3u8`"),
    (status = 503, description = "`TRANSCODER_BUSY`; `CHANNEL_UNAVAILABLE`: no segment is ready yet"),
    (status = 504, description = "`SEGMENT_TIMEOUT`")))]
pub async fn asset(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = channel_of(&service, &call)?;
    match LiveAsset::parse(&call.params[1]).ok_or_else(segments::not_found)? {
        LiveAsset::Playlist(..) if channel.external.is_some() => Err(segments::not_found()),
        LiveAsset::Playlist(copies, track) => {
            let channel = live::variety_of(&service, &channel, copies);
            media_playlist(&service, call, channel, &track).await
        }
        asset => {
            let viewer = Viewer::new(call.user()?, parse_watch_session(&call)?);
            segments::send(&service, &channel, asset, &viewer, call).await.map(|sent| sent.response)
        }
    }
}

/// Stop watching: ends a view of the same login
#[utoipa::path(delete, path = "/api/livetv/watch/{id}", params(
    ("id" = u32, Path, description = "Channel id"),
    ("watchSession" = String, Query, description = "Identifies the viewer"),
    CredentialParams), responses(
    (status = 200, description = "`ended` is false if there was no such viewer", body = Ended)))]
pub async fn leave(service: Arc<Service>, call: Call) -> Result<Response> {
    let id = super::parse_channel_id(&call)?;
    // Leaving a channel that has since been deleted must succeed.
    if service.channels.get(id).is_ok() {
        super::find_visible_channel(&service, &call, id)?;
    }
    let session = parse_watch_session(&call)?.ok_or_else(|| Error::invalid_field("watchSession", "is missing"))?;
    let viewer = Viewer::new(call.user()?, Some(session));
    let ended = live::leave(&service, id, &viewer).await;
    Ok(reply::json(&Ended { ended }))
}

/// The requested hold time, from `wait` or `Prefer`.
fn parse_wait(call: &Call) -> Result<Option<Duration>> {
    let preferred_seconds = call.header("prefer").and_then(|prefer| {
        prefer.split([',', ';']).find_map(|part| part.trim().strip_prefix("wait=")?.parse::<f64>().ok())
    });
    let preferred_seconds = preferred_seconds.filter(|seconds| !seconds.is_nan());
    let requested_seconds = match call.query("wait") {
        None => preferred_seconds.map(|seconds| seconds.clamp(0.0, MAX_HOLD_SECONDS)),
        Some(text) => {
            let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=MAX_HOLD_SECONDS).contains(seconds));
            Some(seconds.ok_or_else(|| Error::invalid_field("wait", "must be a number from 0 to 15"))?)
        }
    };
    Ok(requested_seconds.map(Duration::from_secs_f64))
}

/// The most audio channels that the client plays.
fn parse_max_audio_channels(call: &Call) -> Result<Option<u32>> {
    let Some(text) = call.query("maxAudioChannels") else { return Ok(None) };
    let channels = text.parse().ok().filter(|channels| (1..=MAX_CHANNELS).contains(channels));
    channels.map(Some).ok_or_else(|| Error::invalid_field("maxAudioChannels", "must be a number from 1 to 64"))
}

/// The requested format of a channel's segments.
fn parse_format(
    call: &Call,
    channel: &Channel,
    (max_channels, decoded): (Option<u32>, VideoClasses),
) -> Result<SegmentFormat> {
    let is_external = channel.external.is_some();
    let has_choice = || {
        let languages = LineupLanguages::of_channel(channel);
        // Without a number of channels, stereo in MPEG-TS is enough.
        languages.has_choice()
            || languages.layouts(max_channels) == [AudioLayout::Surround]
            || !decoded.common(channel.copyable_classes()).is_empty()
    };
    match call.query("format") {
        None | Some("mpeg-ts") => Ok(SegmentFormat::MpegTs),
        Some("fmp4") if is_external => Err(external_format_error()),
        Some("fmp4") => Ok(SegmentFormat::Fmp4),
        Some("auto") if !is_external && has_choice() => Ok(SegmentFormat::Fmp4),
        Some("auto") => Ok(SegmentFormat::MpegTs),
        Some(_) => Err(Error::invalid_field("format", "must be mpeg-ts, fmp4 or auto")),
    }
}

/// Query of every child URL: a grant, which expires no later than the credentials of this request, and the watch session.
fn child_query(service: &Service, call: &Call, channel: &Channel, session: Option<&str>) -> Result<String> {
    // Rounded to the hour, so that URLs do not change between reloads of the playlist.
    let hour = service.clock.now().as_second() / 3600 * 3600;
    let resource = format!("livetv/watch/{}", channel.id);
    let mut query = format!("st={}", service.accounts.sign_grant(call.user()?, &resource, hour + 3600 + GRANT_SECONDS));
    if let Some(session) = session {
        query += &format!("&watchSession={session}");
    }
    Ok(query)
}
