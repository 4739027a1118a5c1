//! Jobs about one small file in memory that end with a report: images checked, NFO files parsed.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use super::death::Death;
use super::message::{JobMessage, Work};
use super::pool::{WorkerPool, error_text};
use super::process::WorkerProcess;
use super::replay::{Replay, ReplayWork};
use super::reply::NoReply;
use super::run_job::PROBE_MEMORY_BYTES;
use crate::domain::worker::QuarantineKey;
use crate::domain::worker::blame::{Blame, Consequence};
use crate::domain::worker::frame::FrameKind;
use crate::engine::RunError;

/// Time for a job, after its worker has been found. The decoder of images gives up after 5 s.
const JOB_TIMEOUT: Duration = Duration::from_secs(8);

/// Time to find a worker.
const TAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// Why such a job has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileFault {
    /// The file is broken, or makes workers crash.
    #[error("{0}")]
    Broken(String),
    /// The job was not done.
    #[error("{0}")]
    Unchecked(String),
}

impl FileFault {
    /// By the error of a decoder or parser.
    pub fn of_error(error: RunError) -> Self {
        match error {
            RunError::Decode(reason) => Self::Broken(reason),
            error => Self::Unchecked(error.to_string()),
        }
    }

    fn of_death(death: &Death) -> Self {
        let text = format!("a media worker ended: {}", death.text);
        if death.blame == Blame::Job { Self::Broken(text) } else { Self::Unchecked(text) }
    }
}

/// A job about one file.
pub struct FileJob<'a> {
    pub key: QuarantineKey,
    /// The request path of the file, for messages.
    pub path: &'a str,
    pub work: Work,
    /// A copy of the file in memory, so that later changes have no effect.
    pub file: Arc<File>,
}

impl WorkerPool {
    /// Does a job in a worker for probes, once; `T` is the content of the report.
    ///
    /// # Errors
    /// [`FileFault`].
    pub(super) async fn do_file_job<T: DeserializeOwned>(&self, job: FileJob<'_>) -> Result<T, FileFault> {
        let FileJob { key, path, work, file } = job;
        if self.recorder.is_quarantined(&key) {
            return Err(FileFault::Broken("it is in quarantine, because workers crashed on it".to_owned()));
        }
        let _queued = self.probe_queue.try_acquire().map_err(|_| FileFault::Unchecked("too many probes".into()))?;
        let turn = timeout(TAKE_TIMEOUT, self.probe_turns.acquire()).await;
        let _turn = turn.map_err(|_| FileFault::Unchecked("probes take too long".into()))?;
        let taken = timeout(TAKE_TIMEOUT, self.probe_workers.take()).await;
        let taken = taken.unwrap_or_else(|_| Err("no worker is available".to_owned()));
        let mut worker = taken.map_err(FileFault::Unchecked)?;
        let message = JobMessage { memory_bytes: PROBE_MEMORY_BYTES, work };
        let sent = worker.send_job(&message, &[file.as_fd()], self.starter.statistics.count_busy()).await;
        sent.map_err(FileFault::Unchecked)?;
        match receive_report(&mut worker).await {
            Ok(report) => {
                self.give_back(worker);
                report
            }
            Err(NoReply::Slow) => Err(FileFault::Unchecked(format!("no report within {} s", JOB_TIMEOUT.as_secs()))),
            Err(NoReply::Lost) => {
                let death = worker.death().await;
                let consequence = self.record_death(&key, path, &death);
                if consequence == Consequence::Replay {
                    let work = ReplayWork::File { file, message };
                    self.replay(Replay { key, path: path.to_owned(), work });
                }
                Err(FileFault::of_death(&death))
            }
        }
    }
}

async fn receive_report<T: DeserializeOwned>(worker: &mut WorkerProcess) -> Result<Result<T, FileFault>, NoReply> {
    let deadline = Instant::now() + JOB_TIMEOUT;
    loop {
        let frame = worker.next_reply(deadline).await?;
        match frame.kind {
            FrameKind::Report => match frame.parse() {
                Ok(report) => return Ok(Ok(report)),
                Err(fault) => worker.end_for_protocol(fault.to_string()),
            },
            FrameKind::Failed => {
                let error = frame.parse().map_err(|_| FileFault::Unchecked(error_text(&frame.body)));
                return Ok(Err(error.map_or_else(|fault| fault, FileFault::of_error)));
            }
            kind => worker.end_for_protocol(format!("a frame {kind:?} in a job about a file")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_decoder_calls_a_file_broken() {
        let fault = FileFault::of_error(RunError::Decode("no IDAT".into()));
        assert_eq!(fault, FileFault::Broken("no IDAT".into()));
        for error in [RunError::Stalled(5), RunError::Internal("16 bits".into())] {
            assert!(matches!(FileFault::of_error(error), FileFault::Unchecked(_)));
        }
    }
}
