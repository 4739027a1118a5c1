//! PES packet headers (ISO/IEC 13818-1 section 2.4.3.6).

use crate::domain::time::Ticks;

/// The fields of a PES header that segmentation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PesHeader {
    /// Length of header and payload, bytes. None if the packet leaves it open, which only video may do.
    pub total_len: Option<usize>,
    pub header_len: usize,
    /// 33 bits.
    pub pts: Option<Ticks>,
    /// Equal to `pts` if the packet has no DTS.
    pub dts: Option<Ticks>,
}

/// Parses the header at the start of `bytes`. None if this is not a PES packet with the optional header of audio and
/// video.
pub fn parse(bytes: &[u8]) -> Option<PesHeader> {
    let (header_len, fixed_part) = (header_len(bytes)?, bytes.first_chunk::<9>()?);
    let length = usize::from(u16::from_be_bytes([fixed_part[4], fixed_part[5]]));
    let flags = fixed_part[7] >> 6;
    let pts = if flags & 2 != 0 { parse_timestamp(bytes.get(9..14)?) } else { None };
    let dts = if flags == 3 { parse_timestamp(bytes.get(14..19)?) } else { pts };
    Some(PesHeader { total_len: (length > 0).then_some(length + 6), header_len, pts, dts })
}

/// Length of the header at the start of `bytes`, which may end within it. None as for [`parse`].
pub fn header_len(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [0, 0, 1, _, _, _, flags, _, length, ..] if flags & 0xc0 == 0x80 => Some(9 + usize::from(*length)),
        _ => None,
    }
}

/// Parses a field of 33 bits at the start of `field`. None if it is shorter.
pub fn parse_timestamp(field: &[u8]) -> Option<Ticks> {
    let &[a, b, c, d, e] = field.first_chunk::<5>()?;
    let [a, b, c, d, e] = [a, b, c, d, e].map(i64::from);
    Some(Ticks((a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_both_timestamps() {
        // PTS 8,589,934,591 (all 33 bits) and DTS 1.
        let bytes = [0, 0, 1, 0xe0, 0, 20, 0x80, 0xc0, 10, 0x3f, 0xff, 0xff, 0xff, 0xff, 0x11, 0, 1, 0, 3];
        let header =
            PesHeader { total_len: Some(26), header_len: 19, pts: Some(Ticks((1 << 33) - 1)), dts: Some(Ticks(1)) };
        assert_eq!(parse(&bytes), Some(header));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(tail in proptest::collection::vec(any::<u8>(), 0..40)) {
            let bytes: Vec<u8> = [0, 0, 1, 0xe0].into_iter().chain(tail).collect();
            if let Some(pts) = parse(&bytes).and_then(|header| header.pts) {
                prop_assert_eq!(pts, pts.wrapped());
            }
        }
    }
}
