//! Frame size by the video itself, because a container may state a wrong one: sequence parameter sets of H.264 and HEVC
//! (ITU-T H.265 section 7.3.2.2), sequence headers of AV1 (section 5.5), the first frame of VP8 (RFC 6386 section 9.1) and
//! VP9 (section 6.2).

use std::num::NonZeroUsize;

use h264_reader::rbsp::{BitRead, BitReader, ByteReader};

use super::avc;
use super::outline::OutlineTrack;

/// First bytes of a frame that its header is read from.
pub(super) const FRAME_HEAD: usize = 20;

/// Luma samples of a decoded frame before cropping, the maximum of all headers; None if the size is unknown. Sets inside
/// later frames are not read.
pub(super) fn luma_samples(track: &OutlineTrack) -> Option<u64> {
    match track.codec {
        "h264" => avc::parse_sps_info(&track.config).map(|stated| stated.luma_samples),
        "hevc" => hevc(&track.config),
        "av1" => av1(&track.config),
        "vp8" => vp8(&track.first_frame),
        "vp9" => vp9(&track.first_frame),
        _ => None,
    }
}

/// The sets of an `hvcC` record (ISO/IEC 14496-15 section 8.3.3.1).
fn hevc(record: &[u8]) -> Option<u64> {
    let (arrays, mut rest) = record.get(22..)?.split_first()?;
    let mut largest: Option<u64> = None;
    for _ in 0..*arrays {
        let ([kind, units @ ..], tail) = rest.split_first_chunk::<3>()?;
        rest = tail;
        for _ in 0..u16::from_be_bytes(*units) {
            let (len, tail) = rest.split_first_chunk::<2>()?;
            let (unit, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
            rest = tail;
            if kind & 0x3f == 33 {
                largest = largest.max(Some(hevc_set(unit)?));
            }
        }
    }
    largest
}

fn hevc_set(unit: &[u8]) -> Option<u64> {
    let mut bits = BitReader::new(ByteReader::skipping_bytes(unit, NonZeroUsize::new(2)?));
    bits.skip(4, "sps_video_parameter_set_id").ok()?;
    let sub_layers = bits.read::<3, u32>("sps_max_sub_layers_minus1").ok()?;
    bits.skip(1 + 88 + 8, "profile_tier_level").ok()?;
    let mut sub_layer_bits = 0;
    for _ in 0..sub_layers {
        sub_layer_bits += if bits.read_bit("sub_layer_profile_present_flag").ok()? { 88 } else { 0 };
        sub_layer_bits += if bits.read_bit("sub_layer_level_present_flag").ok()? { 8 } else { 0 };
    }
    let reserved = if sub_layers > 0 { 2 * (8 - sub_layers) } else { 0 };
    bits.skip(reserved + sub_layer_bits, "sub_layers").ok()?;
    bits.read_ue("sps_seq_parameter_set_id").ok()?;
    if bits.read_ue("chroma_format_idc").ok()? == 3 {
        bits.skip(1, "separate_colour_plane_flag").ok()?;
    }
    let width = bits.read_ue("pic_width_in_luma_samples").ok()?;
    Some(u64::from(width) * u64::from(bits.read_ue("pic_height_in_luma_samples").ok()?))
}

/// The sequence headers of an `av1C` record.
fn av1(record: &[u8]) -> Option<u64> {
    let mut rest = record.get(4..)?;
    let mut largest: Option<u64> = None;
    while let Some((head, tail)) = rest.split_first() {
        let tail = if head & 4 == 0 { tail } else { tail.get(1..)? };
        let (len, tail) = if head & 2 == 0 { (tail.len(), tail) } else { leb128(tail)? };
        let (unit, tail) = tail.split_at_checked(len)?;
        rest = tail;
        if head >> 3 & 15 == 1 {
            largest = largest.max(Some(av1_sequence(unit)?));
        }
    }
    largest
}

/// A length of up to four bytes, and what follows it.
fn leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0;
    for (n, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[n + 1..]));
        }
    }
    None
}

fn av1_sequence(unit: &[u8]) -> Option<u64> {
    let mut bits = BitReader::new(unit);
    bits.skip(3 + 1, "seq_profile").ok()?;
    if bits.read_bit("reduced_still_picture_header").ok()? {
        bits.skip(5, "seq_level_idx").ok()?;
    } else {
        av1_operating_points(&mut bits)?;
    }
    let width_bits = bits.read::<4, u32>("frame_width_bits_minus_1").ok()? + 1;
    let height_bits = bits.read::<4, u32>("frame_height_bits_minus_1").ok()? + 1;
    let width: u32 = bits.read_var(width_bits, "max_frame_width_minus_1").ok()?;
    let height: u32 = bits.read_var(height_bits, "max_frame_height_minus_1").ok()?;
    Some((u64::from(width) + 1) * (u64::from(height) + 1))
}

/// Skips timing, decoder model and operating points.
fn av1_operating_points(bits: &mut BitReader<&[u8]>) -> Option<()> {
    let mut delay_bits = None;
    if bits.read_bit("timing_info_present_flag").ok()? {
        bits.skip(32 + 32, "timing_info").ok()?;
        if bits.read_bit("equal_picture_interval").ok()? {
            bits.read_ue("num_ticks_per_picture_minus_1").ok()?;
        }
        if bits.read_bit("decoder_model_info_present_flag").ok()? {
            delay_bits = Some(bits.read::<5, u32>("buffer_delay_length_minus_1").ok()? + 1);
            bits.skip(32 + 5 + 5, "decoder_model_info").ok()?;
        }
    }
    let has_delays = bits.read_bit("initial_display_delay_present_flag").ok()?;
    let points = bits.read::<5, u32>("operating_points_cnt_minus_1").ok()? + 1;
    for _ in 0..points {
        bits.skip(12, "operating_point_idc").ok()?;
        if bits.read::<5, u32>("seq_level_idx").ok()? > 7 {
            bits.skip(1, "seq_tier").ok()?;
        }
        if let Some(delay_bits) = delay_bits
            && bits.read_bit("decoder_model_present_for_this_op").ok()?
        {
            bits.skip(2 * delay_bits + 1, "operating_parameters_info").ok()?;
        }
        if has_delays && bits.read_bit("initial_display_delay_present_for_this_op").ok()? {
            bits.skip(4, "initial_display_delay_minus_1").ok()?;
        }
    }
    Some(())
}

fn vp8(frame: &[u8]) -> Option<u64> {
    let [tag, _, _, 0x9d, 0x01, 0x2a, size @ ..] = frame.first_chunk::<10>()? else { return None };
    let [width, height] = [[size[0], size[1]], [size[2], size[3]]].map(|side| u16::from_le_bytes(side) & 0x3fff);
    let is_key = tag & 1 == 0;
    is_key.then_some(u64::from(width) * u64::from(height))
}

fn vp9(frame: &[u8]) -> Option<u64> {
    let mut bits = BitReader::new(frame);
    let is_vp9 = bits.read::<2, u32>("frame_marker").ok()? == 2;
    let (low, high) = (bits.read_bit("profile_low_bit").ok()?, bits.read_bit("profile_high_bit").ok()?);
    if low && high {
        bits.skip(1, "reserved_zero").ok()?;
    }
    let is_repeated = bits.read_bit("show_existing_frame").ok()?;
    let is_key = !bits.read_bit("frame_type").ok()?;
    bits.skip(2, "show_frame, error_resilient_mode").ok()?;
    let has_sync = bits.read::<24, u32>("frame_sync_code").ok()? == 0x49_8342;
    if !is_vp9 || is_repeated || !is_key || !has_sync {
        return None;
    }
    if high {
        bits.skip(1, "ten_or_twelve_bit").ok()?;
    }
    let is_rgb = bits.read::<3, u32>("color_space").ok()? == 7;
    // The range, and in profiles 1 and 3 the subsampling with a reserved bit.
    let color_bits = if is_rgb { u32::from(low) } else { 1 + 3 * u32::from(low) };
    bits.skip(color_bits, "color_config").ok()?;
    let width = u64::from(bits.read::<16, u32>("frame_width_minus_1").ok()?) + 1;
    Some(width * (u64::from(bits.read::<16, u32>("frame_height_minus_1").ok()?) + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bits as bytes, the last one filled with zeros.
    fn packed(bits: &str) -> Vec<u8> {
        let byte = |eight: &[u8]| eight.iter().enumerate().fold(0u8, |byte, (n, bit)| byte | (bit & 1) << (7 - n));
        bits.as_bytes().chunks(8).map(byte).collect()
    }

    /// An unsigned Exp-Golomb code.
    fn ue(value: u32) -> String {
        let code = format!("{:b}", value + 1);
        "0".repeat(code.len() - 1) + &code
    }

    /// Records of 16000 x 16000.
    fn large(codec: &'static str) -> OutlineTrack {
        let mut track = OutlineTrack { codec, width: 1920, height: 1080, ..OutlineTrack::default() };
        match codec {
            "hevc" => {
                // Two temporal layers with their own level; profile bits without zeros need no emulation prevention.
                let levels = ["1".repeat(88 + 8), "01".into(), "0".repeat(14), "1".repeat(8)].concat();
                let set = ["0000", "001", "1", &levels, &ue(0), &ue(1), &ue(16_000), &ue(16_000), "1"].concat();
                let unit = [vec![0x42, 1], packed(&set)].concat();
                track.config = [&[1; 22][..], &[1, 0xa1, 0, 1, 0, unit.len() as u8], &unit].concat();
            }
            "av1" => {
                // No timing, one operating point of level 4.0, sides of 14 bits.
                let side = format!("{:014b}", 15_999);
                let set = ["000", "0", "0", "0", "0", "00000", &"0".repeat(12), "01000", "0", "1101", "1101"].concat();
                let unit = packed(&[&set[..], &side, &side].concat());
                track.config = [&[0x81, 8, 12, 0][..], &[0x0a, unit.len() as u8], &unit].concat();
            }
            "vp8" => track.first_frame = vec![0x10, 0, 0, 0x9d, 0x01, 0x2a, 0x80, 0x3e, 0x80, 0x3e],
            _ => {
                let sync = format!("{:024b}", 0x49_8342);
                let side = format!("{:016b}", 15_999);
                track.first_frame = packed(&["10", "00", "0", "0", "10", &sync, "001", "0", &side, &side].concat());
            }
        }
        track
    }

    #[test]
    fn the_size_is_that_of_the_video_and_not_of_the_container() {
        for codec in ["hevc", "av1", "vp8", "vp9"] {
            assert_eq!(luma_samples(&large(codec)), Some(16_000 * 16_000), "{codec}");
        }
    }

    #[test]
    fn an_unknown_size_is_not_guessed() {
        for codec in ["h264", "hevc", "av1", "vp8", "vp9"] {
            let stated = OutlineTrack { codec, width: 1920, height: 1080, ..OutlineTrack::default() };
            assert_eq!(luma_samples(&stated), None, "{codec}");
        }
        let mut cut = large("hevc");
        cut.config.pop();
        assert_eq!(luma_samples(&cut), None);
    }

    proptest! {
        #[test]
        fn any_record_is_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (hevc(&bytes), hevc_set(&bytes), av1(&bytes), av1_sequence(&bytes), vp8(&bytes), vp9(&bytes));
            let _ = avc::parse_sps_info(&bytes);
            let _ = avc::parse_sps_info(&[&[1, 100, 0, 12, 255, 0xe1, 0, 60, 0x67, 100, 0, 12][..], &bytes].concat());
            let _ = hevc(&[&[1; 22][..], &[1, 0xa1, 0, 1, 0, 60], &bytes].concat());
        }
    }
}
