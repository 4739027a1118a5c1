//! Sequence parameter sets of HEVC (ITU-T H.265 sections 7.3.2.2 and E.2.1): the fields that sample entries repeat.

use std::num::NonZeroUsize;

use h264_reader::rbsp::{BitRead, BitReader, BitReaderError, ByteReader};

use super::super::EntryError;
use crate::domain::cmaf::Color;

/// Pixel aspects by `aspect_ratio_idc`, from 1 (ITU-T H.265 table E.1), and the value that states another one.
const PIXEL_ASPECTS: [(u32, u32); 16] = [
    (1, 1),
    (12, 11),
    (10, 11),
    (16, 11),
    (40, 33),
    (24, 11),
    (20, 11),
    (32, 11),
    (80, 33),
    (18, 11),
    (15, 11),
    (64, 33),
    (160, 99),
    (4, 3),
    (3, 2),
    (2, 1),
];
const EXTENDED_ASPECT: u8 = 255;

/// `num_short_term_ref_pic_sets`, `num_long_term_ref_pics_sps`, and pictures of a set (section 7.4.3.2.1).
const MAX_SHORT_TERM_SETS: u32 = 64;
const MAX_LONG_TERM_PICTURES: u32 = 32;
const MAX_PICTURES: u32 = 16;

type Bits<'a> = BitReader<ByteReader<&'a [u8]>>;

pub(super) struct SequenceParameters {
    pub profile_tier_level: [u8; 12],
    pub temporal_layers: u8,
    pub is_temporal_id_nested: bool,
    pub chroma_format: u8,
    /// After cropping, pixels.
    pub picture_size: (u16, u16),
    pub luma_depth_minus8: u8,
    pub chroma_depth_minus8: u8,
    pub usability: Usability,
}

/// Video usability information (annex E).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usability {
    /// Width to height of a pixel, if it is not square.
    pub pixel_aspect: Option<(u32, u32)>,
    pub color: Option<Color>,
}

impl SequenceParameters {
    /// `unit` is the NAL unit. Usability information that cannot be read is left out.
    pub fn parse(unit: &[u8]) -> Result<Self, EntryError> {
        let mut bits = BitReader::new(ByteReader::skipping_bytes(unit, NonZeroUsize::MIN.saturating_add(1)));
        bits.skip(4, "sps_video_parameter_set_id")?;
        let sub_layers = bits.read::<3, u8>("sps_max_sub_layers_minus1")?;
        let is_temporal_id_nested = bits.read_bit("sps_temporal_id_nesting_flag")?;
        let mut profile_tier_level = [0; 12];
        for byte in &mut profile_tier_level {
            *byte = bits.read::<8, u8>("profile_tier_level")?;
        }
        let mut sub_layer_bits = 0;
        for _ in 0..sub_layers {
            sub_layer_bits += if bits.read_bit("sub_layer_profile_present_flag")? { 88 } else { 0 };
            sub_layer_bits += if bits.read_bit("sub_layer_level_present_flag")? { 8 } else { 0 };
        }
        let reserved = if sub_layers > 0 { 2 * (8 - u32::from(sub_layers)) } else { 0 };
        bits.skip(reserved + sub_layer_bits, "sub_layers")?;
        bits.read_ue("sps_seq_parameter_set_id")?;
        let chroma_format = narrow(bits.read_ue("chroma_format_idc")?, 3)?;
        if chroma_format == 3 {
            bits.skip(1, "separate_colour_plane_flag")?;
        }
        let width = bits.read_ue("pic_width_in_luma_samples")?;
        let height = bits.read_ue("pic_height_in_luma_samples")?;
        let mut crop = [0; 4];
        if bits.read_bit("conformance_window_flag")? {
            for offset in &mut crop {
                *offset = bits.read_ue("conf_win_offset")?;
            }
        }
        let [left, right, top, bottom] = crop;
        // Offsets are in samples of chroma.
        let (horizontal, vertical) = [(1, 1), (2, 2), (2, 1), (1, 1)][usize::from(chroma_format)];
        let cropped = |length: u32, unit: u32, [start, end]: [u32; 2]| {
            let offsets = start.saturating_add(end).saturating_mul(unit);
            length.checked_sub(offsets).and_then(|length| u16::try_from(length).ok()).ok_or(EntryError::Truncated)
        };
        Ok(Self {
            profile_tier_level,
            temporal_layers: sub_layers + 1,
            is_temporal_id_nested,
            chroma_format,
            picture_size: (cropped(width, horizontal, [left, right])?, cropped(height, vertical, [top, bottom])?),
            luma_depth_minus8: narrow(bits.read_ue("bit_depth_luma_minus8")?, 7)?,
            chroma_depth_minus8: narrow(bits.read_ue("bit_depth_chroma_minus8")?, 7)?,
            usability: read_usability(&mut bits, sub_layers).ok().flatten().unwrap_or_default(),
        })
    }
}

/// Reads from `log2_max_pic_order_cnt_lsb_minus4` to the colour; None if there is no such information, or a value is not valid.
fn read_usability(bits: &mut Bits, sub_layers: u8) -> Result<Option<Usability>, BitReaderError> {
    let order_bits = bits.read_ue("log2_max_pic_order_cnt_lsb_minus4")?.saturating_add(4);
    let states_all_layers = bits.read_bit("sps_sub_layer_ordering_info_present_flag")?;
    for _ in 0..=(if states_all_layers { sub_layers } else { 0 }) {
        skip_numbers(bits, 3, "sps_max_dec_pic_buffering_minus1, sps_max_num_reorder_pics, sps_max_latency_increase")?;
    }
    skip_numbers(bits, 6, "block sizes")?;
    if bits.read_bit("scaling_list_enabled_flag")? && bits.read_bit("sps_scaling_list_data_present_flag")? {
        skip_scaling_lists(bits)?;
    }
    bits.skip(2, "amp_enabled_flag, sample_adaptive_offset_enabled_flag")?;
    if bits.read_bit("pcm_enabled_flag")? {
        bits.skip(8, "pcm_sample_bit_depth")?;
        skip_numbers(bits, 2, "pcm block sizes")?;
        bits.skip(1, "pcm_loop_filter_disabled_flag")?;
    }
    let sets = bits.read_ue("num_short_term_ref_pic_sets")?;
    if sets > MAX_SHORT_TERM_SETS || order_bits > 16 {
        return Ok(None);
    }
    let mut pictures = 0;
    for set in 0..sets {
        match skip_short_term_set(bits, set > 0, pictures)? {
            Some(count) => pictures = count,
            None => return Ok(None),
        }
    }
    if bits.read_bit("long_term_ref_pics_present_flag")? {
        let count = bits.read_ue("num_long_term_ref_pics_sps")?;
        if count > MAX_LONG_TERM_PICTURES {
            return Ok(None);
        }
        bits.skip(count * (order_bits + 1), "lt_ref_pic_poc_lsb_sps, used_by_curr_pic_lt_sps_flag")?;
    }
    bits.skip(2, "sps_temporal_mvp_enabled_flag, strong_intra_smoothing_enabled_flag")?;
    if !bits.read_bit("vui_parameters_present_flag")? {
        return Ok(None);
    }
    let pixel_aspect = if bits.read_bit("aspect_ratio_info_present_flag")? { read_pixel_aspect(bits)? } else { None };
    if bits.read_bit("overscan_info_present_flag")? {
        bits.skip(1, "overscan_appropriate_flag")?;
    }
    let color = if bits.read_bit("video_signal_type_present_flag")? { read_color(bits)? } else { None };
    Ok(Some(Usability { pixel_aspect, color }))
}

fn read_pixel_aspect(bits: &mut Bits) -> Result<Option<(u32, u32)>, BitReaderError> {
    let (width, height) = match bits.read::<8, u8>("aspect_ratio_idc")? {
        EXTENDED_ASPECT => (bits.read::<16, u32>("sar_width")?, bits.read::<16, u32>("sar_height")?),
        code => usize::from(code).checked_sub(1).and_then(|at| PIXEL_ASPECTS.get(at)).copied().unwrap_or((1, 1)),
    };
    Ok(Some((width, height)).filter(|_| width != height && width > 0 && height > 0))
}

fn read_color(bits: &mut Bits) -> Result<Option<Color>, BitReaderError> {
    bits.skip(3, "video_format")?;
    let is_full_range = bits.read_bit("video_full_range_flag")?;
    if !bits.read_bit("colour_description_present_flag")? {
        return Ok(None);
    }
    let mut code = || bits.read::<8, u16>("colour_primaries, transfer_characteristics, matrix_coeffs");
    Ok(Some(Color { primaries: code()?, transfer: code()?, matrix: code()?, is_full_range }))
}

/// `scaling_list_data` (section 7.3.4).
fn skip_scaling_lists(bits: &mut Bits) -> Result<(), BitReaderError> {
    for size in 0..4u32 {
        for _ in (0..6).step_by(if size == 3 { 3 } else { 1 }) {
            if !bits.read_bit("scaling_list_pred_mode_flag")? {
                bits.read_ue("scaling_list_pred_matrix_id_delta")?;
                continue;
            }
            let coefficients = 64u32.min(1 << (4 + 2 * size)) + u32::from(size > 1);
            for _ in 0..coefficients {
                bits.read_se("scaling_list_dc_coef_minus8, scaling_list_delta_coef")?;
            }
        }
    }
    Ok(())
}

/// `st_ref_pic_set` (section 7.3.7) after a set of `previous` pictures; its number of pictures, None if there are too many.
fn skip_short_term_set(bits: &mut Bits, has_previous: bool, previous: u32) -> Result<Option<u32>, BitReaderError> {
    if has_previous && bits.read_bit("inter_ref_pic_set_prediction_flag")? {
        bits.skip(1, "delta_rps_sign")?;
        bits.read_ue("abs_delta_rps_minus1")?;
        let mut pictures = 0;
        for _ in 0..=previous {
            let is_kept = bits.read_bit("used_by_curr_pic_flag")? || bits.read_bit("use_delta_flag")?;
            pictures += u32::from(is_kept);
        }
        return Ok(Some(pictures).filter(|count| *count <= MAX_PICTURES));
    }
    let (negative, positive) = (bits.read_ue("num_negative_pics")?, bits.read_ue("num_positive_pics")?);
    if negative > MAX_PICTURES || positive > MAX_PICTURES {
        return Ok(None);
    }
    for _ in 0..negative + positive {
        bits.read_ue("delta_poc_minus1")?;
        bits.skip(1, "used_by_curr_pic_flag")?;
    }
    Ok(Some(negative + positive))
}

fn skip_numbers(bits: &mut Bits, count: usize, name: &'static str) -> Result<(), BitReaderError> {
    (0..count).try_for_each(|_| bits.read_ue(name).map(|_| ()))
}

/// A number that a record has few bits for.
fn narrow(value: u32, max: u8) -> Result<u8, EntryError> {
    u8::try_from(value).ok().filter(|value| *value <= max).ok_or(EntryError::Truncated)
}
