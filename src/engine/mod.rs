#![doc = include_str!("README.md")]

use std::any::Any;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::domain::grid::Grid;
use crate::domain::media::Media;
use crate::domain::plan::Rendition;

mod captions;
pub mod changes;
pub mod clock;
pub mod content;
#[cfg(test)]
mod damaged;
pub mod elements;
pub mod encoders;
pub mod fake;
pub mod fallback;
pub mod ffmpeg;
pub mod folder;
pub mod gst;
pub mod index;
pub mod loudness;
pub mod outbound;
pub mod packager;
pub mod picture;
pub mod probe;
pub mod samples;
mod script;
pub mod segments;
pub mod source;
pub mod still;
pub mod subtitles;
mod tables;
pub mod tape;
pub mod versions;

use content::Content;
use packager::Package;
use source::Source;

/// MPEG-TS timestamps of a segment are source time plus this many seconds (as `hlssink2` does it).
pub const TIMELINE_BASE_SECONDS: i64 = 3600;

/// All a producer needs to make segments, as plain data around one open file.
#[derive(Clone, Debug)]
pub struct Job {
    pub source: Arc<Source>,
    /// The open file of a `Burn::Sidecar` in the rendition; None otherwise.
    pub sidecar: Option<Arc<Source>>,
    /// The picture of an `Emblem` in the rendition; None otherwise.
    pub picture: Option<Arc<picture::Picture>>,
    pub media: Arc<Media>,
    pub rendition: Arc<Rendition>,
    pub grid: Arc<Grid>,
    /// What makes it a job for the packager; None otherwise.
    pub package: Option<Arc<Package>>,
    /// The first segment to make; the run goes on from there to the end of the grid.
    pub first: usize,
    /// Held by a producer that reads the file in this process until its first segment is made.
    pub mark: Option<Arc<dyn Any + Send + Sync>>,
}

/// One finished segment: a canonical MPEG transport stream that begins with PAT and PMT.
#[derive(Clone, Debug)]
pub struct Segment {
    pub index: usize,
    pub content: Content,
}

/// Why a run ended early.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError {
    #[error("decoding failed: {0}")]
    Decode(String),
    #[error("encoding failed: {0}")]
    Encoder(String),
    #[error("the source could not be read: {0}")]
    SourceRead(String),
    #[error("the source changed while it was played")]
    SourceChanged,
    #[error("the source ends before this segment")]
    SourceEnded,
    #[error("no segment within {0} s")]
    Stalled(u64),
    #[error("{0}")]
    Internal(String),
}

/// A backend working forward, with back-pressure by a gate. Dropping it stops the work and frees everything it holds, children
/// included.
#[derive(Debug)]
pub struct Run {
    segments: mpsc::Receiver<Result<Segment, RunError>>,
    gate: watch::Sender<usize>,
}

impl Run {
    /// For producers: the run to hand out, and their ends of it. A producer stops when `segments` is closed, and does
    /// not begin a segment above the gate's value before the gate rises.
    pub fn channel(gate: usize) -> (Self, mpsc::Sender<Result<Segment, RunError>>, watch::Receiver<usize>) {
        let (sender, segments) = mpsc::channel(2);
        let (gate, opened) = watch::channel(gate);
        (Self { segments, gate }, sender, opened)
    }

    /// The next segment in order; None when the run is over: the last segment of the grid was delivered, or the source
    /// ends before the plan (a truncated file whose picture or sound is copied) and the last segment there is was. In the
    /// second case what is behind it does not exist: a run started there gives `SourceRead` at once. Encoded pictures and
    /// sound never end early: the last picture is repeated and silence added, so that every planned segment exists.
    pub async fn next(&mut self) -> Option<Result<Segment, RunError>> {
        self.segments.recv().await
    }

    /// Lets the run work up to and with segment `index`; it never closes again behind what was allowed.
    pub fn allow_through(&self, index: usize) {
        self.gate.send_if_modified(|gate| {
            let raise = index > *gate;
            if raise {
                *gate = index;
            }
            raise
        });
    }
}

/// A kind of producer: the packager for what is copied out of mp4 files, GStreamer in process, the ffmpeg subprocess for
/// everything else.
pub trait Transcoder: Send + Sync {
    /// Name for diagnostics, e.g. `ffmpeg`.
    fn name(&self) -> &'static str;

    /// Whatever changes the bytes it makes besides the rendition; part of every segment's key.
    fn version(&self) -> &str;

    /// Whether a run started elsewhere gives its first segment as soon as a run that is there already, and always in the
    /// same bytes: such segments are made when they are asked for, and dropped rather than written to disk.
    fn starts_at_once(&self) -> bool {
        false
    }

    /// The encoder it uses where a plan names `planned`; None for the very one.
    fn encoder(&self, _planned: &str) -> Option<&'static str> {
        None
    }

    /// The encoder it uses for sound.
    fn audio_encoder(&self) -> &'static str {
        "aac"
    }

    /// Who makes the next run: another name where it stands in front of several producers.
    fn at_work(&self) -> &'static str {
        self.name()
    }

    /// Hears that a run it started has failed. True when another producer will make the next one, so that this failure
    /// does not count against the work.
    fn failed(&self, _error: &RunError) -> bool {
        false
    }

    /// The failure for which another producer took over.
    fn fallen(&self) -> Option<RunError> {
        None
    }

    /// Starts a run at `job.first`, free to work up to and with `through`. Must be called inside a tokio runtime.
    fn start(&self, job: Job, through: usize) -> Result<Run, RunError>;
}
