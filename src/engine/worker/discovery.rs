//! Probes by workers: what the decoders see in a file, within a deadline.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::message::{JobMessage, Work};
use super::pool::{WorkerPool, error_text};
use super::process::WorkerProcess;
use super::replay::{Replay, ReplayWork};
use super::reply::NoReply;
use super::run_job::PROBE_MEMORY_BYTES;
use super::statistics::EndCause;
use crate::domain::worker::blame::{Blame, Consequence};
use crate::domain::worker::frame::FrameKind;
use crate::engine::probe::DecoderInfo;
use crate::engine::source::SourceFile;

/// Probes at once, each in a worker of its own.
pub const MAX_PROBES: usize = 2;

/// Probes that may wait for their turn.
pub const MAX_WAITING_PROBES: usize = 8;

/// Time for a probe, after its worker has been found. The discoverer itself gives up after 1.5 s.
const PROBE_TIMEOUT: Duration = Duration::from_millis(1800);

/// Time to find a worker. A spare is ready at once; a new one takes 0.3 s on a busy machine.
const TAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// Probes of one worker. Each leaves some memory in use.
const MAX_PROBES_OF_WORKER: u32 = 32;

/// Memory at which a worker is replaced, bytes.
const MAX_IDLE_BYTES: u64 = 128 << 20;

/// Probes between two measurements of the memory, which take a millisecond.
const PROBES_PER_MEASUREMENT: u32 = 4;

/// Why a probe by a worker has no result. ffprobe reads the file then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoverError {
    #[error("the discoverer is busy")]
    Busy,
    #[error("the discoverer timed out")]
    TimedOut,
    #[error("the file is in quarantine, because workers crashed on it")]
    Quarantined,
    /// The discoverer's own reason.
    #[error("{0}")]
    Failed(String),
    #[error("a media worker ended: {text}")]
    WorkerLost { blame: Blame, text: String },
    #[error("GStreamer's registry is being made for the first time")]
    NoRegistry,
    /// No worker starts.
    #[error("{0}")]
    Unavailable(String),
}

/// The decoders that a worker found, or why it found no decoder.
type Report = Result<Vec<DecoderInfo>, DiscoverError>;

impl WorkerPool {
    /// Runs the discoverer over a file.
    ///
    /// # Errors
    /// [`DiscoverError`].
    pub async fn discover(&self, source: &Arc<SourceFile>) -> Result<Vec<DecoderInfo>, DiscoverError> {
        let key = self.probe_key(source).await.map_err(DiscoverError::Failed)?;
        if self.recorder.is_quarantined(&key) {
            return Err(DiscoverError::Quarantined);
        }
        if self.starter.is_making_first_registry() {
            return Err(DiscoverError::NoRegistry);
        }
        let _queued = self.probe_queue.try_acquire().map_err(|_| DiscoverError::Busy)?;
        let turn = timeout(PROBE_TIMEOUT, self.probe_turns.acquire()).await;
        let _turn = turn.map_err(|_| DiscoverError::Busy)?.map_err(|_| DiscoverError::Busy)?;
        let mut is_retry = false;
        loop {
            let taken = timeout(TAKE_TIMEOUT, self.probe_workers.take()).await;
            let mut worker = taken.map_err(|_| DiscoverError::Busy)?.map_err(DiscoverError::Unavailable)?;
            match self.probe_with(&mut worker, source).await {
                Ok(report) => {
                    self.give_back(worker);
                    return report;
                }
                Err(NoReply::Slow) => {
                    let text = format!("a slow probe was ended ({})", source.path);
                    self.starter.statistics.record_death(EndCause::Storage, &text);
                    return Err(DiscoverError::TimedOut);
                }
                Err(NoReply::Lost) => {
                    let death = worker.death().await;
                    let consequence = self.record_death(&key, &source.path, &death);
                    if consequence == Consequence::Replay {
                        let work = ReplayWork::Discover(source.clone());
                        self.replay(Replay { key: key.clone(), path: source.path.clone(), work });
                    }
                    if consequence != Consequence::Retry || is_retry {
                        return Err(DiscoverError::WorkerLost { blame: death.blame, text: death.text });
                    }
                    is_retry = true;
                }
            }
        }
    }

    async fn probe_with(&self, worker: &mut WorkerProcess, source: &Arc<SourceFile>) -> Result<Report, NoReply> {
        let busy = self.starter.statistics.count_busy();
        if let Err(fault) = worker.send_job(&probe_message(source), &[source.as_fd()], busy).await {
            return Ok(Err(DiscoverError::Failed(fault)));
        }
        let deadline = Instant::now() + PROBE_TIMEOUT;
        loop {
            let frame = worker.next_reply(deadline).await?;
            match frame.kind {
                FrameKind::Report => match frame.parse() {
                    Ok(infos) => return Ok(Ok(infos)),
                    Err(fault) => worker.end_for_protocol(fault.to_string()),
                },
                FrameKind::Failed => return Ok(Err(DiscoverError::Failed(error_text(&frame.body)))),
                kind => worker.end_for_protocol(format!("a frame {kind:?} in a probe")),
            }
        }
    }

    /// Gives a worker back for the next probe, unless it has done enough.
    pub(super) fn give_back(&self, worker: WorkerProcess) {
        let is_due = worker.jobs().is_multiple_of(PROBES_PER_MEASUREMENT);
        let has_grown = is_due && worker.memory_bytes().is_some_and(|bytes| bytes > MAX_IDLE_BYTES);
        if worker.jobs() >= MAX_PROBES_OF_WORKER || has_grown {
            self.starter.statistics.record_recycling();
        } else {
            self.probe_workers.give_back(worker);
        }
    }
}

/// The job of a probe.
pub fn probe_message(source: &SourceFile) -> JobMessage {
    JobMessage { memory_bytes: PROBE_MEMORY_BYTES, work: Work::Discover { source: source.facts() } }
}
