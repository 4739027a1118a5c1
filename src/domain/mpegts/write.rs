//! Writes pictures and sound as the packets of one segment: PES headers, the clock, stuffing.

use super::WRAP;
use super::canonical;
use super::packet::{LEN, SYNC};
use super::tables::{Entry, Track};

/// Bytes of a packet behind its header.
const ROOM: usize = LEN - 4;

/// Most bytes a PES packet can say that it has.
const MOST_STATED: usize = 65_535;

/// One picture, or one frame of sound.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    pub track: Track,
    /// Ticks of the stream's own clock, 90 kHz; wrapped to 33 bits here.
    pub pts: i64,
    /// Written beside the PTS where there is one, even when both are equal: a later shift of one needs the room.
    pub dts: Option<i64>,
    /// A player can begin here.
    pub random_access: bool,
    pub bytes: &'a [u8],
}

/// A segment in the making.
#[derive(Debug)]
pub struct Writer {
    packets: Vec<u8>,
    /// The stream that carries the clock (PCR), at the decoding time of every unit.
    clock: Track,
}

impl Writer {
    /// `payload` is how many bytes are expected.
    pub fn new(clock: Track, payload: usize) -> Self {
        Self { packets: Vec::with_capacity(payload + payload / 16), clock }
    }

    /// Adds a unit; units come in the order of their decoding times.
    pub fn put(&mut self, unit: &Unit) {
        let mut header = [0; 19];
        let header = head(unit, &mut header);
        let mut field = [0; 7];
        let mut field = self.field(unit, &mut field);
        let (mut header, mut bytes) = (header, unit.bytes);
        let mut start = 0x40;
        while !header.is_empty() || !bytes.is_empty() {
            let pid = unit.track.pid().to_be_bytes();
            let space = ROOM - if field.is_empty() { 0 } else { field.len() + 1 };
            let now = bytes.len().min(space - header.len());
            let stuffing = space - header.len() - now;
            let flags = if field.is_empty() && stuffing == 0 { 0x10 } else { 0x30 };
            self.packets.extend_from_slice(&[SYNC, start | pid[0], pid[1], flags]);
            if flags == 0x30 {
                self.stuff(field, stuffing);
            }
            self.packets.extend_from_slice(header);
            let (taken, rest) = bytes.split_at(now);
            self.packets.extend_from_slice(taken);
            (header, bytes, field, start) = (&[], rest, &[], 0);
        }
    }

    /// The whole segment in canonical form.
    pub fn finish(self, entries: &[Entry]) -> Vec<u8> {
        canonical::segment(&self.packets, entries)
    }

    /// The adaptation field of a unit's first packet, without its length; empty where there is nothing to say.
    fn field<'a>(&self, unit: &Unit, into: &'a mut [u8; 7]) -> &'a [u8] {
        let random = if unit.random_access { 0x40 } else { 0 };
        if unit.track == self.clock {
            let pcr = unit.dts.unwrap_or(unit.pts).rem_euclid(WRAP) as u64;
            into[0] = 0x10 | random;
            into[1..5].copy_from_slice(&((pcr >> 1) as u32).to_be_bytes());
            into[5] = ((pcr & 1) << 7) as u8 | 0x7e;
            into
        } else if unit.random_access {
            into[0] = random;
            &into[..1]
        } else {
            &[]
        }
    }

    /// An adaptation field that takes `stuffing` bytes more than it needs.
    fn stuff(&mut self, field: &[u8], stuffing: usize) {
        // Without content of its own the length, and then the flags, are the first bytes of stuffing.
        if field.is_empty() {
            self.packets.push((stuffing - 1) as u8);
            if stuffing > 1 {
                self.packets.push(0);
                self.packets.resize(self.packets.len() + stuffing - 2, 0xff);
            }
        } else {
            self.packets.push((field.len() + stuffing) as u8);
            self.packets.extend_from_slice(field);
            self.packets.resize(self.packets.len() + stuffing, 0xff);
        }
    }
}

/// The PES header (ISO/IEC 13818-1 section 2.4.3.6).
fn head<'a>(unit: &Unit, into: &'a mut [u8; 19]) -> &'a [u8] {
    let (id, stamps) = match unit.track {
        Track::Video => (0xe0, 5 + unit.dts.map_or(0, |_| 5)),
        Track::Audio => (0xc0, 5),
    };
    let length = 3 + stamps + unit.bytes.len();
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
    &into[..9 + stamps]
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

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            shapes in proptest::collection::vec((any::<bool>(), any::<bool>(), 0i64..2 * WRAP, 0usize..700, any::<u8>()), 0..40),
            large in 65_500usize..65_600,
        ) {
            let mut writer = Writer::new(Track::Video, 0);
            let mut want = [Vec::new(), Vec::new()];
            for (n, &(video, random_access, pts, size, fill)) in shapes.iter().enumerate() {
                let bytes = vec![fill; if n == 0 { large } else { size }];
                let track = if video { Track::Video } else { Track::Audio };
                let dts = video.then_some(pts - 7200);
                writer.put(&Unit { track, pts, dts, random_access, bytes: &bytes });
                want[usize::from(video)].push((pts.rem_euclid(WRAP), dts.unwrap_or(pts).rem_euclid(WRAP), random_access, bytes));
            }
            prop_assert_eq!(writer.packets.len() % LEN, 0);
            let segment = writer.finish(&[]);
            for track in [Track::Audio, Track::Video] {
                let got = units(&segment, track);
                let want = &want[usize::from(track == Track::Video)];
                prop_assert_eq!(got.len(), want.len());
                for ((header, random, bytes), (pts, dts, random_access, sent)) in got.into_iter().zip(want) {
                    prop_assert_eq!((header.pts, header.dts), (Some(*pts), Some(*dts)));
                    prop_assert_eq!(random, *random_access);
                    prop_assert!(header.total.is_none_or(|total| total == header.header + sent.len()));
                    prop_assert_eq!(&bytes, sent);
                }
            }
        }
    }
}
