//! Which of some frames shows best what a film is: not a black one, not a title card, and one with many details.

use std::cmp::Ordering;

/// Frames are compared at this size at most, which averages noise and grain.
const MAX_COLUMNS: usize = 160;
const MAX_ROWS: usize = 90;

/// Mean luma of a frame that is dark; black is 16 (Rec. ITU-R BT.601).
const DARK_LUMA: f64 = 34.0;

/// Mean luma of a frame that is nearly white.
const BRIGHT_LUMA: f64 = 222.0;

/// Values of luma that count as one brightness.
const BAND_LUMA: usize = 12;

/// If this part of a frame has one brightness, it is a title card, a fade or a wall. Black bars of the widest films leave 42 %.
const MAX_BAND_PART: f64 = 0.66;

/// Longest header of YUV4MPEG2, bytes.
const MAX_HEADER_BYTES: usize = 256;

/// The luma of a frame, 8 bits in limited range, without padding.
#[derive(Clone, Copy, Debug)]
pub struct Luma<'a> {
    width: usize,
    height: usize,
    samples: &'a [u8],
}

impl<'a> Luma<'a> {
    /// The first frame of a YUV4MPEG2 stream; None if it is not whole.
    pub fn from_y4m(stream: &'a [u8]) -> Option<Self> {
        let header_end = stream.iter().take(MAX_HEADER_BYTES).position(|byte| *byte == b'\n')?;
        let header = std::str::from_utf8(&stream[..header_end]).ok()?.strip_prefix("YUV4MPEG2 ")?;
        let side = |name: char| header.split(' ').find_map(|part| part.strip_prefix(name)?.parse::<usize>().ok());
        let (width, height) = (side('W')?, side('H')?);
        let frame = &stream[header_end + 1..];
        let frame_end = frame.iter().take(MAX_HEADER_BYTES).position(|byte| *byte == b'\n')?;
        let samples = frame[frame_end + 1..].get(..width.checked_mul(height).filter(|count| *count > 0)?)?;
        frame.starts_with(b"FRAME").then_some(Self { width, height, samples })
    }

    /// Its mean in cells of equal size, row by row, and the number of columns.
    fn cells(&self) -> (Vec<u8>, usize) {
        let (columns, rows) = (self.width.min(MAX_COLUMNS), self.height.min(MAX_ROWS));
        let mut cells = Vec::with_capacity(columns * rows);
        for row in 0..rows {
            let lines = row * self.height / rows..(row + 1) * self.height / rows;
            for column in 0..columns {
                let range = column * self.width / columns..(column + 1) * self.width / columns;
                let line_sums = lines.clone().map(|line| {
                    let samples = &self.samples[line * self.width..][range.clone()];
                    samples.iter().map(|sample| u64::from(*sample)).sum::<u64>()
                });
                let sum: u64 = line_sums.sum();
                cells.push((sum / (lines.len() * range.len()) as u64) as u8);
            }
        }
        (cells, columns)
    }
}

/// How well a frame represents its film.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameScore {
    /// Whether it is neither dark, white nor of one brightness.
    pub is_representative: bool,
    /// Mean difference between neighbouring cells.
    detail: f64,
}

impl FrameScore {
    pub fn of(luma: &Luma<'_>) -> Self {
        let (cells, columns) = luma.cells();
        let mean = cells.iter().map(|cell| f64::from(*cell)).sum::<f64>() / cells.len() as f64;
        let difference = |a: u8, b: u8| f64::from(a.abs_diff(b));
        let across: f64 =
            cells.chunks(columns).map(|row| row.windows(2).map(|pair| difference(pair[0], pair[1])).sum::<f64>()).sum();
        let down: f64 = cells.iter().zip(cells.iter().skip(columns)).map(|(a, b)| difference(*a, *b)).sum();
        let is_exposed = (DARK_LUMA..BRIGHT_LUMA).contains(&mean);
        Self {
            is_representative: is_exposed && largest_band_part(&cells) <= MAX_BAND_PART,
            detail: (across + down) / cells.len() as f64,
        }
    }

    /// Orders scores; the greatest is the best frame.
    pub fn compare(&self, other: &Self) -> Ordering {
        self.is_representative.cmp(&other.is_representative).then(self.detail.total_cmp(&other.detail))
    }
}

/// The part of the cells that the most frequent brightness has.
fn largest_band_part(cells: &[u8]) -> f64 {
    let mut counts = [0_usize; 256];
    for cell in cells {
        counts[usize::from(*cell)] += 1;
    }
    let largest = counts.windows(BAND_LUMA).map(|band| band.iter().sum::<usize>()).max().unwrap_or(0);
    largest as f64 / cells.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 320;
    const HEIGHT: usize = 180;

    fn score(luma_at: impl Fn(usize, usize) -> u8) -> FrameScore {
        let samples: Vec<u8> =
            (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (x, y))).map(|(x, y)| luma_at(x, y)).collect();
        FrameScore::of(&Luma { width: WIDTH, height: HEIGHT, samples: &samples })
    }

    #[test]
    fn a_scene_wins_over_darkness_and_titles() {
        let scene = score(|x, y| (40 + (x * 7 + y * 3) % 160) as u8);
        let dull_scene = score(|x, y| (90 + x / 8 + y / 8) as u8);
        let with_bars = score(|x, y| if (22..158).contains(&y) { (40 + (x * 7 + y * 3) % 160) as u8 } else { 16 });
        let black = score(|_, _| 16);
        let white = score(|x, _| 230 + (x % 5) as u8);
        let title_on_black = score(|x, y| if (80..100).contains(&y) && x % 8 < 5 { 235 } else { 16 });
        let title_on_blue = score(|x, y| if (70..110).contains(&y) && x % 8 < 5 { 235 } else { 60 });
        assert!(scene.is_representative && dull_scene.is_representative && with_bars.is_representative);
        for (name, other) in
            [("black", black), ("white", white), ("title on black", title_on_black), ("title on blue", title_on_blue)]
        {
            assert!(!other.is_representative, "{name}: {other:?}");
            assert_eq!(dull_scene.compare(&other), Ordering::Greater, "{name}");
        }
        assert_eq!(scene.compare(&dull_scene), Ordering::Greater);
        assert_eq!(title_on_black.compare(&black), Ordering::Greater, "of bad frames, the one with details");
    }

    #[test]
    fn a_stream_is_read_up_to_its_first_frame() {
        let stream = b"YUV4MPEG2 W4 H2 F25:1 Ip A1:1 C420jpeg\nFRAME\n\x10\x20\x30\x40\x50\x60\x70\x80\x80\x80\x80\x80";
        let luma = Luma::from_y4m(stream).unwrap();
        assert_eq!((luma.width, luma.height, luma.samples[7]), (4, 2, 0x80));
        assert_eq!(luma.cells(), (luma.samples.to_vec(), 4));
        let cut = &stream[..50];
        for broken in [cut, b"", b"YUV4MPEG2 W4\nFRAME\n1234", b"YUV4MPEG2 W0 H2 \nFRAME\n", &[b'x'; 4000]] {
            assert!(Luma::from_y4m(broken).is_none(), "{broken:?}");
        }
        let huge = format!("YUV4MPEG2 W{} H{} \nFRAME\n", usize::MAX, 2);
        assert!(Luma::from_y4m(huge.as_bytes()).is_none());
    }
}
