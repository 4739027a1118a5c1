//! ALAC (Apple Lossless Audio Codec, "ALACMagicCookieDescription").

use super::{AudioFormat, EntryError, SampleEntry, audio_entry};
use crate::domain::cmaf::boxes::push_full_box;

/// Size of an ALACSpecificConfig, bytes.
const CONFIG_BYTES: usize = 24;

/// From an ALACSpecificConfig, which is also Matroska's `CodecPrivate`. The cookie may be a whole `alac` box, as some
/// demuxers give it, and a channel layout may follow.
pub fn entry(cookie: &[u8]) -> Result<SampleEntry, EntryError> {
    // Size, `alac`, version and flags.
    let is_box = cookie.get(4..8) == Some(b"alac");
    let config = if is_box { cookie.get(12..) } else { Some(cookie) };
    let config = config.and_then(|config| config.first_chunk::<CONFIG_BYTES>()).ok_or(EntryError::Truncated)?;
    let format = AudioFormat {
        bits: u16::from(config[5]),
        channels: u16::from(config[9]),
        sample_rate: u32::from_be_bytes([config[20], config[21], config[22], config[23]]),
    };
    let bytes = audio_entry(b"alac", format, |out| push_full_box(out, b"alac", 0, 0, |out| out.extend(config)));
    Ok(SampleEntry::new(bytes, "alac"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::entry::testing::hex;
    use proptest::prelude::*;

    /// ffmpeg 5.1: `-f lavfi -i sine=frequency=440:sample_rate=48000:duration=0.3 -c:a alac -ac 2`, to Matroska.
    const COOKIE: &str = "000010000010280a0e02000000004004001770000000bb80";

    /// Copied to MP4 with `-write_btrt 0`.
    const ENTRY: &str = "
        00000048616c6163000000000000000100000000000000000002001000000000bb80000000000024616c6163000000000000
        10000010280a0e02000000004004001770000000bb80
    ";

    #[test]
    fn the_entry_equals_that_of_ffmpeg() {
        let from_cookie = entry(&hex(COOKIE)).unwrap();
        assert_eq!((&from_cookie.bytes, &from_cookie.codecs[..]), (&hex(ENTRY), "alac"));
        let as_box = [hex("00000024 616c6163 00000000"), hex(COOKIE)].concat();
        assert_eq!(entry(&as_box), Ok(from_cookie));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            let _ = entry(&bytes);
        }
    }
}
