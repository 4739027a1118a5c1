//! HEVC (ISO/IEC 14496-15 section 8.4.1), and Dolby Vision over it.

mod messages;
mod sps;

pub use messages::HdrMessages;

use super::dolby_vision::Signalling;
use super::{EntryError, SampleEntry, VideoFormat, record_codecs, visual_entry};
use crate::domain::bytes::ByteCursor;
use crate::domain::cmaf::Color;
use crate::domain::cmaf::boxes::push_box;
use sps::SequenceParameters;

/// NAL unit types of parameter sets (ITU-T H.265 table 7-1): VPS, SPS, PPS.
const PARAMETER_SETS: [u8; 3] = [32, 33, 34];
const SPS: u8 = 33;

/// Size of an HEVCDecoderConfigurationRecord before its arrays, bytes.
const RECORD_HEAD_BYTES: usize = 23;

/// From an HEVCDecoderConfigurationRecord (ISO/IEC 14496-15 section 8.3.3.1), which is also Matroska's `CodecPrivate`.
///
/// The entry is `hvc1`, which Apple's players require, or `dvh1` for Dolby Vision without a compatible base layer.
pub fn entry(hvcc: &[u8], format: &VideoFormat) -> Result<SampleEntry, EntryError> {
    let record = with_complete_arrays(hvcc)?;
    let codecs = record_codecs("hevc", b"hvc1", &record)?;
    let transfer = format.color.map(|color| color.transfer);
    let signalling = match &format.dolby_vision {
        Some(dovi) => Signalling::parse(dovi, transfer)?,
        None => None,
    };
    let kind = if matches!(signalling, Some(Signalling::Only { .. })) { b"dvh1" } else { b"hvc1" };
    let bytes = visual_entry(kind, format, |out| {
        push_box(out, b"hvcC", |out| out.extend(record));
        if let Some(signalling) = &signalling {
            signalling.push_configuration(out);
        }
    });
    let entry = SampleEntry::new(bytes, codecs);
    Ok(match signalling {
        None => entry,
        Some(Signalling::Only { codecs, .. }) => SampleEntry { codecs, ..entry },
        Some(Signalling::Supplemental { codecs, .. }) => SampleEntry { supplemental_codecs: Some(codecs), ..entry },
    })
}

/// A copy of a record that sets `array_completeness` for the parameter sets, as `hvc1` requires.
fn with_complete_arrays(hvcc: &[u8]) -> Result<Vec<u8>, EntryError> {
    let mut rest = ByteCursor(hvcc);
    let head = rest.take(RECORD_HEAD_BYTES)?;
    // Files from before the standard have version 0.
    if head[0] > 1 {
        return Err(EntryError::Unsupported("the HEVC configuration is not an hvcC record of version 1"));
    }
    let mut record = hvcc.to_vec();
    record[0] = 1;
    let mut has_sps = false;
    for _ in 0..head[RECORD_HEAD_BYTES - 1] {
        let kind_at = hvcc.len() - rest.0.len();
        let kind = rest.u8()? & 0x3f;
        if PARAMETER_SETS.contains(&kind) {
            record[kind_at] |= 0x80;
        }
        let units = rest.u16()?;
        has_sps |= kind == SPS && units > 0;
        for _ in 0..units {
            let length = rest.u16()?;
            rest.take(usize::from(length))?;
        }
    }
    if !has_sps {
        return Err(EntryError::Unsupported("the HEVC parameter sets are in the samples only"));
    }
    record.truncate(hvcc.len() - rest.0.len());
    Ok(record)
}

/// A record from NAL units of a transport stream or an encoder, without start codes. Units other than parameter sets
/// are ignored, and so are repetitions.
pub fn record_from_parameter_sets(nal_units: &[&[u8]]) -> Result<Vec<u8>, EntryError> {
    let units_of = |kind: u8| {
        let mut units: Vec<&[u8]> = Vec::new();
        for &unit in nal_units {
            if unit_type(unit) == Some(kind) && !units.contains(&unit) {
                units.push(unit);
            }
        }
        units
    };
    let arrays = PARAMETER_SETS.map(|kind| (kind, units_of(kind)));
    if arrays.iter().any(|(_, units)| units.is_empty()) {
        return Err(EntryError::Unsupported("the HEVC stream has no VPS, SPS and PPS"));
    }
    let sps = SequenceParameters::parse(arrays[1].1[0])?;
    // Unknown spatial segmentation and parallelism, 4:2:0 and 8 bits being zero, below reserved bits.
    let mut record = vec![1];
    record.extend(sps.profile_tier_level);
    record.extend([
        0xf0,
        0,
        0xfc,
        0xfc | sps.chroma_format,
        0xf8 | sps.luma_depth_minus8,
        0xf8 | sps.chroma_depth_minus8,
    ]);
    // Unknown frame rate; four bytes of length before each NAL unit.
    record.extend([0, 0, sps.temporal_layers << 3 | u8::from(sps.is_temporal_id_nested) << 2 | 3, arrays.len() as u8]);
    for (kind, units) in arrays {
        record.push(0x80 | kind);
        record.extend((units.len() as u16).to_be_bytes());
        for unit in units {
            let length = u16::try_from(unit.len());
            record.extend(
                length.map_err(|_| EntryError::Unsupported("an HEVC parameter set is too long"))?.to_be_bytes(),
            );
            record.extend(unit);
        }
    }
    Ok(record)
}

/// The format that a sequence parameter set states, and the supplemental messages before the first picture: size without what is
/// cropped, pixel aspect, colour and light levels. `sps` is the NAL unit, without a start code.
pub fn video_format(sps: &[u8], messages: &HdrMessages) -> Result<VideoFormat, EntryError> {
    if unit_type(sps) != Some(SPS) {
        return Err(EntryError::Truncated);
    }
    let SequenceParameters { picture_size: (width, height), usability, .. } = SequenceParameters::parse(sps)?;
    let color = usability.color.map(|color| Color { transfer: messages.transfer.unwrap_or(color.transfer), ..color });
    Ok(VideoFormat {
        width,
        height,
        pixel_aspect: usability.pixel_aspect,
        color,
        mastering_display: messages.mastering_display,
        content_light: messages.content_light,
        dolby_vision: None,
    })
}

fn unit_type(unit: &[u8]) -> Option<u8> {
    unit.first().map(|byte| byte >> 1 & 0x3f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::entry::testing::{hex, visual_box, without_needless_boxes};
    use proptest::prelude::*;

    /// ffmpeg 5.1: `-f lavfi -i testsrc2=size=64x48:rate=24:duration=0.3 -c:v libx265 -preset ultrafast -pix_fmt
    /// yuv420p10le -x265-params
    /// colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:master-display=...:max-cll=1000,400:info=0`, to
    /// Matroska.
    const CODEC_PRIVATE: &str = "
        0102200000009000000000001ef000fcfdfafa00000f04200001001840010c01ffff02200000030090000003000003001e95
        9409210001002c42010102200000030090000003000003001ea02083136595952930bc05a848804820000003002000000303
        0122000100064401c073c08927000200094e01900403e8019080001e4e01891833c286c41d4c0bb884d03e803d1340420098
        9680000003000180
    ";

    /// That stream, copied to MP4 with `-write_btrt 0`.
    const ENTRY: &str = "
        0000012968657631000000000000000100000000000000000000000000000000004000300048000000480000000000000001
        00000000000000000000000000000000000000000000000000000000000000000018ffff000000a668766343010220000000
        9000000000001ef000fcfdfafa00000f04200001001840010c01ffff02200000030090000003000003001e95940921000100
        2c42010102200000030090000003000003001ea02083136595952930bc05a848804820000003002000000303012200010006
        4401c073c08927000200094e01900403e8019080001e4e01891833c286c41d4c0bb884d03e803d1340420098968000000300
        01800000000a6669656c010000000013636f6c726e636c780009001000090000000010706173700000000100000001
    ";

    const PQ: Color = Color { primaries: 9, transfer: 16, matrix: 9, is_full_range: false };
    const HLG: Color = Color { transfer: 18, ..PQ };

    fn format(color: Color, dolby_vision: Option<&str>) -> VideoFormat {
        let dolby_vision = dolby_vision.map(hex);
        VideoFormat { width: 64, height: 48, color: Some(color), dolby_vision, ..VideoFormat::default() }
    }

    #[test]
    fn the_entry_is_that_of_ffmpeg_as_hvc1_with_complete_arrays() {
        let entry = entry(&hex(CODEC_PRIVATE), &format(PQ, None)).unwrap();
        let mut expected = without_needless_boxes(&hex(ENTRY));
        expected[4..8].copy_from_slice(b"hvc1");
        for array in ["2000010018", "210001002c", "2200010006"] {
            let at = expected.windows(5).position(|window| window == hex(array)).unwrap();
            expected[at] |= 0x80;
        }
        assert_eq!(entry.bytes, expected, "arrays of SEI stay incomplete");
        assert_eq!(entry.codecs, "hvc1.2.4.L30.90");
        assert_eq!((PQ.video_range(), HLG.video_range()), ("PQ", "HLG"));
    }

    #[test]
    fn a_record_is_built_from_parameter_sets() {
        let private = hex(CODEC_PRIVATE);
        // Lengths of the sets are in the arrays of the record.
        let (vps, sps, pps) = (&private[28..52], &private[57..101], &private[106..112]);
        let record = record_from_parameter_sets(&[&[0x46, 1, 0x50], vps, sps, pps, vps, sps, pps]).unwrap();
        // ffmpeg has the same, then an array of SEI.
        let mut expected = with_complete_arrays(&private).unwrap()[..112].to_vec();
        expected[22] = 3;
        assert_eq!(record, expected);
        assert_eq!(entry(&record, &format(PQ, None)).unwrap().codecs, "hvc1.2.4.L30.90");
        assert!(record_from_parameter_sets(&[vps, pps]).is_err());
        assert_eq!(video_format(sps, &HdrMessages::default()), Ok(format(PQ, None)));
        assert_eq!(video_format(pps, &HdrMessages::default()), Err(EntryError::Truncated));
    }

    /// ffmpeg 5.1: `-c:v libx265 -aspect 16:9 -color_range pc -x265-params
    /// colorprim=bt2020:transfer=bt2020-10:colormatrix=bt2020nc:scaling-list=default`, 720x576, 10 bits.
    const WIDE_SPS: &str =
        "42010102200000030090000003000003005aa005a200904d965654a4e17ff80200016b7090e09040000003004000000642";

    #[test]
    fn messages_and_usability_information_become_boxes() {
        let private = hex(CODEC_PRIVATE);
        let (sps, light) = (&private[57..101], hex("4e01900403e8019080"));
        let display = hex("4e01891833c286c41d4c0bb884d03e803d13404200989680000003000180");
        // A message of another kind with a long size before the light level, in one unit.
        let both = [&[0x4e, 1, 5, 255, 1][..], &[9; 256], &light[2..]].concat();
        let messages = HdrMessages::read([&display[..], &both, &[0x4e, 1, 144, 4, 0], sps]);
        let content = hex("33c286c41d4c0bb884d03e803d1340420098968000000001");
        assert_eq!(messages.mastering_display.map(Vec::from), Some(content.clone()));
        assert_eq!((messages.content_light, messages.transfer), (Some((1000, 400)), None));
        let described = video_format(sps, &messages).unwrap();
        let record = record_from_parameter_sets(&[&private[28..52], sps, &private[106..112]]).unwrap();
        let bytes = entry(&record, &described).unwrap().bytes;
        assert_eq!(visual_box(&bytes, b"mdcv"), Some(&content[..]));
        assert_eq!(visual_box(&bytes, b"clli"), Some(&[3, 0xe8, 1, 0x90][..]));
        assert_eq!(visual_box(&bytes, b"colr"), Some(&b"nclx\0\x09\0\x10\0\x09\0"[..]));

        let hlg = HdrMessages::read([&[0x4e, 1, 147, 1, 18, 0x80][..]]);
        let wide = video_format(&hex(WIDE_SPS), &hlg).unwrap();
        let color = Color { is_full_range: true, ..HLG };
        assert_eq!((wide.width, wide.height, wide.pixel_aspect, wide.color), (720, 576, Some((64, 45)), Some(color)));
    }

    #[test]
    fn dolby_vision_is_signalled_by_its_profile() {
        let signalled = |color, dovi| {
            let entry = entry(&hex(CODEC_PRIVATE), &format(color, Some(dovi))).unwrap();
            let kind = String::from_utf8(entry.bytes[4..8].to_vec()).unwrap();
            let configuration = [b"dvcC", b"dvvC"].map(|kind| visual_box(&entry.bytes, kind).map(<[u8]>::len));
            (kind, configuration, entry.codecs, entry.supplemental_codecs)
        };
        let row = |kind: &str, configuration, codecs: &str, supplemental: Option<&str>| {
            (kind.into(), configuration, codecs.into(), supplemental.map(String::from))
        };
        let base = "hvc1.2.4.L30.90";
        // Version 1.0, a level of 6, and the flags of metadata and base layer.
        assert_eq!(signalled(PQ, "01000a3500"), row("dvh1", [Some(24), None], "dvh1.05.06", None));
        let supplemental = [None, Some(24)];
        assert_eq!(signalled(PQ, "0100103510"), row("hvc1", supplemental, base, Some("dvh1.08.06/db1p")));
        assert_eq!(signalled(PQ, "0100103520"), row("hvc1", supplemental, base, Some("dvh1.08.06/db2g")));
        assert_eq!(signalled(HLG, "0100103540"), row("hvc1", supplemental, base, Some("dvh1.08.06/db4h")));
        // Profile 7 with an enhancement layer, and profile 8 without a compatible base layer.
        assert_eq!(signalled(PQ, "01000e3760"), row("hvc1", [None, None], base, None));
        assert_eq!(signalled(PQ, "0100103500"), row("hvc1", [None, None], base, None));
        let enhancement_only = format(PQ, Some("01000e3660"));
        assert!(entry(&hex(CODEC_PRIVATE), &enhancement_only).is_err());
    }

    #[test]
    fn damaged_records_are_refused() {
        let private = hex(CODEC_PRIVATE);
        assert_eq!(entry(&private[..111], &format(PQ, None)), Err(EntryError::Truncated));
        let without_arrays = [&private[..22], &[0]].concat();
        assert!(matches!(entry(&without_arrays, &format(PQ, None)), Err(EntryError::Unsupported(_))));
        let draft = [&[0], &private[1..]].concat();
        assert_eq!(entry(&draft, &format(PQ, None)), entry(&private, &format(PQ, None)), "version 0 of a draft");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
            dovi in proptest::collection::vec(any::<u8>(), 0..30),
        ) {
            let format = VideoFormat { dolby_vision: Some(dovi), ..VideoFormat::default() };
            let _ = (entry(&bytes, &format), entry(&[&hex(CODEC_PRIVATE)[..28], &bytes].concat(), &format));
            let sps = [&[0x42, 1][..], &bytes].concat();
            let _ = record_from_parameter_sets(&[&[0x40, 1], &sps, &[0x44, 1]]);
            let _ = record_from_parameter_sets(&[&bytes]);
            let message = [&[0x4e, 1][..], &bytes].concat();
            let wide = [&hex(WIDE_SPS)[..24], &bytes].concat();
            for sps in [&sps, &wide] {
                let _ = video_format(sps, &HdrMessages::read([&message[..]]));
            }
        }
    }
}
