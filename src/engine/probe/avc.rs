//! Frame size and range of H.264, from the sequence parameter sets of an `avcC` record (ISO/IEC 14496-15 section 5.3.3.1,
//! ITU-T H.264 sections 7.3.2.1.1 and E.1.1).

use h264_reader::nal::sps::{FrameMbsFlags, SeqParameterSet};
use h264_reader::nal::{Nal, RefNal};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stated {
    /// Luma samples of a decoded frame before cropping; the maximum of all sets.
    pub luma_samples: u64,
    /// `video_full_range_flag`, if a set has it.
    pub full_range: Option<bool>,
}

/// None without sets, or if one of them cannot be parsed.
pub(super) fn stated(record: &[u8]) -> Option<Stated> {
    let mut stated = None;
    let mut rest = record.get(6..)?;
    for _ in 0..record[5] & 0x1f {
        let len = usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?]));
        let unit = rest.get(2..2 + len)?;
        rest = &rest[2 + len..];
        // The parser needs a NAL unit with a body.
        if unit.len() < 4 || unit[0] & 0x1f != 7 {
            continue;
        }
        let Ok(set) = SeqParameterSet::from_bits(RefNal::new(unit, &[], true).rbsp_bits()) else { return None };
        let fields = if matches!(set.frame_mbs_flags, FrameMbsFlags::Frames) { 1 } else { 2 };
        let macroblocks =
            (u64::from(set.pic_width_in_mbs_minus1) + 1) * (u64::from(set.pic_height_in_map_units_minus1) + 1) * fields;
        let known: &mut Stated = stated.get_or_insert_default();
        known.luma_samples = known.luma_samples.max(macroblocks.saturating_mul(256));
        let signal = set.vui_parameters.and_then(|usability| usability.video_signal_type);
        known.full_range = known.full_range.or(signal.map(|signal| signal.video_full_range_flag));
    }
    stated
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(sets: &[&str]) -> Vec<u8> {
        let mut record = vec![1, 0x64, 0, 0x0c, 0xff, 0xe0 | sets.len() as u8];
        for set in sets {
            let set = data_encoding::HEXLOWER.decode(set.as_bytes()).unwrap();
            record.extend((set.len() as u16).to_be_bytes());
            record.extend(set);
        }
        record
    }

    #[test]
    fn size_and_range_are_what_the_encoder_wrote() {
        // x264, 320 x 180: 20 x 12 macroblocks.
        let set = "6764000cacd941419f9f011000000300100000030320f1429960";
        assert_eq!(stated(&record(&[set])).unwrap().luma_samples, 320 * 192);
        assert_eq!(stated(&record(&[set, set])).unwrap().full_range, stated(&record(&[set])).unwrap().full_range);
        assert_eq!(stated(&record(&[])), None);
        assert_eq!(stated(&record(&[set, "67640000"])), None, "one of two cannot be parsed");
        assert_eq!(stated(&[1, 2, 3]), None);
    }

    proptest! {
        #[test]
        fn any_record_is_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = stated(&bytes);
            let _ = stated(&[&[1, 100, 0, 12, 255, 0xe1, 0, 60, 0x67, 100, 0, 12][..], &bytes].concat());
        }
    }
}
