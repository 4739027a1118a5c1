//! AV1 ("AV1 Codec ISO Media File Format Binding" sections 2.2 and 2.3).

use h264_reader::rbsp::{BitRead, BitReader};

use super::{EntryError, SampleEntry, VideoFormat, record_codecs, visual_entry};
use crate::domain::cmaf::boxes::push_box;

/// From an AV1CodecConfigurationRecord, which is also Matroska's `CodecPrivate`.
pub fn entry(av1c: &[u8], format: &VideoFormat) -> Result<SampleEntry, EntryError> {
    if av1c.len() < 4 {
        return Err(EntryError::Truncated);
    }
    // The marker bit and version 1.
    if av1c[0] != 0x81 {
        return Err(EntryError::Unsupported("the AV1 configuration is not an av1C record of version 1"));
    }
    let bytes = visual_entry(b"av01", format, |out| push_box(out, b"av1C", |out| out.extend(av1c)));
    Ok(SampleEntry::new(bytes, record_codecs("av1", b"av01", av1c)?))
}

/// A record from the first temporal unit of an encoder or a transport stream, in the low-overhead format (AV1
/// specification section 5.3), which must have a sequence header.
pub fn record_from_temporal_unit(unit: &[u8]) -> Result<Vec<u8>, EntryError> {
    for obu in obus(unit) {
        let obu = obu?;
        if obu.kind == Obu::SEQUENCE_HEADER {
            let [profile_and_level, tier_and_color] = parse_sequence_header(obu.payload)?.record;
            return Ok([&[0x81, profile_and_level, tier_and_color, 0], obu.bytes].concat());
        }
    }
    Err(EntryError::Unsupported("the AV1 stream does not start with a sequence header"))
}

/// Width and height of the largest frame, pixels, by the sequence header in a temporal unit.
pub fn picture_size(unit: &[u8]) -> Result<(u16, u16), EntryError> {
    for obu in obus(unit) {
        let obu = obu?;
        if obu.kind == Obu::SEQUENCE_HEADER {
            return Ok(parse_sequence_header(obu.payload)?.picture_size);
        }
    }
    Err(EntryError::Truncated)
}

/// An open bitstream unit in the low-overhead format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obu<'a> {
    /// `obu_type` (AV1 specification section 6.2.2).
    pub kind: u8,
    /// With its header.
    pub bytes: &'a [u8],
    pub payload: &'a [u8],
}

impl Obu<'_> {
    pub const SEQUENCE_HEADER: u8 = 1;
    pub const TEMPORAL_DELIMITER: u8 = 2;
    pub const FRAME_HEADER: u8 = 3;
    pub const FRAME: u8 = 6;
    pub const PADDING: u8 = 15;

    /// Whether a frame begins in it, and is a keyframe that is shown (section 5.9.2). The sequence must not consist of still
    /// pictures.
    pub fn is_shown_keyframe(&self) -> bool {
        // `show_existing_frame`, two bits of `frame_type`, `show_frame`.
        matches!(self.kind, Self::FRAME_HEADER | Self::FRAME)
            && self.payload.first().is_some_and(|byte| byte & 0xf0 == 0x10)
    }
}

/// The units of a temporal unit. Nothing follows an error.
pub fn obus(mut unit: &[u8]) -> impl Iterator<Item = Result<Obu<'_>, EntryError>> {
    std::iter::from_fn(move || {
        let header = *unit.first()?;
        let found = split_obu(header, unit);
        unit = found.as_ref().map_or(&[], |(_, rest)| rest);
        Some(found.map(|(obu, _)| obu))
    })
}

/// The first unit, which begins with `header`, and the bytes after it.
fn split_obu(header: u8, unit: &[u8]) -> Result<(Obu<'_>, &[u8]), EntryError> {
    let (has_extension, has_size) = (header & 4 != 0, header & 2 != 0);
    if !has_size {
        return Err(EntryError::Unsupported("the AV1 stream is not in the low-overhead format"));
    }
    let head_bytes = 1 + usize::from(has_extension);
    let (size, size_bytes) = unit.get(head_bytes..).and_then(parse_leb128).ok_or(EntryError::Truncated)?;
    let payload_at = head_bytes + size_bytes;
    let (bytes, rest) = unit.split_at_checked(payload_at + size).ok_or(EntryError::Truncated)?;
    Ok((Obu { kind: header >> 3 & 15, bytes, payload: &bytes[payload_at..] }, rest))
}

/// A number of up to four bytes, and how many there are.
fn parse_leb128(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (n, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            return Some((value, n + 1));
        }
    }
    None
}

type Bits<'a> = BitReader<&'a [u8]>;

/// The fields of a sequence header (AV1 specification section 5.5.1) that containers repeat.
struct SequenceHeader {
    /// Bytes 1 and 2 of a record: profile and level; tier, depth and chroma.
    record: [u8; 2],
    /// Of the largest frame.
    picture_size: (u16, u16),
}

fn parse_sequence_header(payload: &[u8]) -> Result<SequenceHeader, EntryError> {
    let bits = &mut BitReader::new(payload);
    let profile = bits.read::<3, u8>("seq_profile")?;
    bits.skip(1, "still_picture")?;
    let is_reduced = bits.read_bit("reduced_still_picture_header")?;
    let (level, is_high_tier) =
        if is_reduced { (bits.read::<5, u8>("seq_level_idx")?, false) } else { read_operating_points(bits)? };
    let width_bits = bits.read::<4, u32>("frame_width_bits_minus_1")? + 1;
    let height_bits = bits.read::<4, u32>("frame_height_bits_minus_1")? + 1;
    let width = bits.read_var::<u16>(width_bits, "max_frame_width_minus_1")?;
    let height = bits.read_var::<u16>(height_bits, "max_frame_height_minus_1")?;
    let picture_size = (width.saturating_add(1), height.saturating_add(1));
    if !is_reduced && bits.read_bit("frame_id_numbers_present_flag")? {
        bits.skip(4 + 3, "delta_frame_id_length_minus_2, additional_frame_id_length_minus_1")?;
    }
    bits.skip(3, "use_128x128_superblock, enable_filter_intra, enable_intra_edge_filter")?;
    if !is_reduced {
        skip_inter_tools(bits)?;
    }
    bits.skip(3, "enable_superres, enable_cdef, enable_restoration")?;
    let record = [profile << 5 | level, u8::from(is_high_tier) << 7 | read_color(bits, profile)?];
    Ok(SequenceHeader { record, picture_size })
}

/// Timing and operating points. Returns the level of point 0, and whether it has the high tier.
fn read_operating_points(bits: &mut Bits) -> Result<(u8, bool), EntryError> {
    let mut delay_bits = None;
    if bits.read_bit("timing_info_present_flag")? {
        bits.skip(32 + 32, "num_units_in_display_tick, time_scale")?;
        if bits.read_bit("equal_picture_interval")? {
            bits.read_ue("num_ticks_per_picture_minus_1")?;
        }
        if bits.read_bit("decoder_model_info_present_flag")? {
            delay_bits = Some(bits.read::<5, u32>("buffer_delay_length_minus_1")? + 1);
            bits.skip(32 + 5 + 5, "decoder_model_info")?;
        }
    }
    let has_delays = bits.read_bit("initial_display_delay_present_flag")?;
    let mut first = None;
    for _ in 0..=bits.read::<5, u8>("operating_points_cnt_minus_1")? {
        bits.skip(12, "operating_point_idc")?;
        let level = bits.read::<5, u8>("seq_level_idx")?;
        let is_high_tier = level > 7 && bits.read_bit("seq_tier")?;
        first.get_or_insert((level, is_high_tier));
        if let Some(delay_bits) = delay_bits
            && bits.read_bit("decoder_model_present_for_this_op")?
        {
            bits.skip(2 * delay_bits + 1, "operating_parameters_info")?;
        }
        if has_delays && bits.read_bit("initial_display_delay_present_for_this_op")? {
            bits.skip(4, "initial_display_delay_minus_1")?;
        }
    }
    first.ok_or(EntryError::Truncated)
}

fn skip_inter_tools(bits: &mut Bits) -> Result<(), EntryError> {
    bits.skip(4, "enable_interintra_compound, enable_masked_compound, enable_warped_motion, enable_dual_filter")?;
    let has_order_hint = bits.read_bit("enable_order_hint")?;
    if has_order_hint {
        bits.skip(2, "enable_jnt_comp, enable_ref_frame_mvs")?;
    }
    let may_have_screen_content =
        bits.read_bit("seq_choose_screen_content_tools")? || bits.read_bit("seq_force_screen_content_tools")?;
    if may_have_screen_content && !bits.read_bit("seq_choose_integer_mv")? {
        bits.skip(1, "seq_force_integer_mv")?;
    }
    if has_order_hint {
        bits.skip(3, "order_hint_bits_minus_1")?;
    }
    Ok(())
}

/// The low seven bits of byte 2 of a record (`color_config`, AV1 specification section 5.5.2).
fn read_color(bits: &mut Bits, profile: u8) -> Result<u8, EntryError> {
    /// BT.709 primaries, sRGB transfer and the identity matrix: RGB.
    const SRGB: [u8; 3] = [1, 13, 0];
    let is_high_depth = bits.read_bit("high_bitdepth")?;
    let is_twelve_bit = profile == 2 && is_high_depth && bits.read_bit("twelve_bit")?;
    let is_monochrome = profile != 1 && bits.read_bit("mono_chrome")?;
    let mut color = [2; 3];
    if bits.read_bit("color_description_present_flag")? {
        for code in &mut color {
            *code = bits.read::<8, u8>("color_primaries, transfer_characteristics, matrix_coefficients")?;
        }
    }
    let is_rgb = !is_monochrome && color == SRGB;
    if !is_rgb {
        bits.skip(1, "color_range")?;
    }
    let (half_width, half_height) = match profile {
        _ if is_rgb => (false, false),
        _ if is_monochrome => (true, true),
        0 => (true, true),
        1 => (false, false),
        _ if is_twelve_bit => {
            let half_width = bits.read_bit("subsampling_x")?;
            (half_width, half_width && bits.read_bit("subsampling_y")?)
        }
        _ => (true, false),
    };
    let has_position = !is_monochrome && half_width && half_height;
    let position = if has_position { bits.read::<2, u8>("chroma_sample_position")? } else { 0 };
    let flags = [is_high_depth, is_twelve_bit, is_monochrome, half_width, half_height];
    Ok(flags.iter().fold(0, |byte, flag| byte << 1 | u8::from(*flag)) << 2 | position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::entry::testing::{hex, without_needless_boxes};
    use proptest::prelude::*;

    /// ffmpeg 5.1: `-f lavfi -i testsrc2=size=64x48:rate=24:duration=0.3 -c:v libaom-av1 -cpu-used 8 -pix_fmt
    /// yuv420p10le`, to Matroska.
    const CODEC_PRIVATE: &str = "81004c000a0a00000002aff79b5f2808";

    /// That stream, copied to MP4 with `-write_btrt 0`.
    const ENTRY: &str = "
        0000008861763031000000000000000100000000000000000000000000000000004000300048000000480000000000000001
        00000000000000000000000000000000000000000000000000000000000000000018ffff000000186176314381004c000a0a
        00000002aff79b5f28080000000a6669656c010000000010706173700000000100000001
    ";

    #[test]
    fn the_entry_equals_that_of_ffmpeg() {
        let format = VideoFormat { width: 64, height: 48, ..VideoFormat::default() };
        let entry = entry(&hex(CODEC_PRIVATE), &format).unwrap();
        assert_eq!(entry.bytes, without_needless_boxes(&hex(ENTRY)));
        assert_eq!(entry.codecs, "av01.0.00M.10");
    }

    #[test]
    fn a_record_is_built_from_a_sequence_header() {
        // A temporal delimiter, the sequence header, and the start of a frame.
        let unit = hex("1200 0a0a00000002aff79b5f2808 3202af04");
        assert_eq!(record_from_temporal_unit(&unit).unwrap(), hex(CODEC_PRIVATE));
        assert_eq!(picture_size(&unit), Ok((64, 48)));
        let kinds: Vec<u8> = obus(&unit).map(|obu| obu.unwrap().kind).collect();
        assert_eq!(kinds, [Obu::TEMPORAL_DELIMITER, Obu::SEQUENCE_HEADER, Obu::FRAME]);
        assert_eq!(record_from_temporal_unit(&unit[..10]), Err(EntryError::Truncated));
        assert!(matches!(record_from_temporal_unit(&unit[..2]), Err(EntryError::Unsupported(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = (entry(&bytes, &VideoFormat::default()), record_from_temporal_unit(&bytes));
            let _ = (parse_sequence_header(&bytes), picture_size(&bytes));
            prop_assert!(obus(&bytes).count() <= bytes.len());
        }
    }
}
