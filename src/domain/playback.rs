//! The play decision: one pure function over probe, device and wish, with its reasons.

use serde::{Deserialize, Serialize};

use super::media::{Audio, Container, Hdr, Media, Stream, Video};
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
    /// The web baseline of contract section 5.
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
                // Phones write 5.2 for 4K at 60 frames and for much less; every browser plays it.
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

/// Chooses direct, copy, encode or refusal, and says why. No reasons means: the bytes as they are.
pub fn decide(media: &Media, device: &DeviceProfile, wish: &Wish) -> (Decision, Vec<Reason>) {
    let video = pick_video(media, device);
    let audio = pick_audio(media, device, wish);
    if video.is_none() && audio.is_none() {
        return (Decision::Refuse, vec![Reason::NoDecodableStream]);
    }
    let mut reasons = Vec::new();
    if wish.force_transcode {
        reasons.push(Reason::StartForced);
    }
    if !device.containers.iter().any(|name| names_container(name, media.container))
        || !fits_container(media.container, video.map(|(stream, _)| stream), audio.map(|(stream, _)| stream))
    {
        reasons.push(Reason::ContainerNotSupported);
    }
    let limit = [device.max_bitrate_kbps, wish.max_bitrate_kbps].into_iter().flatten().min();
    let too_fast = matches!((limit, media.bitrate_kbps), (Some(limit), Some(rate)) if rate > limit);
    let mut picture = Vec::new();
    if let Some((stream, track)) = video {
        picture = video_reasons(stream, track, device);
        if wish.max_height.is_some_and(|lines| display_height(track) > lines) {
            picture.push(Reason::VideoResolutionNotSupported);
        }
        reasons.extend(&picture);
    }
    if too_fast {
        reasons.push(Reason::BitrateExceedsLimit);
    }
    reasons.extend(sound_reasons(media, device, wish, audio));
    if let SubtitleWish::Burn(_) = wish.subtitle {
        reasons.push(Reason::SubtitleCodecNotSupported);
    } else if wish.subtitle != SubtitleWish::None && !takes_webvtt(device) {
        reasons.push(Reason::SubtitleCodecNotSupported);
    }
    let mut seen = std::collections::HashSet::new();
    reasons.retain(|reason| seen.insert(*reason));
    if reasons.is_empty() {
        return (Decision::Direct, reasons);
    }
    // A session decodes or rewrites what it carries, so it can use only what this machine understands.
    let video = video.filter(|(stream, _)| stream.decodable).or_else(|| first_decodable(media.videos()));
    let audio = audio
        .filter(|(stream, _)| stream.decodable)
        .or_else(|| wish.audio_stream.is_none().then(|| first_decodable(media.audios())).flatten());
    if video.is_none() && audio.is_none() {
        return (Decision::Refuse, vec![Reason::NoDecodableStream]);
    }
    let burns = matches!(wish.subtitle, SubtitleWish::Burn(_));
    let tracks = Tracks {
        video: video.map(|(stream, track)| {
            let copy = picture.is_empty() && !burns && !too_fast && can_copy_video(stream, track);
            (stream.index, if copy { Action::Copy } else { Action::Encode })
        }),
        audio: audio.map(|(stream, track)| {
            let copy = can_copy_audio(stream, track, device, wish.max_audio_channels);
            (stream.index, if copy { Action::Copy } else { Action::Encode })
        }),
    };
    (Decision::Session(tracks), reasons)
}

/// Whether a picture can go into MPEG-TS segments as it is. A turn or a mirror lives in the container, which is lost.
pub fn can_copy_video(stream: &Stream, video: &Video) -> bool {
    const PROFILES: [&str; 4] = ["constrained-baseline", "baseline", "main", "high"];
    stream.codec == "h264"
        && stream.decodable
        && stream.profile.as_deref().is_none_or(|profile| PROFILES.contains(&profile))
        && video.bit_depth == 8
        && video.chroma == "4:2:0"
        && !video.interlaced
        && video.hdr.is_none()
        && video.rotation == 0
        && !video.mirrored
}

/// Whether a sound track can go into MPEG-TS segments as it is: AAC-LC that ADTS can describe, or MP3.
pub fn can_copy_audio(stream: &Stream, audio: &Audio, device: &DeviceProfile, max_channels: Option<u32>) -> bool {
    const ADTS_RATES: [u32; 13] =
        [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];
    let fits = match stream.codec.as_str() {
        "aac" => stream.profile.as_deref() == Some("lc") && ADTS_RATES.contains(&audio.sample_rate),
        "mp3" => true,
        _ => false,
    };
    let channels = matches!(audio.channels, 1 | 2 | 6) && max_channels.is_none_or(|most| audio.channels <= most);
    fits && channels && stream.decodable && audio_reason(stream, audio, device).is_none()
}

/// Height in lines as the viewer sees it: after pixel aspect and rotation.
pub fn display_height(video: &Video) -> u32 {
    if matches!(video.rotation, 90 | 270) { display_width(video) } else { video.height }
}

/// Width after pixel aspect, before rotation.
fn display_width(video: &Video) -> u32 {
    let (num, den) = video.sample_aspect;
    let wide = u64::from(video.width) * u64::from(num) / u64::from(den.max(1));
    u32::try_from(wide).unwrap_or(u32::MAX)
}

fn first_decodable<'a, T: 'a>(mut streams: impl Iterator<Item = (&'a Stream, &'a T)>) -> Option<(&'a Stream, &'a T)> {
    streams.find(|(stream, _)| stream.decodable)
}

/// The picture a player shows: the default one, else the first, of those that somebody can decode.
fn pick_video<'a>(media: &'a Media, device: &DeviceProfile) -> Option<(&'a Stream, &'a Video)> {
    let usable = || media.videos().filter(|(stream, _)| stream.decodable || knows_video(device, &stream.codec));
    usable().find(|(stream, _)| stream.default).or_else(|| usable().next())
}

/// The sound that is meant: the one asked for; else the one a player takes by itself, unless the device cannot play
/// it but can play another that is no commentary and not in another language.
fn pick_audio<'a>(media: &'a Media, device: &DeviceProfile, wish: &Wish) -> Option<(&'a Stream, &'a Audio)> {
    if let Some(index) = wish.audio_stream {
        return media.audios().find(|(stream, _)| stream.index == index);
    }
    let usable = |stream: &Stream| stream.decodable || knows_audio(device, &stream.codec);
    let own = own_audio(media);
    let plays = |(stream, audio): &(&Stream, &Audio)| audio_reason(stream, audio, device).is_none();
    if let Some(own) = own.filter(plays) {
        return Some(own);
    }
    let same_language = |stream: &Stream| {
        let own = own.and_then(|(stream, _)| stream.language.as_deref());
        own.is_none() || stream.language.is_none() || stream.language.as_deref() == own
    };
    let other = media
        .audios()
        .filter(|(stream, audio)| usable(stream) && !audio.commentary && same_language(stream))
        .find(plays);
    other.or(own.filter(|(stream, _)| usable(stream))).or_else(|| media.audios().find(|(stream, _)| usable(stream)))
}

/// The sound a player takes by itself.
fn own_audio(media: &Media) -> Option<(&Stream, &Audio)> {
    media.audios().find(|(stream, _)| stream.default).or_else(|| media.audios().next())
}

fn sound_reasons(media: &Media, device: &DeviceProfile, wish: &Wish, picked: Option<(&Stream, &Audio)>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let own = own_audio(media);
    if let Some((stream, audio)) = own
        && (picked.is_none_or(|(picked, _)| picked.index == stream.index) || wish.audio_stream.is_none())
    {
        reasons.extend(audio_reason(stream, audio, device));
    }
    if let (Some((own, _)), Some((picked, audio))) = (own, picked)
        && own.index != picked.index
    {
        reasons.push(Reason::SecondaryAudioSelected);
        reasons.extend(audio_reason(picked, audio, device));
    }
    if let Some((_, audio)) = picked
        && wish.max_audio_channels.is_some_and(|most| audio.channels > most)
    {
        reasons.push(Reason::AudioChannelsNotSupported);
    }
    reasons
}

/// Why a device does not play this picture; of several entries for the codec the one with the fewest reasons counts.
fn video_reasons(stream: &Stream, video: &Video, device: &DeviceProfile) -> Vec<Reason> {
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
        // Without a list of profiles the codec is meant in its usual form.
        _ => video.chroma == "4:2:0",
    };
    if !profile_fits {
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
    // Half a percent of grace: 59.94 passes a limit of 60, and so does a clip averaging 60.02.
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

/// A decoder's limit holds for either orientation: 1080 x 1920 fits where 1920 x 1080 does.
fn size_fits(video: &Video, support: &VideoSupport) -> bool {
    let fits = |width: u32, height: u32| {
        support.max_width.is_none_or(|most| width <= most) && support.max_height.is_none_or(|most| height <= most)
    };
    let both = support.max_width.is_some() && support.max_height.is_some();
    fits(video.width, video.height) || (both && fits(video.height, video.width))
}

fn audio_reason(stream: &Stream, audio: &Audio, device: &DeviceProfile) -> Option<Reason> {
    let mut entries =
        device.audio.iter().filter(|support| support.codec.eq_ignore_ascii_case(&stream.codec)).peekable();
    // A track whose description is broken (no channels) is playable nowhere.
    if entries.peek().is_none() || audio.channels == 0 {
        return Some(Reason::AudioCodecNotSupported);
    }
    let fits = entries.any(|support| support.max_channels.is_none_or(|most| audio.channels <= most));
    (!fits).then_some(Reason::AudioChannelsNotSupported)
}

fn knows_video(device: &DeviceProfile, codec: &str) -> bool {
    device.video.iter().any(|support| support.codec.eq_ignore_ascii_case(codec))
}

fn knows_audio(device: &DeviceProfile, codec: &str) -> bool {
    device.audio.iter().any(|support| support.codec.eq_ignore_ascii_case(codec))
}

fn takes_webvtt(device: &DeviceProfile) -> bool {
    device.subtitles.iter().any(|format| matches!(format.to_ascii_lowercase().as_str(), "vtt" | "webvtt"))
}

/// Whether a player's word for a container means this one. Matroska is not WebM, but WebM is Matroska.
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

/// What players take inside which container; a codec they know elsewhere does not help (VP8 in mp4, AAC in WebM).
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
