//! The rendition of an item on its segment grid: one path for sessions and channels.

use std::sync::Arc;

use super::video_encode::{CodecChoice, EncodeLimits, plan_encode};
use super::{DecidedItem, copied_video};
use crate::domain::grid::Grid;
use crate::domain::plan::{AudioPlan, Rendition, VideoPlan};
use crate::domain::playback::{SubtitleDelivery, TrackAction};
use crate::domain::segment_format::SegmentFormat;
use crate::domain::time::{FrameRate, Ticks};
use crate::engine::RenditionSpec;
use crate::engine::source::SourceFile;
use crate::error::{Error, Result};
use crate::service::Service;

/// How the tracks are encoded that are not copied.
#[derive(Clone)]
pub(super) struct Policy<'a> {
    pub limits: EncodeLimits<'a>,
    pub codec: CodecChoice<'a>,
    /// Burned into the video if it is [`SubtitleDelivery::Burn`].
    pub subtitle: &'a SubtitleDelivery,
    /// The open file of a subtitle to burn in.
    pub sidecar: Option<Arc<SourceFile>>,
    /// Of the video; None keeps the file's rate.
    pub frame_rate: Option<FrameRate>,
    pub audio_channels: u32,
    pub audio_kbps: u32,
    /// CMAF has one track.
    pub format: SegmentFormat,
}

/// A rendition, and what its grid covers.
pub(super) struct PlannedRendition {
    pub spec: RenditionSpec,
    pub duration_seconds: f64,
    /// Start of the first and end of the last frame of copied video; None if video is not copied.
    pub copied_frames: Option<(Ticks, Ticks)>,
    /// Copyable video is encoded, because its parameter sets change, which the format cannot express.
    pub changes_description: bool,
}

/// Plans the rendition of an item. Copied video whose grid is not accepted is encoded. None if the grid needs the item's
/// duration, which is unknown.
///
/// # Errors
/// `TRANSCODER_UNAVAILABLE` when video must be encoded and no encoder works.
pub(super) async fn plan_rendition(
    service: &Service,
    item: DecidedItem,
    policy: Policy<'_>,
    accepts_copy: impl FnOnce(&Grid) -> bool,
) -> Result<Option<PlannedRendition>> {
    let (mut package, mut copied) = (None, None);
    if !matches!(item.tracks.video, Some((_, TrackAction::Encode))) {
        package = match (policy.format, item.tracks.video) {
            (SegmentFormat::Fmp4, Some((stream, _))) => {
                service.packages.open_cmaf(&item.source, &item.media, stream).await.ok()
            }
            _ => service.packages.open(&item.source, &item.media, &item.tracks).await,
        };
        let known_index = package.as_ref().and_then(|package| package.index().cloned());
        copied = copied_video::plan_copy(service, &item, known_index, policy.format.into()).await;
    }
    let is_converted = policy.format == SegmentFormat::Fmp4 && package.is_none();
    let changes_description = is_converted && copied.as_ref().is_some_and(|copied| !copied.has_one_description);
    let copied = copied.filter(|copied| !changes_description && accepts_copy(&copied.grid));
    let DecidedItem { source, media, tracks, duration_seconds } = item;
    let segment_seconds = service.config.segment_seconds;
    let (video, grid, duration_seconds, copied_frames) = match (tracks.video, copied) {
        (Some((stream, _)), Some(copied)) => {
            let frames = (copied.first_frame_time, copied.last_frame_end);
            (Some(VideoPlan::Copy { stream }), copied.grid, copied.end_seconds, Some(frames))
        }
        (Some((stream, _)), None) => {
            let Some(duration) = duration_seconds else { return Ok(None) };
            let mut plan = plan_encode(service, &media, stream, policy.limits, policy.subtitle, policy.codec).await?;
            plan.frame_rate = policy.frame_rate.unwrap_or(plan.frame_rate);
            let grid = Grid::from_frame_rate(plan.frame_rate, segment_seconds, duration);
            (Some(VideoPlan::Encode(plan)), grid, duration, None)
        }
        (None, _) => {
            let Some(duration) = duration_seconds else { return Ok(None) };
            (None, Grid::from_step(segment_seconds, duration), duration, None)
        }
    };
    let audio = tracks.audio.map(|(stream, action)| match action {
        TrackAction::Copy => AudioPlan::Copy { stream },
        TrackAction::Encode => {
            AudioPlan::Encode { stream, channels: policy.audio_channels, kbps: policy.audio_kbps, gain_tenths_db: None }
        }
    });
    let rendition = Rendition { video, audio, format: policy.format };
    // Copyable video is encoded after all if it cannot be segmented well.
    let package = package.filter(|_| !rendition.encodes_video());
    let spec = RenditionSpec {
        fingerprint: source.fingerprint().map_err(Error::internal)?.to_owned(),
        source,
        media,
        rendition: Arc::new(rendition),
        grid: Arc::new(grid),
        sidecar: policy.sidecar,
        watermark: None,
        package,
    };
    Ok(Some(PlannedRendition { spec, duration_seconds, copied_frames, changes_description }))
}
