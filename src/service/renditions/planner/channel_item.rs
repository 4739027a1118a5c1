//! Items on a channel: measured when the schedule is made, prepared when they are aired.
//!
//! Video is copied where every player can follow (H.264 with keyframes that are close enough), and encoded otherwise. Audio
//! always has one format, AAC-LC at 48 kHz in stereo, and is copied if it already has.

use std::sync::Arc;

use super::burned_subtitles::{self, is_language};
use super::rendition::{PlannedRendition, Policy, plan_rendition};
use super::video_encode::{CodecChoice, EncodeLimits, FieldRate};
use super::{DecidedItem, STEREO_KBPS, channel_copy, channel_tracks};
use crate::domain::channel::{OutputSettings, WatermarkSettings};
use crate::domain::codec::TargetCodec;
use crate::domain::grid::Grid;
use crate::domain::media::{Container, Media, Stream, Video};
use crate::domain::mpegts::channel_timeline::LATE_START;
use crate::domain::plan::{AudioPlan, Rendition, VideoPlan, WatermarkOverlay};
use crate::domain::playback::{self, Decision, DeviceProfile, PlaybackRequest, TrackAction};
use crate::domain::schedule::breaks::{self, BreakPosition};
use crate::domain::schedule::segmentation::{self, Segmentation, VideoFormat};
use crate::domain::schedule::{ItemCopy, ItemLanguages, ScheduleItem};
use crate::domain::segment_format::SegmentFormat;
use crate::domain::time::{FrameRate, Ticks};
use crate::engine::RenditionSpec;
use crate::error::{Code, Error, Result};
use crate::service::Service;

/// The properties of an item that a schedule freezes.
#[derive(Clone, Debug)]
pub struct MeasuredItem {
    pub duration_ms: i64,
    pub segmentation: Segmentation,
    pub video_format: VideoFormat,
    /// Positions where the programme may be interrupted.
    pub breaks: Box<[BreakPosition]>,
    pub languages: Option<ItemLanguages>,
    /// How it is copied for clients that decode it; None if it is copied for all, or for none.
    pub copy: Option<ItemCopy>,
}

/// Measures an item as a channel will air it.
///
/// # Errors
/// Those of opening and probing; `UNPLAYABLE_MEDIA`; `TRANSCODER_UNAVAILABLE`.
pub async fn measure(service: &Service, path: &str, output: &OutputSettings) -> Result<MeasuredItem> {
    let PlannedRendition { spec, copied_frames, .. } = plan_item(service, path, output).await?;
    let (first_frame, end) = copied_frames.unwrap_or((Ticks::ZERO, spec.grid.end()));
    // A first frame that is intentionally late stays late.
    let first_frame = if (Ticks(1)..LATE_START).contains(&first_frame) { first_frame } else { Ticks::ZERO };
    let segmentation = match &*spec.grid {
        Grid::Keyframes { bounds } => Segmentation::from_keyframes(bounds, first_frame),
        grid => Segmentation::from_grid(grid),
    };
    let duration_ms = (end.min(spec.grid.end()) - first_frame).as_ms_rounded();
    let scene_ends = scene_ends(service, &spec).await;
    let scene_ends = scene_ends.into_iter().map(|at| at - first_frame);
    let breaks = breaks::break_positions(scene_ends, &segmentation.grid(), duration_ms);
    let video_format = video_format(&spec.media, &spec.rendition, output.max_height);
    let languages = channel_tracks::item_languages(service, &spec).await;
    let copy = channel_copy::measure(service, &spec, output, duration_ms).await;
    Ok(MeasuredItem { duration_ms, segmentation, video_format, breaks, languages, copy })
}

/// Where scenes of a file end: at its chapters, otherwise at the scene breaks that were found in it.
async fn scene_ends(service: &Service, spec: &RenditionSpec) -> Vec<Ticks> {
    let chapters = &spec.media.chapters;
    match chapters.is_empty() {
        true => service.scene_breaks(&spec.source).await,
        false => chapters.iter().map(|chapter| Ticks::from_seconds(chapter.start_seconds)).collect(),
    }
}

/// Prepares an item for airing, exactly as it was measured. Its file is at `path` now.
///
/// # Errors
/// Those of [`measure`]; `SOURCE_CHANGED` when the file can no longer be segmented as it was.
pub async fn prepare(
    service: &Service,
    item: &ScheduleItem,
    path: &str,
    output: &OutputSettings,
) -> Result<RenditionSpec> {
    let copy = matches!(item.segmentation, Segmentation::Keyframes(_));
    let frame_rate = match &item.segmentation {
        Segmentation::Frames(stored) => Some(stored.rate),
        _ => None,
    };
    let mut settings = OutputSettings {
        copy_video: copy,
        target_seconds: u64::MAX,
        max_height: Some(item.video_format.height),
        frame_rate,
        ..output.clone()
    };
    if copy {
        // Copied video shows neither.
        (settings.subtitle_languages, settings.watermark) = (Vec::new(), None);
    }
    let mut spec = plan_item(service, path, &settings).await?.spec;
    let is_unchanged = match (&item.segmentation, &*spec.grid) {
        // Another length does no harm: the last frame is repeated, or the rest is left out.
        (Segmentation::Frames(stored), Grid::Frames(current)) => stored.rate == current.rate,
        (Segmentation::Steps { .. }, Grid::Steps { .. }) => spec.rendition.video.is_none(),
        (Segmentation::Keyframes(stored), Grid::Keyframes { bounds }) => {
            Segmentation::from_keyframes(bounds, stored.first_frame_time).grid() == item.segmentation.grid()
        }
        _ => false,
    };
    if !is_unchanged {
        return Err(Error::new(Code::SourceChanged, "the file changed since it was scheduled"));
    }
    if !copy {
        spec.grid = Arc::new(item.segmentation.grid());
        if let Some(watermark) = &settings.watermark {
            add_watermark(service, &mut spec, watermark).await;
        }
    }
    add_gain(service, &mut spec, output).await;
    Ok(spec)
}

/// Sets the gain of encoded audio. It is measured when an item is aired, because that takes a while.
pub(super) async fn add_gain(service: &Service, spec: &mut RenditionSpec, output: &OutputSettings) {
    if let Some(level) = output.loudness_lufs
        && let Some(AudioPlan::Encode { stream, .. }) = spec.rendition.audio
    {
        let gain = service.gain_tenths(&spec.source, &spec.media, stream, level).await;
        if let Some(AudioPlan::Encode { gain_tenths_db, .. }) = &mut Arc::make_mut(&mut spec.rendition).audio {
            *gain_tenths_db = gain;
        }
    }
}

/// Whether the default audio of a channel's item is encoded.
pub(super) fn needs_audio_encode(media: &Media, stream: u32, output: &OutputSettings) -> bool {
    output.loudness_lufs.is_some() || !is_stereo_aac(media, stream)
}

/// Plans the rendition of an item for these settings.
async fn plan_item(service: &Service, path: &str, output: &OutputSettings) -> Result<PlannedRendition> {
    let source = service.library.open(path).await?;
    let media = service.media.probe(&source).await?.media;
    let limits = EncodeLimits {
        max_height: output.max_height,
        max_bitrate_kbps: output.max_kbps,
        field_rate: FieldRate::FramePerPair,
    };
    let (subtitle, sidecar) =
        burned_subtitles::choose_subtitles(service, &source, &media, &output.subtitle_languages).await;
    let request = PlaybackRequest {
        audio_stream: choose_audio(&media, &output.audio_languages),
        max_height: limits.max_height,
        max_bitrate_kbps: limits.max_bitrate_kbps,
        subtitle,
        force_transcode: true,
        ..PlaybackRequest::default()
    };
    let (decision, reasons) = playback::decide(&media, &DeviceProfile::default(), &request);
    let Decision::Session(mut tracks) = decision else { return Err(super::unplayable_error(&reasons)) };
    let may_copy =
        output.copy_video && matches!(media.container, Container::Mp4 | Container::Matroska | Container::Webm);
    if let Some((stream, action)) = &mut tracks.video
        && !(may_copy
            && output.watermark.is_none()
            && output.frame_rate.is_none_or(|rate| has_frame_rate(&media, *stream, rate)))
    {
        *action = TrackAction::Encode;
    }
    if let Some((stream, action)) = &mut tracks.audio
        && needs_audio_encode(&media, *stream, output)
    {
        *action = TrackAction::Encode;
    }
    let policy = Policy {
        limits,
        codec: CodecChoice::Fixed(TargetCodec::H264),
        subtitle: &request.subtitle,
        sidecar,
        frame_rate: output.frame_rate,
        audio_channels: 2,
        audio_kbps: STEREO_KBPS,
        format: SegmentFormat::MpegTs,
    };
    let path = source.path.clone();
    let accepts_copy = |grid: &Grid| {
        let longest_seconds = segmentation::longest_segment_seconds(grid);
        let is_short_enough = longest_seconds <= output.target_seconds;
        if !is_short_enough {
            tracing::debug!(
                media.path = path,
                longest_seconds,
                "a channel encodes this file, because its keyframes are too far apart"
            );
        }
        is_short_enough
    };
    let duration_seconds = media.duration_seconds.filter(|duration| *duration > 0.0);
    let item = DecidedItem { source, media, tracks, duration_seconds };
    let planned = plan_rendition(service, item, policy, accepts_copy).await?;
    let unknown_duration = || Error::new(Code::UnplayableMedia, "its duration is unknown or zero");
    planned.ok_or_else(unknown_duration)
}

/// Whether a stream has this constant frame rate.
fn has_frame_rate(media: &Media, stream: u32, rate: FrameRate) -> bool {
    let matching = media.video_streams().find(|(candidate, _)| candidate.index == stream);
    matching.is_some_and(|(_, video)| {
        let own_rate = video.frame_rate.and_then(|own_rate| FrameRate::nearest_standard(own_rate.as_f64()));
        !video.has_variable_frame_rate && own_rate == Some(rate)
    })
}

/// Whether audio needs no encode: AAC-LC, 48 kHz, stereo.
fn is_stereo_aac(media: &Media, stream: u32) -> bool {
    media.audio_streams().any(|(candidate, audio)| {
        candidate.index == stream
            && candidate.codec == "aac"
            && candidate.profile.as_deref() == Some("lc")
            && (audio.sample_rate, audio.channels) == (48_000, 2)
    })
}

/// Overlays the watermark on encoded video, if its image can be read now.
async fn add_watermark(service: &Service, spec: &mut RenditionSpec, watermark: &WatermarkSettings) {
    if !spec.rendition.encodes_video() {
        return;
    }
    let image = match service.library.load_image(&watermark.path).await {
        Ok(image) => image,
        Err(fault) => {
            tracing::warn!(media.path = watermark.path, %fault, "a channel is aired without its watermark");
            return;
        }
    };
    if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut spec.rendition).video {
        plan.watermark = Some(WatermarkOverlay {
            digest: image.digest.clone(),
            corner: watermark.corner,
            opacity_percent: watermark.opacity_percent,
            width_percent: watermark.width_percent,
        });
        spec.watermark = Some(image);
    }
}

/// The first audio stream in the first of these languages that exists; None leaves the choice to the file.
pub(super) fn choose_audio(media: &Media, languages: &[String]) -> Option<u32> {
    languages.iter().find_map(|language| {
        let found = media.audio_streams().find(|(stream, audio)| {
            stream.is_decodable && !audio.is_commentary && is_language(stream.language.as_deref(), language)
        });
        found.map(|(stream, _)| stream.index)
    })
}

fn video_format(media: &Media, rendition: &Rendition, max_height: Option<u32>) -> VideoFormat {
    match &rendition.video {
        Some(VideoPlan::Encode(plan)) => {
            VideoFormat { width: plan.width, height: plan.height, profile_and_aspect: String::new() }
        }
        Some(VideoPlan::Copy { stream }) => {
            let found = media.video_streams().find(|(found, _)| found.index == *stream);
            found.map_or_else(VideoFormat::default, |(stream, video)| VideoFormat {
                width: video.width,
                height: video.height,
                profile_and_aspect: profile_and_aspect(stream, video),
            })
        }
        // A still image replaces the video.
        None => {
            let height = max_height.unwrap_or(720).clamp(2, 1080) & !1;
            VideoFormat { width: (height * 16 / 9 + 1) & !1, height, profile_and_aspect: String::new() }
        }
    }
}

fn profile_and_aspect(stream: &Stream, video: &Video) -> String {
    let (num, den) = video.sample_aspect;
    let aspect = if num == den { String::new() } else { format!(" {num}:{den}") };
    // Encoded video is High as well.
    let profile = stream.profile.as_deref().filter(|profile| *profile != "high").unwrap_or("");
    format!("{profile}{aspect}")
}
