//! Lacing: several frames in one block (RFC 9559 section 10.3).

use super::blocks::Block;
use super::ebml::vint;
use crate::engine::tables::bytes::{Cursor, ReadAt, Short};

/// Maximum size of the lace header: 255 sizes of a few bytes each.
const HEAD: usize = 4096;

/// Offset and size of every frame of a block.
pub fn frames(file: &(impl ReadAt + ?Sized), block: &Block) -> Result<Vec<(u64, u32)>, Short> {
    if block.lacing == 0 {
        return Ok(vec![(block.offset, u32::try_from(block.size).map_err(|_| Short)?)]);
    }
    let mut head = vec![0; HEAD.min(usize::try_from(block.size).unwrap_or(HEAD))];
    let read = file.read_at(&mut head, block.offset);
    let mut cursor = Cursor(&head[..read]);
    let count = u64::from(cursor.u8()?) + 1;
    let sizes = sizes(&mut cursor, block.lacing, count, block.size)?;
    let mut offset = block.offset + (read - cursor.0.len()) as u64;
    let mut left = block.size.checked_sub((read - cursor.0.len()) as u64).ok_or(Short)?;
    let mut frames = Vec::with_capacity(count as usize);
    for size in sizes {
        left = left.checked_sub(size).ok_or(Short)?;
        frames.push((offset, u32::try_from(size).map_err(|_| Short)?));
        offset += size;
    }
    // With Xiph and EBML lacing the last frame takes the remaining bytes.
    if block.lacing != 4 {
        frames.push((offset, u32::try_from(left).map_err(|_| Short)?));
    }
    Ok(frames)
}

/// The stored sizes: of all frames but the last, or of all frames with fixed-size lacing.
fn sizes(cursor: &mut Cursor, lacing: u8, count: u64, total: u64) -> Result<Vec<u64>, Short> {
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
                let value = i64::try_from(vint(cursor)?.ok_or(Short)?).map_err(|_| Short)?;
                let bytes = before - cursor.0.len();
                let bias = if n == 1 { 0 } else { (1i64 << (7 * bytes - 1)) - 1 };
                size = size.checked_add(value - bias).filter(|&size| size >= 0).ok_or(Short)?;
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
        Block { track: 1, time: 0, offset: 0, size: bytes.len() as u64, lacing }
    }

    #[test]
    fn every_kind_of_lace_is_taken_apart() {
        // RFC 9559 section 10.3: frames of 800, 500 and 1000 bytes.
        let lace = |head: &[u8], body: usize| [head, &vec![0; body]].concat();
        let xiph = lace(&[2, 255, 255, 255, 35, 255, 245], 2300);
        assert_eq!(frames(&xiph[..], &block(&xiph, 2)), Ok(vec![(7, 800), (807, 500), (1307, 1000)]));
        let ebml = lace(&[2, 0x43, 0x20, 0x5e, 0xd3], 2300);
        assert_eq!(frames(&ebml[..], &block(&ebml, 6)), Ok(vec![(5, 800), (805, 500), (1305, 1000)]));
        let fixed = lace(&[2], 2400);
        assert_eq!(frames(&fixed[..], &block(&fixed, 4)), Ok(vec![(1, 800), (801, 800), (1601, 800)]));
    }

    proptest! {
        #[test]
        fn frames_lie_inside_their_block_whatever_its_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            lacing in prop_oneof![Just(0u8), Just(2), Just(4), Just(6)],
        ) {
            for (offset, size) in frames(&bytes[..], &block(&bytes, lacing)).unwrap_or_default() {
                prop_assert!(offset + u64::from(size) <= bytes.len() as u64);
            }
        }
    }
}
