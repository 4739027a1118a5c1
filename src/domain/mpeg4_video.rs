//! MPEG-4 video (ISO/IEC 14496-2) of AVI files: the headers that decide when a frame is shown.

/// The coding type of a video object plane (VOP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VopType {
    Intra,
    Predicted,
    Bidirectional,
    Sprite,
}

/// Start codes of a VOP and of a group of them.
const VOP: u8 = 0xb6;
const GROUP: u8 = 0xb3;

/// The bytes after each start code, with its fourth byte.
fn start_codes(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let codes = bytes.windows(4).enumerate().filter(|(_, code)| code.starts_with(&[0, 0, 1]));
    codes.map(|(at, code)| (code[3], bytes.get(at + 4..).unwrap_or_default()))
}

/// The types of the VOPs in a frame's bytes: one, or several if B-VOPs are packed with the VOP that they refer to.
pub fn vop_types(frame: &[u8]) -> impl Iterator<Item = VopType> {
    let types = start_codes(frame).filter(|(code, _)| *code == VOP).filter_map(|(_, header)| header.first());
    let type_of = |byte: &u8| match byte >> 6 {
        0 => VopType::Intra,
        1 => VopType::Predicted,
        2 => VopType::Bidirectional,
        _ => VopType::Sprite,
    };
    types.map(type_of)
}

/// The headers before the first VOP, if a video object layer is among them: a decoder needs them once.
pub fn configuration(frame: &[u8]) -> Option<&[u8]> {
    let is_frame = |code: &[u8]| matches!(code, [0, 0, 1, VOP | GROUP]);
    let end = frame.windows(4).position(is_frame).unwrap_or(frame.len());
    let headers = frame.get(..end)?;
    start_codes(headers).any(|(code, _)| (0x20..=0x2f).contains(&code)).then_some(headers)
}

/// Whether the video object layer states that it has no B-VOPs (`low_delay`); None if it states nothing.
pub fn low_delay(configuration: &[u8]) -> Option<bool> {
    let (_, layer) = start_codes(configuration).find(|(code, _)| (0x20..=0x2f).contains(code))?;
    let bit = |at: usize| layer.get(at / 8).map(|byte| byte >> (7 - at % 8) & 1);
    // random_accessible_vol and video_object_type_indication.
    let mut at = 9;
    // is_object_layer_identifier, with its version and priority.
    at += if bit(at)? == 1 { 8 } else { 1 };
    let is_extended_aspect = (at..at + 4).all(|at| bit(at) == Some(1));
    at += if is_extended_aspect { 20 } else { 4 };
    // vol_control_parameters, then chroma_format.
    let has_control = bit(at)? == 1;
    if has_control { bit(at + 3).map(|bit| bit == 1) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_are_read() {
        let layer = [0, 0, 1, 0x20, 0x08, 0xc8, 0x88, 0x80, 0x0f];
        let frame = [&layer[..], &[0, 0, 1, 0xb3, 0, 0, 0, 0, 1, 0xb6, 0x10], &[0, 0, 1, 0xb6, 0x90]].concat();
        assert_eq!(vop_types(&frame).collect::<Vec<_>>(), [VopType::Intra, VopType::Bidirectional]);
        assert_eq!(configuration(&frame), Some(&layer[..]));
        assert_eq!(configuration(&frame[9..]), None);
        // Version and priority, a square aspect, control parameters with chroma 4:2:0.
        let with_control = [0, 0, 1, 0x20, 0x00, 0xc4, 0x8d, 0x80];
        assert_eq!(low_delay(&with_control), Some(true));
        assert_eq!(low_delay(&[0, 0, 1, 0x20, 0x00, 0xc4, 0x8d, 0x00]), Some(false));
        assert_eq!(low_delay(&[0, 0, 1, 0x20, 0x00, 0xc4, 0x89, 0x80]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(tail in proptest::collection::vec(any::<u8>(), 0..40)) {
            let bytes: Vec<u8> = [0, 0, 1, 0x20].into_iter().chain(tail).collect();
            let _ = (vop_types(&bytes).count(), configuration(&bytes), low_delay(&bytes));
        }
    }
}
