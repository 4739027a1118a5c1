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

use super::source::Source;
use super::tables::bytes::Disk;
use super::{Content, Job, Run, RunError, Segment, Backend};
use crate::domain::media::{Container, Media};

mod aac;
mod avc;
mod matroska;
mod mp4;
mod package;
mod parcel;
mod pieces;
mod sheet;
mod shelf;
mod sps;
#[cfg(test)]
mod tests;

pub use package::Package;
pub use parcel::{Packing, Parcel};
pub use shelf::Shelf;

/// Timeout for reading the tables.
const DEADLINE: Duration = Duration::from_secs(5);

/// Reads what is needed to package stream `video` and stream `audio` (ffmpeg's numbers), on a blocking thread, in at most
/// 5 s.
///
/// # Errors
/// Why the packager cannot handle this file.
pub async fn open(
    source: &Arc<Source>,
    media: &Media,
    video: Option<u32>,
    audio: Option<u32>,
) -> Result<Package, String> {
    let codec = |stream: u32| media.stream(stream).map_or("nothing", |stream| stream.codec.as_str());
    if !matches!((media.container, video), (Container::Mp4, _) | (Container::Matroska, Some(_))) {
        return Err(format!("the packager does not support {}", media.container.as_str()));
    }
    for (stream, wanted) in [(video, "h264"), (audio, "aac")] {
        if let Some(found) = stream.map(codec).filter(|&found| found != wanted) {
            return Err(format!("the packager does not support {found}"));
        }
    }
    // The SPS may lack the aspect, and only ffmpeg inserts it.
    if media.video_streams().any(|(found, shown)| Some(found.index) == video && shown.sample_aspect.0 != shown.sample_aspect.1)
    {
        return Err("the sample aspect ratio may be stated only in the container".into());
    }
    let (held, start, container) = (source.clone(), media.start_seconds, media.container);
    let reading = tokio::task::spawn_blocking(move || match (container, video) {
        (Container::Matroska, Some(video)) => Package::matroska(&Disk::of(&held.file), video, audio, start),
        _ => Package::mp4(&Disk::of(&held.file), video, audio, start),
    });
    let read = tokio::time::timeout(DEADLINE, reading).await.map_err(|_| "reading the tables took longer than 5 s")?;
    read.map_err(|cause| cause.to_string())?.map_err(|refusal| refusal.why().to_owned())
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

    fn start(&self, job: Job, through: usize) -> Result<Run, RunError> {
        let package = job.package.clone().ok_or_else(|| RunError::Internal("the job has no package".into()))?;
        if job.first >= job.grid.len() {
            return Err(RunError::Internal(format!("segment {} is after the last segment", job.first)));
        }
        let (run, segments, gate) = Run::channel(through);
        tokio::spawn(work(job, package, segments, gate));
        Ok(run)
    }
}

/// Makes segment after segment as the gate allows, until the receiver is dropped.
async fn work(
    job: Job,
    package: Arc<Package>,
    segments: mpsc::Sender<Result<Segment, RunError>>,
    mut gate: watch::Receiver<usize>,
) {
    for index in job.first..job.grid.len() {
        tokio::select! {
            () = segments.closed() => return,
            open = gate.wait_for(|open| *open >= index) => if open.is_err() { return },
        }
        let (source, package, grid) = (job.source.clone(), package.clone(), job.grid.clone());
        let making = tokio::task::spawn_blocking(move || {
            let made = package.segment(&Disk::of(&source.file), &grid, index);
            if source.holds_the_same() { made } else { Err(RunError::SourceChanged) }
        });
        let made = making.await.unwrap_or_else(|cause| Err(RunError::Internal(cause.to_string())));
        let failed = made.is_err();
        let made = made.map(|parcel| Segment { index, content: Content::Parcel(Arc::new(parcel)) });
        if segments.send(made).await.is_err() || failed {
            return;
        }
    }
}
