//! WavPack (WavPack 4 & 5 Binary File / Block Format): the end of the last blocks.

use super::little;

const HEADER: usize = 32;

/// The end of the last complete block in a piece of the file, samples.
pub(super) fn end(piece: &[u8]) -> Option<u64> {
    let mut last = None;
    let mut at = 0;
    while at + HEADER <= piece.len() {
        match block(&piece[at..]) {
            Some((end, len)) => {
                last = last.max(Some(end));
                at += len;
            }
            None => at += 1,
        }
    }
    last.filter(|end| *end > 0)
}

/// End of a block in samples, and its length in bytes.
fn block(bytes: &[u8]) -> Option<(u64, usize)> {
    let len = little::<4>(bytes, 4)? as usize + 8;
    let version = little::<2>(bytes, 8)?;
    if !bytes.starts_with(b"wvpk") || !(0x402..=0x410).contains(&version) || len < HEADER || len > bytes.len() {
        return None;
    }
    let first = little::<4>(bytes, 16)? | little::<1>(bytes, 10)? << 32;
    Some((first + little::<4>(bytes, 20)?, len))
}
