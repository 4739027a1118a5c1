//! MPEG audio layer III, whose frames are samples as they are (ISO/IEC 14496-3 subpart 9).

use super::ConversionError;
use super::audio::{AudioFrame, AudioFrames};
use crate::domain::cmaf::AudioFormat;
use crate::domain::cmaf::entry::mp3;
use crate::domain::sniff::{Container, parse_audio_frame};

/// Bits of a header's second byte that name layer III.
const LAYER_MASK: u8 = 6;
const LAYER_3: u8 = 2;

/// `mode` of a header: one channel.
const MONO: u8 = 3;

/// Splits whole frames.
///
/// # Errors
/// If a frame is truncated, damaged or of another layer, or if the sample rate changes.
pub fn split_frames(mut bytes: &[u8]) -> Result<AudioFrames<'_>, ConversionError> {
    const DAMAGED: ConversionError = ConversionError::Damaged("an MP3 frame is damaged or truncated");
    let mut format = None;
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let &[_, second, _, fourth, ..] = bytes else { return Err(DAMAGED) };
        if second & LAYER_MASK != LAYER_3 {
            return Err(ConversionError::Damaged("an MPEG audio frame is not of layer III"));
        }
        let header = parse_audio_frame(Container::Mp3, bytes).ok_or(DAMAGED)?;
        let channels = if fourth >> 6 == MONO { 1 } else { 2 };
        let first = *format.get_or_insert(AudioFormat { channels, sample_rate: header.hertz, bits: 0 });
        if first.sample_rate != header.hertz {
            return Err(ConversionError::ConfigChanged);
        }
        let (frame, rest) = bytes.split_at_checked(header.size_bytes).ok_or(DAMAGED)?;
        let samples = (header.seconds * f64::from(header.hertz)).round() as u32;
        frames.push(AudioFrame { bytes: frame, samples });
        bytes = rest;
    }
    let format = format.ok_or(DAMAGED)?;
    Ok(AudioFrames { entry: mp3::entry(format)?, sample_rate: format.sample_rate, frames })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame with this header, without content.
    fn frame(header: [u8; 4], size: usize) -> Vec<u8> {
        let mut frame = header.to_vec();
        frame.resize(size, 7);
        frame
    }

    #[test]
    fn frames_have_the_size_of_their_bit_rate() {
        // 128 kbit/s, 44.1 kHz, joint stereo, without and with padding.
        let (plain, padded) = (frame([0xff, 0xfb, 0x90, 0x44], 417), frame([0xff, 0xfb, 0x92, 0x44], 418));
        let bytes = [&plain[..], &padded, &plain].concat();
        let split = split_frames(&bytes).unwrap();
        assert_eq!((split.sample_rate, &split.entry.codecs[..]), (44_100, "mp4a.6B"));
        let expected = [&plain, &padded, &plain].map(|bytes| AudioFrame { bytes, samples: 1152 });
        assert_eq!(split.frames, expected);
        // MPEG-2, 64 kbit/s, 24 kHz, mono.
        let half_rate = frame([0xff, 0xf3, 0x84, 0xc0], 192);
        let split = split_frames(&half_rate).unwrap();
        assert_eq!((split.sample_rate, split.frames[0].samples, &split.entry.codecs[..]), (24_000, 576, "mp4a.69"));
    }

    #[test]
    fn other_frames_are_refused() {
        let whole = frame([0xff, 0xfb, 0x90, 0x44], 417);
        for end in [0, 3, 4, 416] {
            assert!(split_frames(&whole[..end]).is_err(), "{end}");
        }
        let layer_2 = frame([0xff, 0xfd, 0x84, 0x44], 417);
        assert!(split_frames(&layer_2).is_err());
        let other_rate = [&whole[..], &frame([0xff, 0xfb, 0x94, 0x44], 384)].concat();
        assert_eq!(split_frames(&other_rate).unwrap_err(), ConversionError::ConfigChanged);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = (split_frames(&bytes), split_frames(&[&[0xff, 0xfb][..], &bytes].concat()));
        }
    }
}
