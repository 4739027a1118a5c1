//! The response of `POST /api/stream/transcode/start`: a session, or the URL of the file itself.

use std::time::Duration;

use jiff::Timestamp;

use super::{GRANT_SECONDS, grant_expiry, session_grant};
use crate::domain::access::Principal;
use crate::domain::media::StreamKind;
use crate::domain::plan::{AudioPlan, VideoPlan};
use crate::domain::playback::capabilities::{EncodeReason, StreamDecision};
use crate::domain::playback::{SubtitleDelivery, TrackAction, TranscodeReason};
use crate::domain::time::{format_timestamp, round_to_ms};
use crate::http::api::device::DeviceBody;
use crate::http::api::prelude::*;
use crate::service::library::sidecars;
use crate::service::renditions::planner::{DirectPlay, SessionPlan};
use crate::service::sessions::Session;

/// A started session, or the URL of the file itself.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Started {
    /// Null when the file is played directly.
    session_id: Option<String>,
    /// `transcode` (copied video too) or `direct`.
    playback_mode: &'static str,
    playlist_url: Option<String>,
    /// For players that cannot send a header.
    signed_playlist_url: Option<String>,
    direct_url: Option<String>,
    signed_direct_url: Option<String>,
    /// The requested text subtitle as WebVTT, if the file is played directly.
    subtitle_url: Option<String>,
    signed_subtitle_url: Option<String>,
    /// Start position on the timeline of the item.
    start_position_seconds: f64,
    /// Position in the item at which the session's playlists begin, the player's 0: with `startMode` `list` the start of the
    /// first listed segment, otherwise 0. Add it to the player's position to get the position to save.
    timeline_start_seconds: f64,
    duration_seconds: Option<f64>,
    segment_seconds: Option<f64>,
    decision: DecisionBody,
    /// When the signed URLs expire.
    expires_at: String,
    idle_timeout_seconds: Option<u64>,
    /// The audio tracks and subtitles of the session, each once, in the order of each group of its multivariant playlist. Null if
    /// the file is played directly.
    renditions: Option<RenditionsBody>,
}

#[derive(Debug, Serialize, ToSchema)]
struct RenditionsBody {
    /// The first one plays unless the player chooses another. Empty if the audio is in the segments of the video.
    audio: Vec<RenditionBody>,
    subtitles: Vec<RenditionBody>,
}

/// A rendition of a session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Rendition)]
struct RenditionBody {
    /// Index of the stream in the file; null for a subtitle file.
    stream_index: Option<u32>,
    /// Path of the subtitle file.
    path: Option<String>,
    name: String,
}

/// The action for a stream that is played.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StreamDecision)]
struct StreamBody {
    /// Index in the file.
    index: u32,
    /// `video` or `audio`.
    kind: &'static str,
    /// Codec in the file.
    codec: String,
    /// `copy` or `encode`.
    action: &'static str,
    /// Codec that it is encoded in: `h264`, `hevc`, `av1` or `aac`. Null for a copy.
    encoded_codec: Option<&'static str>,
    /// Channels of audio as it is sent, copied or encoded; null for video.
    channels: Option<u32>,
    /// Channels of the AAC that the session offers beside this copy, as another audio group of its multivariant playlist; null
    /// without any.
    aac_channels: Option<u32>,
    /// Why it is encoded: a reason as in `reasons` of the decision, `SEGMENT_FORMAT_NOT_SUPPORTED` (segments cannot contain the
    /// codec), `ORIENTATION_NOT_SUPPORTED` (rotated by its container), `KEYFRAMES_NOT_SUPPORTED` (too far apart),
    /// `PARAMETER_SETS_NOT_SUPPORTED` (those of HEVC in a transport stream change) or `AUDIO_ENDS_EARLY` (encoded
    /// audio continues with silence).
    reasons: Vec<&'static str>,
}

#[derive(Debug, Default, Serialize, ToSchema)]
struct DecisionBody {
    /// `direct` or `transmux`.
    container: &'static str,
    /// `direct`, `copy`, `encode`, or null when the item has none.
    video: Option<&'static str>,
    audio: Option<&'static str>,
    /// `none`, `webvtt` (a rendition of the session, or `subtitleUrl`) or `burn`.
    subtitle: &'static str,
    reasons: Vec<&'static str>,
    /// Format of the session's segments: `mpeg-ts` or `fmp4`.
    format: Option<&'static str>,
    /// The streams of a session.
    streams: Vec<StreamBody>,
    device: DeviceBody,
}

impl Started {
    /// The response for a file that is played directly.
    ///
    /// # Errors
    /// As [`sidecars::list_sidecars`].
    pub(super) async fn for_file(service: &Service, user: &Principal, play: &DirectPlay) -> Result<Self> {
        let (source, request) = (&play.source, &play.request);
        let subtitle_id = match &request.playback.subtitle {
            SubtitleDelivery::None | SubtitleDelivery::Burn(_) => None,
            SubtitleDelivery::Text { stream } => Some(format!("e{stream}")),
            SubtitleDelivery::TextSidecar { path } => {
                let sidecars = sidecars::list_sidecars(&service.library, source).await?;
                sidecars.into_iter().find(|sidecar| sidecar.path == *path).map(|sidecar| sidecar.id)
            }
        };
        let urls = ResourceUrls::from_config(&service.config);
        let subtitle_url = subtitle_id.map(|id| urls.subtitle(&source.path, &id));
        let until = Timestamp::now() + Duration::from_secs(GRANT_SECONDS.unsigned_abs());
        let url = urls.media_file(&source.path);
        let grant = service.accounts.sign_grant(user, &format!("stream/file:{}", source.path), until.as_second());
        Ok(Self {
            playback_mode: "direct",
            signed_direct_url: Some(format!("{url}&st={grant}")),
            direct_url: Some(url),
            signed_subtitle_url: subtitle_url.as_ref().map(|url| format!("{url}&st={grant}")),
            start_position_seconds: request.start_seconds,
            duration_seconds: play.duration_seconds.map(round_to_ms),
            decision: DecisionBody {
                container: "direct",
                video: Some("direct"),
                audio: Some("direct"),
                subtitle: if subtitle_url.is_some() { "webvtt" } else { "none" },
                reasons: reason_codes(&play.reasons),
                device: DeviceBody::new(&request.device),
                ..DecisionBody::default()
            },
            subtitle_url,
            expires_at: format_timestamp(until),
            ..Self::default()
        })
    }

    /// The response for a file that is played in a session.
    pub(super) fn for_session(service: &Service, principal: &Principal, session: &Session) -> Self {
        let (plan, rendition) = (&session.plan, &session.plan.spec().rendition);
        let url = ResourceUrls::from_config(&service.config).session_playlist(&session.id);
        let video = rendition.video.as_ref();
        let burns_subtitles = matches!(video, Some(VideoPlan::Encode(encode)) if encode.burn.is_some());
        Self {
            session_id: Some(session.id.clone()),
            playback_mode: "transcode",
            signed_playlist_url: Some(format!("{url}?st={}", session_grant(service, principal, session))),
            playlist_url: Some(url),
            start_position_seconds: plan.request.start_seconds,
            timeline_start_seconds: plan.list_start_seconds(),
            duration_seconds: Some(round_to_ms(plan.duration_seconds)),
            segment_seconds: Some(service.config.segment_seconds),
            decision: DecisionBody {
                container: "transmux",
                video: video.map(|plan| if matches!(plan, VideoPlan::Copy { .. }) { "copy" } else { "encode" }),
                audio: plan.first_audio().map(audio_action),
                subtitle: match plan.subtitles.iter().any(|track| track.description.is_default) {
                    _ if burns_subtitles => "burn",
                    true => "webvtt",
                    false => "none",
                },
                reasons: reason_codes(&plan.reasons),
                format: Some(plan.format().as_str()),
                streams: plan.streams.iter().filter_map(|decision| StreamBody::new(plan, decision)).collect(),
                device: DeviceBody::new(&plan.request.device),
            },
            expires_at: format_timestamp(grant_expiry(session)),
            idle_timeout_seconds: Some(service.config.limits.session_idle.as_secs()),
            renditions: Some(RenditionsBody::new(plan)),
            ..Self::default()
        }
    }
}

impl RenditionsBody {
    fn new(plan: &SessionPlan) -> Self {
        let audio = plan.audio.tracks().iter().map(|track| RenditionBody {
            stream_index: Some(track.stream),
            path: None,
            name: track.description.name.clone(),
        });
        let subtitles = plan.subtitles.iter().map(|track| {
            let (stream_index, path) = match &track.delivery {
                SubtitleDelivery::Text { stream } => (Some(*stream), None),
                SubtitleDelivery::TextSidecar { path } => (None, Some(path.clone())),
                SubtitleDelivery::None | SubtitleDelivery::Burn(_) => (None, None),
            };
            RenditionBody { stream_index, path, name: track.description.name.clone() }
        });
        Self { audio: audio.collect(), subtitles: subtitles.collect() }
    }
}

impl StreamBody {
    fn new(plan: &SessionPlan, decision: &StreamDecision) -> Option<Self> {
        let stream = plan.spec().media.stream(decision.stream)?;
        let is_video = matches!(stream.kind, StreamKind::Video(_));
        let encoded_codec = match (&plan.spec().rendition.video, decision.action) {
            (_, TrackAction::Copy) => None,
            (Some(VideoPlan::Encode(encode)), TrackAction::Encode) if is_video => Some(encode.codec.as_str()),
            (_, TrackAction::Encode) => Some("aac"),
        };
        Some(Self {
            index: decision.stream,
            kind: if is_video { "video" } else { "audio" },
            encoded_codec,
            codec: stream.codec.clone(),
            action: if decision.action == TrackAction::Copy { "copy" } else { "encode" },
            channels: plan.sent_channels(decision.stream),
            aac_channels: plan.aac_channels(decision.stream),
            reasons: decision.reasons.iter().map(|reason| encode_reason_code(*reason)).collect(),
        })
    }
}

fn encode_reason_code(reason: EncodeReason) -> &'static str {
    match reason {
        EncodeReason::Client(reason) | EncodeReason::Request(reason) => reason.as_str(),
        EncodeReason::SegmentFormat => "SEGMENT_FORMAT_NOT_SUPPORTED",
        EncodeReason::Orientation => "ORIENTATION_NOT_SUPPORTED",
        EncodeReason::Keyframes => "KEYFRAMES_NOT_SUPPORTED",
        EncodeReason::ParameterSets => "PARAMETER_SETS_NOT_SUPPORTED",
        EncodeReason::EndsEarly => "AUDIO_ENDS_EARLY",
    }
}

fn reason_codes(reasons: &[TranscodeReason]) -> Vec<&'static str> {
    reasons.iter().map(|reason| reason.as_str()).collect()
}

/// `copy` or `encode`.
pub(super) fn audio_action(plan: &AudioPlan) -> &'static str {
    if matches!(plan, AudioPlan::Copy { .. }) { "copy" } else { "encode" }
}
