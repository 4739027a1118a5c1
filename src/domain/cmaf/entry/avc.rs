//! H.264 (ISO/IEC 14496-15 section 5.4.2).

use h264_reader::nal::sps::{ChromaFormat, SeqParameterSet};
use h264_reader::nal::{Nal, RefNal};

use super::{EntryError, SampleEntry, VideoFormat, record_codecs, visual_entry};
use crate::domain::cmaf::Color;
use crate::domain::cmaf::boxes::push_box;

/// NAL unit types of parameter sets (ITU-T H.264 table 7-1).
const SPS: u8 = 7;
const PPS: u8 = 8;

/// Whether samples may contain parameter sets that differ from those of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterSets {
    /// `avc1`: all are in the entry.
    OutOfBand,
    /// `avc3`: samples may contain others.
    InBand,
}

/// From an AVCDecoderConfigurationRecord (ISO/IEC 14496-15 section 5.3.3.1), which is also Matroska's `CodecPrivate`.
pub fn entry(avcc: &[u8], format: &VideoFormat) -> Result<SampleEntry, EntryError> {
    entry_with(avcc, format, ParameterSets::OutOfBand)
}

pub fn entry_with(avcc: &[u8], format: &VideoFormat, sets: ParameterSets) -> Result<SampleEntry, EntryError> {
    // Version, profile, constraints, level, length size, and the numbers of sequence and picture parameter sets.
    if avcc.len() < 7 {
        return Err(EntryError::Truncated);
    }
    if avcc[0] != 1 {
        return Err(EntryError::Unsupported("the H.264 configuration is not an avcC record of version 1"));
    }
    let has_sps = avcc[5] & 0x1f != 0;
    if !has_sps && sets == ParameterSets::OutOfBand {
        return Err(EntryError::Unsupported("the H.264 parameter sets are in the samples only"));
    }
    let kind = match sets {
        ParameterSets::OutOfBand => b"avc1",
        ParameterSets::InBand => b"avc3",
    };
    let bytes = visual_entry(kind, format, |out| push_box(out, b"avcC", |out| out.extend(avcc)));
    Ok(SampleEntry::new(bytes, record_codecs("h264", kind, avcc)?))
}

/// A record from NAL units of a transport stream or an encoder, without start codes. Units other than parameter sets are
/// ignored, and so are repetitions.
pub fn record_from_parameter_sets(nal_units: &[&[u8]]) -> Result<Vec<u8>, EntryError> {
    let units_of = |kind: u8| {
        let mut units: Vec<&[u8]> = Vec::new();
        for &unit in nal_units {
            if unit.first().is_some_and(|byte| byte & 0x1f == kind) && !units.contains(&unit) {
                units.push(unit);
            }
        }
        units
    };
    let (sets, picture_sets) = (units_of(SPS), units_of(PPS));
    // The numbers of sets have five and eight bits.
    let (Some(&&[_, profile, constraints, level, ..]), false, ..=31, ..=255) =
        (sets.first(), picture_sets.is_empty(), sets.len(), picture_sets.len())
    else {
        return Err(EntryError::Unsupported("the H.264 stream has no SPS and PPS, or too many"));
    };
    // Four bytes of length before each NAL unit, below reserved bits.
    let mut record = vec![1, profile, constraints, level, 0xfc | 3, 0xe0 | sets.len() as u8];
    push_units(&mut record, &sets)?;
    record.push(picture_sets.len() as u8);
    push_units(&mut record, &picture_sets)?;
    if !matches!(profile, 66 | 77 | 88) {
        let chroma = parse_sps(sets[0])?.chroma_info;
        let format = match chroma.chroma_format {
            ChromaFormat::Monochrome => 0,
            ChromaFormat::YUV422 => 2,
            ChromaFormat::YUV444 => 3,
            _ => 1,
        };
        // No extensions of sequence parameter sets.
        record.extend([0xfc | format, 0xf8 | chroma.bit_depth_luma_minus8, 0xf8 | chroma.bit_depth_chroma_minus8, 0]);
    }
    Ok(record)
}

/// Appends NAL units, each with its length in 16 bits.
fn push_units(record: &mut Vec<u8>, units: &[&[u8]]) -> Result<(), EntryError> {
    for unit in units {
        let length = u16::try_from(unit.len());
        record.extend(length.map_err(|_| EntryError::Unsupported("an H.264 parameter set is too long"))?.to_be_bytes());
        record.extend(*unit);
    }
    Ok(())
}

/// Size, pixel aspect and colour that a sequence parameter set states (ITU-T H.264 sections 7.3.2.1.1 and E.1.1). `sps` is
/// the NAL unit, without a start code.
pub fn video_format(sps: &[u8]) -> Result<VideoFormat, EntryError> {
    let sps = parse_sps(sps)?;
    let (width, height) = sps.pixel_dimensions().map_err(|_| EntryError::Truncated)?;
    let narrow = |pixels: u32| u16::try_from(pixels).map_err(|_| EntryError::Truncated);
    let vui = sps.vui_parameters.as_ref();
    let aspect = vui.and_then(|vui| vui.aspect_ratio_info.as_ref()?.get());
    let aspect = aspect.filter(|&(width, height)| width != height && width > 0 && height > 0);
    let color = vui.and_then(|vui| {
        let signal = vui.video_signal_type.as_ref()?;
        let codes = signal.colour_description.as_ref()?;
        Some(Color {
            primaries: codes.colour_primaries.into(),
            transfer: codes.transfer_characteristics.into(),
            matrix: codes.matrix_coefficients.into(),
            is_full_range: signal.video_full_range_flag,
        })
    });
    Ok(VideoFormat {
        width: narrow(width)?,
        height: narrow(height)?,
        pixel_aspect: aspect.map(|(width, height)| (width.into(), height.into())),
        color,
        ..VideoFormat::default()
    })
}

fn parse_sps(unit: &[u8]) -> Result<SeqParameterSet, EntryError> {
    // The parser needs a NAL unit with a body.
    let unit = Some(unit).filter(|unit| unit.len() >= 4 && unit[0] & 0x1f == SPS).ok_or(EntryError::Truncated)?;
    SeqParameterSet::from_bits(RefNal::new(unit, &[], true).rbsp_bits()).map_err(|_| EntryError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::Color;
    use crate::domain::cmaf::entry::testing::{hex, visual_box, without_needless_boxes};
    use proptest::prelude::*;

    /// ffmpeg 5.1: `-f lavfi -i testsrc2=size=64x48:rate=24:duration=0.3 -c:v libx264 -preset ultrafast -pix_fmt
    /// yuv420p -color_primaries bt709 -color_trc bt709 -colorspace bt709 -aspect 2:1`, to Matroska.
    const CODEC_PRIVATE: &str = "0142c00affe1001a6742c00ada11ec3da808080a000003000200000300601e244d4001000468ce0fc8";

    /// That stream, copied to MP4 with `-write_btrt 0`.
    const ENTRY: &str = "
        000000aa61766331000000000000000100000000000000000000000000000000004000300048000000480000000000000001
        00000000000000000000000000000000000000000000000000000000000000000018ffff00000031617663430142c00affe1
        001a6742c00ada11ec3da808080a000003000200000300601e244d4001000468ce0fc800000013636f6c726e636c78000100
        0100010000000010706173700000000300000002
    ";

    fn format() -> VideoFormat {
        let color = Some(Color { primaries: 1, transfer: 1, matrix: 1, is_full_range: false });
        VideoFormat { width: 64, height: 48, pixel_aspect: Some((3, 2)), color, ..VideoFormat::default() }
    }

    #[test]
    fn the_entry_equals_that_of_ffmpeg() {
        let entry = entry(&hex(CODEC_PRIVATE), &format()).unwrap();
        assert_eq!(entry.bytes, without_needless_boxes(&hex(ENTRY)));
        assert_eq!(entry.codecs, "avc1.42C00A");
        assert_eq!(format().color.unwrap().video_range(), "SDR");
    }

    #[test]
    fn a_record_is_built_from_parameter_sets() {
        let private = hex(CODEC_PRIVATE);
        let (sps, pps) = (&private[8..34], &private[37..]);
        assert_eq!(record_from_parameter_sets(&[&[9, 0xf0], sps, pps, sps, pps, &[0x65]]).unwrap(), private);
        assert_eq!(video_format(sps).unwrap(), format());
        assert!(record_from_parameter_sets(&[sps]).is_err() && record_from_parameter_sets(&[pps]).is_err());
        // ffmpeg 5.1: `-f lavfi -i testsrc2=size=320x180:rate=25 -c:v libx264 -preset veryfast -bf 2 -pix_fmt yuv420p
        // -color_primaries bt709 -color_trc bt709 -colorspace bt709`, to MP4.
        let high = hex("
            0164000cffe1001c6764000cacd941419f9f016a020202800000030080000019078a14cb01000468ef8fcbfdf8f800
        ");
        let (sps, pps) = (&high[8..36], &high[39..43]);
        assert_eq!(record_from_parameter_sets(&[sps, pps]).unwrap(), high);
        let expected = VideoFormat { width: 320, height: 180, pixel_aspect: None, ..format() };
        assert_eq!(video_format(sps).unwrap(), expected);
    }

    #[test]
    fn light_levels_are_written() {
        let format = VideoFormat { mastering_display: Some([7; 24]), content_light: Some((1000, 400)), ..format() };
        let entry = entry(&hex(CODEC_PRIVATE), &format).unwrap();
        assert_eq!(visual_box(&entry.bytes, b"mdcv"), Some(&[7; 24][..]));
        assert_eq!(visual_box(&entry.bytes, b"clli"), Some(&[3, 0xe8, 1, 0x90][..]));
    }

    #[test]
    fn parameter_sets_may_be_in_band() {
        let in_band = entry_with(&[1, 0x64, 0, 0x1f, 0xff, 0xe0, 0], &format(), ParameterSets::InBand).unwrap();
        assert_eq!(in_band.codecs, "avc3.64001F");
        assert_eq!(&in_band.bytes[4..8], b"avc3");
        assert!(entry(&[1, 0x64, 0, 0x1f, 0xff, 0xe0, 0], &format()).is_err());
        assert!(entry(&[0, 0, 0, 1, 0x67, 0x64, 0], &format()).is_err(), "Annex B");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = entry(&bytes, &format());
            for profile in [66, 100] {
                let sps = [&[0x67, profile, 0, 30][..], &bytes].concat();
                let _ = (record_from_parameter_sets(&[&sps, &[0x68]]), video_format(&sps));
            }
            let _ = (record_from_parameter_sets(&[&bytes]), video_format(&bytes));
        }
    }
}
