//! Capabilities that a page probed with `MediaSource.isTypeSupported` and sent.

use serde::Deserialize;

use super::{AudioRenditions, ClientCapabilities, FormatCapabilities, STEREO};
use crate::domain::codec::TargetCodec;
use crate::domain::playback::device::{AudioSupport, VideoSupport, owned_names, video_support};
use crate::domain::segment_format::SegmentFormat;

/// Most codec strings that are read, and the longest one, bytes. A page probes some twenty.
const MAX_CODECS: usize = 64;
const MAX_CODEC_BYTES: usize = 64;

/// Channels that every browser decodes; it mixes them down for fewer speakers.
const DEFAULT_CHANNELS: u32 = 6;

/// The result of a page's probe, as JSON. Everything may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbedCapabilities {
    /// RFC 6381 codec strings that are supported in `video/mp4` or `audio/mp4`, each probed alone. Unknown ones are ignored.
    pub codecs: Vec<String>,
    /// The codecs in which encoded video is preferred, the best first: `hevc`, `av1` or `h264`. Unknown ones are ignored.
    pub encode: Vec<String>,
    /// `hdr10`, `hlg`, `dolby-vision`: what the screen shows in its range (`dynamic-range: high`).
    pub hdr: Vec<String>,
    /// Pixels of the largest video worth sending.
    pub max_width: Option<u32>,
    pub max_height: Option<u32>,
    pub max_audio_channels: Option<u32>,
    /// Channels of the audio output.
    pub aac_channels: Option<u32>,
    /// The page offers a choice of languages within a session.
    pub audio_renditions: bool,
    /// The page shows WebVTT renditions.
    pub text_renditions: bool,
    /// The page shows pictures of an I-frame playlist while the viewer seeks.
    pub iframe_playlists: bool,
}

impl ProbedCapabilities {
    /// fMP4 with these codecs, and MPEG-TS with those of them that a page's script takes from it.
    pub fn to_capabilities(&self) -> ClientCapabilities {
        let channels = self.max_audio_channels.unwrap_or(DEFAULT_CHANNELS);
        let (mut video, mut audio) = (Vec::new(), Vec::new());
        for text in self.codecs.iter().filter(|text| text.len() <= MAX_CODEC_BYTES).take(MAX_CODECS) {
            match parse_codec(text) {
                Some(ProbedCodec::Video(support)) => video.push(self.limit_video(support)),
                Some(ProbedCodec::Audio(codec)) if audio.iter().all(|it: &AudioSupport| it.codec != codec) => {
                    audio.push(AudioSupport { codec: codec.to_owned(), max_channels: Some(channels) });
                }
                Some(ProbedCodec::Audio(_)) | None => {}
            }
        }
        // hls.js plays MP3 in MPEG-TS everywhere, but refuses each of its codec strings in fMP4.
        let aac = audio.iter().find(|support| support.codec == "aac").cloned();
        let mpegts_audio =
            aac.into_iter().chain([AudioSupport { codec: "mp3".to_owned(), max_channels: Some(2) }]).collect();
        let mpegts = FormatCapabilities {
            format: SegmentFormat::MpegTs,
            video: video.iter().filter(|support| support.codec == "h264").cloned().collect(),
            audio: mpegts_audio,
            audio_renditions: AudioRenditions::Muxed,
            has_aac_group: false,
            has_text_renditions: self.text_renditions,
            allows_init_changes: false,
            knows_avc3: true,
            has_iframe_playlists: false,
        };
        let audio_renditions = if self.audio_renditions { AudioRenditions::Several } else { AudioRenditions::Single };
        let fmp4 = FormatCapabilities {
            format: SegmentFormat::Fmp4,
            video,
            audio,
            audio_renditions,
            has_text_renditions: self.text_renditions,
            allows_init_changes: true,
            has_aac_group: false,
            has_iframe_playlists: self.iframe_playlists,
            knows_avc3: true,
        };
        let aac_channels = self.aac_channels.unwrap_or(STEREO).min(channels);
        ClientCapabilities { formats: vec![fmp4, mpegts], aac_channels, preferred_encoders: self.preferred_encoders() }
    }

    /// The codecs that are preferred to H.264, each once.
    fn preferred_encoders(&self) -> Vec<TargetCodec> {
        let named = self.encode.iter().take(MAX_CODECS).filter_map(|name| TargetCodec::parse(name));
        let mut codecs = Vec::new();
        for codec in named.take_while(|codec| *codec != TargetCodec::H264) {
            if !codecs.contains(&codec) {
                codecs.push(codec);
            }
        }
        codecs
    }

    fn limit_video(&self, support: VideoSupport) -> VideoSupport {
        let mut hdr = support.hdr;
        if support.bit_depths.contains(&10) {
            hdr.extend(self.hdr.iter().filter(|range| matches!(range.as_str(), "hdr10" | "hlg")).cloned());
        }
        VideoSupport { hdr, max_width: self.max_width, max_height: self.max_height, ..support }
    }
}

/// A codec string's meaning.
#[derive(Debug, PartialEq)]
enum ProbedCodec {
    Video(VideoSupport),
    Audio(&'static str),
}

/// Reads an RFC 6381 codec string. A decoder of a profile and level also decodes those that they include.
fn parse_codec(text: &str) -> Option<ProbedCodec> {
    let (kind, parameters) = text.split_once('.').unwrap_or((text, ""));
    let fields: Vec<&str> = parameters.split('.').collect();
    Some(match kind {
        "avc1" | "avc3" => ProbedCodec::Video(parse_avc(fields[0])?),
        "hvc1" | "hev1" => ProbedCodec::Video(parse_hevc(&fields)?),
        // Video in other profiles counts by its base layer.
        "dvh1" | "dvhe" if fields[0] == "05" => ProbedCodec::Video(VideoSupport {
            max_level: None,
            hdr: owned_names(&["dolby-vision"]),
            ..ten_bits(video_support("hevc", &["main-10"], 0.0))
        }),
        "av01" => ProbedCodec::Video(parse_av1(&fields)?),
        "vp09" => ProbedCodec::Video(parse_vp9(&fields)?),
        "mp4a" if matches!(parameters, "40.2" | "40.5" | "40.29") => ProbedCodec::Audio("aac"),
        "opus" | "Opus" => ProbedCodec::Audio("opus"),
        "flac" | "fLaC" => ProbedCodec::Audio("flac"),
        "alac" => ProbedCodec::Audio("alac"),
        "ac-3" => ProbedCodec::Audio("ac3"),
        "ec-3" => ProbedCodec::Audio("eac3"),
        "dtsc" => ProbedCodec::Audio("dts"),
        _ => return None,
    })
}

/// `avc1.PPCCLL`: profile, constraints, and ten times the level (RFC 6381 section 3.3).
fn parse_avc(parameters: &str) -> Option<VideoSupport> {
    let number = u32::from_str_radix(parameters, 16).ok().filter(|_| parameters.len() == 6)?;
    let level = f64::from(number & 0xff) / 10.0;
    Some(match number >> 16 {
        0x42 => video_support("h264", &["constrained-baseline", "baseline"], level),
        0x4d => video_support("h264", &["constrained-baseline", "main"], level),
        0x64 => video_support("h264", &["constrained-baseline", "baseline", "main", "high"], level),
        0x6e => ten_bits(video_support("h264", &["high-10"], level)),
        _ => return None,
    })
}

/// `hvc1.P.C.TL.constraints` (ISO/IEC 14496-15 annex E): the level is a thirtieth of the number.
fn parse_hevc(fields: &[&str]) -> Option<VideoSupport> {
    let [profile, _, tier_and_level, ..] = fields else { return None };
    let number: u32 = tier_and_level.strip_prefix(['L', 'H'])?.parse().ok()?;
    let level = f64::from(number) / 30.0;
    match *profile {
        "1" => Some(video_support("hevc", &["main"], level)),
        "2" => Some(ten_bits(video_support("hevc", &["main", "main-10"], level))),
        _ => None,
    }
}

/// `av01.P.LLT.DD` (AV1-ISOBMFF section 5): `seq_level_idx` has two bits of minor level.
fn parse_av1(fields: &[&str]) -> Option<VideoSupport> {
    let [profile, level_and_tier, depth, ..] = fields else { return None };
    let index: u8 = level_and_tier.strip_suffix(['M', 'H'])?.parse().ok().filter(|index| *index < 24)?;
    let level = f64::from(20 + index / 4 * 10 + index % 4) / 10.0;
    let support = video_support("av1", &["main"], level);
    match (*profile, *depth) {
        ("0", "08") => Some(support),
        ("0", "10") => Some(ten_bits(support)),
        _ => None,
    }
}

/// `vp09.PP.LL.DD`. Probed files state no level of VP9.
fn parse_vp9(fields: &[&str]) -> Option<VideoSupport> {
    match fields {
        ["00", _, "08", ..] => Some(video_support("vp9", &["profile-0"], 9.9)),
        ["02", _, "10", ..] => Some(ten_bits(video_support("vp9", &["profile-2"], 9.9))),
        _ => None,
    }
}

fn ten_bits(support: VideoSupport) -> VideoSupport {
    VideoSupport { bit_depths: vec![8, 10], ..support }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::FrameRate;
    use proptest::prelude::*;

    /// Codec, profiles, highest bit depth and highest level; or the audio codec.
    fn read(text: &str) -> String {
        match parse_codec(text) {
            Some(ProbedCodec::Video(video)) => {
                let level = video.max_level.map_or("any".into(), |level| level.to_string());
                let depth = video.bit_depths.iter().max().unwrap();
                format!("{} {} {depth} {level}", video.codec, video.profiles.join("+"))
            }
            Some(ProbedCodec::Audio(codec)) => codec.into(),
            None => "-".into(),
        }
    }

    #[test]
    fn codec_strings_are_read() {
        for (text, expected) in [
            ("avc1.42E01E", "h264 constrained-baseline+baseline 8 3"),
            ("avc1.4D4028", "h264 constrained-baseline+main 8 4"),
            ("avc3.640033", "h264 constrained-baseline+baseline+main+high 8 5.1"),
            ("avc1.6E0033", "h264 high-10 10 5.1"),
            ("avc1.64003", "-"),
            ("avc1", "-"),
            ("hvc1.1.6.L93.B0", "hevc main 8 3.1"),
            ("hev1.2.4.H153.B0", "hevc main+main-10 10 5.1"),
            ("hvc1.2.4", "-"),
            ("hvc1.4.10.L120.B0", "-"),
            ("dvh1.05.06", "hevc main-10 10 any"),
            ("dvh1.08.06", "-"),
            ("av01.0.08M.08", "av1 main 8 4"),
            ("av01.0.13M.10", "av1 main 10 5.1"),
            ("av01.1.08M.08", "-"),
            ("vp09.00.51.08", "vp9 profile-0 8 9.9"),
            ("vp09.02.51.10.01.09.16.09.00", "vp9 profile-2 10 9.9"),
            ("mp4a.40.2", "aac"),
            ("mp4a.6B", "-"),
            ("mp4a.40.42", "-"),
            ("opus", "opus"),
            ("fLaC", "flac"),
            ("ec-3", "eac3"),
            ("", "-"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_probe_becomes_capabilities() {
        let json = r#"{ "codecs": ["avc1.640033", "hvc1.2.4.L153.B0", "mp4a.40.2", "mp4a.40.5", "opus", "ec-3", "x"],
            "hdr": ["hdr10", "wide"], "maxHeight": 2160, "maxAudioChannels": 8, "audioRenditions": true, "unknown": 1 }"#;
        let probed: ProbedCapabilities = serde_json::from_str(json).unwrap();
        let ClientCapabilities { formats, aac_channels, preferred_encoders } = probed.to_capabilities();
        assert_eq!(aac_channels, 2, "the page says nothing about speakers");
        assert_eq!(preferred_encoders, []);
        let [fmp4, mpegts] = &formats[..] else { panic!() };
        let audio: Vec<_> = fmp4.audio.iter().map(|support| (&*support.codec, support.max_channels.unwrap())).collect();
        assert_eq!(audio, [("aac", 8), ("opus", 8), ("eac3", 8)]);
        assert_eq!((fmp4.audio_renditions, fmp4.has_text_renditions), (AudioRenditions::Several, false));
        assert_eq!(
            (&fmp4.video[0].hdr[..], &fmp4.video[1].hdr[..]),
            (&["sdr".into()][..], &["sdr".into(), "hdr10".into()][..])
        );
        assert!(fmp4.video.iter().all(|support| support.max_height == Some(2160)));
        assert_eq!((mpegts.video.len(), mpegts.audio.len(), mpegts.format), (1, 2, SegmentFormat::MpegTs));
        let nothing = serde_json::from_str::<ProbedCapabilities>("{}").unwrap().to_capabilities();
        assert!(nothing.formats.iter().all(|format| format.video.is_empty()));
    }

    #[test]
    fn encoded_audio_has_the_channels_that_are_decoded_and_played() {
        let channels = |aac_channels, max_audio_channels| {
            let probed = ProbedCapabilities { aac_channels, max_audio_channels, ..ProbedCapabilities::default() };
            probed.to_capabilities().aac_channels
        };
        assert_eq!((channels(None, Some(8)), channels(Some(2), Some(8))), (2, 2));
        assert_eq!((channels(Some(6), None), channels(Some(8), Some(8)), channels(Some(8), Some(2))), (6, 8, 2));
    }

    #[test]
    fn encodes_are_preferred_in_codecs_that_are_decoded_at_their_size() {
        let preferred = |codecs: &[&str], encode: &[&str], lines: u32| {
            let (codecs, encode) = (owned_names(codecs), owned_names(encode));
            let probed = ProbedCapabilities { codecs, encode, ..ProbedCapabilities::default() };
            let client = probed.to_capabilities();
            let size = (lines * 16 / 9, lines);
            let names = client.encoders_for(size, FrameRate { num: 25, den: 1 }).map(TargetCodec::as_str);
            names.collect::<Vec<_>>().join(" ")
        };
        let decoded = ["avc1.640033", "hvc1.1.6.L123.B0", "av01.0.13M.10"];
        assert_eq!(preferred(&decoded, &["AV1", "vp9", "hevc", "av1"], 1080), "av1 hevc");
        assert_eq!(preferred(&decoded, &["hevc", "av1"], 2160), "av1", "HEVC up to level 4.1");
        assert_eq!(preferred(&decoded, &["hevc", "h264", "av1"], 720), "hevc", "AV1 is worse than H.264");
        assert_eq!(preferred(&decoded, &["h264", "hevc"], 720), "");
        assert_eq!(preferred(&decoded, &[], 720), "");
        assert_eq!(preferred(&decoded[..1], &["hevc", "av1"], 720), "");
    }

    proptest! {
        #[test]
        fn any_codec_string_is_read_without_panic(
            texts in proptest::collection::vec("((avc1|hvc1|av01|vp09|mp4a)\\.)?[0-9A-FLMH.é]{0,20}|\\PC{0,70}", 0..8),
        ) {
            let probed = ProbedCapabilities { codecs: texts, ..ProbedCapabilities::default() };
            let ClientCapabilities { formats, .. } = probed.to_capabilities();
            prop_assert!(formats[0].video.len() + formats[0].audio.len() <= MAX_CODECS);
        }
    }
}
