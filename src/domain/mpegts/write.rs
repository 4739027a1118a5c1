//! Writes video and audio frames as the packets of one segment: PES headers, PCR, stuffing.
//!
//! No payload is copied before all units are known. The segment is then written at once or in parts ([`super::layout`]).

use super::WRAP;
use super::layout::{self, Held, Layout, Part};
use super::tables::{Entry, Track};

/// Largest length that the PES length field can express, bytes.
const MOST_STATED: usize = 65_535;

/// One video or audio frame.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'p, P> {
    pub track: Track,
    /// Presentation time on the stream's own clock, ticks of 90 kHz; wrapped to 33 bits when written.
    pub pts: i64,
    /// Decoding time, ticks. If set, it is written even when equal to the PTS: shifting one of the two later needs the
    /// room.
    pub dts: Option<i64>,
    /// A player can start decoding here.
    pub random_access: bool,
    /// The payload, as parts to be concatenated.
    pub parts: &'p [P],
}

/// Collects the units of one segment. A part is the bytes themselves or a reference to where they can be read.
#[derive(Debug)]
pub struct Writer<P> {
    parts: Vec<P>,
    units: Vec<Held>,
    /// The track that carries the PCR, at the decoding time of each of its units.
    clock: Track,
}

impl<P: Part> Writer<P> {
    pub fn new(clock: Track) -> Self {
        Self { parts: Vec::new(), units: Vec::new(), clock }
    }

    /// Adds a unit. Units must arrive in order of decoding time.
    pub fn put(&mut self, unit: &Unit<'_, P>) {
        let size = unit.parts.iter().map(Part::size).sum();
        let header = head(unit, size);
        let from = self.parts.len();
        self.parts.extend_from_slice(unit.parts);
        self.units.push(Held {
            track: unit.track,
            header,
            field: self.field(unit),
            parts: from..self.parts.len(),
            len: usize::from(header.1) + size,
        });
    }

    /// Adds a PCR (ticks) in a packet without payload.
    pub fn put_clock(&mut self, pcr: i64) {
        let at = self.parts.len();
        self.units.push(Held {
            track: self.clock,
            header: ([0; 19], 0),
            field: (clock_field(pcr, false), 7),
            parts: at..at,
            len: 0,
        });
    }

    /// Lays out the segment in canonical form, to be written when its bytes are requested.
    pub fn lay_out(mut self, entries: &[Entry]) -> Layout<P> {
        self.parts.shrink_to_fit();
        self.units.shrink_to_fit();
        Layout::new(self.parts, self.units, entries)
    }

    fn field(&self, unit: &Unit<'_, P>) -> ([u8; 7], u8) {
        match unit.track == self.clock {
            true => (clock_field(unit.dts.unwrap_or(unit.pts), unit.random_access), 7),
            false => ([if unit.random_access { 0x40 } else { 0 }, 0, 0, 0, 0, 0, 0], u8::from(unit.random_access)),
        }
    }
}

/// Content of an adaptation field with a PCR (section 2.4.3.4), without its length byte.
fn clock_field(pcr: i64, random_access: bool) -> [u8; 7] {
    let pcr = pcr.rem_euclid(WRAP) as u64;
    let [a, b, c, d] = ((pcr >> 1) as u32).to_be_bytes();
    [if random_access { 0x50 } else { 0x10 }, a, b, c, d, ((pcr & 1) << 7) as u8 | 0x7e, 0]
}

impl Writer<&[u8]> {
    /// Writes the whole segment in canonical form.
    pub fn finish(self, entries: &[Entry]) -> Vec<u8> {
        let layout = Layout::new(self.parts, self.units, entries);
        let (mut pen, mut out) = (layout.pen(), Vec::with_capacity(layout.size()));
        let all = layout.next(&pen, usize::MAX);
        layout.write(&mut pen, all, |part| part, &mut out);
        out
    }

    /// Writes the packets of a continuous stream that is not segmented; each gets its track's next continuity counter.
    pub fn numbered(self, counters: &mut [u8; 2]) -> Vec<u8> {
        layout::numbered(&self.parts, &self.units, counters)
    }
}

/// PES header (ISO/IEC 13818-1 section 2.4.3.6) for a unit of `size` bytes, and the header's length.
fn head<P>(unit: &Unit<'_, P>, size: usize) -> ([u8; 19], u8) {
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
    (into, 9 + stamps as u8)
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
    use crate::domain::mpegts::canonical;
    use crate::domain::mpegts::packet::{LEN, Packet};
    use crate::domain::mpegts::pes;
    use proptest::prelude::*;

    /// PES packets of one track in a segment: header, random access indicator and payload.
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

    /// The video and audio packets.
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
                writer.put(&Unit { track, pts, dts, random_access, parts: &[head, &[][..], tail] });
                want[usize::from(video)].push((pts.rem_euclid(WRAP), dts.unwrap_or(pts).rem_euclid(WRAP), random_access, bytes));
            }
            let segment = writer.finish(&[]);
            let packets = || segment.as_chunks::<LEN>().0.iter().filter_map(Packet::new);
            prop_assert_eq!(packets().count() * LEN, segment.len());
            prop_assert_eq!(packets().filter(|packet| Track::of_pid(packet.pid()).is_none()).count(), 32);
            prop_assert_eq!(&media(&segment), &media(&canonical::segment(&media(&segment), &[])), "already canonical");
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
