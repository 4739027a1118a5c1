//! Whether an H.264 picture is an IDR, by its first NAL units (ITU-T H.264 section 7.4.1).

use crate::engine::container::bytes::{ReadAt, Truncated};

/// Maximum number of NAL units checked before the first slice: delimiters, parameter sets and SEI precede it.
const MAX_UNITS: usize = 64;

/// Bytes read at a time; parameter sets and the slice's first byte usually fit.
const CHUNK_BYTES: usize = 1024;

/// Maximum number of bytes searched for a start code.
const MAX_SEARCH_BYTES: usize = 256 * 1024;

/// Whether the picture of `size` bytes at `offset` is an IDR. `length_size` is the size of length fields, 1 to 4; 0 means
/// start codes.
///
/// # Errors
/// The file ends before the picture's first slice.
pub(super) fn is_idr(
    file: &(impl ReadAt + ?Sized),
    offset: u64,
    size: u64,
    length_size: u8,
) -> Result<bool, Truncated> {
    if length_size == 0 {
        let mut bytes = vec![0; MAX_SEARCH_BYTES.min(usize::try_from(size).unwrap_or(MAX_SEARCH_BYTES))];
        let count = file.read_at(&mut bytes, offset);
        return Ok(first_slice_is_idr(&bytes[..count]) == Some(true));
    }
    let end = offset.saturating_add(size);
    let length_bytes = usize::from(length_size.min(4));
    let (mut position, mut chunk, mut chunk_start) = (offset, Vec::new(), offset);
    for _ in 0..MAX_UNITS {
        if position.saturating_add(length_bytes as u64) >= end {
            return Ok(false);
        }
        let chunk_offset = position.checked_sub(chunk_start).map(|from| from as usize);
        let buffered = chunk_offset.and_then(|from| chunk.get(from..from + length_bytes + 1));
        let head: &[u8] = match buffered {
            Some(head) => head,
            None => {
                chunk.resize(CHUNK_BYTES, 0);
                let count = file.read_at(&mut chunk, position);
                chunk.truncate(count);
                chunk_start = position;
                chunk.get(..length_bytes + 1).ok_or(Truncated)?
            }
        };
        let unit_len = head[..length_bytes].iter().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
        match head[length_bytes] & 0x1f {
            5 => return Ok(true),
            1..=4 => return Ok(false),
            _ => position = position.saturating_add(length_bytes as u64).saturating_add(unit_len),
        }
    }
    Ok(false)
}

/// Whether the first slice in a byte stream with start codes is an IDR's; None if there is no slice yet.
pub(super) fn first_slice_is_idr(bytes: &[u8]) -> Option<bool> {
    let mut rest = bytes;
    while let Some(at) = rest.windows(3).position(|window| window == [0, 0, 1]) {
        match rest.get(at + 3)? & 0x1f {
            5 => return Some(true),
            1..=4 => return Some(false),
            _ => rest = &rest[at + 3..],
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_parameter_sets_are_skipped() {
        let idr = [0, 0, 0, 2, 0x67, 9, 0, 0, 0, 1, 0x68, 0, 0, 0, 2, 0x65, 1];
        let non_idr = [0, 0, 0, 2, 0x06, 9, 0, 0, 0, 2, 0x41, 1];
        assert_eq!(is_idr(&idr[..], 0, idr.len() as u64, 4), Ok(true));
        assert_eq!(is_idr(&non_idr[..], 0, non_idr.len() as u64, 4), Ok(false));
        assert_eq!(first_slice_is_idr(&[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x65]), Some(true));
        assert_eq!(first_slice_is_idr(&[0, 0, 1, 9, 0xf0, 0, 0, 1, 0x21]), Some(false));
        assert_eq!(first_slice_is_idr(&[0, 0, 1, 9, 0xf0]), None);
    }

    #[test]
    fn a_false_length_ends_the_search() {
        let false_length = [0xff, 0xff, 0xff, 0xff, 0x06, 9];
        assert_eq!(is_idr(&false_length[..], 0, 6, 4), Ok(false));
        assert_eq!(is_idr(&false_length[..], 0, u64::MAX, 4), Err(Truncated));
    }
}
