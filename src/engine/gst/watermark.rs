//! A channel's watermark: its image, decoded and scaled once per run, and its place on the video, both as in ffmpeg's graph
//! (`ffmpeg/args/video`).

use super::image_decoder::decode_scaled;
use super::panic_guard::ThreadWaker;
use crate::domain::bitmap_subtitles::PlacedBitmap;
use crate::domain::image;
use crate::domain::plan::{Corner, EncodeVideo, WatermarkOverlay};
use crate::engine::image::Image;
use crate::engine::{Result, RunError};

/// Largest scaled image, pixels: a 4K screen. Images are at most 4 MiB and 4096 pixels on a side before.
const MAX_PIXELS: u64 = 3840 * 2160;

/// The image as it lies on the video. Takes some milliseconds; ends early when `is_stopped`.
pub(super) fn decode_watermark(
    image: &Image,
    overlay: &WatermarkOverlay,
    plan: &EncodeVideo,
    wake: &ThreadWaker,
    is_stopped: &dyn Fn() -> bool,
) -> Result<PlacedBitmap> {
    let bytes = image.read_bytes().map_err(|cause| to_run_error(&cause))?;
    let (_, width, height) = image::detect(&bytes).ok_or_else(|| to_run_error(&"not a PNG or JPEG"))?;
    let size = scaled_size((width, height), overlay.width_pixels(plan.width));
    if u64::from(size.0) * u64::from(size.1) > MAX_PIXELS {
        return Err(to_run_error(&"it is too high for its width"));
    }
    let pixels = decode_scaled(bytes, size, wake, is_stopped).map_err(|cause| to_run_error(&cause))?;
    let placed = place(&pixels, size, overlay, (plan.width, plan.height));
    placed.ok_or_else(|| to_run_error(&"it lies outside the video"))
}

fn to_run_error(cause: &dyn std::fmt::Display) -> RunError {
    RunError::Encoder(format!("the watermark cannot be overlaid: {cause}"))
}

/// The size of an image with this width, its shape kept; ffmpeg's `h=-1` rounds to the nearest height.
fn scaled_size((width, height): (u32, u32), scaled_width: u32) -> (u32, u32) {
    let scaled_height = (u64::from(scaled_width) * u64::from(height) + u64::from(width) / 2) / u64::from(width.max(1));
    (scaled_width, u32::try_from(scaled_height).unwrap_or(u32::MAX).max(1))
}

/// The visible part of an image in its corner, with its opacity. None if nothing of it is visible.
fn place(
    pixels: &[u8],
    (width, height): (u32, u32),
    overlay: &WatermarkOverlay,
    (video_width, video_height): (u32, u32),
) -> Option<PlacedBitmap> {
    let (is_right, is_bottom) = match overlay.corner {
        Corner::TopLeft => (false, false),
        Corner::TopRight => (true, false),
        Corner::BottomLeft => (false, true),
        Corner::BottomRight => (true, true),
    };
    let (x, skipped_columns, columns) = place_on_axis(is_right, width, video_width)?;
    let (y, skipped_rows, rows) = place_on_axis(is_bottom, height, video_height)?;
    let visible_rows = pixels.chunks_exact(width as usize * 4).skip(skipped_rows as usize).take(rows as usize);
    let visible = visible_rows
        .flat_map(|row| row.as_chunks::<4>().0.iter().skip(skipped_columns as usize).take(columns as usize));
    let opacity_percent = u32::from(overlay.opacity_percent.min(100));
    let pixels = visible.flat_map(|&[red, green, blue, opacity]| {
        [red, green, blue, ((u32::from(opacity) * opacity_percent + 50) / 100) as u8]
    });
    Some(PlacedBitmap { x, y, width: columns, height: rows, pixels: pixels.collect() })
}

/// Where an image of this length begins on one axis, how many of its pixels lie before the video, and how many on it. Even,
/// as ffmpeg's overlay filter rounds positions on 4:2:0 video.
fn place_on_axis(is_far: bool, length: u32, video_length: u32) -> Option<(u32, u32, u32)> {
    let margin = f64::from(video_length) * WatermarkOverlay::MARGIN;
    let position = if is_far { f64::from(video_length) - f64::from(length) - margin } else { margin };
    let start = i64::from(position as i32 & !1);
    let end = (start + i64::from(length)).min(i64::from(video_length));
    let visible_start = start.max(0);
    let visible = u32::try_from(end - visible_start).ok().filter(|visible| *visible > 0)?;
    Some((u32::try_from(visible_start).ok()?, u32::try_from(visible_start - start).ok()?, visible))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay(corner: Corner) -> WatermarkOverlay {
        WatermarkOverlay { digest: "d".into(), corner, opacity_percent: 50, width_percent: 10 }
    }

    #[test]
    fn sizes_and_positions_are_those_of_ffmpegs_filters() {
        assert_eq!(scaled_size((100, 50), 64), (64, 32));
        assert_eq!(scaled_size((3, 2), 32), (32, 21));
        assert_eq!(scaled_size((4096, 1), 10), (10, 1));
        let pixels = [10, 20, 30, 201].repeat(64 * 32);
        for (corner, expected) in [
            (Corner::TopLeft, (8, 4)),
            (Corner::TopRight, (246, 4)),
            (Corner::BottomLeft, (8, 142)),
            (Corner::BottomRight, (246, 142)),
        ] {
            let placed = place(&pixels, (64, 32), &overlay(corner), (320, 180)).unwrap();
            assert_eq!((placed.x, placed.y), expected, "{corner:?}");
            assert_eq!((placed.width, placed.height, placed.pixels.len()), (64, 32, 64 * 32 * 4));
            assert_eq!(placed.pixels[..4], [10, 20, 30, 101]);
        }
    }

    #[test]
    fn parts_outside_the_video_are_cut_off() {
        assert_eq!(place_on_axis(false, 200, 100), Some((2, 0, 98)));
        // 100 - 200 - 3, towards zero and then down to an even number.
        assert_eq!(place_on_axis(true, 200, 100), Some((0, 104, 96)));
        assert_eq!(place_on_axis(true, 4, 100), Some((92, 0, 4)));
        let pixels: Vec<u8> = (0..4 * 200).flat_map(|row| [row as u8; 4]).collect();
        let placed = place(&pixels, (4, 200), &overlay(Corner::BottomLeft), (400, 100)).unwrap();
        assert_eq!((placed.x, placed.y, placed.width, placed.height), (12, 0, 4, 96));
        assert_eq!(placed.pixels[0], (104 * 4 % 256) as u8);
    }
}
