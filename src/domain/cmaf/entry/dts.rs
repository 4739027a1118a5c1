//! DTS (ETSI TS 102 114: core in section 5, extension substream in section 7, MP4 in annex E).

use h264_reader::rbsp::{BitRead, BitReader};

use super::{AudioFormat, EntryError, SampleEntry, audio_entry};
use crate::domain::cmaf::boxes::push_box;

const CORE_SYNC: [u8; 4] = [0x7f, 0xfe, 0x80, 0x01];
const EXTENSION_SYNC: [u8; 4] = [0x64, 0x58, 0x20, 0x25];

/// Components of an extension substream, by their sync words: more channels, 96 kHz, a higher bit rate, lossless.
const XXCH_SYNC: [u8; 4] = [0x47, 0x00, 0x4a, 0x03];
const X96_SYNC: [u8; 4] = [0x1d, 0x95, 0xf2, 0x62];
const XBR_SYNC: [u8; 4] = [0x65, 0x5e, 0x31, 0x5e];
const XLL_SYNC: [u8; 4] = [0x41, 0xa2, 0x95, 0x47];

/// From a frame: a core, and for DTS-HD an extension substream. Streams without a core are not supported.
///
/// The entry is `dtsc` for a core with its own extensions, `dtsh` for any other stream.
pub fn entry(first_frame: &[u8]) -> Result<SampleEntry, EntryError> {
    let core = Core::parse(first_frame)?;
    let rest = first_frame.get(core.bytes..).unwrap_or_default();
    let extension = rest.starts_with(&EXTENSION_SYNC).then(|| Extension::parse(rest).unwrap_or_default());
    let construction = stream_construction(&core, extension.is_some().then_some(rest));
    let kind = if matches!(construction, 1 | 2 | 4) { b"dtsc" } else { b"dtsh" };
    let stated = extension.unwrap_or_default();
    let sample_rate = core.sample_rate.max(stated.sample_rate);
    // An asset's layout includes the channels of the core.
    let layout = if stated.channel_layout == 0 { core.channel_layout() } else { stated.channel_layout };

    let mut ddts = Vec::new();
    ddts.extend(sample_rate.to_be_bytes());
    // Maximum and average bit rate: a core's is constant; 0 is unknown.
    let bit_rate = if extension.is_some() { 0 } else { core.bit_rate() };
    ddts.extend([bit_rate.to_be_bytes(), bit_rate.to_be_bytes()].concat());
    ddts.push(if core.bits.max(stated.bits) > 16 { 24 } else { 16 });
    // Samples of a frame at that rate, 512 to 4096.
    let samples = u64::from(core.samples) * u64::from(sample_rate) / u64::from(core.sample_rate);
    let duration_code = match samples {
        0..=512 => 0,
        513..=1024 => 1,
        1025..=2048 => 2,
        _ => 3,
    };
    ddts.push(duration_code << 6 | construction << 1 | u8::from(core.has_lfe));
    // The core's layout, or 31 if only the channel layout states it; FSIZE; no stereo downmix or representation type.
    let core_layout = if matches!(core.layout, 0 | 2 | 4..=9) { u32::from(core.layout) } else { 31 };
    let size_code = core.bytes as u32 - 1;
    let word = core_layout << 18 | size_code << 4 | u32::from(stated.has_stereo_downmix) << 3;
    ddts.extend(&word.to_be_bytes()[1..]);
    ddts.extend(layout.to_be_bytes());
    // More than one asset; no change of the duration of low bit rate streams; no further box.
    ddts.push(u8::from(stated.assets > 1) << 7);
    entry_from_record(kind, &ddts, AudioFormat { channels: channel_count(layout), sample_rate, bits: 16 })
}

/// From the content of a `ddts` box, for `dtsc`, `dtsh`, `dtsl` or `dtse`.
pub fn entry_from_record(kind: &[u8; 4], ddts: &[u8], format: AudioFormat) -> Result<SampleEntry, EntryError> {
    if ddts.len() < 20 {
        return Err(EntryError::Truncated);
    }
    let bytes = audio_entry(kind, format, |out| push_box(out, b"ddts", |out| out.extend(ddts)));
    Ok(SampleEntry::new(bytes, String::from_utf8_lossy(kind)))
}

/// `StreamConstruction` (table E.2). Combinations that the table does not list are 0.
fn stream_construction(core: &Core, extension: Option<&[u8]>) -> u8 {
    let has = |sync: [u8; 4]| extension.is_some_and(|bytes| bytes.windows(4).any(|window| window == sync));
    let extensions = [has(XXCH_SYNC), has(X96_SYNC), has(XBR_SYNC), has(XLL_SYNC)];
    match (core.extension, extensions) {
        (CoreExtension::None, [false, false, false, false]) if extension.is_none() => 1,
        (CoreExtension::MoreChannels, [false, false, false, false]) if extension.is_none() => 2,
        (CoreExtension::ManyChannels, [false, false, false, false]) if extension.is_none() => 3,
        (CoreExtension::DoubleRate, [false, false, false, false]) if extension.is_none() => 4,
        (CoreExtension::None, [true, false, false, false]) => 5,
        (CoreExtension::None, [false, false, true, false]) => 6,
        (CoreExtension::MoreChannels, [false, false, true, false]) => 7,
        (CoreExtension::ManyChannels, [false, false, true, false]) => 8,
        (CoreExtension::None, [true, false, true, false]) => 9,
        (CoreExtension::None, [false, true, false, false]) => 10,
        (CoreExtension::MoreChannels, [false, true, false, false]) => 11,
        (CoreExtension::ManyChannels, [false, true, false, false]) => 12,
        (CoreExtension::None, [true, true, false, false]) => 13,
        (CoreExtension::None, [false, false, false, true]) => 14,
        (CoreExtension::MoreChannels, [false, false, false, true]) => 15,
        (CoreExtension::DoubleRate, [false, false, false, true]) => 16,
        _ => 0,
    }
}

/// Extension within the core substream (`EXT_AUDIO_ID`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CoreExtension {
    None,
    /// XCH: a centre surround channel.
    MoreChannels,
    /// XXCH.
    ManyChannels,
    /// X96.
    DoubleRate,
    Other,
}

/// The header of a core frame (section 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Core {
    bytes: usize,
    samples: u32,
    /// `AMODE`.
    layout: u8,
    sample_rate: u32,
    extension: CoreExtension,
    has_lfe: bool,
    bits: u8,
}

impl Core {
    fn parse(frame: &[u8]) -> Result<Self, EntryError> {
        /// By `SFREQ`; 0 is invalid.
        const SAMPLE_RATES: [u32; 16] =
            [0, 8_000, 16_000, 32_000, 0, 0, 11_025, 22_050, 44_100, 0, 0, 12_000, 24_000, 48_000, 0, 0];
        if !frame.starts_with(&CORE_SYNC) {
            return Err(EntryError::Unsupported("the DTS stream does not start with a core frame of 16-bit words"));
        }
        let mut bits = BitReader::new(&frame[4..]);
        bits.skip(1 + 5, "FTYPE, SHORT")?;
        let has_crc = bits.read_bit("CPF")?;
        let samples = (bits.read::<7, u32>("NBLKS")? + 1) * 32;
        let bytes = usize::from(bits.read::<14, u16>("FSIZE")?) + 1;
        let layout = bits.read::<6, u8>("AMODE")?;
        let sample_rate = SAMPLE_RATES[usize::from(bits.read::<4, u8>("SFREQ")?)];
        bits.skip(5 + 5, "RATE, FixedBit, DYNF, TIMEF, AUXF, HDCD")?;
        let extension_id = bits.read::<3, u8>("EXT_AUDIO_ID")?;
        let has_extension = bits.read_bit("EXT_AUDIO")?;
        bits.skip(1, "ASPF")?;
        let has_lfe = matches!(bits.read::<2, u8>("LFF")?, 1 | 2);
        bits.skip(1 + if has_crc { 16 } else { 0 } + 1 + 4 + 2, "HFLAG, HCRC, FILTS, VERNUM, CHIST")?;
        let bits_of_sample = match bits.read::<3, u8>("PCMR")? {
            0 | 1 => 16,
            2 | 3 => 20,
            _ => 24,
        };
        if sample_rate == 0 || bytes < 96 {
            return Err(EntryError::Unsupported("the first DTS frame is damaged"));
        }
        let extension = match (has_extension, extension_id) {
            (false, _) => CoreExtension::None,
            (true, 0) => CoreExtension::MoreChannels,
            (true, 2) => CoreExtension::DoubleRate,
            (true, 6) => CoreExtension::ManyChannels,
            _ => CoreExtension::Other,
        };
        Ok(Self { bytes, samples, layout, sample_rate, extension, has_lfe, bits: bits_of_sample })
    }

    fn bit_rate(&self) -> u32 {
        (self.bytes as u64 * 8 * u64::from(self.sample_rate) / u64::from(self.samples)) as u32
    }

    /// `ChannelLayout` (table E.5), by `AMODE` (table 5.4).
    fn channel_layout(&self) -> u16 {
        let main = match self.layout {
            0 => CENTRE,
            1..=4 => LEFT_RIGHT,
            5 => CENTRE | LEFT_RIGHT,
            6 => LEFT_RIGHT | CENTRE_SURROUND,
            7 => CENTRE | LEFT_RIGHT | CENTRE_SURROUND,
            8 => LEFT_RIGHT | SURROUND,
            _ => CENTRE | LEFT_RIGHT | SURROUND,
        };
        let extra = if self.extension == CoreExtension::MoreChannels { CENTRE_SURROUND } else { 0 };
        main | extra | if self.has_lfe { LFE } else { 0 }
    }
}

const CENTRE: u16 = 0x1;
const LEFT_RIGHT: u16 = 0x2;
const SURROUND: u16 = 0x4;
const LFE: u16 = 0x8;
const CENTRE_SURROUND: u16 = 0x10;

/// Bits of a channel layout that are two channels.
const PAIRS: u16 = 0xae66;

fn channel_count(layout: u16) -> u16 {
    (layout.count_ones() + (layout & PAIRS).count_ones()) as u16
}

/// The fields that an extension substream states of its first asset (sections 7.4 and 7.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extension {
    assets: u8,
    bits: u8,
    sample_rate: u32,
    has_stereo_downmix: bool,
    channel_layout: u16,
}

impl Extension {
    fn parse(substream: &[u8]) -> Result<Self, EntryError> {
        /// By `nuMaxSampleRate`.
        const SAMPLE_RATES: [u32; 16] = [
            8_000, 16_000, 32_000, 64_000, 128_000, 22_050, 44_100, 88_200, 176_400, 352_800, 12_000, 24_000, 48_000,
            96_000, 192_000, 384_000,
        ];
        let mut bits = BitReader::new(substream);
        bits.skip(32 + 8, "SYNCEXTSSH, UserDefinedBits")?;
        let index = bits.read::<2, u32>("nExtSSIndex")?;
        let size_bits = if bits.read_bit("bHeaderSizeType")? { 20 } else { 16 };
        bits.skip(size_bits - 8 + size_bits, "nuExtSSHeaderSize, nuExtSSFsize")?;
        // The properties of the asset are not repeated in every frame.
        if !bits.read_bit("bStaticFieldsPresent")? {
            return Ok(Self { assets: 1, ..Self::default() });
        }
        bits.skip(2 + 3, "nuRefClockCode, nuExSSFrameDurationCode")?;
        if bits.read_bit("bTimeStampFlag")? {
            bits.skip(36, "nuTimeStamp, nLSB")?;
        }
        let presentations = bits.read::<3, u8>("nuNumAudioPresnt")? + 1;
        let assets = bits.read::<3, u8>("nuNumAssets")? + 1;
        let mut active_substreams = 0;
        for _ in 0..presentations {
            active_substreams += bits.read_var::<u32>(index + 1, "nuActiveExSSMask")?.count_ones();
        }
        bits.skip(8 * active_substreams, "nuActiveAssetMask")?;
        if bits.read_bit("bMixMetadataEnbl")? {
            bits.skip(2, "nuMixMetadataAdjLevel")?;
            let mask_bits = (bits.read::<2, u32>("nuBits4MixOutMask")? + 1) * 4;
            let mixes = bits.read::<2, u32>("nuNumMixOutConfigs")? + 1;
            bits.skip(mask_bits * mixes, "nuMixOutChMask")?;
        }
        bits.skip(size_bits * u32::from(assets), "nuAssetFsize")?;
        bits.skip(9 + 3, "nuAssetDescriptFsize, nuAssetIndex")?;
        if bits.read_bit("bAssetTypeDescrPresent")? {
            bits.skip(4, "nuAssetTypeDescriptor")?;
        }
        if bits.read_bit("bLanguageDescrPresent")? {
            bits.skip(24, "LanguageDescriptor")?;
        }
        if bits.read_bit("bInfoTextPresent")? {
            let text_bytes = bits.read::<10, u32>("nuInfoTextByteSize")? + 1;
            bits.skip(8 * text_bytes, "InfoTextString")?;
        }
        let mut asset = Self { assets, ..Self::default() };
        asset.bits = bits.read::<5, u8>("nuBitResolution")? + 1;
        asset.sample_rate = SAMPLE_RATES[usize::from(bits.read::<4, u8>("nuMaxSampleRate")?)];
        let channels = bits.read::<8, u32>("nuTotalNumChs")? + 1;
        if bits.read_bit("bOne2OneMapChannels2Speakers")? {
            asset.has_stereo_downmix = channels > 2 && bits.read_bit("bEmbeddedStereoFlag")?;
            if channels > 6 {
                bits.skip(1, "bEmbeddedSixChFlag")?;
            }
            if bits.read_bit("bSpkrMaskEnabled")? {
                let mask_bits = (bits.read::<2, u32>("nuNumBits4SAMask")? + 1) * 4;
                asset.channel_layout = bits.read_var(mask_bits, "nuSpkrActivityMask")?;
            }
        }
        Ok(asset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::entry::testing::hex;
    use proptest::prelude::*;

    /// ffmpeg 5.1: `-f lavfi -i sine=frequency=440:sample_rate=48000:duration=0.3 -c:a dca -strict -2 -ac 6 -b:a 768k`,
    /// to Matroska: the start of the first frame.
    const FRAME: &str = "7ffe8001fc3c3ff275e005380009ef7bdeffffff80000036";

    /// The start of the first frame of a file that another muxer made, and its whole sample entry.
    const STEREO_FRAME: &str = "7ffe8001fc3c1ff0b0c001380003ef7f";
    const STEREO_ENTRY: &str = "
        0000004064747363000000000000000100000000000000000002001000000000bb8000000000001c64647473
        00005dc00002ee000002ee001002081ff0000200
    ";
    /// DTS-HD Master Audio, 7.1: the start of the core, 2012 bytes, and the extension substream up to its lossless
    /// part.
    const HD_CORE: &str = "7ffe8001fc3c7db277000d3b8009ef7bdedef7bd8000fff6";

    const HD_EXTENSION: &str = "645820250003e00e7800808014c1c05f01ee84b0040200a7800000002000a5bd41a29547";

    fn hd_frame() -> Vec<u8> {
        let mut frame = hex(HD_CORE);
        frame.resize(2012, 0);
        frame.extend(hex(HD_EXTENSION));
        frame
    }

    #[test]
    fn a_core_is_described_by_its_header() {
        let entry = entry(&hex(FRAME)).unwrap();
        assert_eq!((&entry.bytes[4..8], &entry.codecs[..]), (&b"dtsc"[..], "dtsc"));
        assert_eq!(&entry.bytes[24..36], hex("0006 0010 00000000 bb800000"));
        // 48 kHz; 768 kbit/s; 16 bits; 512 samples, a core only, with LFE; 3/2 channels, 1024 bytes; the channels.
        assert_eq!(entry.bytes[44..], hex("0000bb80 000bb800 000bb800 10 03 243ff0 000f 00"));
    }

    #[test]
    fn the_configuration_equals_that_of_another_muxer() {
        // The file's muxer wrote 2 channels and 48 kHz beside a configuration of 24 kHz.
        let mut expected = hex(STEREO_ENTRY);
        expected[32..34].copy_from_slice(&24_000u16.to_be_bytes());
        assert_eq!(entry(&hex(STEREO_FRAME)).unwrap().bytes, expected);
    }

    #[test]
    fn lossless_streams_state_all_channels() {
        let entry = entry(&hd_frame()).unwrap();
        assert_eq!((&entry.bytes[4..8], &entry.codecs[..]), (&b"dtsh"[..], "dtsh"));
        assert_eq!(&entry.bytes[24..26], [0, 8]);
        // Core and XLL are construction 14; bit rates are unknown; C, L and R, LFE, Lsr and Rsr, Lss and Rss.
        assert_eq!(entry.bytes[44..], hex("0000bb80 00000000 00000000 18 1d 247db0 084b 00"));
    }

    #[test]
    fn streams_without_a_core_are_refused() {
        assert!(matches!(entry(&hex(HD_EXTENSION)), Err(EntryError::Unsupported(_))));
        assert_eq!(entry(&hex(FRAME)[..10]), Err(EntryError::Truncated));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (entry(&bytes), entry(&[&CORE_SYNC[..], &bytes].concat()));
            let _ = Extension::parse(&bytes);
            let extension = [&hd_frame()[..2012], &EXTENSION_SYNC, &bytes].concat();
            prop_assert!(entry(&extension).is_ok());
        }
    }
}
