#![doc = include_str!("README.md")]

use std::any::Any;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

pub mod artwork;
mod ass;
pub mod audio_fingerprint;
mod avi_video;
mod bitmap_subtitles;
pub mod clock;
pub mod cmaf_converter;
mod container;
pub mod content;
#[cfg(test)]
pub mod damaged_films;
pub mod dark_frames;
mod decoder_trial;
pub mod encoder_speed;
pub mod excerpt;
pub mod fake_backend;
pub mod fallback;
pub mod ffmpeg;
pub mod ffmpeg_decoders;
pub mod ffmpeg_encoders;
pub mod folder;
pub mod folder_watcher;
pub mod gst;
pub mod hardware_devices;
pub mod hardware_rest;
mod hardware_trial;
pub mod image;
pub mod index;
pub mod loudness;
pub mod nfo_file;
pub mod outbound;
pub mod own_process;
pub mod packager;
pub mod probe;
pub mod process;
mod program_stream;
pub mod recording_file;
pub mod remote;
mod rendition_spec;
pub mod renewable_cell;
pub mod sample_media;
pub mod scene_breaks;
pub mod segment_cache;
pub mod server_folders;
pub mod shared_segments;
pub mod software_encoding;
pub mod source;
pub mod still_image;
pub mod subtitle_extraction;
#[cfg(feature = "otlp")]
pub mod trace_exporter;
mod trial_cache;
pub mod versions;
pub mod video_decoders;
pub mod video_encoders;
pub mod worker;

pub use rendition_spec::{MAX_SEGMENT_BYTES, RenditionSpec};

use crate::domain::plan::EncodeVideo;
use crate::domain::time::Ticks;
use crate::domain::trace::TraceContext;
use crate::domain::worker::blame::Blame;
use content::SegmentContent;

/// MPEG-TS timestamps of a segment are source time plus this, as in `hlssink2`.
pub const TIMELINE_BASE: Ticks = Ticks::from_ms(3_600_000);

/// One run's work: the segments of a rendition from `first` on.
#[derive(Clone, Debug)]
pub struct Job {
    pub spec: Arc<RenditionSpec>,
    /// The first segment to make; the run continues from there to the end of the grid.
    pub first: usize,
    /// The span of the run, if it is traced.
    pub trace: Option<TraceContext>,
}

impl Job {
    /// A job that is not traced.
    pub fn new(spec: Arc<RenditionSpec>, first: usize) -> Self {
        Self { spec, first, trace: None }
    }

    /// The same with the span of its run.
    pub fn traced(self, trace: Option<TraceContext>) -> Self {
        Self { trace, ..self }
    }
}

/// One finished segment: a canonical MPEG transport stream that starts with PAT and PMT, or CMAF of one track, as the
/// rendition states. CMAF of the packager is a media segment, of other backends an init segment and a media segment.
#[derive(Clone, Debug)]
pub struct Segment {
    pub index: usize,
    pub content: SegmentContent,
}

/// A result of a run's work.
pub type Result<T, E = RunError> = std::result::Result<T, E>;

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", tag = "class", content = "text")]
pub enum RunError {
    #[error("decoding failed: {0}")]
    Decode(String),
    #[error("encoding failed: {0}")]
    Encoder(String),
    #[error("the source file could not be read: {0}")]
    SourceRead(String),
    #[error("the source file changed during playback")]
    SourceChanged,
    #[error("the source file ends before this segment")]
    SourceEnded,
    #[error("no segment within {0} s")]
    Stalled(u64),
    /// The worker process of the run has ended.
    #[error("a media worker ended: {text}")]
    WorkerLost { blame: Blame, text: String },
    #[error("{0}")]
    Internal(String),
}

impl RunError {
    /// Whether neither the file nor the backend is to blame: the same run may succeed at once.
    pub fn is_external_loss(&self) -> bool {
        matches!(self, Self::WorkerLost { blame: Blame::Outside | Blame::Unexplained | Blame::Storage, .. })
    }
}

/// A backend making segments in order. Dropping it stops the work and frees everything it owns, child processes included.
#[derive(Debug)]
pub struct Run {
    segments: mpsc::Receiver<Result<Segment, RunError>>,
    gate: watch::Sender<usize>,
    _guard: Option<Arc<dyn Any + Send + Sync>>,
}

impl Run {
    /// For backends: a new run, and the backend's ends of it. A backend stops when `segments` is closed. It does not start
    /// a segment above the gate's value until the gate rises.
    pub fn channel(gate: usize) -> (Self, mpsc::Sender<Result<Segment, RunError>>, watch::Receiver<usize>) {
        let (sender, segments) = mpsc::channel(2);
        let (gate, gate_receiver) = watch::channel(gate);
        (Self { segments, gate, _guard: None }, sender, gate_receiver)
    }

    /// Keeps `guard` until the run is dropped.
    #[must_use]
    pub fn with_guard(self, guard: Arc<dyn Any + Send + Sync>) -> Self {
        Self { _guard: Some(guard), ..self }
    }

    /// The next segment in order; None when the run is over.
    ///
    /// A run is over after the last segment of the grid. If video or audio is copied from a truncated file, the source ends
    /// before the plan: the run is then over after the last segment that exists, and a run started past it fails with
    /// `SourceRead` at once. Encoded video and audio never end early: the last frame is repeated and silence added, so that
    /// every planned segment exists.
    pub async fn next(&mut self) -> Option<Result<Segment, RunError>> {
        self.segments.recv().await
    }

    /// Lets the run make segments up to and including `index`. The limit never goes down again.
    pub fn allow_through(&self, index: usize) {
        self.gate.send_if_modified(|gate| {
            let is_higher = index > *gate;
            if is_higher {
                *gate = index;
            }
            is_higher
        });
    }
}

/// A backend: the packager for streams copied out of mp4 and Matroska files, GStreamer in a worker process, or the ffmpeg
/// subprocess for all other work.
pub trait Backend: Send + Sync {
    /// Name for diagnostics, e.g. `ffmpeg`.
    fn name(&self) -> &'static str;

    /// Everything besides the rendition that changes the bytes of a segment; part of every segment's key.
    fn version(&self) -> &str;

    /// Whether a run started at any segment delivers it as fast as a run in progress, and always with the same bytes.
    /// Such segments are made on request, and dropped instead of written to disk.
    fn has_instant_start(&self) -> bool {
        false
    }

    /// The video encoder this backend uses for a plan; None if it is the planned one.
    fn video_encoder(&self, _plan: &EncodeVideo) -> Option<&'static str> {
        None
    }

    /// The audio encoder this backend uses.
    fn audio_encoder(&self) -> &'static str {
        "aac"
    }

    /// The hardware that decodes video in the next run, as in [`video_decoders`]; None if software does.
    fn hardware_decoder(&self) -> Option<&'static str> {
        None
    }

    /// The video encoder of the remote worker that made the latest segment; None if this server made it.
    fn remote_encoder(&self) -> Option<&'static str> {
        None
    }

    /// Name of the backend that makes the next run; differs from `name` for a combination of backends.
    fn active_backend_name(&self) -> &'static str {
        self.name()
    }

    /// Called when a run it started has failed, but not for the first losses of a worker that are no fault of the run
    /// ([`RunError::is_external_loss`]). True when another backend makes the next run, so that this failure does not count
    /// against the rendition.
    fn handle_failure(&self, _error: &RunError) -> bool {
        false
    }

    /// The failure after which another backend took over.
    fn fallback_cause(&self) -> Option<RunError> {
        None
    }

    /// Starts a run at `job.first` that may make segments up to and including `last_allowed`. Must be called inside a tokio
    /// runtime.
    fn start(&self, job: Job, last_allowed: usize) -> Result<Run, RunError>;
}
