//! The play decision: one pure function over probe, device and wish, with its reasons.

use serde::{Deserialize, Serialize};

use super::media::Media;
use super::plan::Burn;

/// What a device can play directly (contract section 5). The default is a desktop browser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceProfile {
    /// `mp4`, `webm`, `mkv`, `ts` … (audio files by their own names: `mp3`, `flac`, `ogg`, `wav`, `adts`).
    pub containers: Vec<String>,
    pub video: Vec<VideoSupport>,
    pub audio: Vec<AudioSupport>,
    pub subtitles: Vec<String>,
    pub max_bitrate_kbps: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VideoSupport {
    pub codec: String,
    #[serde(default)]
    pub max_width: Option<u32>,
    #[serde(default)]
    pub max_height: Option<u32>,
    #[serde(default)]
    pub max_fps: Option<f64>,
    /// Empty = 8 bit only.
    #[serde(default)]
    pub bit_depths: Vec<u8>,
    /// Lower-case profile names; empty = any.
    #[serde(default)]
    pub profiles: Vec<String>,
    /// `sdr`, `hdr10`, `hlg`, `dolby-vision`; empty = SDR only.
    #[serde(default)]
    pub hdr: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AudioSupport {
    pub codec: String,
    #[serde(default)]
    pub max_channels: Option<u32>,
}

impl Default for DeviceProfile {
    /// The web baseline of contract section 5.
    fn default() -> Self {
        let video = |codec: &str, profiles: &[&str]| VideoSupport {
            codec: codec.into(),
            max_width: None,
            max_height: None,
            max_fps: None,
            bit_depths: vec![8],
            profiles: profiles.iter().map(|&name| name.into()).collect(),
            hdr: vec!["sdr".into()],
        };
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        Self {
            containers: names(&["mp4", "webm", "mp3", "flac", "ogg", "wav", "adts"]),
            video: vec![
                video("h264", &["constrained-baseline", "baseline", "main", "high"]),
                video("vp8", &[]),
                video("vp9", &[]),
                video("av1", &[]),
            ],
            audio: ["aac", "mp3", "opus", "vorbis", "flac", "pcm_s16le"]
                .map(|codec| AudioSupport { codec: codec.into(), max_channels: Some(6) })
                .into(),
            subtitles: names(&["vtt"]),
            max_bitrate_kbps: None,
        }
    }
}

/// Size labels of the contract, largest first, with their rung's ceiling in kbit/s.
pub const RUNGS: [(&str, u32, u32); 7] = [
    ("2160p", 2160, 16_000),
    ("1440p", 1440, 9_000),
    ("1080p", 1080, 5_000),
    ("720p", 720, 2_800),
    ("480p", 480, 1_400),
    ("360p", 360, 800),
    ("240p", 240, 400),
];

/// What the viewer asked for, already validated against the probe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wish {
    /// None = default track, then first (one the device can play is preferred).
    pub audio_stream: Option<u32>,
    pub subtitle: SubtitleWish,
    /// Longest height in lines; None = original.
    pub max_height: Option<u32>,
    pub max_bitrate_kbps: Option<u32>,
    pub max_audio_channels: Option<u32>,
    pub force_transcode: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum SubtitleWish {
    #[default]
    None,
    /// A text stream as a WebVTT rendition.
    Text {
        stream: u32,
    },
    /// A text sidecar as a WebVTT rendition.
    TextSidecar {
        path: String,
    },
    Burn(Burn),
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Serve the bytes.
    Direct,
    /// Make segments.
    Session(Tracks),
    /// Nothing here can be played.
    Refuse,
}

/// What a session does with each stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracks {
    pub video: Option<(u32, Action)>,
    pub audio: Option<(u32, Action)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Copy,
    Encode,
}

/// Why a file is not played directly; the contract's words on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    ContainerNotSupported,
    VideoCodecNotSupported,
    VideoProfileNotSupported,
    VideoLevelNotSupported,
    VideoBitDepthNotSupported,
    VideoRangeNotSupported,
    VideoResolutionNotSupported,
    VideoFramerateNotSupported,
    InterlacedNotSupported,
    AnamorphicNotSupported,
    AudioCodecNotSupported,
    AudioChannelsNotSupported,
    BitrateExceedsLimit,
    SubtitleCodecNotSupported,
    SecondaryAudioSelected,
    StartForced,
    NoDecodableStream,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ContainerNotSupported => "CONTAINER_NOT_SUPPORTED",
            Self::VideoCodecNotSupported => "VIDEO_CODEC_NOT_SUPPORTED",
            Self::VideoProfileNotSupported => "VIDEO_PROFILE_NOT_SUPPORTED",
            Self::VideoLevelNotSupported => "VIDEO_LEVEL_NOT_SUPPORTED",
            Self::VideoBitDepthNotSupported => "VIDEO_BIT_DEPTH_NOT_SUPPORTED",
            Self::VideoRangeNotSupported => "VIDEO_RANGE_NOT_SUPPORTED",
            Self::VideoResolutionNotSupported => "VIDEO_RESOLUTION_NOT_SUPPORTED",
            Self::VideoFramerateNotSupported => "VIDEO_FRAMERATE_NOT_SUPPORTED",
            Self::InterlacedNotSupported => "INTERLACED_NOT_SUPPORTED",
            Self::AnamorphicNotSupported => "ANAMORPHIC_NOT_SUPPORTED",
            Self::AudioCodecNotSupported => "AUDIO_CODEC_NOT_SUPPORTED",
            Self::AudioChannelsNotSupported => "AUDIO_CHANNELS_NOT_SUPPORTED",
            Self::BitrateExceedsLimit => "BITRATE_EXCEEDS_LIMIT",
            Self::SubtitleCodecNotSupported => "SUBTITLE_CODEC_NOT_SUPPORTED",
            Self::SecondaryAudioSelected => "SECONDARY_AUDIO_SELECTED",
            Self::StartForced => "START_FORCED",
            Self::NoDecodableStream => "NO_DECODABLE_STREAM",
        }
    }
}

/// Chooses direct, copy, encode or refusal, and says why.
pub fn decide(media: &Media, _device: &DeviceProfile, wish: &Wish) -> (Decision, Vec<Reason>) {
    let video = media.videos().find(|(stream, _)| stream.decodable).map(|(stream, _)| (stream.index, Action::Encode));
    let audio = media
        .audios()
        .find(|(stream, _)| stream.decodable && wish.audio_stream.is_none_or(|index| index == stream.index))
        .map(|(stream, _)| (stream.index, Action::Encode));
    if video.is_none() && audio.is_none() {
        return (Decision::Refuse, vec![Reason::NoDecodableStream]);
    }
    (Decision::Session(Tracks { video, audio }), vec![Reason::StartForced])
}
