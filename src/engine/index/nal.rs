//! The first slice of a picture, by its NAL units (ITU-T H.264 section 7.4.1, ITU-T H.265 section 7.4.2.2).

use super::frame_kind::FrameKind;
use crate::engine::container::bytes::{ReadAt, Truncated};

/// Maximum number of NAL units checked before the first slice: delimiters, parameter sets and SEI precede it.
const MAX_UNITS: usize = 64;

/// Bytes read at a time; parameter sets and the slice's first byte usually fit.
const CHUNK_BYTES: usize = 1024;

/// Maximum number of bytes searched for a start code.
const MAX_SEARCH_BYTES: usize = 256 * 1024;

/// The kind of a slice by the first byte of its NAL unit; None for other units.
pub(super) type SliceKind = fn(u8) -> Option<FrameKind>;

/// The kind of a slice of H.264 by the first byte of its NAL unit; None for other units.
pub(super) fn avc_slice_kind(first_byte: u8) -> Option<FrameKind> {
    match first_byte & 0x1f {
        5 => Some(FrameKind::ClosedKeyframe),
        1..=4 => Some(FrameKind::Dependent),
        _ => None,
    }
}

/// The kind of a slice of HEVC. Of the random access points, BLA_W_LP and CRA may have leading pictures that need
/// pictures before them.
pub(super) fn hevc_slice_kind(first_byte: u8) -> Option<FrameKind> {
    match first_byte >> 1 & 0x3f {
        16 | 21 => Some(FrameKind::OpenKeyframe),
        17..=20 => Some(FrameKind::ClosedKeyframe),
        0..=31 => Some(FrameKind::Dependent),
        _ => None,
    }
}

/// The kind of a picture whose NAL units have length fields of `length_size` bytes, 1 to 4.
///
/// # Errors
/// The file ends before the picture's first slice.
pub(super) fn first_slice(
    picture: &(impl ReadAt + ?Sized),
    length_size: u8,
    slice_kind: SliceKind,
) -> Result<FrameKind, Truncated> {
    let end = picture.len();
    let length_bytes = usize::from(length_size.clamp(1, 4));
    let (mut position, mut chunk, mut chunk_start) = (0u64, Vec::new(), 0);
    for _ in 0..MAX_UNITS {
        if position.saturating_add(length_bytes as u64) >= end {
            return Ok(FrameKind::Dependent);
        }
        let chunk_offset = position.checked_sub(chunk_start).map(|from| from as usize);
        let buffered = chunk_offset.and_then(|from| chunk.get(from..from.checked_add(length_bytes + 1)?));
        let head: &[u8] = match buffered {
            Some(head) => head,
            None => {
                chunk.resize(CHUNK_BYTES, 0);
                let count = picture.read_at(&mut chunk, position);
                chunk.truncate(count);
                chunk_start = position;
                chunk.get(..length_bytes + 1).ok_or(Truncated)?
            }
        };
        let unit_len = head[..length_bytes].iter().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
        if let Some(kind) = slice_kind(head[length_bytes]) {
            return Ok(kind);
        }
        position = position.saturating_add(length_bytes as u64).saturating_add(unit_len);
    }
    Ok(FrameKind::Dependent)
}

/// The kind of an H.264 picture in a byte stream with start codes.
pub(super) fn first_avc_slice(picture: &(impl ReadAt + ?Sized)) -> Result<FrameKind, Truncated> {
    let mut bytes = vec![0; MAX_SEARCH_BYTES.min(usize::try_from(picture.len()).unwrap_or(MAX_SEARCH_BYTES))];
    let count = picture.read_at(&mut bytes, 0);
    Ok(first_slice_in_stream(&bytes[..count], avc_slice_kind).unwrap_or(FrameKind::Dependent))
}

/// The kind of the first slice in a byte stream with start codes; None if there is no slice yet.
pub(super) fn first_slice_in_stream(bytes: &[u8], slice_kind: SliceKind) -> Option<FrameKind> {
    let mut rest = bytes;
    while let Some(at) = rest.windows(3).position(|window| window == [0, 0, 1]) {
        let kind = slice_kind(*rest.get(at + 3)?);
        if kind.is_some() {
            return kind;
        }
        rest = &rest[at + 3..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::container::bytes::SampleBytes;

    #[test]
    fn leading_parameter_sets_are_skipped() {
        let idr = [0, 0, 0, 2, 0x67, 9, 0, 0, 0, 1, 0x68, 0, 0, 0, 2, 0x65, 1];
        let non_idr = [0, 0, 0, 2, 0x06, 9, 0, 0, 0, 2, 0x41, 1];
        assert_eq!(first_slice(&idr[..], 4, avc_slice_kind), Ok(FrameKind::ClosedKeyframe));
        assert_eq!(first_slice(&non_idr[..], 4, avc_slice_kind), Ok(FrameKind::Dependent));
        let avc = |bytes: &[u8]| first_slice_in_stream(bytes, avc_slice_kind);
        assert_eq!(avc(&[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x65]), Some(FrameKind::ClosedKeyframe));
        assert_eq!(avc(&[0, 0, 1, 9, 0xf0, 0, 0, 1, 0x21]), Some(FrameKind::Dependent));
        assert_eq!(avc(&[0, 0, 1, 9, 0xf0]), None);
        let hevc =
            |slice: u8| first_slice_in_stream(&[0, 0, 1, 0x46, 1, 0x50, 0, 0, 1, slice << 1, 1], hevc_slice_kind);
        assert_eq!(hevc(19), Some(FrameKind::ClosedKeyframe));
        assert_eq!(hevc(21), Some(FrameKind::OpenKeyframe));
        assert_eq!((hevc(1), hevc(34)), (Some(FrameKind::Dependent), None));
    }

    #[test]
    fn a_false_length_ends_the_search() {
        let false_length = [0xff, 0xff, 0xff, 0xff, 0x06, 9];
        assert_eq!(first_slice(&false_length[..], 4, avc_slice_kind), Ok(FrameKind::Dependent));
        let beyond_file = SampleBytes { file: &false_length[..], prefix: &[], offset: 0, size: u64::MAX };
        assert_eq!(first_slice(&beyond_file, 4, avc_slice_kind), Err(Truncated));
    }
}
