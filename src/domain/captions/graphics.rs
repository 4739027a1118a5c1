//! PGS, the presentation graphics of Blu-ray discs (US patent application 2009/0185789, and as players read them).
//!
//! A packet is a display set: a composition, windows, palettes, objects and an end. Sets of an epoch build on each other:
//! objects and palettes stay until an epoch begins, or until an acquisition point repeats all of them.

use std::collections::BTreeMap;

use super::{Bytes, Damaged, MOST_PIXELS, Piece, Told};

const PALETTE: u8 = 0x14;
const OBJECT: u8 = 0x15;
const COMPOSITION: u8 = 0x16;
const END: u8 = 0x80;

/// Most bytes of run-length encoded objects in an epoch.
const MOST_PACKED: usize = 16 << 20;

/// Most objects in an epoch.
const MOST_OBJECTS: usize = 64;

/// Most objects in a composition.
const MOST_PLACED: usize = 2;

/// Decoder state: palettes and objects of the current epoch.
#[derive(Clone, Debug, Default)]
pub struct Graphics {
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
    packed: Vec<u8>,
    length: usize,
}

#[derive(Clone, Debug)]
struct Composition {
    palette: u8,
    placed: Vec<Placed>,
}

/// Position of an object, and the part of it to show: left, top, width, height.
#[derive(Clone, Copy, Debug)]
struct Placed {
    object: u16,
    x: u32,
    y: u32,
    part: Option<[usize; 4]>,
}

impl Graphics {
    /// True if this packet can be shown without any earlier packet.
    pub fn stands_alone(packet: &[u8]) -> bool {
        // In a composition segment, byte 10 is the composition state and byte 13 the number of objects.
        let (state, objects) = (packet.get(10), packet.get(13));
        packet.first() == Some(&COMPOSITION) && (state.is_some_and(|state| state >> 6 != 0) || objects == Some(&0))
    }

    /// Decodes a packet. Of several compositions only the last one is drawn.
    ///
    /// # Errors
    /// When the packet is malformed. Earlier palettes and objects remain.
    pub fn feed(&mut self, packet: &[u8]) -> Result<Option<Told>, Damaged> {
        let mut bytes = Bytes(packet);
        let mut told = None;
        while !bytes.0.is_empty() {
            let kind = bytes.u8()?;
            let length = bytes.u16()?;
            let mut body = Bytes(bytes.take(usize::from(length))?);
            match kind {
                COMPOSITION => self.compose(&mut body)?,
                PALETTE => self.palette(&mut body)?,
                OBJECT => self.object(&mut body)?,
                END if self.composition.is_some() => told = self.composition.take(),
                _ => {}
            }
        }
        Ok(told.map(|composition| self.shown(&composition)))
    }

    fn compose(&mut self, body: &mut Bytes) -> Result<(), Damaged> {
        self.canvas = (u32::from(body.u16()?), u32::from(body.u16()?));
        // Frame rate and composition number.
        body.take(3)?;
        if body.u8()? >> 6 != 0 {
            self.palettes.clear();
            self.objects.clear();
        }
        body.u8()?;
        let palette = body.u8()?;
        let count = usize::from(body.u8()?).min(MOST_PLACED);
        let mut placed = Vec::new();
        for _ in 0..count {
            let object = body.u16()?;
            body.u8()?;
            let cropped = body.u8()? & 0x80 != 0;
            let (x, y) = (u32::from(body.u16()?), u32::from(body.u16()?));
            let mut part = None;
            if cropped {
                let mut crop = [0; 4];
                for side in &mut crop {
                    *side = usize::from(body.u16()?);
                }
                part = Some(crop);
            }
            placed.push(Placed { object, x, y, part });
        }
        self.composition = Some(Composition { palette, placed });
        Ok(())
    }

    fn palette(&mut self, body: &mut Bytes) -> Result<(), Damaged> {
        let id = body.u8()?;
        body.u8()?;
        let hd = self.canvas.1 > 576;
        let colors = self.palettes.entry(id).or_insert_with(|| vec![[0; 4]; 256]);
        while body.0.len() >= 5 {
            let entry = body.take(5)?;
            let [red, green, blue] = rgb(entry[1], entry[2], entry[3], hd);
            colors[usize::from(entry[0])] = [red, green, blue, entry[4]];
        }
        Ok(())
    }

    fn object(&mut self, body: &mut Bytes) -> Result<(), Damaged> {
        let id = body.u16()?;
        body.u8()?;
        if body.u8()? & 0x80 == 0 {
            let object = self.objects.get_mut(&id).ok_or(Damaged("an object continues that never began"))?;
            let more = body.0.len().min(object.length - object.packed.len());
            object.packed.extend_from_slice(body.take(more)?);
            return Ok(());
        }
        let length = body.take(3)?;
        // The length includes width and height.
        let length = (usize::from(length[0]) << 16 | usize::from(length[1]) << 8 | usize::from(length[2]))
            .checked_sub(4)
            .ok_or(Damaged("an object is too short"))?;
        let (width, height) = (usize::from(body.u16()?), usize::from(body.u16()?));
        if width * height > MOST_PIXELS {
            return Err(Damaged("an object is too large"));
        }
        self.objects.remove(&id);
        let held: usize = self.objects.values().map(|object| object.length).sum();
        if self.objects.len() >= MOST_OBJECTS || held + length > MOST_PACKED {
            return Err(Damaged("an epoch has too many objects"));
        }
        let packed = body.take(body.0.len().min(length))?.to_vec();
        self.objects.insert(id, Object { width, height, packed, length });
        Ok(())
    }

    fn shown(&self, composition: &Composition) -> Told {
        let colors = self.palettes.get(&composition.palette).map_or(&[][..], Vec::as_slice);
        // The whole object is decoded, even if only a part of it is placed.
        let mut pixels_left = MOST_PIXELS;
        let piece = |placed: &Placed| {
            let object = self.objects.get(&placed.object)?;
            pixels_left = pixels_left.checked_sub(object.width * object.height)?;
            let (numbers, width) = object.numbers(placed.part);
            Piece::of(placed.x, placed.y, width, &numbers, colors)
        };
        let pieces = composition.placed.iter().filter_map(piece).collect();
        Told { canvas: Some(self.canvas), pieces, after_ms: 0, until_ms: None }
    }
}

impl Object {
    /// Palette indices of the object or of a part of it, and the width of that part.
    fn numbers(&self, part: Option<[usize; 4]>) -> (Vec<u8>, usize) {
        let mut whole = vec![0; self.width * self.height];
        let mut lines = whole.chunks_exact_mut(self.width.max(1));
        let (mut line, mut at) = (lines.next(), 0);
        let mut bytes = Bytes(&self.packed);
        while let (Some(into), Ok((count, number))) = (line.as_mut(), run(&mut bytes)) {
            if count == 0 {
                (line, at) = (lines.next(), 0);
                continue;
            }
            let end = (at + count).min(into.len());
            into[at.min(end)..end].fill(number);
            at = end;
        }
        let Some([left, top, width, height]) = part else { return (whole, self.width) };
        let (left, top) = (left.min(self.width), top.min(self.height));
        let (width, height) = (width.min(self.width - left), height.min(self.height - top));
        let rows = whole.chunks_exact(self.width.max(1)).skip(top).take(height);
        (rows.flat_map(|row| &row[left..left + width]).copied().collect(), width)
    }
}

/// One run: number of pixels and palette index. Zero pixels end the line.
fn run(bytes: &mut Bytes) -> Result<(usize, u8), Damaged> {
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
fn rgb(luma: u8, cr: u8, cb: u8, hd: bool) -> [u8; 3] {
    let (kr, kb) = if hd { (0.2126, 0.0722) } else { (0.299, 0.114) };
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

    fn segment(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind][..], &(body.len() as u16).to_be_bytes(), body].concat()
    }

    /// A display set with an object of 4x2 pixels at (10, 20): a line of colour 1, and a line whose last two pixels have
    /// colour 2.
    fn set(state: u8, placed: &[u8]) -> Vec<u8> {
        let composition = [&[0, 64, 0, 48, 0x10, 0, 7, state, 0, 0, placed.len().min(1) as u8][..], placed].concat();
        let runs = [0, 0x84, 1, 0, 0, 0, 2, 2, 2, 0, 0];
        let object = [&[0, 3, 0, 0xc0, 0, 0, runs.len() as u8 + 4, 0, 4, 0, 2][..], &runs].concat();
        let palette = [0, 0, 1, 235, 128, 128, 255, 2, 16, 128, 128, 100];
        let mut out = segment(COMPOSITION, &composition);
        if state != 0 {
            out.extend(segment(PALETTE, &palette));
            out.extend(segment(OBJECT, &object));
        }
        out.extend(segment(END, &[]));
        out
    }

    const WHOLE: [u8; 8] = [0, 3, 0, 0, 0, 10, 0, 20];

    #[test]
    fn a_set_is_shown_and_the_next_one_builds_on_it() {
        let mut graphics = Graphics::default();
        let told = graphics.feed(&set(0x80, &WHOLE)).unwrap().unwrap();
        assert_eq!(told.canvas, Some((64, 48)));
        let (white, black) = ([255, 255, 255, 255], [0, 0, 0, 100]);
        let pixels = [white, white, white, white, [0; 4], [0; 4], black, black].concat();
        assert_eq!(told.pieces, [Piece { x: 10, y: 20, width: 4, height: 2, pixels }]);
        let cropped = [0, 3, 0, 0x80, 0, 30, 0, 40, 0, 1, 0, 1, 0, 9, 0, 9];
        let told = graphics.feed(&set(0, &cropped)).unwrap().unwrap();
        // The rest of the object, without its invisible column.
        assert_eq!(told.pieces, [Piece { x: 31, y: 40, width: 2, height: 1, pixels: [black, black].concat() }]);
        let told = graphics.feed(&set(0, &[])).unwrap().unwrap();
        assert_eq!(told.pieces, []);
    }

    #[test]
    fn a_composition_is_limited() {
        let pieces = |packet: &[u8]| Graphics::default().feed(packet).unwrap().unwrap().pieces.len();
        let mut three = set(0x80, &[WHOLE; 3].concat());
        three[13] = 3;
        assert_eq!(pieces(&three), MOST_PLACED);
        let mut two = set(0x80, &[WHOLE; 2].concat());
        two[13] = 2;
        assert_eq!(pieces(&two), 2);
        // Width and height of the object: each alone has the most pixels.
        two[55..59].copy_from_slice(&[8, 0, 8, 0]);
        assert_eq!(pieces(&two), 1);
    }

    #[test]
    fn the_last_composition_of_a_packet_is_shown() {
        let mut packet = [set(0x80, &WHOLE), set(0, &[0, 3, 0, 0, 0, 30, 0, 40])].concat();
        packet.extend(segment(END, &[]));
        let pieces = Graphics::default().feed(&packet).unwrap().unwrap().pieces;
        assert_eq!(pieces.iter().map(|piece| (piece.x, piece.y)).collect::<Vec<_>>(), [(30, 40)]);
    }

    #[test]
    fn whether_a_set_stands_alone() {
        for (packet, alone) in
            [(set(0x80, &WHOLE), true), (set(0x40, &WHOLE), true), (set(0, &WHOLE), false), (set(0, &[]), true)]
        {
            assert_eq!(Graphics::stands_alone(&packet), alone);
        }
    }

    proptest! {
        #[test]
        fn damaged_packets_are_refused_or_shown_and_nothing_worse(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
            cut in any::<proptest::sample::Index>(),
        ) {
            let mut packet = set(0x80, &WHOLE);
            for (index, byte) in changes {
                let at = index.index(packet.len());
                packet[at] = byte;
            }
            let mut graphics = Graphics::default();
            for packet in [&packet[..], &packet[..cut.index(packet.len())], &set(0, &WHOLE)] {
                if let Ok(Some(told)) = graphics.feed(packet) {
                    for piece in told.pieces {
                        prop_assert_eq!(piece.pixels.len(), (piece.width * piece.height * 4) as usize);
                    }
                }
            }
        }
    }
}
