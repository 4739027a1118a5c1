//! Video parameters from the sequence parameter set of H.264 (ITU-T H.264 section 7.3.2.1.1, annex E).

use h264_reader::nal::sps::{ChromaFormat, FrameMbsFlags, SeqParameterSet, VideoSignalType};
use h264_reader::nal::{Nal, RefNal};

use super::super::outline::Unsure;
use super::super::seen::Seen;
use crate::domain::codec;
use crate::domain::media::Color;

/// Packets searched for the set, and checked to have one picture each.
const LOOKED_INTO: usize = 6;

/// The single sequence parameter set of pictures in Annex B form.
pub(super) fn parameters(pictures: impl Iterator<Item = Vec<u8>>) -> Result<Vec<u8>, Unsure> {
    let mut found: Option<Vec<u8>> = None;
    for picture in pictures.take(LOOKED_INTO) {
        let mut begun = 0;
        for nal in nals(&picture) {
            match *nal {
                [kind, ..] if kind & 0x1f == 7 => {
                    if found.as_deref().is_some_and(|known| known != nal) {
                        return Err(Unsure("several parameter sets"));
                    }
                    found = Some(nal.to_vec());
                }
                // A slice whose `first_mb_in_slice` is 0, coded as one bit.
                [kind, slice, ..] if matches!(kind & 0x1f, 1 | 5) && slice & 0x80 != 0 => begun += 1,
                _ => {}
            }
        }
        if begun != 1 {
            return Err(Unsure("packets without exactly one picture"));
        }
    }
    found.ok_or(Unsure("no parameter set at the beginning"))
}

/// Parses the set; also returns the frame rate it states, if any.
pub(super) fn seen(nal: &[u8]) -> Result<(Seen, Option<f64>), Unsure> {
    if nal.len() < 4 {
        return Err(Unsure("a short parameter set"));
    }
    let sps = SeqParameterSet::from_bits(RefNal::new(nal, &[], true).rbsp_bits());
    let sps = sps.map_err(|_| Unsure("an unusual parameter set"))?;
    let (width, height) = sps.pixel_dimensions().map_err(|_| Unsure("an unusual size"))?;
    let chroma = match sps.chroma_info.chroma_format {
        ChromaFormat::YUV420 => "4:2:0",
        ChromaFormat::YUV422 => "4:2:2",
        ChromaFormat::YUV444 => "4:4:4",
        _ => return Err(Unsure("unusual chroma")),
    };
    let depths = (sps.chroma_info.bit_depth_luma_minus8, sps.chroma_info.bit_depth_chroma_minus8);
    let (first, third) = (nal[2] & 0x40 != 0, nal[2] & 0x10 != 0);
    let profile = match nal[1] {
        66 if first => "constrained-baseline",
        66 => "baseline",
        77 => "main",
        100 => "high",
        // With `constraint_set3_flag` these are intra profiles.
        122 if !third => "high-4:2:2",
        244 if !third => "high-4:4:4-predictive",
        _ => return Err(Unsure("an unusual profile")),
    };
    // Level 1b is coded as level 11 with `constraint_set3_flag`.
    let level = Some(sps.level_idc).filter(|level| *level != 11 || !third).ok_or(Unsure("level 1b"))?;
    let vui = sps.vui_parameters.as_ref();
    let aspect = vui.and_then(|vui| vui.aspect_ratio_info.as_ref()?.get());
    let stated = vui.and_then(|vui| vui.timing_info.as_ref()).filter(|timing| timing.num_units_in_tick > 0);
    let seen = Seen {
        codec: Some("h264"),
        profile: Some(profile.to_owned()),
        level: codec::format_level("h264", i64::from(level)),
        width,
        height,
        sample_aspect: aspect.filter(|(a, b)| *a > 0 && *b > 0).map(|(a, b)| (u32::from(a), u32::from(b))),
        bit_depth: (depths == (0, 0)).then_some(8),
        chroma: Some(chroma.to_owned()),
        interlaced: sps.frame_mbs_flags != FrameMbsFlags::Frames,
        color: vui.and_then(|vui| vui.video_signal_type.as_ref()).map_or(Ok(Color::default()), color)?,
        ..Seen::default()
    };
    Ok((seen, stated.map(|timing| f64::from(timing.time_scale) / f64::from(timing.num_units_in_tick) / 2.0)))
}

/// The numbers of ITU-T H.273 that ordinary films use; 2 is "unspecified".
fn color(signal: &VideoSignalType) -> Result<Color, Unsure> {
    let name = |number: u8, table: &[(u8, &str)]| match number {
        2 => Ok(None),
        _ => {
            let found = table.iter().find(|(known, _)| *known == number);
            found.map(|(_, name)| Some((*name).to_owned())).ok_or(Unsure("unusual color parameters"))
        }
    };
    let range = if signal.video_full_range_flag { "full" } else { "limited" };
    let mut color = Color { range: Some(range.to_owned()), ..Color::default() };
    if let Some(numbers) = &signal.colour_description {
        color.primaries = name(numbers.colour_primaries, &[(1, "bt709"), (5, "bt470bg"), (6, "smpte170m")])?;
        color.transfer = name(numbers.transfer_characteristics, &[(1, "bt709"), (6, "smpte170m")])?;
        color.matrix = name(numbers.matrix_coefficients, &[(1, "bt709"), (5, "bt470bg"), (6, "smpte170m")])?;
    }
    Ok(color)
}

/// The NAL units of a picture in Annex B form, without start codes.
fn nals(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = &bytes[after_start_code(bytes).unwrap_or(bytes.len())..];
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let next = after_start_code(rest);
        let (nal, after) = rest.split_at(next.unwrap_or(rest.len()));
        rest = after;
        let nal = if next.is_some() { &nal[..nal.len() - 3] } else { nal };
        let zeros = nal.iter().rev().take_while(|byte| **byte == 0).count();
        Some(&nal[..nal.len() - zeros])
    })
}

fn after_start_code(bytes: &[u8]) -> Option<usize> {
    bytes.windows(3).position(|three| three == [0, 0, 1]).map(|at| at + 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_told_apart_by_their_start_codes() {
        let bytes = [0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x67, 1, 2, 0, 0, 1, 0x65, 0x80, 0, 0];
        let found: Vec<_> = nals(&bytes).collect();
        assert_eq!(found, [&[9, 0xf0][..], &[0x67, 1, 2], &[0x65, 0x80]]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(0u8..4, 0..200), sps in proptest::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(nals(&bytes).map(<[u8]>::len).sum::<usize>() <= bytes.len());
            let _ = (parameters([bytes].into_iter()), seen(&sps));
            let high: Vec<u8> = [0x67, 100, 0, 31].into_iter().chain(sps).collect();
            let _ = seen(&high);
        }
    }
}
