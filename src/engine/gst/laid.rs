//! Overlays bitmap subtitles on the frames of a segment, scaled to the rendition's size.
//!
//! The run's thread prepares all overlays before the first frame; the element's callback for a frame only looks one up.
//! GStreamer's dvdspu is not used: it draws on the canvas of the subtitles, whose shape often differs from the video's, and
//! decodes hostile bytes in C.

use std::sync::LazyLock;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_video as video;

use super::guard::Wake;
use super::live::Live;
use crate::domain::bitmap_subtitles::{PlacedBitmap, scale_to_video};
use crate::domain::media::Video;
use crate::engine::RunError;
use crate::engine::captions::Shown;

/// An overlay and its display time, nanoseconds of the item.
#[derive(Clone, Debug)]
pub(super) struct Laid {
    from: u64,
    until: u64,
    over: video::VideoOverlayComposition,
}

/// Whether this GStreamer can overlay images on video.
pub(super) fn here() -> bool {
    static HERE: LazyLock<bool> =
        LazyLock::new(|| gst::init().is_ok() && gst::ElementFactory::find("overlaycomposition").is_some());
    *HERE
}

/// Overlays for video of this size; `source` describes the video in its file.
pub(super) fn made(shown: &[Shown], source: &Video, width: u32, height: u32) -> Result<Vec<Laid>, RunError> {
    let matrix = Matrix::of(source);
    let nanoseconds = |ms: i64| u64::try_from(ms).unwrap_or(0).saturating_mul(1_000_000);
    let mut laid = Vec::new();
    for shown in shown {
        let pieces = scale_to_video(&shown.pieces, shown.canvas, width, height);
        let rectangles = pieces.iter().map(|piece| matrix.rectangle(piece)).collect::<Result<Vec<_>, _>>()?;
        if rectangles.is_empty() {
            continue;
        }
        let over = video::VideoOverlayComposition::new(&rectangles).map_err(refused)?;
        laid.push(Laid { from: nanoseconds(shown.from_ms), until: shown.until_ms.map_or(u64::MAX, nanoseconds), over });
    }
    Ok(laid)
}

/// Makes the element `lay` overlay them on the frames of their times.
pub(super) fn give(live: &Live, laid: Vec<Laid>, wake: &Wake) -> Result<(), RunError> {
    let wake = wake.clone();
    live.element("lay")?.connect("draw", false, move |values| {
        let over = wake.callback("draw", None, || {
            let sample = values.get(1)?.get::<gst::Sample>().ok()?;
            let at = sample.buffer()?.pts()?.nseconds();
            laid.iter().rev().find(|laid| (laid.from..laid.until).contains(&at)).map(|laid| laid.over.clone())
        });
        Some(over.to_value())
    });
    Ok(())
}

fn refused(cause: gst::glib::BoolError) -> RunError {
    RunError::Encoder(format!("GStreamer refuses a bitmap subtitle: {cause}"))
}

/// Coefficients of the conversion from RGB to the video's YUV.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    red: f32,
    blue: f32,
}

impl Matrix {
    /// By the video's colour description; without one, by its height.
    fn of(source: &Video) -> Self {
        let hd = match source.color.matrix.as_deref() {
            Some("bt709") => true,
            Some("bt470bg" | "smpte170m" | "bt601") => false,
            _ => source.height > 576,
        };
        if hd { Self { red: 0.2126, blue: 0.0722 } } else { Self { red: 0.299, blue: 0.114 } }
    }

    fn rectangle(self, piece: &PlacedBitmap) -> Result<video::VideoOverlayRectangle, RunError> {
        let pixels: Vec<u8> =
            piece.pixels.as_chunks::<4>().0.iter().flat_map(|&[r, g, b, a]| self.ayuv(r, g, b, a)).collect();
        let mut buffer = gst::Buffer::from_mut_slice(pixels);
        let made = buffer.make_mut();
        let flags = video::VideoFrameFlags::empty();
        video::VideoMeta::add(made, flags, video::VideoFormat::Ayuv, piece.width, piece.height).map_err(refused)?;
        let (x, y) = (piece.x as i32, piece.y as i32);
        let flags = video::VideoOverlayFormatFlags::empty();
        Ok(video::VideoOverlayRectangle::new_raw(&buffer, x, y, piece.width, piece.height, flags))
    }

    fn ayuv(self, red: u8, green: u8, blue: u8, opacity: u8) -> [u8; 4] {
        let [r, g, b] = [red, green, blue].map(|value| f32::from(value) / 255.0);
        let y = self.red * r + (1.0 - self.red - self.blue) * g + self.blue * b;
        let (u, v) = ((b - y) / (1.0 - self.blue) * 112.0 + 128.0, (r - y) / (1.0 - self.red) * 112.0 + 128.0);
        let byte = |value: f32| value.round().clamp(0.0, 255.0) as u8;
        [opacity, byte(y * 219.0 + 16.0), byte(u), byte(v)]
    }
}
