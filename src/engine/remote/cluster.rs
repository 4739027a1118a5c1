//! The workers a server knows, and its runs at them.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::RunQueue;
use super::message::{RunControl, RunEnd, WorkOrder};
use crate::domain::mpegts::packet::PACKET_LEN;
use crate::domain::worker::remote::{LocalMachine, WorkerReport, is_offered};
use crate::engine::RenditionSpec;
use crate::engine::source::SourceFile;
use crate::engine::video_encoders::VideoEncoder;

/// A worker that has reported nothing for this long is gone.
const WORKER_EXPIRY: Duration = Duration::from_secs(3);

/// Workers known at most; reports of others are ignored.
const MAX_WORKERS: usize = 256;

/// Finished segments of a run that wait for its reader.
const MAX_UNREAD_EVENTS: usize = 2;

/// The workers of a server, and the runs they make for it.
#[derive(Debug)]
pub struct Cluster {
    local_slots: usize,
    cores: usize,
    /// A clone for each local run.
    local_runs: Arc<()>,
    state: Mutex<ClusterState>,
    queue: OnceLock<Arc<dyn RunQueue>>,
    /// The encode slots of all workers.
    remote_slots: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct ClusterState {
    workers: BTreeMap<String, KnownWorker>,
    runs: HashMap<String, ActiveRun>,
}

#[derive(Debug)]
struct KnownWorker {
    report: WorkerReport,
    reported_at: Instant,
    last_seen: Timestamp,
    /// It lost a run and has not reported since.
    is_suspect: bool,
}

#[derive(Debug)]
struct ActiveRun {
    spec: Arc<RenditionSpec>,
    end: usize,
    next: usize,
    through: usize,
    /// The worker that claimed it.
    worker: Option<String>,
    events: mpsc::Sender<RunEvent>,
}

/// An event of a run at a worker.
#[derive(Debug)]
pub enum RunEvent {
    Claimed { encoder: &'static VideoEncoder },
    Beat,
    Segment { index: usize, bytes: Bytes },
    Ended(RunEnd),
}

/// Why a worker's request about a run is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunRefusal {
    #[error("this run is over, or belongs to another worker")]
    NotYours,
    #[error("this segment is not the next one that the run may make")]
    OutOfTurn,
    #[error("this is not an MPEG transport stream")]
    NotTransportStream,
}

/// A worker as it last reported.
#[derive(Clone, Debug)]
pub struct WorkerStatus {
    pub report: WorkerReport,
    pub last_seen: Timestamp,
    /// Runs it makes for this server.
    pub active_runs: usize,
}

/// A run that is offered to workers. Dropping it ends the run, and the worker is notified.
#[derive(Debug)]
pub struct OfferedRun {
    pub id: String,
    pub events: mpsc::Receiver<RunEvent>,
    cluster: Arc<Cluster>,
}

impl Cluster {
    /// No workers yet. `local_slots` are the encode slots of this server.
    pub fn new(local_slots: usize) -> Arc<Self> {
        Arc::new(Self {
            local_slots,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            local_runs: Arc::default(),
            state: Mutex::default(),
            queue: OnceLock::new(),
            remote_slots: watch::Sender::new(0),
        })
    }

    /// Sets the queue through which workers are reached, once.
    pub fn connect(&self, queue: Arc<dyn RunQueue>) {
        let _ = self.queue.set(queue);
    }

    pub(super) fn queue(&self) -> Option<&Arc<dyn RunQueue>> {
        self.queue.get()
    }

    /// The encode slots of all workers, as they come and go.
    pub fn remote_slots(&self) -> watch::Receiver<usize> {
        self.remote_slots.subscribe()
    }

    /// Held as long as a local run exists.
    pub(super) fn count_local_run(&self) -> Arc<dyn Any + Send + Sync> {
        self.local_runs.clone()
    }

    /// Records the report of a worker.
    pub fn record_report(&self, report: WorkerReport) {
        let mut state = self.lock();
        if state.workers.len() >= MAX_WORKERS && !state.workers.contains_key(&report.id) {
            return;
        }
        let (reported_at, last_seen) = (Instant::now(), Timestamp::now());
        let known = KnownWorker { report, reported_at, last_seen, is_suspect: false };
        if state.workers.insert(known.report.id.clone(), known).is_none() {
            self.publish_slots(&state);
        }
    }

    /// Removes workers that no longer report, and `is_enrolled` those that may not work any more.
    pub fn remove_expired(&self, is_enrolled: impl Fn(&str) -> bool) {
        let mut state = self.lock();
        let before = state.workers.len();
        state.workers.retain(|id, worker| worker.reported_at.elapsed() < WORKER_EXPIRY && is_enrolled(id));
        if state.workers.len() != before {
            self.publish_slots(&state);
        }
    }

    fn publish_slots(&self, state: &ClusterState) {
        self.remote_slots.send_replace(state.workers.values().map(|worker| worker.report.slots).sum());
    }

    /// All workers, by id.
    pub fn workers(&self) -> Vec<WorkerStatus> {
        let state = self.lock();
        let status = |worker: &KnownWorker| WorkerStatus {
            report: worker.report.clone(),
            last_seen: worker.last_seen,
            active_runs: state.runs_of(&worker.report.id),
        };
        state.workers.values().map(status).collect()
    }

    /// Whether a run that starts now is offered to the workers, by [`is_offered`].
    pub(super) fn has_offer(&self) -> bool {
        if self.queue.get().is_none() {
            return false;
        }
        let state = self.lock();
        let free_slots = |worker: &KnownWorker| worker.report.slots.saturating_sub(state.runs_of(&worker.report.id));
        let free: Vec<&KnownWorker> =
            state.workers.values().filter(|worker| !worker.is_suspect && free_slots(worker) > 0).collect();
        let unclaimed = state.runs.values().filter(|run| run.worker.is_none()).count();
        if free.iter().map(|worker| free_slots(worker)).sum::<usize>() <= unclaimed {
            return false;
        }
        let local =
            LocalMachine { cores: self.cores, slots: self.local_slots, runs: Arc::strong_count(&self.local_runs) - 1 };
        is_offered(local, free.into_iter().map(|worker| &worker.report))
    }

    /// Opens a run of the segments from `first` up to `end`, of which those up to and including `through` may be made now. Whatever is
    /// allowed later, its worker reads nothing for segments from `end` on.
    pub(super) fn open_run(
        self: &Arc<Self>,
        id: String,
        spec: &Arc<RenditionSpec>,
        (first, end): (usize, usize),
        through: usize,
    ) -> OfferedRun {
        let (sender, events) = mpsc::channel(MAX_UNREAD_EVENTS);
        let through = through.min(end - 1);
        let run = ActiveRun { spec: spec.clone(), end, next: first, through, worker: None, events: sender };
        self.lock().runs.insert(id.clone(), run);
        OfferedRun { id, events, cluster: self.clone() }
    }

    /// Gives a run to the worker that claims it first, and will use this encoder.
    pub async fn claim(&self, run: &str, worker: &str, encoder: &'static VideoEncoder) -> Option<WorkOrder> {
        let (order, events) = {
            let mut state = self.lock();
            let active = state.runs.get_mut(run)?;
            if active.worker.is_some() {
                return None;
            }
            active.worker = Some(worker.to_owned());
            (active.order(run), active.events.clone())
        };
        events.send(RunEvent::Claimed { encoder }).await.ok()?;
        Some(order)
    }

    /// The source of a run that this worker makes.
    pub fn source(&self, run: &str, worker: &str) -> Option<Arc<SourceFile>> {
        Some(self.lock().of_worker(run, worker)?.spec.source.clone())
    }

    /// Takes a segment from the worker that makes the run. The first copy of a segment counts; later ones are ignored. Waits
    /// while the reader is busy.
    ///
    /// # Errors
    /// [`RunRefusal`].
    pub async fn accept_segment(&self, run: &str, worker: &str, index: usize, bytes: Bytes) -> Result<(), RunRefusal> {
        if !is_transport_stream(&bytes) {
            return Err(RunRefusal::NotTransportStream);
        }
        let events = {
            let mut state = self.lock();
            let active = state.of_worker(run, worker).ok_or(RunRefusal::NotYours)?;
            if index < active.next {
                return Ok(());
            }
            if index != active.next || index > active.through || index >= active.end {
                return Err(RunRefusal::OutOfTurn);
            }
            active.next = index + 1;
            active.events.clone()
        };
        events.send(RunEvent::Segment { index, bytes }).await.map_err(|_| RunRefusal::NotYours)
    }

    /// Ends a run by the report of its worker.
    ///
    /// # Errors
    /// [`RunRefusal::NotYours`].
    pub async fn end(&self, run: &str, worker: &str, end: RunEnd) -> Result<(), RunRefusal> {
        let events = self.lock().of_worker(run, worker).ok_or(RunRefusal::NotYours)?.events.clone();
        events.send(RunEvent::Ended(end)).await.map_err(|_| RunRefusal::NotYours)
    }

    /// Records a heartbeat of a worker for a run, and repeats to it the last segment that it may make, or that the run is over or
    /// belongs to another worker: that message may have been lost. A run that is not known may be one of a former server process.
    pub fn record_beat(&self, worker: &str, run: &str) {
        let control = match self.lock().runs.get(run) {
            Some(active) if active.worker.as_deref().is_none_or(|owner| owner == worker) => {
                if active.worker.is_some() {
                    // While other events wait, it is not needed.
                    let _ = active.events.try_send(RunEvent::Beat);
                }
                RunControl::Through { through: active.through }
            }
            _ => RunControl::Cancel,
        };
        self.control(Some(worker), run, control);
    }

    /// Raises the last segment that a run may make, and notifies its worker.
    pub(super) fn set_through(&self, run: &str, through: usize) {
        let mut state = self.lock();
        let Some(active) = state.runs.get_mut(run) else { return };
        active.through = active.through.max(through.min(active.end - 1));
        self.control(active.worker.as_deref(), run, RunControl::Through { through: active.through });
    }

    fn control(&self, worker: Option<&str>, run: &str, control: RunControl) {
        if let (Some(worker), Some(queue)) = (worker, self.queue()) {
            queue.control(worker, run, control);
        }
    }

    /// Gives the worker of a run no other one until it has reported again.
    pub(super) fn suspect_worker_of(&self, run: &str) {
        let mut state = self.lock();
        let Some(worker) = state.runs.get(run).and_then(|run| run.worker.clone()) else { return };
        if let Some(known) = state.workers.get_mut(&worker) {
            known.is_suspect = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClusterState {
    fn runs_of(&self, worker: &str) -> usize {
        self.runs.values().filter(|run| run.worker.as_deref() == Some(worker)).count()
    }

    fn of_worker(&mut self, run: &str, worker: &str) -> Option<&mut ActiveRun> {
        self.runs.get_mut(run).filter(|run| run.worker.as_deref() == Some(worker))
    }
}

impl ActiveRun {
    fn order(&self, run: &str) -> WorkOrder {
        let RenditionSpec { source, fingerprint, media, rendition, grid, .. } = &*self.spec;
        WorkOrder {
            run: run.to_owned(),
            etag: source.etag(),
            len: source.len,
            fingerprint: fingerprint.clone(),
            media: media.clone(),
            rendition: rendition.clone(),
            grid: grid.clone(),
            first: self.next,
            end: self.end,
            through: self.through,
        }
    }
}

impl Drop for OfferedRun {
    fn drop(&mut self) {
        let removed = self.cluster.lock().runs.remove(&self.id);
        let worker = removed.and_then(|run| run.worker);
        self.cluster.control(worker.as_deref(), &self.id, RunControl::Cancel);
    }
}

/// Whether these are whole packets that begin with the sync byte (ISO/IEC 13818-1 section 2.4.3.2).
fn is_transport_stream(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes.len().is_multiple_of(PACKET_LEN)
        && bytes.iter().step_by(PACKET_LEN).all(|byte| *byte == 0x47)
}

#[cfg(test)]
mod tests;
