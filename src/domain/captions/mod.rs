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

/// Most pixels of one rectangle: twice a screen of 1920 by 1080.
const MOST_PIXELS: usize = 1 << 22;

/// Why a packet shows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged(pub &'static str);

/// What a packet puts on the screen. The next one takes it away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Size of the canvas; None: as large as the picture.
    pub canvas: Option<(u32, u32)>,
    /// None at all: the screen is clear from then on.
    pub pieces: Vec<Piece>,
    /// From when on and how long it is shown, milliseconds after the packet's own time.
    pub after_ms: i64,
    pub until_ms: Option<i64>,
}

/// A rectangle on a canvas: red, green, blue and opacity of every pixel, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
    pub pixels: Vec<u8>,
}

impl Piece {
    /// A rectangle of colours by number; the smallest part of it that can be seen. None where nothing can.
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

/// Bytes of a packet, which may lie about everything.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Damaged("it is cut short"))?;
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
