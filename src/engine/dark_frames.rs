//! Small grey images of an item's video, by which credits and scene breaks are found.

use std::path::Path;

use super::Result;
use super::excerpt::Excerpt;
use crate::domain::marks::dark_end::{FRAME_BYTES, FRAME_SIZE};

/// One image for each second of a part of a video stream, by the last keyframe before it. Grey, [`FRAME_BYTES`] each.
///
/// # Errors
/// Those of [`Excerpt`]: `Decode`, `SourceRead`, `Stalled`, `Internal`.
pub async fn keyframe_images(ffmpeg: &Path, excerpt: &Excerpt<'_>) -> Result<Vec<u8>> {
    images(ffmpeg, excerpt, "-skip_loop_filter all -skip_frame nokey", 1).await
}

/// So many images for each second of a part of a video stream. Grey, [`FRAME_BYTES`] each.
///
/// # Errors
/// Those of [`keyframe_images`].
pub async fn frame_images(ffmpeg: &Path, excerpt: &Excerpt<'_>, per_second: u32) -> Result<Vec<u8>> {
    images(ffmpeg, excerpt, "", per_second).await
}

async fn images(ffmpeg: &Path, excerpt: &Excerpt<'_>, input_options: &str, per_second: u32) -> Result<Vec<u8>> {
    let (width, height) = FRAME_SIZE;
    let output = format!("-vf fps={per_second}:start_time=0,scale={width}:{height}:flags=area,format=gray -f rawvideo");
    let max_images = (excerpt.seconds * f64::from(per_second)).ceil() as usize + 2;
    excerpt.decode(ffmpeg, input_options, &output, FRAME_BYTES * max_images).await
}
