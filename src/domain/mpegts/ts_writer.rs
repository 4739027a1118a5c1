//! Writes video and audio frames as the packets of one segment: PES headers, PCR, stuffing.
//!
//! No payload is copied before all units are known. The segment is then written at once or in parts ([`super::layout`]).

use super::TIMESTAMP_WRAP;
use super::layout::{self, PayloadPart, QueuedUnit, SegmentLayout};
use super::psi::{PmtEntry, TrackKind};

/// Largest length that the PES length field can express, bytes.
const MAX_PES_LENGTH: usize = 65_535;

/// One video or audio frame.
#[derive(Clone, Copy, Debug)]
pub struct AccessUnit<'p, P> {
    pub track: TrackKind,
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
pub struct TsWriter<P> {
    parts: Vec<P>,
    units: Vec<QueuedUnit>,
    /// The track that carries the PCR, at the decoding time of each of its units.
    pcr_track: TrackKind,
}

impl<P: PayloadPart> TsWriter<P> {
    pub fn new(pcr_track: TrackKind) -> Self {
        Self { parts: Vec::new(), units: Vec::new(), pcr_track }
    }

    /// Adds a unit. Units must arrive in order of decoding time.
    pub fn push_unit(&mut self, unit: &AccessUnit<'_, P>) {
        let size = unit.parts.iter().map(PayloadPart::byte_len).sum();
        let header = pes_header(unit, size);
        let start = self.parts.len();
        self.parts.extend_from_slice(unit.parts);
        self.units.push(QueuedUnit {
            track: unit.track,
            header,
            adaptation_field: self.adaptation_field(unit),
            parts: start..self.parts.len(),
            len: usize::from(header.1) + size,
        });
    }

    /// Adds a PCR (ticks) in a packet without payload.
    pub fn push_pcr(&mut self, pcr: i64) {
        let end = self.parts.len();
        self.units.push(QueuedUnit {
            track: self.pcr_track,
            header: ([0; 19], 0),
            adaptation_field: (pcr_field(pcr, false), 7),
            parts: end..end,
            len: 0,
        });
    }

    /// Lays out the segment in canonical form, to be written when its bytes are requested.
    pub fn into_layout(mut self, entries: &[PmtEntry]) -> SegmentLayout<P> {
        self.parts.shrink_to_fit();
        self.units.shrink_to_fit();
        SegmentLayout::new(self.parts, self.units, entries)
    }

    fn adaptation_field(&self, unit: &AccessUnit<'_, P>) -> ([u8; 7], u8) {
        match unit.track == self.pcr_track {
            true => (pcr_field(unit.dts.unwrap_or(unit.pts), unit.random_access), 7),
            false => ([if unit.random_access { 0x40 } else { 0 }, 0, 0, 0, 0, 0, 0], u8::from(unit.random_access)),
        }
    }
}

/// Content of an adaptation field with a PCR (section 2.4.3.4), without its length byte.
fn pcr_field(pcr: i64, random_access: bool) -> [u8; 7] {
    let pcr = pcr.rem_euclid(TIMESTAMP_WRAP) as u64;
    let [a, b, c, d] = ((pcr >> 1) as u32).to_be_bytes();
    [if random_access { 0x50 } else { 0x10 }, a, b, c, d, ((pcr & 1) << 7) as u8 | 0x7e, 0]
}

impl TsWriter<&[u8]> {
    /// Writes the whole segment in canonical form.
    pub fn into_segment(self, entries: &[PmtEntry]) -> Vec<u8> {
        let layout = SegmentLayout::new(self.parts, self.units, entries);
        let (mut cursor, mut out) = (layout.cursor(), Vec::with_capacity(layout.size_bytes()));
        let units = layout.next_units(&cursor, usize::MAX);
        layout.write(&mut cursor, units, |part| part, &mut out);
        out
    }

    /// Writes the packets of a continuous stream that is not segmented; each gets its track's next continuity counter.
    pub fn into_numbered_packets(self, counters: &mut [u8; 2]) -> Vec<u8> {
        layout::write_numbered(&self.parts, &self.units, counters)
    }
}

/// PES header (ISO/IEC 13818-1 section 2.4.3.6) for a unit of `size` bytes, and the header's length.
fn pes_header<P>(unit: &AccessUnit<'_, P>, size: usize) -> ([u8; 19], u8) {
    let mut header = [0; 19];
    let (id, stamps_len) = match unit.track {
        TrackKind::Video => (0xe0, 5 + unit.dts.map_or(0, |_| 5)),
        TrackKind::Audio => (0xc0, 5),
    };
    let length = 3 + stamps_len + size;
    let length = if length > MAX_PES_LENGTH { [0, 0] } else { (length as u16).to_be_bytes() };
    header[..9].copy_from_slice(&[0, 0, 1, id, length[0], length[1], 0x80, 0x80, stamps_len as u8]);
    match unit.dts.filter(|_| stamps_len == 10) {
        None => header[9..14].copy_from_slice(&timestamp_field(2, unit.pts)),
        Some(dts) => {
            header[7] = 0xc0;
            header[9..14].copy_from_slice(&timestamp_field(3, unit.pts));
            header[14..19].copy_from_slice(&timestamp_field(1, dts));
        }
    }
    (header, 9 + stamps_len as u8)
}

fn timestamp_field(prefix: u8, time: i64) -> [u8; 5] {
    let time = time.rem_euclid(TIMESTAMP_WRAP);
    let seven_bits = |shift: i64| ((time >> shift) & 0x7f) as u8;
    [
        prefix << 4 | ((time >> 30) as u8 & 7) << 1 | 1,
        (time >> 22) as u8,
        seven_bits(15) << 1 | 1,
        (time >> 7) as u8,
        seven_bits(0) << 1 | 1,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::mpegts::canonical;
    use crate::domain::mpegts::packet::{PACKET_LEN, Packet};
    use crate::domain::mpegts::pes;
    use proptest::prelude::*;

    /// PES packets of one track in a segment: header, random access indicator and payload.
    fn pes_packets(segment: &[u8], track: TrackKind) -> Vec<(pes::PesHeader, bool, Vec<u8>)> {
        let mut found: Vec<(bool, Vec<u8>)> = Vec::new();
        for packet in segment.as_chunks::<PACKET_LEN>().0.iter().filter_map(Packet::new) {
            if packet.pid() == track.pid() {
                if packet.starts_unit() {
                    found.push((packet.is_random_access_point(), Vec::new()));
                }
                found.last_mut().unwrap().1.extend_from_slice(packet.payload());
            }
        }
        let parse = |(random, bytes): (bool, Vec<u8>)| {
            let header = pes::parse(&bytes).unwrap();
            (header, random, bytes[header.header_len..].to_vec())
        };
        found.into_iter().map(parse).collect()
    }

    fn media_packets(segment: &[u8]) -> Vec<u8> {
        let packets = segment.as_chunks::<PACKET_LEN>().0.iter();
        let own = packets.filter(|raw| Packet::new(raw).is_some_and(|one| TrackKind::from_pid(one.pid()).is_some()));
        own.flatten().copied().collect()
    }

    proptest! {
        #[test]
        fn written_units_read_back(
            shapes in proptest::collection::vec((any::<bool>(), any::<bool>(), 0i64..2 * TIMESTAMP_WRAP, 0usize..700, any::<u8>()), 0..40),
            large in 65_500usize..65_600,
        ) {
            let bytes = |n: usize, size: usize, fill: u8| vec![fill; if n == 0 { large } else { size }];
            let all: Vec<Vec<u8>> = shapes.iter().enumerate().map(|(n, shape)| bytes(n, shape.3, shape.4)).collect();
            let mut writer = TsWriter::new(TrackKind::Video);
            let mut expected = [Vec::new(), Vec::new()];
            for (&(video, random_access, pts, _, cut), bytes) in shapes.iter().zip(&all) {
                let track = if video { TrackKind::Video } else { TrackKind::Audio };
                let dts = video.then_some(pts - 7200);
                let (head, tail) = bytes.split_at(usize::from(cut).min(bytes.len()));
                writer.push_unit(&AccessUnit { track, pts, dts, random_access, parts: &[head, &[][..], tail] });
                expected[usize::from(video)].push((pts.rem_euclid(TIMESTAMP_WRAP), dts.unwrap_or(pts).rem_euclid(TIMESTAMP_WRAP), random_access, bytes));
            }
            let segment = writer.into_segment(&[]);
            let packets = || segment.as_chunks::<PACKET_LEN>().0.iter().filter_map(Packet::new);
            prop_assert_eq!(packets().count() * PACKET_LEN, segment.len());
            prop_assert_eq!(packets().filter(|packet| TrackKind::from_pid(packet.pid()).is_none()).count(), 32);
            prop_assert_eq!(&media_packets(&segment), &media_packets(&canonical::canonicalise(&media_packets(&segment), &[])), "already canonical");
            for track in [TrackKind::Audio, TrackKind::Video] {
                let got = pes_packets(&segment, track);
                let expected_units = &expected[usize::from(track == TrackKind::Video)];
                prop_assert_eq!(got.len(), expected_units.len());
                for ((header, random, bytes), (pts, dts, random_access, sent)) in got.into_iter().zip(expected_units) {
                    prop_assert_eq!((header.pts, header.dts), (Some(*pts), Some(*dts)));
                    prop_assert_eq!(random, *random_access);
                    prop_assert!(header.total_len.is_none_or(|total| total == header.header_len + sent.len()));
                    prop_assert_eq!(&bytes, *sent);
                }
            }
        }
    }
}
