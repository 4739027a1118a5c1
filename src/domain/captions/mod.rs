//! Bitmap subtitles (PGS, VobSub): which image is on the screen when, and how it looks in another size.
//!
//! PGS streams of Blu-ray discs ([`Graphics`]) and VobSub streams of DVDs ([`SubPictures`]) both come as packets that put
//! rectangles of a few colours on a canvas.

mod graphics;
mod scale;
mod spu;

pub use graphics::Graphics;
pub use scale::fitted;
pub use spu::SubPictures;

/// Most pixels of one rectangle: twice a 1920x1080 screen.
const MOST_PIXELS: usize = 1 << 22;

/// Why a packet cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged(pub &'static str);

/// What a packet shows on the screen. The next packet replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Size of the canvas; None means the size of the video.
    pub canvas: Option<(u32, u32)>,
    /// Empty: the screen is cleared.
    pub pieces: Vec<Piece>,
    /// When it appears and disappears, milliseconds after the packet's own time.
    pub after_ms: i64,
    pub until_ms: Option<i64>,
}

/// A rectangle on a canvas. `pixels` is RGBA, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
    pub pixels: Vec<u8>,
}

impl Piece {
    /// Converts a rectangle of palette indices, cropped to its visible pixels. None if no pixel is visible.
    fn of(x: u32, y: u32, width: usize, numbers: &[u8], colors: &[[u8; 4]]) -> Option<Self> {
        let color = |number: u8| colors.get(usize::from(number)).copied().unwrap_or_default();
        let seen = |number: &u8| color(*number)[3] > 0;
        let rows = || numbers.chunks_exact(width.max(1));
        let top = rows().position(|row| row.iter().any(seen))?;
        let bottom = rows().rposition(|row| row.iter().any(seen))? + 1;
        let left = rows().filter_map(|row| row.iter().position(seen)).min()?;
        let right = rows().filter_map(|row| row.iter().rposition(seen)).max()? + 1;
        let inside = rows().take(bottom).skip(top).flat_map(|row| &row[left..right]);
        let pixels = inside.flat_map(|&number| color(number)).collect();
        let (width, height) = ((right - left) as u32, (bottom - top) as u32);
        Some(Self { x: x.saturating_add(left as u32), y: y.saturating_add(top as u32), width, height, pixels })
    }
}

/// Reads the bytes of an untrusted packet.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Damaged("the packet ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, Damaged> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Result<u16, Damaged> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }
}
