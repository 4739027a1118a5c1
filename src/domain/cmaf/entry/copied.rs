//! Sample entries of MP4 and QuickTime files, rewritten as the entries of this module: `hvc1` with complete arrays,
//! audio of version 0, and no boxes that decoders do not need.

use super::avc::ParameterSets;
use super::{
    AudioFormat, EntryError, SampleEntry, VideoFormat, aac, ac3, alac, audio_entry, av1, avc, child, children, dts,
    eac3, esds, flac, hevc, mp3, opus, take_box, vp9,
};
use crate::domain::bytes::ByteCursor;
use crate::domain::cmaf::Color;

/// Size of a visual sample entry before its boxes, bytes.
const VISUAL_ENTRY_BYTES: usize = 78;

/// From a child of `stsd`, a whole box.
pub fn entry(stsd_child: &[u8]) -> Result<SampleEntry, EntryError> {
    let (kind, body) = take_box(&mut ByteCursor(stsd_child))?;
    match &kind {
        b"avc1" | b"avc3" | b"hvc1" | b"hev1" | b"dvh1" | b"dvhe" | b"av01" | b"vp09" => video_from_entry(&kind, body),
        b"mp4a" | b"ac-3" | b"ec-3" | b"Opus" | b"fLaC" | b"alac" | b"dtsc" | b"dtsh" | b"dtsl" | b"dtse" => {
            audio_from_entry(&kind, body)
        }
        // QuickTime's names of MPEG audio.
        b".mp3" | b"ms\0\x55" => mp3::entry(AudioDescription::parse(body)?.format),
        b"encv" | b"enca" => Err(EntryError::Unsupported("the track is encrypted")),
        _ => Err(EntryError::Unsupported("the codec has no MP4 form that players support")),
    }
}

fn video_from_entry(kind: &[u8; 4], body: &[u8]) -> Result<SampleEntry, EntryError> {
    let boxes = body.get(VISUAL_ENTRY_BYTES..).ok_or(EntryError::Truncated)?;
    let format = parse_video_format(body, boxes);
    match kind {
        b"avc1" => avc::entry(required(boxes, b"avcC")?, &format),
        b"avc3" => avc::entry_with(required(boxes, b"avcC")?, &format, ParameterSets::InBand),
        b"av01" => av1::entry(required(boxes, b"av1C")?, &format),
        b"vp09" => vp9::entry_from_record(required(boxes, b"vpcC")?, &format),
        _ => hevc::entry(required(boxes, b"hvcC")?, &format),
    }
}

fn required<'a>(boxes: &'a [u8], kind: &[u8; 4]) -> Result<&'a [u8], EntryError> {
    child(boxes, kind).ok_or(EntryError::Unsupported("the sample entry has no decoder configuration"))
}

fn parse_video_format(body: &[u8], boxes: &[u8]) -> VideoFormat {
    let side = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let mut format = VideoFormat { width: side(24), height: side(26), ..VideoFormat::default() };
    for (kind, content) in children(boxes) {
        match &kind {
            b"colr" => format.color = format.color.or_else(|| parse_color(content)),
            b"pasp" => format.pixel_aspect = parse_pixel_aspect(content),
            b"mdcv" => format.mastering_display = content.first_chunk().copied(),
            b"clli" => {
                format.content_light = content
                    .first_chunk::<4>()
                    .map(|light| (u16::from_be_bytes([light[0], light[1]]), u16::from_be_bytes([light[2], light[3]])));
            }
            b"dvcC" | b"dvvC" => format.dolby_vision = Some(content.to_vec()),
            _ => {}
        }
    }
    format
}

/// `nclx`, or QuickTime's `nclc`, which has no range. ICC profiles are dropped.
fn parse_color(colr: &[u8]) -> Option<Color> {
    let mut fields = ByteCursor(colr);
    let is_quicktime = match fields.take(4).ok()? {
        b"nclx" => false,
        b"nclc" => true,
        _ => return None,
    };
    let mut code = || fields.u16().ok();
    let (primaries, transfer, matrix) = (code()?, code()?, code()?);
    let is_full_range = !is_quicktime && fields.u8().is_ok_and(|byte| byte & 0x80 != 0);
    Some(Color { primaries, transfer, matrix, is_full_range })
}

/// None if pixels are square.
fn parse_pixel_aspect(pasp: &[u8]) -> Option<(u32, u32)> {
    let mut fields = ByteCursor(pasp);
    let aspect = (fields.u32().ok()?, fields.u32().ok()?);
    (aspect.0 != aspect.1 && aspect.0 > 0 && aspect.1 > 0).then_some(aspect)
}

fn audio_from_entry(kind: &[u8; 4], body: &[u8]) -> Result<SampleEntry, EntryError> {
    let AudioDescription { format, boxes } = AudioDescription::parse(body)?;
    // QuickTime has the configuration in `wave`.
    let config = |kind: &[u8; 4]| {
        let found = child(boxes, kind).or_else(|| child(child(boxes, b"wave")?, kind));
        found.ok_or(EntryError::Unsupported("the sample entry has no decoder configuration"))
    };
    match kind {
        b"mp4a" => mp4a_entry(config(b"esds")?, format),
        b"ac-3" => ac3::entry_from_record(config(b"dac3")?, format),
        b"ec-3" => eac3::entry_from_record(config(b"dec3")?, format),
        b"Opus" => opus::entry_from_record(config(b"dOps")?),
        b"fLaC" => flac::entry_from_blocks(config(b"dfLa")?.get(4..).ok_or(EntryError::Truncated)?),
        b"alac" => alac::entry(config(b"alac")?.get(4..).ok_or(EntryError::Truncated)?),
        _ => dts::entry_from_record(kind, config(b"ddts")?, format),
    }
}

/// `mp4a`, by the object type of its elementary stream descriptor (ISO/IEC 14496-1 table 5 and the MP4 registration
/// authority).
fn mp4a_entry(descriptor: &[u8], format: AudioFormat) -> Result<SampleEntry, EntryError> {
    match esds::parse(descriptor)? {
        (0x40, Some(config)) => aac::entry(config),
        // MPEG-2 AAC of profile Main, LC or SSR has the frames of MPEG-4 AAC, which more players know by name.
        (0x66..=0x68, Some(config)) if aac::entry(config).is_ok() => aac::entry(config),
        (object_type @ 0x66..=0x68, _) => {
            aac::entry(&aac::audio_specific_config(object_type - 0x65, format.sample_rate, format.channels)?)
        }
        // MP3, AC-3, E-AC-3 and DTS, whose frames describe themselves.
        (object_type @ (0x69 | 0x6b | 0xa5 | 0xa6 | 0xa9), _) => {
            let mut rewritten = Vec::new();
            esds::push(&mut rewritten, object_type, None)?;
            let bytes = audio_entry(b"mp4a", format, |out| out.extend(rewritten));
            Ok(SampleEntry::new(bytes, format!("mp4a.{object_type:02X}")))
        }
        (0x40, None) => Err(EntryError::Unsupported("the AAC track has no configuration")),
        _ => Err(EntryError::Unsupported("mp4a has a codec that players do not support in MP4")),
    }
}

/// The fields of an audio sample entry, of ISO/IEC 14496-12 or of QuickTime (the chapter on sample descriptions in the
/// QuickTime File Format).
struct AudioDescription<'a> {
    format: AudioFormat,
    boxes: &'a [u8],
}

impl<'a> AudioDescription<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, EntryError> {
        let mut fields = ByteCursor(body);
        fields.take(8)?;
        let version = fields.u16()?;
        fields.take(6)?;
        let channels = fields.u16()?;
        let bits = fields.u16()?;
        fields.take(4)?;
        let sample_rate = fields.u32()? >> 16;
        let mut format = AudioFormat { channels, sample_rate, bits: bits.max(16) };
        match version {
            // Samples and bytes of a packet, in QuickTime only.
            1 if fields.0.get(16..).is_some_and(|boxes| children(boxes).next().is_some()) => {
                fields.take(16)?;
            }
            2 => {
                fields.take(4)?;
                format.sample_rate = f64::from_bits(fields.u64()?) as u32;
                format.channels = u16::try_from(fields.u32()?).map_err(|_| EntryError::Truncated)?;
                fields.take(20)?;
            }
            _ => {}
        }
        Ok(Self { format, boxes: fields.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::boxes::push_box;
    use crate::domain::cmaf::entry::testing::{hex, visual_box};
    use proptest::prelude::*;

    /// Of a telephone's QuickTime file: HEVC with Dolby Vision of profile 8.4, and AAC in an entry of version 1.
    const PHONE_VIDEO: &str = "
        0000012068766331000000000000000100000000000000000000020000000200050002d00048000000480000000000000001
        04484556430000000000000000000000000000000000000000000000000000000018ffff0000008468766343010220000000
        b000000000005df000fcfdfafa00000b04a00001001840010c01ffff022000000300b0000003000003005d15c090a1000100
        23420101022000000300b0000003000003005da00280802d1362057b9165535091209008a2000100094401c02864b86414c9
        a70001000d4e019408002fe9a03d134042800000002064767643010010154000000000000000000000000000000000000000
        00000012636f6c726e636c6300090012000900000010616d7665002fe9a03d13404200000000
    ";
    const PHONE_AUDIO: &str = "
        0000008f6d7034610000000000000001000100000000000000020010fffe0000ac4400000000040000000001000000020000
        00020000005b776176650000000c66726d616d7034610000000c6d7034610000000000000033657364730000000003808080
        22000000048080801440140018000002ee0000000000058080800212100680808001020000000800000000
    ";

    fn audio(kind: &[u8; 4], boxes: &[u8]) -> Vec<u8> {
        let format = AudioFormat { channels: 2, sample_rate: 48_000, bits: 16 };
        audio_entry(kind, format, |out| out.extend(boxes))
    }

    fn mp4a(object_type: u8, config: Option<&[u8]>) -> Vec<u8> {
        let mut descriptor = Vec::new();
        esds::push(&mut descriptor, object_type, config).unwrap();
        audio(b"mp4a", &descriptor)
    }

    #[test]
    fn the_video_of_a_telephone_becomes_hvc1_with_iso_boxes() {
        let source = hex(PHONE_VIDEO);
        let copied = entry(&source).unwrap();
        assert_eq!(copied.codecs, "hvc1.2.4.L93.B0");
        assert_eq!(copied.supplemental_codecs.as_deref(), Some("dvh1.08.02/db4h"));
        assert_eq!(visual_box(&copied.bytes, b"hvcC"), visual_box(&source, b"hvcC"), "the arrays are complete already");
        assert_eq!(visual_box(&copied.bytes, b"dvvC"), visual_box(&source, b"dvvC"));
        assert_eq!(
            visual_box(&copied.bytes, b"colr"),
            Some(&hex("6e636c78 0009 0012 0009 00")[..]),
            "nclc became nclx"
        );
        assert_eq!(visual_box(&copied.bytes, b"amve"), None);
        assert_eq!(copied.bytes[16..32], [0; 16], "QuickTime's version, vendor and qualities");
        assert_eq!(copied.bytes[32..36], source[32..36], "the size");
    }

    #[test]
    fn hev1_becomes_hvc1() {
        let mut source = hex(PHONE_VIDEO);
        source[4..8].copy_from_slice(b"hev1");
        let record_at = source.windows(4).position(|window| window == b"hvcC").unwrap() + 4;
        source[record_at + 23] &= 0x7f;
        assert_eq!(entry(&source), entry(&hex(PHONE_VIDEO)));
        source[4..8].copy_from_slice(b"dvhe");
        assert_eq!(entry(&source), entry(&hex(PHONE_VIDEO)));
    }

    #[test]
    fn the_audio_of_a_telephone_becomes_version_0() {
        let copied = entry(&hex(PHONE_AUDIO)).unwrap();
        assert_eq!(copied.codecs, "mp4a.40.2");
        assert_eq!(copied, aac::entry(&[0x12, 0x10]).unwrap());
    }

    #[test]
    fn iso_version_1_has_no_further_fields() {
        let mut source = audio(b"ac-3", &hex("0000000b 64616333 103de0"));
        source[17] = 1;
        let format = AudioFormat { channels: 2, sample_rate: 48_000, bits: 16 };
        assert_eq!(entry(&source), ac3::entry_from_record(&[0x10, 0x3d, 0xe0], format));
    }

    #[test]
    fn quicktime_version_2_has_other_fields() {
        let mut source = Vec::new();
        push_box(&mut source, b"ac-3", |out| {
            out.extend([0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0]);
            // Fixed values, then the size of the structure, the rate, the channels and five fields of PCM.
            out.extend([0, 3, 0, 16, 0xff, 0xfe, 0, 0, 0, 1, 0, 0, 0, 0, 0, 72]);
            out.extend(48_000f64.to_be_bytes());
            out.extend(6u32.to_be_bytes());
            out.extend([0; 20]);
            push_box(out, b"wave", |out| push_box(out, b"dac3", |out| out.extend([0x10, 0x3d, 0xe0])));
        });
        let format = AudioFormat { channels: 6, sample_rate: 48_000, bits: 16 };
        assert_eq!(entry(&source), ac3::entry_from_record(&[0x10, 0x3d, 0xe0], format));
    }

    #[test]
    fn mp4a_is_named_by_its_object_type() {
        let codecs = |object_type, config| entry(&mp4a(object_type, config)).map(|entry| entry.codecs);
        assert_eq!(codecs(0x40, Some(&[0x11, 0x90])).as_deref(), Ok("mp4a.40.2"));
        // MPEG-2 AAC LC, with and without a configuration.
        assert_eq!(entry(&mp4a(0x67, Some(&[0x11, 0x90]))), aac::entry(&[0x11, 0x90]));
        assert_eq!(entry(&mp4a(0x67, None)), aac::entry(&[0x11, 0x90]));
        for (object_type, expected) in
            [(0x69, "mp4a.69"), (0x6b, "mp4a.6B"), (0xa5, "mp4a.A5"), (0xa6, "mp4a.A6"), (0xa9, "mp4a.A9")]
        {
            assert_eq!(codecs(object_type, None).as_deref(), Ok(expected));
        }
        // Vorbis, in no standard.
        assert!(matches!(codecs(0xdd, Some(&[1])), Err(EntryError::Unsupported(_))));
    }

    #[test]
    fn entries_of_this_module_are_kept() {
        let format = VideoFormat {
            width: 64,
            height: 48,
            pixel_aspect: Some((3, 2)),
            color: Some(Color { primaries: 9, transfer: 16, matrix: 9, is_full_range: true }),
            mastering_display: Some([7; 24]),
            content_light: Some((1000, 400)),
            dolby_vision: None,
        };
        let dec3 = hex("1400 200f00 0110");
        let rates = AudioFormat { channels: 6, sample_rate: 48_000, bits: 16 };
        let entries = [
            avc::entry(&[1, 0x64, 0, 0x1f, 0xff, 0xe1, 0], &format),
            avc::entry_with(&[1, 0x64, 0, 0x1f, 0xff, 0xe0, 0], &format, ParameterSets::InBand),
            av1::entry(&[0x81, 4, 0x4c, 0], &format),
            vp9::entry_from_record(&[1, 0, 0, 0, 0, 10, 0x82, 2, 2, 2, 0, 0], &format),
            eac3::entry_from_record(&dec3, rates),
            opus::entry_from_record(&hex("000201380000bb80000000")),
            alac::entry(&hex("00001000 00 10 280a0e 02 0000 00004004 00177000 0000bb80")),
            dts::entry_from_record(b"dtsc", &[0; 20], rates),
        ];
        for built in entries {
            let built = built.unwrap();
            assert_eq!(entry(&built.bytes), Ok(built));
        }
        assert_eq!(entry(&audio(b".mp3", &[])).unwrap().codecs, "mp4a.6B");
    }

    #[test]
    fn entries_that_players_do_not_support_are_refused() {
        let unsupported = |kind: &[u8; 4]| matches!(entry(&audio(kind, &[])), Err(EntryError::Unsupported(_)));
        assert!([b"enca", b"mlpa", b"ac-4", b"sowt", b"mp4a", b"Opus"].iter().all(|kind| unsupported(kind)));
        assert_eq!(entry(&hex(PHONE_AUDIO)[..100]), Err(EntryError::Truncated));
        assert_eq!(entry(&[]), Err(EntryError::Truncated));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            kind in proptest::sample::select(vec![*b"avc1", *b"hvc1", *b"vp09", *b"mp4a", *b"ec-3", *b"fLaC", *b"alac"]),
            body in proptest::collection::vec(any::<u8>(), 0..160),
        ) {
            let _ = entry(&body);
            let mut source = Vec::new();
            push_box(&mut source, &kind, |out| out.extend(&body));
            let _ = (entry(&source), esds::parse(&body));
        }

        #[test]
        fn a_damaged_entry_is_read_without_panic(is_video: bool, at in any::<proptest::sample::Index>(), byte: u8) {
            let mut source = hex(if is_video { PHONE_VIDEO } else { PHONE_AUDIO });
            let at = at.index(source.len());
            source[at] = byte;
            let _ = (entry(&source), entry(&source[..at]));
        }
    }
}
