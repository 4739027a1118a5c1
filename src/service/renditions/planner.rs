//! From a request to a plan: rendition and grid of a session, known before any segment is made.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::domain::codec::TargetCodec;
use crate::domain::grid::Grid;
use crate::domain::media::Media;
use crate::domain::plan::AudioPlan;
use crate::domain::playback::capabilities::{ClientCapabilities, StreamDecision, copy_for_client};
use crate::domain::playback::{
    self, Decision, PlaybackRequest, RequestDevice, SessionTracks, TrackAction, TranscodeReason,
};
use crate::domain::segment_format::SegmentFormat;
use crate::domain::time::{Ticks, round_to_ms};
use crate::domain::visibility::Visibility;
use crate::engine::RenditionSpec;
use crate::engine::source::SourceFile;
use crate::error::{Code, Error, Result};
use crate::service::Service;

mod audio_groups;
mod audio_tracks;
mod burned_subtitles;
pub mod channel_copy;
pub mod channel_item;
pub mod channel_tracks;
mod cmaf;
mod converted_copy;
mod copied_video;
mod encode_choice;
mod ladder;
pub mod made_iframes;
mod muxed;
mod rendition;
mod request_check;
mod text_tracks;
mod video_encode;

pub use audio_groups::SessionAudio;
pub use audio_tracks::AudioTrack;
use cmaf::{plan_cmaf, prefer_copy_in_cmaf};
pub use encode_choice::EncodeChoice;
pub use ladder::Rung;
use muxed::plan_muxed;
use rendition::{PlannedRendition, Policy};
use request_check::resolve_request;
pub use text_tracks::TextTrack;
use video_encode::{CodecChoice, EncodeLimits};

/// Bit rates of encoded audio, kbit/s.
const STEREO_KBPS: u32 = 160;
const SURROUND_KBPS: u32 = 384;

/// A viewer's request, parsed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartRequest {
    pub media_path: String,
    pub subtitle: SubtitleRequest,
    pub subtitle_stream: Option<u32>,
    pub subtitle_path: Option<String>,
    pub start_seconds: f64,
    pub device: RequestDevice,
    /// The formats and codecs that the client plays in segments.
    pub capabilities: ClientCapabilities,
    pub start_mode: StartMode,
    /// The request as the decision takes it. Its subtitle is set once the item's tracks are known.
    pub playback: PlaybackRequest,
    /// Of a session that continues after a restart.
    #[serde(skip)]
    pub earlier_choice: Option<EncodeChoice>,
}

impl StartRequest {
    /// The limits of the viewer and of the device.
    fn encode_limits(&self) -> EncodeLimits<'_> {
        let bitrates = [self.playback.max_bitrate_kbps, self.device.profile.max_bitrate_kbps];
        EncodeLimits {
            max_height: self.playback.max_height,
            max_bitrate_kbps: bitrates.into_iter().flatten().min(),
            field_rate: self.field_rate(),
        }
    }

    /// The request with the limits of the device.
    fn limited_playback(&self) -> PlaybackRequest {
        PlaybackRequest { max_bitrate_kbps: self.encode_limits().max_bitrate_kbps, ..self.playback.clone() }
    }

    /// Channels, and bit rate in kbit/s, of the AAC that a track of so many channels is encoded to.
    fn encoded_audio(&self, source_channels: u32) -> (u32, u32) {
        let (limit, device) = (self.playback.max_audio_channels, &self.device.profile);
        match self.capabilities.encoded_channels(source_channels, limit, device) {
            stereo @ ..=2 => (stereo, STEREO_KBPS),
            surround => (surround, SURROUND_KBPS),
        }
    }
}

/// How a session's playlists announce the start position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StartMode {
    /// The playlists list the whole item, with `EXT-X-START`.
    #[default]
    Tag,
    /// The playlists begin with the segment of the start position.
    List,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SubtitleRequest {
    #[default]
    None,
    /// A stream of the item: text as a WebVTT rendition, bitmaps burned in.
    Embedded,
    /// A text file of the library as a WebVTT rendition: the requested one, or otherwise the best sidecar file.
    External,
    /// Burned into the video.
    Burn,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub enum PlannedPlayback {
    Direct(Box<DirectPlay>),
    Session(Box<SessionPlan>),
}

/// A file that is played directly.
#[derive(Clone, Debug)]
pub struct DirectPlay {
    pub source: Arc<SourceFile>,
    /// Its text subtitle is for players that fetch it themselves.
    pub request: StartRequest,
    pub duration_seconds: Option<f64>,
    pub reasons: Vec<TranscodeReason>,
}

/// A rendition of a session that is made in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RenditionId {
    /// A rung of the ladder, with its audio where that is muxed.
    Rung(usize),
    /// An audio rendition beside the video.
    Audio(usize),
}

/// A session before it starts.
#[derive(Clone, Debug)]
pub struct SessionPlan {
    /// The best rung first; more than one only in an adaptive session.
    pub rungs: Vec<Rung>,
    /// The audio renditions beside the video. Empty where video and audio are muxed, and for audio alone.
    pub audio: SessionAudio,
    /// The WebVTT renditions.
    pub subtitles: Vec<TextTrack>,
    pub request: StartRequest,
    pub duration_seconds: f64,
    /// Why the file is not played directly.
    pub reasons: Vec<TranscodeReason>,
    /// The action for each stream that is played, and why.
    pub streams: Vec<StreamDecision>,
    /// Why an adaptive session encodes video that could be copied.
    pub no_copy_reason: Option<&'static str>,
}

impl SessionPlan {
    /// The best rung, which always exists.
    pub fn top(&self) -> &Rung {
        &self.rungs[0]
    }

    /// Start of the session's playlists in the item.
    pub fn list_start(&self) -> Ticks {
        match self.request.start_mode {
            StartMode::Tag => Ticks::ZERO,
            StartMode::List => self.spec().grid.segment_start(start_segment(self)),
        }
    }

    /// [`Self::list_start`] in seconds, as the API reports it.
    pub fn list_start_seconds(&self) -> f64 {
        round_to_ms(self.list_start().as_seconds())
    }

    /// None for a rendition that the session does not have.
    pub fn spec_of(&self, id: RenditionId) -> Option<&Arc<RenditionSpec>> {
        match id {
            RenditionId::Rung(rung) => self.rungs.get(rung).map(|rung| &rung.spec),
            RenditionId::Audio(track) => self.audio.renditions().get(track).map(|track| &track.spec),
        }
    }

    /// The audio that plays first.
    pub fn first_audio(&self) -> Option<&AudioPlan> {
        let beside_video = self.audio.tracks().first().map(|track| &track.spec.rendition);
        beside_video.unwrap_or(&self.spec().rendition).audio.as_ref()
    }

    /// Channels of an audio stream of the file as it is sent; None for a stream that is not, and for video.
    pub fn sent_channels(&self, stream: u32) -> Option<u32> {
        let tracks = self.audio.tracks().iter();
        let renditions = tracks.map(|track| &track.spec.rendition).chain([&self.spec().rendition]);
        let mut plans = renditions.filter_map(|rendition| rendition.audio.as_ref());
        match plans.find(|plan| plan.stream() == stream)? {
            AudioPlan::Encode { channels, .. } => Some(*channels),
            AudioPlan::Copy { .. } => {
                let mut streams = self.spec().media.audio_streams();
                streams.find(|(found, _)| found.index == stream).map(|(_, audio)| audio.channels)
            }
        }
    }

    /// Channels of the AAC that is offered beside a copied stream; None without any.
    pub fn aac_channels(&self, stream: u32) -> Option<u32> {
        match self.audio.aac_of(stream)?.spec.rendition.audio {
            Some(AudioPlan::Encode { channels, .. }) => Some(channels),
            _ => None,
        }
    }

    /// Format of the segments of video and audio.
    pub fn format(&self) -> SegmentFormat {
        self.spec().rendition.format
    }

    /// The rendition of the best rung.
    pub fn spec(&self) -> &Arc<RenditionSpec> {
        &self.top().spec
    }
}

/// An open item, and what is done with its tracks.
#[derive(Clone)]
struct DecidedItem {
    source: Arc<SourceFile>,
    media: Arc<Media>,
    tracks: SessionTracks,
    /// None if it is unknown.
    duration_seconds: Option<f64>,
}

/// The renditions of a session, planned in one format.
struct SessionRenditions {
    /// Those of the best rung: with audio, muxed, in MPEG-TS.
    top: PlannedRendition,
    audio: SessionAudio,
    streams: Vec<StreamDecision>,
    /// All text subtitles can be listed.
    has_text_renditions: bool,
    /// In an adaptive session of copyable video.
    ladder: Option<LadderGrid>,
}

/// The grid of the encoded rungs below copied video, or why it cannot be copied in an adaptive session.
type LadderGrid = std::result::Result<Grid, &'static str>;

/// Plans a session, or decides for direct play.
///
/// # Errors
/// Those of opening and probing; `VALIDATION_ERROR` for tracks and positions the item does not have; `UNPLAYABLE_MEDIA` with
/// reasons; `TRANSCODER_UNAVAILABLE` when video must be encoded and no encoder works.
pub async fn plan_playback(
    service: &Service,
    visibility: &Visibility,
    mut request: StartRequest,
) -> Result<PlannedPlayback> {
    let source = service.library.open_seen(visibility, &request.media_path).await?;
    let media = service.media.probe(&source).await?.media;
    let sidecar = resolve_request(service, visibility, &mut request, &source, &media).await?;
    let (decision, mut reasons) = playback::decide(&media, &request.device.profile, &request.playback);
    let tracks = match decision {
        Decision::Refuse => return Err(unplayable_error(&reasons)),
        Decision::Direct => return Ok(plan_direct(service, request, source, &media, reasons)),
        Decision::Session(tracks) => {
            let (capabilities, profile) = (&request.capabilities, &request.device.profile);
            copy_for_client(tracks, &media, capabilities, profile, &request.limited_playback())
        }
    };
    let duration_seconds =
        media.duration_seconds.filter(|duration| *duration > 0.0).or_else(|| estimate_duration(&source, &media));
    let policy = session_policy(&media, tracks.audio, &request, sidecar);
    let item = DecidedItem { source: source.clone(), media: media.clone(), tracks, duration_seconds };
    let cmaf = plan_cmaf(service, &request, &item, policy.clone()).await?;
    let renditions = match cmaf {
        Some(renditions) => renditions,
        None => {
            let muxed = plan_muxed(service, &request, item.clone(), policy.clone(), &mut reasons).await;
            match prefer_copy_in_cmaf(service, &request, &item, policy, muxed).await {
                // Only subtitles need the encoder: direct play with the subtitle's address is better than an error.
                Err(fault)
                    if fault.code == Code::TranscoderUnavailable
                        && reasons.iter().all(|reason| *reason == TranscodeReason::SubtitleSelected) =>
                {
                    return Ok(plan_direct(service, request, source, &media, Vec::new()));
                }
                planned => planned?,
            }
        }
    };
    let PlannedRendition { spec, duration_seconds, .. } = renditions.top;
    let grid = spec.grid.clone();
    let last_start = grid.segment_start(grid.len().saturating_sub(1)).as_seconds();
    request.start_seconds = clamp_start(request.start_seconds, Some(duration_seconds), last_start);
    let subtitles = match renditions.has_text_renditions {
        true => text_tracks::plan_all(service, &source, &media, &request.playback.subtitle).await?,
        false => {
            text_tracks::plan_requested(&media, &request.playback.subtitle, source.file_name()).into_iter().collect()
        }
    };
    let (ladder_grid, no_copy_reason) = match renditions.ladder {
        Some(Ok(grid)) => (Arc::new(grid), None),
        refused => (grid, refused.and_then(Result::err)),
    };
    let mut plan = SessionPlan {
        rungs: vec![Rung::new(Arc::new(spec), duration_seconds)],
        audio: renditions.audio,
        subtitles,
        request,
        duration_seconds,
        reasons,
        streams: renditions.streams,
        no_copy_reason,
    };
    if plan.request.playback.is_adaptive {
        let lower_rungs = ladder::lower_rungs(service, &plan, &ladder_grid).await?;
        plan.rungs.extend(lower_rungs);
    }
    Ok(PlannedPlayback::Session(Box::new(plan)))
}

fn plan_direct(
    service: &Service,
    mut request: StartRequest,
    source: Arc<SourceFile>,
    media: &Media,
    reasons: Vec<TranscodeReason>,
) -> PlannedPlayback {
    let duration_seconds = media.duration_seconds;
    let last_start = duration_seconds.map_or(0.0, |duration| (duration - service.config.segment_seconds).max(0.0));
    request.start_seconds = clamp_start(request.start_seconds, duration_seconds, last_start);
    PlannedPlayback::Direct(Box::new(DirectPlay { source, request, duration_seconds, reasons }))
}

fn unplayable_error(reasons: &[TranscodeReason]) -> Error {
    let reasons: Vec<&str> = reasons.iter().map(|reason| reason.as_str()).collect();
    Error::new(Code::UnplayableMedia, "this file has no playable stream").with_details(json!({"reasons": reasons}))
}

/// The start position. A start at or past the end becomes the start of the last segment, because players save their position
/// at the end.
fn clamp_start(start_seconds: f64, duration: Option<f64>, last_segment: f64) -> f64 {
    match duration {
        Some(duration) if start_seconds > 0.0 && start_seconds >= duration => round_to_ms(last_segment),
        _ => start_seconds,
    }
}

/// Duration from size and bit rate, for streams that do not state it; at most a day.
fn estimate_duration(source: &SourceFile, media: &Media) -> Option<f64> {
    let kbps = media.bitrate_kbps.filter(|kbps| *kbps > 0)?;
    let estimate = source.len as f64 * 8.0 / (f64::from(kbps) * 1000.0);
    (estimate > 0.0).then_some(estimate.min(86_400.0))
}

/// How the tracks of a session are encoded that are not copied.
fn session_policy<'a>(
    media: &Media,
    track: Option<(u32, TrackAction)>,
    request: &'a StartRequest,
    sidecar: Option<Arc<SourceFile>>,
) -> Policy<'a> {
    let found = media.audio_streams().find(|(stream, _)| track.is_some_and(|(index, _)| stream.index == index));
    let (audio_channels, audio_kbps) = request.encoded_audio(found.map_or(2, |(_, audio)| audio.channels));
    let (limits, subtitle) = (request.encode_limits(), &request.playback.subtitle);
    let format = SegmentFormat::MpegTs;
    let codec = CodecChoice::Fixed(TargetCodec::H264);
    Policy { limits, codec, subtitle, sidecar, frame_rate: None, audio_channels, audio_kbps, format }
}

/// The segment of the start position. A start within the last segment is still inside the item.
pub fn start_segment(plan: &SessionPlan) -> usize {
    plan.spec().grid.segment_at(Ticks::from_seconds(plan.request.start_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_past_the_end_is_one_at_the_last_segment() {
        for (start, duration, expected) in [
            (0.0, Some(0.0), 0.0),
            (9.999, Some(10.0), 9.999),
            (10.0, Some(10.0), 8.008),
            (1e9, Some(10.0), 8.008),
            (10.0, None, 10.0),
        ] {
            assert_eq!(clamp_start(start, duration, 8.008), expected);
        }
    }
}
