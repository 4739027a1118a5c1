//! Lacing: several frames in one block (RFC 9559 section 10.3).

use super::blocks::Block;
use super::ebml::parse_vint;
use crate::engine::container::bytes::{ByteCursor, ReadAt, Truncated};

/// Maximum size of the lace header: 255 sizes of a few bytes each.
const MAX_HEADER_BYTES: usize = 4096;

/// Offset and size of every frame of a block.
pub fn split_lacing(file: &(impl ReadAt + ?Sized), block: &Block) -> Result<Vec<(u64, u32)>, Truncated> {
    if block.lacing == 0 {
        return Ok(vec![(block.offset, u32::try_from(block.size).map_err(|_| Truncated)?)]);
    }
    let mut lace_header = vec![0; MAX_HEADER_BYTES.min(usize::try_from(block.size).unwrap_or(MAX_HEADER_BYTES))];
    let read = file.read_at(&mut lace_header, block.offset);
    let mut cursor = ByteCursor(&lace_header[..read]);
    let count = u64::from(cursor.u8()?) + 1;
    let sizes = parse_sizes(&mut cursor, block.lacing, count, block.size)?;
    let mut offset = block.offset + (read - cursor.0.len()) as u64;
    let mut remaining = block.size.checked_sub((read - cursor.0.len()) as u64).ok_or(Truncated)?;
    let mut frames = Vec::with_capacity(count as usize);
    for size in sizes {
        remaining = remaining.checked_sub(size).ok_or(Truncated)?;
        frames.push((offset, u32::try_from(size).map_err(|_| Truncated)?));
        offset += size;
    }
    // With Xiph and EBML lacing the last frame takes the remaining bytes.
    if block.lacing != 4 {
        frames.push((offset, u32::try_from(remaining).map_err(|_| Truncated)?));
    }
    Ok(frames)
}

/// The stored sizes: of all frames but the last, or of all frames with fixed-size lacing.
fn parse_sizes(cursor: &mut ByteCursor, lacing: u8, count: u64, total: u64) -> Result<Vec<u64>, Truncated> {
    let mut sizes = Vec::new();
    match lacing {
        // Xiph: the sum of bytes of 255 and the first smaller byte.
        2 => {
            for _ in 1..count {
                let mut size = 0;
                loop {
                    let byte = cursor.u8()?;
                    size += u64::from(byte);
                    if byte < 255 {
                        break;
                    }
                }
                sizes.push(size);
            }
        }
        4 => sizes = vec![total.saturating_sub(1) / count; count as usize],
        // EBML: the first size, then differences.
        _ => {
            let mut size = 0i64;
            for n in 1..count {
                let before = cursor.0.len();
                let value = i64::try_from(parse_vint(cursor)?.ok_or(Truncated)?).map_err(|_| Truncated)?;
                let vint_len = before - cursor.0.len();
                let bias = if n == 1 { 0 } else { (1i64 << (7 * vint_len - 1)) - 1 };
                size = size.checked_add(value - bias).filter(|&size| size >= 0).ok_or(Truncated)?;
                sizes.push(size as u64);
            }
        }
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(bytes: &[u8], lacing: u8) -> Block {
        let size = bytes.len() as u64;
        Block { track: 1, time: 0, offset: 0, size, lacing, may_be_keyframe: true, cluster: 0 }
    }

    #[test]
    fn every_kind_of_lacing_is_split() {
        // RFC 9559 section 10.3: frames of 800, 500 and 1000 bytes.
        let laced_block = |head: &[u8], body: usize| [head, &vec![0; body]].concat();
        let xiph = laced_block(&[2, 255, 255, 255, 35, 255, 245], 2300);
        assert_eq!(split_lacing(&xiph[..], &block(&xiph, 2)), Ok(vec![(7, 800), (807, 500), (1307, 1000)]));
        let ebml = laced_block(&[2, 0x43, 0x20, 0x5e, 0xd3], 2300);
        assert_eq!(split_lacing(&ebml[..], &block(&ebml, 6)), Ok(vec![(5, 800), (805, 500), (1305, 1000)]));
        let fixed = laced_block(&[2], 2400);
        assert_eq!(split_lacing(&fixed[..], &block(&fixed, 4)), Ok(vec![(1, 800), (801, 800), (1601, 800)]));
    }

    proptest! {
        #[test]
        fn frames_lie_inside_their_block_whatever_its_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            lacing in prop_oneof![Just(0u8), Just(2), Just(4), Just(6)],
        ) {
            for (offset, size) in split_lacing(&bytes[..], &block(&bytes, lacing)).unwrap_or_default() {
                prop_assert!(offset + u64::from(size) <= bytes.len() as u64);
            }
        }
    }
}
