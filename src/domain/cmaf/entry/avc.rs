//! H.264 (ISO/IEC 14496-15 section 5.4.2).

use super::{EntryError, SampleEntry, VideoFormat, record_codecs, visual_entry};
use crate::domain::cmaf::boxes::push_box;

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
        }
    }
}
