//! Segments of channels: their answers, and `/api/livetv/segments/…`, the addresses of segments that a shared cache can keep.

use std::fmt::Display;

use http::header::{CACHE_CONTROL, HeaderValue};

use crate::domain::channel::Channel;
use crate::domain::live_cmaf;
use crate::domain::live_window::{LiveAsset, LivePlaylist, LiveTrack, PlaylistView, segment_version};
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::segment_format::SegmentFormat;
use crate::http::api::prelude::*;
use crate::http::api::transcode;
use crate::http::cors::Cors;
use crate::service::channels::Viewer;
use crate::service::live;

/// How long a shared cache may keep a segment, seconds. Live windows are a minute long, and viewers fall behind by minutes.
const MAX_AGE_SECONDS: i64 = 3600;

/// How long an edge may use the answer that a grant is valid, seconds. So long can a cached segment be read after the rights of
/// its channel were withdrawn.
const MAX_CHECK_AGE_SECONDS: i64 = 60;

/// A segment or an init segment as it is sent.
pub struct SentSegment {
    pub response: Response,
    /// The same bytes come under this name for as long as the channel is not changed.
    pub is_lasting: bool,
}

pub fn not_found() -> Error {
    Error::new(Code::AssetNotFound, "the channel has no file with this name")
}

/// Sends a segment or an init segment to a client's own cache. The caller has checked the right to show the channel.
///
/// # Errors
/// `ASSET_NOT_FOUND`, also for playlists; those of [`live::segment`], [`live::copied_segment`] and [`live::copied_init`].
pub async fn send(
    service: &Arc<Service>,
    channel: &Arc<Channel>,
    asset: LiveAsset,
    viewer: &Viewer,
    call: Call,
) -> Result<SentSegment> {
    match asset {
        LiveAsset::Segment(copies, track, programme_start_ms, index) => {
            let (channel, segment_id) = (live::variety_of(service, channel, copies), (programme_start_ms, index));
            if !copies.is_empty()
                && track == LiveTrack::Video
                && let Some(copied) = live::copied_segment(service, &channel, segment_id, viewer).await?
            {
                let kind = (track.content_type(), track.format());
                let response = transcode::media_segment_response(service, &copied.source, kind, copied.stored, &call)?;
                return Ok(SentSegment { response, is_lasting: !copied.is_outdated });
            }
            let stored = live::segment(service, &channel, &track, segment_id, viewer).await?;
            let mut response =
                transcode::segment_response(track.content_type(), stored.bytes, &stored.etag, &call.headers);
            if stored.is_slate {
                // The item is tried again, and this URL then shows it.
                response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            }
            Ok(SentSegment { response, is_lasting: !stored.is_slate && !stored.is_outdated })
        }
        LiveAsset::Init(kind, id) => {
            let init = match live_cmaf::find_init(&channel.definition, kind, id) {
                Some(init) => init.into(),
                None => live::copied_init(service, channel, id).await?.ok_or_else(not_found)?,
            };
            let content_type = match kind {
                TrackKind::Video => SegmentFormat::Fmp4.content_type(),
                TrackKind::Audio => SegmentFormat::Fmp4.audio_content_type(),
            };
            let etag = format!("\"{:016x}\"", id.0);
            let response = transcode::segment_response(content_type, init, &etag, &call.headers);
            Ok(SentSegment { response, is_lasting: true })
        }
        LiveAsset::Playlist(..) | LiveAsset::Multivariant => Err(not_found()),
    }
}

/// The resource that a shared grant for a channel covers.
pub fn grant_resource(call: &Call) -> Option<String> {
    call.params.get(1).map(resource_of)
}

fn resource_of(channel: impl Display) -> String {
    format!("livetv/segments/{channel}")
}

/// Where a playlist's segments are for all viewers, relative to the playlist; None if they are for one viewer. That is so without
/// a shared cache, and in the past: each viewer there has encode slots of their own, so the server must know who reads.
pub fn shared_path(service: &Service, playlist: &LivePlaylist) -> Option<String> {
    if !service.config.shared_cache || playlist.view != PlaylistView::Live {
        return None;
    }
    let id = playlist.channel.id;
    Some(format!("../../segments/{}/{id}", service.accounts.sign_shared(&resource_of(id))))
}

/// The channel in the path, if its rights permit showing it.
fn channel_of(service: &Service, call: &Call) -> Result<Arc<Channel>> {
    // Grants are signed for numbers in their shortest form.
    let id = call.params[1].parse().map_err(|_| not_found())?;
    let channel = super::find_visible_channel(service, call, id)?;
    service.check_showing_rights(&channel)?;
    Ok(channel)
}

/// Lets shared caches keep a response, until the grant expires at the latest: a cache that checks no grants has it in its key.
fn share(
    service: &Service,
    expires_at: Option<i64>,
    response: &mut Response,
    (max_seconds, more): (i64, &str),
) -> Result<()> {
    let expires_at = expires_at.unwrap_or(0);
    let seconds = (expires_at - service.clock.now().as_second()).clamp(0, max_seconds);
    let text = format!("public, max-age={seconds}{more}");
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::try_from(text).map_err(Error::internal)?);
    Cors::new(&service.config.allowed_origins).allow_any_origin(response.headers_mut());
    Ok(())
}

/// Checks the grant in the addresses of a channel's segments, for an edge that has them cached
#[utoipa::path(get, path = "/api/livetv/segments/{grant}/{id}", params(
    ("grant" = String, Path, description = "As in a live playlist"),
    ("id" = u32, Path, description = "Channel id")), responses(
    (status = 204, description = "Cached segments of the channel may be sent; the answer may be kept for a minute"),
    (status = 403, description = "`SIGNATURE_INVALID`, `SIGNATURE_EXPIRED`, `RIGHTS_WITHDRAWN`; `FORBIDDEN`: the channel is gone or disabled"),
    (status = 404, description = "`NOT_FOUND`: `shared_cache` is not enabled in the configuration")))]
pub async fn check(service: Arc<Service>, call: Call) -> Result<Response> {
    channel_of(&service, &call).map_err(|error| match error.code {
        // `auth_request` of nginx passes on 401 and 403, and takes any other error for a fault of the server.
        Code::ChannelNotFound => Error::new(Code::Forbidden, error.message),
        _ => error,
    })?;
    let mut response = reply::empty();
    share(&service, call.user()?.expires_at, &mut response, (MAX_CHECK_AGE_SECONDS, ""))?;
    Ok(response)
}

/// Segment or init segment of a channel for a shared cache
///
/// With `shared_cache` in the configuration, live playlists name these addresses. Grants are the same for all viewers for six hours
/// and are not part of what a segment is: a cache that has checked them may leave them out of its key.
#[utoipa::path(get, path = "/api/livetv/segments/{grant}/{id}/{version}/{asset}", params(
    ("grant" = String, Path, description = "As in the playlist: 12 to 18 hours of access to the segments of this channel"),
    ("id" = u32, Path, description = "Channel id"),
    ("version" = String, Path, description = "As in the playlist: a hash of what decides the content of the segment"),
    ("asset" = String, Path, description = "As in the playlist: the name of a segment or init segment"),
    ("Range" = Option<String>, Header, description = "Of copied video in fMP4: `bytes=first-last`, `bytes=first-` or `bytes=-count`")), responses(
    (status = 200, description = "`Cache-Control: public`, or `no-store` if another segment may come under this address", content((Vec<u8> = "video/mp2t"), (Vec<u8> = "video/mp4"), (Vec<u8> = "audio/mp4"), (String = "text/vtt"))),
    (status = 206, description = "The requested bytes of copied video", content((Vec<u8> = "video/mp4"))),
    (status = 304, description = "The cached segment is still valid"),
    (status = 403, description = "`SIGNATURE_INVALID`, `SIGNATURE_EXPIRED`, `RIGHTS_WITHDRAWN`"),
    (status = 404, description = "`CHANNEL_NOT_FOUND`; `ASSET_NOT_FOUND`: no such segment, or it is not on air yet; `NOT_FOUND`: `shared_cache` is not enabled in the configuration"),
    (status = 416, description = "`RANGE_NOT_SATISFIABLE`"),
    (status = 503, description = "`TRANSCODER_BUSY`; `CHANNEL_UNAVAILABLE`"),
    (status = 504, description = "`SEGMENT_TIMEOUT`")))]
pub async fn segment(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = channel_of(&service, &call)?;
    let asset = LiveAsset::parse(&call.params[3]).ok_or_else(not_found)?;
    let version = match &asset {
        LiveAsset::Segment(copies, ..) => segment_version(&live::variety_of(&service, &channel, *copies), &asset),
        _ => segment_version(&channel, &asset),
    };
    let expires_at = call.user()?.expires_at;
    let has_current_version = version.as_ref() == Some(&call.params[2]);
    // All who are late read together, apart from the viewers of the live window.
    let late_viewers = Viewer::internal(&resource_of(channel.id));
    let SentSegment { mut response, is_lasting } = send(&service, &channel, asset, &late_viewers, call).await?;
    match is_lasting && has_current_version {
        true => share(&service, expires_at, &mut response, (MAX_AGE_SECONDS, ", immutable"))?,
        false => drop(response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"))),
    }
    Ok(response)
}
