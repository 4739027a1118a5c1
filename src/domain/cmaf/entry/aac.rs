//! AAC (ISO/IEC 14496-14 section 5.6.1).

use h264_reader::rbsp::{BitRead, BitReader};

use super::{AudioFormat, EntryError, SampleEntry, audio_entry, esds};

/// The object type of MPEG-4 audio in an elementary stream descriptor (ISO/IEC 14496-1 table 5).
const MPEG4_AUDIO: u8 = 0x40;

/// Sample rates by `samplingFrequencyIndex` (ISO/IEC 14496-3 table 1.18).
const SAMPLE_RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

/// Audio object types (ISO/IEC 14496-3 table 1.17): spectral band replication, and parametric stereo.
const SBR: u8 = 5;
const PS: u8 = 29;

/// From an AudioSpecificConfig (ISO/IEC 14496-3 section 1.6.2.1), which is also Matroska's `CodecPrivate`.
///
/// The entry's rate is that of the core codec, which is the track's timescale: 1024 samples a frame, with spectral band
/// replication too.
pub fn entry(audio_specific_config: &[u8]) -> Result<SampleEntry, EntryError> {
    let config = AudioSpecificConfig::parse(audio_specific_config)?;
    let format = AudioFormat { channels: config.channels, sample_rate: config.sample_rate, bits: 16 };
    let mut descriptor = Vec::new();
    esds::push(&mut descriptor, MPEG4_AUDIO, Some(audio_specific_config))?;
    let bytes = audio_entry(b"mp4a", format, |out| out.extend(descriptor));
    Ok(SampleEntry::new(bytes, format!("mp4a.40.{}", config.object_type)))
}

/// An AudioSpecificConfig of AAC without extensions. Some tracks have none: old Matroska files name the profile in the
/// codec id only, MPEG-2 AAC in MP4 in its object type.
pub fn audio_specific_config(object_type: u8, sample_rate: u32, channels: u16) -> Result<[u8; 2], EntryError> {
    const UNSUPPORTED: EntryError = EntryError::Unsupported("there is no AAC configuration for this rate and channels");
    let index = SAMPLE_RATES.iter().position(|rate| *rate == sample_rate).ok_or(UNSUPPORTED)?;
    let channel_config = (1..=7).find(|config| channel_count(*config) == channels).ok_or(UNSUPPORTED)?;
    if !(1..=4).contains(&object_type) {
        return Err(UNSUPPORTED);
    }
    let word = u16::from(object_type) << 11 | (index as u16) << 7 | u16::from(channel_config) << 3;
    Ok(word.to_be_bytes())
}

#[derive(Debug, PartialEq, Eq)]
struct AudioSpecificConfig {
    /// Of the whole stream: [`SBR`] and [`PS`] include a core codec.
    object_type: u8,
    /// Of the core codec.
    sample_rate: u32,
    channels: u16,
}

impl AudioSpecificConfig {
    fn parse(config: &[u8]) -> Result<Self, EntryError> {
        let mut bits = BitReader::new(config);
        let mut object_type = read_object_type(&mut bits)?;
        let sample_rate = read_sample_rate(&mut bits)?;
        let channels = channel_count(bits.read::<4, u8>("channelConfiguration")?);
        let mut core_type = object_type;
        if matches!(object_type, SBR | PS) {
            read_sample_rate(&mut bits)?;
            core_type = read_object_type(&mut bits)?;
        }
        if core_type == 0 {
            return Err(EntryError::Truncated);
        }
        if core_type == object_type {
            object_type = read_extension(bits).unwrap_or(object_type);
        }
        // Parametric stereo over a mono core.
        let channels = if object_type == PS { channels.max(2) } else { channels };
        Ok(Self { object_type, sample_rate, channels })
    }
}

fn read_object_type(bits: &mut BitReader<&[u8]>) -> Result<u8, EntryError> {
    match bits.read::<5, u8>("audioObjectType")? {
        31 => Ok(32 + bits.read::<6, u8>("audioObjectTypeExt")?),
        object_type => Ok(object_type),
    }
}

fn read_sample_rate(bits: &mut BitReader<&[u8]>) -> Result<u32, EntryError> {
    match bits.read::<4, u8>("samplingFrequencyIndex")? {
        15 => Ok(bits.read::<24, u32>("samplingFrequency")?),
        index => SAMPLE_RATES.get(usize::from(index)).copied().ok_or(EntryError::Truncated),
    }
}

/// Signalling that older decoders ignore, at the end: `syncExtensionType` 0x2b7 with spectral band replication, then
/// 0x548 with parametric stereo. What precedes it depends on the codec, so that the pattern is searched for.
fn read_extension(mut bits: BitReader<&[u8]>) -> Option<u8> {
    let mut window = bits.read::<11, u16>("syncExtensionType").ok()?;
    while window != 0x2b7 {
        window = window << 1 & 0x7ff | u16::from(bits.read_bit("syncExtensionType").ok()?);
    }
    let has_sbr = read_object_type(&mut bits).ok()? == SBR && bits.read_bit("sbrPresentFlag").ok()?;
    if !has_sbr {
        return None;
    }
    let has_ps = read_sample_rate(&mut bits).is_ok()
        && bits.read::<11, u16>("syncExtensionType").is_ok_and(|sync| sync == 0x548)
        && bits.read_bit("psPresentFlag").unwrap_or(false);
    Some(if has_ps { PS } else { SBR })
}

/// By `channelConfiguration` (ISO/IEC 14496-3 table 1.19). With configuration 0 the stream describes its channels, and
/// the entry has the template's value.
fn channel_count(channel_config: u8) -> u16 {
    match channel_config {
        1..=6 => u16::from(channel_config),
        11 => 7,
        7 | 12 | 14 => 8,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::entry::testing::{hex, with_channels};
    use proptest::prelude::*;

    /// ffmpeg 5.1: `-f lavfi -i sine=frequency=440:sample_rate=48000:duration=0.3 -c:a aac -ac 2 -write_btrt 0`. The
    /// descriptor has long lengths and bit rates, ours has short ones and none.
    const ENTRY: &str = "
        0000005a6d703461000000000000000100000000000000000002001000000000bb8000000000003665736473000000000380
        808025000100048080801740150000000001d5290001d5290580808005119056e500068080800102
    ";

    fn parse(config: &str) -> (u8, u32, u16) {
        let parsed = AudioSpecificConfig::parse(&hex(config)).unwrap();
        (parsed.object_type, parsed.sample_rate, parsed.channels)
    }

    #[test]
    fn the_entry_states_what_that_of_ffmpeg_does() {
        let expected = hex(ENTRY);
        let entry = entry(&hex("119056e500")).unwrap();
        assert_eq!(entry.codecs, "mp4a.40.2");
        assert_eq!(entry.bytes[4..36], expected[4..36]);
        assert_eq!(esds::parse(&entry.bytes[44..]), esds::parse(&expected[44..]));
        assert_eq!(
            entry.bytes[44..],
            hex("00000000 031c 000000 0414 4015000000000000000000 0000 0505119056e500 060102")
        );
    }

    #[test]
    fn spectral_band_replication_is_in_the_codec_string() {
        assert_eq!(parse("1210"), (2, 44_100, 2));
        assert_eq!(parse("119056e500"), (2, 48_000, 2), "states its absence");
        assert_eq!(parse("11b056e500"), (2, 48_000, 6));
        assert_eq!(parse("139056e5a0"), (SBR, 22_050, 2), "signalled for newer decoders only");
        assert_eq!(parse("138856e5a54880"), (PS, 22_050, 2));
        assert_eq!(parse("2b920800"), (SBR, 22_050, 2), "signalled for all decoders");
        assert_eq!(parse("eb8a0800"), (PS, 22_050, 2), "the core is mono");
        let entry = with_channels(entry(&hex("11b056e500")).unwrap().bytes, 2);
        assert_eq!(&entry[24..28], [0, 2, 0, 16]);
    }

    #[test]
    fn a_configuration_is_made_from_rate_and_channels() {
        assert_eq!(audio_specific_config(2, 48_000, 2), Ok([0x11, 0x90]));
        assert_eq!(audio_specific_config(2, 44_100, 8), Ok([0x12, 0x38]));
        assert!(audio_specific_config(2, 47_999, 2).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..140)) {
            let _ = entry(&bytes);
        }
    }
}
