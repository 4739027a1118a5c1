//! Copied video (remux): whether it can be packaged, and its segment grid.

use std::sync::Arc;

use crate::domain::grid::Grid;
use crate::domain::media::Media;
use crate::domain::playback::{TrackAction, SessionTracks};
use crate::domain::time::to_seconds;
use crate::engine::index::{self, KeyframeIndex};
use crate::engine::packager::Package;
use crate::engine::source::SourceFile;
use crate::service::Service;

/// Video with longer copied segments is encoded: a viewer would wait for them, and a seek would be imprecise. Players buffer
/// one such segment before they show it, which for films is tens of megabytes.
const LONGEST_COPIED_SECONDS: f64 = 30.0;

/// Audio after the last frame that still belongs to the item.
const SOUND_TAIL_SECONDS: f64 = 2.0;

/// Opens a package if the packager can make the whole rendition.
pub(super) async fn package(
    service: &Service,
    source: &Arc<SourceFile>,
    media: &Media,
    tracks: &SessionTracks,
) -> Option<Arc<Package>> {
    let copied = |track: Option<(u32, TrackAction)>| match track {
        Some((_, TrackAction::Encode)) => None,
        Some((stream, TrackAction::Copy)) => Some(Some(stream)),
        None => Some(None),
    };
    let (video, audio) = (copied(tracks.video)?, copied(tracks.audio)?);
    match service.packages.open(source, media, video, audio).await {
        Ok(package) => Some(package),
        Err(why) => {
            tracing::info!(media.path = source.path, why, "ffmpeg remuxes this file, because it cannot be packaged");
            None
        }
    }
}

/// The grid of copied video and its end, seconds; None when video is not copied or cannot be segmented well.
pub(super) async fn grid(
    service: &Service,
    source: &Arc<SourceFile>,
    media: &Media,
    tracks: &SessionTracks,
    duration: Option<f64>,
    known: Option<KeyframeIndex>,
) -> Option<(Grid, f64)> {
    let Some((stream, TrackAction::Copy)) = tracks.video else { return None };
    let found = match known {
        Some(index) => Ok(index),
        None => index::build_index(source, media, stream).await,
    };
    let index = match found {
        Ok(index) => index,
        Err(error) => {
            tracing::info!(media.path = source.path, %error, "video is encoded, because its keyframes cannot be indexed");
            return None;
        }
    };
    let pictures = to_seconds(index.end_ticks);
    // Audio may continue a little longer; much more means a truncated file.
    let end = duration.filter(|duration| (pictures..pictures + SOUND_TAIL_SECONDS).contains(duration));
    let end = end.unwrap_or(pictures);
    // A late first frame shares the first segment with the audio before it.
    let grid = Grid::from_keyframes(index.keyframes.get(1..)?, service.config.segment_seconds, end);
    let longest = (0..grid.len()).map(|segment| to_seconds(grid.segment_length(segment))).fold(0.0, f64::max);
    if longest > LONGEST_COPIED_SECONDS {
        tracing::info!(media.path = source.path, longest, "video is encoded, because its keyframes are too far apart");
        return None;
    }
    Some((grid, end))
}
