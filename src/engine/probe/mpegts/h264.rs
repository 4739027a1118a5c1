//! Video parameters from the sequence parameter set of H.264 (ITU-T H.264 section 7.3.2.1.1, annex E).

use h264_reader::nal::sps::{ChromaFormat, FrameMbsFlags, VideoSignalType};

use super::super::decoder_info::{DecoderInfo, color_name};
use super::super::outline::{Result, refuse_if};
use crate::domain::codec;
use crate::domain::media::Color;
use crate::engine::container::avc;

/// Packets searched for the set, and checked to have one picture each.
const MAX_PACKETS: usize = 6;

/// The single sequence parameter set of pictures in Annex B form.
pub(super) fn find_sps(access_units: impl Iterator<Item = Vec<u8>>) -> Result<Vec<u8>> {
    let mut sps: Option<Vec<u8>> = None;
    for access_unit in access_units.take(MAX_PACKETS) {
        let mut picture_count = 0;
        for nal in nal_units(&access_unit) {
            match *nal {
                [kind, ..] if kind & 0x1f == 7 => {
                    refuse_if(sps.as_deref().is_some_and(|known| known != nal), "several parameter sets")?;
                    sps = Some(nal.to_vec());
                }
                // A slice whose `first_mb_in_slice` is 0, coded as one bit.
                [kind, slice, ..] if matches!(kind & 0x1f, 1 | 5) && slice & 0x80 != 0 => picture_count += 1,
                _ => {}
            }
        }
        refuse_if(picture_count != 1, "packets without exactly one picture")?;
    }
    sps.ok_or("no parameter set at the beginning")
}

/// Parses the set; also returns the frame rate it states, if any.
pub(super) fn parse_sps(nal: &[u8]) -> Result<(DecoderInfo, Option<f64>)> {
    let sps = avc::parse_sps(nal).ok_or("an unusual parameter set")?;
    let (width, height) = sps.pixel_dimensions().map_err(|_| "an unusual size")?;
    let chroma = match sps.chroma_info.chroma_format {
        ChromaFormat::YUV420 => "4:2:0",
        ChromaFormat::YUV422 => "4:2:2",
        ChromaFormat::YUV444 => "4:4:4",
        _ => return Err("unusual chroma"),
    };
    let depths = (sps.chroma_info.bit_depth_luma_minus8, sps.chroma_info.bit_depth_chroma_minus8);
    let (constraint_set1, constraint_set3) = (nal[2] & 0x40 != 0, nal[2] & 0x10 != 0);
    let profile = match nal[1] {
        66 if constraint_set1 => "constrained-baseline",
        66 => "baseline",
        77 => "main",
        100 => "high",
        // With `constraint_set3_flag` these are intra profiles.
        122 if !constraint_set3 => "high-4:2:2",
        244 if !constraint_set3 => "high-4:4:4-predictive",
        _ => return Err("an unusual profile"),
    };
    // Level 1b is coded as level 11 with `constraint_set3_flag`.
    let level = Some(sps.level_idc).filter(|level| *level != 11 || !constraint_set3).ok_or("level 1b")?;
    let vui = sps.vui_parameters.as_ref();
    let aspect = vui.and_then(|vui| vui.aspect_ratio_info.as_ref()?.get());
    let timing_info = vui.and_then(|vui| vui.timing_info.as_ref()).filter(|timing| timing.num_units_in_tick > 0);
    let info = DecoderInfo {
        codec: Some("h264"),
        profile: Some(profile.to_owned()),
        level: codec::format_level("h264", i64::from(level)),
        width,
        height,
        sample_aspect: aspect.filter(|(a, b)| *a > 0 && *b > 0).map(|(a, b)| (u32::from(a), u32::from(b))),
        bit_depth: (depths == (0, 0)).then_some(8),
        chroma: Some(chroma.to_owned()),
        is_interlaced: sps.frame_mbs_flags != FrameMbsFlags::Frames,
        color: vui.and_then(|vui| vui.video_signal_type.as_ref()).map_or(Ok(Color::default()), parse_color)?,
        ..DecoderInfo::default()
    };
    Ok((info, timing_info.map(|timing| f64::from(timing.time_scale) / f64::from(timing.num_units_in_tick) / 2.0)))
}

/// The numbers of ITU-T H.273 that ordinary films use; 2 is "unspecified".
fn parse_color(signal: &VideoSignalType) -> Result<Color> {
    let range = if signal.video_full_range_flag { "full" } else { "limited" };
    let mut color = Color { range: Some(range.to_owned()), ..Color::default() };
    if let Some(numbers) = &signal.colour_description {
        color.primaries = color_name(numbers.colour_primaries, 2, &[(1, "bt709"), (5, "bt470bg"), (6, "smpte170m")])?;
        color.transfer = color_name(numbers.transfer_characteristics, 2, &[(1, "bt709"), (6, "smpte170m")])?;
        color.matrix = color_name(numbers.matrix_coefficients, 2, &[(1, "bt709"), (5, "bt470bg"), (6, "smpte170m")])?;
    }
    Ok(color)
}

/// The NAL units of a picture in Annex B form, without start codes.
fn nal_units(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = &bytes[find_after_start_code(bytes).unwrap_or(bytes.len())..];
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let next = find_after_start_code(rest);
        let (nal, after) = rest.split_at(next.unwrap_or(rest.len()));
        rest = after;
        let nal = if next.is_some() { &nal[..nal.len() - 3] } else { nal };
        let zeros = nal.iter().rev().take_while(|byte| **byte == 0).count();
        Some(&nal[..nal.len() - zeros])
    })
}

fn find_after_start_code(bytes: &[u8]) -> Option<usize> {
    bytes.windows(3).position(|three| three == [0, 0, 1]).map(|at| at + 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_separated_by_their_start_codes() {
        let bytes = [0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x67, 1, 2, 0, 0, 1, 0x65, 0x80, 0, 0];
        let found: Vec<_> = nal_units(&bytes).collect();
        assert_eq!(found, [&[9, 0xf0][..], &[0x67, 1, 2], &[0x65, 0x80]]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(0u8..4, 0..200), sps in proptest::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(nal_units(&bytes).map(<[u8]>::len).sum::<usize>() <= bytes.len());
            let _ = (find_sps([bytes].into_iter()), parse_sps(&sps));
            let high: Vec<u8> = [0x67, 100, 0, 31].into_iter().chain(sps).collect();
            let _ = parse_sps(&high);
        }
    }
}
