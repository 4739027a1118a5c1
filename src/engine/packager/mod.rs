//! Remux: copied streams of mp4 and Matroska files as segments, without a pipeline and without a process: H.264 and AAC as
//! MPEG-TS, one track of any codec with a form in MP4 as CMAF (`cmaf`).
//!
//! The tables are read when a session is planned (of Matroska the cues, because it has no others). Any segment is laid out
//! within a millisecond, on its own, and read from byte ranges of the open file while it is sent: the run only waits for
//! its gate. Times and bytes of every packet are those of `ffmpeg -c copy` (tests compare them); a file for which that is
//! not possible is left to ffmpeg, with the reason.
#![doc = include_str!("README.md")]

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::container::ContainerError;
use super::container::matroska::SharedScan;
use super::source::SourceFile;
use super::{Backend, Job, Run, RunError, Segment, SegmentContent};
use crate::domain::media::{Container, Media};

mod aac;
mod avc;
mod cmaf;
mod extent;
mod gather;
mod keyframe_samples;
mod lazy_segment;
mod matroska;
mod mp4;
mod muxed_tracks;
mod package;
mod package_cache;
mod pooled_buffer;
mod scatter;
mod segment_sample;
mod sps;
#[cfg(test)]
mod tests;
mod transport_segment;

pub(in crate::engine) use aac::AdtsConfig;
pub use cmaf::{AiredPosition, CmafTrack};
pub use lazy_segment::{LazySegment, LazySegmentReader, SegmentPart};
pub use muxed_tracks::MuxedTracks;
pub use package::Package;
pub use package_cache::PackageCache;

/// Timeout for reading the tables.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of the samples of one segment, bytes: 10 s at 200 Mbit/s.
const MAX_SEGMENT_PAYLOAD_BYTES: u64 = 256 << 20;

/// Codecs with a form in MP4 that players support. TrueHD, Vorbis and PCM are encoded instead.
const CMAF_CODECS: [&str; 12] =
    ["h264", "hevc", "av1", "vp9", "aac", "ac3", "eac3", "opus", "flac", "alac", "dts", "mp3"];

/// Reads what is needed to package stream `video` and stream `audio` (ffmpeg's numbers) as a transport stream, on a blocking
/// thread, in at most 5 s.
///
/// # Errors
/// Why the packager cannot handle this file.
pub async fn open_package(
    source: &Arc<SourceFile>,
    media: &Media,
    video: Option<u32>,
    audio: Option<u32>,
) -> Result<MuxedTracks, String> {
    let codec = |stream: u32| media.stream(stream).map_or("nothing", |stream| stream.codec.as_str());
    if !matches!((media.container, video), (Container::Mp4, _) | (Container::Matroska, Some(_))) {
        return Err(format!("the packager does not support {}", media.container.as_str()));
    }
    for (stream, expected) in [(video, "h264"), (audio, "aac")] {
        if let Some(codec_name) = stream.map(codec).filter(|&found| found != expected) {
            return Err(format!("the packager does not support {codec_name}"));
        }
    }
    // The SPS may lack the aspect, and only ffmpeg inserts it.
    if media
        .video_streams()
        .any(|(stream, details)| Some(stream.index) == video && details.sample_aspect.0 != details.sample_aspect.1)
    {
        return Err("the sample aspect ratio may be stated only in the container".into());
    }
    let (file, start, container) = (source.clone(), media.start_seconds, media.container);
    read_tables(move || match (container, video) {
        (Container::Matroska, Some(video)) => MuxedTracks::open_matroska(&*file, video, audio, start),
        _ => MuxedTracks::open_mp4(&*file, video, audio, start),
    })
    .await
}

/// Whether CMAF is made of such streams. Opening one may fail all the same.
pub fn is_cmaf_source(container: Container, codec: &str) -> bool {
    matches!(container, Container::Mp4 | Container::Matroska | Container::Webm) && CMAF_CODECS.contains(&codec)
}

/// Reads what is needed to package one stream (ffmpeg's number) as CMAF, on a blocking thread, in at most 5 s.
///
/// # Errors
/// Why the packager cannot handle this stream.
pub async fn open_cmaf_track(source: &Arc<SourceFile>, media: &Media, stream: u32) -> Result<CmafTrack, String> {
    open_scanned_track(source, media, stream, Arc::default()).await
}

/// Like [`open_cmaf_track`], with the scan of a Matroska file without cues that the tracks of the file share.
async fn open_scanned_track(
    source: &Arc<SourceFile>,
    media: &Media,
    stream: u32,
    scan: Arc<SharedScan>,
) -> Result<CmafTrack, String> {
    let codec = media.stream(stream).map_or("nothing", |stream| stream.codec.as_str());
    if !CMAF_CODECS.contains(&codec) {
        return Err(format!("the packager does not support {codec}"));
    }
    let (file, start) = (source.clone(), media.start_seconds);
    match media.container {
        Container::Mp4 => read_tables(move || CmafTrack::open_mp4(&*file, stream, start)).await,
        Container::Matroska | Container::Webm => {
            read_tables(move || CmafTrack::open_matroska(&*file, stream, start, &scan)).await
        }
        other => Err(format!("the packager does not support {}", other.as_str())),
    }
}

/// Runs `read` on a blocking thread, within [`OPEN_TIMEOUT`].
async fn read_tables<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, ContainerError> + Send + 'static,
) -> Result<T, String> {
    let result = tokio::time::timeout(OPEN_TIMEOUT, tokio::task::spawn_blocking(read)).await;
    let result = result.map_err(|_| "reading the tables took longer than 5 s")?;
    result.map_err(|cause| cause.to_string())?.map_err(|refusal| refusal.reason().to_owned())
}

/// The backend for jobs that have a [`Package`].
#[derive(Clone, Copy, Debug)]
pub struct Packager;

impl Backend for Packager {
    fn name(&self) -> &'static str {
        "packager"
    }

    fn version(&self) -> &str {
        "2"
    }

    fn has_instant_start(&self) -> bool {
        true
    }

    fn start(&self, job: Job, last_allowed: usize) -> Result<Run, RunError> {
        let package = job.spec.package.clone().ok_or_else(|| RunError::Internal("the job has no package".into()))?;
        let (requested, format) = (job.spec.rendition.format, package.format());
        if requested != format {
            let text = format!("the package makes {} segments, not {}", format.as_str(), requested.as_str());
            return Err(RunError::Internal(text));
        }
        if job.first >= job.spec.grid.len() {
            return Err(RunError::Internal(format!("segment {} is after the last segment", job.first)));
        }
        let (run, segments, gate) = Run::channel(last_allowed);
        tokio::spawn(run_package(job, package, segments, gate));
        Ok(run)
    }
}

/// Makes segment after segment as the gate allows, until the receiver is dropped.
async fn run_package(
    job: Job,
    package: Arc<Package>,
    segments: mpsc::Sender<Result<Segment, RunError>>,
    mut gate: watch::Receiver<usize>,
) {
    for index in job.first..job.spec.grid.len() {
        tokio::select! {
            () = segments.closed() => return,
            open = gate.wait_for(|open| *open >= index) => if open.is_err() { return },
        }
        let (source, package, grid) = (job.spec.source.clone(), package.clone(), job.spec.grid.clone());
        let task = tokio::task::spawn_blocking(move || {
            let result = package.lay_out_segment(&*source, &grid, index);
            if source.has_same_content() { result } else { Err(RunError::SourceChanged) }
        });
        let result = task.await.unwrap_or_else(|cause| Err(RunError::Internal(cause.to_string())));
        let failed = result.is_err();
        let segment = result.map(|lazy| Segment { index, content: SegmentContent::Lazy(Arc::new(lazy)) });
        if segments.send(segment).await.is_err() || failed {
            return;
        }
    }
}
