//! VobSub, the sub-pictures of DVDs, as Matroska carries them: palette and canvas in the text of an `.idx` file, and one
//! packet per image: two fields of run-length data and the commands with their times.

use super::{DisplayUpdate, MAX_PIXELS, MalformedPacket, PlacedBitmap};
use crate::domain::bytes::ByteCursor;
use crate::domain::time::Ticks;

/// Palette and canvas of a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VobSubDecoder {
    canvas: Option<(u32, u32)>,
    palette: [[u8; 3]; 16],
}

/// Result of a packet's display control commands.
#[derive(Default)]
struct DisplayControl {
    start_delay: Option<u16>,
    stop_delay: Option<u16>,
    /// Palette indices and opacities, starting with the background.
    palette_indices: [u8; 4],
    opacities: [u8; 4],
    /// Left, top, width and height.
    area: Option<(u32, u32, usize, usize)>,
    field_offsets: Option<(u16, u16)>,
}

impl VobSubDecoder {
    /// Parses a track's private data, which must have a valid palette.
    pub fn parse_private_data(private: &[u8]) -> Result<Self, MalformedPacket> {
        let text = String::from_utf8_lossy(private);
        let value = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
        let canvas = value("size:").and_then(|size| {
            let (width, height) = size.split_once('x')?;
            Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
        });
        let canvas = canvas.filter(|&(width, height)| (1..=8192).contains(&width) && (1..=8192).contains(&height));
        let mut palette = [[0; 3]; 16];
        let colors = value("palette:").ok_or(MalformedPacket("the track has no palette"))?.split(',');
        for (into, color) in palette.iter_mut().zip(colors) {
            let color = u32::from_str_radix(color.trim(), 16)
                .map_err(|_| MalformedPacket("a palette entry is not a hexadecimal number"))?;
            *into = [(color >> 16) as u8, (color >> 8) as u8, color as u8];
        }
        Ok(Self { canvas, palette })
    }

    /// For a palette as mp4 carries it: 16 entries of a zero byte, Y, Cr and Cb. The canvas is the size of the track, which
    /// may be zero.
    pub fn from_yuv_palette(canvas: (u32, u32), palette: &[u8]) -> Result<Self, MalformedPacket> {
        let entries = palette.as_chunks::<4>().0;
        let entries: &[[u8; 4]; 16] =
            entries.try_into().map_err(|_| MalformedPacket("the palette has not 16 entries"))?;
        let canvas = Some(canvas).filter(|&(width, height)| width > 0 && height > 0);
        Ok(Self { canvas, palette: entries.map(|[_, y, cr, cb]| to_rgb(y, cr, cb)) })
    }

    pub fn decode(&self, packet: &[u8]) -> Result<DisplayUpdate, MalformedPacket> {
        let control = DisplayControl::parse(packet)?;
        let delay_to_ms = |delay: u16| Ticks(i64::from(delay) * 1024).as_ms_floor();
        let (start, stop) = (delay_to_ms(control.start_delay.unwrap_or(0)), control.stop_delay.map(delay_to_ms));
        let mut update = DisplayUpdate { canvas: self.canvas, bitmaps: Vec::new(), start_ms: start, end_ms: stop };
        if control.start_delay.is_none() {
            return Ok(update);
        }
        let (x, y, width, height) = control.area.ok_or(MalformedPacket("the packet sets no display area"))?;
        let (upper, lower) = control.field_offsets.ok_or(MalformedPacket("the packet sets no pixel data"))?;
        let mut indices = vec![0; width * height];
        for (field, offset) in [upper, lower].into_iter().enumerate() {
            let mut runs = RunReader { bytes: packet, nibble_offset: 2 * usize::from(offset) };
            for row in indices.chunks_exact_mut(width).skip(field).step_by(2) {
                runs.read_row(row)?;
            }
        }
        let colors = [0, 1, 2, 3].map(|number: usize| {
            let [red, green, blue] = self.palette[usize::from(control.palette_indices[number])];
            [red, green, blue, control.opacities[number] * 17]
        });
        update.bitmaps = PlacedBitmap::from_indexed(x, y, width, &indices, &colors).into_iter().collect();
        Ok(update)
    }
}

impl DisplayControl {
    fn parse(packet: &[u8]) -> Result<Self, MalformedPacket> {
        let mut control = Self::default();
        let mut offset = usize::from(ByteCursor(packet.get(2..).unwrap_or_default()).u16()?);
        loop {
            let mut bytes =
                ByteCursor(packet.get(offset..).ok_or(MalformedPacket("the commands lie outside the packet"))?);
            let delay = bytes.u16()?;
            let next = usize::from(bytes.u16()?);
            control.apply_sequence(&mut bytes, delay)?;
            // The last command sequence refers to itself. Offsets only increase, so the loop ends.
            if next <= offset {
                return Ok(control);
            }
            offset = next;
        }
    }

    fn apply_sequence(&mut self, bytes: &mut ByteCursor, delay: u16) -> Result<(), MalformedPacket> {
        let nibbles = |pair: &[u8]| [pair[1] & 15, pair[1] >> 4, pair[0] & 15, pair[0] >> 4];
        loop {
            match bytes.u8()? {
                0 | 1 => self.start_delay = Some(delay),
                2 => self.stop_delay = Some(delay),
                3 => self.palette_indices = nibbles(bytes.take(2)?),
                4 => self.opacities = nibbles(bytes.take(2)?),
                5 => self.area = Some(parse_area(bytes.take(6)?)?),
                6 => self.field_offsets = Some((bytes.u16()?, bytes.u16()?)),
                // Colour changes within the bitmap are ignored, as in ffmpeg.
                7 => {
                    let length = usize::from(bytes.u16()?);
                    bytes.take(length.saturating_sub(2))?;
                }
                0xff => return Ok(()),
                _ => return Err(MalformedPacket("the packet has an unknown command")),
            }
        }
    }
}

/// Limited-range BT.601 to RGB, in ffmpeg's integers.
fn to_rgb(y: u8, cr: u8, cb: u8) -> [u8; 3] {
    let (y, cr, cb) = (1164 * (i32::from(y) - 16), i32::from(cr) - 128, i32::from(cb) - 128);
    [y + 1596 * cr, y - 813 * cr - 391 * cb, y + 2018 * cb].map(|value| (value / 1000).clamp(0, 255) as u8)
}

/// Parses the display area; twelve bits each: left, right, top, bottom.
fn parse_area(bytes: &[u8]) -> Result<(u32, u32, usize, usize), MalformedPacket> {
    let pair = |bytes: &[u8]| {
        let [a, b, c] = [bytes[0], bytes[1], bytes[2]].map(usize::from);
        (a << 4 | b >> 4, (b & 15) << 8 | c)
    };
    let ((left, right), (top, bottom)) = (pair(&bytes[..3]), pair(&bytes[3..]));
    if right < left || bottom < top {
        return Err(MalformedPacket("the display area has a negative size"));
    }
    let (width, height) = (right - left + 1, bottom - top + 1);
    if width * height > MAX_PIXELS {
        return Err(MalformedPacket("the display area is too large"));
    }
    Ok((left as u32, top as u32, width, height))
}

/// Reads run-length encoded pixels, in units of four bits.
struct RunReader<'a> {
    bytes: &'a [u8],
    nibble_offset: usize,
}

impl RunReader<'_> {
    fn read_nibble(&mut self) -> Result<usize, MalformedPacket> {
        let byte = *self.bytes.get(self.nibble_offset / 2).ok_or(MalformedPacket("the pixel data ends too early"))?;
        let nibble = if self.nibble_offset.is_multiple_of(2) { byte >> 4 } else { byte & 15 };
        self.nibble_offset += 1;
        Ok(usize::from(nibble))
    }

    fn read_row(&mut self, row: &mut [u8]) -> Result<(), MalformedPacket> {
        let mut column = 0;
        while column < row.len() {
            // Larger values have more digits. A value that begins with 14 zero bits runs to the end of the line.
            let mut value = 0;
            for min_value in [1, 4, 16, 64] {
                if value >= min_value {
                    break;
                }
                value = value << 4 | self.read_nibble()?;
            }
            let end = if value < 4 { row.len() } else { (column + (value >> 2)).min(row.len()) };
            row[column..end].fill((value & 3) as u8);
            column = end;
        }
        self.nibble_offset = self.nibble_offset.next_multiple_of(2);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PRIVATE_DATA: &[u8] =
        b"# a comment\nsize: 720x576\npalette: 000000, ffffff, 102030, 000000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0\n";

    /// 5x2 pixels at (16, 33), shown from 1,024 to 92,160 ticks: a line of colour 1, and a line with two pixels of colour
    /// 2.
    fn valid_packet() -> Vec<u8> {
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
    fn a_packet_decodes_to_position_and_time() {
        let decoder = VobSubDecoder::parse_private_data(PRIVATE_DATA).unwrap();
        let update = decoder.decode(&valid_packet()).unwrap();
        assert_eq!((update.canvas, update.start_ms, update.end_ms), (Some((720, 576)), 11, Some(1024)));
        let (white, blue, none) = ([255, 255, 255, 136], [16, 32, 48, 255], [0, 0, 0, 0]);
        let pixels = [[white; 5].concat(), [blue, blue, none, none, none].concat()].concat();
        assert_eq!(update.bitmaps, [PlacedBitmap { x: 16, y: 33, width: 5, height: 2, pixels }]);
    }

    #[test]
    fn the_palette_of_mp4_is_converted_to_rgb() {
        let mut palette = [0, 16, 128, 128].repeat(16);
        palette[4..8].copy_from_slice(&[0, 235, 128, 128]);
        palette[8..12].copy_from_slice(&[0, 81, 240, 90]);
        let decoder = VobSubDecoder::from_yuv_palette((720, 576), &palette).unwrap();
        assert_eq!((decoder.canvas, &decoder.palette[..3]), (Some((720, 576)), &[[0; 3], [254; 3], [254, 0, 0]][..]));
        assert_eq!(VobSubDecoder::from_yuv_palette((0, 0), &palette).unwrap().canvas, None);
        assert!(VobSubDecoder::from_yuv_palette((720, 576), &palette[..60]).is_err());
    }

    #[test]
    fn runs_have_variable_length() {
        // 3, 15, 60 and 200 pixels of colour 1, then colour 2 to the end of the line.
        let bytes = [0xd3, 0xd0, 0xf1, 0x03, 0x21, 0x00, 0x02];
        let mut row = [0; 300];
        let mut runs = RunReader { bytes: &bytes, nibble_offset: 0 };
        runs.read_row(&mut row).unwrap();
        assert_eq!(row.iter().position(|&number| number != 1), Some(278));
        assert!(row[278..].iter().all(|&number| number == 2));
        assert_eq!(runs.nibble_offset, 14);
    }

    #[test]
    fn a_track_without_a_palette_is_refused() {
        assert!(VobSubDecoder::parse_private_data(b"size: 720x576\n").is_err());
        assert_eq!(VobSubDecoder::parse_private_data(b"palette: 1").unwrap().canvas, None);
    }

    proptest! {
        #[test]
        fn damaged_packets_are_refused_or_decoded_without_panic(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
            cut in any::<proptest::sample::Index>(),
        ) {
            let mut packet = valid_packet();
            for (index, byte) in changes {
                let at = index.index(packet.len());
                packet[at] = byte;
            }
            packet.truncate(cut.index(packet.len()) + 1);
            if let Ok(update) = VobSubDecoder::parse_private_data(PRIVATE_DATA).unwrap().decode(&packet) {
                for bitmap in update.bitmaps {
                    prop_assert_eq!(bitmap.pixels.len(), (bitmap.width * bitmap.height * 4) as usize);
                }
            }
        }
    }
}
