//! VP9 ("VP Codec ISO Media File Format Binding" 1.0).

use h264_reader::rbsp::{BitRead, BitReader};

use super::{EntryError, SampleEntry, VideoFormat, record_codecs, visual_entry};
use crate::domain::cmaf::Color;
use crate::domain::cmaf::boxes::push_box;
use crate::domain::time::FrameRate;

/// Code points of ITU-T H.273 for "unspecified".
const UNSPECIFIED: Color = Color { primaries: 2, transfer: 2, matrix: 2, is_full_range: false };

/// From the first bytes of a keyframe, because most Matroska files have no `CodecPrivate`. If there is one, its level
/// is used. Otherwise the level follows from the size and the rate.
pub fn entry(
    codec_private: &[u8],
    first_keyframe: &[u8],
    format: &VideoFormat,
    rate: Option<FrameRate>,
) -> Result<SampleEntry, EntryError> {
    let frame = KeyframeHead::parse(first_keyframe)?;
    let level = private_level(codec_private).unwrap_or_else(|| level(format, rate));
    let color = format.color.unwrap_or(UNSPECIFIED);
    let is_full_range = color.is_full_range || frame.is_full_range;
    let mut vpcc = vec![1, 0, 0, 0, frame.profile, level];
    vpcc.push(frame.bit_depth << 4 | frame.chroma_subsampling << 1 | u8::from(is_full_range));
    // The codes of the standard fit in a byte. No codec initialization data follows.
    vpcc.extend([color.primaries, color.transfer, color.matrix].map(|code| u8::try_from(code).unwrap_or(2)));
    vpcc.extend([0, 0]);
    entry_from_record(&vpcc, format)
}

/// From the content of a `vpcC` box, with its version and flags.
pub fn entry_from_record(vpcc: &[u8], format: &VideoFormat) -> Result<SampleEntry, EntryError> {
    if vpcc.len() < 12 {
        return Err(EntryError::Truncated);
    }
    if vpcc[..4] != [1, 0, 0, 0] {
        return Err(EntryError::Unsupported("the VP9 configuration is not a vpcC box of version 1"));
    }
    let bytes = visual_entry(b"vp09", format, |out| push_box(out, b"vpcC", |out| out.extend(vpcc)));
    Ok(SampleEntry::new(bytes, record_codecs("vp9", b"vp09", vpcc)?))
}

/// The fields of the uncompressed header of a keyframe (VP9 bitstream specification section 6.2).
#[derive(Debug, PartialEq, Eq)]
struct KeyframeHead {
    profile: u8,
    bit_depth: u8,
    /// As in `vpcC`: 0 and 1 are 4:2:0, 2 is 4:2:2, 3 is 4:4:4.
    chroma_subsampling: u8,
    is_full_range: bool,
}

impl KeyframeHead {
    fn parse(frame: &[u8]) -> Result<Self, EntryError> {
        let mut bits = BitReader::new(frame);
        let is_vp9 = bits.read::<2, u8>("frame_marker")? == 2;
        let low = bits.read_bit("profile_low_bit")?;
        let high = bits.read_bit("profile_high_bit")?;
        if low && high {
            bits.skip(1, "reserved_zero")?;
        }
        let is_repeated = bits.read_bit("show_existing_frame")?;
        let is_key = !bits.read_bit("frame_type")?;
        bits.skip(2, "show_frame, error_resilient_mode")?;
        if !is_vp9 || is_repeated || !is_key || bits.read::<24, u32>("frame_sync_code")? != 0x49_8342 {
            return Err(EntryError::Unsupported("the VP9 stream does not start with a keyframe"));
        }
        let bit_depth = match high && bits.read_bit("ten_or_twelve_bit")? {
            true => 12,
            false if high => 10,
            false => 8,
        };
        let is_rgb = bits.read::<3, u8>("color_space")? == 7;
        let is_full_range = is_rgb || bits.read_bit("color_range")?;
        let subsampling = match (low, is_rgb) {
            (true, true) => (false, false),
            (true, false) => (bits.read_bit("subsampling_x")?, bits.read_bit("subsampling_y")?),
            (false, true) => return Err(EntryError::Unsupported("VP9 has RGB in profiles 1 and 3 only")),
            (false, false) => (true, true),
        };
        let chroma_subsampling = match subsampling {
            // Collocated with luma, unless the container states otherwise. Decoders do not depend on it.
            (true, true) => 1,
            (true, false) => 2,
            (false, false) => 3,
            (false, true) => return Err(EntryError::Unsupported("VP9 with 4:4:0 subsampling has no vpcC box")),
        };
        Ok(Self { profile: u8::from(high) << 1 | u8::from(low), bit_depth, chroma_subsampling, is_full_range })
    }
}

/// The level in WebM's `CodecPrivate`: features of an id, a length and a value ("VP9 Codec Feature Metadata").
fn private_level(mut codec_private: &[u8]) -> Option<u8> {
    const LEVEL: u8 = 2;
    while let [id, length, rest @ ..] = codec_private {
        let (value, rest) = rest.split_at_checked(usize::from(*length))?;
        if *id == LEVEL {
            return value.first().copied();
        }
        codec_private = rest;
    }
    None
}

/// The lowest level that allows a frame of this size at this rate (VP9 levels, annex A of the bitstream specification).
fn level(format: &VideoFormat, rate: Option<FrameRate>) -> u8 {
    // Level, luma samples of a frame and per second.
    const LEVELS: [(u8, u64, u64); 14] = [
        (10, 36_864, 829_440),
        (11, 73_728, 2_764_800),
        (20, 122_880, 4_608_000),
        (21, 245_760, 9_216_000),
        (30, 552_960, 20_736_000),
        (31, 983_040, 36_864_000),
        (40, 2_228_224, 83_558_400),
        (41, 2_228_224, 160_432_128),
        (50, 8_912_896, 311_951_360),
        (51, 8_912_896, 588_251_136),
        (52, 8_912_896, 1_176_502_272),
        (60, 35_651_584, 1_176_502_272),
        (61, 35_651_584, 2_353_004_544),
        (62, 35_651_584, 4_706_009_088),
    ];
    let samples = u64::from(format.width) * u64::from(format.height);
    let per_second = (samples as f64 * rate.map_or(0.0, FrameRate::as_f64)).ceil() as u64;
    let allows = |(_, frame, second): &&(u8, u64, u64)| samples <= *frame && per_second <= *second;
    LEVELS.iter().find(allows).map_or(62, |(level, ..)| *level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::entry::testing::{hex, without_needless_boxes};
    use proptest::prelude::*;

    /// ffmpeg 5.1: `-f lavfi -i testsrc2=size=64x48:rate=24:duration=0.3 -c:v libvpx-vp9 -deadline realtime -cpu-used 8
    /// -pix_fmt yuv420p`, the start of the first frame in Matroska, which has no `CodecPrivate`.
    const KEYFRAME: &str = "824983420003f002f60638241c184a00";

    /// Copied to MP4 with `-write_btrt 0`.
    const ENTRY: &str = "
        0000008476703039000000000000000100000000000000000000000000000000004000300048000000480000000000000001
        00000000000000000000000000000000000000000000000000000000000000000018ffff000000147670634301000000000a
        8202020200000000000a6669656c010000000010706173700000000100000001
    ";

    /// With `-pix_fmt yuv444p10le -color_primaries bt2020 -color_trc smpte2084 -colorspace bt2020nc -color_range pc`.
    const KEYFRAME_444: &str = "b124c1a12c001f8017b031c120e0c2c0";

    const ENTRY_444: &str = "
        0000009776703039000000000000000100000000000000000000000000000000004000300048000000480000000000000001
        00000000000000000000000000000000000000000000000000000000000000000018ffff000000147670634301000000030a
        a709100900000000000a6669656c010000000013636f6c726e636c7800090010000980000000107061737000000001000000
        01
    ";

    const RATE: Option<FrameRate> = Some(FrameRate { num: 24, den: 1 });

    fn format(color: Option<Color>) -> VideoFormat {
        VideoFormat { width: 64, height: 48, color, ..VideoFormat::default() }
    }

    #[test]
    fn the_entry_equals_that_of_ffmpeg() {
        let plain = entry(&[], &hex(KEYFRAME), &format(None), RATE).unwrap();
        assert_eq!(plain.bytes, without_needless_boxes(&hex(ENTRY)));
        assert_eq!(plain.codecs, "vp09.00.10.08");
        let color = Some(Color { primaries: 9, transfer: 16, matrix: 9, is_full_range: true });
        let deep = entry(&[], &hex(KEYFRAME_444), &format(color), RATE).unwrap();
        assert_eq!(deep.bytes, without_needless_boxes(&hex(ENTRY_444)));
        assert_eq!(deep.codecs, "vp09.03.10.10");
    }

    #[test]
    fn the_level_is_that_of_the_codec_private_or_of_size_and_rate() {
        let large = VideoFormat { width: 1920, height: 1080, ..VideoFormat::default() };
        assert_eq!(private_level(&[1, 1, 0, 2, 1, 31, 3, 1, 8]), Some(31));
        assert_eq!(private_level(&[1, 1, 0, 2, 1]), None);
        assert_eq!(level(&large, Some(FrameRate { num: 24, den: 1 })), 40);
        assert_eq!(level(&large, Some(FrameRate { num: 60, den: 1 })), 41);
        assert_eq!(level(&VideoFormat { width: u16::MAX, height: u16::MAX, ..large }, None), 62);
    }

    #[test]
    fn other_frames_are_refused() {
        // An inter frame.
        assert!(entry(&[], &hex("8600409204f00124"), &format(None), RATE).is_err());
        assert_eq!(entry(&[], &hex(&KEYFRAME[..6]), &format(None), RATE), Err(EntryError::Truncated));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..20),
            num in 1u32..,
            den in 1u32..,
        ) {
            let frame = [&[0xb1, 0x24, 0xc1, 0xa1][..], &bytes].concat();
            let rate = Some(FrameRate { num, den });
            let _ = (entry(&bytes, &bytes, &format(None), rate), entry(&bytes, &frame, &format(None), rate));
            let _ = entry_from_record(&bytes, &format(None));
        }
    }
}
