//! A session of MPEG-TS: video and audio muxed, or audio alone.

use super::rendition::{PlannedRendition, Policy, plan_rendition};
use super::{DecidedItem, LadderGrid, SessionAudio, SessionRenditions, StartRequest, ladder, unplayable_error};
use crate::domain::grid::Grid;
use crate::domain::playback::TrackAction;
use crate::domain::playback::TranscodeReason;
use crate::domain::playback::capabilities::explain_tracks;
use crate::error::Result;
use crate::service::Service;

/// Plans the rendition of an item. `reasons` says why the file is not played directly; copyable video that cannot be segmented
/// well adds one.
///
/// # Errors
/// `UNPLAYABLE_MEDIA` if its duration is unknown; `TRANSCODER_UNAVAILABLE` when video must be encoded and no encoder works.
pub(super) async fn plan_muxed(
    service: &Service,
    request: &StartRequest,
    item: DecidedItem,
    policy: Policy<'_>,
    reasons: &mut Vec<TranscodeReason>,
) -> Result<SessionRenditions> {
    let (media, decided) = (item.media.clone(), item.tracks.clone());
    let mut ladder: Option<LadderGrid> = None;
    let accepts_copy = |copied_grid: &Grid| match decided.video {
        Some((stream, _)) if request.playback.is_adaptive => {
            ladder.insert(ladder::encoded_grid(copied_grid, &media, stream)).is_ok()
        }
        _ => true,
    };
    let planned = plan_rendition(service, item, policy, accepts_copy).await?;
    let top: PlannedRendition = planned.ok_or_else(|| unplayable_error(reasons))?;
    let is_copyable = matches!(decided.video, Some((_, TrackAction::Copy)));
    let has_no_copy_reason = matches!(ladder, Some(Err(_)));
    let cannot_copy = top.spec.rendition.encodes_video() && is_copyable && !has_no_copy_reason;
    if cannot_copy && !reasons.contains(&TranscodeReason::ContainerNotSupported) {
        reasons.push(TranscodeReason::ContainerNotSupported);
    }
    let streams = explain_tracks(&decided, &top.spec.rendition, reasons);
    Ok(SessionRenditions { top, audio: SessionAudio::default(), streams, has_text_renditions: false, ladder })
}
