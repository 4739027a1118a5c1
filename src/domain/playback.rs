//! The play decision: direct play, remux (copy) or transcode (encode). One pure function over the probe result, the device
//! profile and the request; it answers with its reasons.

use super::media::{Audio, Media, Stream, Video};
use super::plan::Burn;

mod clients;
mod device;

pub use clients::{Device, DeviceSource, takes_start_in_multivariant};
pub use device::{AudioSupport, DeviceProfile, VideoSupport};
use device::{audio_reason, knows_audio, knows_video, takes_container, takes_webvtt, video_reasons};

/// Size labels of the API, largest first, with height and the rung's maximum bit rate in kbit/s.
pub const RUNGS: [(&str, u32, u32); 7] = [
    ("2160p", 2160, 16_000),
    ("1440p", 1440, 9_000),
    ("1080p", 1080, 5_000),
    ("720p", 720, 2_800),
    ("480p", 480, 1_400),
    ("360p", 360, 800),
    ("240p", 240, 400),
];

/// The viewer's request, already validated against the probe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wish {
    /// None = the default track, otherwise the first; a track the device can play is preferred.
    pub audio_stream: Option<u32>,
    pub subtitle: SubtitleWish,
    /// The subtitle must be a rendition of a session, because the client may know no other way to it.
    pub needs_subtitle_rendition: bool,
    /// Maximum height in lines; None = original.
    pub max_height: Option<u32>,
    pub max_bitrate_kbps: Option<u32>,
    pub max_audio_channels: Option<u32>,
    pub force_transcode: bool,
    /// An ABR ladder is requested, which a file alone cannot provide.
    pub adaptive: bool,
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

/// The decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Serve the file as it is.
    Direct,
    /// Make segments.
    Session(Tracks),
    /// No stream can be played.
    Refuse,
}

/// The action for each stream of a session, by stream index.
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

/// Why a file is not played directly.
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
    /// Text in a subtitle rendition, because the client may not know `subtitleUrl`.
    SubtitleSelected,
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
            Self::SubtitleSelected => "SUBTITLE_SELECTED",
            Self::SecondaryAudioSelected => "SECONDARY_AUDIO_SELECTED",
            Self::StartForced => "START_FORCED",
            Self::NoDecodableStream => "NO_DECODABLE_STREAM",
        }
    }
}

/// Chooses direct play, copy, encode or refusal, and gives the reasons. Direct play has no reasons.
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
    if !takes_container(device, media, video.map(|(stream, _)| stream), audio.map(|(stream, _)| stream)) {
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
    } else if media.videos().next().is_some() {
        // Neither server nor device can decode the video; the audio alone can still be played.
        reasons.push(Reason::VideoCodecNotSupported);
    }
    if too_fast {
        reasons.push(Reason::BitrateExceedsLimit);
    }
    reasons.extend(sound_reasons(media, device, wish, audio));
    if let SubtitleWish::Burn(_) = wish.subtitle {
        reasons.push(Reason::SubtitleCodecNotSupported);
    } else if wish.subtitle != SubtitleWish::None && !takes_webvtt(device) {
        reasons.push(Reason::SubtitleCodecNotSupported);
    } else if wish.subtitle != SubtitleWish::None && wish.needs_subtitle_rendition {
        reasons.push(Reason::SubtitleSelected);
    }
    let mut seen = std::collections::HashSet::new();
    reasons.retain(|reason| seen.insert(*reason));
    if reasons.is_empty() && wish.adaptive && video.is_some() {
        reasons.push(Reason::StartForced);
    }
    if reasons.is_empty() {
        return (Decision::Direct, reasons);
    }
    // A session decodes or remuxes its streams, so it can use only those this server can decode.
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

/// Whether video can be copied into MPEG-TS segments. Rotation and mirroring are container metadata and would be lost.
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

/// Whether an audio track can be copied into MPEG-TS segments: AAC-LC that ADTS can describe, or MP3.
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

/// Displayed height in lines, after pixel aspect and rotation.
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

/// The video a player shows: the default stream, otherwise the first, of those that the server or the device can decode.
fn pick_video<'a>(media: &'a Media, device: &DeviceProfile) -> Option<(&'a Stream, &'a Video)> {
    let usable = || media.videos().filter(|(stream, _)| stream.decodable || knows_video(device, &stream.codec));
    usable().find(|(stream, _)| stream.default).or_else(|| usable().next())
}

/// The audio track to play: the requested one, otherwise the one a player selects by itself. If the device cannot play that
/// one, another track it can play is taken, unless that is a commentary or in another language.
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

/// The audio track a player selects by itself.
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

#[cfg(test)]
mod tests;
