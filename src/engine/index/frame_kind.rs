//! Whether a segment may begin with a frame, by the first bytes of the frame itself.
//!
//! H.264 is cut at IDR pictures and, except in transport streams, at recovery points. HEVC is cut at every intra random access
//! point (ITU-T H.265 section 7.4.2.2), AV1 and VP9 at shown keyframes.

use super::{RecoveryPoints, nal};
use crate::engine::container::ContainerError;
use crate::engine::container::bytes::{ByteCursor, ReadAt, Truncated};

/// Maximum number of OBUs checked before the first frame: delimiter, sequence header and metadata precede it.
const MAX_OBUS: usize = 64;

/// How the frames of a track are recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameSyntax {
    /// With NAL units after length fields of this many bytes, or after start codes (0).
    Avc {
        length_size: u8,
        recovery_points: RecoveryPoints,
    },
    Hevc {
        length_size: u8,
    },
    Av1,
    Vp9,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// No segment begins with it.
    Dependent,
    /// Frames that follow it in decoding order and precede it in presentation may need frames before it.
    OpenKeyframe,
    /// No frame from it on needs a frame before it.
    ClosedKeyframe,
}

impl FrameSyntax {
    /// From an `avcC` record.
    pub(super) fn of_avc(record: &[u8], recovery_points: RecoveryPoints) -> Result<Self, Truncated> {
        Ok(Self::Avc { length_size: (record.get(4).ok_or(Truncated)? & 3) + 1, recovery_points })
    }

    /// From a `hvcC` record (ISO/IEC 14496-15 section 8.3.3.1).
    pub(super) fn of_hevc(record: &[u8]) -> Result<Self, Truncated> {
        Ok(Self::Hevc { length_size: (record.get(21).ok_or(Truncated)? & 3) + 1 })
    }

    /// Why a stream is refused that does not begin with a keyframe.
    pub(super) fn missing_keyframe(self) -> ContainerError {
        ContainerError::Uncuttable(match self {
            Self::Avc { recovery_points: RecoveryPoints::Refused, .. } => {
                "the video does not begin with an IDR picture"
            }
            _ => "the video does not begin with a keyframe",
        })
    }

    /// Whether keyframes of both kinds occur.
    pub(super) fn has_open_keyframes(self) -> bool {
        matches!(self, Self::Hevc { .. } | Self::Avc { recovery_points: RecoveryPoints::Accepted, .. })
    }

    /// The kind of a frame.
    ///
    /// # Errors
    /// The file ends before the frame's first slice.
    pub(super) fn frame_kind(self, frame: &(impl ReadAt + ?Sized)) -> Result<FrameKind, Truncated> {
        match self {
            Self::Avc { length_size: 0, recovery_points } => nal::avc_picture_kind(frame, recovery_points),
            Self::Avc { length_size, recovery_points } => {
                let mut units = nal::AvcUnits::new(recovery_points);
                nal::picture_kind(frame, length_size, |unit| units.picture_kind(unit))
            }
            Self::Hevc { length_size } => nal::picture_kind(frame, length_size, nal::hevc_picture_kind),
            Self::Av1 => av1_frame_kind(frame),
            Self::Vp9 => vp9_frame_kind(frame),
        }
    }
}

/// By the first frame header in a temporal unit in the low-overhead format (AV1 specification sections 5.3 and 5.9.2).
fn av1_frame_kind(frame: &(impl ReadAt + ?Sized)) -> Result<FrameKind, Truncated> {
    const FRAME_HEADER: u8 = 3;
    const FRAME: u8 = 6;
    let mut position = 0u64;
    for _ in 0..MAX_OBUS {
        let mut bytes = [0; 12];
        let read = frame.read_at(&mut bytes, position);
        let mut head = ByteCursor(&bytes[..read]);
        let header = head.u8()?;
        let (obu_type, has_extension, has_size) = (header >> 3 & 15, header & 4 != 0, header & 2 != 0);
        head.take(usize::from(has_extension))?;
        let size = if has_size { parse_leb128(&mut head)? } else { u64::MAX };
        if matches!(obu_type, FRAME_HEADER | FRAME) {
            // show_existing_frame 0, frame_type 0 (two bits), show_frame 1.
            let is_shown_key = head.u8()? >> 4 == 0b0001;
            return Ok(if is_shown_key { FrameKind::ClosedKeyframe } else { FrameKind::Dependent });
        }
        let head_bytes = (read - head.0.len()) as u64;
        position = position.saturating_add(head_bytes).saturating_add(size);
        if position >= frame.len() {
            break;
        }
    }
    Ok(FrameKind::Dependent)
}

/// A number of up to eight bytes (AV1 specification section 4.10.5).
fn parse_leb128(bytes: &mut ByteCursor) -> Result<u64, Truncated> {
    let mut value = 0;
    for n in 0..8 {
        let byte = bytes.u8()?;
        value |= u64::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Ok(value)
}

/// By the uncompressed header (VP9 bitstream specification section 6.2).
fn vp9_frame_kind(frame: &(impl ReadAt + ?Sized)) -> Result<FrameKind, Truncated> {
    let mut bytes = [0; 2];
    let read = frame.read_at(&mut bytes, 0);
    // Bits: frame_marker 2, profile 2, reserved_zero 1 in profile 3, show_existing_frame 1, frame_type 1.
    let word = u16::from_be_bytes(bytes);
    let profile_bits = if word >> 12 & 3 == 3 { 5 } else { 4 };
    let flags = word >> (14 - profile_bits) & 3;
    if read < bytes.len() {
        return Err(Truncated);
    }
    Ok(if word >> 14 == 2 && flags == 0 { FrameKind::ClosedKeyframe } else { FrameKind::Dependent })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shown_keyframes_of_av1_are_recognized() {
        let kind = |bytes: &[u8]| FrameSyntax::Av1.frame_kind(bytes);
        // A delimiter, a sequence header, and a frame; a frame alone; a frame that is not shown.
        assert_eq!(kind(&[0x12, 0, 0x0a, 2, 1, 2, 0x32, 2, 0x10, 0]), Ok(FrameKind::ClosedKeyframe));
        assert_eq!(kind(&[0x32, 2, 0x30, 0]), Ok(FrameKind::Dependent));
        assert_eq!(kind(&[0x32, 2, 0x00, 0]), Ok(FrameKind::Dependent));
        assert_eq!(kind(&[0x12, 0]), Ok(FrameKind::Dependent));
        assert_eq!(kind(&[0x32, 2]), Err(Truncated));
    }

    #[test]
    fn keyframes_of_vp9_are_recognized() {
        let kind = |bytes: &[u8]| FrameSyntax::Vp9.frame_kind(bytes);
        assert_eq!(kind(&[0x82, 0x49]), Ok(FrameKind::ClosedKeyframe));
        assert_eq!(kind(&[0xb1, 0x24]), Ok(FrameKind::ClosedKeyframe), "profile 3");
        assert_eq!(kind(&[0x86, 0x49]), Ok(FrameKind::Dependent));
        assert_eq!(kind(&[0x8a, 0x49]), Ok(FrameKind::Dependent), "an existing frame is repeated");
        assert_eq!(kind(&[0x82]), Err(Truncated));
    }

    #[test]
    fn random_access_points_of_hevc_are_closed_or_open() {
        let kind = |unit_type: u8| {
            let frame = [0, 0, 0, 2, 35 << 1, 1, 0, 0, 0, 3, unit_type << 1, 1, 0x80];
            FrameSyntax::Hevc { length_size: 4 }.frame_kind(&frame[..])
        };
        for (unit_type, expected) in [
            (1, FrameKind::Dependent),
            (16, FrameKind::OpenKeyframe),
            (17, FrameKind::ClosedKeyframe),
            (19, FrameKind::ClosedKeyframe),
            (20, FrameKind::ClosedKeyframe),
            (21, FrameKind::OpenKeyframe),
            (22, FrameKind::Dependent),
        ] {
            assert_eq!(kind(unit_type), Ok(expected), "{unit_type}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), length_size in 0u8..5) {
            let length = length_size.max(1);
            let recovery_points = RecoveryPoints::Accepted;
            for syntax in [FrameSyntax::Avc { length_size, recovery_points }, FrameSyntax::Hevc { length_size: length }, FrameSyntax::Av1, FrameSyntax::Vp9] {
                let _ = syntax.frame_kind(&bytes[..]);
            }
        }
    }
}
