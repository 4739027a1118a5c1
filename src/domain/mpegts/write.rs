//! Writes pictures and sound as the packets of one segment: PES headers, the clock, stuffing.
//!
//! Nothing is copied before all is known: where a packet lies, and which are split to close the counters, follows from the
//! lengths alone. So every byte of a film is moved once, from where it was read to where it is sent from.

use std::ops::Range;

use super::WRAP;
use super::canonical::{self, Splits, Tables};
use super::packet::{LEN, Packet, SYNC};
use super::tables::{Entry, Track};

/// Bytes of a packet behind its header.
const ROOM: usize = LEN - 4;

/// Most bytes a PES packet can say that it has.
const MOST_STATED: usize = 65_535;

/// One picture, or one frame of sound.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a, 'p> {
    pub track: Track,
    /// Ticks of the stream's own clock, 90 kHz; wrapped to 33 bits here.
    pub pts: i64,
    /// Written beside the PTS where there is one, even when both are equal: a later shift of one needs the room.
    pub dts: Option<i64>,
    /// A player can begin here.
    pub random_access: bool,
    /// Its bytes, one part behind the other.
    pub parts: &'p [&'a [u8]],
}

/// A segment in the making.
#[derive(Debug)]
pub struct Writer<'a> {
    parts: Vec<&'a [u8]>,
    units: Vec<Held>,
    /// The stream that carries the clock (PCR), at the decoding time of every unit.
    clock: Track,
}

/// A unit that waits to be written.
#[derive(Debug)]
struct Held {
    track: Track,
    /// PES header, and how much of it counts.
    header: ([u8; 19], usize),
    /// The adaptation field of the first packet without its length; nothing where there is nothing to say.
    field: ([u8; 7], usize),
    parts: Range<usize>,
    /// Bytes of header and parts.
    len: usize,
}

impl<'a> Writer<'a> {
    pub fn new(clock: Track) -> Self {
        Self { parts: Vec::new(), units: Vec::new(), clock }
    }

    /// Adds a unit; units come in the order of their decoding times.
    pub fn put(&mut self, unit: &Unit<'a, '_>) {
        let size = unit.parts.iter().map(|part| part.len()).sum();
        let header = head(unit, size);
        let from = self.parts.len();
        self.parts.extend_from_slice(unit.parts);
        self.units.push(Held {
            track: unit.track,
            header,
            field: self.field(unit),
            parts: from..self.parts.len(),
            len: header.1 + size,
        });
    }

    /// The whole segment in canonical form.
    pub fn finish(self, entries: &[Entry]) -> Vec<u8> {
        let mut counts = [0; 2];
        for held in &self.units {
            counts[held.track as usize] += held.packets();
        }
        let count = counts[0] + counts[1];
        let mut splits = Splits::plan(counts, |track| {
            let units = self.units.iter().rev().filter(move |held| held.track == track);
            units.flat_map(|held| (0..held.packets()).rev().map(|n| (held.payload(n), n == 0)))
        });
        let mut tables = Tables::new(entries);
        let mut out = Vec::with_capacity((count + splits.extra() + Tables::PACKETS) * LEN);
        let (mut counters, mut index) = ([0u8; 2], 0);
        for held in &self.units {
            let mut rest = Rest { parts: &self.parts[held.parts.clone()], at: 0 };
            let counter = &mut counters[held.track as usize];
            for n in 0..held.packets() {
                tables.put(index, count, &mut out);
                held.packet(n, *counter, &mut rest, &mut out);
                match splits.pieces(held.track) {
                    1 => *counter = counter.wrapping_add(1),
                    pieces => {
                        let Some(&packet) = out.last_chunk::<LEN>() else { continue };
                        out.truncate(out.len() - LEN);
                        if let Some(whole) = Packet::new(&packet) {
                            canonical::split(whole, &packet, pieces, counter, &mut out);
                        }
                    }
                }
                index += 1;
            }
        }
        tables.close(&mut out);
        out
    }

    /// The packets as they are, each with the next number of its stream: those of a stream without segments.
    pub fn numbered(self, counters: &mut [u8; 2]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.units.iter().map(Held::packets).sum::<usize>() * LEN);
        for held in &self.units {
            let mut rest = Rest { parts: &self.parts[held.parts.clone()], at: 0 };
            let counter = &mut counters[held.track as usize];
            for n in 0..held.packets() {
                held.packet(n, *counter, &mut rest, &mut out);
                *counter = counter.wrapping_add(1);
            }
        }
        out
    }

    fn field(&self, unit: &Unit) -> ([u8; 7], usize) {
        let mut field = [0; 7];
        field[0] = if unit.random_access { 0x40 } else { 0 };
        if unit.track != self.clock {
            return (field, usize::from(unit.random_access));
        }
        let pcr = unit.dts.unwrap_or(unit.pts).rem_euclid(WRAP) as u64;
        field[0] |= 0x10;
        field[1..5].copy_from_slice(&((pcr >> 1) as u32).to_be_bytes());
        field[5] = ((pcr & 1) << 7) as u8 | 0x7e;
        (field, 7)
    }
}

impl Held {
    /// Room for payload in packet `n`.
    fn room(&self, n: usize) -> usize {
        if n == 0 && self.field.1 > 0 { ROOM - 1 - self.field.1 } else { ROOM }
    }

    fn packets(&self) -> usize {
        1 + self.len.saturating_sub(self.room(0)).div_ceil(ROOM)
    }

    /// Bytes of payload in packet `n`, which there is.
    fn payload(&self, n: usize) -> usize {
        let before = if n == 0 { 0 } else { self.room(0) + (n - 1) * ROOM };
        (self.len - before).min(self.room(n))
    }

    /// Writes packet `n`.
    fn packet(&self, n: usize, counter: u8, rest: &mut Rest, out: &mut Vec<u8>) {
        let (start, header, field) = match n {
            0 => (0x40, &self.header.0[..self.header.1], &self.field.0[..self.field.1]),
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

/// What is left of a unit's parts.
struct Rest<'a> {
    parts: &'a [&'a [u8]],
    /// Taken of the first.
    at: usize,
}

impl Rest<'_> {
    fn take(&mut self, mut count: usize, out: &mut Vec<u8>) {
        while let Some((part, behind)) = self.parts.split_first() {
            let left = &part[self.at..];
            if count < left.len() {
                out.extend_from_slice(&left[..count]);
                self.at += count;
                return;
            }
            out.extend_from_slice(left);
            count -= left.len();
            (self.parts, self.at) = (behind, 0);
        }
    }
}

/// An adaptation field that takes `stuffing` bytes more than it needs.
fn stuff(field: &[u8], stuffing: usize, out: &mut Vec<u8>) {
    // Without content of its own the length, and then the flags, are the first bytes of stuffing.
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

/// The PES header (ISO/IEC 13818-1 section 2.4.3.6) of a unit of `size` bytes, and its length.
fn head(unit: &Unit, size: usize) -> ([u8; 19], usize) {
    let mut into = [0; 19];
    let (id, stamps) = match unit.track {
        Track::Video => (0xe0, 5 + unit.dts.map_or(0, |_| 5)),
        Track::Audio => (0xc0, 5),
    };
    let length = 3 + stamps + size;
    let length = if length > MOST_STATED { [0, 0] } else { (length as u16).to_be_bytes() };
    into[..9].copy_from_slice(&[0, 0, 1, id, length[0], length[1], 0x80, 0x80, stamps as u8]);
    match unit.dts.filter(|_| stamps == 10) {
        None => into[9..14].copy_from_slice(&stamp(2, unit.pts)),
        Some(dts) => {
            into[7] = 0xc0;
            into[9..14].copy_from_slice(&stamp(3, unit.pts));
            into[14..19].copy_from_slice(&stamp(1, dts));
        }
    }
    (into, 9 + stamps)
}

fn stamp(mark: u8, time: i64) -> [u8; 5] {
    let time = time.rem_euclid(WRAP);
    let seven = |shift: i64| ((time >> shift) & 0x7f) as u8;
    [
        mark << 4 | ((time >> 30) as u8 & 7) << 1 | 1,
        (time >> 22) as u8,
        seven(15) << 1 | 1,
        (time >> 7) as u8,
        seven(0) << 1 | 1,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mpegts::packet::Packet;
    use crate::domain::mpegts::pes;
    use proptest::prelude::*;

    /// PES packets of a track, out of a segment: header and payload.
    fn units(segment: &[u8], track: Track) -> Vec<(pes::Header, bool, Vec<u8>)> {
        let mut found: Vec<(bool, Vec<u8>)> = Vec::new();
        for packet in segment.as_chunks::<LEN>().0.iter().filter_map(Packet::new) {
            if packet.pid() == track.pid() {
                if packet.starts_unit() {
                    found.push((packet.random_access(), Vec::new()));
                }
                found.last_mut().unwrap().1.extend_from_slice(packet.payload());
            }
        }
        let parse = |(random, bytes): (bool, Vec<u8>)| {
            let header = pes::parse(&bytes).unwrap();
            (header, random, bytes[header.header..].to_vec())
        };
        found.into_iter().map(parse).collect()
    }

    /// The packets of picture and sound.
    fn media(segment: &[u8]) -> Vec<u8> {
        let packets = segment.as_chunks::<LEN>().0.iter();
        let own = packets.filter(|bytes| Packet::new(bytes).is_some_and(|one| Track::of_pid(one.pid()).is_some()));
        own.flatten().copied().collect()
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            shapes in proptest::collection::vec((any::<bool>(), any::<bool>(), 0i64..2 * WRAP, 0usize..700, any::<u8>()), 0..40),
            large in 65_500usize..65_600,
        ) {
            let bytes = |n: usize, size: usize, fill: u8| vec![fill; if n == 0 { large } else { size }];
            let all: Vec<Vec<u8>> = shapes.iter().enumerate().map(|(n, shape)| bytes(n, shape.3, shape.4)).collect();
            let mut writer = Writer::new(Track::Video);
            let mut want = [Vec::new(), Vec::new()];
            for (&(video, random_access, pts, _, cut), bytes) in shapes.iter().zip(&all) {
                let track = if video { Track::Video } else { Track::Audio };
                let dts = video.then_some(pts - 7200);
                let (head, tail) = bytes.split_at(usize::from(cut).min(bytes.len()));
                writer.put(&Unit { track, pts, dts, random_access, parts: &[head, &[], tail] });
                want[usize::from(video)].push((pts.rem_euclid(WRAP), dts.unwrap_or(pts).rem_euclid(WRAP), random_access, bytes));
            }
            let segment = writer.finish(&[]);
            let packets = || segment.as_chunks::<LEN>().0.iter().filter_map(Packet::new);
            prop_assert_eq!(packets().count() * LEN, segment.len());
            prop_assert_eq!(packets().filter(|packet| Track::of_pid(packet.pid()).is_none()).count(), 32);
            prop_assert_eq!(&media(&segment), &media(&canonical::segment(&media(&segment), &[])), "canonical as it is");
            for track in [Track::Audio, Track::Video] {
                let got = units(&segment, track);
                let want = &want[usize::from(track == Track::Video)];
                prop_assert_eq!(got.len(), want.len());
                for ((header, random, bytes), (pts, dts, random_access, sent)) in got.into_iter().zip(want) {
                    prop_assert_eq!((header.pts, header.dts), (Some(*pts), Some(*dts)));
                    prop_assert_eq!(random, *random_access);
                    prop_assert!(header.total.is_none_or(|total| total == header.header + sent.len()));
                    prop_assert_eq!(&bytes, *sent);
                }
            }
        }
    }
}
