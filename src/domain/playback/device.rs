//! Device profiles: the formats a device plays, and the reasons why it cannot play a stream.

use serde::{Deserialize, Serialize};

use super::Reason;
use crate::domain::media::{Audio, Container, Hdr, Media, Stream, Video};

/// The formats a device plays directly: the `device` object of a playback request. The default is a desktop browser.
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
    /// `5.1` and the like; None = any.
    #[serde(default)]
    pub max_level: Option<f64>,
    /// Shows interlaced video as it is.
    #[serde(default)]
    pub interlaced: bool,
    /// Cannot show pixels that are not square.
    #[serde(default)]
    pub square_pixels_only: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AudioSupport {
    pub codec: String,
    #[serde(default)]
    pub max_channels: Option<u32>,
}

impl Default for DeviceProfile {
    /// The web baseline: what every current desktop browser plays.
    fn default() -> Self {
        let video = |codec: &str, profiles: &[&str], max_level: Option<f64>| VideoSupport {
            codec: codec.into(),
            max_width: None,
            max_height: None,
            max_fps: None,
            bit_depths: vec![8],
            profiles: profiles.iter().map(|&name| name.into()).collect(),
            hdr: vec!["sdr".into()],
            max_level,
            interlaced: false,
            square_pixels_only: false,
        };
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        Self {
            containers: names(&["mp4", "webm", "mp3", "flac", "ogg", "wav", "adts"]),
            video: vec![
                // Phones write level 5.2 for 4K at 60 frames/s and for much less; every browser plays it.
                video("h264", &["constrained-baseline", "baseline", "main", "high"], Some(5.2)),
                video("vp8", &[], None),
                video("vp9", &[], None),
                video("av1", &[], None),
            ],
            audio: ["aac", "mp3", "opus", "vorbis", "flac", "pcm_s16le"]
                .map(|codec| AudioSupport { codec: codec.into(), max_channels: Some(6) })
                .into(),
            subtitles: names(&["vtt"]),
            max_bitrate_kbps: None,
        }
    }
}

/// Why a device does not play this video. Of several entries for the codec the one with the fewest reasons counts.
pub(super) fn video_reasons(stream: &Stream, video: &Video, device: &DeviceProfile) -> Vec<Reason> {
    device
        .video
        .iter()
        .filter(|support| support.codec.eq_ignore_ascii_case(&stream.codec))
        .map(|support| entry_reasons(stream, video, support))
        .min_by_key(Vec::len)
        .unwrap_or_else(|| vec![Reason::VideoCodecNotSupported])
}

fn entry_reasons(stream: &Stream, video: &Video, support: &VideoSupport) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let named = |profile: &str| support.profiles.iter().any(|name| profile_name(name) == profile);
    let profile = stream.profile.as_deref();
    let profile_fits = match profile {
        Some(profile) if !support.profiles.is_empty() => named(profile),
        // Without a list of profiles the codec's usual form is assumed.
        _ => video.chroma == "4:2:0",
    };
    if !profile_fits || video.chroma.is_empty() {
        reasons.push(Reason::VideoProfileNotSupported);
    }
    let level = stream.level.as_deref().and_then(|level| level.parse::<f64>().ok());
    if matches!((support.max_level, level), (Some(most), Some(level)) if level > most) {
        reasons.push(Reason::VideoLevelNotSupported);
    }
    let depth_fits = match support.bit_depths.as_slice() {
        [] => video.bit_depth == 8,
        depths => depths.contains(&video.bit_depth),
    };
    if !depth_fits {
        reasons.push(Reason::VideoBitDepthNotSupported);
    }
    let range = match video.hdr {
        None => "sdr",
        Some(Hdr::Hdr10) => "hdr10",
        Some(Hdr::Hlg) => "hlg",
        Some(Hdr::DolbyVision) => "dolby-vision",
    };
    let shows = |range: &str| support.hdr.iter().any(|name| profile_name(name) == range);
    let range_fits = if support.hdr.is_empty() { video.hdr.is_none() } else { range == "sdr" || shows(range) };
    if !range_fits {
        reasons.push(Reason::VideoRangeNotSupported);
    }
    if !size_fits(video, support) {
        reasons.push(Reason::VideoResolutionNotSupported);
    }
    // Half a percent of tolerance: a limit of 60 also covers a clip that averages 60.02.
    if matches!((support.max_fps, video.frame_rate), (Some(most), Some(rate)) if rate.as_f64() > most * 1.005) {
        reasons.push(Reason::VideoFramerateNotSupported);
    }
    if video.interlaced && !support.interlaced {
        reasons.push(Reason::InterlacedNotSupported);
    }
    if support.square_pixels_only && video.sample_aspect.0 != video.sample_aspect.1 {
        reasons.push(Reason::AnamorphicNotSupported);
    }
    reasons
}

/// A decoder's limit applies in either orientation: 1080 x 1920 fits where 1920 x 1080 does.
fn size_fits(video: &Video, support: &VideoSupport) -> bool {
    let fits = |width: u32, height: u32| {
        support.max_width.is_none_or(|most| width <= most) && support.max_height.is_none_or(|most| height <= most)
    };
    let both = support.max_width.is_some() && support.max_height.is_some();
    fits(video.width, video.height) || (both && fits(video.height, video.width))
}

pub(super) fn audio_reason(stream: &Stream, audio: &Audio, device: &DeviceProfile) -> Option<Reason> {
    let mut entries =
        device.audio.iter().filter(|support| support.codec.eq_ignore_ascii_case(&stream.codec)).peekable();
    // A track whose description is broken (no channels) is playable nowhere.
    if entries.peek().is_none() || audio.channels == 0 {
        return Some(Reason::AudioCodecNotSupported);
    }
    let fits = entries.any(|support| support.max_channels.is_none_or(|most| audio.channels <= most));
    (!fits).then_some(Reason::AudioChannelsNotSupported)
}

pub(super) fn knows_video(device: &DeviceProfile, codec: &str) -> bool {
    device.video.iter().any(|support| support.codec.eq_ignore_ascii_case(codec))
}

pub(super) fn knows_audio(device: &DeviceProfile, codec: &str) -> bool {
    device.audio.iter().any(|support| support.codec.eq_ignore_ascii_case(codec))
}

pub(super) fn takes_webvtt(device: &DeviceProfile) -> bool {
    device.subtitles.iter().any(|format| matches!(format.to_ascii_lowercase().as_str(), "vtt" | "webvtt"))
}

/// Whether a device opens this container with these streams in it.
pub(super) fn takes_container(
    device: &DeviceProfile,
    media: &Media,
    video: Option<&Stream>,
    audio: Option<&Stream>,
) -> bool {
    let takes = |container: Container| {
        device.containers.iter().any(|name| names_container(name, container)) && fits_container(container, video, audio)
    };
    // Audio in WebM's codecs plays from any Matroska file (Chromium, measured). It could not be copied otherwise, because
    // MPEG-TS does not carry these codecs.
    let sound = media.container == Container::Matroska && media.videos().next().is_none() && audio.is_some();
    takes(media.container) || (sound && takes(Container::Webm))
}

/// Whether a player's name for a container means this one. Matroska is not WebM, but WebM is Matroska.
fn names_container(name: &str, container: Container) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.as_str();
    match container {
        Container::Mp4 => matches!(name, "mp4" | "m4v" | "m4a" | "mov"),
        Container::Matroska => matches!(name, "mkv" | "matroska" | "mka"),
        Container::Webm => matches!(name, "webm" | "mkv" | "matroska"),
        Container::MpegTs => matches!(name, "ts" | "mpegts" | "m2ts"),
        Container::MpegPs => matches!(name, "ps" | "mpegps" | "mpg"),
        Container::Avi => name == "avi",
        Container::Flv => name == "flv",
        Container::Asf => matches!(name, "asf" | "wmv" | "wma"),
        Container::Ogg => matches!(name, "ogg" | "oga" | "ogv" | "opus"),
        Container::Wav => name == "wav",
        Container::Flac => name == "flac",
        Container::Mp3 => name == "mp3",
        Container::Adts => matches!(name, "adts" | "aac"),
        Container::Ac3 => matches!(name, "ac3" | "eac3"),
        Container::Aiff => matches!(name, "aiff" | "aif"),
        Container::WavPack => matches!(name, "wavpack" | "wv"),
        Container::Other => false,
    }
}

/// Which codecs players accept in which container; support for a codec in another container does not help (VP8 in mp4, AAC
/// in WebM).
fn fits_container(container: Container, video: Option<&Stream>, audio: Option<&Stream>) -> bool {
    let within =
        |stream: Option<&Stream>, codecs: &[&str]| stream.is_none_or(|stream| codecs.contains(&stream.codec.as_str()));
    match container {
        Container::Webm => within(video, &["vp8", "vp9", "av1"]) && within(audio, &["vorbis", "opus"]),
        Container::Mp4 => !within_some(video, &["vp8", "theora"]) && !within_some(audio, &["vorbis"]),
        Container::Ogg => within(audio, &["vorbis", "opus", "flac"]),
        _ => true,
    }
}

fn within_some(stream: Option<&Stream>, codecs: &[&str]) -> bool {
    stream.is_some_and(|stream| codecs.contains(&stream.codec.as_str()))
}

fn profile_name(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace([' ', '_'], "-")
}
