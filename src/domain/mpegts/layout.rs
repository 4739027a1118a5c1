//! A segment whose packets are planned but not yet written. Packet boundaries follow from lengths alone. Its size is
//! therefore known before any payload is read, and any run of whole units can be written separately.

use std::ops::Range;

use super::canonical::{self, Splits, Tables};
use super::packet::{LEN, Packet, SYNC};
use super::tables::{Entry, Track};

/// Bytes of a packet after its 4-byte header.
const ROOM: usize = LEN - 4;

/// A range of a unit's payload: the bytes themselves, or a reference to where they can be read.
pub trait Part: Copy {
    /// Length, bytes.
    fn size(&self) -> usize;
}

impl Part for &[u8] {
    fn size(&self) -> usize {
        self.len()
    }
}

/// A segment in canonical form, ready to be written.
#[derive(Debug)]
pub struct Layout<P> {
    parts: Vec<P>,
    units: Vec<Held>,
    /// Number of packets before any is split.
    count: usize,
    splits: Splits,
    tables: Tables,
}

/// Write position within a [`Layout`].
#[derive(Clone, Debug)]
pub struct Pen {
    /// Index of the next unit and of the next packet.
    unit: usize,
    packet: usize,
    counters: [u8; 2],
    splits: Splits,
    tables: Tables,
    closed: bool,
}

/// A unit queued for writing.
#[derive(Debug)]
pub(super) struct Held {
    pub track: Track,
    /// PES header buffer, and how many of its bytes are used.
    pub header: ([u8; 19], u8),
    /// Adaptation field of the first packet without its length byte, and its length; 0 if there is none.
    pub field: ([u8; 7], u8),
    pub parts: Range<usize>,
    /// Bytes of header and parts together.
    pub len: usize,
}

impl<P: Part> Layout<P> {
    pub(super) fn new(parts: Vec<P>, units: Vec<Held>, entries: &[Entry]) -> Self {
        let mut counts = [0; 2];
        for held in units.iter().filter(|held| !held.is_bare()) {
            counts[held.track as usize] += held.packets();
        }
        let splits = Splits::plan(counts, |track| {
            let units = units.iter().rev().filter(move |held| held.track == track && !held.is_bare());
            let header = |held: &Held, n| if n == 0 { usize::from(held.header.1) } else { 0 };
            units.flat_map(move |held| (0..held.packets()).rev().map(move |n| (held.payload(n), header(held, n))))
        });
        let count = units.iter().map(Held::packets).sum();
        Self { parts, units, count, splits, tables: Tables::new(entries) }
    }

    /// Size of the whole segment, bytes.
    pub fn size(&self) -> usize {
        (self.count + self.splits.extra() + Tables::PACKETS) * LEN
    }

    /// Approximate memory used, bytes.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.parts.capacity() * size_of::<P>() + self.units.capacity() * size_of::<Held>()
    }

    /// A write position at the start of the segment.
    pub fn pen(&self) -> Pen {
        Pen {
            unit: 0,
            packet: 0,
            counters: [0; 2],
            splits: self.splits.clone(),
            tables: self.tables.clone(),
            closed: false,
        }
    }

    /// The next units to write: as many as fit into `most` bytes, at least one, none at the end.
    pub fn next(&self, pen: &Pen, most: usize) -> Range<usize> {
        let mut left = most;
        let fits = |held: &&Held| {
            let fits = held.len <= left;
            left = left.saturating_sub(held.len);
            fits
        };
        let many = self.units[pen.unit..].iter().take_while(fits).count();
        pen.unit..(pen.unit + many.max(1)).min(self.units.len())
    }

    /// Payload parts of these units.
    pub fn parts(&self, units: &Range<usize>) -> &[P] {
        match self.units.get(units.clone()) {
            Some([first, .., last]) => &self.parts[first.parts.start..last.parts.end],
            Some([only]) => &self.parts[only.parts.clone()],
            _ => &[],
        }
    }

    /// Appends the units that [`Self::next`] returned to `out`, and after the last unit the packets that close the
    /// segment. If a part has another length than it declared, the segment is corrupt.
    pub fn write<'b>(&self, pen: &mut Pen, units: Range<usize>, bytes: impl Fn(P) -> &'b [u8], out: &mut Vec<u8>) {
        for held in &self.units[units.clone()] {
            let mut rest = Rest { parts: &self.parts[held.parts.clone()], bytes: &bytes, left: &[] };
            let counter = &mut pen.counters[held.track as usize];
            let mut n = 0;
            while n < held.packets() {
                pen.tables.put(pen.packet, self.count, out);
                if held.is_bare() {
                    out.extend_from_slice(&held.bare(*counter));
                    (n, pen.packet) = (n + 1, pen.packet + 1);
                    continue;
                }
                // Fast path: nearly every packet is payload from one part, lies between two tables, and is not split.
                let most = (pen.tables.due(self.count) - pen.packet).min(pen.splits.unsplit(held.track));
                let plain = if n == 0 { 0 } else { rest.plain(held.track, most, counter, out) };
                if plain > 0 {
                    pen.splits.pass(held.track, plain);
                    (n, pen.packet) = (n + plain, pen.packet + plain);
                    continue;
                }
                held.packet(n, *counter, &mut rest, out);
                n += 1;
                match pen.splits.pieces(held.track) {
                    1 => *counter = counter.wrapping_add(1),
                    pieces => {
                        let Some(&packet) = out.last_chunk::<LEN>() else { continue };
                        out.truncate(out.len() - LEN);
                        if let Some(whole) = Packet::new(&packet) {
                            canonical::split(whole, &packet, pieces, counter, out);
                        }
                    }
                }
                pen.packet += 1;
            }
        }
        pen.unit = units.end;
        if pen.unit == self.units.len() && !pen.closed {
            pen.tables.close(out);
            pen.closed = true;
        }
    }

    /// True once the whole segment is written.
    pub fn is_written(&self, pen: &Pen) -> bool {
        pen.closed
    }
}

/// Writes units with continuous continuity counters, without closing them.
pub(super) fn numbered<'a>(parts: &[&'a [u8]], units: &[Held], counters: &mut [u8; 2]) -> Vec<u8> {
    let mut out = Vec::with_capacity(units.iter().map(Held::packets).sum::<usize>() * LEN);
    for held in units {
        let mut rest = Rest { parts: &parts[held.parts.clone()], bytes: &|part: &'a [u8]| part, left: &[] };
        let counter = &mut counters[held.track as usize];
        if held.is_bare() {
            out.extend_from_slice(&held.bare(*counter));
            continue;
        }
        for n in 0..held.packets() {
            held.packet(n, *counter, &mut rest, &mut out);
            *counter = counter.wrapping_add(1);
        }
    }
    out
}

impl Held {
    /// Payload capacity of packet `n`, bytes.
    fn room(&self, n: usize) -> usize {
        if n == 0 && self.field.1 > 0 { ROOM - 1 - usize::from(self.field.1) } else { ROOM }
    }

    /// True for an adaptation field without payload.
    fn is_bare(&self) -> bool {
        self.len == 0
    }

    /// The packet of a unit without payload. It repeats the continuity counter of the packet before it (section 2.4.3.3).
    fn bare(&self, counter: u8) -> [u8; LEN] {
        let mut packet = [0xff; LEN];
        let pid = self.track.pid().to_be_bytes();
        packet[..5].copy_from_slice(&[SYNC, pid[0], pid[1], 0x20 | counter.wrapping_sub(1) & 0x0f, (LEN - 5) as u8]);
        let field = &self.field.0[..usize::from(self.field.1)];
        packet[5..5 + field.len()].copy_from_slice(field);
        packet
    }

    fn packets(&self) -> usize {
        1 + self.len.saturating_sub(self.room(0)).div_ceil(ROOM)
    }

    /// Bytes of payload in packet `n`, which must exist.
    fn payload(&self, n: usize) -> usize {
        let before = if n == 0 { 0 } else { self.room(0) + (n - 1) * ROOM };
        (self.len - before).min(self.room(n))
    }

    fn packet<'b, P: Part>(&self, n: usize, counter: u8, rest: &mut Rest<'_, 'b, P>, out: &mut Vec<u8>) {
        let (start, header, field) = match n {
            0 => (0x40, &self.header.0[..usize::from(self.header.1)], &self.field.0[..usize::from(self.field.1)]),
            _ => (0, &[][..], &[][..]),
        };
        let payload = self.payload(n);
        let stuffing = self.room(n) - payload;
        let flags = if field.is_empty() && stuffing == 0 { 0x10 } else { 0x30 };
        let pid = self.track.pid().to_be_bytes();
        out.extend_from_slice(&[SYNC, start | pid[0], pid[1], flags | counter & 0x0f]);
        if flags == 0x30 {
            stuff(field, stuffing, out);
        }
        out.extend_from_slice(header);
        rest.take(payload - header.len(), out);
    }
}

/// The unwritten payload of a unit.
struct Rest<'a, 'b, P> {
    parts: &'a [P],
    bytes: &'a dyn Fn(P) -> &'b [u8],
    /// The rest of the current part.
    left: &'b [u8],
}

impl<P: Part> Rest<'_, '_, P> {
    /// Writes up to `most` packets of pure payload from the current part. Returns their number.
    fn plain(&mut self, track: Track, most: usize, counter: &mut u8, out: &mut Vec<u8>) -> usize {
        let payloads = self.left.as_chunks::<ROOM>().0;
        let payloads = &payloads[..most.min(payloads.len())];
        let pid = track.pid().to_be_bytes();
        for payload in payloads {
            let mut packet = [0; LEN];
            packet[..4].copy_from_slice(&[SYNC, pid[0], pid[1], 0x10 | *counter & 0x0f]);
            // In halves: a copy this short compiles to a few moves instead of a call.
            packet[4..4 + ROOM / 2].copy_from_slice(&payload[..ROOM / 2]);
            packet[4 + ROOM / 2..].copy_from_slice(&payload[ROOM / 2..]);
            out.extend_from_slice(&packet);
            *counter = counter.wrapping_add(1);
        }
        self.left = &self.left[payloads.len() * ROOM..];
        payloads.len()
    }

    fn take(&mut self, mut count: usize, out: &mut Vec<u8>) {
        while count > self.left.len() {
            out.extend_from_slice(self.left);
            count -= self.left.len();
            let Some((part, behind)) = self.parts.split_first() else { return };
            (self.left, self.parts) = ((self.bytes)(*part), behind);
        }
        let (now, later) = self.left.split_at(count);
        out.extend_from_slice(now);
        self.left = later;
    }
}

/// Writes an adaptation field padded by `stuffing` bytes.
fn stuff(field: &[u8], stuffing: usize, out: &mut Vec<u8>) {
    // Without a field, the length byte and then the flags byte are the first stuffing bytes.
    if field.is_empty() {
        out.push((stuffing - 1) as u8);
        if stuffing > 1 {
            out.push(0);
            out.resize(out.len() + stuffing - 2, 0xff);
        }
    } else {
        out.push((field.len() + stuffing) as u8);
        out.extend_from_slice(field);
        out.resize(out.len() + stuffing, 0xff);
    }
}

#[cfg(test)]
mod tests {
    use super::super::write::{Unit, Writer};
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    struct Filled(u8, usize);

    impl Part for Filled {
        fn size(&self) -> usize {
            self.1
        }
    }

    proptest! {
        #[test]
        fn what_is_written_in_pieces_is_what_is_written_at_once(
            shapes in proptest::collection::vec((any::<bool>(), any::<bool>(), 0usize..700, 0usize..9, any::<u8>()), 0..40),
            most in 0usize..2000,
        ) {
            let bytes: Vec<Vec<u8>> = (0..=255).map(|fill| vec![fill; 700]).collect();
            let entries = [Entry { pid: 0x41, stream_type: 0x1b, descriptors: Vec::new() }];
            let (mut early, mut late) = (Writer::new(Track::Video), Writer::new(Track::Video));
            for (at, &(video, random_access, size, more, fill)) in shapes.iter().enumerate() {
                let track = if video { Track::Video } else { Track::Audio };
                let (pts, dts) = (at as i64 * 1800, video.then_some(at as i64 * 1800));
                let parts = [Filled(fill, size), Filled(1, more)];
                let own = parts.map(|Filled(fill, size)| &bytes[usize::from(fill)][..size]);
                early.put(&Unit { track, pts, dts, random_access, parts: &own });
                late.put(&Unit { track, pts, dts, random_access, parts: &parts });
            }
            let layout = late.lay_out(&entries);
            let (mut pen, mut out) = (layout.pen(), Vec::new());
            while !layout.is_written(&pen) {
                let units = layout.next(&pen, most);
                prop_assert!(units.len() <= 1 || layout.parts(&units).iter().map(Part::size).sum::<usize>() <= most);
                layout.write(&mut pen, units, |Filled(fill, size)| &bytes[usize::from(fill)][..size], &mut out);
            }
            prop_assert_eq!(out.len(), layout.size());
            prop_assert_eq!(out, early.finish(&entries));
        }
    }
}
