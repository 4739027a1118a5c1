//! The reordering depth of H.264: how many pictures a decoder buffers to output them in order, by the sequence parameter
//! set (ITU-T H.264 sections 7.3.2.1.1 and E.1.1).

use h264_reader::nal::sps::{FrameMbsFlags, PicOrderCntType};

use crate::engine::container::avc::parse_sps;

/// None if the set does not state it or cannot be parsed.
pub(super) fn reorder_depth(nal: &[u8]) -> Option<usize> {
    let sps = parse_sps(nal)?;
    // Fields may be in separate packets.
    if !matches!(sps.frame_mbs_flags, FrameMbsFlags::Frames) {
        return None;
    }
    let stated = sps.vui_parameters.and_then(|vui| vui.bitstream_restrictions);
    let stated = stated.map(|restrictions| restrictions.max_num_reorder_frames as usize);
    // With `pic_order_cnt_type` 2, output order is decoding order.
    let without_reordering = matches!(sps.pic_order_cnt, PicOrderCntType::TypeTwo).then_some(0);
    stated.or(without_reordering).filter(|&depth| depth <= 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_depth_is_read_from_the_sps() {
        // x264: High with a B-frame pyramid, and Baseline, which has no reordering.
        let high = "6764000cacd941419f9f011000000300100000030320f1429960";
        let baseline = "6742c00cd901419f9f011000000300100000030320f142a480";
        let bytes = |text: &str| data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap();
        assert_eq!(reorder_depth(&bytes(high)), Some(2));
        assert_eq!(reorder_depth(&bytes(baseline)), Some(0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), high in any::<bool>()) {
            let head = [0x67, if high { 100 } else { 66 }, 0, 30];
            prop_assert!(reorder_depth(&bytes).is_none_or(|depth| depth <= 16));
            prop_assert!(reorder_depth(&[&head[..], &bytes].concat()).is_none_or(|depth| depth <= 16));
        }
    }
}
