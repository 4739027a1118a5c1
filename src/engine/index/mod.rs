//! The keyframe index: where copied video may be cut (`frame_kind`).
//!
//! A container's own mark is not enough: `stss`, Matroska's cues and ffmpeg's K flag also mark recovery points, and in a
//! transport stream a segment that begins with one is fatal in hls.js (measured). So the first bytes of every candidate are
//! checked. Our own small
//! readers read MP4 and Matroska tables, because the crates hang on damaged files or lack fragments (measured);
//! everything else takes one bounded pass of ffmpeg.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::RunError;
use super::container::ContainerError;
use super::container::bytes::{ReadAt, SampleBytes};
use super::container::matroska::{self, ClusterLayout, Compression, Cue, MatroskaFile};
use super::container::mp4::{Mp4File, Mp4Track, Sample};
use super::source::SourceFile;
use crate::domain::cmaf::from_ts::VideoCodec;
use crate::domain::media::{Container, Media};
use crate::domain::segment_format::SegmentFormat;
use crate::domain::time::Ticks;
use frame_kind::{FrameKind, FrameSyntax};

mod frame_kind;
mod mkv;
mod mp4;
mod nal;
mod pass;

/// Timeout for an index.
const INDEX_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for the keyframe interval, which nothing depends on.
const INTERVAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for checking the candidates; the rest of the deadline is for the tables.
const CHECK_TIME_LIMIT: Duration = Duration::from_secs(3);

/// Maximum number of keyframes of one file: a day of all-intra video at 12 per second.
const MAX_KEYFRAMES: usize = 1 << 20;

/// Whether H.264 is cut at recovery points too, as in the open groups of pictures of broadcasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryPoints {
    Accepted,
    /// hls.js fails at them in transport streams (measured).
    Refused,
}

impl From<SegmentFormat> for RecoveryPoints {
    fn from(format: SegmentFormat) -> Self {
        if format == SegmentFormat::Fmp4 { Self::Accepted } else { Self::Refused }
    }
}

/// The times at which a video may be cut, in source time: IDR pictures and, if accepted, recovery points of H.264, random access
/// points of HEVC, keyframes of AV1 and VP9.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyframeIndex {
    /// Ascending; the first is the first frame of the stream.
    pub keyframes: Vec<Ticks>,
    /// End of the last frame. In a truncated file, of the last frame that is present.
    pub end: Ticks,
    /// Whether all of them begin closed groups of pictures, as `EXT-X-INDEPENDENT-SEGMENTS` requires (RFC 8216 section
    /// 4.3.5.1). False if not all were checked.
    pub has_closed_groups: bool,
    /// Whether one description suits the whole video: no keyframe of HEVC has other parameter sets than the first. H.264 may change
    /// its own in CMAF too, and mp4 and Matroska state one description.
    pub has_one_description: bool,
}

/// A sample that the container lists as a keyframe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// On the file's clock.
    time: Ticks,
    /// Number of its sample or cue.
    pub(super) number: u32,
    /// Position of its bytes in the file.
    pub(super) offset: u64,
    size: u64,
}

/// The keyframes of one video stream by the container's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CandidateTable {
    candidates: Vec<Candidate>,
    end: Ticks,
    syntax: FrameSyntax,
    /// Bytes that the container removed from the start of every frame.
    prefix: Vec<u8>,
    /// The stream does not begin with a keyframe.
    starts_without_keyframe: bool,
}

/// Indexes stream `stream` (ffmpeg's number), in at most 5 s and with some MiB, on a blocking thread.
///
/// # Errors
/// Why this stream cannot be copied into segments; the caller then encodes.
pub async fn build_index(
    source: &Arc<SourceFile>,
    media: &Media,
    stream: u32,
    recovery_points: RecoveryPoints,
) -> Result<KeyframeIndex, RunError> {
    let codec = media.stream(stream).map_or("no video", |stream| stream.codec.as_str());
    let codec = match codec {
        "h264" => VideoCodec::H264,
        "hevc" => VideoCodec::Hevc,
        other => return Err(cannot_copy(format!("{other} is not supported, only h264 and hevc"))),
    };
    let start = Ticks::from_seconds(media.start_seconds);
    let container = media.container;
    let build = async {
        if matches!(container, Container::Mp4 | Container::Matroska | Container::Webm) {
            let file = source.clone();
            let result = tokio::task::spawn_blocking(move || {
                if container == Container::Mp4 {
                    index_mp4_track(&*file, start, &Mp4File::read(&*file)?.read_track(stream)?, recovery_points)
                } else {
                    let header = MatroskaFile::read(&*file)?;
                    let track = header.read_track(stream)?;
                    let cues = header.read_cues(track.number)?;
                    index_matroska_track(&*file, start, header.layout, &track, &cues, recovery_points)
                }
            });
            match result.await.map_err(|cause| RunError::Internal(cause.to_string()))? {
                Ok((index, _)) => return Ok(index),
                Err(ContainerError::Uncuttable(reason)) => return Err(cannot_copy(reason.into())),
                Err(ContainerError::Unsupported(why)) => {
                    tracing::debug!(path = source.path, why, "keyframe index by a full pass")
                }
            }
        }
        pass::scan_keyframes(source, media, stream, codec, recovery_points).await
    };
    let built = tokio::time::timeout(INDEX_TIMEOUT, build).await;
    built.map_err(|_| cannot_copy("finding its keyframes took longer than 5 s".into()))?
}

/// Mean keyframe interval of the first video stream in seconds, by the tables of mp4 and Matroska; no picture is checked.
/// None if the tables do not have it, or not within 1 s.
pub async fn keyframe_interval(source: &Arc<SourceFile>, media: &Media) -> Option<f64> {
    let stream = media.video_streams().next()?.0.index;
    let (file, media) = (source.clone(), media.clone());
    let task = tokio::task::spawn_blocking(move || match media.container {
        Container::Mp4 => mp4_keyframe_interval(&Mp4File::read(&*file).ok()?, stream, media.duration_seconds),
        Container::Matroska | Container::Webm => summarize_cues(&file, &media)?.keyframe_interval_seconds,
        _ => None,
    });
    tokio::time::timeout(INTERVAL_TIMEOUT, task).await.ok()?.ok()?
}

/// Mean keyframe interval of an mp4 track in seconds; `duration` if there is only one keyframe.
pub fn mp4_keyframe_interval(file: &Mp4File<impl ReadAt + ?Sized>, stream: u32, duration: Option<f64>) -> Option<f64> {
    let track = file.read_track(stream).ok()?;
    let seconds = |sample: Sample| track.timing.presentation_ticks(sample.presentation_time()).as_seconds();
    mean_step(track.samples.iter_from(0).filter(|sample| sample.is_sync).map(seconds), duration)
}

/// Facts from the cues of a Matroska file.
pub struct CueSummary {
    /// The last cue: seconds of the file's clock, and the position of its cluster in the file.
    pub last_seconds: f64,
    pub last_cluster: u64,
    /// Mean keyframe interval of the video; its duration if there is only one keyframe.
    pub keyframe_interval_seconds: Option<f64>,
}

/// Reads the cues of a Matroska file's first video stream, or of its first audio stream without video. None without cues.
/// Blocks on file I/O.
pub fn summarize_cues(source: &SourceFile, media: &Media) -> Option<CueSummary> {
    let video = media.video_streams().next().map(|(stream, _)| stream);
    let stream = video.or_else(|| media.audio_streams().next().map(|(stream, _)| stream))?;
    let header = MatroskaFile::read(source).ok()?;
    let (track, compression) = header.read_compressed_track(stream.index).ok()?;
    let cues = header.read_cues(track.number).ok()?;
    let last = cues.iter().max_by_key(|cue| cue.time)?;
    let scale = header.layout.timestamp_scale as f64;
    let interval = mean_step(cues.iter().map(|cue| cue.time as f64 * (scale / 1e9)), media.duration_seconds);
    Some(CueSummary {
        last_seconds: last.time as f64 * scale / 1e9,
        last_cluster: header.layout.segment_body.checked_add(last.cluster)?,
        keyframe_interval_seconds: interval.filter(|_| video.is_some() && compression == Compression::None),
    })
}

/// The mean step of these times; `duration` if there is only one.
fn mean_step(times: impl Iterator<Item = f64>, duration: Option<f64>) -> Option<f64> {
    let (mut first, mut last, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0u32);
    for time in times {
        (first, last, count) = (first.min(time), last.max(time), count + 1);
    }
    match count {
        0 => None,
        1 => duration,
        _ => Some((last - first) / f64::from(count - 1)),
    }
}

fn cannot_copy(reason: String) -> RunError {
    RunError::SourceRead(format!("the video cannot be copied: {reason}"))
}

/// The keyframe index of an mp4 track, and the sample of every keyframe; `start` is the file's first timestamp.
pub(super) fn index_mp4_track(
    file: &(impl ReadAt + ?Sized),
    start: Ticks,
    track: &Mp4Track,
    recovery_points: RecoveryPoints,
) -> Result<(KeyframeIndex, Vec<Candidate>), ContainerError> {
    keep_keyframes(file, start, mp4::candidate_table(track, recovery_points)?)
}

/// The keyframe index of a Matroska track by its cues, and the cue and block of every keyframe.
pub(super) fn index_matroska_track(
    file: &(impl ReadAt + ?Sized),
    start: Ticks,
    layout: ClusterLayout,
    track: &matroska::TrackEntry,
    cues: &[Cue],
    recovery_points: RecoveryPoints,
) -> Result<(KeyframeIndex, Vec<Candidate>), ContainerError> {
    keep_keyframes(file, start, mkv::candidate_table(file, layout, track, cues, recovery_points)?)
}

/// Keeps the candidates with which a segment may begin.
fn keep_keyframes(
    file: &(impl ReadAt + ?Sized),
    start: Ticks,
    table: CandidateTable,
) -> Result<(KeyframeIndex, Vec<Candidate>), ContainerError> {
    let deadline = Instant::now() + CHECK_TIME_LIMIT;
    let count = table.candidates.len();
    let mut is_keyframe = vec![true; count];
    // In strides, so that the candidates checked before the time limit represent the whole file.
    let stride = count.div_ceil(64).max(1);
    let order = (0..stride).flat_map(|offset| (offset..count).step_by(stride));
    let (mut checked, mut refused, mut open) = (0, 0, 0);
    for index in order {
        if Instant::now() > deadline {
            // A slow disk. An encoder that uses recovery points uses them everywhere, so the sample suffices.
            if checked >= 64 && refused == 0 {
                break;
            }
            return Err(ContainerError::Uncuttable("checking its keyframes took longer than 3 s"));
        }
        let Candidate { offset, size, .. } = table.candidates[index];
        let kind = table.syntax.frame_kind(&SampleBytes { file, prefix: &table.prefix, offset, size })?;
        is_keyframe[index] = kind != FrameKind::Dependent;
        checked += 1;
        refused += usize::from(kind == FrameKind::Dependent);
        open += usize::from(kind == FrameKind::OpenKeyframe);
    }
    if table.starts_without_keyframe || !is_keyframe.first().copied().unwrap_or(false) {
        return Err(table.syntax.missing_keyframe());
    }
    let has_closed_groups = open == 0 && (checked == count || !table.syntax.has_open_keyframes());
    let checked = table.candidates.into_iter().zip(is_keyframe);
    let mut kept: Vec<Candidate> = checked.filter_map(|(candidate, is_kept)| is_kept.then_some(candidate)).collect();
    kept.sort_by_key(|candidate| candidate.time);
    kept.dedup_by_key(|candidate| candidate.time);
    let keyframes = kept.iter().map(|candidate| candidate.time - start).collect();
    Ok((KeyframeIndex { keyframes, end: table.end - start, has_closed_groups, has_one_description: true }, kept))
}

#[cfg(test)]
mod tests;
