//! Frame size and range of H.264, from the sequence parameter sets of an `avcC` record (ISO/IEC 14496-15 section 5.3.3.1,
//! ITU-T H.264 sections 7.3.2.1.1 and E.1.1).

use h264_reader::nal::sps::FrameMbsFlags;

use crate::engine::container::avc::{AvcRecord, parse_sps};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SpsInfo {
    /// Luma samples of a decoded frame before cropping; the maximum of all sets.
    pub luma_samples: u64,
    /// `video_full_range_flag`, if a set has it.
    pub full_range: Option<bool>,
}

/// None without sets, or if one of them cannot be parsed.
pub(super) fn parse_sps_info(record: &[u8]) -> Option<SpsInfo> {
    let mut info = None;
    for nal in AvcRecord::parse(record).ok()?.sps {
        let sps = parse_sps(nal)?;
        let fields = if matches!(sps.frame_mbs_flags, FrameMbsFlags::Frames) { 1 } else { 2 };
        let macroblocks =
            (u64::from(sps.pic_width_in_mbs_minus1) + 1) * (u64::from(sps.pic_height_in_map_units_minus1) + 1) * fields;
        let sps_info: &mut SpsInfo = info.get_or_insert_default();
        sps_info.luma_samples = sps_info.luma_samples.max(macroblocks.saturating_mul(256));
        let signal_type = sps.vui_parameters.and_then(|vui| vui.video_signal_type);
        sps_info.full_range = sps_info.full_range.or(signal_type.map(|signal| signal.video_full_range_flag));
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sets_hex: &[&str]) -> Vec<u8> {
        let mut record = vec![1, 0x64, 0, 0x0c, 0xff, 0xe0 | sets_hex.len() as u8];
        for set in sets_hex {
            let set = data_encoding::HEXLOWER.decode(set.as_bytes()).unwrap();
            record.extend((set.len() as u16).to_be_bytes());
            record.extend(set);
        }
        record.push(0);
        record
    }

    #[test]
    fn size_and_range_are_read_from_the_sps() {
        // x264, 320 x 180: 20 x 12 macroblocks.
        let set = "6764000cacd941419f9f011000000300100000030320f1429960";
        assert_eq!(parse_sps_info(&record(&[set])).unwrap().luma_samples, 320 * 192);
        assert_eq!(
            parse_sps_info(&record(&[set, set])).unwrap().full_range,
            parse_sps_info(&record(&[set])).unwrap().full_range
        );
        assert_eq!(parse_sps_info(&record(&[])), None);
        assert_eq!(parse_sps_info(&record(&[set, "67640000"])), None, "one of two cannot be parsed");
        assert_eq!(parse_sps_info(&[1, 2, 3]), None);
    }
}
