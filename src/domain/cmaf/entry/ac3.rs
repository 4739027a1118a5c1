//! AC-3 (ETSI TS 102 366 annex F), whose configuration is in its first frame only.

use h264_reader::rbsp::{BitRead, BitReader};

use super::{AudioFormat, EntryError, SampleEntry, audio_entry};
use crate::domain::cmaf::boxes::push_box;

const SYNC_WORD: u16 = 0x0b77;

/// By `fscod`.
pub(super) const SAMPLE_RATES: [u32; 3] = [48_000, 44_100, 32_000];

pub(super) type Bits<'a> = BitReader<&'a [u8]>;

/// From a frame (ETSI TS 102 366 sections 4.3 and 4.4.2).
pub fn entry(first_frame: &[u8]) -> Result<SampleEntry, EntryError> {
    let mut bits = BitReader::new(first_frame);
    check_sync_word(&mut bits, "the AC-3 stream does not start with a frame")?;
    bits.skip(16, "crc1")?;
    let rate_code = bits.read::<2, u32>("fscod")?;
    let bit_rate_code = bits.read::<6, u32>("frmsizecod")? >> 1;
    let bitstream_id = bits.read::<5, u32>("bsid")?;
    let mode = bits.read::<3, u32>("bsmod")?;
    let layout = bits.read::<3, u32>("acmod")?;
    // Mix levels of centre and surround channels, and the surround mode of stereo.
    let has_centre = layout & 1 != 0 && layout != 1;
    let mix_bits = [has_centre, layout & 4 != 0, layout == 2].map(|is_present| if is_present { 2 } else { 0 });
    bits.skip(mix_bits.iter().sum(), "cmixlev, surmixlev, dsurmod")?;
    let has_lfe = bits.read_bit("lfeon")?;
    let sample_rate = SAMPLE_RATES.get(rate_code as usize);
    let (Some(&sample_rate), 0..=10) = (sample_rate, bitstream_id) else {
        return Err(EntryError::Unsupported("the first AC-3 frame is damaged"));
    };
    // Versions 9 and 10 have a half and a quarter of the rate.
    let sample_rate = sample_rate >> bitstream_id.saturating_sub(8);
    let fields =
        [(rate_code, 2), (bitstream_id, 5), (mode, 3), (layout, 3), (u32::from(has_lfe), 1), (bit_rate_code, 5)];
    // Five reserved bits at the end.
    let dac3 = pack(&fields) << 5;
    let channels = channel_count(layout, has_lfe);
    entry_from_record(&dac3.to_be_bytes()[1..], AudioFormat { channels, sample_rate, bits: 16 })
}

/// From the content of a `dac3` box.
pub fn entry_from_record(dac3: &[u8], format: AudioFormat) -> Result<SampleEntry, EntryError> {
    if dac3.len() < 3 {
        return Err(EntryError::Truncated);
    }
    let bytes = audio_entry(b"ac-3", format, |out| push_box(out, b"dac3", |out| out.extend(dac3)));
    Ok(SampleEntry::new(bytes, "ac-3"))
}

/// By `acmod` and `lfeon`.
pub(super) fn channel_count(layout: u32, has_lfe: bool) -> u16 {
    const CHANNELS: [u16; 8] = [2, 1, 2, 3, 3, 4, 4, 5];
    CHANNELS[layout as usize & 7] + u16::from(has_lfe)
}

pub(super) fn check_sync_word(bits: &mut Bits, refusal: &'static str) -> Result<(), EntryError> {
    let is_frame = bits.read::<16, u16>("syncword")? == SYNC_WORD;
    if is_frame { Ok(()) } else { Err(EntryError::Unsupported(refusal)) }
}

/// Numbers and their widths in bits, the first in the most significant bits.
pub(super) fn pack(fields: &[(u32, u32)]) -> u32 {
    fields.iter().fold(0, |word, (value, width)| word << width | value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::entry::testing::{hex, with_channels};
    use proptest::prelude::*;

    /// ffmpeg 5.1: `-f lavfi -i sine=frequency=440:sample_rate=48000:duration=0.3 -c:a ac3 -ac 2 -b:a 192k`, to
    /// Matroska: the start of the first frame.
    const FRAME: &str = "0b77fe95144043e106f46370c0c0c218";

    /// Copied to MP4 with `-write_btrt 0`.
    const ENTRY: &str = "
        0000002f61632d33000000000000000100000000000000000002001000000000bb8000000000000b64616333101140
    ";

    /// With `-ac 6 -b:a 448k`.
    const SURROUND_FRAME: &str = "0b77b50b1e40ebf8403eff99ff0841fc";

    const SURROUND_ENTRY: &str = "
        0000002f61632d33000000000000000100000000000000000002001000000000bb8000000000000b64616333103de0
    ";

    #[test]
    fn entries_equal_those_of_ffmpeg_but_for_the_channels() {
        let stereo = entry(&hex(FRAME)).unwrap();
        assert_eq!((stereo.bytes, &stereo.codecs[..]), (hex(ENTRY), "ac-3"));
        assert_eq!(entry(&hex(SURROUND_FRAME)).unwrap().bytes, with_channels(hex(SURROUND_ENTRY), 6));
    }

    #[test]
    fn other_streams_are_refused() {
        // E-AC-3.
        assert!(matches!(entry(&hex("0b7702ff3f87c000")), Err(EntryError::Unsupported(_))));
        assert_eq!(entry(&hex(FRAME)[..5]), Err(EntryError::Truncated));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = (entry(&bytes), entry(&[&[0x0b, 0x77][..], &bytes].concat()));
        }
    }
}
