//! From a request to a plan: rendition and grid of a session, known before any segment is made.

use std::sync::Arc;

use serde_json::json;

use crate::domain::grid::Grid;
use crate::domain::media::{Media, Stream, language_tag};
use crate::domain::playback::{
    self, Decision, PlaybackRequest, RequestDevice, SessionTracks, SubtitleDelivery, TrackAction, TranscodeReason,
};
use crate::domain::playlist::SubtitleRendition;
use crate::domain::time::{Ticks, round_to_ms};
use crate::engine::RenditionSpec;
use crate::engine::source::SourceFile;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::library::sidecars;

mod burned_subtitles;
pub mod channel_item;
mod copied_video;
mod ladder;
mod rendition;
mod request_check;
mod video_encode;

pub use ladder::Rung;
use rendition::{PlannedRendition, Policy, plan_rendition};
use request_check::resolve_request;
use video_encode::EncodeLimits;
pub use video_encode::display_size;

/// Bit rates of encoded audio, kbit/s.
const STEREO_KBPS: u32 = 160;
const SURROUND_KBPS: u32 = 384;

/// A viewer's request, parsed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartRequest {
    pub media_path: String,
    pub subtitle: SubtitleRequest,
    pub subtitle_stream: Option<u32>,
    pub subtitle_path: Option<String>,
    pub start_seconds: f64,
    pub device: RequestDevice,
    pub start_mode: StartMode,
    /// The request as the decision takes it. Its subtitle is set once the item's tracks are known.
    pub playback: PlaybackRequest,
}

impl StartRequest {
    /// The limits of the viewer and of the device.
    fn encode_limits(&self) -> EncodeLimits {
        let bitrates = [self.playback.max_bitrate_kbps, self.device.profile.max_bitrate_kbps];
        EncodeLimits { max_height: self.playback.max_height, max_bitrate_kbps: bitrates.into_iter().flatten().min() }
    }
}

/// How a session's playlists announce the start position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartMode {
    /// The playlists list the whole item, with `EXT-X-START`.
    #[default]
    Tag,
    /// The playlists begin with the segment of the start position.
    List,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// A session before it starts.
#[derive(Clone, Debug)]
pub struct SessionPlan {
    /// The best rung first; more than one only in an adaptive session.
    pub rungs: Vec<Rung>,
    pub request: StartRequest,
    pub duration_seconds: f64,
    pub reasons: Vec<TranscodeReason>,
    /// The WebVTT rendition.
    pub subtitles: Option<TextSubtitles>,
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

    /// The rendition of the best rung.
    pub fn spec(&self) -> &Arc<RenditionSpec> {
        &self.top().spec
    }
}

/// An open item, and what is done with its tracks.
struct DecidedItem {
    source: Arc<SourceFile>,
    media: Arc<Media>,
    tracks: SessionTracks,
    /// None if it is unknown.
    duration_seconds: Option<f64>,
}

/// A text subtitle that becomes a WebVTT rendition.
#[derive(Clone, Debug, PartialEq)]
pub struct TextSubtitles {
    pub delivery: SubtitleDelivery,
    pub rendition: SubtitleRendition,
}

/// Plans a session, or decides for direct play.
///
/// # Errors
/// Those of opening and probing; `VALIDATION_ERROR` for tracks and positions the item does not have; `UNPLAYABLE_MEDIA` with
/// reasons; `TRANSCODER_UNAVAILABLE` when video must be encoded and no encoder works.
pub async fn plan_playback(service: &Service, mut request: StartRequest) -> Result<PlannedPlayback> {
    let source = service.library.open(&request.media_path).await?;
    let media = service.media.probe(&source).await?.media;
    let sidecar = resolve_request(service, &mut request, &source, &media).await?;
    let (decision, mut reasons) = playback::decide(&media, &request.device.profile, &request.playback);
    let tracks = match decision {
        Decision::Refuse => return Err(unplayable_error(&reasons)),
        Decision::Direct => return Ok(plan_direct(service, request, source, &media, reasons)),
        Decision::Session(tracks) => tracks,
    };
    let chosen_video = tracks.video;
    let mut ladder_grid = None;
    let accepts_copy = |copied_grid: &Grid| match chosen_video {
        Some((stream, _)) if request.playback.is_adaptive => {
            ladder_grid.insert(ladder::encoded_grid(copied_grid, &media, stream)).is_ok()
        }
        _ => true,
    };
    let policy = session_policy(&media, tracks.audio, &request, sidecar);
    let duration_seconds =
        media.duration_seconds.filter(|duration| *duration > 0.0).or_else(|| estimate_duration(&source, &media));
    let item = DecidedItem { source: source.clone(), media: media.clone(), tracks, duration_seconds };
    let planned = match plan_rendition(service, item, policy, accepts_copy).await {
        // Only subtitles need the encoder: direct play with the subtitle's address is better than an error.
        Err(fault)
            if fault.code == Code::TranscoderUnavailable
                && reasons.iter().all(|reason| *reason == TranscodeReason::SubtitleSelected) =>
        {
            return Ok(plan_direct(service, request, source, &media, Vec::new()));
        }
        planned => planned?,
    };
    let PlannedRendition { spec, duration_seconds, .. } = planned.ok_or_else(|| unplayable_error(&reasons))?;
    let (ladder_grid, no_copy_reason) = match ladder_grid {
        Some(Ok(grid)) => (Arc::new(grid), None),
        refused => (spec.grid.clone(), refused.and_then(Result::err)),
    };
    let cannot_copy = spec.rendition.encodes_video()
        && matches!(chosen_video, Some((_, TrackAction::Copy)))
        && no_copy_reason.is_none();
    if cannot_copy && !reasons.contains(&TranscodeReason::ContainerNotSupported) {
        reasons.push(TranscodeReason::ContainerNotSupported);
    }
    let last_start = spec.grid.segment_start(spec.grid.len().saturating_sub(1)).as_seconds();
    request.start_seconds = clamp_start(request.start_seconds, Some(duration_seconds), last_start);
    let mut plan = SessionPlan {
        duration_seconds,
        subtitles: plan_subtitles(&spec.media, &request.playback.subtitle, spec.source.file_name()),
        rungs: vec![Rung::new(Arc::new(spec), duration_seconds)],
        reasons,
        request,
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
    let channels = found.map_or(2, |(_, audio)| audio.channels);
    let aac = request.device.profile.audio.iter().find(|support| support.codec.eq_ignore_ascii_case("aac"));
    let device_channels = aac.map_or(2, |support| support.max_channels.unwrap_or(8));
    // More than two channels only on request, because every device plays stereo.
    let is_surround =
        channels >= 6 && device_channels >= 6 && request.playback.max_audio_channels.is_some_and(|max| max >= 6);
    let (audio_channels, audio_kbps) = if is_surround { (6, SURROUND_KBPS) } else { (2, STEREO_KBPS) };
    let (limits, subtitle) = (request.encode_limits(), &request.playback.subtitle);
    Policy { limits, subtitle, sidecar, frame_rate: None, audio_channels, audio_kbps }
}

fn plan_subtitles(media: &Media, subtitle: &SubtitleDelivery, file_name: &str) -> Option<TextSubtitles> {
    let tag_of = |language: &Option<String>| language.as_deref().and_then(language_tag);
    let rendition = match subtitle {
        SubtitleDelivery::Text { stream } => {
            let stream = media.stream(*stream)?;
            SubtitleRendition {
                name: subtitle_name(stream),
                language: tag_of(&stream.language),
                is_default: true,
                is_forced: stream.is_forced,
                is_hearing_impaired: false,
            }
        }
        SubtitleDelivery::TextSidecar { path } => {
            let name = path.rsplit('/').next().unwrap_or(path);
            let description = sidecars::parse_name(file_name, name);
            let (language, forced) =
                description.map_or((None, false), |description| (tag_of(&description.language), description.forced));
            SubtitleRendition {
                name: name.to_owned(),
                language,
                is_default: true,
                is_forced: forced,
                is_hearing_impaired: false,
            }
        }
        SubtitleDelivery::None | SubtitleDelivery::Burn(_) => return None,
    };
    Some(TextSubtitles { delivery: subtitle.clone(), rendition })
}

fn subtitle_name(stream: &Stream) -> String {
    let name = stream.title.clone().or_else(|| stream.language.clone());
    name.unwrap_or_else(|| format!("Subtitle {}", stream.index))
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
