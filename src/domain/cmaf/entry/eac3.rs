//! E-AC-3 (ETSI TS 102 366 annexes E and F), whose configuration is in its first frames only, and Dolby Atmos in it
//! (ETSI TS 103 420 section 8.3).

use h264_reader::rbsp::{BitRead, BitReader};

use super::ac3::{Bits, SAMPLE_RATES, channel_count, check_sync_word, pack};
use super::{AudioFormat, EntryError, SampleEntry, audio_entry};
use crate::domain::cmaf::boxes::push_box;

/// Samples of an audio block.
const BLOCK_SAMPLES: u64 = 256;

/// Independent substreams have ids of three bits.
const MAX_PROGRAMMES: usize = 8;

/// From an access unit (ETSI TS 102 366 section E.1.2): a frame of each substream, whose six blocks or fewer are
/// a sample. What follows is ignored.
pub fn entry(first_access_unit: &[u8]) -> Result<SampleEntry, EntryError> {
    let first = Substream::parse(first_access_unit)?;
    if first.kind == DEPENDENT {
        return Err(EntryError::Unsupported("the E-AC-3 stream does not start with an independent substream"));
    }
    let mut programmes = vec![(first, Vec::new())];
    let mut bytes = first.bytes;
    while let Some(rest) = first_access_unit.get(bytes..)
        && let Ok(substream) = Substream::parse(rest)
        && bytes + substream.bytes <= first_access_unit.len()
    {
        if substream.kind == DEPENDENT {
            if let Some((_, dependents)) = programmes.last_mut() {
                dependents.push(substream);
            }
        } else if substream.id == 0 || programmes.len() == MAX_PROGRAMMES {
            break;
        } else {
            programmes.push((substream, Vec::new()));
        }
        bytes += substream.bytes;
    }
    let samples = first.blocks * BLOCK_SAMPLES;
    let kilobits_per_second = bytes as u64 * 8 * u64::from(first.sample_rate) / (samples * 1000);
    let head = pack(&[(kilobits_per_second.min(0x1fff) as u32, 13), (programmes.len() as u32 - 1, 3)]) as u16;
    let mut dec3 = head.to_be_bytes().to_vec();
    for (independent, dependents) in &programmes {
        independent.push_description(dependents, &mut dec3);
    }
    let (_, dependents) = &programmes[0];
    // The flag for extension type A is the last bit of its byte.
    let extended = dependents.iter().find_map(|substream| substream.atmos_complexity);
    if let Some(complexity) = first.atmos_complexity.or(extended) {
        dec3.extend([1, complexity]);
    }
    let channels = channel_count(first.layout, first.has_lfe) + extra_channels(locations(dependents));
    let format = AudioFormat { channels, sample_rate: first.sample_rate, bits: 16 };
    entry_from_record(&dec3, format)
}

/// From the content of a `dec3` box.
pub fn entry_from_record(dec3: &[u8], format: AudioFormat) -> Result<SampleEntry, EntryError> {
    if dec3.len() < 5 {
        return Err(EntryError::Truncated);
    }
    let channels = atmos_complexity(dec3).map(|objects| format!("{objects}/JOC"));
    let bytes = audio_entry(b"ec-3", format, |out| push_box(out, b"dec3", |out| out.extend(dec3)));
    Ok(SampleEntry { channels, ..SampleEntry::new(bytes, "ec-3") })
}

/// The complexity index of Dolby Atmos at the end of a `dec3` box: the number of objects.
fn atmos_complexity(dec3: &[u8]) -> Option<u8> {
    let programmes = dec3.get(1)? & 7;
    let mut at = 2;
    for _ in 0..=programmes {
        // Three bytes, and a fourth with the locations of dependent substreams.
        let dependents = dec3.get(at + 2)? >> 1 & 15;
        at += if dependents > 0 { 4 } else { 3 };
    }
    (dec3.get(at)? & 1 == 1).then_some(*dec3.get(at + 1)?)
}

/// The value of `strmtyp` for substreams that add channels to the one before.
const DEPENDENT: u32 = 1;

/// The fields of a frame's header (`bsi` in ETSI TS 102 366 table E.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Substream {
    /// `strmtyp` and `substreamid`.
    kind: u32,
    id: u32,
    bytes: usize,
    rate_code: u32,
    sample_rate: u32,
    blocks: u64,
    layout: u32,
    has_lfe: bool,
    bitstream_id: u32,
    /// `bsmod`.
    mode: u32,
    /// `chanmap` of a dependent substream.
    channel_map: u16,
    atmos_complexity: Option<u8>,
}

impl Substream {
    fn parse(frame: &[u8]) -> Result<Self, EntryError> {
        let bits = &mut BitReader::new(frame);
        check_sync_word(bits, "the E-AC-3 stream does not start with a frame")?;
        let kind = bits.read::<2, u32>("strmtyp")?;
        let id = bits.read::<3, u32>("substreamid")?;
        let bytes = (usize::from(bits.read::<11, u16>("frmsiz")?) + 1) * 2;
        let rate_code = bits.read::<2, u32>("fscod")?;
        let second_code = usize::from(bits.read::<2, u8>("fscod2, numblkscod")?);
        let full_rate = SAMPLE_RATES.get(rate_code as usize).copied();
        let half_rate = SAMPLE_RATES.get(second_code).map(|rate| rate / 2);
        let (sample_rate, block_code) = full_rate.map_or((half_rate, 3), |rate| (Some(rate), second_code));
        let layout = bits.read::<3, u32>("acmod")?;
        let has_lfe = bits.read_bit("lfeon")?;
        let bitstream_id = bits.read::<5, u32>("bsid")?;
        if bitstream_id <= 10 {
            return Err(EntryError::Unsupported("the E-AC-3 stream has an AC-3 core"));
        }
        let (Some(sample_rate), 11..=16) = (sample_rate, bitstream_id) else {
            return Err(EntryError::Unsupported("the first E-AC-3 frame is damaged"));
        };
        let is_dual_mono = layout == 0;
        for _ in 0..=u8::from(is_dual_mono) {
            bits.skip(5, "dialnorm")?;
            skip_optional(bits, 8, "compr")?;
        }
        let has_map = kind == DEPENDENT && bits.read_bit("chanmape")?;
        let channel_map = if has_map { bits.read::<16, u16>("chanmap")? } else { 0 };
        let mut substream = Self {
            kind,
            id,
            bytes,
            rate_code,
            sample_rate,
            blocks: [1, 2, 3, 6][block_code],
            layout,
            has_lfe,
            bitstream_id,
            mode: 0,
            channel_map,
            atmos_complexity: None,
        };
        substream.skip_mixing_data(bits)?;
        substream.mode = substream.read_informational_data(bits)?;
        substream.atmos_complexity = substream.read_addition(bits)?;
        Ok(substream)
    }

    /// `mixmdata`.
    fn skip_mixing_data(&self, bits: &mut Bits) -> Result<(), EntryError> {
        if !bits.read_bit("mixmdate")? {
            return Ok(());
        }
        let is_dual_mono = self.layout == 0;
        let has_centre = self.layout & 1 != 0 && self.layout > 2;
        let has_surround = self.layout & 4 != 0;
        let level_bits = 2 * u32::from(self.layout > 2) + 6 * u32::from(has_centre) + 6 * u32::from(has_surround);
        bits.skip(level_bits, "dmixmod, ltrtcmixlev, lorocmixlev, ltrtsurmixlev, lorosurmixlev")?;
        if self.has_lfe {
            skip_optional(bits, 5, "lfemixlevcod")?;
        }
        if self.kind != 0 {
            return Ok(());
        }
        for _ in 0..2 + u8::from(is_dual_mono) {
            skip_optional(bits, 6, "pgmscl, pgmscl2, extpgmscl")?;
        }
        let mix_bits = match bits.read::<2, u8>("mixdef")? {
            0 => 0,
            1 => 5,
            2 => 12,
            _ => (bits.read::<5, u32>("mixdeflen")? + 2) * 8,
        };
        bits.skip(mix_bits, "mixdata")?;
        if self.layout < 2 {
            for _ in 0..=u8::from(is_dual_mono) {
                skip_optional(bits, 14, "panmean, paninfo")?;
            }
        }
        if bits.read_bit("frmmixcfginfoe")? {
            if self.blocks == 1 {
                bits.skip(5, "blkmixcfginfo")?;
            } else {
                for _ in 0..self.blocks {
                    skip_optional(bits, 5, "blkmixcfginfo")?;
                }
            }
        }
        Ok(())
    }

    /// `infomdata`, of which only `bsmod` is needed.
    fn read_informational_data(&self, bits: &mut Bits) -> Result<u32, EntryError> {
        if !bits.read_bit("infomdate")? {
            return Ok(0);
        }
        let mode = bits.read::<3, u32>("bsmod")?;
        let surround_bits = 4 * u32::from(self.layout == 2) + 2 * u32::from(self.layout >= 6);
        bits.skip(2 + surround_bits, "copyrightb, origbs, dsurmod, dheadphonmod, dsurexmod")?;
        for _ in 0..=u8::from(self.layout == 0) {
            skip_optional(bits, 8, "mixlevel, roomtyp, adconvtyp")?;
        }
        if self.rate_code < 3 {
            bits.skip(1, "sourcefscod")?;
        }
        Ok(mode)
    }

    /// `addbsi`, which has the number of objects of Dolby Atmos (ETSI TS 103 420 section 8.2).
    fn read_addition(&self, bits: &mut Bits) -> Result<Option<u8>, EntryError> {
        let is_whole = self.blocks == 6;
        if self.kind == 0 && !is_whole {
            bits.skip(1, "convsync")?;
        }
        if self.kind == 2 && (is_whole || bits.read_bit("blkid")?) {
            bits.skip(6, "frmsizecod")?;
        }
        if !bits.read_bit("addbsie")? || bits.read::<6, u8>("addbsil")? == 0 {
            return Ok(None);
        }
        bits.skip(7, "reserved")?;
        let has_extension = bits.read_bit("flag_eac3_extension_type_a")?;
        let complexity = bits.read::<8, u8>("complexity_index_type_a")?;
        Ok(has_extension.then_some(complexity))
    }

    /// An independent substream in `dec3` (ETSI TS 102 366 section F.6.1).
    fn push_description(&self, dependents: &[Self], dec3: &mut Vec<u8>) {
        // After the version, a reserved bit and `asvc`; after the layout, three reserved bits.
        let programme = [(self.rate_code, 2), (self.bitstream_id, 5), (0, 2), (self.mode, 3), (self.layout, 3)];
        let substreams = [(u32::from(self.has_lfe), 1), (0, 3), (dependents.len().min(15) as u32, 4)];
        let word = pack(&programme) << 8 | pack(&substreams);
        if dependents.is_empty() {
            dec3.extend(&(word << 1).to_be_bytes()[1..]);
        } else {
            dec3.extend((word << 9 | u32::from(locations(dependents))).to_be_bytes());
        }
    }
}

/// `chan_loc`: bits 5 to 12 and 14 of `chanmap`, where bit 0 is the most significant, become bits 0 to 8, where bit 0
/// is the least significant.
fn locations(dependents: &[Substream]) -> u16 {
    let map = dependents.iter().fold(0, |map, substream| map | substream.channel_map);
    let reversed = map.reverse_bits();
    reversed >> 5 & 0xff | (reversed >> 14 & 1) << 8
}

/// Channels that dependent substreams add. Pairs are left and right centre, rear surround, direct surround, wide and
/// height.
fn extra_channels(locations: u16) -> u16 {
    const PAIRS: u16 = 0b0_0111_0011;
    (locations.count_ones() + (locations & PAIRS).count_ones()) as u16
}

/// Skips a field that a flag precedes.
fn skip_optional(bits: &mut Bits, width: u32, name: &'static str) -> Result<(), EntryError> {
    if bits.read_bit(name)? {
        bits.skip(width, name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::entry::testing::{hex, with_channels};
    use proptest::prelude::*;

    /// ffmpeg 5.1: `-f lavfi -i sine=frequency=440:sample_rate=48000:duration=0.3 -c:a eac3 -ac 6 -b:a 384k`, to
    /// Matroska: the start of the first frame.
    const FRAME: &str = "
        0b7702ff3f87c000208020000200400003e01fba7e1e010107e1e1f8787e1e10f9f7fceaf9f3e7cf9f3e7cf9f3e7cf9f
    ";

    /// Copied to MP4 with `-write_btrt 0`.
    const ENTRY: &str = "
        0000003165632d33000000000000000100000000000000000002001000000000bb8000000000000d646563330c00200f00
    ";

    /// The start of a frame of a Dolby Atmos trailer with 16 objects, 640 kbit/s.
    const ATMOS_FRAME: &str = "
        0b7704ff3f86fbc41011007a01ca77b9f394ef71dc03f0061861861ff3abe7cf9f3e7cf9f3e7cf9f3e7cf9f3e7cf9f3e7cf9
        f3e7cf9f3e7cf9f3e7dffceaf9f3
    ";

    #[test]
    fn the_entry_equals_that_of_ffmpeg_but_for_the_channels() {
        let entry = entry(&hex(FRAME)).unwrap();
        assert_eq!((entry.bytes, &entry.codecs[..]), (with_channels(hex(ENTRY), 6), "ec-3"));
        assert_eq!(entry.channels, None);
    }

    #[test]
    fn atmos_is_stated_in_the_entry_and_in_the_channels() {
        let entry = entry(&hex(ATMOS_FRAME)).unwrap();
        assert_eq!(entry.bytes[36..], hex("0000000f 64656333 1400 200f00 0110"));
        assert_eq!(entry.channels.as_deref(), Some("16/JOC"));
    }

    /// Bits as bytes, the last one filled with zeros.
    fn packed(bits: &str) -> Vec<u8> {
        let byte = |eight: &[u8]| eight.iter().enumerate().fold(0, |byte, (n, bit)| byte | (bit & 1) << (7 - n));
        bits.as_bytes().chunks(8).map(byte).collect()
    }

    #[test]
    fn dependent_substreams_add_channels() {
        let mut unit = hex(FRAME);
        unit.resize(1536, 0);
        // Type 1, substream 0, 40 bytes, 48 kHz, six blocks, stereo, version 16; the map: rear surround.
        let sizes = ["0000101101110111", "01", "000", "00000010011", "00", "11", "010", "0", "10000"].concat();
        let dependent = packed(&[&sizes, "00000", "0", "1", "0000001000000000", "0", "0", "0"].concat());
        unit.extend(&dependent);
        unit.resize(1536 + 40, 0);
        // The next access unit is not part of it.
        unit.extend(hex(FRAME));
        let combined = entry(&unit).unwrap();
        // 394 kbit/s; one dependent substream with the pair of bit 1.
        assert_eq!(combined.bytes[36..], hex("0000000e 64656333 0c50 200f0202"));
        assert_eq!(&combined.bytes[24..26], [0, 8]);
        assert!(entry(&unit[1536..]).is_err());
    }

    #[test]
    fn other_streams_are_refused() {
        let with_core = entry(&hex("0b77fe95144043e106f4"));
        assert_eq!(with_core, Err(EntryError::Unsupported("the E-AC-3 stream has an AC-3 core")));
        assert_eq!(entry(&hex(FRAME)[..5]), Err(EntryError::Truncated));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (entry(&bytes), entry(&[&[0x0b, 0x77][..], &bytes].concat()));
            let _ = entry(&[&hex("0b7702ff3f87c0"), &bytes[..]].concat());
            let _ = entry_from_record(&bytes, AudioFormat::default());
        }

        #[test]
        fn small_frames_are_read_without_panic(id in 0u8..8, kind in 0u8..3) {
            let frame = [0x0b, 0x77, kind << 6 | id << 3, 3, 0x3f, 0x80, 0, 0];
            let _ = entry(&frame.repeat(600));
        }
    }
}
