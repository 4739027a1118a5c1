//! Ogg pages (RFC 3533 section 6), read from untrusted files and rewritten.

/// Maximum size of a page, bytes.
pub const MAX_PAGE_BYTES: usize = 65_307;

/// Page flag: the page begins with the rest of the previous page's last packet.
pub const CONTINUED: u8 = 1;
/// Page flag: first page of a logical stream.
pub const FIRST: u8 = 2;
/// Page flag: last page of a logical stream.
pub const LAST: u8 = 4;

/// The granule position of a page in which no packet ends.
pub const NO_GRANULE: u64 = u64::MAX;

/// A page header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Offset of the page in the file.
    pub at: u64,
    pub flags: u8,
    pub granule: u64,
    pub serial: u32,
    /// Number of packets that end in the page.
    pub packets: usize,
    /// Start of its content in the bytes it was found in.
    pub content: usize,
    /// Length of the whole page, bytes. The bytes it was found in may hold less.
    pub len: usize,
}

impl Page {
    pub fn is_first(&self) -> bool {
        self.flags & FIRST != 0
    }
}

/// The pages whose headers are in these bytes; `at` is the offset of the bytes in the file.
pub fn pages(bytes: &[u8], at: u64) -> impl Iterator<Item = Page> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let found = page(bytes, from, at)?;
        from = (found.at - at) as usize + found.len;
        Some(found)
    })
}

/// The first page at or after `from`; `at` is the offset of these bytes in the file.
pub fn page(bytes: &[u8], from: usize, at: u64) -> Option<Page> {
    let begin = bytes.get(from..)?.windows(6).position(|six| six[..5] == *b"OggS\0" && six[5] < 8)? + from;
    let header = &bytes[begin..];
    let segments = usize::from(*header.get(26)?);
    let lacing = header.get(27..27 + segments)?;
    let size: usize = lacing.iter().map(|len| usize::from(*len)).sum();
    Some(Page {
        at: at + begin as u64,
        flags: header[5],
        granule: u64::from_le_bytes(*header.get(6..)?.first_chunk()?),
        serial: u32::from_le_bytes(*header.get(14..)?.first_chunk()?),
        packets: lacing.iter().filter(|len| **len < 255).count(),
        content: begin + 27 + segments,
        len: 27 + segments + size,
    })
}

/// Writes new header fields and the checksum into a whole page.
pub fn rewrite(page: &mut [u8], flags: u8, granule: u64, serial: u32, sequence: u32) {
    let Some(header) = page.first_chunk_mut::<27>() else { return };
    header[5] = flags;
    header[6..14].copy_from_slice(&granule.to_le_bytes());
    header[14..18].copy_from_slice(&serial.to_le_bytes());
    header[18..22].copy_from_slice(&sequence.to_le_bytes());
    header[22..26].fill(0);
    let sum = checksum(page);
    page[22..26].copy_from_slice(&sum.to_le_bytes());
}

/// CRC-32 with the polynomial of ISO/IEC 13818-1, initial value 0 (RFC 3533 section 6, field 7).
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| sum << 8 ^ REMAINDERS[(sum >> 24) as usize ^ usize::from(*byte)])
}

/// Remainders of all bytes.
const REMAINDERS: [u32; 256] = {
    let mut remainders = [0; 256];
    let mut n = 0;
    while n < 256 {
        let (mut sum, mut bit) = ((n as u32) << 24, 0);
        while bit < 8 {
            sum = if sum >> 31 == 1 { sum << 1 ^ 0x04c1_1db7 } else { sum << 1 };
            bit += 1;
        }
        remainders[n] = sum;
        n += 1;
    }
    remainders
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rewritten_page_reads_back_with_a_valid_checksum() {
        // The first page of an Opus stream that libopusenc wrote has this form: one packet of 19 bytes.
        let mut bytes = [&b"OggS\0\x02\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x01\x13"[..], &[7; 19]].concat();
        rewrite(&mut bytes, LAST, 48_000, 9, 3);
        let found = page(&bytes, 0, 100).unwrap();
        assert_eq!((found.at, found.flags, found.granule, found.serial), (100, LAST, 48_000, 9));
        assert_eq!((found.packets, found.content, found.len), (1, 28, bytes.len()));
        // With its checksum in front of the zeroed field the sum is that of an intact page.
        let stated = u32::from_le_bytes(*bytes[22..].first_chunk().unwrap());
        bytes[22..26].fill(0);
        assert_eq!(checksum(&bytes), stated);
        // CRC-32/MPEG-2 without initial value of one byte is the polynomial.
        assert_eq!(checksum(&[1]), 0x04c1_1db7);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = [b"OggS\0\0", &bytes[..]].concat();
            prop_assert!(pages(&bytes, 7).count() <= bytes.len());
            rewrite(&mut bytes, 0, 1, 2, 3);
        }
    }
}
