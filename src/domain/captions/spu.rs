//! VobSub, the sub-pictures of DVDs, as Matroska carries them: palette and canvas in the text of an `.idx` file, and one
//! packet per image: two fields of run-length data and the commands with their times.

use super::{Bytes, Damaged, MOST_PIXELS, Piece, Told};

/// Palette and canvas of a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubPictures {
    canvas: Option<(u32, u32)>,
    palette: [[u8; 3]; 16],
}

/// Result of a packet's display control commands.
#[derive(Default)]
struct Orders {
    start: Option<u16>,
    stop: Option<u16>,
    /// Palette indices and opacities, starting with the background.
    colors: [u8; 4],
    opacities: [u8; 4],
    /// Left, top, width and height.
    area: Option<(u32, u32, usize, usize)>,
    fields: Option<(u16, u16)>,
}

impl SubPictures {
    /// Parses a track's private data.
    ///
    /// # Errors
    /// When it has no valid palette.
    pub fn read(private: &[u8]) -> Result<Self, Damaged> {
        let text = String::from_utf8_lossy(private);
        let value = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
        let canvas = value("size:").and_then(|size| {
            let (width, height) = size.split_once('x')?;
            Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
        });
        let canvas = canvas.filter(|&(width, height)| (1..=8192).contains(&width) && (1..=8192).contains(&height));
        let mut palette = [[0; 3]; 16];
        let colors = value("palette:").ok_or(Damaged("the track has no palette"))?.split(',');
        for (into, color) in palette.iter_mut().zip(colors) {
            let color = u32::from_str_radix(color.trim(), 16)
                .map_err(|_| Damaged("a palette entry is not a hexadecimal number"))?;
            *into = [(color >> 16) as u8, (color >> 8) as u8, color as u8];
        }
        Ok(Self { canvas, palette })
    }

    /// Decodes a packet.
    ///
    /// # Errors
    /// When the packet is malformed.
    pub fn feed(&self, packet: &[u8]) -> Result<Told, Damaged> {
        let orders = Orders::read(packet)?;
        let ms = |date: u16| i64::from(date) * 1024 / 90;
        let (start, stop) = (ms(orders.start.unwrap_or(0)), orders.stop.map(ms));
        let mut told = Told { canvas: self.canvas, pieces: Vec::new(), after_ms: start, until_ms: stop };
        if orders.start.is_none() {
            return Ok(told);
        }
        let (x, y, width, height) = orders.area.ok_or(Damaged("the packet sets no display area"))?;
        let (upper, lower) = orders.fields.ok_or(Damaged("the packet sets no pixel data"))?;
        let mut numbers = vec![0; width * height];
        for (field, offset) in [upper, lower].into_iter().enumerate() {
            let mut runs = Runs { bytes: packet, digit: 2 * usize::from(offset) };
            for row in numbers.chunks_exact_mut(width).skip(field).step_by(2) {
                runs.line(row)?;
            }
        }
        let colors: Vec<[u8; 4]> = (0..4)
            .map(|number| {
                let [red, green, blue] = self.palette[usize::from(orders.colors[number])];
                [red, green, blue, orders.opacities[number] * 17]
            })
            .collect();
        told.pieces = Piece::of(x, y, width, &numbers, &colors).into_iter().collect();
        Ok(told)
    }
}

impl Orders {
    fn read(packet: &[u8]) -> Result<Self, Damaged> {
        let mut orders = Self::default();
        let mut at = usize::from(Bytes(packet.get(2..).unwrap_or_default()).u16()?);
        loop {
            let mut bytes = Bytes(packet.get(at..).ok_or(Damaged("the commands lie outside the packet"))?);
            let date = bytes.u16()?;
            let next = usize::from(bytes.u16()?);
            orders.obey(&mut bytes, date)?;
            // The last command sequence refers to itself. Offsets only increase, so the loop ends.
            if next <= at {
                return Ok(orders);
            }
            at = next;
        }
    }

    fn obey(&mut self, bytes: &mut Bytes, date: u16) -> Result<(), Damaged> {
        let four = |pair: &[u8]| [pair[1] & 15, pair[1] >> 4, pair[0] & 15, pair[0] >> 4];
        loop {
            match bytes.u8()? {
                0 | 1 => self.start = Some(date),
                2 => self.stop = Some(date),
                3 => self.colors = four(bytes.take(2)?),
                4 => self.opacities = four(bytes.take(2)?),
                5 => self.area = Some(area(bytes.take(6)?)?),
                6 => self.fields = Some((bytes.u16()?, bytes.u16()?)),
                // Colour changes within the bitmap are ignored, as in ffmpeg.
                7 => {
                    let length = usize::from(bytes.u16()?);
                    bytes.take(length.saturating_sub(2))?;
                }
                0xff => return Ok(()),
                _ => return Err(Damaged("the packet has an unknown command")),
            }
        }
    }
}

/// Parses the display area; twelve bits each: left, right, top, bottom.
fn area(bytes: &[u8]) -> Result<(u32, u32, usize, usize), Damaged> {
    let pair = |bytes: &[u8]| {
        let [a, b, c] = [bytes[0], bytes[1], bytes[2]].map(usize::from);
        (a << 4 | b >> 4, (b & 15) << 8 | c)
    };
    let ((left, right), (top, bottom)) = (pair(&bytes[..3]), pair(&bytes[3..]));
    if right < left || bottom < top {
        return Err(Damaged("the display area has a negative size"));
    }
    let (width, height) = (right - left + 1, bottom - top + 1);
    if width * height > MOST_PIXELS {
        return Err(Damaged("the display area is too large"));
    }
    Ok((left as u32, top as u32, width, height))
}

/// Reads run-length encoded pixels, in units of four bits.
struct Runs<'a> {
    bytes: &'a [u8],
    digit: usize,
}

impl Runs<'_> {
    fn digit(&mut self) -> Result<usize, Damaged> {
        let byte = *self.bytes.get(self.digit / 2).ok_or(Damaged("the pixel data ends too early"))?;
        let digit = if self.digit.is_multiple_of(2) { byte >> 4 } else { byte & 15 };
        self.digit += 1;
        Ok(usize::from(digit))
    }

    fn line(&mut self, row: &mut [u8]) -> Result<(), Damaged> {
        let mut at = 0;
        while at < row.len() {
            // Larger values have more digits. A value that begins with 14 zero bits runs to the end of the line.
            let mut value = 0;
            for least in [1, 4, 16, 64] {
                if value >= least {
                    break;
                }
                value = value << 4 | self.digit()?;
            }
            let end = if value < 4 { row.len() } else { (at + (value >> 2)).min(row.len()) };
            row[at..end].fill((value & 3) as u8);
            at = end;
        }
        self.digit = self.digit.next_multiple_of(2);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PRIVATE: &[u8] =
        b"# a comment\nsize: 720x576\npalette: 000000, ffffff, 102030, 000000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0\n";

    /// 5x2 pixels at (16, 33), shown from 1,024 to 92,160 ticks: a line of colour 1, and a line with two pixels of colour
    /// 2.
    fn whole() -> Vec<u8> {
        // First field: 0001 is one whole line. Second field: 2 pixels of colour 2 (0xa), then colour 0 to the end (0000).
        let fields = [0x00, 0x01, 0xa0, 0x00, 0x00];
        let control = 4 + fields.len();
        let shown = [1, 3, 0x02, 0x10, 4, 0x0f, 0x80, 5, 1, 0, 20, 2, 16, 34, 6, 0, 4, 0, 6, 0xff];
        let last = control + 4 + shown.len();
        let mut out = vec![0, 0, 0, control as u8];
        out.extend(fields);
        out.extend([0, 1, 0, last as u8]);
        out.extend(shown);
        out.extend([0, 90, 0, last as u8, 2, 0xff]);
        out
    }

    #[test]
    fn a_packet_is_shown_in_its_time_and_place() {
        let track = SubPictures::read(PRIVATE).unwrap();
        let told = track.feed(&whole()).unwrap();
        assert_eq!((told.canvas, told.after_ms, told.until_ms), (Some((720, 576)), 11, Some(1024)));
        let (white, blue, none) = ([255, 255, 255, 136], [16, 32, 48, 255], [0, 0, 0, 0]);
        let pixels = [[white; 5].concat(), [blue, blue, none, none, none].concat()].concat();
        assert_eq!(told.pieces, [Piece { x: 16, y: 33, width: 5, height: 2, pixels }]);
    }

    #[test]
    fn runs_have_as_many_digits_as_they_need() {
        // 3, 15, 60 and 200 pixels of colour 1, then colour 2 to the end of the line.
        let bytes = [0xd3, 0xd0, 0xf1, 0x03, 0x21, 0x00, 0x02];
        let mut row = [0; 300];
        let mut runs = Runs { bytes: &bytes, digit: 0 };
        runs.line(&mut row).unwrap();
        assert_eq!(row.iter().position(|&number| number != 1), Some(278));
        assert!(row[278..].iter().all(|&number| number == 2));
        assert_eq!(runs.digit, 14);
    }

    #[test]
    fn a_track_without_a_palette_is_refused() {
        assert!(SubPictures::read(b"size: 720x576\n").is_err());
        assert_eq!(SubPictures::read(b"palette: 1").unwrap().canvas, None);
    }

    proptest! {
        #[test]
        fn damaged_packets_are_refused_or_shown_and_nothing_worse(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
            cut in any::<proptest::sample::Index>(),
        ) {
            let mut packet = whole();
            for (index, byte) in changes {
                let at = index.index(packet.len());
                packet[at] = byte;
            }
            packet.truncate(cut.index(packet.len()) + 1);
            if let Ok(told) = SubPictures::read(PRIVATE).unwrap().feed(&packet) {
                for piece in told.pieces {
                    prop_assert_eq!(piece.pixels.len(), (piece.width * piece.height * 4) as usize);
                }
            }
        }
    }
}
