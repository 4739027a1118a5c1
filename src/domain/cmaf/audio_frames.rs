//! Sample rate and frame length of audio: the timescale of a track, and how long each frame lasts. Matroska states the times
//! of blocks only, in rounded units.

use super::entry::{EntryError, aac, dts};

/// The greatest length of an Opus packet, 120 ms (RFC 6716 section 3.2).
const MAX_OPUS_SAMPLES: u32 = 5760;

/// The frames of one audio track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioFrames {
    /// Samples per second, which is the track's timescale.
    pub sample_rate: u32,
    length: FrameLength,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameLength {
    /// Samples of every frame.
    Constant(u32),
    /// Stated by each packet's first bytes.
    OpusPacket,
}

impl AudioFrames {
    /// Bytes of a frame that [`Self::samples`] needs.
    pub const HEAD_BYTES: usize = 2;

    /// Opus, whose clock always runs at 48 kHz.
    pub const OPUS: Self = Self { sample_rate: 48_000, length: FrameLength::OpusPacket };

    fn constant(sample_rate: u32, samples: u32) -> Result<Self, EntryError> {
        let is_valid = sample_rate > 0 && samples > 0;
        let damaged = EntryError::Unsupported("the audio states no sample rate or frame length");
        if is_valid { Ok(Self { sample_rate, length: FrameLength::Constant(samples) }) } else { Err(damaged) }
    }

    /// AAC, by its AudioSpecificConfig: frames of the core codec, with spectral band replication too.
    pub fn of_aac(audio_specific_config: &[u8]) -> Result<Self, EntryError> {
        Self::constant(aac::core_sample_rate(audio_specific_config)?, 1024)
    }

    /// MPEG audio layer III at this rate. Rates below 32 kHz are MPEG-2, with half the samples in a frame.
    pub fn of_mp3(sample_rate: u32) -> Result<Self, EntryError> {
        Self::constant(sample_rate, if sample_rate < 32_000 { 576 } else { 1152 })
    }

    /// FLAC, by Matroska's `CodecPrivate`: `fLaC`, then STREAMINFO (RFC 9639 section 8.2).
    pub fn of_flac(codec_private: &[u8]) -> Result<Self, EntryError> {
        let info = codec_private.get(8..).and_then(|info| info.first_chunk::<13>()).ok_or(EntryError::Truncated)?;
        let (min_samples, max_samples) =
            (u16::from_be_bytes([info[0], info[1]]), u16::from_be_bytes([info[2], info[3]]));
        if min_samples != max_samples {
            return Err(EntryError::Unsupported("the FLAC has frames of different lengths"));
        }
        let sample_rate = u32::from_be_bytes([0, info[10], info[11], info[12]]) >> 4;
        Self::constant(sample_rate, max_samples.into())
    }

    /// ALAC, by its ALACSpecificConfig, which may be in an `alac` box.
    pub fn of_alac(cookie: &[u8]) -> Result<Self, EntryError> {
        let is_box = cookie.get(4..8) == Some(b"alac");
        let config = if is_box { cookie.get(12..) } else { Some(cookie) };
        let config = config.and_then(|config| config.first_chunk::<24>()).ok_or(EntryError::Truncated)?;
        let number = |at: usize| u32::from_be_bytes([config[at], config[at + 1], config[at + 2], config[at + 3]]);
        Self::constant(number(20), number(0))
    }

    /// AC-3, by a frame: six blocks of 256 samples (ETSI TS 102 366 section 4.4).
    pub fn of_ac3(first_frame: &[u8]) -> Result<Self, EntryError> {
        let head = first_frame.first_chunk::<6>().ok_or(EntryError::Truncated)?;
        // Versions 9 and 10 have a half and a quarter of the rate.
        let divisor_bits = (head[5] >> 3).saturating_sub(8).min(2);
        Self::constant(dolby_rate(head[4] >> 6) >> divisor_bits, 6 * 256)
    }

    /// E-AC-3, by a frame: one to six blocks (ETSI TS 102 366 section E.1.3.1).
    pub fn of_eac3(first_frame: &[u8]) -> Result<Self, EntryError> {
        let head = first_frame.first_chunk::<5>().ok_or(EntryError::Truncated)?;
        let (rate_code, code) = (head[4] >> 6, head[4] >> 4 & 3);
        // With half the rate, the second code selects it, and there are six blocks.
        match rate_code {
            3 => Self::constant(dolby_rate(code) / 2, 6 * 256),
            _ => Self::constant(dolby_rate(rate_code), [1, 2, 3, 6][usize::from(code)] * 256),
        }
    }

    /// DTS, by a frame: the samples of its core.
    pub fn of_dts(first_frame: &[u8]) -> Result<Self, EntryError> {
        let (sample_rate, samples) = dts::core_frame_length(first_frame)?;
        Self::constant(sample_rate, samples)
    }

    /// Whether the length of a frame depends on its bytes.
    pub fn depends_on_bytes(&self) -> bool {
        self.length == FrameLength::OpusPacket
    }

    /// Samples of the frame that begins with these bytes, at least one.
    pub fn samples(&self, frame_head: &[u8]) -> u32 {
        match self.length {
            FrameLength::Constant(samples) => samples,
            FrameLength::OpusPacket => opus_samples(frame_head).clamp(1, MAX_OPUS_SAMPLES),
        }
    }
}

/// By `fscod`; 0 for the reserved code.
fn dolby_rate(code: u8) -> u32 {
    [48_000, 44_100, 32_000, 0][usize::from(code & 3)]
}

/// Samples of an Opus packet at 48 kHz, by its first byte and the count of its frames (RFC 6716 section 3.1).
fn opus_samples(packet: &[u8]) -> u32 {
    let Some(&toc) = packet.first() else { return 0 };
    let size_code = toc >> 3;
    let frame_samples = match size_code {
        0..=11 => [480, 960, 1920, 2880][usize::from(size_code & 3)],
        12..=15 => [480, 960][usize::from(size_code & 1)],
        _ => [120, 240, 480, 960][usize::from(size_code & 3)],
    };
    let frames = match toc & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(packet.get(1).map_or(0, |count| count & 0x3f)),
    };
    frame_samples * frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn constant(sample_rate: u32, samples: u32) -> Result<AudioFrames, EntryError> {
        Ok(AudioFrames { sample_rate, length: FrameLength::Constant(samples) })
    }

    #[test]
    fn rate_and_length_are_read_from_configurations_and_frames() {
        assert_eq!(AudioFrames::of_aac(&[0x11, 0x90]), constant(48_000, 1024));
        // The core of HE-AAC.
        assert_eq!(AudioFrames::of_aac(&[0x2b, 0x92, 8, 0]), constant(22_050, 1024));
        assert_eq!(AudioFrames::of_ac3(&[0x0b, 0x77, 0xfe, 0x95, 0x14, 0x40]), constant(48_000, 1536));
        assert_eq!(AudioFrames::of_eac3(&[0x0b, 0x77, 2, 0xff, 0x3f]), constant(48_000, 1536));
        assert_eq!(AudioFrames::of_eac3(&[0x0b, 0x77, 2, 0xff, 0xc0]), constant(24_000, 1536));
        assert_eq!(AudioFrames::of_mp3(22_050), constant(22_050, 576));
        let streaminfo = b"fLaC\0\0\0\x22\x12\0\x12\0\0\0\xfc\0\x05\x11\x0b\xb8\x02\xf0";
        assert_eq!(AudioFrames::of_flac(streaminfo), constant(48_000, 4608));
        let cookie = b"\0\0\x10\0\0\x10\x28\x0a\x0e\x02\0\0\0\0\x40\x04\0\x17\x70\0\0\0\xbb\x80";
        assert_eq!(AudioFrames::of_alac(cookie), constant(48_000, 4096));
        assert!(AudioFrames::of_mp3(0).is_err() && AudioFrames::of_flac(b"fLaC").is_err());
    }

    #[test]
    fn an_opus_packet_states_its_length() {
        // 20 ms, 10 ms twice, three times 20 ms, and 60 ms.
        for (packet, samples) in [(&[0xfc][..], 960), (&[0xf1], 960), (&[0xfb, 3], 2880), (&[0x18], 2880)] {
            assert_eq!(AudioFrames::OPUS.samples(packet), samples, "{packet:x?}");
        }
        assert_eq!(AudioFrames::OPUS.samples(&[]), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (AudioFrames::of_aac(&bytes), AudioFrames::of_flac(&bytes), AudioFrames::of_alac(&bytes));
            let _ = (AudioFrames::of_ac3(&bytes), AudioFrames::of_eac3(&bytes), AudioFrames::of_dts(&bytes));
            prop_assert!((1..=MAX_OPUS_SAMPLES).contains(&AudioFrames::OPUS.samples(&bytes)));
        }
    }
}
