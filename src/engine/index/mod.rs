//! The keyframe index: where copied video may be cut, which is at IDR pictures only.
//!
//! A container's own mark is not enough: `stss`, Matroska's cues and ffmpeg's K flag also mark recovery points, and a
//! segment that begins with one is fatal in hls.js (measured). So the NAL type of every candidate is checked. Our own small
//! readers read MP4 and Matroska tables, because the crates hang on damaged files or lack fragments (measured);
//! everything else takes one bounded pass of ffmpeg.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::RunError;
use super::source::Source;
use super::tables::Refusal;
use super::tables::bytes::{Disk, ReadAt};
use super::tables::matroska::{self, Cue, Film, Layout};
use super::tables::mp4::{Movie, Sample, Track};
use crate::domain::media::{Container, Media};
use crate::domain::time::{to_seconds, to_ticks};

mod mkv;
mod mp4;
mod nal;
mod pass;

/// Timeout for an index.
const DEADLINE: Duration = Duration::from_secs(5);

/// Timeout for the keyframe interval, which nothing depends on.
const GLANCE: Duration = Duration::from_secs(1);

/// Time for checking the candidates; the rest of the deadline is for the tables.
const LOOK: Duration = Duration::from_secs(3);

/// Maximum number of keyframes of one file: a day of all-intra video at 12 per second.
const MOST_KEYFRAMES: usize = 1 << 20;

/// The times at which a video may be cut, 90 kHz ticks of source time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Times of the IDR pictures, ascending; the first is the first picture of the stream.
    pub keyframes: Vec<i64>,
    /// End of the last frame. In a truncated file, of the last frame that is present.
    pub end: i64,
}

impl Index {
    /// The longest interval between two cuts, ticks. The planner decides whether a segment may be that long.
    pub fn longest_gap(&self) -> i64 {
        let ends = self.keyframes.iter().skip(1).chain([&self.end]);
        self.keyframes.iter().zip(ends).map(|(start, end)| end - start).max().unwrap_or(0)
    }
}

/// A sample that the container lists as a keyframe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    /// Ticks of the file's clock.
    at: i64,
    /// Number of its sample or cue.
    number: u32,
    /// Position of its bytes in the file.
    offset: u64,
    size: u64,
}

/// The keyframes of one video stream by the container's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    candidates: Vec<Candidate>,
    end: i64,
    /// Size of a NAL unit's length field, bytes; 0 for start codes.
    nal_length: u8,
    /// The stream does not begin with a keyframe.
    headless: bool,
}

/// Indexes stream `stream` (ffmpeg's number), in at most 5 s and with some MiB, on a blocking thread.
///
/// # Errors
/// Why this stream cannot be copied into segments; the caller then encodes.
pub async fn keyframes(source: &Arc<Source>, media: &Media, stream: u32) -> Result<Index, RunError> {
    let codec = media.stream(stream).map_or("no video", |stream| stream.codec.as_str());
    if codec != "h264" {
        return Err(cannot(format!("{codec} is not supported, only h264")));
    }
    let start = to_ticks(media.start_seconds);
    let container = media.container;
    let work = async {
        if matches!(container, Container::Mp4 | Container::Matroska | Container::Webm) {
            let file = source.clone();
            let read = tokio::task::spawn_blocking(move || {
                let disk = Disk::of(&file.file);
                if container == Container::Mp4 {
                    of_track(&disk, start, &Movie::read(&disk)?.track(stream)?)
                } else {
                    let film = Film::read(&disk)?;
                    let track = film.track(stream)?;
                    of_cues(&disk, start, film.layout, &track, &film.cues(track.number)?)
                }
            });
            match read.await.map_err(|cause| RunError::Internal(cause.to_string()))? {
                Ok((index, _)) => return Ok(index),
                Err(Refusal::Final(why)) => return Err(cannot(why)),
                Err(Refusal::Unread(why)) => tracing::debug!(path = source.path, why, "keyframe index by a full pass"),
            }
        }
        pass::index(source, media, stream).await
    };
    tokio::time::timeout(DEADLINE, work)
        .await
        .map_err(|_| cannot("finding its keyframes took longer than 5 s".into()))?
}

/// Mean keyframe interval of the first video stream in seconds, by the tables of mp4 and Matroska; no picture is checked.
/// None if the tables do not have it, or not within 1 s.
pub async fn interval(source: &Arc<Source>, media: &Media) -> Option<f64> {
    let stream = media.video_streams().next()?.0.index;
    let (file, container, duration) = (source.clone(), media.container, media.duration_seconds);
    let read = tokio::task::spawn_blocking(move || {
        let disk = Disk::of(&file.file);
        match container {
            Container::Mp4 => {
                let track = Movie::read(&disk).ok()?.track(stream).ok()?;
                let shown = |sample: Sample| to_seconds(track.timing.shown(sample.time()));
                mean(track.samples.walk(0).filter(|sample| sample.sync).map(shown), duration)
            }
            Container::Matroska | Container::Webm => {
                let film = Film::read(&disk).ok()?;
                let cues = film.cues(film.track(stream).ok()?.number).ok()?;
                let scale = film.layout.scale as f64 / 1e9;
                mean(cues.iter().map(|cue| cue.time as f64 * scale), duration)
            }
            _ => None,
        }
    });
    tokio::time::timeout(GLANCE, read).await.ok()?.ok()?
}

/// The last cue of a Matroska file's first video stream, or of its first audio stream without video: seconds of the file's
/// clock, and the position of its cluster in the file. None without cues. Blocks on file I/O.
pub fn last_cue(source: &Source, media: &Media) -> Option<(f64, u64)> {
    let stream = media.video_streams().next().map(|(stream, _)| stream).or(media.audio_streams().next().map(|(stream, _)| stream))?;
    let disk = Disk::of(&source.file);
    let film = Film::read(&disk).ok()?;
    let cues = film.cues(film.packed_track(stream.index).ok()?.0.number).ok()?;
    let last = cues.iter().max_by_key(|cue| cue.time)?;
    Some((last.time as f64 * film.layout.scale as f64 / 1e9, film.layout.body.checked_add(last.cluster)?))
}

/// The mean step of these times; `duration` if there is only one.
fn mean(times: impl Iterator<Item = f64>, duration: Option<f64>) -> Option<f64> {
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

fn cannot(why: String) -> RunError {
    RunError::SourceRead(format!("the video cannot be copied: {why}"))
}

/// The keyframe index of an mp4 track, and the sample number of every keyframe; `start` is the file's first timestamp,
/// ticks.
pub(super) fn of_track(file: &(impl ReadAt + ?Sized), start: i64, track: &Track) -> Result<(Index, Vec<u32>), Refusal> {
    from_table(file, start, mp4::table(track)?)
}

/// The keyframe index of a Matroska track by its cues, and the cue number of every keyframe.
pub(super) fn of_cues(
    file: &(impl ReadAt + ?Sized),
    start: i64,
    layout: Layout,
    track: &matroska::Track,
    cues: &[Cue],
) -> Result<(Index, Vec<u32>), Refusal> {
    from_table(file, start, mkv::table(file, layout, track, cues)?)
}

/// Keeps the candidates that are IDR pictures.
fn from_table(file: &(impl ReadAt + ?Sized), start: i64, table: Table) -> Result<(Index, Vec<u32>), Refusal> {
    let deadline = Instant::now() + LOOK;
    let count = table.candidates.len();
    let mut idr = vec![true; count];
    // In strides, so that the candidates checked before the time limit represent the whole file.
    let stride = count.div_ceil(64).max(1);
    let order = (0..stride).flat_map(|from| (from..count).step_by(stride));
    let (mut looked, mut refused) = (0, 0);
    for index in order {
        if Instant::now() > deadline {
            // A slow disk. An encoder that uses recovery points uses them everywhere, so the sample suffices.
            if looked >= 64 && refused == 0 {
                break;
            }
            return Err(Refusal::Final("checking its keyframes took longer than 3 s".into()));
        }
        let candidate = table.candidates[index];
        let is_idr = nal::is_idr(file, candidate.offset, candidate.size, table.nal_length)?;
        idr[index] = is_idr;
        looked += 1;
        refused += usize::from(!is_idr);
    }
    if table.headless || !idr.first().copied().unwrap_or(false) {
        return Err(Refusal::Final("the video does not begin with an IDR picture".into()));
    }
    let mut kept: Vec<Candidate> =
        table.candidates.into_iter().zip(idr).filter(|(_, idr)| *idr).map(|(candidate, _)| candidate).collect();
    kept.sort_by_key(|candidate| candidate.at);
    kept.dedup_by_key(|candidate| candidate.at);
    let keyframes = kept.iter().map(|candidate| candidate.at - start).collect();
    let numbers = kept.iter().map(|candidate| candidate.number).collect();
    Ok((Index { keyframes, end: table.end - start }, numbers))
}

#[cfg(test)]
mod tests;
