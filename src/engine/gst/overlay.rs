//! Overlays bitmap subtitles, scaled to the rendition's size, and a watermark on the frames of a segment.
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

/// The overlays of a segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Overlays {
    /// Subtitles, each together with the watermark.
    timed: Vec<TimedOverlay>,
    /// The watermark, while no subtitle is shown.
    permanent: Option<video::VideoOverlayComposition>,
}

/// An overlay and its display time, nanoseconds of the item.
#[derive(Clone, Debug)]
struct TimedOverlay {
    start_nanoseconds: u64,
    end_nanoseconds: u64,
    composition: video::VideoOverlayComposition,
}

impl Overlays {
    pub(super) fn is_empty(&self) -> bool {
        self.timed.is_empty() && self.permanent.is_none()
    }

    /// The overlay of a frame at this time.
    fn shown_at(&self, nanoseconds: u64) -> Option<&video::VideoOverlayComposition> {
        let mut latest_first = self.timed.iter().rev();
        let timed = latest_first.find(|shown| (shown.start_nanoseconds..shown.end_nanoseconds).contains(&nanoseconds));
        timed.map(|timed| &timed.composition).or(self.permanent.as_ref())
    }
}

/// Overlays for video of this size; `source` describes the video in its file. The watermark lies above the subtitles.
pub(super) fn prepare_overlays(
    shown: &[ShownSubtitle],
    watermark: Option<&PlacedBitmap>,
    source: &Video,
    width: u32,
    height: u32,
) -> Result<Overlays> {
    let matrix = ColorMatrix::for_video(source);
    let to_nanoseconds = |ms: i64| u64::try_from(ms).unwrap_or(0).saturating_mul(1_000_000);
    let watermark = watermark.map(|bitmap| matrix.overlay_rectangle(bitmap)).transpose()?;
    let compose = |rectangles: Vec<_>| video::VideoOverlayComposition::new(&rectangles).map_err(to_run_error);
    let permanent = watermark.clone().map(|watermark| compose(vec![watermark])).transpose()?;
    let mut timed = Vec::new();
    for subtitle in shown {
        let bitmaps = scale_to_video(&subtitle.bitmaps, subtitle.canvas, width, height);
        let mut rectangles =
            bitmaps.iter().map(|bitmap| matrix.overlay_rectangle(bitmap)).collect::<Result<Vec<_>, _>>()?;
        rectangles.extend(watermark.clone());
        if rectangles.is_empty() {
            continue;
        }
        let composition = compose(rectangles)?;
        let start_nanoseconds = to_nanoseconds(subtitle.start_ms);
        let end_nanoseconds = subtitle.end_ms.map_or(u64::MAX, to_nanoseconds);
        timed.push(TimedOverlay { start_nanoseconds, end_nanoseconds, composition });
    }
    Ok(Overlays { timed, permanent })
}

/// Makes the element `overlays` overlay them on the frames of their times.
pub(super) fn attach_overlays(pipeline: &RunningPipeline, overlays: Overlays, wake: &ThreadWaker) -> Result<()> {
    let wake = wake.clone();
    pipeline.element("overlays")?.connect("draw", false, move |values| {
        let composition = wake.run_callback("draw", None, || {
            let sample = values.get(1)?.get::<gst::Sample>().ok()?;
            overlays.shown_at(sample.buffer()?.pts()?.nseconds()).cloned()
        });
        Some(composition.to_value())
    });
    Ok(())
}

fn to_run_error(cause: gst::glib::BoolError) -> RunError {
    RunError::Encoder(format!("GStreamer refuses an overlay: {cause}"))
}

/// Coefficients of the conversion from RGB to the video's YUV.
#[derive(Clone, Copy, Debug)]
struct ColorMatrix {
    red: f32,
    blue: f32,
}

impl ColorMatrix {
    fn for_video(source: &Video) -> Self {
        if source.uses_bt709() { Self { red: 0.2126, blue: 0.0722 } } else { Self { red: 0.299, blue: 0.114 } }
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
