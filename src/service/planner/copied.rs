//! Video that is copied: whether it can be packaged, and where it may be cut.

use std::sync::Arc;

use crate::domain::grid::Grid;
use crate::domain::media::Media;
use crate::domain::playback::{Action, Tracks};
use crate::domain::time::seconds;
use crate::engine::index::{self, Index};
use crate::engine::packager::Package;
use crate::engine::source::Source;
use crate::service::Service;

/// Copied video whose segments would be longer is encoded: a viewer would wait for them, and a seek would land far off.
/// Players buffer one such segment before they show it; at a film's rate that is tens of megabytes.
const LONGEST_COPIED_SECONDS: f64 = 30.0;

/// Sound beyond the last picture that still belongs to the item.
const SOUND_TAIL_SECONDS: f64 = 2.0;

/// What the packager needs, where it can make the whole rendition.
pub(super) async fn package(
    service: &Service,
    source: &Arc<Source>,
    media: &Media,
    tracks: &Tracks,
) -> Option<Arc<Package>> {
    let copied = |track: Option<(u32, Action)>| match track {
        Some((_, Action::Encode)) => None,
        Some((stream, Action::Copy)) => Some(Some(stream)),
        None => Some(None),
    };
    let (video, audio) = (copied(tracks.video)?, copied(tracks.audio)?);
    match service.packages.open(source, media, video, audio).await {
        Ok(package) => Some(package),
        Err(why) => {
            tracing::info!(media.path = source.path, why, "ffmpeg copies it, for it cannot be packaged");
            None
        }
    }
}

/// The grid of copied video and its end, seconds; None when it is not to be copied, or cannot be cut well.
pub(super) async fn grid(
    service: &Service,
    source: &Arc<Source>,
    media: &Media,
    tracks: &Tracks,
    duration: Option<f64>,
    known: Option<Index>,
) -> Option<(Grid, f64)> {
    let Some((stream, Action::Copy)) = tracks.video else { return None };
    let found = match known {
        Some(index) => Ok(index),
        None => index::keyframes(source, media, stream).await,
    };
    let index = match found {
        Ok(index) => index,
        Err(error) => {
            tracing::info!(media.path = source.path, %error, "video is encoded, for it cannot be cut");
            return None;
        }
    };
    let pictures = seconds(index.end);
    // The sound may go on a little; much more means that the file was cut short.
    let end = duration.filter(|duration| (pictures..pictures + SOUND_TAIL_SECONDS).contains(duration));
    let end = end.unwrap_or(pictures);
    // A picture that begins late shares the first segment with the sound before it.
    let grid = Grid::keyframes(index.keyframes.get(1..)?, service.config.segment_seconds, end);
    let longest = (0..grid.len()).map(|segment| seconds(grid.length(segment))).fold(0.0, f64::max);
    if longest > LONGEST_COPIED_SECONDS {
        tracing::info!(media.path = source.path, longest, "video is encoded, for its keyframes are too far apart");
        return None;
    }
    Some((grid, end))
}
