//! AAC in ADTS (ISO/IEC 14496-3 annex 1.A.3.2).

use super::ConversionError;
use super::audio::{AudioFrame, AudioFrames};
use crate::domain::cmaf::entry::aac;

/// Sample rates by `sampling_frequency_index`, and numbers of channels by `channel_configuration`.
const SAMPLE_RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];
const CHANNELS: [u16; 8] = [0, 1, 2, 3, 4, 5, 6, 8];

/// Samples of a frame.
const FRAME_SAMPLES: u32 = 1024;

/// The fields of a header that the AudioSpecificConfig repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format {
    object_type: u8,
    sample_rate: u32,
    channels: u16,
}

/// Splits whole frames and removes their headers.
///
/// # Errors
/// If a frame is truncated, if the format changes, or if an AudioSpecificConfig of two bytes cannot describe it.
pub fn split_frames(mut bytes: &[u8]) -> Result<AudioFrames<'_>, ConversionError> {
    const TRUNCATED: ConversionError = ConversionError::Damaged("an ADTS frame is damaged or truncated");
    let mut format = None;
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let &[0xff, second, third, fourth, fifth, sixth, seventh, ..] = bytes else { return Err(TRUNCATED) };
        // The rest of the sync word, and `layer`.
        if second & 0xf6 != 0xf0 {
            return Err(TRUNCATED);
        }
        if seventh & 3 != 0 {
            return Err(ConversionError::Damaged("an ADTS frame contains several raw data blocks"));
        }
        let own = Format {
            object_type: (third >> 6) + 1,
            sample_rate: SAMPLE_RATES.get(usize::from(third >> 2 & 15)).copied().ok_or(TRUNCATED)?,
            channels: CHANNELS[usize::from((third & 1) << 2 | fourth >> 6)],
        };
        if *format.get_or_insert(own) != own {
            return Err(ConversionError::ConfigChanged);
        }
        let has_checksum = second & 1 == 0;
        let header_len = if has_checksum { 9 } else { 7 };
        let length = usize::from(fourth & 3) << 11 | usize::from(fifth) << 3 | usize::from(sixth >> 5);
        let (frame, rest) = bytes.split_at_checked(length).ok_or(TRUNCATED)?;
        let raw = frame.get(header_len..).filter(|raw| !raw.is_empty()).ok_or(TRUNCATED)?;
        frames.push(AudioFrame { bytes: raw, samples: FRAME_SAMPLES });
        bytes = rest;
    }
    let Format { object_type, sample_rate, channels } = format.ok_or(TRUNCATED)?;
    let config = aac::audio_specific_config(object_type, sample_rate, channels)?;
    Ok(AudioFrames { entry: aac::entry(&config)?, sample_rate, frames })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Stereo, 48 kHz, LC.
    fn frame(raw: &[u8], has_checksum: bool) -> Vec<u8> {
        let header_len = if has_checksum { 9 } else { 7 };
        let [high, low] = ((raw.len() + header_len) as u16).to_be_bytes();
        let protection = if has_checksum { 0xf0 } else { 0xf1 };
        let header = [0xff, protection, 0x4c, 0x80 | high >> 3, high << 5 | low >> 3, low << 5 | 0x1f, 0xfc, 1, 2];
        [&header[..header_len], raw].concat()
    }

    #[test]
    fn headers_are_removed_and_become_a_configuration() {
        let bytes = [frame(&[1, 2, 3], false), frame(&[4], true), frame(&[5; 1500], false)].concat();
        let split = split_frames(&bytes).unwrap();
        assert_eq!((split.sample_rate, &split.entry.codecs[..]), (48_000, "mp4a.40.2"));
        assert_eq!(split.entry, aac::entry(&[0x11, 0x90]).unwrap());
        let raw: Vec<&[u8]> = split.frames.iter().map(|frame| frame.bytes).collect();
        assert_eq!(raw, [&[1, 2, 3][..], &[4], &[5; 1500]]);
        assert!(split.frames.iter().all(|frame| frame.samples == 1024));
    }

    #[test]
    fn damaged_frames_are_refused() {
        let whole = frame(&[1, 2, 3], false);
        for end in 0..whole.len() {
            assert!(split_frames(&whole[..end]).is_err(), "{end}");
        }
        let mono = [whole[0], whole[1], whole[2], 0x40];
        let changed = [&whole[..], &mono, &whole[4..]].concat();
        assert_eq!(split_frames(&changed).unwrap_err(), ConversionError::ConfigChanged);
        let described_in_band = [&whole[..3], &[0], &whole[4..]].concat();
        assert!(split_frames(&described_in_band).is_err(), "no channel configuration");
        assert!(split_frames(&frame(&[], false)).is_err(), "an empty frame");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = (split_frames(&bytes), split_frames(&[&[0xff, 0xf1][..], &bytes].concat()));
        }
    }
}
