//! A worker's reply to a job that has a deadline.

use tokio::time::{Instant, timeout_at};

use super::process::{WorkerEvent, WorkerProcess};
use super::wire::Frame;
use crate::domain::worker::blame::Silence;
use crate::domain::worker::frame::FrameKind;

/// Why a job got no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoReply {
    /// The deadline passed while the worker read or made progress.
    Slow,
    /// The worker ended, or was ended because it was stuck.
    Lost,
}

impl WorkerProcess {
    /// The next frame about the job. Answers to questions are skipped.
    ///
    /// # Errors
    /// [`NoReply`].
    pub async fn next_reply(&mut self, deadline: Instant) -> Result<Frame, NoReply> {
        loop {
            match timeout_at(deadline, self.next()).await {
                Ok(WorkerEvent::Frame(frame)) if frame.kind == FrameKind::Answer => {}
                Ok(WorkerEvent::Frame(frame)) => return Ok(frame),
                Ok(WorkerEvent::Lost) => return Err(NoReply::Lost),
                Err(_) if self.is_stuck() => {
                    self.end_for(Silence::Deadline);
                    return Err(NoReply::Lost);
                }
                Err(_) => return Err(NoReply::Slow),
            }
        }
    }
}
