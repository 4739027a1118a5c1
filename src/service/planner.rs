//! From a request to a plan: rendition and grid of a session, known before any segment is made.

use std::sync::Arc;

use serde_json::json;

use super::Service;
use super::sidecars;
use crate::domain::grid::Grid;
use crate::domain::media::{Media, Stream, language_tag};
use crate::domain::plan::{AudioPlan, Rendition, VideoPlan};
use crate::domain::playback::{
    self, Decision, PlaybackRequest, RequestDevice, SubtitleDelivery, TrackAction, TranscodeReason,
};
use crate::domain::playlist::SubtitleRendition;
use crate::domain::time::{round_to_ms, to_seconds, to_ticks};
use crate::engine::RenditionSpec;
use crate::engine::source::SourceFile;
use crate::error::{Code, Error, Result};

mod burned_subtitles;
pub mod channel_item;
mod copied_video;
mod ladder;
mod request_check;
mod video_encode;

pub use ladder::Rung;
use request_check::resolve_request;
pub use video_encode::display_size;
use video_encode::{EncodeLimits, plan_encode};

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
    /// Direct play of the file.
    Direct {
        source: Arc<SourceFile>,
        start_seconds: f64,
        duration_seconds: Option<f64>,
        reasons: Vec<TranscodeReason>,
        /// The requested text subtitle, for players that fetch it themselves.
        subtitle: SubtitleDelivery,
    },
    Session(Box<SessionPlan>),
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

    /// Start of the session's playlists, ticks of the item.
    pub fn list_start(&self) -> i64 {
        match self.request.start_mode {
            StartMode::Tag => 0,
            StartMode::List => self.work().grid.segment_start(start_segment(self)),
        }
    }

    /// [`Self::list_start`] in seconds, as the API reports it.
    pub fn list_start_seconds(&self) -> f64 {
        round_to_ms(to_seconds(self.list_start()))
    }

    /// The work for the best rung.
    pub fn work(&self) -> &Arc<RenditionSpec> {
        &self.top().work
    }
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
    let media = service.media.probe(&source).await?;
    let sidecar = resolve_request(service, &mut request, &source, &media).await?;
    let (decision, mut reasons) = playback::decide(&media, &request.device.profile, &request.playback);
    let tracks = match decision {
        Decision::Refuse => return Err(unplayable_error(&reasons)),
        Decision::Direct => return Ok(plan_direct(service, request, source, &media, reasons)),
        Decision::Session(tracks) => tracks,
    };
    let duration =
        media.duration_seconds.filter(|duration| *duration > 0.0).or_else(|| estimate_duration(&source, &media));
    let package = copied_video::open_package(service, &source, &media, &tracks).await;
    let index = package.as_ref().and_then(|package| package.index().cloned());
    let copied_grid = copied_video::copied_grid(service, &source, &media, &tracks, duration, index).await;
    let (mut ladder_grid, mut no_copy_reason) = (None, None);
    let copied_grid = match (&copied_grid, tracks.video) {
        (Some((grid, _)), Some((stream, _))) if request.playback.is_adaptive => {
            match ladder::encoded_grid(grid, &media, stream) {
                Ok(grid) => {
                    ladder_grid = Some(grid);
                    copied_grid
                }
                Err(reason) => {
                    no_copy_reason = Some(reason);
                    None
                }
            }
        }
        _ => copied_grid,
    };
    let (video, grid, duration) = match (tracks.video, copied_grid) {
        (Some((stream, _)), Some((grid, end))) => (Some(VideoPlan::Copy { stream }), grid, end),
        (Some((stream, action)), None) => {
            let duration = duration.ok_or_else(|| unplayable_error(&reasons))?;
            let encoder = match best_encoder(service).await {
                // Only subtitles need the encoder: direct play with the subtitle's address is better than an error.
                Err(_) if reasons.iter().all(|reason| *reason == TranscodeReason::SubtitleSelected) => {
                    return Ok(plan_direct(service, request, source, &media, Vec::new()));
                }
                found => found?,
            };
            let cannot_copy = action == TrackAction::Copy && no_copy_reason.is_none();
            if cannot_copy && !reasons.contains(&TranscodeReason::ContainerNotSupported) {
                reasons.push(TranscodeReason::ContainerNotSupported);
            }
            let plan = plan_encode(&media, stream, request.encode_limits(), &request.playback.subtitle, encoder)?;
            let grid = Grid::from_frame_rate(plan.frame_rate, service.config.segment_seconds, duration);
            (Some(VideoPlan::Encode(plan)), grid, duration)
        }
        (None, _) => {
            let duration = duration.ok_or_else(|| unplayable_error(&reasons))?;
            (None, Grid::from_step(service.config.segment_seconds, duration), duration)
        }
    };
    let last_start = to_seconds(grid.segment_start(grid.len().saturating_sub(1)));
    request.start_seconds = clamp_start(request.start_seconds, Some(duration), last_start);
    let audio = tracks.audio.map(|(stream, action)| plan_audio(&media, stream, action, &request));
    let rendition = Rendition { video, audio };
    // Copyable video is encoded after all if it cannot be segmented well.
    let package = package.filter(|_| !rendition.encodes_video());
    let fingerprint = source.fingerprint().map_err(Error::internal)?.to_owned();
    let grid = Arc::new(grid);
    let shared_grid = ladder_grid.map_or_else(|| grid.clone(), Arc::new);
    let work = RenditionSpec {
        source,
        fingerprint,
        media,
        rendition: Arc::new(rendition),
        grid,
        sidecar,
        watermark: None,
        package,
    };
    let mut plan = SessionPlan {
        duration_seconds: duration,
        subtitles: plan_subtitles(&work.media, &request.playback.subtitle, work.source.file_name()),
        rungs: vec![Rung::new(Arc::new(work), duration)],
        reasons,
        request,
        no_copy_reason,
    };
    if plan.request.playback.is_adaptive {
        let lower_rungs = ladder::lower_rungs(service, &plan, &shared_grid).await?;
        plan.rungs.extend(lower_rungs);
    }
    Ok(PlannedPlayback::Session(Box::new(plan)))
}

fn plan_direct(
    service: &Service,
    request: StartRequest,
    source: Arc<SourceFile>,
    media: &Media,
    reasons: Vec<TranscodeReason>,
) -> PlannedPlayback {
    let duration_seconds = media.duration_seconds;
    let last_start = duration_seconds.map_or(0.0, |duration| (duration - service.config.segment_seconds).max(0.0));
    let start_seconds = clamp_start(request.start_seconds, duration_seconds, last_start);
    PlannedPlayback::Direct { source, start_seconds, duration_seconds, reasons, subtitle: request.playback.subtitle }
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

async fn best_encoder(service: &Service) -> Result<String> {
    let report = service.local_encoders.report().await;
    let best_name = report.working.first().map(|encoder| encoder.name.to_owned());
    best_name.ok_or_else(|| Error::new(Code::TranscoderUnavailable, "no video encoder works on this machine"))
}

/// Duration from size and bit rate, for streams that do not state it; at most a day.
fn estimate_duration(source: &SourceFile, media: &Media) -> Option<f64> {
    let kbps = media.bitrate_kbps.filter(|kbps| *kbps > 0)?;
    let estimate = source.len as f64 * 8.0 / (f64::from(kbps) * 1000.0);
    (estimate > 0.0).then_some(estimate.min(86_400.0))
}

fn plan_audio(media: &Media, index: u32, action: TrackAction, request: &StartRequest) -> AudioPlan {
    if action == TrackAction::Copy {
        return AudioPlan::Copy { stream: index };
    }
    let channels =
        media.audio_streams().find(|(stream, _)| stream.index == index).map_or(2, |(_, audio)| audio.channels);
    let aac = request.device.profile.audio.iter().find(|support| support.codec.eq_ignore_ascii_case("aac"));
    let device_channels = aac.map_or(2, |support| support.max_channels.unwrap_or(8));
    // More than two channels only on request, because every device plays stereo.
    let is_surround =
        channels >= 6 && device_channels >= 6 && request.playback.max_audio_channels.is_some_and(|max| max >= 6);
    let (channels, kbps) = if is_surround { (6, SURROUND_KBPS) } else { (2, STEREO_KBPS) };
    AudioPlan::Encode { stream: index, channels, kbps, gain_tenths_db: None }
}

fn plan_subtitles(media: &Media, subtitle: &SubtitleDelivery, file_name: &str) -> Option<TextSubtitles> {
    let tag_of = |language: &Option<String>| language.as_deref().and_then(language_tag);
    let rendition = match subtitle {
        SubtitleDelivery::Text { stream } => {
            let stream = media.stream(*stream)?;
            SubtitleRendition {
                name: subtitle_name(stream),
                language: tag_of(&stream.language),
                forced: stream.is_forced,
            }
        }
        SubtitleDelivery::TextSidecar { path } => {
            let name = path.rsplit('/').next().unwrap_or(path);
            let description = sidecars::parse_name(file_name, name);
            let (language, forced) =
                description.map_or((None, false), |description| (tag_of(&description.language), description.forced));
            SubtitleRendition { name: name.to_owned(), language, forced }
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
    plan.work().grid.segment_at(to_ticks(plan.request.start_seconds))
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
