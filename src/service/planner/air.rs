//! Items on a channel: measured when the schedule is made, prepared when they are aired.
//!
//! Video is copied where every player can follow (H.264 with keyframes that are close enough), and encoded otherwise. Audio
//! always has one format, AAC-LC at 48 kHz in stereo, and is copied if it already has.

use std::sync::Arc;

use super::drawn::{self, is_in};
use super::{STEREO_KBPS, StartRequest, copied, encode, encoder};
use crate::domain::channel::{OutputSettings, WatermarkSettings};
use crate::domain::grid::Grid;
use crate::domain::media::{Container, Media, Stream, Video};
use crate::domain::mpegts::channel_timeline::LATE_START;
use crate::domain::plan::{AudioPlan, WatermarkOverlay, Rendition, VideoPlan};
use crate::domain::playback::{self, TrackAction, Decision, SubtitleDelivery, SessionTracks, PlaybackRequest};
use crate::domain::schedule::ScheduleItem;
use crate::domain::schedule::breaks::{self, BreakPosition};
use crate::domain::schedule::segmentation::{self, Segmentation, VideoFormat};
use crate::domain::time::{FrameRate, to_ticks};
use crate::engine::index;
use crate::engine::image::Image;
use crate::engine::source::SourceFile;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::runs::Work;

/// The properties of an item that a schedule freezes.
#[derive(Clone, Debug)]
pub struct Measured {
    pub duration_ms: i64,
    pub cut: Segmentation,
    pub look: VideoFormat,
    /// Positions where the programme may be interrupted.
    pub breaks: Box<[BreakPosition]>,
}

/// Options for an item on a channel.
struct How {
    copy: bool,
    /// Longest copied segment, seconds.
    target: u64,
    max_height: Option<u32>,
    /// Of encoded video; None keeps the file's rate.
    rate: Option<FrameRate>,
    /// Whether subtitles and the watermark may be burned in. Not for items that were scheduled to be copied.
    draw: bool,
    /// Whether it is prepared for airing. Measuring the loudness takes a while and is skipped otherwise.
    heard: bool,
}

struct Made {
    work: Work,
    look: VideoFormat,
    /// Start and end of the aired part, ticks of the file.
    lead: i64,
    end: i64,
}

/// Measures an item as a channel will air it.
///
/// # Errors
/// Those of opening and probing; `UNPLAYABLE_MEDIA`; `TRANSCODER_UNAVAILABLE`.
pub async fn measure(service: &Service, path: &str, output: &OutputSettings) -> Result<Measured> {
    let how = How {
        copy: output.copy_video,
        target: output.target_seconds,
        max_height: output.max_height,
        rate: output.frame_rate,
        draw: true,
        heard: false,
    };
    let source = service.library.open(path).await?;
    let Made { work, look, lead, end } = made(service, source, &how, output).await?;
    let cut = match &*work.grid {
        Grid::Keyframes { bounds } => Segmentation::from_keyframes(bounds, lead),
        grid => Segmentation::from_grid(grid),
    };
    let duration_ms = (end - lead + 45) / 90;
    let marks = work.media.chapters.iter().map(|chapter| to_ticks(chapter.start_seconds) - lead);
    let breaks = breaks::break_positions(marks, &cut.grid(), duration_ms);
    Ok(Measured { duration_ms, cut, look, breaks })
}

/// Prepares an item for airing, exactly as it was measured.
///
/// # Errors
/// Those of [`measure`]; `SOURCE_CHANGED` when the file can no longer be segmented as it was.
pub async fn ready(service: &Service, item: &ScheduleItem, output: &OutputSettings) -> Result<Work> {
    let copy = matches!(item.segmentation, Segmentation::Keyframes(_));
    let rate = match &item.segmentation {
        Segmentation::Frames(frozen) => Some(frozen.rate),
        _ => None,
    };
    let how = How { copy, target: u64::MAX, max_height: Some(item.video_format.height), rate, draw: !copy, heard: true };
    let source = service.library.open(&item.path).await?;
    let mut work = made(service, source, &how, output).await?.work;
    let fits = match (&item.segmentation, &*work.grid) {
        // Another length does no harm: the last frame is repeated, or the rest is left out.
        (Segmentation::Frames(frozen), Grid::Frames(now)) => frozen.rate == now.rate,
        (Segmentation::Steps { .. }, Grid::Steps { .. }) => work.rendition.video.is_none(),
        (Segmentation::Keyframes(frozen), Grid::Keyframes { bounds }) => {
            Segmentation::from_keyframes(bounds, frozen.first_frame_ticks).grid() == item.segmentation.grid()
        }
        _ => false,
    };
    if !fits {
        return Err(Error::new(Code::SourceChanged, "the file changed since it was scheduled"));
    }
    if !copy {
        work.grid = Arc::new(item.segmentation.grid());
    }
    Ok(work)
}

async fn made(service: &Service, source: Arc<SourceFile>, how: &How, output: &OutputSettings) -> Result<Made> {
    let media = service.media.probe(&source).await?;
    let request = StartRequest {
        media_path: source.path.clone(),
        max_height: how.max_height,
        max_bitrate_kbps: output.max_kbps,
        ..StartRequest::default()
    };
    let (subtitle, sidecar) = match how.draw {
        true => drawn::subtitles(service, &source, &media, &output.subtitle_languages).await,
        false => (SubtitleDelivery::None, None),
    };
    let wish = PlaybackRequest {
        audio_stream: spoken(&media, &output.audio_languages),
        max_height: how.max_height,
        max_bitrate_kbps: output.max_kbps,
        subtitle,
        force_transcode: true,
        ..PlaybackRequest::default()
    };
    let (decision, reasons) = playback::decide(&media, &request.device.profile, &wish);
    let Decision::Session(mut tracks) = decision else { return Err(super::unplayable(&reasons)) };
    let copyable = how.copy && matches!(media.container, Container::Mp4 | Container::Matroska | Container::Webm);
    let watermark = output.watermark.as_ref().filter(|_| how.draw);
    if let Some((stream, action)) = &mut tracks.video
        && !(copyable && watermark.is_none() && how.rate.is_none_or(|rate| runs_at(&media, *stream, rate)))
    {
        *action = TrackAction::Encode;
    }
    if let Some((stream, action)) = &mut tracks.audio
        && (output.loudness_lufs.is_some() || !is_common(&media, *stream))
    {
        *action = TrackAction::Encode;
    }
    let duration = media.duration_seconds.filter(|duration| *duration > 0.0);
    let unknown = || Error::new(Code::UnplayableMedia, "its duration is unknown or zero");
    let copied = copied(service, &source, &media, &tracks, duration, how.target).await;
    let step = service.config.segment_seconds;
    let (mut lead, mut end) = (0, None);
    // The watermark's image does not matter before airing.
    let picture = match watermark.filter(|_| how.heard && tracks.video.is_some()) {
        Some(watermark) => laid_over(service, watermark).await,
        None => None,
    };
    let (video, grid) = match (tracks.video, copied) {
        (Some((stream, _)), Some((grid, first, pictures))) => {
            (lead, end) = (first, Some(pictures.min(grid.end_ticks())));
            (Some(VideoPlan::Copy { stream }), grid)
        }
        (Some((stream, _)), None) => {
            let mut plan = encode(&media, stream, &request, &wish, encoder(service).await?)?;
            plan.frame_rate = how.rate.unwrap_or(plan.frame_rate);
            plan.watermark = watermark.zip(picture.as_ref()).map(|(watermark, picture)| WatermarkOverlay {
                digest: picture.digest.clone(),
                corner: watermark.corner,
                opacity_percent: watermark.opacity_percent,
                width_percent: watermark.width_percent,
            });
            let grid = Grid::from_frame_rate(plan.frame_rate, step, duration.ok_or_else(unknown)?);
            (Some(VideoPlan::Encode(plan)), grid)
        }
        (None, _) => (None, Grid::from_step(step, duration.ok_or_else(unknown)?)),
    };
    let audio = match tracks.audio {
        None => None,
        Some((stream, TrackAction::Copy)) => Some(AudioPlan::Copy { stream }),
        Some((stream, TrackAction::Encode)) => {
            let gain = match output.loudness_lufs.filter(|_| how.heard) {
                Some(level) => service.gain(&source, &media, stream, level).await,
                None => None,
            };
            Some(AudioPlan::Encode { stream, channels: 2, kbps: STEREO_KBPS, gain_tenths_db: gain })
        }
    };
    let rendition = Rendition { video, audio };
    let package = match rendition.encodes_video() {
        true => None,
        false => copied::package(service, &source, &media, &tracks).await,
    };
    let look = look(&media, &rendition, how.max_height);
    let fingerprint = source.fingerprint().map_err(Error::internal)?.to_owned();
    let end = end.unwrap_or(grid.end_ticks());
    let (rendition, grid) = (Arc::new(rendition), Arc::new(grid));
    Ok(Made { work: Work { source, fingerprint, media, rendition, grid, sidecar, picture, package }, look, lead, end })
}

/// The grid of copied video, and the start of its first and the end of its last frame (ticks); None if it is to be encoded.
async fn copied(
    service: &Service,
    source: &Arc<SourceFile>,
    media: &Media,
    tracks: &SessionTracks,
    duration: Option<f64>,
    target: u64,
) -> Option<(Grid, i64, i64)> {
    let Some((stream, TrackAction::Copy)) = tracks.video else { return None };
    let index = match index::build_index(source, media, stream).await {
        Ok(index) => index,
        Err(error) => {
            tracing::debug!(media.path = source.path, %error, "a channel encodes this file, because its keyframes cannot be indexed");
            return None;
        }
    };
    let (first, pictures) = (index.keyframes.first().copied().unwrap_or_default(), index.end_ticks);
    // A first frame that is intentionally late stays late.
    let lead = if (1..LATE_START).contains(&first) { first } else { 0 };
    let (grid, _) = copied::grid(service, source, media, tracks, duration, Some(index)).await?;
    let longest = segmentation::longest_segment_seconds(&grid);
    if longest > target {
        tracing::debug!(
            media.path = source.path,
            longest,
            "a channel encodes this file, because its keyframes are too far apart"
        );
        return None;
    }
    Some((grid, lead, pictures))
}

/// Whether a stream has this constant frame rate.
fn runs_at(media: &Media, stream: u32, rate: FrameRate) -> bool {
    let found = media.video_streams().find(|(found, _)| found.index == stream);
    found.is_some_and(|(_, video)| {
        let own = video.frame_rate.and_then(|own| FrameRate::nearest_standard(own.as_f64()));
        !video.has_variable_frame_rate && own == Some(rate)
    })
}

/// Whether audio needs no encode: AAC-LC, 48 kHz, stereo.
fn is_common(media: &Media, stream: u32) -> bool {
    media.audio_streams().any(|(found, audio)| {
        found.index == stream
            && found.codec == "aac"
            && found.profile.as_deref() == Some("lc")
            && (audio.sample_rate, audio.channels) == (48_000, 2)
    })
}

/// The watermark's image; None if it cannot be read now.
async fn laid_over(service: &Service, watermark: &WatermarkSettings) -> Option<Arc<Image>> {
    let found = service.picture(&watermark.path).await;
    found
        .inspect_err(
            |fault| tracing::warn!(media.path = watermark.path, %fault, "a channel is aired without its watermark"),
        )
        .ok()
}

/// The first audio stream in the first of these languages that exists; None leaves the choice to the file.
fn spoken(media: &Media, languages: &[String]) -> Option<u32> {
    languages.iter().find_map(|wanted| {
        let found = media
            .audio_streams()
            .find(|(stream, audio)| stream.is_decodable && !audio.is_commentary && is_in(stream.language.as_deref(), wanted));
        found.map(|(stream, _)| stream.index)
    })
}

fn look(media: &Media, rendition: &Rendition, max_height: Option<u32>) -> VideoFormat {
    match &rendition.video {
        Some(VideoPlan::Encode(plan)) => VideoFormat { width: plan.width, height: plan.height, profile_and_aspect: String::new() },
        Some(VideoPlan::Copy { stream }) => {
            let found = media.video_streams().find(|(found, _)| found.index == *stream);
            found.map_or_else(VideoFormat::default, |(stream, video)| VideoFormat {
                width: video.width,
                height: video.height,
                profile_and_aspect: kind(stream, video),
            })
        }
        // A still image replaces the video.
        None => {
            let height = max_height.unwrap_or(720).clamp(2, 1080) & !1;
            VideoFormat { width: (height * 16 / 9 + 1) & !1, height, profile_and_aspect: String::new() }
        }
    }
}

fn kind(stream: &Stream, video: &Video) -> String {
    let (num, den) = video.sample_aspect;
    let aspect = if num == den { String::new() } else { format!(" {num}:{den}") };
    // Encoded video is High as well.
    let profile = stream.profile.as_deref().filter(|profile| *profile != "high").unwrap_or("");
    format!("{profile}{aspect}")
}
