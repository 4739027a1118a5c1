//! Whether an H.264 picture is an IDR, by its first NAL units (ITU-T H.264 section 7.4.1).

use crate::engine::tables::bytes::{ReadAt, Short};

/// Maximum number of NAL units checked before the first slice: delimiters, parameter sets and SEI precede it.
const MOST_UNITS: usize = 64;

/// Bytes read at a time; parameter sets and the slice's first byte usually fit.
const PIECE: usize = 1024;

/// Maximum number of bytes searched for a start code.
const SEARCH: usize = 256 * 1024;

/// Whether the picture of `size` bytes at `offset` is an IDR. `nal_length` is the size of length fields, 1 to 4; 0 means
/// start codes.
///
/// # Errors
/// The file ends before the picture's first slice.
pub(super) fn is_idr(file: &(impl ReadAt + ?Sized), offset: u64, size: u64, nal_length: u8) -> Result<bool, Short> {
    if nal_length == 0 {
        let mut bytes = vec![0; SEARCH.min(usize::try_from(size).unwrap_or(SEARCH))];
        let read = file.read_at(&mut bytes, offset);
        return Ok(annex_b(&bytes[..read]) == Some(true));
    }
    let end = offset.saturating_add(size);
    let length_bytes = usize::from(nal_length.min(4));
    let (mut at, mut piece, mut piece_at) = (offset, Vec::new(), offset);
    for _ in 0..MOST_UNITS {
        if at.saturating_add(length_bytes as u64) >= end {
            return Ok(false);
        }
        let inside = at.checked_sub(piece_at).map(|from| from as usize);
        let known = inside.and_then(|from| piece.get(from..from + length_bytes + 1));
        let head: &[u8] = match known {
            Some(head) => head,
            None => {
                piece.resize(PIECE, 0);
                let read = file.read_at(&mut piece, at);
                piece.truncate(read);
                piece_at = at;
                piece.get(..length_bytes + 1).ok_or(Short)?
            }
        };
        let length = head[..length_bytes].iter().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
        match head[length_bytes] & 0x1f {
            5 => return Ok(true),
            1..=4 => return Ok(false),
            _ => at = at.saturating_add(length_bytes as u64).saturating_add(length),
        }
    }
    Ok(false)
}

/// Whether the first slice in a byte stream with start codes is an IDR's; None if there is no slice yet.
pub(super) fn annex_b(bytes: &[u8]) -> Option<bool> {
    let mut rest = bytes;
    while let Some(at) = rest.windows(3).position(|three| three == [0, 0, 1]) {
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
    fn parameter_sets_in_front_are_passed_over() {
        let idr = [0, 0, 0, 2, 0x67, 9, 0, 0, 0, 1, 0x68, 0, 0, 0, 2, 0x65, 1];
        let not = [0, 0, 0, 2, 0x06, 9, 0, 0, 0, 2, 0x41, 1];
        assert_eq!(is_idr(&idr[..], 0, idr.len() as u64, 4), Ok(true));
        assert_eq!(is_idr(&not[..], 0, not.len() as u64, 4), Ok(false));
        assert_eq!(annex_b(&[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x65]), Some(true));
        assert_eq!(annex_b(&[0, 0, 1, 9, 0xf0, 0, 0, 1, 0x21]), Some(false));
        assert_eq!(annex_b(&[0, 0, 1, 9, 0xf0]), None);
    }

    #[test]
    fn a_length_that_lies_ends_the_search() {
        let lies = [0xff, 0xff, 0xff, 0xff, 0x06, 9];
        assert_eq!(is_idr(&lies[..], 0, 6, 4), Ok(false));
        assert_eq!(is_idr(&lies[..], 0, u64::MAX, 4), Err(Short));
    }
}
