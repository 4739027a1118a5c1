//! Items of a channel whose video is copied for clients that decode it, as CMAF.
//!
//! The copy begins at the same time 0 as the encoded item and ends with it, so one schedule is true for both.

use std::sync::Arc;

use bytes::Bytes;

use super::STEREO_KBPS;
use super::channel_item::{add_gain, choose_audio, needs_audio_encode};
use crate::domain::channel::OutputSettings;
use crate::domain::cmaf::segment_sizes::BitRates;
use crate::domain::grid::Grid;
use crate::domain::media::Media;
use crate::domain::mpegts::channel_timeline::LATE_START;
use crate::domain::plan::{AudioPlan, Rendition, VideoPlan};
use crate::domain::playback::{self, Decision, DeviceProfile, PlaybackRequest};
use crate::domain::playlist::InitId;
use crate::domain::schedule::segmentation::{self, Segmentation};
use crate::domain::schedule::{COPIED_TARGET_SECONDS, ItemCopy};
use crate::domain::segment_format::SegmentFormat;
use crate::domain::time::Ticks;
use crate::domain::video_class::VideoClass;
use crate::engine::RenditionSpec;
use crate::engine::packager::Package;
use crate::error::{Code, Error, Result};
use crate::service::Service;

/// Video that ends this long before its item is encoded, because the last frame would be shown until the end.
const MAX_MISSING_END: Ticks = Ticks::from_ms(10_000);

/// An item whose video is copied, prepared for airing.
pub struct CopiedItem {
    /// Video alone.
    pub video: RenditionSpec,
    /// Its default audio alone, on the grid of the video; None without audio.
    pub audio: Option<RenditionSpec>,
}

/// Measures how an item is copied. `encoded` is its rendition for all other clients, `duration_ms` its length. None if that is
/// a copy as well, if the channel changes its video, or if its video cannot be segmented for a channel.
pub(super) async fn measure(
    service: &Service,
    encoded: &RenditionSpec,
    output: &OutputSettings,
    duration_ms: i64,
) -> Option<ItemCopy> {
    let RenditionSpec { source, media, .. } = encoded;
    let Some(VideoPlan::Encode(plan)) = &encoded.rendition.video else { return None };
    let is_too_large = |limit: u32| media.bitrate_kbps.is_none_or(|own| own > limit);
    let changes_video = !output.copy_video
        || output.watermark.is_some()
        || output.frame_rate.is_some()
        || plan.burn.is_some()
        || output.max_kbps.is_some_and(is_too_large);
    let (stream, video) = media.video_streams().find(|(stream, _)| stream.index == plan.stream)?;
    let class = VideoClass::of(stream, video).filter(|_| !changes_video)?;
    let encoded_because = |reason: &str| {
        tracing::info!(media.path = source.path, reason, "a channel copies this video for no client");
    };
    let package = service.packages.open_cmaf(source, media, stream.index).await;
    let package = package.inspect_err(|reason| encoded_because(reason)).ok()?;
    let track = package.cmaf_track()?;
    let end = Ticks::from_ms(duration_ms);
    let Some(grid) = copied_grid(service, &package, end) else {
        encoded_because("its keyframes are too far apart, it begins late, it ends early, or its parameter sets change");
        return None;
    };
    let Segmentation::Keyframes(bounds) = Segmentation::from_grid(&grid) else { return None };
    let average = u64::from(media.bitrate_kbps.unwrap_or_default()) * 1000;
    let rates = track.bit_rates(&grid).unwrap_or(BitRates { peak: average * 2, average, iframe_peak: None });
    Some(ItemCopy {
        class,
        bounds,
        stream: stream.index,
        init: InitId::of(track.init_segment()).0,
        codecs: track.entry().codecs.clone(),
        width: video.width,
        height: video.height,
        hdr: video.hdr,
        kbps: u32::try_from(rates.peak.div_ceil(1000)).unwrap_or(u32::MAX).max(1),
    })
}

/// The segments of copied video until the end of its item.
fn copied_grid(service: &Service, package: &Package, end: Ticks) -> Option<Grid> {
    let index = package.index().filter(|index| index.has_one_description)?;
    let (first, cuts) = index.keyframes.split_first()?;
    let grid = Grid::from_keyframes(cuts, service.config.segment_seconds, end.as_seconds());
    let is_aired_whole = *first < LATE_START && end - index.end < MAX_MISSING_END;
    (is_aired_whole && segmentation::longest_segment_seconds(&grid) <= COPIED_TARGET_SECONDS).then_some(grid)
}

/// Prepares an item whose file is at `path` now, exactly as it was measured.
///
/// # Errors
/// Those of opening and probing; `SOURCE_CHANGED` when the file can no longer be segmented as it was.
pub async fn prepare(service: &Service, copy: &ItemCopy, path: &str, output: &OutputSettings) -> Result<CopiedItem> {
    let source = service.library.open(path).await?;
    let media = service.media.probe(&source).await?.media;
    let changed = |_| Error::new(Code::SourceChanged, "the file changed since it was scheduled");
    let package = service.packages.open_cmaf(&source, &media, copy.stream).await.map_err(changed)?;
    let grid = Segmentation::Keyframes(copy.bounds.clone()).grid();
    if !is_unchanged(&package, copy, &grid) {
        return Err(changed(String::new()));
    }
    let fingerprint = source.fingerprint().map_err(Error::internal)?.to_owned();
    let video =
        Rendition { video: Some(VideoPlan::Copy { stream: copy.stream }), audio: None, format: SegmentFormat::Fmp4 };
    let audio = plan_audio(&media, output);
    let video = RenditionSpec {
        fingerprint,
        source,
        media,
        rendition: Arc::new(video),
        grid: Arc::new(grid),
        sidecar: None,
        watermark: None,
        package: Some(package),
    };
    let audio = match audio {
        Some(audio) => {
            let rendition = Rendition { video: None, audio: Some(audio), format: SegmentFormat::MpegTs };
            let mut spec = RenditionSpec { rendition: Arc::new(rendition), package: None, ..video.clone() };
            add_gain(service, &mut spec, output).await;
            Some(spec)
        }
        None => None,
    };
    Ok(CopiedItem { video, audio })
}

/// The init segment of an item whose file is at `path` now.
///
/// # Errors
/// Those of opening and probing; `ASSET_NOT_FOUND` if the file has no such video any more.
pub async fn init_segment(service: &Service, copy: &ItemCopy, path: &str) -> Result<Bytes> {
    let source = service.library.open(path).await?;
    let media = service.media.probe(&source).await?.media;
    let unavailable = || Error::new(Code::AssetNotFound, "this item cannot be copied now");
    let package = service.packages.open_cmaf(&source, &media, copy.stream).await;
    let package = package.map_err(|cause| unavailable().with_cause(cause))?;
    package.cmaf_track().map(|track| track.init_segment().clone()).ok_or_else(unavailable)
}

/// Whether the file has the codec of the copy, and a keyframe at the start of every segment.
fn is_unchanged(package: &Package, copy: &ItemCopy, grid: &Grid) -> bool {
    let (Some(track), Some(index)) = (package.cmaf_track(), package.index()) else { return false };
    let has_keyframe = |segment: usize| index.keyframes.binary_search(&grid.segment_start(segment)).is_ok();
    track.entry().codecs == copy.codecs && !index.keyframes.is_empty() && (1..grid.len()).all(has_keyframe)
}

/// The default audio of an item, as it is beside encoded video.
fn plan_audio(media: &Media, output: &OutputSettings) -> Option<AudioPlan> {
    let request = PlaybackRequest {
        audio_stream: choose_audio(media, &output.audio_languages),
        force_transcode: true,
        ..PlaybackRequest::default()
    };
    let (Decision::Session(tracks), _) = playback::decide(media, &DeviceProfile::default(), &request) else {
        return None;
    };
    let (stream, _) = tracks.audio?;
    Some(match needs_audio_encode(media, stream, output) {
        true => AudioPlan::Encode { stream, channels: 2, kbps: STEREO_KBPS, gain_tenths_db: None },
        false => AudioPlan::Copy { stream },
    })
}
