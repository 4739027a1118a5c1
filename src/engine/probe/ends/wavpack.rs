//! WavPack (WavPack 4 & 5 Binary File / Block Format): the end of the last blocks.

use super::{largest_number, parse_le};

const HEADER_BYTES: usize = 32;

/// The end of the last complete block in a piece of the file, samples.
pub(super) fn end_samples(bytes: &[u8]) -> Option<u64> {
    largest_number(bytes, parse_block).filter(|end| *end > 0)
}

/// End of a block in samples, and its length in bytes.
fn parse_block(bytes: &[u8]) -> Option<(u64, usize)> {
    let len = parse_le::<4>(bytes, 4)? as usize + 8;
    let version = parse_le::<2>(bytes, 8)?;
    if !bytes.starts_with(b"wvpk") || !(0x402..=0x410).contains(&version) || len < HEADER_BYTES || len > bytes.len() {
        return None;
    }
    let first_sample = parse_le::<4>(bytes, 16)? | parse_le::<1>(bytes, 10)? << 32;
    Some((first_sample + parse_le::<4>(bytes, 20)?, len))
}
