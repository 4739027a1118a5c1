//! MPEG-1 and MPEG-2 audio (ISO/IEC 14496-1 table 5).

use super::{AudioFormat, EntryError, SampleEntry, audio_entry, esds};

/// MPEG audio has no configuration: every frame has a header. Rates below 32 kHz are MPEG-2 (ISO/IEC 13818-3).
pub fn entry(format: AudioFormat) -> Result<SampleEntry, EntryError> {
    let object_type = if format.sample_rate < 32_000 { 0x69 } else { 0x6b };
    let mut descriptor = Vec::new();
    esds::push(&mut descriptor, object_type, None)?;
    let bytes = audio_entry(b"mp4a", AudioFormat { bits: 16, ..format }, |out| out.extend(descriptor));
    Ok(SampleEntry::new(bytes, format!("mp4a.{object_type:02X}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::entry::testing::hex;

    /// ffmpeg 5.1: `-f lavfi -i sine=frequency=440:sample_rate=48000:duration=0.3 -c:a libmp3lame -ac 2 -write_btrt 0`.
    const ENTRY: &str = "
        000000506d703461000000000000000100000000000000000002001000000000bb8000000000002c65736473000000000380
        80801b000100048080800d6b150000000001f4000001f400068080800102
    ";

    /// With `sample_rate=22050`.
    const ENTRY_22: &str = "
        000000506d703461000000000000000100000000000000000002001000000000562200000000002c65736473000000000380
        80801b000100048080800d691500000000007d1600007d16068080800102
    ";

    #[test]
    fn entries_state_what_those_of_ffmpeg_do() {
        for (sample_rate, channels, expected, codecs) in
            [(48_000, 2, ENTRY, "mp4a.6B"), (22_050, 2, ENTRY_22, "mp4a.69")]
        {
            let entry = entry(AudioFormat { channels, sample_rate, bits: 0 }).unwrap();
            let expected = hex(expected);
            assert_eq!(entry.bytes[4..36], expected[4..36]);
            assert_eq!(esds::parse(&entry.bytes[44..]), esds::parse(&expected[44..]));
            assert_eq!(entry.codecs, codecs);
        }
    }
}
