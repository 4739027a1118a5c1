//! Silence in an item's audio and black frames in its video, by which scene breaks are found.

use std::path::Path;

use super::Result;
use super::dark_frames::frame_images;
use super::excerpt::Excerpt;
use crate::domain::marks::dark_end::FRAME_BYTES;
use crate::domain::scene_breaks::{FRAMES_PER_SECOND, SAMPLE_RATE, Silence, find_silences, middle_of_black};

/// The silent parts of a part of an audio stream, in seconds of the item.
///
/// # Errors
/// Those of [`Excerpt`]: `Decode`, `SourceRead`, `Stalled`, `Internal`.
pub async fn silences(ffmpeg: &Path, excerpt: &Excerpt<'_>) -> Result<Vec<Silence>> {
    let samples = excerpt.decode_samples(ffmpeg, SAMPLE_RATE).await?;
    let start = excerpt.start_seconds;
    let in_item = |found: Silence| Silence { start: start + found.start, end: start + found.end };
    Ok(find_silences(&samples).into_iter().map(in_item).collect())
}

/// The middle of the black part of a part of a video stream, in seconds of the item.
///
/// # Errors
/// Those of [`Excerpt`]: `Decode`, `SourceRead`, `Stalled`, `Internal`.
pub async fn middle_of_black_part(ffmpeg: &Path, excerpt: &Excerpt<'_>) -> Result<Option<f64>> {
    let frames = frame_images(ffmpeg, excerpt, FRAMES_PER_SECOND).await?;
    Ok(middle_of_black(&frames, FRAME_BYTES).map(|at| excerpt.start_seconds + at))
}
