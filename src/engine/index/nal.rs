//! The first slice of a picture, by its NAL units (ITU-T H.264 section 7.4.1, ITU-T H.265 section 7.4.2.2).

use super::RecoveryPoints;
use super::frame_kind::FrameKind;
use crate::domain::sei;
use crate::engine::container::bytes::{ReadAt, Truncated};

/// Maximum number of NAL units checked before the first slice: delimiters, parameter sets and SEI precede it.
const MAX_UNITS: usize = 64;

/// Bytes read at a time; parameter sets and the slice's first byte usually fit.
const CHUNK_BYTES: usize = 1024;

/// Bytes of a NAL unit that are examined; messages about decoding come first in theirs.
const UNIT_BYTES: usize = 256;

/// Maximum number of bytes searched for a start code.
const MAX_SEARCH_BYTES: usize = 256 * 1024;

/// The NAL units of a picture of H.264, in order: whether it is a keyframe.
pub(super) struct AvcUnits {
    accepts_recovery_points: bool,
    is_recovery_point: bool,
}

impl AvcUnits {
    pub(super) fn new(recovery_points: RecoveryPoints) -> Self {
        Self { accepts_recovery_points: recovery_points == RecoveryPoints::Accepted, is_recovery_point: false }
    }

    /// The picture's kind by the first bytes of its next unit; None unless that is a slice.
    pub(super) fn picture_kind(&mut self, unit: &[u8]) -> Option<FrameKind> {
        match unit.first()? & 0x1f {
            5 => Some(FrameKind::ClosedKeyframe),
            1..=4 if self.is_recovery_point => Some(FrameKind::OpenKeyframe),
            1..=4 => Some(FrameKind::Dependent),
            6 if self.accepts_recovery_points => {
                self.is_recovery_point |= sei::has_recovery_point(unit);
                None
            }
            _ => None,
        }
    }
}

/// The kind of a picture of HEVC by the first bytes of a slice; None for other units. Of the random access points, BLA_W_LP and
/// CRA may have leading pictures that need pictures before them.
pub(super) fn hevc_picture_kind(unit: &[u8]) -> Option<FrameKind> {
    match unit.first()? >> 1 & 0x3f {
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
pub(super) fn picture_kind(
    picture: &(impl ReadAt + ?Sized),
    length_size: u8,
    mut kind_by_unit: impl FnMut(&[u8]) -> Option<FrameKind>,
) -> Result<FrameKind, Truncated> {
    let end = picture.len();
    let length_bytes = usize::from(length_size.clamp(1, 4));
    let (mut position, mut chunk, mut chunk_start) = (0u64, Vec::new(), 0);
    for _ in 0..MAX_UNITS {
        if position.saturating_add(length_bytes as u64) >= end {
            return Ok(FrameKind::Dependent);
        }
        let needed = (end - position).min((length_bytes + UNIT_BYTES) as u64);
        let is_buffered = position >= chunk_start && position + needed <= chunk_start + chunk.len() as u64;
        if !is_buffered {
            chunk.resize(CHUNK_BYTES, 0);
            let count = picture.read_at(&mut chunk, position);
            chunk.truncate(count);
            chunk_start = position;
        }
        let bytes = &chunk[(position - chunk_start) as usize..];
        let (length, unit) =
            bytes.split_at_checked(length_bytes).filter(|(_, unit)| !unit.is_empty()).ok_or(Truncated)?;
        let unit_len = length.iter().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
        let examined = unit.len().min(UNIT_BYTES).min(usize::try_from(unit_len).unwrap_or(UNIT_BYTES));
        if let Some(kind) = kind_by_unit(&unit[..examined]) {
            return Ok(kind);
        }
        position = position.saturating_add(length_bytes as u64).saturating_add(unit_len);
    }
    Ok(FrameKind::Dependent)
}

/// The kind of an H.264 picture in a byte stream with start codes.
pub(super) fn avc_picture_kind(
    picture: &(impl ReadAt + ?Sized),
    recovery_points: RecoveryPoints,
) -> Result<FrameKind, Truncated> {
    let mut units = AvcUnits::new(recovery_points);
    let mut bytes = vec![0; MAX_SEARCH_BYTES.min(usize::try_from(picture.len()).unwrap_or(MAX_SEARCH_BYTES))];
    let count = picture.read_at(&mut bytes, 0);
    let kind = picture_kind_in_stream(&bytes[..count], |unit| units.picture_kind(unit));
    Ok(kind.unwrap_or(FrameKind::Dependent))
}

/// The kind of the picture that begins a byte stream with start codes; None if its first slice is missing yet.
pub(super) fn picture_kind_in_stream(
    bytes: &[u8],
    mut kind_by_unit: impl FnMut(&[u8]) -> Option<FrameKind>,
) -> Option<FrameKind> {
    let unit_start = |from: usize| Some(from + bytes.get(from..)?.windows(3).position(|code| code == [0, 0, 1])? + 3);
    let mut start = unit_start(0)?;
    loop {
        let next = unit_start(start);
        let end = next.map_or(bytes.len(), |next| next - 3).min(start + UNIT_BYTES);
        if let Some(kind) = kind_by_unit(&bytes[start..end]) {
            return Some(kind);
        }
        start = next?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::container::bytes::SampleBytes;

    #[test]
    fn leading_parameter_sets_are_skipped() {
        let idr = [0, 0, 0, 2, 0x67, 9, 0, 0, 0, 1, 0x68, 0, 0, 0, 2, 0x65, 1];
        let non_idr = [0, 0, 0, 2, 0x06, 9, 0, 0, 0, 2, 0x41, 1];
        assert_eq!(avc_kind(&idr, RecoveryPoints::Accepted), Ok(FrameKind::ClosedKeyframe));
        assert_eq!(avc_kind(&non_idr, RecoveryPoints::Accepted), Ok(FrameKind::Dependent));
        let avc = |bytes: &[u8]| {
            picture_kind_in_stream(bytes, |unit| AvcUnits::new(RecoveryPoints::Refused).picture_kind(unit))
        };
        assert_eq!(avc(&[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x65]), Some(FrameKind::ClosedKeyframe));
        assert_eq!(avc(&[0, 0, 1, 9, 0xf0, 0, 0, 1, 0x21]), Some(FrameKind::Dependent));
        assert_eq!(avc(&[0, 0, 1, 9, 0xf0]), None);
        let hevc =
            |slice: u8| picture_kind_in_stream(&[0, 0, 1, 0x46, 1, 0x50, 0, 0, 1, slice << 1, 1], hevc_picture_kind);
        assert_eq!(hevc(19), Some(FrameKind::ClosedKeyframe));
        assert_eq!(hevc(21), Some(FrameKind::OpenKeyframe));
        assert_eq!((hevc(1), hevc(34)), (Some(FrameKind::Dependent), None));
    }

    #[test]
    fn recovery_points_are_open_keyframes_where_they_are_accepted() {
        // A timing message, then the recovery point; its first bit is a recovery_frame_cnt of 0.
        let picture = |count: u8| [0, 0, 0, 7, 6, 1, 1, 0x55, 6, 1, count, 0, 0, 0, 2, 0x41, 1];
        assert_eq!(avc_kind(&picture(0x84), RecoveryPoints::Accepted), Ok(FrameKind::OpenKeyframe));
        assert_eq!(avc_kind(&picture(0x84), RecoveryPoints::Refused), Ok(FrameKind::Dependent));
        assert_eq!(avc_kind(&picture(0x44), RecoveryPoints::Accepted), Ok(FrameKind::Dependent), "gradual refresh");
        let stream = [0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 6, 6, 1, 0x84, 0x80, 0, 0, 1, 0x41, 1];
        assert_eq!(avc_picture_kind(&stream[..], RecoveryPoints::Accepted), Ok(FrameKind::OpenKeyframe));
        // In the last bytes of a chunk.
        let mut late = vec![0, 0, 3, 0xe8, 0x0c];
        late.resize(1000 + 4, 0);
        late.extend_from_slice(&picture(0x84));
        assert_eq!(avc_kind(&late, RecoveryPoints::Accepted), Ok(FrameKind::OpenKeyframe));
    }

    #[test]
    fn a_false_length_ends_the_search() {
        let false_length = [0xff, 0xff, 0xff, 0xff, 0x06, 9];
        assert_eq!(avc_kind(&false_length, RecoveryPoints::Accepted), Ok(FrameKind::Dependent));
        let beyond_file = SampleBytes { file: &false_length[..], prefix: &[], offset: 0, size: u64::MAX };
        let mut units = AvcUnits::new(RecoveryPoints::Accepted);
        assert_eq!(picture_kind(&beyond_file, 4, |unit| units.picture_kind(unit)), Err(Truncated));
    }

    fn avc_kind(picture: &[u8], recovery_points: RecoveryPoints) -> Result<FrameKind, Truncated> {
        let mut units = AvcUnits::new(recovery_points);
        picture_kind(picture, 4, |unit| units.picture_kind(unit))
    }
}
