//! AAC frames with ADTS headers (ISO/IEC 13818-7 section 6.2).

use crate::engine::container::ContainerError;

/// Size of a header, bytes.
const HEADER_BYTES: usize = 7;

/// The fields that are the same in every frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdtsConfig {
    /// Audio object type minus one: Main, LC, SSR, LTP.
    profile: u8,
    /// Sampling frequency index.
    frequency_index: u8,
    channel_config: u8,
}

impl AdtsConfig {
    /// Parses an AudioSpecificConfig (ISO/IEC 14496-3 section 1.6.2.1). If spectral band replication is signalled, the
    /// header describes the core codec.
    pub(super) fn parse(config: &[u8]) -> Result<Self, ContainerError> {
        let mut bits = BitReader { bytes: config, position: 0 };
        let mut object_type = bits.read_object_type()?;
        let frequency_index = bits.read_frequency_index()?;
        let channel_config = bits.take(4)? as u8;
        if matches!(object_type, 5 | 29) {
            bits.read_frequency_index()?;
            object_type = bits.read_object_type()?;
        }
        if !(1..=4).contains(&object_type) || frequency_index > 12 || !(1..=7).contains(&channel_config) {
            return Err(ContainerError::Unsupported("the AAC cannot be described by an ADTS header"));
        }
        // `frameLengthFlag`, `dependsOnCoreCoder`, `extensionFlag`.
        if bits.take(3)? != 0 {
            return Err(ContainerError::Unsupported("the AAC uses short frames, a core coder or extensions"));
        }
        Ok(Self { profile: object_type as u8 - 1, frequency_index, channel_config })
    }

    /// Sample rate of the core, Hz.
    pub(super) fn sample_rate(self) -> Option<i64> {
        const RATES: [i64; 13] =
            [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];
        RATES.get(usize::from(self.frequency_index)).copied()
    }

    /// The header of a frame of `size` bytes; None if the frame is empty or too long for one.
    pub(super) fn frame_header(self, size: usize) -> Option<[u8; HEADER_BYTES]> {
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

struct BitReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl BitReader<'_> {
    fn take(&mut self, count: usize) -> Result<u32, ContainerError> {
        let mut value = 0;
        for _ in 0..count {
            let byte = self
                .bytes
                .get(self.position / 8)
                .ok_or(ContainerError::Unsupported("the AudioSpecificConfig is truncated"))?;
            value = value << 1 | u32::from(byte >> (7 - self.position % 8) & 1);
            self.position += 1;
        }
        Ok(value)
    }

    fn read_object_type(&mut self) -> Result<u32, ContainerError> {
        let object_type = self.take(5)?;
        if object_type == 31 { Ok(32 + self.take(6)?) } else { Ok(object_type) }
    }

    /// The frequency index; 15 is followed by an explicit frequency.
    fn read_frequency_index(&mut self) -> Result<u8, ContainerError> {
        let index = self.take(4)?;
        if index == 15 {
            self.take(24)?;
        }
        Ok(index as u8)
    }
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
