//! FLAC ("Encapsulation of FLAC in ISO Base Media File Format" 0.0.4, section 3.3).

use super::{AudioFormat, EntryError, SampleEntry, audio_entry};
use crate::domain::bytes::ByteCursor;
use crate::domain::cmaf::boxes::push_full_box;

/// Size of the metadata block STREAMINFO (RFC 9639 section 8.2), bytes.
const STREAMINFO_BYTES: usize = 34;

/// From Matroska's `CodecPrivate`: `fLaC`, then metadata blocks. STREAMINFO is the first.
pub fn entry(codec_private: &[u8]) -> Result<SampleEntry, EntryError> {
    let blocks = codec_private.strip_prefix(b"fLaC");
    entry_from_blocks(blocks.ok_or(EntryError::Unsupported("the FLAC configuration does not start with fLaC"))?)
}

/// From metadata blocks, which a `dfLa` box has after its version and flags. Only STREAMINFO is copied; it is marked as
/// the last block.
pub fn entry_from_blocks(blocks: &[u8]) -> Result<SampleEntry, EntryError> {
    let mut blocks = ByteCursor(blocks);
    let header = blocks.u32()? & 0x7fff_ffff;
    if header != STREAMINFO_BYTES as u32 {
        return Err(EntryError::Unsupported("the FLAC configuration does not start with STREAMINFO"));
    }
    let info = blocks.take(STREAMINFO_BYTES)?;
    // After block and frame sizes: a rate of 20 bits, channels minus one of 3, bits of a sample minus one of 5.
    let fields = u32::from_be_bytes([info[10], info[11], info[12], info[13]]);
    let format = AudioFormat {
        sample_rate: fields >> 12,
        channels: (fields >> 9 & 7) as u16 + 1,
        bits: (fields >> 4 & 31) as u16 + 1,
    };
    let bytes = audio_entry(b"fLaC", format, |out| {
        push_full_box(out, b"dfLa", 0, 0, |out| {
            out.extend((0x8000_0000 | header).to_be_bytes());
            out.extend(info);
        });
    });
    Ok(SampleEntry::new(bytes, "fLaC"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::entry::testing::hex;
    use proptest::prelude::*;

    /// ffmpeg 5.1: `-f lavfi -i sine=frequency=440:sample_rate=48000:duration=0.3 -c:a flac -ac 2`, to Matroska.
    const CODEC_PRIVATE: &str = "664c614380000022120012000000fc0005110bb802f000003840e5f051c128e84992c0cba99724092b51";

    /// Copied to MP4 with `-write_btrt 0`.
    const ENTRY: &str = "
        00000056664c6143000000000000000100000000000000000002001000000000bb8000000000003264664c61000000008000
        0022120012000000fc0005110bb802f000003840e5f051c128e84992c0cba99724092b51
    ";

    /// With `-ar 96000 -sample_fmt s32 -ac 6`; a comment follows STREAMINFO.
    const CODEC_PRIVATE_96: &str = "
        664c6143000000222000200000122d0025e217700b700000708027f430b0b7e2103685e68bf0f28055498400003604000000
        4c617666010000002600000057415645464f524d4154455854454e5349424c455f4348414e4e454c5f4d41534b3d30783366
    ";

    const ENTRY_96: &str = "
        00000056664c6143000000000000000100000000000000000006001800000000000000000000003264664c61000000008000
        00222000200000122d0025e217700b700000708027f430b0b7e2103685e68bf0f2805549
    ";

    #[test]
    fn entries_equal_those_of_ffmpeg_but_for_high_rates() {
        let stereo = entry(&hex(CODEC_PRIVATE)).unwrap();
        assert_eq!((stereo.bytes, &stereo.codecs[..]), (hex(ENTRY), "fLaC"));
        // ffmpeg writes a rate of 0, the specification requires a division of the rate.
        let mut expected = hex(ENTRY_96);
        expected[32..34].copy_from_slice(&48_000u16.to_be_bytes());
        assert_eq!(entry(&hex(CODEC_PRIVATE_96)).unwrap().bytes, expected);
    }

    #[test]
    fn other_blocks_are_refused() {
        assert!(matches!(entry(b"fLaC\x04\0\0\x22"), Err(EntryError::Unsupported(_))));
        assert_eq!(entry(&hex(CODEC_PRIVATE)[..41]), Err(EntryError::Truncated));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            let _ = (entry(&bytes), entry(&[&b"fLaC\0\0\0\x22"[..], &bytes].concat()));
        }
    }
}
