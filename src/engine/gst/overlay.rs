//! Overlays bitmap subtitles on the frames of a segment, scaled to the rendition's size.
//!
//! The run's thread prepares all overlays before the first frame; the element's callback for a frame only looks one up.
//! GStreamer's dvdspu is not used: it draws on the canvas of the subtitles, whose shape often differs from the video's, and
//! decodes hostile bytes in C.

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_video as video;

use super::panic_guard::ThreadWaker;
use super::running_pipeline::RunningPipeline;
use crate::domain::bitmap_subtitles::{PlacedBitmap, scale_to_video};
use crate::domain::media::Video;
use crate::engine::bitmap_subtitles::ShownSubtitle;
use crate::engine::{Result, RunError};

/// An overlay and its display time, nanoseconds of the item.
#[derive(Clone, Debug)]
pub(super) struct Overlay {
    start_nanoseconds: u64,
    end_nanoseconds: u64,
    composition: video::VideoOverlayComposition,
}

/// Overlays for video of this size; `source` describes the video in its file.
pub(super) fn prepare_overlays(
    shown: &[ShownSubtitle],
    source: &Video,
    width: u32,
    height: u32,
) -> Result<Vec<Overlay>> {
    let matrix = ColorMatrix::for_video(source);
    let to_nanoseconds = |ms: i64| u64::try_from(ms).unwrap_or(0).saturating_mul(1_000_000);
    let mut overlays = Vec::new();
    for subtitle in shown {
        let bitmaps = scale_to_video(&subtitle.bitmaps, subtitle.canvas, width, height);
        let rectangles =
            bitmaps.iter().map(|bitmap| matrix.overlay_rectangle(bitmap)).collect::<Result<Vec<_>, _>>()?;
        if rectangles.is_empty() {
            continue;
        }
        let composition = video::VideoOverlayComposition::new(&rectangles).map_err(to_run_error)?;
        let start_nanoseconds = to_nanoseconds(subtitle.start_ms);
        let end_nanoseconds = subtitle.end_ms.map_or(u64::MAX, to_nanoseconds);
        overlays.push(Overlay { start_nanoseconds, end_nanoseconds, composition });
    }
    Ok(overlays)
}

/// Makes the element `subtitles` overlay them on the frames of their times.
pub(super) fn attach_overlays(pipeline: &RunningPipeline, overlays: Vec<Overlay>, wake: &ThreadWaker) -> Result<()> {
    let wake = wake.clone();
    pipeline.element("subtitles")?.connect("draw", false, move |values| {
        let composition = wake.run_callback("draw", None, || {
            let sample = values.get(1)?.get::<gst::Sample>().ok()?;
            let time = sample.buffer()?.pts()?.nseconds();
            let mut latest_first = overlays.iter().rev();
            let shown = latest_first.find(|shown| (shown.start_nanoseconds..shown.end_nanoseconds).contains(&time));
            shown.map(|overlay| overlay.composition.clone())
        });
        Some(composition.to_value())
    });
    Ok(())
}

fn to_run_error(cause: gst::glib::BoolError) -> RunError {
    RunError::Encoder(format!("GStreamer refuses a bitmap subtitle: {cause}"))
}

/// Coefficients of the conversion from RGB to the video's YUV.
#[derive(Clone, Copy, Debug)]
struct ColorMatrix {
    red: f32,
    blue: f32,
}

impl ColorMatrix {
    /// By the video's colour description; without one, by its height.
    fn for_video(source: &Video) -> Self {
        let is_bt709 = match source.color.matrix.as_deref() {
            Some("bt709") => true,
            Some("bt470bg" | "smpte170m" | "bt601") => false,
            _ => source.height > 576,
        };
        if is_bt709 { Self { red: 0.2126, blue: 0.0722 } } else { Self { red: 0.299, blue: 0.114 } }
    }

    fn overlay_rectangle(self, bitmap: &PlacedBitmap) -> Result<video::VideoOverlayRectangle> {
        let pixels: Vec<u8> =
            bitmap.pixels.as_chunks::<4>().0.iter().flat_map(|&[r, g, b, a]| self.to_ayuv(r, g, b, a)).collect();
        let mut buffer = gst::Buffer::from_mut_slice(pixels);
        let writable = buffer.make_mut();
        let flags = video::VideoFrameFlags::empty();
        video::VideoMeta::add(writable, flags, video::VideoFormat::Ayuv, bitmap.width, bitmap.height)
            .map_err(to_run_error)?;
        let (x, y) = (bitmap.x as i32, bitmap.y as i32);
        let flags = video::VideoOverlayFormatFlags::empty();
        Ok(video::VideoOverlayRectangle::new_raw(&buffer, x, y, bitmap.width, bitmap.height, flags))
    }

    fn to_ayuv(self, red: u8, green: u8, blue: u8, opacity: u8) -> [u8; 4] {
        let [r, g, b] = [red, green, blue].map(|value| f32::from(value) / 255.0);
        let y = self.red * r + (1.0 - self.red - self.blue) * g + self.blue * b;
        let (u, v) = ((b - y) / (1.0 - self.blue) * 112.0 + 128.0, (r - y) / (1.0 - self.red) * 112.0 + 128.0);
        let byte = |value: f32| value.round().clamp(0.0, 255.0) as u8;
        [opacity, byte(y * 219.0 + 16.0), byte(u), byte(v)]
    }
}
