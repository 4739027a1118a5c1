//! Replays: a job that ended with its worker, done once more alone, to learn whether its file is the cause.
//!
//! No viewer waits for a replay. They run one at a time and at a low priority.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::death::Death;
use super::discovery::probe_message;
use super::message::JobMessage;
use super::pool::FaultRecorder;
use super::process::{WorkerEvent, WorkerProcess};
use super::run_exchange::SegmentAssembly;
use super::run_job::RunJob;
use super::spares::TaskGuard;
use super::starter::WorkerStarter;
use super::still::{still_descriptors, still_message};
use super::wire::Frame;
use crate::domain::worker::blame::Blame;
use crate::domain::worker::frame::FrameKind;
use crate::domain::worker::{ProvenFault, QuarantineKey};
use crate::engine::process::sandbox::WorkerKind;
use crate::engine::source::SourceFile;
use crate::engine::still_image::StillJob;
use crate::engine::video_encoders::EncoderElement;

/// Replays that wait. Each keeps its file open.
const MAX_QUEUED_REPLAYS: usize = 8;

/// Time for a replay. One that takes longer proves nothing. The machine may be busy all the while.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(180);

/// A job to do again.
#[derive(Debug)]
pub struct Replay {
    pub key: QuarantineKey,
    /// The request path of the file.
    pub path: String,
    pub work: ReplayWork,
}

#[derive(Debug)]
pub enum ReplayWork {
    Discover(Arc<SourceFile>),
    /// A job about a file in memory.
    File {
        file: Arc<File>,
        message: JobMessage,
    },
    /// The segment at which the worker died, and no further one.
    Run {
        job: RunJob,
        segment: usize,
    },
    Still {
        job: StillJob,
        encoder: &'static EncoderElement,
    },
}

/// The queue of replays. Dropping it ends them.
#[derive(Debug)]
pub struct ReplayQueue {
    replays: mpsc::Sender<Replay>,
    /// The keys that are queued or under way.
    pending: Arc<Mutex<HashSet<QuarantineKey>>>,
    _task: TaskGuard,
}

impl ReplayQueue {
    pub fn new(starter: Arc<WorkerStarter>, recorder: Arc<dyn FaultRecorder>) -> Self {
        let (replays, mut queue) = mpsc::channel::<Replay>(MAX_QUEUED_REPLAYS);
        let pending: Arc<Mutex<HashSet<QuarantineKey>>> = Arc::default();
        let task_pending = pending.clone();
        let task = async move {
            while let Some(replay) = queue.recv().await {
                prove(&starter, &*recorder, &replay).await;
                lock(&task_pending).remove(&replay.key);
            }
        };
        Self { replays, pending, _task: TaskGuard::spawn(task) }
    }

    /// Queues a replay, unless one of its key is queued already or the queue is full.
    pub fn push(&self, replay: Replay) {
        let key = replay.key.clone();
        if !lock(&self.pending).insert(key.clone()) {
            return;
        }
        if self.replays.try_send(replay).is_err() {
            tracing::debug!(pipeline = key.pipeline, "no replay: too many are queued");
            lock(&self.pending).remove(&key);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does a job again, and records a fault if its worker dies by it again.
async fn prove(starter: &WorkerStarter, recorder: &dyn FaultRecorder, replay: &Replay) {
    let Replay { key, path, work } = replay;
    let death = match timeout(REPLAY_TIMEOUT, do_again(starter, work)).await {
        Ok(Ok(death)) => death,
        Ok(Err(cause)) => return tracing::debug!(cause, media.path = path, "a replay was not possible"),
        Err(_) => return tracing::info!(media.path = path, "a replay took too long"),
    };
    match death {
        Some(Death { blame: Blame::Job, text, .. }) => {
            recorder.record(ProvenFault { key: key.clone(), path: path.clone(), cause: text, at: Timestamp::now() });
        }
        Some(death) => tracing::info!(media.path = path, cause = death.text, "the end of a replay proves nothing"),
        None => tracing::info!(media.path = path, pipeline = key.pipeline, "a replay ended well: no quarantine"),
    }
}

/// Does a job in a new worker. Some if the worker died.
async fn do_again(starter: &WorkerStarter, work: &ReplayWork) -> Result<Option<Death>, String> {
    let mut worker = starter.start(WorkerKind::Media).await?;
    worker.lower_priority();
    let busy = starter.statistics.count_busy();
    let mut assembly = match work {
        ReplayWork::Discover(source) => {
            worker.send_job(&probe_message(source), &[source.as_fd()], busy).await?;
            None
        }
        ReplayWork::File { file, message } => {
            worker.send_job(message, &[file.as_fd()], busy).await?;
            None
        }
        ReplayWork::Run { job, segment } => {
            worker.send_job(&job.message(*segment, *segment, None), &job.descriptors(), busy).await?;
            Some(SegmentAssembly::new(*segment, *segment + 1))
        }
        ReplayWork::Still { job, encoder } => {
            worker.send_job(&still_message(job, encoder), &still_descriptors(job), busy).await?;
            None
        }
    };
    loop {
        match worker.next().await {
            WorkerEvent::Lost => {
                let death = worker.death().await;
                starter.statistics.record_death(death.cause, &format!("a replay: {}", death.text));
                return Ok(Some(death));
            }
            WorkerEvent::Frame(frame) if is_end(&mut worker, &mut assembly, &frame) => return Ok(None),
            WorkerEvent::Frame(_) => {}
        }
    }
}

/// Whether a frame ends the replay well. An error of the job does, too.
fn is_end(worker: &mut WorkerProcess, assembly: &mut Option<SegmentAssembly>, frame: &Frame) -> bool {
    let taken = match (frame.kind, assembly) {
        (FrameKind::Report, None) | (FrameKind::Failed | FrameKind::Done, _) => return true,
        (FrameKind::Segment, Some(assembly)) => {
            let header = frame.parse().map_err(|fault| fault.to_string());
            header.and_then(|header| assembly.begin(header, usize::MAX)).map(|()| false)
        }
        (FrameKind::Piece, Some(assembly)) => assembly.push(&frame.body).map(|segment| segment.is_some()),
        // Of a slate; the time limit of the replay bounds them.
        (FrameKind::Piece, None) | (FrameKind::Answer, _) => Ok(false),
        (kind, _) => Err(format!("a frame {kind:?} in a replay")),
    };
    taken.unwrap_or_else(|fault| {
        worker.end_for_protocol(fault);
        false
    })
}
