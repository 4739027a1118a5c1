//! AC-3 and E-AC-3, whose frames are samples as they are (ETSI TS 102 366 annex F).

use super::ConversionError;
use super::audio::{AudioFrame, AudioFrames};
use crate::domain::cmaf::entry::{ac3, eac3};

/// By `fscod`.
const SAMPLE_RATES: [u32; 3] = [48_000, 44_100, 32_000];

/// Bit rates by the upper bits of `frmsizecod` (ETSI TS 102 366 table 4.13), kbit/s.
const BIT_RATES: [usize; 19] = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640];

const BLOCK_SAMPLES: u32 = 256;

/// Streams with a higher `bsid` are E-AC-3.
const MAX_AC3_BITSTREAM_ID: u8 = 10;

/// The size and duration of a frame, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameHeader {
    is_eac3: bool,
    bytes: usize,
    sample_rate: u32,
    samples: u32,
    /// The frame of the first independent substream, which begins an access unit.
    starts_unit: bool,
}

impl FrameHeader {
    /// None if the header is truncated or damaged (ETSI TS 102 366 sections 4.3.1 and E.1.2.2).
    fn parse(bytes: &[u8]) -> Option<Self> {
        let &[0x0b, 0x77, third, fourth, fifth, sixth, ..] = bytes else { return None };
        let bitstream_id = sixth >> 3;
        let rate = SAMPLE_RATES.get(usize::from(fifth >> 6)).copied();
        if bitstream_id <= MAX_AC3_BITSTREAM_ID {
            let kilobits = *BIT_RATES.get(usize::from(fifth >> 1 & 31))?;
            let rate = rate?;
            let words = match rate {
                48_000 => 2 * kilobits,
                44_100 => 320 * kilobits / 147 + usize::from(fifth & 1),
                _ => 3 * kilobits,
            };
            let sample_rate = rate >> bitstream_id.saturating_sub(8);
            let samples = 6 * BLOCK_SAMPLES;
            return Some(Self { is_eac3: false, bytes: 2 * words, sample_rate, samples, starts_unit: true });
        }
        let second_code = usize::from(fifth >> 4 & 3);
        let (sample_rate, blocks) = match rate {
            Some(rate) => (rate, [1, 2, 3, 6][second_code]),
            None => (SAMPLE_RATES.get(second_code)? / 2, 6),
        };
        let bytes = 2 * (usize::from(third & 7) << 8 | usize::from(fourth)) + 2;
        let is_dependent = third >> 6 == 1;
        let starts_unit = !is_dependent && third >> 3 & 7 == 0;
        Some(Self { is_eac3: true, bytes, sample_rate, samples: blocks * BLOCK_SAMPLES, starts_unit })
    }
}

/// Splits whole access units: a frame of AC-3, or a frame of each substream of E-AC-3.
///
/// # Errors
/// If a frame is truncated or damaged.
pub fn split_frames(bytes: &[u8]) -> Result<AudioFrames<'_>, ConversionError> {
    const DAMAGED: ConversionError = ConversionError::Damaged("an AC-3 or E-AC-3 frame is damaged or truncated");
    let first = FrameHeader::parse(bytes).filter(|header| header.starts_unit).ok_or(DAMAGED)?;
    let mut frames: Vec<AudioFrame> = Vec::new();
    let (mut start, mut end) = (0, 0);
    while end < bytes.len() {
        let header = FrameHeader::parse(&bytes[end..]).ok_or(DAMAGED)?;
        if header.starts_unit {
            (start, end) = (end, end + header.bytes);
            let unit = bytes.get(start..end).ok_or(DAMAGED)?;
            frames.push(AudioFrame { bytes: unit, samples: header.samples });
        } else {
            end += header.bytes;
            let unit = bytes.get(start..end).ok_or(DAMAGED)?;
            frames.last_mut().ok_or(DAMAGED)?.bytes = unit;
        }
    }
    let unit = frames.first().ok_or(DAMAGED)?.bytes;
    let entry = if first.is_eac3 { eac3::entry(unit)? } else { ac3::entry(unit)? };
    Ok(AudioFrames { entry, sample_rate: first.sample_rate, frames })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(head: &str, size: usize) -> Vec<u8> {
        let mut frame = data_encoding::HEXLOWER.decode(head.as_bytes()).unwrap();
        frame.resize(size, 0);
        frame
    }

    #[test]
    fn frames_of_ac3_have_the_size_of_their_bit_rate() {
        // 192 kbit/s, 48 kHz, stereo, by ffmpeg 5.1.
        let one = frame("0b77fe95144043e106f46370c0c0c218", 768);
        let split = one.repeat(3);
        let split = split_frames(&split).unwrap();
        assert_eq!((split.sample_rate, &split.entry.codecs[..], split.frames.len()), (48_000, "ac-3", 3));
        assert!(split.frames.iter().all(|found| *found == AudioFrame { bytes: &one, samples: 1536 }));
        assert!(split_frames(&one[..767]).is_err() && split_frames(&[]).is_err());
        let at_44100 = FrameHeader::parse(&[0x0b, 0x77, 0, 0, 1 << 6 | 8 << 1 | 1, 8 << 3]).unwrap();
        assert_eq!((at_44100.bytes, at_44100.sample_rate), (2 * 279, 44_100), "128 kbit/s with a padding word");
    }

    #[test]
    fn a_unit_of_eac3_has_a_frame_of_each_substream() {
        // 384 kbit/s, six channels, by ffmpeg 5.1; then a dependent substream of 40 bytes.
        let independent =
            frame("0b7702ff3f87c000208020000200400003e01fba7e1e010107e1e1f8787e1e10f9f7fceaf9f3e7cf", 1536);
        let dependent = frame("0b77401335840040000000000000", 40);
        let unit = [independent, dependent].concat();
        let bytes = unit.repeat(2);
        let split = split_frames(&bytes).unwrap();
        assert_eq!((split.sample_rate, &split.entry.codecs[..]), (48_000, "ec-3"));
        assert_eq!(split.frames, [AudioFrame { bytes: &unit, samples: 1536 }; 2]);
        assert!(split_frames(&unit[1536..]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = (split_frames(&bytes), split_frames(&[&[0x0b, 0x77][..], &bytes].concat()));
        }

        #[test]
        fn small_frames_are_read_without_panic(id in 0u8..8, kind in 0u8..3) {
            let frame = [0x0b, 0x77, kind << 6 | id << 3, 3, 0x3f, 0x80, 0, 0];
            let _ = split_frames(&frame.repeat(60));
        }
    }
}
