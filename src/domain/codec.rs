//! Codecs that video is encoded to, and codec strings of RFC 6381, from a stream's configuration record if there is one.

use serde::{Deserialize, Serialize};

use super::time::FrameRate;

/// A codec that video is encoded to. Copied video may have others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetCodec {
    #[default]
    H264,
    Hevc,
    Av1,
}

/// Whether ffmpeg's encoder of this name uses hardware: the second part of its name is that of an interface to it.
pub fn is_hardware_encoder(name: &str) -> bool {
    let interface = name.split_once('_').map(|(_, interface)| interface);
    interface.is_some_and(|interface| ["nvenc", "qsv", "vaapi", "v4l2m2m", "videotoolbox"].contains(&interface))
}

/// Whether ffmpeg has an interface to decoding hardware of this name.
pub fn is_hardware_decoder(name: &str) -> bool {
    ["cuda", "vaapi", "v4l2m2m", "v4l2request", "videotoolbox"].contains(&name)
}

impl TargetCodec {
    /// The codecs that sessions use only for clients that prefer them.
    pub const PREFERABLE: [Self; 2] = [Self::Hevc, Self::Av1];

    /// ffmpeg's name of the codec.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::H264 => "h264",
            Self::Hevc => "hevc",
            Self::Av1 => "av1",
        }
    }

    /// The codec with this name of ffmpeg's, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::H264, Self::Hevc, Self::Av1].into_iter().find(|codec| name.eq_ignore_ascii_case(codec.as_str()))
    }

    /// ffmpeg's muxer for a trial of an encoder: AV1 is tried in the transport stream by which runs hand it over.
    pub fn trial_muxer(self) -> &'static str {
        match self {
            Self::H264 | Self::Hevc => self.as_str(),
            Self::Av1 => "mpegts",
        }
    }

    /// Checks that an encoder's output contains it, as [`Self::trial_muxer`] writes it.
    pub fn check_output(self, output: &[u8]) -> Result<(), &'static str> {
        // A start code (ISO/IEC 14496-10 annex B, ITU-T H.265 annex B); a temporal delimiter and a sequence header in the
        // low-overhead format (AV1 specification section 5.3).
        let (expected, fault): (&[u8], _) = match self {
            Self::H264 => (&[0, 0, 1], "encoding a frame gave no H.264 output"),
            Self::Hevc => (&[0, 0, 1], "encoding a frame gave no HEVC output"),
            Self::Av1 => (&[0x12, 0, 0x0a], "encoding a frame gave no AV1 output in the low-overhead format"),
        };
        if output.windows(3).any(|bytes| bytes == expected) { Ok(()) } else { Err(fault) }
    }

    /// The bit rate that it needs for the same quality, percent of that of H.264.
    pub fn bit_rate_percent(self) -> u32 {
        match self {
            Self::H264 => 100,
            Self::Hevc | Self::Av1 => 70,
        }
    }

    /// Processor time of an encoded frame in relation to H.264, by the arguments of runs: measured with 50 frames of 1080p
    /// on two processors (1.26 s by x264, 3.45 s by x265, 2.92 s by SVT-AV1).
    pub fn relative_cost(self) -> f64 {
        match self {
            Self::H264 => 1.0,
            Self::Hevc => 2.7,
            Self::Av1 => 2.3,
        }
    }
}

/// The data from which a codec string is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct CodecInfo<'a> {
    /// Lower-case ffmpeg codec name.
    pub codec: &'a str,
    /// As in [`super::media::Stream::profile`].
    pub profile: Option<&'a str>,
    /// The codec's own number: 10 x level for H.264, 30 x level for HEVC, `seq_level_idx` for AV1.
    pub level: Option<u32>,
    pub bit_depth: u8,
    pub width: u32,
    pub height: u32,
    /// avcC, hvcC, av1C, vpcC, or parameter sets in Annex B form.
    pub config: &'a [u8],
}

/// The codec string for `MediaSource.isTypeSupported`; None if the registry has none.
pub fn codec_string(facts: &CodecInfo) -> Option<String> {
    Some(match facts.codec {
        "h264" => return avc_string(facts),
        "hevc" => return hevc_string(facts),
        "av1" => return av1_string(facts),
        "vp9" => vp9_string(facts),
        "mpeg4" => format!("mp4v.20.{}", facts.level.filter(|level| *level > 0).unwrap_or(9)),
        "h263" => "s263".into(),
        "aac" => format!("mp4a.40.{}", aac_object_type(facts.profile)),
        // ISO/IEC 14496-3 object type 34 is MPEG-1/2 layer 3.
        "mp3" => "mp4a.40.34".into(),
        "ac3" => "ac-3".into(),
        "eac3" => "ec-3".into(),
        "ac4" => "ac-4".into(),
        same @ ("vp8" | "theora" | "opus" | "vorbis" | "flac" | "alac") => same.into(),
        "dts" => "dtsc".into(),
        "truehd" => "mlpa".into(),
        "amr_nb" => "samr".into(),
        "amr_wb" => "sawb".into(),
        _ => return None,
    })
}

/// Level in its usual form (`5.1`), from the codec's own number.
pub fn format_level(codec: &str, number: i64) -> Option<String> {
    let number = u32::try_from(number).ok().filter(|number| *number > 0)?;
    let (major, minor) = match codec {
        "h264" if number == 9 => return Some("1b".into()),
        "h264" => (number / 10, number % 10),
        "hevc" => (number / 30, number % 30 / 3),
        // AV1 specification annex A.3: seq_level_idx = (major - 2) * 4 + minor.
        "av1" if number < 24 => (2 + number / 4, number % 4),
        _ => return None,
    };
    Some(if minor == 0 { format!("{major}") } else { format!("{major}.{minor}") })
}

/// Audio object type of ISO/IEC 14496-3.
fn aac_object_type(profile: Option<&str>) -> u8 {
    match profile {
        Some("main") => 1,
        Some("ssr") => 3,
        Some("ltp") => 4,
        Some("he-aac") => 5,
        Some("he-aacv2") => 29,
        Some("ld") => 23,
        Some("eld") => 39,
        Some("usac" | "xhe-aac") => 42,
        _ => 2,
    }
}

fn avc_string(facts: &CodecInfo) -> Option<String> {
    let from_sps = |sps: &[u8]| sps.get(..3).map(|b| format!("avc1.{:02X}{:02X}{:02X}", b[0], b[1], b[2]));
    if facts.config.first() == Some(&1) {
        return from_sps(facts.config.get(1..4)?);
    }
    if let Some(at) = facts.config.windows(4).position(|w| w[..3] == [0, 0, 1] && w[3] & 0x1f == 7) {
        return from_sps(facts.config.get(at + 4..at + 7)?);
    }
    let (profile, constraints) = match facts.profile? {
        "constrained-baseline" => (0x42, 0xe0),
        "baseline" => (0x42, 0),
        "main" => (0x4d, 0x40),
        "extended" => (0x58, 0),
        "high" => (0x64, 0),
        "high-10" => (0x6e, 0),
        "high-4:2:2" => (0x7a, 0),
        "high-4:4:4-predictive" => (0xf4, 0),
        _ => return None,
    };
    Some(format!("avc1.{profile:02X}{constraints:02X}{:02X}", facts.level?))
}

fn hevc_string(facts: &CodecInfo) -> Option<String> {
    // hvcC, ISO/IEC 14496-15 section 8.3.3.1: version, then 12 bytes of profile, tier and level.
    if facts.config.len() >= 23 && facts.config[0] == 1 {
        let c = facts.config;
        let space = ["", "A", "B", "C"][usize::from(c[1] >> 6)];
        let tier = if c[1] & 0x20 == 0 { 'L' } else { 'H' };
        let compatibility = u32::from_be_bytes([c[2], c[3], c[4], c[5]]).reverse_bits();
        let mut text = format!("hvc1.{space}{}.{compatibility:X}.{tier}{}", c[1] & 0x1f, c[12]);
        let constraints = &c[6..12];
        let used = constraints.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for byte in &constraints[..used] {
            text.push_str(&format!(".{byte:X}"));
        }
        return Some(text);
    }
    let profile = match facts.profile? {
        "main" => "1.6",
        "main-10" => "2.4",
        "main-still-picture" => "3.E",
        "rext" => "4.10",
        _ => return None,
    };
    Some(format!("hvc1.{profile}.L{}.B0", facts.level?))
}

fn av1_string(facts: &CodecInfo) -> Option<String> {
    // av1C: marker and version, profile and level, tier and depth.
    if let [0x81, a, b, ..] = *facts.config {
        let depth = match (b & 0x40, b & 0x20) {
            (0, _) => 8,
            (_, 0) => 10,
            _ => 12,
        };
        let tier = if b & 0x80 == 0 { 'M' } else { 'H' };
        return Some(format!("av01.{}.{:02}{tier}.{depth:02}", a >> 5, a & 0x1f));
    }
    let profile = match facts.profile? {
        "main" => 0,
        "high" => 1,
        "professional" => 2,
        _ => return None,
    };
    Some(format!("av01.{profile}.{:02}M.{:02}", facts.level?, facts.bit_depth))
}

fn vp9_string(facts: &CodecInfo) -> String {
    // vpcC is a full box: version and flags, profile, level, depth in the upper half of the next byte.
    if let [1, 0, 0, 0, profile, level, depth, ..] = *facts.config {
        return format!("vp09.{profile:02}.{level:02}.{:02}", depth >> 4);
    }
    let profile = facts.profile.and_then(|text| text.rsplit('-').next()?.parse::<u8>().ok()).unwrap_or(0);
    // Largest frame of each level, from the VP9 levels table. The level is a hint; browsers decode by size.
    const MAX_PIXELS: [(u64, u8); 8] = [
        (36_864, 10),
        (73_728, 11),
        (122_880, 20),
        (245_760, 21),
        (552_960, 30),
        (983_040, 31),
        (2_228_224, 41),
        (8_912_896, 51),
    ];
    let pixels = u64::from(facts.width) * u64::from(facts.height);
    let level = MAX_PIXELS.iter().find(|(most, _)| pixels <= *most).map_or(61, |(_, level)| *level);
    format!("vp09.{profile:02}.{level}.{:02}", facts.bit_depth.max(8))
}

impl TargetCodec {
    /// The lowest level from 3.0 that allows frames of this size at this rate, as the codec numbers it ([`CodecInfo::level`]);
    /// the highest of the table if none does.
    pub fn level(self, width: u32, height: u32, rate: FrameRate) -> u8 {
        // Number of the level, most luma samples in a frame and per second: ITU-T H.265 tables A.8 and A.9; AV1 specification
        // annex A.3, where the rate is that of shown frames.
        const HEVC: [(u8, u64, u64); 8] = [
            (90, 552_960, 16_588_800),
            (93, 983_040, 33_177_600),
            (120, 2_228_224, 66_846_720),
            (123, 2_228_224, 133_693_440),
            (150, 8_912_896, 267_386_880),
            (153, 8_912_896, 534_773_760),
            (156, 8_912_896, 1_069_547_520),
            (180, 35_651_584, 1_069_547_520),
        ];
        const AV1: [(u8, u64, u64); 8] = [
            (4, 665_856, 19_975_680),
            (5, 1_065_024, 31_950_720),
            (8, 2_359_296, 70_778_880),
            (9, 2_359_296, 141_557_760),
            (12, 8_912_896, 267_386_880),
            (13, 8_912_896, 534_773_760),
            (14, 8_912_896, 1_069_547_520),
            (16, 35_651_584, 1_069_547_520),
        ];
        let levels = match self {
            Self::H264 => return avc_level(width, height, rate),
            Self::Hevc => HEVC,
            Self::Av1 => AV1,
        };
        let samples = u64::from(width) * u64::from(height);
        let samples_per_second = (samples as f64 * rate.as_f64()).ceil() as u64;
        let is_within = |(_, frame, second): &&(u8, u64, u64)| samples <= *frame && samples_per_second <= *second;
        levels.iter().find(is_within).unwrap_or(&levels[7]).0
    }

    /// The codec string of video that an encoder makes in this size, in fMP4 if there is a choice. `known` is that of other
    /// video, which counts if it has this codec.
    pub fn string_of_encode(self, known: Option<&str>, (width, height): (u32, u32), rate: FrameRate) -> String {
        let level = self.level(width, height, rate);
        let known = known.filter(|known| known.starts_with(if self == Self::H264 { "avc" } else { "hvc" }));
        match self {
            // High profile; the samples contain the parameter sets.
            Self::H264 => format!("{}{level:02x}", known.and_then(|known| known.get(..9)).unwrap_or("avc3.6400")),
            Self::Hevc => {
                // Main profile; the constraints say that the source is progressive.
                let known = known.unwrap_or("hvc1.1.6.L90.90");
                let fields = known.split('.').enumerate();
                let fields = fields.map(|(n, field)| if n == 3 { format!("L{level}") } else { field.to_owned() });
                fields.collect::<Vec<_>>().join(".")
            }
            Self::Av1 => format!("av01.0.{level:02}M.08"),
        }
    }
}

/// The lowest H.264 level from 3.0 that allows pictures of this size at this rate, as 10 x level (ISO/IEC 14496-10 table
/// A-1); 5.2 if none does.
pub fn avc_level(width: u32, height: u32, rate: FrameRate) -> u8 {
    // Level, maximum macroblocks per picture and per second.
    const LEVELS: [(u8, u64, u64); 8] = [
        (30, 1_620, 40_500),
        (31, 3_600, 108_000),
        (32, 5_120, 216_000),
        (40, 8_192, 245_760),
        (42, 8_704, 522_240),
        (50, 22_080, 589_824),
        (51, 36_864, 983_040),
        (52, 36_864, 2_073_600),
    ];
    let blocks = u64::from(width.div_ceil(16)) * u64::from(height.div_ceil(16));
    let blocks_per_second = (blocks as f64 * rate.as_f64()).ceil() as u64;
    let is_within = |(_, picture, second): &&(u8, u64, u64)| blocks <= *picture && blocks_per_second <= *second;
    LEVELS.iter().find(is_within).map_or(52, |(level, ..)| *level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_from_configuration_records_first() {
        let avc = CodecInfo { codec: "h264", config: &[1, 0x64, 0, 0x1f, 0xff], ..CodecInfo::default() };
        assert_eq!(codec_string(&avc).as_deref(), Some("avc1.64001F"));
        let annex_b =
            CodecInfo { codec: "h264", config: &[0, 0, 0, 1, 0x67, 0x4d, 0x40, 0x28, 0x9a], ..CodecInfo::default() };
        assert_eq!(codec_string(&annex_b).as_deref(), Some("avc1.4D4028"));
        let mut hvcc = [0u8; 23];
        hvcc[..13].copy_from_slice(&[1, 2, 0x20, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 153]);
        let hevc = CodecInfo { codec: "hevc", config: &hvcc, ..CodecInfo::default() };
        assert_eq!(codec_string(&hevc).as_deref(), Some("hvc1.2.4.L153.90"));
        let av1 = CodecInfo { codec: "av1", config: &[0x81, 0x04, 0x4c, 0], ..CodecInfo::default() };
        assert_eq!(codec_string(&av1).as_deref(), Some("av01.0.04M.10"));
    }

    #[test]
    fn strings_without_a_record_come_from_profile_and_level() {
        let frame = CodecInfo { bit_depth: 8, width: 1280, height: 720, ..CodecInfo::default() };
        let facts = |codec, profile, level| CodecInfo { codec, profile: Some(profile), level: Some(level), ..frame };
        assert_eq!(codec_string(&facts("h264", "constrained-baseline", 31)).as_deref(), Some("avc1.42E01F"));
        assert_eq!(codec_string(&facts("hevc", "main-10", 120)).as_deref(), Some("hvc1.2.4.L120.B0"));
        assert_eq!(codec_string(&facts("vp9", "profile-0", 0)).as_deref(), Some("vp09.00.31.08"));
        assert_eq!(codec_string(&facts("aac", "he-aac", 0)).as_deref(), Some("mp4a.40.5"));
        assert_eq!(codec_string(&facts("mpeg2video", "main", 0)), None);
    }

    #[test]
    fn levels_are_written_as_people_write_them() {
        assert_eq!(format_level("h264", 31).as_deref(), Some("3.1"));
        assert_eq!(format_level("h264", 40).as_deref(), Some("4"));
        assert_eq!(format_level("hevc", 153).as_deref(), Some("5.1"));
        assert_eq!(format_level("av1", 8).as_deref(), Some("4"));
        assert_eq!(format_level("vp9", -99), None);
    }

    #[test]
    fn a_level_allows_its_frame_size_and_rate() {
        let at = |width, height, num| avc_level(width, height, FrameRate { num, den: 1 });
        let levels = [at(426, 240, 25), at(1280, 720, 30), at(1280, 720, 60), at(1920, 1080, 30), at(3840, 2160, 60)];
        assert_eq!(levels, [30, 31, 32, 40, 52]);
        for (codec, expected) in [(TargetCodec::Hevc, [90, 93, 120, 120, 153]), (TargetCodec::Av1, [4, 5, 8, 8, 13])] {
            let at = |width, height, num| codec.level(width, height, FrameRate { num, den: 1 });
            let levels =
                [at(426, 240, 25), at(1280, 720, 30), at(1280, 720, 60), at(1920, 1080, 30), at(3840, 2160, 60)];
            assert_eq!(levels, expected, "{codec:?}");
            assert_eq!(at(16_384, 16_384, 60), if codec == TargetCodec::Hevc { 180 } else { 16 });
        }
    }

    #[test]
    fn a_smaller_encode_has_the_string_of_a_larger_one_with_its_own_level() {
        let string =
            |codec: TargetCodec, known| codec.string_of_encode(known, (640, 360), FrameRate { num: 25, den: 1 });
        assert_eq!(string(TargetCodec::H264, None), "avc3.64001e");
        assert_eq!(string(TargetCodec::H264, Some("avc1.4D4028")), "avc1.4D401e");
        assert_eq!(string(TargetCodec::H264, Some("hvc1.1.6.L120.B0")), "avc3.64001e", "another codec");
        assert_eq!(string(TargetCodec::Hevc, None), "hvc1.1.6.L90.90");
        assert_eq!(string(TargetCodec::Hevc, Some("hvc1.1.6.L120.B0")), "hvc1.1.6.L90.B0");
        assert_eq!(string(TargetCodec::Av1, Some("av01.0.08M.08")), "av01.0.04M.08");
    }
}
