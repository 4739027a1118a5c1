//! Remux: copied H.264 and AAC of mp4 and Matroska files as segments, without a pipeline and without a process.
//!
//! The tables are read when a session is planned (of Matroska the cues, because it has no others). Any segment is laid out
//! within a millisecond, on its own, and packed from byte ranges of the open file while it is sent: the run only waits for
//! its gate. Times and bytes of every packet are those of `ffmpeg -c copy` (tests compare them); a file for which that is
//! not possible is left to ffmpeg, with the reason.
#![doc = include_str!("README.md")]

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::source::SourceFile;
use super::{Backend, Job, Run, RunError, Segment, SegmentContent};
use crate::domain::media::{Container, Media};

mod aac;
mod avc;
mod gather;
mod lazy_segment;
mod matroska;
mod mp4;
mod package;
mod package_cache;
mod pooled_buffer;
mod segment_sample;
mod sps;
#[cfg(test)]
mod tests;

pub(in crate::engine) use aac::AdtsConfig;
pub use lazy_segment::{LazySegment, LazySegmentReader};
pub use package::Package;
pub use package_cache::PackageCache;

/// Timeout for reading the tables.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads what is needed to package stream `video` and stream `audio` (ffmpeg's numbers), on a blocking thread, in at most
/// 5 s.
///
/// # Errors
/// Why the packager cannot handle this file.
pub async fn open_package(
    source: &Arc<SourceFile>,
    media: &Media,
    video: Option<u32>,
    audio: Option<u32>,
) -> Result<Package, String> {
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
    let (source_handle, start, container) = (source.clone(), media.start_seconds, media.container);
    let task = tokio::task::spawn_blocking(move || match (container, video) {
        (Container::Matroska, Some(video)) => Package::open_matroska(&*source_handle, video, audio, start),
        _ => Package::open_mp4(&*source_handle, video, audio, start),
    });
    let result =
        tokio::time::timeout(OPEN_TIMEOUT, task).await.map_err(|_| "reading the tables took longer than 5 s")?;
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
