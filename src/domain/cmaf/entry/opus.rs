//! Opus ("Encapsulation of Opus in ISO Base Media File Format" section 4.3).

use super::{AudioFormat, EntryError, SampleEntry, audio_entry};
use crate::domain::cmaf::boxes::push_box;

/// The track's timescale, whatever the rate of the encoder's input.
const SAMPLE_RATE: u32 = 48_000;

/// From an identification header (RFC 7845 section 5.1), which is also Matroska's `CodecPrivate`. Its numbers are
/// little-endian, those of `dOps` are big-endian.
pub fn entry(opus_head: &[u8]) -> Result<SampleEntry, EntryError> {
    let head = opus_head.strip_prefix(b"OpusHead");
    let head = head.ok_or(EntryError::Unsupported("the Opus configuration is not an identification header"))?;
    let (head, mapping) = head.split_first_chunk::<11>().ok_or(EntryError::Truncated)?;
    // A version, the upper half of which states incompatible changes.
    if head[0] >> 4 != 0 {
        return Err(EntryError::Unsupported("the Opus identification header has an unknown version"));
    }
    let [_, channels, skip_0, skip_1, rate_0, rate_1, rate_2, rate_3, gain_0, gain_1, family] = *head;
    let mut dops = vec![0, channels, skip_1, skip_0, rate_3, rate_2, rate_1, rate_0, gain_1, gain_0, family];
    if family != 0 {
        // Numbers of streams and of coupled streams, and a stream for each channel.
        dops.extend(mapping.get(..2 + usize::from(channels)).ok_or(EntryError::Truncated)?);
    }
    entry_from_record(&dops)
}

/// From the content of a `dOps` box.
pub fn entry_from_record(dops: &[u8]) -> Result<SampleEntry, EntryError> {
    if dops.len() < 11 {
        return Err(EntryError::Truncated);
    }
    let format = AudioFormat { channels: u16::from(dops[1]), sample_rate: SAMPLE_RATE, bits: 16 };
    let bytes = audio_entry(b"Opus", format, |out| push_box(out, b"dOps", |out| out.extend(dops)));
    Ok(SampleEntry::new(bytes, "Opus"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::entry::testing::hex;
    use proptest::prelude::*;

    /// ffmpeg 5.1: `-f lavfi -i sine=frequency=440:sample_rate=48000:duration=0.3 -c:a libopus -ac 2`, to Matroska.
    const HEAD: &str = "4f707573486561640102380180bb0000000000";

    /// Copied to MP4 with `-write_btrt 0`.
    const ENTRY: &str = "
        000000374f707573000000000000000100000000000000000002001000000000bb80000000000013644f7073000201380000
        bb80000000
    ";

    /// With `-ac 6`.
    const SURROUND_HEAD: &str = "4f707573486561640106380180bb00000000010402000401020305";

    const SURROUND_ENTRY: &str = "
        0000003f4f707573000000000000000100000000000000000006001000000000bb8000000000001b644f7073000601380000
        bb800000010402000401020305
    ";

    #[test]
    fn entries_equal_those_of_ffmpeg() {
        let stereo = entry(&hex(HEAD)).unwrap();
        assert_eq!((stereo.bytes, &stereo.codecs[..]), (hex(ENTRY), "Opus"));
        assert_eq!(entry(&hex(SURROUND_HEAD)).unwrap().bytes, hex(SURROUND_ENTRY));
        assert_eq!(entry(&hex(SURROUND_HEAD)[..26]), Err(EntryError::Truncated));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
            let _ = (entry(&bytes), entry(&[&b"OpusHead"[..], &bytes].concat()), entry_from_record(&bytes));
        }
    }
}
