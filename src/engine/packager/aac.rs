//! AAC frames with ADTS headers (ISO/IEC 13818-7 section 6.2).

use crate::engine::tables::Refusal;

/// Size of a header, bytes.
const HEADER: usize = 7;

/// The fields that are the same in every frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Adts {
    /// Audio object type minus one: Main, LC, SSR, LTP.
    profile: u8,
    /// Sampling frequency index.
    frequency: u8,
    channels: u8,
}

impl Adts {
    /// Parses an AudioSpecificConfig (ISO/IEC 14496-3 section 1.6.2.1). If spectral band replication is signalled, the
    /// header describes the core codec.
    pub(super) fn read(config: &[u8]) -> Result<Self, Refusal> {
        let mut bits = Bits { bytes: config, at: 0 };
        let mut object = bits.object()?;
        let frequency = bits.frequency()?;
        let channels = bits.take(4)? as u8;
        if matches!(object, 5 | 29) {
            bits.frequency()?;
            object = bits.object()?;
        }
        if !(1..=4).contains(&object) || frequency > 12 || !(1..=7).contains(&channels) {
            return Err(Refusal::Unread("the AAC cannot be described by an ADTS header"));
        }
        // `frameLengthFlag`, `dependsOnCoreCoder`, `extensionFlag`.
        if bits.take(3)? != 0 {
            return Err(Refusal::Unread("the AAC uses short frames, a core coder or extensions"));
        }
        Ok(Self { profile: object as u8 - 1, frequency, channels })
    }

    /// Sample rate of the core, Hz.
    pub(super) fn rate(self) -> Option<i64> {
        const RATES: [i64; 13] =
            [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];
        RATES.get(usize::from(self.frequency)).copied()
    }

    /// The header of a frame of `size` bytes; None if the frame is empty or too long for one.
    pub(super) fn header(self, size: usize) -> Option<[u8; HEADER]> {
        let length = u16::try_from(size + HEADER).ok().filter(|&length| size > 1 && length < 1 << 13)?;
        let [high, low] = length.to_be_bytes();
        Some([
            0xff,
            0xf1,
            self.profile << 6 | self.frequency << 2 | self.channels >> 2,
            (self.channels & 3) << 6 | high >> 3,
            high << 5 | low >> 3,
            // Buffer fullness 0x7ff: variable rate.
            low << 5 | 0x1f,
            0xfc,
        ])
    }
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: usize) -> Result<u32, Refusal> {
        let mut value = 0;
        for _ in 0..count {
            let byte = self.bytes.get(self.at / 8).ok_or(Refusal::Unread("the AudioSpecificConfig is truncated"))?;
            value = value << 1 | u32::from(byte >> (7 - self.at % 8) & 1);
            self.at += 1;
        }
        Ok(value)
    }

    fn object(&mut self) -> Result<u32, Refusal> {
        let object = self.take(5)?;
        if object == 31 { Ok(32 + self.take(6)?) } else { Ok(object) }
    }

    /// The frequency index; 15 is followed by an explicit frequency.
    fn frequency(&mut self) -> Result<u8, Refusal> {
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
    fn a_header_says_what_the_configuration_says() {
        let stereo = Adts::read(&[0x11, 0x90]).unwrap();
        assert_eq!(stereo, Adts { profile: 1, frequency: 3, channels: 2 });
        assert_eq!(stereo.header(364), Some([0xff, 0xf1, 0x4c, 0x80, 0x2e, 0x7f, 0xfc]));
        assert_eq!(stereo.header(8184), Some([0xff, 0xf1, 0x4c, 0x83, 0xff, 0xff, 0xfc]));
        assert_eq!(stereo.header(8185), None, "13 bits of length");
        // HE-AAC, 22.05 kHz core under 44.1 kHz: object 5, frequency 7, mono, extension 4, object 2.
        assert_eq!(Adts::read(&[0x2b, 0x8a, 0x08, 0x00]).unwrap(), Adts { profile: 1, frequency: 7, channels: 1 });
    }

    #[test]
    fn sound_without_such_a_header_is_refused() {
        for config in [&[][..], &[0x11], &[0x11, 0x80], &[0x17, 0x90, 0, 0, 0], &[0xf8, 0xff, 0xff], &[0x11, 0x94]] {
            assert!(Adts::read(config).is_err(), "{config:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..9), size in 0usize..10_000) {
            if let Ok(adts) = Adts::read(&bytes) {
                prop_assert_eq!(adts.header(size).is_some(), (2..=8184).contains(&size));
            }
        }
    }
}
