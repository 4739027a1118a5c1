//! From a request to a plan: rendition and grid of a session, known before any segment is made.

use std::sync::Arc;

use serde_json::json;

use super::Service;
use super::runs::Work;
use super::sidecars;
use crate::domain::grid::Grid;
use crate::domain::media::{Media, Stream, language_tag};
use crate::domain::plan::{AudioPlan, Rendition, VideoPlan};
use crate::domain::playback::{self, TrackAction, Decision, RequestDevice, TranscodeReason, SubtitleDelivery, PlaybackRequest};
use crate::domain::playlist::SubtitleRendition;
use crate::domain::time::{round_to_ms, to_seconds, to_ticks};
use crate::engine::source::SourceFile;
use crate::error::{Code, Error, Result};

pub mod air;
mod copied;
mod drawn;
mod ladder;
mod picture;
mod wishes;

pub use ladder::Rung;
pub use picture::display_size;
use picture::encode;
use wishes::wish;

/// Bit rates of encoded audio, kbit/s.
const STEREO_KBPS: u32 = 160;
const SURROUND_KBPS: u32 = 384;

/// A viewer's request, parsed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartRequest {
    pub media_path: String,
    pub audio_stream: Option<u32>,
    pub subtitle: SubtitleRequest,
    pub subtitle_stream: Option<u32>,
    pub subtitle_path: Option<String>,
    pub start_seconds: f64,
    /// None: the original height.
    pub max_height: Option<u32>,
    pub max_bitrate_kbps: Option<u32>,
    pub max_audio_channels: Option<u32>,
    pub device: RequestDevice,
    pub start_mode: StartMode,
    pub force_transcode: bool,
    /// Adaptive: offer every rung up to the best one, so that the player can switch between them.
    pub abr: bool,
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
pub enum Planned {
    /// Direct play of the file.
    Direct {
        source: Arc<SourceFile>,
        start_seconds: f64,
        duration_seconds: Option<f64>,
        reasons: Vec<TranscodeReason>,
        /// The requested text subtitle, for players that fetch it themselves.
        subtitle: SubtitleDelivery,
    },
    Session(Box<Plan>),
}

/// A session before it starts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The best rung first; more than one only in an adaptive session.
    pub rungs: Vec<Rung>,
    pub request: StartRequest,
    pub duration_seconds: f64,
    pub reasons: Vec<TranscodeReason>,
    /// The WebVTT rendition.
    pub subtitles: Option<TextSubtitles>,
    /// Why an adaptive session encodes video that could be copied.
    pub copy_left_out: Option<&'static str>,
}

impl Plan {
    /// The best rung, which always exists.
    pub fn top(&self) -> &Rung {
        &self.rungs[0]
    }

    /// Start of the session's playlists, ticks of the item.
    pub fn list_start(&self) -> i64 {
        match self.request.start_mode {
            StartMode::Tag => 0,
            StartMode::List => self.work().grid.segment_start(first_wanted(self)),
        }
    }

    /// [`Self::list_start`] in seconds, as the API reports it.
    pub fn list_start_seconds(&self) -> f64 {
        round_to_ms(to_seconds(self.list_start()))
    }

    /// The work for the best rung.
    pub fn work(&self) -> &Work {
        &self.top().work
    }
}

/// A text subtitle that becomes a WebVTT rendition.
#[derive(Clone, Debug, PartialEq)]
pub struct TextSubtitles {
    pub wish: SubtitleDelivery,
    pub rendition: SubtitleRendition,
}

/// Plans a session, or decides for direct play.
///
/// # Errors
/// Those of opening and probing; `VALIDATION_ERROR` for tracks and positions the item does not have; `UNPLAYABLE_MEDIA` with
/// reasons; `TRANSCODER_UNAVAILABLE` when video must be encoded and no encoder works.
pub async fn plan(service: &Service, mut request: StartRequest) -> Result<Planned> {
    let source = service.library.open(&request.media_path).await?;
    let media = service.media.probe(&source).await?;
    let (wish, sidecar) = wish(service, &request, &source, &media).await?;
    let (decision, mut reasons) = playback::decide(&media, &request.device.profile, &wish);
    let tracks = match decision {
        Decision::Refuse => return Err(unplayable(&reasons)),
        Decision::Direct => return Ok(direct(service, &request, source, &media, wish, reasons)),
        Decision::Session(tracks) => tracks,
    };
    let duration = media.duration_seconds.filter(|duration| *duration > 0.0).or_else(|| estimate(&source, &media));
    let package = copied::package(service, &source, &media, &tracks).await;
    let index = package.as_ref().and_then(|package| package.index().cloned());
    let copied = copied::grid(service, &source, &media, &tracks, duration, index).await;
    let (mut beside, mut copy_left_out) = (None, None);
    let copied = match (&copied, tracks.video) {
        (Some((grid, _)), Some((stream, _))) if request.abr => match ladder::beside(grid, &media, stream) {
            Ok(grid) => {
                beside = Some(grid);
                copied
            }
            Err(why) => {
                copy_left_out = Some(why);
                None
            }
        },
        _ => copied,
    };
    let (video, grid, duration) = match (tracks.video, copied) {
        (Some((stream, _)), Some((grid, end))) => (Some(VideoPlan::Copy { stream }), grid, end),
        (Some((stream, action)), None) => {
            let duration = duration.ok_or_else(|| unplayable(&reasons))?;
            let encoder = match encoder(service).await {
                // Only subtitles need the encoder: direct play with the subtitle's address is better than an error.
                Err(_) if reasons.iter().all(|reason| *reason == TranscodeReason::SubtitleSelected) => {
                    return Ok(direct(service, &request, source, &media, wish, Vec::new()));
                }
                found => found?,
            };
            let cannot = action == TrackAction::Copy && copy_left_out.is_none();
            if cannot && !reasons.contains(&TranscodeReason::ContainerNotSupported) {
                reasons.push(TranscodeReason::ContainerNotSupported);
            }
            let plan = encode(&media, stream, &request, &wish, encoder)?;
            let grid = Grid::from_frame_rate(plan.frame_rate, service.config.segment_seconds, duration);
            (Some(VideoPlan::Encode(plan)), grid, duration)
        }
        (None, _) => {
            let duration = duration.ok_or_else(|| unplayable(&reasons))?;
            (None, Grid::from_step(service.config.segment_seconds, duration), duration)
        }
    };
    let last = to_seconds(grid.segment_start(grid.len().saturating_sub(1)));
    request.start_seconds = start_within(request.start_seconds, Some(duration), last);
    let audio = tracks.audio.map(|(stream, action)| audio(&media, stream, action, &request));
    let rendition = Rendition { video, audio };
    // Copyable video is encoded after all if it cannot be segmented well.
    let package = package.filter(|_| !rendition.encodes_video());
    let fingerprint = source.fingerprint().map_err(Error::internal)?.to_owned();
    let grid = Arc::new(grid);
    let shared = beside.map_or_else(|| grid.clone(), Arc::new);
    let work =
        Work { source, fingerprint, media, rendition: Arc::new(rendition), grid, sidecar, picture: None, package };
    let mut plan = Plan {
        duration_seconds: duration,
        subtitles: text_subtitles(&work.media, &wish, work.source.file_name()),
        rungs: vec![Rung::new(work, duration)],
        reasons,
        request,
        copy_left_out,
    };
    if plan.request.abr {
        let lower = ladder::lower(service, &plan, &wish, &shared).await?;
        plan.rungs.extend(lower);
    }
    Ok(Planned::Session(Box::new(plan)))
}

fn direct(
    service: &Service,
    request: &StartRequest,
    source: Arc<SourceFile>,
    media: &Media,
    wish: PlaybackRequest,
    reasons: Vec<TranscodeReason>,
) -> Planned {
    let duration_seconds = media.duration_seconds;
    let last = duration_seconds.map_or(0.0, |duration| (duration - service.config.segment_seconds).max(0.0));
    let start_seconds = start_within(request.start_seconds, duration_seconds, last);
    Planned::Direct { source, start_seconds, duration_seconds, reasons, subtitle: wish.subtitle }
}

fn unplayable(reasons: &[TranscodeReason]) -> Error {
    let reasons: Vec<&str> = reasons.iter().map(|reason| reason.as_str()).collect();
    Error::new(Code::UnplayableMedia, "this file has no playable stream").with_details(json!({"reasons": reasons}))
}

/// The start position. A start at or past the end becomes the start of the last segment, because players save their position
/// at the end.
fn start_within(start_seconds: f64, duration: Option<f64>, last_segment: f64) -> f64 {
    match duration {
        Some(duration) if start_seconds > 0.0 && start_seconds >= duration => round_to_ms(last_segment),
        _ => start_seconds,
    }
}

async fn encoder(service: &Service) -> Result<String> {
    let report = service.transcoder.report().await;
    let best = report.working.first().map(|encoder| encoder.name.to_owned());
    best.ok_or_else(|| Error::new(Code::TranscoderUnavailable, "no video encoder works on this machine"))
}

/// Duration from size and bit rate, for streams that do not state it; at most a day.
fn estimate(source: &SourceFile, media: &Media) -> Option<f64> {
    let kbps = media.bitrate_kbps.filter(|kbps| *kbps > 0)?;
    let estimate = source.len as f64 * 8.0 / (f64::from(kbps) * 1000.0);
    (estimate > 0.0).then_some(estimate.min(86_400.0))
}

fn audio(media: &Media, index: u32, action: TrackAction, request: &StartRequest) -> AudioPlan {
    if action == TrackAction::Copy {
        return AudioPlan::Copy { stream: index };
    }
    let channels = media.audio_streams().find(|(stream, _)| stream.index == index).map_or(2, |(_, audio)| audio.channels);
    let aac = request.device.profile.audio.iter().find(|support| support.codec.eq_ignore_ascii_case("aac"));
    let device = aac.map_or(2, |support| support.max_channels.unwrap_or(8));
    // More than two channels only on request, because every device plays stereo.
    let surround = channels >= 6 && device >= 6 && request.max_audio_channels.is_some_and(|most| most >= 6);
    let (channels, kbps) = if surround { (6, SURROUND_KBPS) } else { (2, STEREO_KBPS) };
    AudioPlan::Encode { stream: index, channels, kbps, gain_tenths_db: None }
}

fn text_subtitles(media: &Media, wish: &PlaybackRequest, file_name: &str) -> Option<TextSubtitles> {
    let tag = |language: &Option<String>| language.as_deref().and_then(language_tag);
    let rendition = match &wish.subtitle {
        SubtitleDelivery::Text { stream } => {
            let stream = media.stream(*stream)?;
            SubtitleRendition { name: subtitle_name(stream), language: tag(&stream.language), forced: stream.is_forced }
        }
        SubtitleDelivery::TextSidecar { path } => {
            let name = path.rsplit('/').next().unwrap_or(path);
            let told = sidecars::described(file_name, name);
            let (language, forced) = told.map_or((None, false), |told| (tag(&told.language), told.forced));
            SubtitleRendition { name: name.to_owned(), language, forced }
        }
        SubtitleDelivery::None | SubtitleDelivery::Burn(_) => return None,
    };
    Some(TextSubtitles { wish: wish.subtitle.clone(), rendition })
}

fn subtitle_name(stream: &Stream) -> String {
    let named = stream.title.clone().or_else(|| stream.language.clone());
    named.unwrap_or_else(|| format!("Subtitle {}", stream.index))
}

/// The segment of the start position. A start within the last segment is still inside the item.
pub fn first_wanted(plan: &Plan) -> usize {
    plan.work().grid.segment_at(to_ticks(plan.request.start_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_past_the_end_is_one_at_the_last_segment() {
        for (start, duration, found) in [
            (0.0, Some(0.0), 0.0),
            (9.999, Some(10.0), 9.999),
            (10.0, Some(10.0), 8.008),
            (1e9, Some(10.0), 8.008),
            (10.0, None, 10.0),
        ] {
            assert_eq!(start_within(start, duration, 8.008), found);
        }
    }
}
