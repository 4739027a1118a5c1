//! AAC frames with ADTS headers (ISO/IEC 13818-7 section 6.2).

use h264_reader::rbsp::{BitRead, BitReader, BitReaderError};

use crate::engine::container::ContainerError;

/// Size of a header, bytes.
const HEADER_BYTES: usize = 7;

/// The fields that are the same in every frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct AdtsConfig {
    /// Audio object type minus one: Main, LC, SSR, LTP.
    profile: u8,
    /// Sampling frequency index.
    frequency_index: u8,
    channel_config: u8,
}

impl AdtsConfig {
    /// Parses an AudioSpecificConfig (ISO/IEC 14496-3 section 1.6.2.1). If spectral band replication is signalled, the
    /// header describes the core codec.
    pub(in crate::engine) fn parse(config: &[u8]) -> Result<Self, ContainerError> {
        let truncated = |_| ContainerError::Unsupported("the AudioSpecificConfig is truncated");
        let mut bits = BitReader::new(config);
        let mut object_type = read_object_type(&mut bits).map_err(truncated)?;
        let frequency_index = read_frequency_index(&mut bits).map_err(truncated)?;
        let channel_config = bits.read::<4, u8>("channelConfiguration").map_err(truncated)?;
        if matches!(object_type, 5 | 29) {
            read_frequency_index(&mut bits).map_err(truncated)?;
            object_type = read_object_type(&mut bits).map_err(truncated)?;
        }
        if !(1..=4).contains(&object_type) || frequency_index > 12 || !(1..=7).contains(&channel_config) {
            return Err(ContainerError::Unsupported("the AAC cannot be described by an ADTS header"));
        }
        if bits.read::<3, u8>("frameLengthFlag, dependsOnCoreCoder, extensionFlag").map_err(truncated)? != 0 {
            return Err(ContainerError::Unsupported("the AAC uses short frames, a core coder or extensions"));
        }
        Ok(Self { profile: object_type - 1, frequency_index, channel_config })
    }

    /// Sample rate of the core, Hz.
    pub(super) fn sample_rate(self) -> Option<i64> {
        const RATES: [i64; 13] =
            [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];
        RATES.get(usize::from(self.frequency_index)).copied()
    }

    /// The header of a frame of `size` bytes; None if the frame is empty or too long for one.
    pub(in crate::engine) fn frame_header(self, size: usize) -> Option<[u8; HEADER_BYTES]> {
        let length = u16::try_from(size + HEADER_BYTES).ok().filter(|&length| size > 1 && length < 1 << 13)?;
        let [high, low] = length.to_be_bytes();
        Some([
            0xff,
            0xf1,
            self.profile << 6 | self.frequency_index << 2 | self.channel_config >> 2,
            (self.channel_config & 3) << 6 | high >> 3,
            high << 5 | low >> 3,
            // Buffer fullness 0x7ff: variable rate.
            low << 5 | 0x1f,
            0xfc,
        ])
    }
}

fn read_object_type(bits: &mut BitReader<&[u8]>) -> Result<u8, BitReaderError> {
    match bits.read::<5, u8>("audioObjectType")? {
        31 => Ok(32 + bits.read::<6, u8>("audioObjectTypeExt")?),
        object_type => Ok(object_type),
    }
}

/// The frequency index; 15 is followed by an explicit frequency.
fn read_frequency_index(bits: &mut BitReader<&[u8]>) -> Result<u8, BitReaderError> {
    let index = bits.read::<4, u8>("samplingFrequencyIndex")?;
    if index == 15 {
        bits.skip(24, "samplingFrequency")?;
    }
    Ok(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_matches_its_configuration() {
        let stereo = AdtsConfig::parse(&[0x11, 0x90]).unwrap();
        assert_eq!(stereo, AdtsConfig { profile: 1, frequency_index: 3, channel_config: 2 });
        assert_eq!(stereo.frame_header(364), Some([0xff, 0xf1, 0x4c, 0x80, 0x2e, 0x7f, 0xfc]));
        assert_eq!(stereo.frame_header(8184), Some([0xff, 0xf1, 0x4c, 0x83, 0xff, 0xff, 0xfc]));
        assert_eq!(stereo.frame_header(8185), None, "13 bits of length");
        // HE-AAC, 22.05 kHz core under 44.1 kHz: object 5, frequency 7, mono, extension 4, object 2.
        assert_eq!(
            AdtsConfig::parse(&[0x2b, 0x8a, 0x08, 0x00]).unwrap(),
            AdtsConfig { profile: 1, frequency_index: 7, channel_config: 1 }
        );
    }

    #[test]
    fn aac_without_an_adts_header_is_refused() {
        for config in [&[][..], &[0x11], &[0x11, 0x80], &[0x17, 0x90, 0, 0, 0], &[0xf8, 0xff, 0xff], &[0x11, 0x94]] {
            assert!(AdtsConfig::parse(config).is_err(), "{config:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..9), size in 0usize..10_000) {
            if let Ok(adts) = AdtsConfig::parse(&bytes) {
                prop_assert_eq!(adts.frame_header(size).is_some(), (2..=8184).contains(&size));
            }
        }
    }
}
