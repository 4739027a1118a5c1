//! Images of items: frames of films, embedded covers, and any image in another size and format. All of them are decoded by
//! ffmpeg in its sandbox, never in this process.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::ffmpeg::argument_list::ArgumentList;
use super::ffmpeg::tone_map::tone_map_filters;
use super::ffmpeg::{run_to_end, to_memory_file};
use super::process::{ChildLimits, InheritedFile};
use super::source::SourceFile;
use super::{Result, RunError};
use crate::domain::catalogue::frame_choice::{FrameScore, Luma};
use crate::domain::image::{self, ImageFormat};
use crate::domain::media::{Container, Hdr, Media, Video};

pub mod cache;
pub mod iframe;
pub mod preview_sheet;
mod svg;

/// Largest image that is read, bytes.
pub const MAX_IMAGE_BYTES: usize = 16 << 20;

/// Largest side and area of an image that is decoded, pixels.
const MAX_SIDE_PIXELS: u32 = 10_000;
const MAX_PIXELS: u64 = 50_000_000;

/// Largest width and height of a frame, pixels.
const FRAME_SIDE: u32 = 1280;

/// Largest output of ffmpeg for one frame without compression, bytes.
const MAX_RAW_FRAME_BYTES: usize = (FRAME_SIDE * FRAME_SIDE * 3) as usize;

/// Where frames are looked for, as parts of the film. If no frame of the first row is good, the second one follows; its last
/// position needs no seek, which in short files may find no keyframe.
const FRAME_POSITIONS: [[f64; 5]; 2] = [[0.2, 0.1, 0.3, 0.15, 0.4], [0.5, 0.25, 0.6, 0.75, 0.0]];

/// Time limit of one call of ffmpeg.
const DEADLINE: Duration = Duration::from_secs(15);

/// The format of an image that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    Jpeg,
    WebP,
    Png,
}

/// Whether bytes are a PNG, JPEG or WebP of a size that is decoded, or an SVG of a length that is.
pub fn is_usable_image(bytes: &[u8]) -> bool {
    is_usable_raster(bytes) || svg::is_usable(bytes)
}

/// Whether bytes are a PNG, JPEG or WebP of a size that is decoded.
fn is_usable_raster(bytes: &[u8]) -> bool {
    let size = image::detect_within(bytes, MAX_SIDE_PIXELS);
    let fits = |(_, width, height): (ImageFormat, u32, u32)| u64::from(width) * u64::from(height) <= MAX_PIXELS;
    bytes.len() <= MAX_IMAGE_BYTES && size.is_some_and(fits)
}

/// An image of at most this width, in another format; None if it is broken. An image is never enlarged, but an SVG is drawn in a square
/// of this side.
///
/// # Errors
/// `Stalled`; `Internal` when ffmpeg does not start.
pub async fn resize(ffmpeg: &Path, image: &[u8], width: u32, format: OutputFormat) -> Result<Option<Vec<u8>>> {
    if svg::is_usable(image) {
        return svg::draw(ffmpeg, image, width, output_arguments(format)).await;
    }
    let Some((input_format, ..)) = image::detect_within(image, MAX_SIDE_PIXELS).filter(|_| is_usable_raster(image))
    else {
        return Ok(None);
    };
    let demuxer = match input_format {
        ImageFormat::Png => "png_pipe",
        ImageFormat::Jpeg => "jpeg_pipe",
        ImageFormat::WebP => "webp_pipe",
    };
    let filter = format!("scale=w='min({width},iw)':h='max(1,ow/a)':flags=bicubic");
    encode(ffmpeg, (demuxer, image), &filter, output_arguments(format)).await
}

fn output_arguments(format: OutputFormat) -> &'static str {
    match format {
        OutputFormat::Jpeg => "-c:v mjpeg -q:v 4 -pix_fmt yuvj420p",
        OutputFormat::WebP => "-c:v libwebp -quality 80",
        OutputFormat::Png => "-c:v png",
    }
}

/// Decodes one image in memory, and encodes it; None if that fails.
async fn encode(
    ffmpeg: &Path,
    (demuxer, bytes): (&str, &[u8]),
    filter: &str,
    encoder: &str,
) -> Result<Option<Vec<u8>>> {
    let file = to_memory_file("image", bytes).map_err(|cause| RunError::Internal(cause.to_string()))?;
    let mut args = ArgumentList::new("-nostdin -hide_banner -loglevel error -protocol_whitelist file -threads 1");
    args.pair("-f", demuxer).pair("-i", format!("file:/proc/self/fd/{}", file.as_raw_fd()));
    args.add("-map 0:v:0 -frames:v 1 -map_metadata -1 -threads 1").pair("-vf", filter);
    args.add(encoder).add("-f image2pipe pipe:1");
    output_of(ffmpeg, args, Arc::new(file), MAX_IMAGE_BYTES).await
}

/// The output of ffmpeg with the limits of a probe.
///
/// # Errors
/// Those of [`limited_output_of`].
async fn output_of(
    ffmpeg: &Path,
    args: ArgumentList,
    input: InheritedFile,
    max_bytes: usize,
) -> Result<Option<Vec<u8>>> {
    limited_output_of(ffmpeg, args, input, ChildLimits::PROBE, max_bytes).await
}

/// The output of ffmpeg; None if it failed, had none or too much.
///
/// # Errors
/// `Stalled`; `Internal` when ffmpeg does not start or is killed, for example because the machine is short of memory: another try
/// may succeed.
async fn limited_output_of(
    ffmpeg: &Path,
    args: ArgumentList,
    input: InheritedFile,
    limits: ChildLimits,
    max_bytes: usize,
) -> Result<Option<Vec<u8>>> {
    let work = run_to_end(ffmpeg, args.0, vec![input], limits, max_bytes);
    let ended = tokio::time::timeout(DEADLINE, work).await;
    let (output, exit) = ended.map_err(|_| RunError::Stalled(DEADLINE.as_secs()))??;
    if exit.signal == Some(libc::SIGKILL) {
        return Err(RunError::Internal("ffmpeg was killed".into()));
    }
    if !exit.is_success() {
        tracing::debug!(reason = exit.last_error("no message"), "ffmpeg made no image");
    }
    Ok(Some(output).filter(|output| exit.is_success() && !output.is_empty() && output.len() < max_bytes))
}

/// The cover in a media file, as it is stored; None if it cannot be used. `stream` is ffmpeg's index.
///
/// # Errors
/// Those of [`resize`].
pub async fn read_cover(ffmpeg: &Path, source: &Arc<SourceFile>, stream: u32) -> Result<Option<Vec<u8>>> {
    let mut args = ArgumentList::new("-nostdin -hide_banner -loglevel error");
    args.add_item(Container::Other, &source.proc_path(), None);
    args.pair("-map", format!("0:{stream}"));
    args.add("-frames:v 1 -c copy -f image2pipe pipe:1");
    let cover = output_of(ffmpeg, args, source.clone(), MAX_IMAGE_BYTES).await?;
    Ok(cover.filter(|cover| is_usable_image(cover)))
}

/// A frame that represents a film, as a JPEG of at most 1280x1280 pixels; None if no frame can be decoded.
///
/// # Errors
/// Those of [`resize`].
pub async fn choose_frame(ffmpeg: &Path, source: &Arc<SourceFile>, media: &Media) -> Result<Option<Vec<u8>>> {
    let mut best: Option<(FrameScore, Vec<u8>)> = None;
    for positions in FRAME_POSITIONS {
        for position in positions {
            let Some(frame) = decode_frame(ffmpeg, source, media, position).await? else { continue };
            let Some(score) = Luma::from_y4m(&frame).map(|luma| FrameScore::of(&luma)) else { continue };
            if best.as_ref().is_none_or(|(best, _)| score.compare(best).is_gt()) {
                best = Some((score, frame));
            }
        }
        if best.as_ref().is_some_and(|(score, _)| score.is_representative) {
            break;
        }
    }
    let Some((_, frame)) = best else { return Ok(None) };
    encode(ffmpeg, ("yuv4mpegpipe", &frame), "scale=out_range=full", "-c:v mjpeg -q:v 2 -pix_fmt yuvj420p").await
}

/// The keyframe at or before a position, a part of the film, as YUV4MPEG2; None if none is decoded there.
async fn decode_frame(
    ffmpeg: &Path,
    source: &Arc<SourceFile>,
    media: &Media,
    position: f64,
) -> Result<Option<Vec<u8>>> {
    let Some((stream, video)) = media.video_streams().next() else { return Ok(None) };
    let seconds = media.duration_seconds.unwrap_or(0.0) * position;
    // This ffmpeg may be unable to map HDR.
    for tone_mapping in tone_mapping(video).map(Some).into_iter().chain([None]) {
        // Seeks by the keyframe index of the container, and decodes keyframes only.
        let mut args = ArgumentList::new("-nostdin -hide_banner -loglevel error -threads 1 -skip_frame nokey");
        args.add("-noaccurate_seek").pair("-ss", format!("{seconds:.3}"));
        args.add_item(media.container, &source.proc_path(), None);
        args.pair("-map", format!("0:{}", stream.index)).add("-frames:v 1 -threads 1");
        let filter = match tone_mapping {
            Some(tone_mapping) => format!("{FRAME_SCALING},{tone_mapping}"),
            None => format!("{FRAME_SCALING}:out_range=tv,format=yuv420p"),
        };
        args.pair("-vf", format!("{filter},setsar=1")).add("-f yuv4mpegpipe pipe:1");
        if let Some(frame) = output_of(ffmpeg, args, source.clone(), MAX_RAW_FRAME_BYTES).await? {
            return Ok(Some(frame));
        }
    }
    Ok(None)
}

/// Scales to square pixels within [`FRAME_SIDE`], with even sides.
const FRAME_SCALING: &str =
    "scale=w='max(2,trunc(min(min(1280,iw*sar),1280*dar)/2)*2)':h='max(2,trunc(ow/dar/2)*2)':flags=bicubic";

/// The filters that map HDR to SDR; None for other video.
fn tone_mapping(video: &Video) -> Option<String> {
    let is_mapped =
        matches!(video.hdr, Some(Hdr::Hdr10 | Hdr::Hlg)) || video.color.transfer.as_deref() == Some("smpte2084");
    is_mapped.then(|| tone_map_filters(video.hdr.unwrap_or(Hdr::Hdr10), Some(&video.color), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_bounded_before_they_are_decoded() {
        let png = |width: u32, height: u32| {
            [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &width.to_be_bytes(), &height.to_be_bytes()].concat()
        };
        assert!(is_usable_image(&png(2000, 3000)));
        assert!(!is_usable_image(&png(10_001, 10)), "too wide");
        assert!(!is_usable_image(&png(9000, 9000)), "too many pixels");
        assert!(!is_usable_image(b"GIF89a"));
        let mut large = png(10, 10);
        large.resize(MAX_IMAGE_BYTES + 1, 0);
        assert!(!is_usable_image(&large), "too many bytes");
    }
}
