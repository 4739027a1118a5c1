#![doc = include_str!("README.md")]

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

mod backend;
mod beat_monitor;
pub mod crash_page;
mod death;
mod discovery;
mod file_job;
mod image;
mod inspection;
mod log_relay;
pub mod message;
mod nfo;
mod pool;
mod process;
mod replay;
mod reply;
mod run_exchange;
mod run_job;
mod spares;
mod srt;
mod starter;
mod statistics;
mod still;
mod trials;
mod wire;

pub use backend::WorkerBackend;
pub use discovery::DiscoverError;
pub use file_job::FileFault;
pub use inspection::GraphFormat;
pub use pool::{FaultRecorder, PoolSettings, WorkerPool};
pub use run_job::pipeline_name;
pub use srt::SrtReceiver;
pub use statistics::{EndCause, LastDeath, PoolStatus};

use message::{EngineReport, SrtWork, TrialScope};

use super::gst;
use super::gst::StillTask;
use super::gst::registry::{FailedPipeline, PipelineStatus};
use super::probe::DecoderInfo;
use super::source::SourceFile;
use super::still_image::StillJob;
use crate::domain::mpegts::channel_timeline::StillImage;
use crate::domain::nfo::Nfo;
use crate::engine::image::Image;
use crate::engine::nfo_file::NfoFile;

/// The pipeline's name in quarantine keys of probes.
pub const PROBE_PIPELINE: &str = "discover";

/// Longest wait for the elements of this process to answer. One of them may hang.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Where GStreamer runs.
#[derive(Clone, Debug)]
pub enum Isolation {
    /// In worker processes.
    Process(Arc<WorkerPool>),
    /// In this process, where a crash ends the server.
    None,
}

impl Isolation {
    /// Starts what the first probe and the first run would wait for.
    pub async fn warm(&self) {
        match self {
            Self::Process(pool) => pool.warm().await,
            Self::None => {
                let _ = tokio::task::spawn_blocking(gst::start_discoverers).await;
            }
        }
    }

    /// The streams of a file as decoders see them.
    ///
    /// # Errors
    /// The reason why ffprobe has to read the file.
    pub async fn discover(&self, source: &Arc<SourceFile>) -> Result<Vec<DecoderInfo>, String> {
        match self {
            Self::Process(pool) => pool.discover(source).await.map_err(|error| error.to_string()),
            Self::None => gst::discover_in_process(source).await,
        }
    }

    /// GStreamer's abilities on this machine.
    ///
    /// # Errors
    /// Why it is not known, e.g. because no worker starts.
    pub async fn examine(&self) -> Result<Arc<EngineReport>, String> {
        match self {
            Self::Process(pool) => pool.examine().await,
            Self::None => {
                let examined = tokio::task::spawn_blocking(|| gst::examine(TrialScope::All)).await;
                examined.map_err(|cause| cause.to_string())?.map(Arc::new)
            }
        }
    }

    /// Has GStreamer's abilities found out again, after a device has come or gone. Nothing changes with `isolation = "none"`:
    /// a new registry enables all elements until they are restricted again.
    ///
    /// # Errors
    /// Why they were not. What was known before stays.
    pub async fn examine_again(&self) -> Result<(), String> {
        match self {
            Self::Process(pool) => pool.examine_again().await,
            Self::None => Ok(()),
        }
    }

    /// All running pipelines, and those that failed lately.
    ///
    /// # Errors
    /// When a pipeline of this process does not answer. A worker that does not answer is left out.
    pub async fn pipelines(&self) -> Result<(Vec<PipelineStatus>, Vec<FailedPipeline>), String> {
        match self {
            Self::Process(pool) => Ok(pool.inspection.pipelines().await),
            Self::None => query(|| (gst::registry::running_pipelines(), gst::registry::failed_pipelines())).await,
        }
    }

    /// The graph of a pipeline; None if there is no such pipeline, or if it is not running and `Dot` is requested.
    ///
    /// # Errors
    /// When a pipeline of this process does not answer.
    pub async fn graph(&self, pipeline: u64, format: GraphFormat) -> Result<Option<String>, String> {
        let render = move || match format {
            GraphFormat::Dot => gst::registry::pipeline_dot(pipeline),
            format => gst::registry::pipeline_graph(pipeline).and_then(|graph| format.render(&graph)),
        };
        match self {
            Self::Process(pool) => Ok(pool.inspection.graph(pipeline, format).await),
            Self::None => query(render).await,
        }
    }

    /// The bus messages of a pipeline; None if there is no such pipeline.
    ///
    /// # Errors
    /// When a pipeline of this process does not answer.
    pub async fn messages(&self, pipeline: u64) -> Result<Option<Vec<String>>, String> {
        match self {
            Self::Process(pool) => Ok(pool.inspection.messages(pipeline).await),
            Self::None => query(move || gst::registry::pipeline_log(pipeline)).await,
        }
    }

    /// Connects to an SRT server as a caller.
    ///
    /// # Errors
    /// Why it is not possible, without the address.
    pub async fn receive_srt(&self, work: SrtWork) -> Result<SrtReceiver, String> {
        match self {
            Self::Process(pool) => pool.receive_srt(work).await,
            Self::None => {
                // Connecting blocks until the server responds.
                let connect = move || gst::srt::SrtStream::connect(work.server, &work.options);
                let connected = tokio::task::spawn_blocking(connect).await.map_err(|cause| cause.to_string())?;
                connected.map(SrtReceiver::InProcess)
            }
        }
    }

    /// Decodes a whole image, to learn whether it can be shown. `path` is for messages.
    ///
    /// # Errors
    /// [`FileFault`].
    pub async fn check_image(&self, image: &Arc<Image>, path: &str) -> Result<(), FileFault> {
        let report = self.examine().await.map_err(FileFault::Unchecked)?;
        if let Some(missing) = ["pngdec", "avdec_mjpeg"].into_iter().find(|element| !report.has(element)) {
            return Err(FileFault::Unchecked(format!("this GStreamer has no {missing}")));
        }
        match self {
            Self::Process(pool) => pool.check_image(image, path).await,
            Self::None => {
                let image = image.clone();
                let checked = tokio::task::spawn_blocking(move || gst::check_image(&image)).await;
                checked.map_err(|cause| FileFault::Unchecked(cause.to_string()))?.map_err(FileFault::of_error)
            }
        }
    }

    /// The records of an NFO file. `path` is for messages.
    ///
    /// # Errors
    /// [`FileFault`].
    pub async fn parse_nfo(&self, nfo: &NfoFile, path: &str) -> Result<Vec<Nfo>, FileFault> {
        match self {
            Self::Process(pool) => pool.parse_nfo(nfo, path).await,
            Self::None => {
                let nfo = nfo.clone();
                let parsed = tokio::task::spawn_blocking(move || nfo.parse()).await;
                parsed.map_err(|cause| FileFault::Unchecked(cause.to_string()))?.map_err(FileFault::of_error)
            }
        }
    }

    /// Encodes a slate with GStreamer.
    ///
    /// # Errors
    /// Why ffmpeg has to make it, for people.
    pub async fn encode_still(&self, job: &StillJob) -> Result<StillImage, String> {
        match self {
            Self::Process(pool) => pool.encode_still(job).await,
            Self::None => {
                let report = self.examine().await?;
                let encoder = gst::select_still_encoder(job, &report)?;
                let job = job.clone();
                let encode = move || StillTask::from_job(&job, encoder).and_then(|task| task.encode());
                let encoded = tokio::task::spawn_blocking(encode).await.map_err(|cause| cause.to_string())?;
                encoded.map_err(|error| error.to_string())
            }
        }
    }

    /// Workers, deaths and quarantine; all zero without workers.
    pub fn status(&self) -> PoolStatus {
        match self {
            Self::Process(pool) => pool.status(),
            Self::None => PoolStatus::default(),
        }
    }
}

/// Runs a query of pipelines of this process, off the async threads.
async fn query<T: Send + 'static>(query: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let answer = timeout(ANSWER_TIMEOUT, tokio::task::spawn_blocking(query)).await;
    answer.map_err(|_| "a pipeline does not answer".to_owned())?.map_err(|cause| cause.to_string())
}
