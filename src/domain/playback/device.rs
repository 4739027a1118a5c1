//! Device profiles: the formats a device plays, and the reasons why it cannot play a stream.

use serde::{Deserialize, Serialize};

use super::TranscodeReason;
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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VideoSupport {
    pub codec: String,
    pub max_width: Option<u32>,
    pub max_height: Option<u32>,
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
    pub max_channels: Option<u32>,
}

impl Default for DeviceProfile {
    /// The web baseline: what every current desktop browser plays.
    fn default() -> Self {
        let any_level = |codec: &str| VideoSupport { max_level: None, ..video_support(codec, &[], 0.0) };
        Self {
            containers: owned_names(&["mp4", "webm", "mp3", "flac", "ogg", "wav", "adts"]),
            video: vec![
                // Phones write level 5.2 for 4K at 60 frames/s and for much less; every browser plays it.
                video_support("h264", &["constrained-baseline", "baseline", "main", "high"], 5.2),
                any_level("vp8"),
                any_level("vp9"),
                any_level("av1"),
            ],
            audio: ["aac", "mp3", "opus", "vorbis", "flac", "pcm_s16le"].map(|codec| audio_support(codec, 6)).into(),
            subtitles: owned_names(&["vtt"]),
            max_bitrate_kbps: None,
        }
    }
}

pub(super) fn owned_names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

pub(super) fn audio_support(codec: &str, channels: u32) -> AudioSupport {
    AudioSupport { codec: codec.to_owned(), max_channels: Some(channels) }
}

/// Eight bits, SDR, progressive.
pub(super) fn video_support(codec: &str, profiles: &[&str], max_level: f64) -> VideoSupport {
    VideoSupport {
        codec: codec.to_owned(),
        bit_depths: vec![8],
        profiles: owned_names(profiles),
        hdr: owned_names(&["sdr"]),
        max_level: Some(max_level),
        ..VideoSupport::default()
    }
}

/// Why a device with these entries does not play this video. Of several entries for the codec the one with the fewest reasons
/// counts.
pub(super) fn video_reasons(stream: &Stream, video: &Video, entries: &[VideoSupport]) -> Vec<TranscodeReason> {
    entries
        .iter()
        .filter(|support| support.codec.eq_ignore_ascii_case(&stream.codec))
        .map(|support| support_reasons(stream, video, support))
        .min_by_key(Vec::len)
        .unwrap_or_else(|| vec![TranscodeReason::VideoCodecNotSupported])
}

fn support_reasons(stream: &Stream, video: &Video, support: &VideoSupport) -> Vec<TranscodeReason> {
    let is_named = |profile: &str| support.profiles.iter().any(|name| normalize_profile(name) == profile);
    let profile = stream.profile.as_deref();
    let profile_fits = match profile {
        Some(profile) if !support.profiles.is_empty() => is_named(profile),
        // Without a list of profiles the codec's usual form is assumed.
        _ => video.chroma == "4:2:0",
    };
    let level = stream.level.as_deref().and_then(|level| level.parse::<f64>().ok());
    let is_level_too_high = matches!((support.max_level, level), (Some(most), Some(level)) if level > most);
    let depth_fits = match support.bit_depths.as_slice() {
        [] => video.bit_depth == 8,
        depths => depths.contains(&video.bit_depth),
    };
    let range = video.hdr.map_or("sdr", Hdr::as_str);
    let is_listed = |range: &str| support.hdr.iter().any(|name| normalize_profile(name) == range);
    let range_fits = if support.hdr.is_empty() { video.hdr.is_none() } else { range == "sdr" || is_listed(range) };
    // Half a percent of tolerance: a limit of 60 also covers a clip that averages 60.02.
    let is_too_fast =
        matches!((support.max_fps, video.frame_rate), (Some(most), Some(rate)) if rate.as_f64() > most * 1.005);
    let is_anamorphic = video.sample_aspect.0 != video.sample_aspect.1;
    let problems = [
        (!profile_fits || video.chroma.is_empty(), TranscodeReason::VideoProfileNotSupported),
        (is_level_too_high, TranscodeReason::VideoLevelNotSupported),
        (!depth_fits, TranscodeReason::VideoBitDepthNotSupported),
        (!range_fits, TranscodeReason::VideoRangeNotSupported),
        (!size_fits(video, support), TranscodeReason::VideoResolutionNotSupported),
        (is_too_fast, TranscodeReason::VideoFramerateNotSupported),
        (video.is_interlaced && !support.interlaced, TranscodeReason::InterlacedNotSupported),
        (is_anamorphic && support.square_pixels_only, TranscodeReason::AnamorphicNotSupported),
    ];
    problems.into_iter().filter(|(is_problem, _)| *is_problem).map(|(_, reason)| reason).collect()
}

/// A decoder's limit applies in either orientation: 1080 x 1920 fits where 1920 x 1080 does.
fn size_fits(video: &Video, support: &VideoSupport) -> bool {
    let fits = |width: u32, height: u32| {
        support.max_width.is_none_or(|limit| width <= limit) && support.max_height.is_none_or(|most| height <= most)
    };
    let has_both_limits = support.max_width.is_some() && support.max_height.is_some();
    fits(video.width, video.height) || (has_both_limits && fits(video.height, video.width))
}

/// Why a device with these entries does not play this audio.
pub(super) fn audio_reason(stream: &Stream, audio: &Audio, entries: &[AudioSupport]) -> Option<TranscodeReason> {
    let mut entries = entries.iter().filter(|entry| entry.codec.eq_ignore_ascii_case(&stream.codec)).peekable();
    // A track whose description is broken (no channels) is playable nowhere.
    if entries.peek().is_none() || audio.channels == 0 {
        return Some(TranscodeReason::AudioCodecNotSupported);
    }
    let has_enough_channels = entries.any(|support| support.max_channels.is_none_or(|most| audio.channels <= most));
    (!has_enough_channels).then_some(TranscodeReason::AudioChannelsNotSupported)
}

pub(super) fn supports_video(device: &DeviceProfile, codec: &str) -> bool {
    device.video.iter().any(|support| support.codec.eq_ignore_ascii_case(codec))
}

pub(super) fn supports_audio(device: &DeviceProfile, codec: &str) -> bool {
    device.audio.iter().any(|support| support.codec.eq_ignore_ascii_case(codec))
}

pub(super) fn supports_webvtt(device: &DeviceProfile) -> bool {
    device.subtitles.iter().any(|format| matches!(format.to_ascii_lowercase().as_str(), "vtt" | "webvtt"))
}

/// Whether a device opens this container with these streams in it.
pub(super) fn supports_container(
    device: &DeviceProfile,
    media: &Media,
    video: Option<&Stream>,
    audio: Option<&Stream>,
) -> bool {
    let is_supported = |container: Container| {
        device.containers.iter().any(|name| is_container_name(name, container)) && can_contain(container, video, audio)
    };
    // Audio in WebM's codecs plays from any Matroska file (Chromium, measured). It could not be copied otherwise, because
    // MPEG-TS does not carry these codecs.
    let is_audio_in_matroska =
        media.container == Container::Matroska && media.video_streams().next().is_none() && audio.is_some();
    is_supported(media.container) || (is_audio_in_matroska && is_supported(Container::Webm))
}

/// Whether a player's name for a container means this one. Matroska is not WebM, but WebM is Matroska.
fn is_container_name(name: &str, container: Container) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.as_str();
    match container {
        Container::Mp4 => matches!(name, "mp4" | "m4v" | "m4a" | "mov"),
        Container::Matroska => matches!(name, "mkv" | "matroska" | "mka"),
        Container::Webm => matches!(name, "webm" | "mkv" | "matroska"),
        Container::MpegTs => matches!(name, "ts" | "mpegts" | "m2ts"),
        Container::MpegPs => matches!(name, "ps" | "mpegps" | "mpg"),
        Container::Asf => matches!(name, "asf" | "wmv" | "wma"),
        Container::Ogg => matches!(name, "ogg" | "oga" | "ogv" | "opus"),
        Container::Adts => matches!(name, "adts" | "aac"),
        Container::Ac3 => matches!(name, "ac3" | "eac3"),
        Container::Aiff => matches!(name, "aiff" | "aif"),
        Container::WavPack => matches!(name, "wavpack" | "wv"),
        Container::Avi | Container::Flv | Container::Wav | Container::Flac | Container::Mp3 => {
            name == container.as_str()
        }
        Container::Other => false,
    }
}

/// Which codecs players accept in which container; support for a codec in another container does not help (VP8 in mp4, AAC
/// in WebM).
fn can_contain(container: Container, video: Option<&Stream>, audio: Option<&Stream>) -> bool {
    let all_in =
        |stream: Option<&Stream>, codecs: &[&str]| stream.is_none_or(|stream| codecs.contains(&stream.codec.as_str()));
    match container {
        Container::Webm => all_in(video, &["vp8", "vp9", "av1"]) && all_in(audio, &["vorbis", "opus"]),
        Container::Mp4 => !is_any_of(video, &["vp8", "theora"]) && !is_any_of(audio, &["vorbis"]),
        Container::Ogg => all_in(audio, &["vorbis", "opus", "flac"]),
        _ => true,
    }
}

fn is_any_of(stream: Option<&Stream>, codecs: &[&str]) -> bool {
    stream.is_some_and(|stream| codecs.contains(&stream.codec.as_str()))
}

fn normalize_profile(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace([' ', '_'], "-")
}
