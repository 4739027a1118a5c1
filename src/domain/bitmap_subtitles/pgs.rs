//! PGS, the presentation graphics of Blu-ray discs (US patent application 2009/0185789, and as players read them).
//!
//! A packet is a display set: a composition, windows, palettes, objects and an end. Sets of an epoch build on each other:
//! objects and palettes stay until an epoch begins, or until an acquisition point repeats all of them.

use std::collections::BTreeMap;

use super::{DisplayUpdate, MAX_PIXELS, MalformedPacket, PlacedBitmap};
use crate::domain::bytes::ByteCursor;

const PALETTE: u8 = 0x14;
const OBJECT: u8 = 0x15;
const COMPOSITION: u8 = 0x16;
const END: u8 = 0x80;

/// Most bytes of run-length encoded objects in an epoch.
const MAX_ENCODED_BYTES: usize = 16 << 20;

/// Most objects in an epoch.
const MAX_OBJECTS: usize = 64;

/// Most objects in a composition.
const MAX_PLACED: usize = 2;

/// Decoder state: palettes and objects of the current epoch.
#[derive(Clone, Debug, Default)]
pub struct PgsDecoder {
    canvas: (u32, u32),
    palettes: BTreeMap<u8, Vec<[u8; 4]>>,
    objects: BTreeMap<u16, Object>,
    composition: Option<Composition>,
}

#[derive(Clone, Debug, Default)]
struct Object {
    width: usize,
    height: usize,
    /// Run-length encoded palette indices received so far, and their final length in bytes.
    encoded: Vec<u8>,
    encoded_len: usize,
}

#[derive(Clone, Debug)]
struct Composition {
    palette: u8,
    placements: Vec<ObjectPlacement>,
}

/// Position of an object, and the part of it to show: left, top, width, height.
#[derive(Clone, Copy, Debug)]
struct ObjectPlacement {
    object: u16,
    x: u32,
    y: u32,
    crop: Option<[usize; 4]>,
}

impl PgsDecoder {
    /// True if this packet can be shown without any earlier packet.
    pub fn is_self_contained(packet: &[u8]) -> bool {
        // In a composition segment, byte 10 is the composition state and byte 13 the number of objects.
        let (state, objects) = (packet.get(10), packet.get(13));
        packet.first() == Some(&COMPOSITION) && (state.is_some_and(|state| state >> 6 != 0) || objects == Some(&0))
    }

    /// Decodes a packet. Of several compositions only the last one is drawn. After an error, earlier palettes and objects
    /// remain.
    pub fn decode(&mut self, packet: &[u8]) -> Result<Option<DisplayUpdate>, MalformedPacket> {
        let mut bytes = ByteCursor(packet);
        let mut update = None;
        while !bytes.0.is_empty() {
            let kind = bytes.u8()?;
            let length = bytes.u16()?;
            let mut body = ByteCursor(bytes.take(usize::from(length))?);
            match kind {
                COMPOSITION => self.read_composition(&mut body)?,
                PALETTE => self.read_palette(&mut body)?,
                OBJECT => self.read_object(&mut body)?,
                END if self.composition.is_some() => update = self.composition.take(),
                _ => {}
            }
        }
        Ok(update.map(|composition| self.render(&composition)))
    }

    fn read_composition(&mut self, body: &mut ByteCursor) -> Result<(), MalformedPacket> {
        self.canvas = (u32::from(body.u16()?), u32::from(body.u16()?));
        // Frame rate and composition number.
        body.take(3)?;
        if body.u8()? >> 6 != 0 {
            self.palettes.clear();
            self.objects.clear();
        }
        body.u8()?;
        let palette = body.u8()?;
        let count = usize::from(body.u8()?).min(MAX_PLACED);
        let mut placements = Vec::new();
        for _ in 0..count {
            let object = body.u16()?;
            body.u8()?;
            let cropped = body.u8()? & 0x80 != 0;
            let (x, y) = (u32::from(body.u16()?), u32::from(body.u16()?));
            let crop = match cropped {
                true => Some([body.u16()?, body.u16()?, body.u16()?, body.u16()?].map(usize::from)),
                false => None,
            };
            placements.push(ObjectPlacement { object, x, y, crop });
        }
        self.composition = Some(Composition { palette, placements });
        Ok(())
    }

    fn read_palette(&mut self, body: &mut ByteCursor) -> Result<(), MalformedPacket> {
        let id = body.u8()?;
        body.u8()?;
        let is_hd = self.canvas.1 > 576;
        let colors = self.palettes.entry(id).or_insert_with(|| vec![[0; 4]; 256]);
        while body.0.len() >= 5 {
            let entry = body.take(5)?;
            let [red, green, blue] = ycbcr_to_rgb(entry[1], entry[2], entry[3], is_hd);
            colors[usize::from(entry[0])] = [red, green, blue, entry[4]];
        }
        Ok(())
    }

    fn read_object(&mut self, body: &mut ByteCursor) -> Result<(), MalformedPacket> {
        let id = body.u16()?;
        body.u8()?;
        if body.u8()? & 0x80 == 0 {
            let object = self.objects.get_mut(&id).ok_or(MalformedPacket("an object continues that never began"))?;
            let missing = body.0.len().min(object.encoded_len - object.encoded.len());
            object.encoded.extend_from_slice(body.take(missing)?);
            return Ok(());
        }
        let length = body.take(3)?;
        // The length includes width and height.
        let length = (usize::from(length[0]) << 16 | usize::from(length[1]) << 8 | usize::from(length[2]))
            .checked_sub(4)
            .ok_or(MalformedPacket("an object is too short"))?;
        let (width, height) = (usize::from(body.u16()?), usize::from(body.u16()?));
        if width * height > MAX_PIXELS {
            return Err(MalformedPacket("an object is too large"));
        }
        self.objects.remove(&id);
        let buffered: usize = self.objects.values().map(|object| object.encoded_len).sum();
        if self.objects.len() >= MAX_OBJECTS || buffered + length > MAX_ENCODED_BYTES {
            return Err(MalformedPacket("an epoch has too many objects"));
        }
        let encoded = body.take(body.0.len().min(length))?.to_vec();
        self.objects.insert(id, Object { width, height, encoded, encoded_len: length });
        Ok(())
    }

    fn render(&self, composition: &Composition) -> DisplayUpdate {
        let colors = self.palettes.get(&composition.palette).map_or(&[][..], Vec::as_slice);
        // The whole object is decoded, even if only a part of it is placed.
        let mut pixels_left = MAX_PIXELS;
        let render_object = |placement: &ObjectPlacement| {
            let object = self.objects.get(&placement.object)?;
            pixels_left = pixels_left.checked_sub(object.width * object.height)?;
            let (numbers, width) = object.decode_indices(placement.crop);
            PlacedBitmap::from_indexed(placement.x, placement.y, width, &numbers, colors)
        };
        let bitmaps = composition.placements.iter().filter_map(render_object).collect();
        DisplayUpdate { canvas: Some(self.canvas), bitmaps, start_ms: 0, end_ms: None }
    }
}

impl Object {
    /// Palette indices of the object or of a part of it, and the width of that part.
    fn decode_indices(&self, crop: Option<[usize; 4]>) -> (Vec<u8>, usize) {
        let mut whole = vec![0; self.width * self.height];
        let mut lines = whole.chunks_exact_mut(self.width.max(1));
        let (mut line, mut column) = (lines.next(), 0);
        let mut bytes = ByteCursor(&self.encoded);
        while let (Some(into), Ok((count, number))) = (line.as_mut(), read_run(&mut bytes)) {
            if count == 0 {
                (line, column) = (lines.next(), 0);
                continue;
            }
            let end = (column + count).min(into.len());
            into[column.min(end)..end].fill(number);
            column = end;
        }
        let Some([left, top, width, height]) = crop else { return (whole, self.width) };
        let (left, top) = (left.min(self.width), top.min(self.height));
        let (width, height) = (width.min(self.width - left), height.min(self.height - top));
        let rows = whole.chunks_exact(self.width.max(1)).skip(top).take(height);
        (rows.flat_map(|row| &row[left..left + width]).copied().collect(), width)
    }
}

/// One run: number of pixels and palette index. Zero pixels end the line.
fn read_run(bytes: &mut ByteCursor) -> Result<(usize, u8), MalformedPacket> {
    let first = bytes.u8()?;
    if first != 0 {
        return Ok((1, first));
    }
    let flags = bytes.u8()?;
    let mut count = usize::from(flags & 0x3f);
    if flags & 0x40 != 0 {
        count = count << 8 | usize::from(bytes.u8()?);
    }
    let number = if flags & 0x80 != 0 { bytes.u8()? } else { 0 };
    Ok((count, number))
}

/// Converts limited-range YCbCr to RGB (ITU-R BT.709 for high definition, otherwise BT.601).
fn ycbcr_to_rgb(luma: u8, cr: u8, cb: u8, is_hd: bool) -> [u8; 3] {
    let (kr, kb) = if is_hd { (0.2126, 0.0722) } else { (0.299, 0.114) };
    let kg = 1.0 - kr - kb;
    let y = (f64::from(luma) - 16.0) / 219.0;
    let (r, b) = ((f64::from(cr) - 128.0) / 112.0, (f64::from(cb) - 128.0) / 112.0);
    let (red, blue) = (y + r * (1.0 - kr), y + b * (1.0 - kb));
    let green = (y - kr * red - kb * blue) / kg;
    [red, green, blue].map(|value| (value * 255.0).round().clamp(0.0, 255.0) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pgs_segment(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind][..], &(body.len() as u16).to_be_bytes(), body].concat()
    }

    /// A display set with an object of 4x2 pixels at (10, 20): a line of colour 1, and a line whose last two pixels have
    /// colour 2.
    fn display_set(state: u8, placement: &[u8]) -> Vec<u8> {
        let composition =
            [&[0, 64, 0, 48, 0x10, 0, 7, state, 0, 0, placement.len().min(1) as u8][..], placement].concat();
        let runs = [0, 0x84, 1, 0, 0, 0, 2, 2, 2, 0, 0];
        let object = [&[0, 3, 0, 0xc0, 0, 0, runs.len() as u8 + 4, 0, 4, 0, 2][..], &runs].concat();
        let palette = [0, 0, 1, 235, 128, 128, 255, 2, 16, 128, 128, 100];
        let mut out = pgs_segment(COMPOSITION, &composition);
        if state != 0 {
            out.extend(pgs_segment(PALETTE, &palette));
            out.extend(pgs_segment(OBJECT, &object));
        }
        out.extend(pgs_segment(END, &[]));
        out
    }

    const UNCROPPED: [u8; 8] = [0, 3, 0, 0, 0, 10, 0, 20];

    #[test]
    fn a_display_set_builds_on_the_previous_one() {
        let mut decoder = PgsDecoder::default();
        let update = decoder.decode(&display_set(0x80, &UNCROPPED)).unwrap().unwrap();
        assert_eq!(update.canvas, Some((64, 48)));
        let (white, black) = ([255, 255, 255, 255], [0, 0, 0, 100]);
        let pixels = [white, white, white, white, [0; 4], [0; 4], black, black].concat();
        assert_eq!(update.bitmaps, [PlacedBitmap { x: 10, y: 20, width: 4, height: 2, pixels }]);
        let cropped = [0, 3, 0, 0x80, 0, 30, 0, 40, 0, 1, 0, 1, 0, 9, 0, 9];
        let update = decoder.decode(&display_set(0, &cropped)).unwrap().unwrap();
        // The rest of the object, without its invisible column.
        let pixels = [black, black].concat();
        assert_eq!(update.bitmaps, [PlacedBitmap { x: 31, y: 40, width: 2, height: 1, pixels }]);
        let update = decoder.decode(&display_set(0, &[])).unwrap().unwrap();
        assert_eq!(update.bitmaps, []);
    }

    #[test]
    fn a_composition_is_limited() {
        let pieces = |packet: &[u8]| PgsDecoder::default().decode(packet).unwrap().unwrap().bitmaps.len();
        let mut three = display_set(0x80, &[UNCROPPED; 3].concat());
        three[13] = 3;
        assert_eq!(pieces(&three), MAX_PLACED);
        let mut two = display_set(0x80, &[UNCROPPED; 2].concat());
        two[13] = 2;
        assert_eq!(pieces(&two), 2);
        // Width and height of the object: each alone has the most pixels.
        two[55..59].copy_from_slice(&[8, 0, 8, 0]);
        assert_eq!(pieces(&two), 1);
    }

    #[test]
    fn the_last_composition_of_a_packet_is_shown() {
        let mut packet = [display_set(0x80, &UNCROPPED), display_set(0, &[0, 3, 0, 0, 0, 30, 0, 40])].concat();
        packet.extend(pgs_segment(END, &[]));
        let pieces = PgsDecoder::default().decode(&packet).unwrap().unwrap().bitmaps;
        assert_eq!(pieces.iter().map(|piece| (piece.x, piece.y)).collect::<Vec<_>>(), [(30, 40)]);
    }

    #[test]
    fn self_contained_sets_are_recognised() {
        for (packet, expected) in [
            (display_set(0x80, &UNCROPPED), true),
            (display_set(0x40, &UNCROPPED), true),
            (display_set(0, &UNCROPPED), false),
            (display_set(0, &[]), true),
        ] {
            assert_eq!(PgsDecoder::is_self_contained(&packet), expected);
        }
    }

    proptest! {
        #[test]
        fn damaged_packets_are_refused_or_decoded_without_panic(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
            cut in any::<proptest::sample::Index>(),
        ) {
            let mut packet = display_set(0x80, &UNCROPPED);
            for (index, byte) in changes {
                let at = index.index(packet.len());
                packet[at] = byte;
            }
            let mut decoder = PgsDecoder::default();
            for packet in [&packet[..], &packet[..cut.index(packet.len())], &display_set(0, &UNCROPPED)] {
                if let Ok(Some(update)) = decoder.decode(packet) {
                    for bitmap in update.bitmaps {
                        prop_assert_eq!(bitmap.pixels.len(), (bitmap.width * bitmap.height * 4) as usize);
                    }
                }
            }
        }
    }
}
