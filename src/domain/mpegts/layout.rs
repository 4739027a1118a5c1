//! A segment whose packets are planned but not yet written. Packet boundaries follow from lengths alone. Its size is
//! therefore known before any payload is read, and any run of whole units can be written separately.

use std::ops::Range;

use super::canonical::{self, SplitPlan, TableWriter};
use super::packet::{PACKET_LEN, Packet, SYNC_BYTE};
use super::psi::{PmtEntry, TrackKind};

/// Bytes of a packet after its 4-byte header.
const PACKET_CAPACITY: usize = PACKET_LEN - 4;

/// A range of a unit's payload: the bytes themselves, or a reference to where they can be read.
pub trait PayloadPart: Copy {
    fn byte_len(&self) -> usize;
}

impl PayloadPart for &[u8] {
    fn byte_len(&self) -> usize {
        self.len()
    }
}

/// A segment in canonical form, ready to be written.
#[derive(Debug)]
pub struct SegmentLayout<P> {
    parts: Vec<P>,
    units: Vec<QueuedUnit>,
    /// Number of packets before any is split.
    packet_count: usize,
    splits: SplitPlan,
    tables: TableWriter,
}

/// Write position within a [`SegmentLayout`].
#[derive(Clone, Debug)]
pub struct LayoutCursor {
    /// Index of the next unit and of the next packet.
    next_unit: usize,
    next_packet: usize,
    continuity_counters: [u8; 2],
    splits: SplitPlan,
    tables: TableWriter,
    is_closed: bool,
}

#[derive(Debug)]
pub(super) struct QueuedUnit {
    pub track: TrackKind,
    /// PES header buffer, and how many of its bytes are used.
    pub header: ([u8; 19], u8),
    /// Adaptation field of the first packet without its length byte, and its length; 0 without one.
    pub adaptation_field: ([u8; 7], u8),
    pub parts: Range<usize>,
    /// Bytes of header and parts together.
    pub len: usize,
}

impl<P: PayloadPart> SegmentLayout<P> {
    pub(super) fn new(parts: Vec<P>, units: Vec<QueuedUnit>, entries: &[PmtEntry]) -> Self {
        let mut counts = [0; 2];
        for unit in units.iter().filter(|unit| !unit.is_clock_only()) {
            counts[unit.track as usize] += unit.packet_count();
        }
        let splits = SplitPlan::plan(counts, |track| {
            let units = units.iter().rev().filter(move |unit| unit.track == track && !unit.is_clock_only());
            let header_len = |unit: &QueuedUnit, n| if n == 0 { usize::from(unit.header.1) } else { 0 };
            units.flat_map(move |unit| {
                (0..unit.packet_count()).rev().map(move |n| (unit.payload_len(n), header_len(unit, n)))
            })
        });
        let packet_count = units.iter().map(QueuedUnit::packet_count).sum();
        Self { parts, units, packet_count, splits, tables: TableWriter::new(entries) }
    }

    pub fn size_bytes(&self) -> usize {
        (self.packet_count + self.splits.extra_packets() + TableWriter::PACKET_COUNT) * PACKET_LEN
    }

    /// Approximate memory used, bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.parts.capacity() * size_of::<P>() + self.units.capacity() * size_of::<QueuedUnit>()
    }

    pub fn cursor(&self) -> LayoutCursor {
        LayoutCursor {
            next_unit: 0,
            next_packet: 0,
            continuity_counters: [0; 2],
            splits: self.splits.clone(),
            tables: self.tables.clone(),
            is_closed: false,
        }
    }

    /// The next units to write: as many as fit into `max_bytes`, at least one, none at the end.
    pub fn next_units(&self, cursor: &LayoutCursor, max_bytes: usize) -> Range<usize> {
        let mut remaining = max_bytes;
        let fits = |unit: &&QueuedUnit| {
            let fits = unit.len <= remaining;
            remaining = remaining.saturating_sub(unit.len);
            fits
        };
        let count = self.units[cursor.next_unit..].iter().take_while(fits).count();
        cursor.next_unit..(cursor.next_unit + count.max(1)).min(self.units.len())
    }

    pub fn unit_parts(&self, units: &Range<usize>) -> &[P] {
        match self.units.get(units.clone()) {
            Some([first, .., last]) => &self.parts[first.parts.start..last.parts.end],
            Some([only]) => &self.parts[only.parts.clone()],
            _ => &[],
        }
    }

    /// Appends the units that [`Self::next_units`] returned to `out`, and after the last unit the packets that close the
    /// segment. If a part has another length than it declared, the segment is corrupt.
    pub fn write<'b>(
        &self,
        cursor: &mut LayoutCursor,
        units: Range<usize>,
        bytes: impl Fn(P) -> &'b [u8],
        out: &mut Vec<u8>,
    ) {
        for unit in &self.units[units.clone()] {
            let mut rest = RemainingPayload { parts: &self.parts[unit.parts.clone()], read_part: &bytes, current: &[] };
            let counter = &mut cursor.continuity_counters[unit.track as usize];
            let mut n = 0;
            while n < unit.packet_count() {
                cursor.tables.write_due(cursor.next_packet, self.packet_count, out);
                if unit.is_clock_only() {
                    out.extend_from_slice(&unit.clock_packet(*counter));
                    (n, cursor.next_packet) = (n + 1, cursor.next_packet + 1);
                    continue;
                }
                // Fast path: nearly every packet is payload from one part, lies between two tables, and is not split.
                let max_packets = (cursor.tables.next_due(self.packet_count) - cursor.next_packet)
                    .min(cursor.splits.packets_before_next_split(unit.track));
                let written = if n == 0 { 0 } else { rest.write_full_packets(unit.track, max_packets, counter, out) };
                if written > 0 {
                    cursor.splits.skip(unit.track, written);
                    (n, cursor.next_packet) = (n + written, cursor.next_packet + written);
                    continue;
                }
                unit.write_packet(n, *counter, &mut rest, out);
                n += 1;
                match cursor.splits.next_piece_count(unit.track) {
                    1 => *counter = counter.wrapping_add(1),
                    pieces => {
                        let Some(&packet) = out.last_chunk::<PACKET_LEN>() else { continue };
                        out.truncate(out.len() - PACKET_LEN);
                        if let Some(whole) = Packet::new(&packet) {
                            canonical::split_packet(whole, &packet, pieces, counter, out);
                        }
                    }
                }
                cursor.next_packet += 1;
            }
        }
        cursor.next_unit = units.end;
        if cursor.next_unit == self.units.len() && !cursor.is_closed {
            cursor.tables.write_rest(out);
            cursor.is_closed = true;
        }
    }

    pub fn is_written(&self, cursor: &LayoutCursor) -> bool {
        cursor.is_closed
    }
}

/// Writes units with continuous continuity counters, without closing them.
pub(super) fn write_numbered<'a>(parts: &[&'a [u8]], units: &[QueuedUnit], counters: &mut [u8; 2]) -> Vec<u8> {
    let mut out = Vec::with_capacity(units.iter().map(QueuedUnit::packet_count).sum::<usize>() * PACKET_LEN);
    for unit in units {
        let mut rest =
            RemainingPayload { parts: &parts[unit.parts.clone()], read_part: &|part: &'a [u8]| part, current: &[] };
        let counter = &mut counters[unit.track as usize];
        if unit.is_clock_only() {
            out.extend_from_slice(&unit.clock_packet(*counter));
            continue;
        }
        for n in 0..unit.packet_count() {
            unit.write_packet(n, *counter, &mut rest, &mut out);
            *counter = counter.wrapping_add(1);
        }
    }
    out
}

impl QueuedUnit {
    /// Payload capacity of packet `n`, bytes.
    fn payload_capacity(&self, n: usize) -> usize {
        match self.adaptation_field.1 {
            len @ 1.. if n == 0 => PACKET_CAPACITY - 1 - usize::from(len),
            _ => PACKET_CAPACITY,
        }
    }

    fn adaptation_field(&self) -> &[u8] {
        &self.adaptation_field.0[..usize::from(self.adaptation_field.1)]
    }

    /// True for an adaptation field without payload.
    fn is_clock_only(&self) -> bool {
        self.len == 0
    }

    /// The packet of a unit without payload. It repeats the continuity counter of the packet before it (section 2.4.3.3).
    fn clock_packet(&self, counter: u8) -> [u8; PACKET_LEN] {
        let mut packet = [0xff; PACKET_LEN];
        let pid = self.track.pid().to_be_bytes();
        let flags = 0x20 | counter.wrapping_sub(1) & 0x0f;
        packet[..5].copy_from_slice(&[SYNC_BYTE, pid[0], pid[1], flags, (PACKET_LEN - 5) as u8]);
        let field = self.adaptation_field();
        packet[5..5 + field.len()].copy_from_slice(field);
        packet
    }

    fn packet_count(&self) -> usize {
        1 + self.len.saturating_sub(self.payload_capacity(0)).div_ceil(PACKET_CAPACITY)
    }

    /// Bytes of payload in packet `n`, which must exist.
    fn payload_len(&self, n: usize) -> usize {
        let before = if n == 0 { 0 } else { self.payload_capacity(0) + (n - 1) * PACKET_CAPACITY };
        (self.len - before).min(self.payload_capacity(n))
    }

    fn write_packet<'b, P: PayloadPart>(
        &self,
        n: usize,
        counter: u8,
        rest: &mut RemainingPayload<'_, 'b, P>,
        out: &mut Vec<u8>,
    ) {
        let (start, header, field) = match n {
            0 => (0x40, &self.header.0[..usize::from(self.header.1)], self.adaptation_field()),
            _ => (0, &[][..], &[][..]),
        };
        let payload = self.payload_len(n);
        let stuffing = self.payload_capacity(n) - payload;
        let flags = if field.is_empty() && stuffing == 0 { 0x10 } else { 0x30 };
        let pid = self.track.pid().to_be_bytes();
        out.extend_from_slice(&[SYNC_BYTE, start | pid[0], pid[1], flags | counter & 0x0f]);
        if flags == 0x30 {
            write_adaptation_field(field, stuffing, out);
        }
        out.extend_from_slice(header);
        rest.write_bytes(payload - header.len(), out);
    }
}

struct RemainingPayload<'a, 'b, P> {
    parts: &'a [P],
    read_part: &'a dyn Fn(P) -> &'b [u8],
    /// The rest of the current part.
    current: &'b [u8],
}

impl<P: PayloadPart> RemainingPayload<'_, '_, P> {
    /// Writes up to `max` packets of pure payload from the current part. Returns their number.
    fn write_full_packets(&mut self, track: TrackKind, max: usize, counter: &mut u8, out: &mut Vec<u8>) -> usize {
        let payloads = self.current.as_chunks::<PACKET_CAPACITY>().0;
        let payloads = &payloads[..max.min(payloads.len())];
        let pid = track.pid().to_be_bytes();
        for payload in payloads {
            let mut packet = [0; PACKET_LEN];
            packet[..4].copy_from_slice(&[SYNC_BYTE, pid[0], pid[1], 0x10 | *counter & 0x0f]);
            // In halves: a copy this short compiles to a few moves instead of a call.
            packet[4..4 + PACKET_CAPACITY / 2].copy_from_slice(&payload[..PACKET_CAPACITY / 2]);
            packet[4 + PACKET_CAPACITY / 2..].copy_from_slice(&payload[PACKET_CAPACITY / 2..]);
            out.extend_from_slice(&packet);
            *counter = counter.wrapping_add(1);
        }
        self.current = &self.current[payloads.len() * PACKET_CAPACITY..];
        payloads.len()
    }

    fn write_bytes(&mut self, mut count: usize, out: &mut Vec<u8>) {
        while count > self.current.len() {
            out.extend_from_slice(self.current);
            count -= self.current.len();
            let Some((part, rest)) = self.parts.split_first() else { return };
            (self.current, self.parts) = ((self.read_part)(*part), rest);
        }
        let (head, tail) = self.current.split_at(count);
        out.extend_from_slice(head);
        self.current = tail;
    }
}

/// Writes an adaptation field padded by `stuffing` bytes.
fn write_adaptation_field(field: &[u8], stuffing: usize, out: &mut Vec<u8>) {
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
    use super::super::ts_writer::{AccessUnit, TsWriter};
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    struct FillPart(u8, usize);

    impl PayloadPart for FillPart {
        fn byte_len(&self) -> usize {
            self.1
        }
    }

    proptest! {
        #[test]
        fn written_in_steps_equals_written_at_once(
            shapes in proptest::collection::vec((any::<bool>(), any::<bool>(), 0usize..700, 0usize..9, any::<u8>()), 0..40),
            most in 0usize..2000,
        ) {
            let bytes: Vec<Vec<u8>> = (0..=255).map(|fill| vec![fill; 700]).collect();
            let entries = [PmtEntry { pid: 0x41, stream_type: 0x1b, descriptors: Vec::new() }];
            let (mut early, mut late) = (TsWriter::new(TrackKind::Video), TsWriter::new(TrackKind::Video));
            for (at, &(video, random_access, size, more, fill)) in shapes.iter().enumerate() {
                let track = if video { TrackKind::Video } else { TrackKind::Audio };
                let (pts, dts) = (at as i64 * 1800, video.then_some(at as i64 * 1800));
                let parts = [FillPart(fill, size), FillPart(1, more)];
                let own = parts.map(|FillPart(fill, size)| &bytes[usize::from(fill)][..size]);
                early.push_unit(&AccessUnit { track, pts, dts, random_access, parts: &own });
                late.push_unit(&AccessUnit { track, pts, dts, random_access, parts: &parts });
            }
            let layout = late.into_layout(&entries);
            let (mut cursor, mut out) = (layout.cursor(), Vec::new());
            while !layout.is_written(&cursor) {
                let units = layout.next_units(&cursor, most);
                prop_assert!(units.len() <= 1 || layout.unit_parts(&units).iter().map(PayloadPart::byte_len).sum::<usize>() <= most);
                layout.write(&mut cursor, units, |FillPart(fill, size)| &bytes[usize::from(fill)][..size], &mut out);
            }
            prop_assert_eq!(out.len(), layout.size_bytes());
            prop_assert_eq!(out, early.into_segment(&entries));
        }
    }
}
