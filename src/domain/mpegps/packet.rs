//! Pack headers and PES packet headers.

use crate::domain::mpegts::pes::{self, parse_timestamp};
use crate::domain::time::Ticks;

/// Largest header or packet, bytes: a packet states its length in 16 bits.
pub const MAX_UNIT_BYTES: usize = (1 << 16) + 6;

/// Most stuffing bytes in the header of an MPEG-1 packet.
const MAX_MPEG1_STUFFING: usize = 16;

/// The beginning of a pack, or of a packet in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackUnit {
    /// A pack header, the end code, or a packet without media: its length, bytes.
    Other(usize),
    Packet(PacketHeader),
}

/// The header of a PES packet that may contain media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    pub stream_id: u8,
    pub header_len: usize,
    /// Length of header and payload, bytes.
    pub total_len: usize,
    /// 33 bits.
    pub pts: Option<Ticks>,
    /// Equal to `pts` if the packet has no DTS.
    pub dts: Option<Ticks>,
}

impl PackUnit {
    /// Parses the unit at the start of `bytes`; None if no unit begins there.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let &[0, 0, 1, stream_id] = bytes.first_chunk::<4>()? else { return None };
        match stream_id {
            0xb9 => Some(Self::Other(4)),
            0xba => pack_header_len(bytes).map(Self::Other),
            // Private stream 1 (AC-3 and others), audio and video.
            0xbd | 0xc0..=0xef => parse_packet(stream_id, bytes).map(Self::Packet),
            0xbb.. => Some(Self::Other(usize::from(u16::from_be_bytes([*bytes.get(4)?, *bytes.get(5)?])) + 6)),
            _ => None,
        }
    }
}

/// Length of the pack header at the start of `bytes`; None if none begins there.
pub fn pack_header_len(bytes: &[u8]) -> Option<usize> {
    match bytes {
        // Markers of the clock reference: `01`, and a bit after each part of it.
        [0, 0, 1, 0xba, a, _, b, _, c, _, _, _, _, stuffing, ..] if a & 0xc4 == 0x44 && b & 4 == 4 && c & 4 == 4 => {
            Some(14 + usize::from(stuffing & 7))
        }
        [0, 0, 1, 0xba, a, _, b, _, c, ..] if a & 0xf1 == 0x21 && b & 1 == 1 && c & 1 == 1 => Some(12),
        _ => None,
    }
}

fn parse_packet(stream_id: u8, bytes: &[u8]) -> Option<PacketHeader> {
    if let Some(header) = pes::parse(bytes) {
        // A length of 0 is for transport streams.
        let total_len = header.total_len.filter(|len| *len >= header.header_len)?;
        return Some(PacketHeader {
            stream_id,
            header_len: header.header_len,
            total_len,
            pts: header.pts,
            dts: header.dts,
        });
    }
    let total_len = usize::from(u16::from_be_bytes([*bytes.get(4)?, *bytes.get(5)?])) + 6;
    let stuffing = bytes.get(6..)?.iter().take(MAX_MPEG1_STUFFING).take_while(|byte| **byte == 0xff).count();
    let mut at = 6 + stuffing;
    if bytes.get(at)? & 0xc0 == 0x40 {
        // Scale and size of the decoder's buffer.
        at += 2;
    }
    let (header_len, pts, dts) = match bytes.get(at)? >> 4 {
        2 => (at + 5, parse_timestamp(bytes.get(at..)?), None),
        3 => (at + 10, parse_timestamp(bytes.get(at..)?), parse_timestamp(bytes.get(at + 5..)?)),
        0 if bytes.get(at) == Some(&0x0f) => (at + 1, None, None),
        _ => return None,
    };
    (total_len >= header_len).then_some(PacketHeader { stream_id, header_len, total_len, pts, dts: dts.or(pts) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_of_both_versions_are_read() {
        let pack = [0, 0, 1, 0xba, 0x44, 0, 4, 0, 4, 1, 0, 0, 3, 0xfa, 0xff, 0xff];
        assert_eq!(PackUnit::parse(&pack), Some(PackUnit::Other(16)));
        let mpeg1_pack = [0, 0, 1, 0xba, 0x21, 0, 1, 0, 1, 0x80, 0, 1];
        assert_eq!(PackUnit::parse(&mpeg1_pack), Some(PackUnit::Other(12)));
        assert_eq!(PackUnit::parse(&[0, 0, 1, 0xba, 0x41, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None, "no markers");
        assert_eq!(PackUnit::parse(&[0, 0, 1, 0xbe, 0, 2, 9, 9]), Some(PackUnit::Other(8)), "padding");
        assert_eq!(PackUnit::parse(&[0, 0, 1, 0, 0, 2, 9, 9]), None, "a picture");
        let header = |stream_id, header_len, total_len, pts: Option<i64>, dts: Option<i64>| {
            let (pts, dts) = (pts.map(Ticks), dts.map(Ticks));
            Some(PackUnit::Packet(PacketHeader { stream_id, header_len, total_len, pts, dts }))
        };
        let packet = [0, 0, 1, 0xe0, 0, 20, 0x80, 0xc0, 10, 0x31, 0, 1, 0, 7, 0x11, 0, 1, 0, 3, 5];
        assert_eq!(PackUnit::parse(&packet), header(0xe0, 19, 26, Some(3), Some(1)));
        let mpeg1 = [0, 0, 1, 0xc0, 0, 20, 0xff, 0xff, 0x60, 0x20, 0x21, 0, 1, 0, 7, 5];
        assert_eq!(PackUnit::parse(&mpeg1), header(0xc0, 15, 26, Some(3), Some(3)));
        let both = [0, 0, 1, 0xe0, 0, 20, 0x31, 0, 1, 0, 7, 0x11, 0, 1, 0, 3, 5];
        assert_eq!(PackUnit::parse(&both), header(0xe0, 16, 26, Some(3), Some(1)));
        assert_eq!(PackUnit::parse(&[0, 0, 1, 0xe0, 0, 20, 0x0f, 5]), header(0xe0, 7, 26, None, None));
        assert_eq!(PackUnit::parse(&[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0]), None, "without a length");
        assert_eq!(
            PackUnit::parse(&[0, 0, 1, 0xe0, 0, 4, 0x80, 0x80, 5, 0x21, 0, 1, 0, 7]),
            None,
            "shorter than its header"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(id in 0xb0u8.., tail in proptest::collection::vec(any::<u8>(), 0..40)) {
            let bytes: Vec<u8> = [0, 0, 1, id].into_iter().chain(tail).collect();
            match PackUnit::parse(&bytes) {
                Some(PackUnit::Packet(header)) => {
                    prop_assert!(header.header_len >= 7 && header.total_len >= header.header_len);
                    prop_assert!(header.total_len <= MAX_UNIT_BYTES);
                }
                Some(PackUnit::Other(len)) => prop_assert!((4..=MAX_UNIT_BYTES).contains(&len)),
                None => {}
            }
        }
    }
}
