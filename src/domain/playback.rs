//! The play decision: direct play, remux (copy) or transcode (encode). One pure function over the probe result, the device
//! profile and the request; it answers with its reasons.

use serde::{Deserialize, Serialize};

use super::media::{Audio, Media, Stream, Video};
use super::plan::BurnedSubtitle;

pub mod capabilities;
mod clients;
mod device;

pub use clients::{DeviceSource, RequestDevice, accepts_start_in_multivariant};
pub use device::{AudioSupport, DeviceProfile, VideoSupport};
use device::{audio_reason, supports_audio, supports_container, supports_video, supports_webvtt, video_reasons};

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

/// The request of a viewer or a channel for one item. Its tracks are validated against the probe before [`decide`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaybackRequest {
    /// None = the default track, otherwise the first; a track the device can play is preferred.
    pub audio_stream: Option<u32>,
    #[serde(skip)]
    pub subtitle: SubtitleDelivery,
    /// The subtitle must be a rendition of a session, because the client may know no other way to it.
    #[serde(skip)]
    pub needs_subtitle_rendition: bool,
    /// Maximum height in lines; None = original.
    pub max_height: Option<u32>,
    pub max_bitrate_kbps: Option<u32>,
    pub max_audio_channels: Option<u32>,
    pub force_transcode: bool,
    /// An ABR ladder is requested, which a file alone cannot provide: every rung up to the best one, so that the player can
    /// switch between them.
    pub is_adaptive: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum SubtitleDelivery {
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
    Burn(BurnedSubtitle),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Serve the file as it is.
    Direct,
    /// Make segments.
    Session(SessionTracks),
    /// No stream can be played.
    Refuse,
}

/// The action for each stream of a session, by stream index.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionTracks {
    pub video: Option<(u32, TrackAction)>,
    pub audio: Option<(u32, TrackAction)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackAction {
    Copy,
    Encode,
}

named_values! {
    /// Why a file is not played directly.
    pub enum TranscodeReason {
        ContainerNotSupported = "CONTAINER_NOT_SUPPORTED",
        VideoCodecNotSupported = "VIDEO_CODEC_NOT_SUPPORTED",
        VideoProfileNotSupported = "VIDEO_PROFILE_NOT_SUPPORTED",
        VideoLevelNotSupported = "VIDEO_LEVEL_NOT_SUPPORTED",
        VideoBitDepthNotSupported = "VIDEO_BIT_DEPTH_NOT_SUPPORTED",
        VideoRangeNotSupported = "VIDEO_RANGE_NOT_SUPPORTED",
        VideoResolutionNotSupported = "VIDEO_RESOLUTION_NOT_SUPPORTED",
        VideoFramerateNotSupported = "VIDEO_FRAMERATE_NOT_SUPPORTED",
        InterlacedNotSupported = "INTERLACED_NOT_SUPPORTED",
        AnamorphicNotSupported = "ANAMORPHIC_NOT_SUPPORTED",
        AudioCodecNotSupported = "AUDIO_CODEC_NOT_SUPPORTED",
        AudioChannelsNotSupported = "AUDIO_CHANNELS_NOT_SUPPORTED",
        BitrateExceedsLimit = "BITRATE_EXCEEDS_LIMIT",
        SubtitleCodecNotSupported = "SUBTITLE_CODEC_NOT_SUPPORTED",
        /// Text in a subtitle rendition, because the client may not know `subtitleUrl`.
        SubtitleSelected = "SUBTITLE_SELECTED",
        SecondaryAudioSelected = "SECONDARY_AUDIO_SELECTED",
        StartForced = "START_FORCED",
        NoDecodableStream = "NO_DECODABLE_STREAM",
    }
}

/// Chooses direct play, copy, encode or refusal, and gives the reasons. Direct play has no reasons.
pub fn decide(media: &Media, device: &DeviceProfile, request: &PlaybackRequest) -> (Decision, Vec<TranscodeReason>) {
    let video = pick_video(media, device);
    let audio = pick_audio(media, device, request);
    if video.is_none() && audio.is_none() {
        return (Decision::Refuse, vec![TranscodeReason::NoDecodableStream]);
    }
    let mut reasons = Vec::new();
    if request.force_transcode {
        reasons.push(TranscodeReason::StartForced);
    }
    if !supports_container(device, media, video.map(|(stream, _)| stream), audio.map(|(stream, _)| stream)) {
        reasons.push(TranscodeReason::ContainerNotSupported);
    }
    let limit_kbps = [device.max_bitrate_kbps, request.max_bitrate_kbps].into_iter().flatten().min();
    let exceeds_limit = matches!((limit_kbps, media.bitrate_kbps), (Some(limit), Some(rate)) if rate > limit);
    let mut video_problems = Vec::new();
    if let Some((stream, track)) = video {
        video_problems = video_reasons(stream, track, &device.video);
        if request.max_height.is_some_and(|lines| display_height(track) > lines) {
            video_problems.push(TranscodeReason::VideoResolutionNotSupported);
        }
        reasons.extend(&video_problems);
    } else if media.video_streams().next().is_some() {
        // Neither server nor device can decode the video; the audio alone can still be played.
        reasons.push(TranscodeReason::VideoCodecNotSupported);
    }
    if exceeds_limit {
        reasons.push(TranscodeReason::BitrateExceedsLimit);
    }
    reasons.extend(audio_reasons(media, device, request, audio));
    if let SubtitleDelivery::Burn(_) = request.subtitle {
        reasons.push(TranscodeReason::SubtitleCodecNotSupported);
    } else if request.subtitle != SubtitleDelivery::None && !supports_webvtt(device) {
        reasons.push(TranscodeReason::SubtitleCodecNotSupported);
    } else if request.subtitle != SubtitleDelivery::None && request.needs_subtitle_rendition {
        reasons.push(TranscodeReason::SubtitleSelected);
    }
    let mut unique = std::collections::HashSet::new();
    reasons.retain(|reason| unique.insert(*reason));
    if reasons.is_empty() && request.is_adaptive && video.is_some() {
        reasons.push(TranscodeReason::StartForced);
    }
    if reasons.is_empty() {
        return (Decision::Direct, reasons);
    }
    // A session decodes or remuxes its streams, so it can use only those this server can decode.
    let video = video.filter(|(stream, _)| stream.is_decodable).or_else(|| first_decodable(media.video_streams()));
    let audio = audio
        .filter(|(stream, _)| stream.is_decodable)
        .or_else(|| request.audio_stream.is_none().then(|| first_decodable(media.audio_streams())).flatten());
    if video.is_none() && audio.is_none() {
        return (Decision::Refuse, vec![TranscodeReason::NoDecodableStream]);
    }
    let burns_subtitle = matches!(request.subtitle, SubtitleDelivery::Burn(_));
    let tracks = SessionTracks {
        video: video.map(|(stream, track)| {
            let can_copy =
                video_problems.is_empty() && !burns_subtitle && !exceeds_limit && can_copy_video(stream, track);
            (stream.index, if can_copy { TrackAction::Copy } else { TrackAction::Encode })
        }),
        audio: audio.map(|(stream, track)| {
            let can_copy = can_copy_audio(stream, track, device, request.max_audio_channels);
            (stream.index, if can_copy { TrackAction::Copy } else { TrackAction::Encode })
        }),
    };
    (Decision::Session(tracks), reasons)
}

/// Whether video can be copied into MPEG-TS segments. Rotation and mirroring are container metadata and would be lost.
pub fn can_copy_video(stream: &Stream, video: &Video) -> bool {
    const PROFILES: [&str; 4] = ["constrained-baseline", "baseline", "main", "high"];
    stream.codec == "h264"
        && stream.is_decodable
        && stream.profile.as_deref().is_none_or(|profile| PROFILES.contains(&profile))
        && video.bit_depth == 8
        && video.chroma == "4:2:0"
        && !video.is_interlaced
        && video.hdr.is_none()
        && video.rotation == 0
        && !video.is_mirrored
}

/// Whether an audio track is copied into MPEG-TS segments for this device.
pub fn can_copy_audio(stream: &Stream, audio: &Audio, device: &DeviceProfile, max_channels: Option<u32>) -> bool {
    fits_mpegts(stream, audio)
        && max_channels.is_none_or(|most| audio.channels <= most)
        && stream.is_decodable
        && audio_reason(stream, audio, &device.audio).is_none()
}

/// Whether an audio track can be copied into MPEG-TS segments: AAC-LC that ADTS can describe, or MP3.
fn fits_mpegts(stream: &Stream, audio: &Audio) -> bool {
    const ADTS_RATES: [u32; 13] =
        [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];
    let has_supported_codec = match stream.codec.as_str() {
        "aac" => stream.profile.as_deref() == Some("lc") && ADTS_RATES.contains(&audio.sample_rate),
        "mp3" => true,
        _ => false,
    };
    has_supported_codec && matches!(audio.channels, 1 | 2 | 6)
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
    streams.find(|(stream, _)| stream.is_decodable)
}

/// The video a player shows: the default stream, otherwise the first, of those that the server or the device can decode.
fn pick_video<'a>(media: &'a Media, device: &DeviceProfile) -> Option<(&'a Stream, &'a Video)> {
    let usable_videos =
        || media.video_streams().filter(|(stream, _)| stream.is_decodable || supports_video(device, &stream.codec));
    usable_videos().find(|(stream, _)| stream.is_default).or_else(|| usable_videos().next())
}

/// The audio track to play: the requested one, otherwise the one a player selects by itself. If the device cannot play that
/// one, another track it can play is taken, unless that is a commentary or in another language.
fn pick_audio<'a>(
    media: &'a Media,
    device: &DeviceProfile,
    request: &PlaybackRequest,
) -> Option<(&'a Stream, &'a Audio)> {
    if let Some(index) = request.audio_stream {
        return media.audio_streams().find(|(stream, _)| stream.index == index);
    }
    let is_usable = |stream: &Stream| stream.is_decodable || supports_audio(device, &stream.codec);
    let default_track = default_audio(media);
    let is_playable = |(stream, audio): &(&Stream, &Audio)| audio_reason(stream, audio, &device.audio).is_none();
    if let Some(playable) = default_track.filter(is_playable) {
        return Some(playable);
    }
    let is_same_language = |stream: &Stream| {
        let own = default_track.and_then(|(stream, _)| stream.language.as_deref());
        own.is_none() || stream.language.is_none() || stream.language.as_deref() == own
    };
    let other = media
        .audio_streams()
        .filter(|(stream, audio)| is_usable(stream) && !audio.is_commentary && is_same_language(stream))
        .find(is_playable);
    other
        .or(default_track.filter(|(stream, _)| is_usable(stream)))
        .or_else(|| media.audio_streams().find(|(stream, _)| is_usable(stream)))
}

/// The audio track a player selects by itself.
fn default_audio(media: &Media) -> Option<(&Stream, &Audio)> {
    media.audio_streams().find(|(stream, _)| stream.is_default).or_else(|| media.audio_streams().next())
}

fn audio_reasons(
    media: &Media,
    device: &DeviceProfile,
    request: &PlaybackRequest,
    picked: Option<(&Stream, &Audio)>,
) -> Vec<TranscodeReason> {
    let mut reasons = Vec::new();
    let default_track = default_audio(media);
    if let Some((stream, audio)) = default_track
        && (picked.is_none_or(|(picked, _)| picked.index == stream.index) || request.audio_stream.is_none())
    {
        reasons.extend(audio_reason(stream, audio, &device.audio));
    }
    if let (Some((default_stream, _)), Some((picked, audio))) = (default_track, picked)
        && default_stream.index != picked.index
    {
        reasons.push(TranscodeReason::SecondaryAudioSelected);
        reasons.extend(audio_reason(picked, audio, &device.audio));
    }
    if let Some((_, audio)) = picked
        && request.max_audio_channels.is_some_and(|most| audio.channels > most)
    {
        reasons.push(TranscodeReason::AudioChannelsNotSupported);
    }
    reasons
}

#[cfg(test)]
mod tests;
