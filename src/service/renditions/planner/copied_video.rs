//! Copied video (remux): its segment grid.

use super::DecidedItem;
use crate::domain::grid::Grid;
use crate::domain::playback::TrackAction;
use crate::domain::time::Ticks;
use crate::engine::index::{self, KeyframeIndex, RecoveryPoints};
use crate::service::Service;

/// Video with longer copied segments is encoded: a viewer would wait for them, and a seek would be imprecise. Players buffer
/// one such segment before they show it, which for films is tens of megabytes.
const MAX_COPIED_SECONDS: f64 = 30.0;

/// Audio after the last frame that still belongs to the item.
const AUDIO_TAIL_SECONDS: f64 = 2.0;

/// Copied video.
pub(super) struct CopiedVideo {
    pub grid: Grid,
    /// End of the item.
    pub end_seconds: f64,
    pub first_frame_time: Ticks,
    pub last_frame_end: Ticks,
    /// As [`KeyframeIndex::has_one_description`].
    pub has_one_description: bool,
}

/// Plans copied video; None when video is not copied or cannot be segmented well.
pub(super) async fn plan_copy(
    service: &Service,
    item: &DecidedItem,
    known_index: Option<KeyframeIndex>,
    recovery_points: RecoveryPoints,
) -> Option<CopiedVideo> {
    let DecidedItem { source, media, tracks, duration_seconds } = item;
    let Some((stream, TrackAction::Copy)) = tracks.video else { return None };
    let result = match known_index {
        Some(index) => Ok(index),
        None => index::build_index(source, media, stream, recovery_points).await,
    };
    let index = match result {
        Ok(index) => index,
        Err(error) => {
            tracing::info!(media.path = source.path, %error, "video is encoded, because its keyframes cannot be indexed");
            return None;
        }
    };
    let video_end = index.end.as_seconds();
    // Audio may continue a little longer; much more means a truncated file.
    let end = duration_seconds.filter(|duration| (video_end..video_end + AUDIO_TAIL_SECONDS).contains(duration));
    let end_seconds = end.unwrap_or(video_end);
    // A late first frame shares the first segment with the audio before it.
    let (first_frame_time, cuts) = index.keyframes.split_first()?;
    let grid = Grid::from_keyframes(cuts, service.config.segment_seconds, end_seconds);
    let longest_seconds = (0..grid.len()).map(|segment| grid.segment_length(segment).as_seconds()).fold(0.0, f64::max);
    if longest_seconds > MAX_COPIED_SECONDS {
        tracing::info!(
            media.path = source.path,
            longest_seconds,
            "video is encoded, because its keyframes are too far apart"
        );
        return None;
    }
    Some(CopiedVideo {
        grid,
        end_seconds,
        first_frame_time: *first_frame_time,
        last_frame_end: index.end,
        has_one_description: index.has_one_description,
    })
}
