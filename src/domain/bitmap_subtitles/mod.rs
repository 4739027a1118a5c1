//! Bitmap subtitles (PGS, VobSub): which image is on the screen when, and how it looks in another size.
//!
//! PGS streams of Blu-ray discs ([`PgsDecoder`]) and VobSub streams of DVDs ([`VobSubDecoder`]) both come as packets that put
//! rectangles of a few colours on a canvas.

use super::bytes::Truncated;

mod pgs;
mod scale;
mod vobsub;

pub use pgs::PgsDecoder;
pub use scale::scale_to_video;
pub use vobsub::VobSubDecoder;

/// Most pixels of one rectangle: twice a 1920x1080 screen.
const MAX_PIXELS: usize = 1 << 22;

/// Why a packet cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedPacket(pub &'static str);

/// The bitmaps a packet puts on the screen. The next packet replaces them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisplayUpdate {
    /// Size of the canvas; None means the size of the video.
    pub canvas: Option<(u32, u32)>,
    /// Empty: the screen is cleared.
    pub bitmaps: Vec<PlacedBitmap>,
    /// When it appears and disappears, milliseconds after the packet's own time.
    pub start_ms: i64,
    pub end_ms: Option<i64>,
}

/// A rectangle on a canvas. `pixels` is RGBA, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedBitmap {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
    pub pixels: Vec<u8>,
}

impl PlacedBitmap {
    /// Converts a rectangle of palette indices, cropped to its visible pixels. None if no pixel is visible.
    fn from_indexed(x: u32, y: u32, width: usize, indices: &[u8], colors: &[[u8; 4]]) -> Option<Self> {
        let color = |index: u8| colors.get(usize::from(index)).copied().unwrap_or_default();
        let is_visible = |index: &u8| color(*index)[3] > 0;
        let rows = || indices.chunks_exact(width.max(1));
        let top = rows().position(|row| row.iter().any(is_visible))?;
        let bottom = rows().rposition(|row| row.iter().any(is_visible))? + 1;
        let left = rows().filter_map(|row| row.iter().position(is_visible)).min()?;
        let right = rows().filter_map(|row| row.iter().rposition(is_visible)).max()? + 1;
        let visible = rows().take(bottom).skip(top).flat_map(|row| &row[left..right]);
        let pixels = visible.flat_map(|&number| color(number)).collect();
        let (width, height) = ((right - left) as u32, (bottom - top) as u32);
        Some(Self { x: x.saturating_add(left as u32), y: y.saturating_add(top as u32), width, height, pixels })
    }
}

impl From<Truncated> for MalformedPacket {
    fn from(_: Truncated) -> Self {
        Self("the packet ends too early")
    }
}
