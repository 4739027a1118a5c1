//! A session in fMP4 (CMAF): the video alone, and each audio track as a rendition of its own.

use super::audio_tracks::{plan_aac_tracks, plan_audio_tracks};
use super::converted_copy::is_convertible;
use super::rendition::{Policy, plan_rendition};
use super::{DecidedItem, SessionAudio, SessionRenditions, StartRequest, ladder};
use crate::domain::grid::Grid;
use crate::domain::playback::capabilities::{
    ClientCapabilities, EncodeReason, SessionDelivery, StreamDecision, decide_delivery,
};
use crate::domain::playback::{SessionTracks, TrackAction};
use crate::domain::segment_format::SegmentFormat;
use crate::error::Result;
use crate::service::Service;

/// Plans CMAF if that is the best form for the client. None if it is not, or if the video would have to be copied, but can neither be
/// packaged nor converted.
///
/// # Errors
/// `TRANSCODER_UNAVAILABLE` when video must be encoded and no encoder works.
pub(super) async fn plan_cmaf(
    service: &Service,
    request: &StartRequest,
    item: &DecidedItem,
    policy: Policy<'_>,
) -> Result<Option<SessionRenditions>> {
    plan_for_client(service, request, &request.capabilities, item, policy).await
}

/// CMAF in place of MPEG-TS in which H.264 must be encoded, if the client plays both and CMAF copies it: only CMAF is cut at
/// recovery points. Otherwise `muxed`.
///
/// # Errors
/// That of `muxed`.
pub(super) async fn prefer_copy_in_cmaf(
    service: &Service,
    request: &StartRequest,
    item: &DecidedItem,
    policy: Policy<'_>,
    muxed: Result<SessionRenditions>,
) -> Result<SessionRenditions> {
    let Some((stream, TrackAction::Copy)) = item.tracks.video else { return muxed };
    let is_avc = item.media.stream(stream).is_some_and(|stream| stream.codec == "h264");
    let encodes = |planned: &SessionRenditions| planned.top.spec.rendition.encodes_video();
    if !is_avc || muxed.as_ref().is_ok_and(|planned| !encodes(planned)) {
        return muxed;
    }
    let mut client = request.capabilities.clone();
    client.formats.retain(|format| format.format == SegmentFormat::Fmp4);
    match plan_for_client(service, request, &client, item, policy).await {
        Ok(Some(planned)) if !encodes(&planned) => Ok(planned),
        _ => muxed,
    }
}

async fn plan_for_client(
    service: &Service,
    request: &StartRequest,
    client: &ClientCapabilities,
    item: &DecidedItem,
    policy: Policy<'_>,
) -> Result<Option<SessionRenditions>> {
    let DecidedItem { source, media, .. } = item;
    let Some(delivery) = decide_delivery(media, client, &request.limited_playback()) else {
        return Ok(None);
    };
    let SessionDelivery { format: SegmentFormat::Fmp4, video: Some(mut video), audio, .. } = delivery else {
        return Ok(None);
    };
    if video.action == TrackAction::Copy
        && let Err(why) = service.packages.open_cmaf(source, media, video.stream).await
        && media.stream(video.stream).is_none_or(|stream| !is_convertible(media, stream))
    {
        tracing::info!(media.path = source.path, why, "the video of this file cannot be packaged as CMAF");
        return Ok(None);
    }
    let mut ladder = None;
    let accepts_copy = |copied_grid: &Grid| {
        let grid = request.playback.is_adaptive.then(|| ladder::encoded_grid(copied_grid, media, video.stream));
        let is_accepted = !matches!(grid, Some(Err(_)));
        ladder = grid;
        is_accepted
    };
    let tracks = SessionTracks { video: Some((video.stream, video.action)), audio: None };
    let item = DecidedItem { tracks, ..item.clone() };
    let policy = Policy { format: SegmentFormat::Fmp4, codec: request.codec_choice(), ..policy };
    let Some(planned) = plan_rendition(service, item, policy, accepts_copy).await? else { return Ok(None) };
    if planned.spec.rendition.encodes_video() && video.action == TrackAction::Copy {
        let reason = match planned.changes_description {
            true => EncodeReason::ParameterSets,
            false => EncodeReason::Keyframes,
        };
        video = StreamDecision { action: TrackAction::Encode, reasons: vec![reason], ..video };
    }
    let planned_audio = plan_audio_tracks(service, &planned.spec, audio, request).await;
    let (decisions, tracks): (Vec<_>, Vec<_>) = planned_audio.into_iter().unzip();
    let aac = if delivery.has_aac_group { plan_aac_tracks(&planned.spec, &tracks, request) } else { Vec::new() };
    let audio = SessionAudio::new(tracks, aac);
    let streams = std::iter::once(video).chain(decisions).collect();
    let has_text_renditions = delivery.has_text_renditions;
    Ok(Some(SessionRenditions { top: planned, audio, streams, has_text_renditions, ladder }))
}
