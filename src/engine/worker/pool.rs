//! The pool of workers: who makes probes and runs, and what follows when a worker dies.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::PROBE_PIPELINE;
use super::death::Death;
use super::discovery::{MAX_PROBES, MAX_WAITING_PROBES};
use super::inspection::Inspection;
use super::message::EngineReport;
use super::process::{WorkerProcess, WorkerSettings};
use super::replay::{Replay, ReplayQueue};
use super::run_job::pipeline_name;
use super::spares::Spares;
use super::starter::WorkerStarter;
use super::statistics::PoolStatus;
use crate::domain::worker::blame::{Consequence, DeathLog};
use crate::domain::worker::{ProvenFault, QuarantineKey, Stage};
use crate::engine::RenditionSpec;
use crate::engine::renewable_cell::RenewableCell;
use crate::engine::source::SourceFile;

/// The name of parsing NFO files in quarantine keys.
const NFO_PIPELINE: &str = "nfo";

/// Below this memory of the machine, bytes, no spare for runs is started ahead.
const MIN_SPARE_MEMORY_BYTES: u64 = 1 << 30;

/// Remembers the files that made workers crash. Implemented above this room.
pub trait FaultRecorder: Send + Sync + std::fmt::Debug {
    /// Whether no worker may do this work with this file.
    fn is_quarantined(&self, key: &QuarantineKey) -> bool;

    /// Puts a file in quarantine. Must not block.
    fn record(&self, fault: ProvenFault);

    /// Number of faults in quarantine.
    fn count(&self) -> usize;
}

/// Settings of a pool.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// The program to run as a worker: this one, `/proc/self/exe`.
    pub program: PathBuf,
    /// The server's cache folder, for GStreamer's registry.
    pub cache: PathBuf,
    pub recorder: Arc<dyn FaultRecorder>,
    /// The version of this program and of GStreamer, part of quarantine keys.
    pub version: String,
}

/// The workers of a server. Dropping it ends all of them, except those of runs, which end with their run.
#[derive(Debug)]
pub struct WorkerPool {
    pub(super) starter: Arc<WorkerStarter>,
    pub(super) probe_workers: Spares,
    pub(super) run_workers: Spares,
    pub(super) recorder: Arc<dyn FaultRecorder>,
    version: String,
    deaths: Mutex<DeathLog>,
    started_at: Instant,
    replays: ReplayQueue,
    pub(super) inspection: Arc<Inspection>,
    pub(super) report: RenewableCell<Arc<EngineReport>>,
    /// Probes that run or wait, and those that run.
    pub(super) probe_queue: Semaphore,
    pub(super) probe_turns: Semaphore,
}

impl WorkerPool {
    /// A pool without workers; [`Self::warm`] starts the first. Must be called inside a tokio runtime.
    pub fn new(settings: PoolSettings) -> Self {
        let PoolSettings { program, cache, recorder, version } = settings;
        let starter = Arc::new(WorkerStarter::new(WorkerSettings { program, cache }));
        Self {
            probe_workers: Spares::new(starter.clone(), true),
            run_workers: Spares::new(starter.clone(), total_memory_bytes() >= MIN_SPARE_MEMORY_BYTES),
            replays: ReplayQueue::new(starter.clone(), recorder.clone()),
            starter,
            recorder,
            version,
            deaths: Mutex::default(),
            started_at: Instant::now(),
            inspection: Arc::default(),
            report: RenewableCell::default(),
            probe_queue: Semaphore::new(MAX_PROBES + MAX_WAITING_PROBES),
            probe_turns: Semaphore::new(MAX_PROBES),
        }
    }

    /// Makes GStreamer's registry and starts the spares, first that for probes: a client begins with one.
    pub async fn warm(&self) {
        self.probe_workers.warm().await;
        self.run_workers.warm().await;
    }

    /// A worker for a run.
    ///
    /// # Errors
    /// Why none starts.
    pub(super) async fn take_run_worker(&self) -> Result<WorkerProcess, String> {
        self.run_workers.take().await
    }

    /// The key of a probe of this file.
    ///
    /// # Errors
    /// When the file cannot be read for its fingerprint.
    pub(super) async fn probe_key(&self, source: &Arc<SourceFile>) -> Result<QuarantineKey, String> {
        let fingerprint = match source.cached_fingerprint() {
            Some(fingerprint) => fingerprint.to_owned(),
            None => {
                let source = source.clone();
                let computed = tokio::task::spawn_blocking(move || source.fingerprint().map(str::to_owned)).await;
                computed.map_err(|cause| cause.to_string())?.map_err(|cause| cause.to_string())?
            }
        };
        Ok(self.key(fingerprint, Stage::Probe, PROBE_PIPELINE))
    }

    /// The key of a run of this rendition.
    pub(super) fn run_key(&self, spec: &RenditionSpec) -> QuarantineKey {
        self.key(spec.fingerprint.clone(), Stage::Run, pipeline_name(&spec.rendition))
    }

    /// The key of work with an image, by the hash of its bytes.
    pub(super) fn image_key(&self, digest: &str, pipeline: &str) -> QuarantineKey {
        self.key(digest.to_owned(), Stage::Image, pipeline)
    }

    /// The key of parsing an NFO file, by the hash of its bytes.
    pub(super) fn nfo_key(&self, digest: &str) -> QuarantineKey {
        self.key(digest.to_owned(), Stage::Nfo, NFO_PIPELINE)
    }

    fn key(&self, fingerprint: String, stage: Stage, pipeline: &str) -> QuarantineKey {
        QuarantineKey { fingerprint, stage, pipeline: pipeline.to_owned(), version: self.version.clone() }
    }

    /// Records the death of a worker during the work `key` of the file at `path`, and says what follows.
    pub(super) fn record_death(&self, key: &QuarantineKey, path: &str, death: &Death) -> Consequence {
        let text = format!("{}: {} ({path})", key.pipeline, death.text);
        self.starter.statistics.record_death(death.cause, &text);
        let now_ms = i64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(i64::MAX);
        let mut deaths = self.deaths.lock().unwrap_or_else(PoisonError::into_inner);
        let consequence = deaths.record(now_ms, &key.fingerprint, death.blame);
        drop(deaths);
        let (cause, blame) = (&death.text, death.blame);
        tracing::warn!(
            media.path = path,
            pipeline = key.pipeline,
            cause,
            ?blame,
            ?consequence,
            "a worker died at its job"
        );
        consequence
    }

    /// Queues a replay. With a full queue the fault is proven another time.
    pub(super) fn replay(&self, replay: Replay) {
        self.replays.push(replay);
    }

    /// Workers, deaths and quarantine.
    pub fn status(&self) -> PoolStatus {
        let idle = self.probe_workers.idle() + self.run_workers.idle();
        self.starter.statistics.status(idle, self.recorder.count())
    }
}

/// The error in the body of `Failed`, for people.
pub(super) fn error_text(body: &[u8]) -> String {
    const MAX_BYTES: usize = 500;
    let error = serde_json::from_slice::<crate::engine::RunError>(body);
    let mut text = error.map_or_else(|_| "no reason".to_owned(), |error| error.to_string());
    text.truncate(text.floor_char_boundary(MAX_BYTES));
    text
}

/// Memory of this machine, bytes.
fn total_memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}
