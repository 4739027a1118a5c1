//! Decides the format of a session's segments, and for each stream whether it is copied or encoded, with reasons.

use super::{AudioRenditions, ClientCapabilities, FormatCapabilities};
use crate::domain::media::{Audio, Hdr, Media, Stream, Video};
use crate::domain::plan::Rendition;
use crate::domain::playback::device::{DeviceProfile, audio_reason, video_reasons};
use crate::domain::playback::{
    PlaybackRequest, SessionTracks, SubtitleDelivery, TrackAction, TranscodeReason, can_copy_video, display_height,
    fits_mpegts,
};
use crate::domain::segment_format::SegmentFormat;

/// How a session delivers an item to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDelivery {
    pub format: SegmentFormat,
    pub video: Option<StreamDecision>,
    /// The track to play first, then those that the viewer may change to.
    pub audio: Vec<StreamDecision>,
    pub audio_renditions: AudioRenditions,
    /// AAC is offered beside tracks that are copied in another codec.
    pub has_aac_group: bool,
    /// Text subtitles can be WebVTT renditions. Otherwise the client loads them as files, or they are burned in.
    pub has_text_renditions: bool,
}

/// The action for a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDecision {
    /// Index in the file.
    pub stream: u32,
    pub action: TrackAction,
    /// Why it is encoded; empty for a copy.
    pub reasons: Vec<EncodeReason>,
}

/// Why a stream is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeReason {
    /// The client does not play it as it is.
    Client(TranscodeReason),
    /// The request needs another one: a subtitle is burned in, or size, rate or channels are limited.
    Request(TranscodeReason),
    /// Segments of this format cannot contain the codec.
    SegmentFormat,
    /// The video is rotated or mirrored by metadata of its container, which players of segments ignore.
    Orientation,
    /// Its keyframes are too far apart, or do not match the rungs of an adaptive session.
    Keyframes,
    /// Its parameter sets change, and an init segment has one version of them.
    ParameterSets,
    /// The track ends long before the video. Encoded audio continues with silence; browsers stall without any.
    EndsEarly,
}

/// Chooses among the client's formats. Of two formats the one counts in which a requested text subtitle can be shown; then
/// the one in which the video is copied; then the one in which the first audio track is copied; then the one that the client
/// prefers. A stream that is encoded becomes H.264 or AAC, which every client plays in each of its formats.
///
/// None if no stream can be copied or decoded.
pub fn decide_delivery(
    media: &Media,
    client: &ClientCapabilities,
    request: &PlaybackRequest,
) -> Option<SessionDelivery> {
    let needs_text = matches!(request.subtitle, SubtitleDelivery::Text { .. } | SubtitleDelivery::TextSidecar { .. });
    let is_copied = |decision: Option<&StreamDecision>| decision.is_none_or(|it| it.action == TrackAction::Copy);
    let rank = |delivery: &SessionDelivery| {
        let shows_text = !needs_text || delivery.has_text_renditions;
        (shows_text, is_copied(delivery.video.as_ref()), is_copied(delivery.audio.first()))
    };
    let deliveries = client.formats.iter().filter_map(|format| decide_in_format(media, format, request));
    // The last one of equal maximum is returned.
    deliveries.collect::<Vec<_>>().into_iter().rev().max_by_key(rank)
}

/// The decisions for segments of one format. None if no stream can be copied or decoded.
fn decide_in_format(media: &Media, client: &FormatCapabilities, request: &PlaybackRequest) -> Option<SessionDelivery> {
    let video_decisions = media.video_streams().filter_map(|(stream, video)| {
        Some((stream, decide_stream(stream, video_problems(media, (stream, video), client, request))?))
    });
    let video = prefer_default(video_decisions, None);
    let audio_decisions = media.audio_streams().filter_map(|(stream, audio)| {
        Some((stream, decide_stream(stream, audio_problems((stream, audio), client, request))?))
    });
    let audio_decisions: Vec<(&Stream, StreamDecision)> = audio_decisions.collect();
    let first = prefer_default(audio_decisions.iter().cloned(), request.audio_stream);
    let is_choice = client.audio_renditions == AudioRenditions::Several;
    let others = audio_decisions.into_iter().map(|(_, decision)| decision);
    let others =
        others.filter(|decision| is_choice && first.as_ref().is_some_and(|first| first.stream != decision.stream));
    let audio: Vec<StreamDecision> = first.clone().into_iter().chain(others).collect();
    (video.is_some() || !audio.is_empty()).then_some(SessionDelivery {
        format: client.format,
        video,
        audio,
        audio_renditions: client.audio_renditions,
        has_aac_group: client.has_aac_group,
        has_text_renditions: client.has_text_renditions,
    })
}

/// None if the stream must be encoded, but this server cannot decode it.
fn decide_stream(stream: &Stream, reasons: Vec<EncodeReason>) -> Option<StreamDecision> {
    let action = if reasons.is_empty() { TrackAction::Copy } else { TrackAction::Encode };
    let is_possible = reasons.is_empty() || stream.is_decodable;
    is_possible.then_some(StreamDecision { stream: stream.index, action, reasons })
}

/// The decision for the requested stream, otherwise for the default one, otherwise for the first.
fn prefer_default<'a>(
    decisions: impl Iterator<Item = (&'a Stream, StreamDecision)>,
    requested: Option<u32>,
) -> Option<StreamDecision> {
    let rank = |(stream, _): &(&Stream, _)| (requested != Some(stream.index), !stream.is_default);
    decisions.min_by_key(rank).map(|(_, decision)| decision)
}

fn video_problems(
    media: &Media,
    (stream, video): (&Stream, &Video),
    client: &FormatCapabilities,
    request: &PlaybackRequest,
) -> Vec<EncodeReason> {
    let exceeds_rate =
        matches!((request.max_bitrate_kbps, media.bitrate_kbps), (Some(limit), Some(rate)) if rate > limit);
    let is_too_high = request.max_height.is_some_and(|lines| display_height(video) > lines);
    let is_burned_in = matches!(request.subtitle, SubtitleDelivery::Burn(_));
    let own = [
        (!can_contain_video(client.format, stream, video), EncodeReason::SegmentFormat),
        (video.rotation != 0 || video.is_mirrored, EncodeReason::Orientation),
        (is_burned_in, EncodeReason::Request(TranscodeReason::SubtitleCodecNotSupported)),
        (is_too_high, EncodeReason::Request(TranscodeReason::VideoResolutionNotSupported)),
        (exceeds_rate, EncodeReason::Request(TranscodeReason::BitrateExceedsLimit)),
    ];
    let own = own.into_iter().filter(|(is_problem, _)| *is_problem).map(|(_, reason)| reason);
    own.chain(video_reasons(stream, video, &client.video).into_iter().map(EncodeReason::Client)).collect()
}

fn audio_problems(
    (stream, audio): (&Stream, &Audio),
    client: &FormatCapabilities,
    request: &PlaybackRequest,
) -> Vec<EncodeReason> {
    let has_too_many_channels = request.max_audio_channels.is_some_and(|most| audio.channels > most);
    let own = [
        (!can_contain_audio(client.format, stream, audio), EncodeReason::SegmentFormat),
        (has_too_many_channels, EncodeReason::Request(TranscodeReason::AudioChannelsNotSupported)),
    ];
    let own = own.into_iter().filter(|(is_problem, _)| *is_problem).map(|(_, reason)| reason);
    own.chain(audio_reason(stream, audio, &client.audio).map(EncodeReason::Client)).collect()
}

/// Whether segments of this format are made with copied video of this kind.
fn can_contain_video(format: SegmentFormat, stream: &Stream, video: &Video) -> bool {
    match format {
        // ISO/IEC 13818-1 stream type 0x24. Dolby Vision would need a descriptor, which ffmpeg 5.1 does not write.
        SegmentFormat::MpegTs if stream.codec == "hevc" => video.hdr != Some(Hdr::DolbyVision) && !video.is_interlaced,
        SegmentFormat::MpegTs => can_copy_video(stream, video),
        SegmentFormat::Fmp4 => matches!(&*stream.codec, "h264" | "hevc" | "av1" | "vp9"),
        SegmentFormat::WebVtt => false,
    }
}

/// Whether segments of this format are made with copied audio of this kind.
fn can_contain_audio(format: SegmentFormat, stream: &Stream, audio: &Audio) -> bool {
    match (format, &*stream.codec) {
        // ATSC A/53 part 3 and ETSI TS 101 154; packets need no change.
        (SegmentFormat::MpegTs, "ac3" | "eac3") => true,
        (SegmentFormat::MpegTs, _) => fits_mpegts(stream, audio),
        (SegmentFormat::Fmp4, "aac") => {
            matches!(stream.profile.as_deref(), Some("lc" | "he-aac" | "he-aacv2"))
        }
        (SegmentFormat::Fmp4, "mp3" | "opus" | "flac" | "alac" | "ac3" | "eac3" | "dts") => true,
        _ => false,
    }
}

/// The tracks of a muxed session, with those copied too that this client plays in MPEG-TS, but not every other one does. A track
/// that the device profile excludes is encoded.
pub fn copy_for_client(
    tracks: SessionTracks,
    media: &Media,
    client: &ClientCapabilities,
    device: &DeviceProfile,
    request: &PlaybackRequest,
) -> SessionTracks {
    let Some(client) = client.format(SegmentFormat::MpegTs) else { return tracks };
    let is_copied_video = |index: u32| {
        media.video_streams().any(|(stream, video)| {
            stream.index == index
                && video_problems(media, (stream, video), client, request).is_empty()
                && video_reasons(stream, video, &device.video).is_empty()
        })
    };
    let is_copied_audio = |index: u32| {
        media.audio_streams().any(|(stream, audio)| {
            stream.index == index
                && audio_problems((stream, audio), client, request).is_empty()
                && audio_reason(stream, audio, &device.audio).is_none()
        })
    };
    let decide = |is_copied: bool, action: TrackAction| if is_copied { TrackAction::Copy } else { action };
    SessionTracks {
        video: tracks.video.map(|(index, action)| (index, decide(is_copied_video(index), action))),
        audio: tracks.audio.map(|(index, action)| (index, decide(is_copied_audio(index), action))),
    }
}

/// The format and the actions of a session that is started with `request`, as far as they follow from the probe: where the keyframes
/// of copied video do not suffice, it is encoded. `tracks` are those of [`decide`](super::super::decide).
pub fn expect_session(
    tracks: SessionTracks,
    media: &Media,
    client: &ClientCapabilities,
    device: &DeviceProfile,
    request: &PlaybackRequest,
) -> (SegmentFormat, SessionTracks) {
    match decide_delivery(media, client, request) {
        Some(SessionDelivery { format: SegmentFormat::Fmp4, video: Some(video), audio, .. }) => {
            let action = |decision: &StreamDecision| (decision.stream, decision.action);
            let tracks = SessionTracks { video: Some(action(&video)), audio: audio.first().map(action) };
            (SegmentFormat::Fmp4, tracks)
        }
        _ => (SegmentFormat::MpegTs, copy_for_client(tracks, media, client, device, request)),
    }
}

/// The decisions of a muxed session, from the reasons why its file is not played directly: a reason about video explains why
/// video is encoded.
pub fn explain_tracks(
    tracks: &SessionTracks,
    rendition: &Rendition,
    reasons: &[TranscodeReason],
) -> Vec<StreamDecision> {
    let explain = |stream: u32, is_encoded: bool, is_about: fn(TranscodeReason) -> bool| {
        let mut own: Vec<EncodeReason> = Vec::new();
        if is_encoded {
            own.extend(reasons.iter().filter(|reason| is_about(**reason)).map(|reason| EncodeReason::Client(*reason)));
            if own.is_empty() {
                own.push(EncodeReason::SegmentFormat);
            }
        }
        let action = if is_encoded { TrackAction::Encode } else { TrackAction::Copy };
        StreamDecision { stream, action, reasons: own }
    };
    let video = tracks.video.map(|(stream, _)| explain(stream, rendition.encodes_video(), is_about_video));
    let audio = tracks.audio.map(|(stream, _)| explain(stream, rendition.encodes_audio(), is_about_audio));
    video.into_iter().chain(audio).collect()
}

fn is_about_video(reason: TranscodeReason) -> bool {
    use TranscodeReason as Reason;
    matches!(
        reason,
        Reason::VideoCodecNotSupported
            | Reason::VideoProfileNotSupported
            | Reason::VideoLevelNotSupported
            | Reason::VideoBitDepthNotSupported
            | Reason::VideoRangeNotSupported
            | Reason::VideoResolutionNotSupported
            | Reason::VideoFramerateNotSupported
            | Reason::InterlacedNotSupported
            | Reason::AnamorphicNotSupported
            | Reason::BitrateExceedsLimit
            | Reason::SubtitleCodecNotSupported
    )
}

fn is_about_audio(reason: TranscodeReason) -> bool {
    matches!(reason, TranscodeReason::AudioCodecNotSupported | TranscodeReason::AudioChannelsNotSupported)
}
