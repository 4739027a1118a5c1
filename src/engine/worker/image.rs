//! Images checked by workers: whether a decoder reads the whole of one, before a channel shows it.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::death::Death;
use super::message::{JobMessage, Work};
use super::pool::{WorkerPool, error_text};
use super::process::WorkerProcess;
use super::replay::{Replay, ReplayWork};
use super::reply::NoReply;
use super::run_job::PROBE_MEMORY_BYTES;
use crate::domain::worker::blame::{Blame, Consequence};
use crate::domain::worker::frame::FrameKind;
use crate::engine::RunError;
use crate::engine::image::Image;

/// The pipeline's name in quarantine keys.
const PIPELINE: &str = "image";

/// Time for an image, after its worker has been found. The worker itself gives up after 5 s.
const IMAGE_TIMEOUT: Duration = Duration::from_secs(8);

/// Time to find a worker.
const TAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// Why an image did not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageFault {
    /// It is broken, or makes decoders crash.
    #[error("{0}")]
    Broken(String),
    /// It was not checked.
    #[error("{0}")]
    Unchecked(String),
}

impl ImageFault {
    /// By the error of a decoder.
    pub fn of_error(error: RunError) -> Self {
        match error {
            RunError::Decode(reason) => Self::Broken(reason),
            error => Self::Unchecked(error.to_string()),
        }
    }
}

impl WorkerPool {
    /// Decodes a whole image. `path` is for messages.
    ///
    /// # Errors
    /// [`ImageFault`].
    pub async fn check_image(&self, image: &Arc<Image>, path: &str) -> Result<(), ImageFault> {
        let key = self.image_key(&image.digest, PIPELINE);
        if self.recorder.is_quarantined(&key) {
            return Err(ImageFault::Broken("it is in quarantine, because workers crashed on it".to_owned()));
        }
        let _queued = self.probe_queue.try_acquire().map_err(|_| ImageFault::Unchecked("too many probes".into()))?;
        let turn = timeout(TAKE_TIMEOUT, self.probe_turns.acquire()).await;
        let _turn = turn.map_err(|_| ImageFault::Unchecked("probes take too long".into()))?;
        let taken = timeout(TAKE_TIMEOUT, self.probe_workers.take()).await;
        let taken = taken.unwrap_or_else(|_| Err("no worker is available".to_owned()));
        let mut worker = taken.map_err(ImageFault::Unchecked)?;
        let sent = worker.send_job(&image_message(), &[image.file.as_fd()], self.starter.statistics.count_busy()).await;
        sent.map_err(ImageFault::Unchecked)?;
        match receive_report(&mut worker).await {
            Ok(report) => {
                self.give_back(worker);
                report
            }
            Err(NoReply::Slow) => Err(ImageFault::Unchecked(format!("no report within {} s", IMAGE_TIMEOUT.as_secs()))),
            Err(NoReply::Lost) => {
                let death = worker.death().await;
                let consequence = self.record_death(&key, path, &death);
                if consequence == Consequence::Replay {
                    let work = ReplayWork::Image(image.clone());
                    self.replay(Replay { key, path: path.to_owned(), work });
                }
                Err(fault_of_death(&death))
            }
        }
    }
}

fn fault_of_death(death: &Death) -> ImageFault {
    let text = format!("a media worker ended: {}", death.text);
    if death.blame == Blame::Job { ImageFault::Broken(text) } else { ImageFault::Unchecked(text) }
}

async fn receive_report(worker: &mut WorkerProcess) -> Result<Result<(), ImageFault>, NoReply> {
    let deadline = Instant::now() + IMAGE_TIMEOUT;
    loop {
        let frame = worker.next_reply(deadline).await?;
        match frame.kind {
            FrameKind::Report => return Ok(Ok(())),
            FrameKind::Failed => {
                let error = frame.parse().map_err(|_| ImageFault::Unchecked(error_text(&frame.body)));
                return Ok(Err(error.map_or_else(|fault| fault, ImageFault::of_error)));
            }
            kind => worker.end_for_protocol(format!("a frame {kind:?} in the check of an image")),
        }
    }
}

/// The job of a check.
pub fn image_message() -> JobMessage {
    JobMessage { memory_bytes: PROBE_MEMORY_BYTES, work: Work::Image }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_decoder_calls_an_image_broken() {
        let fault = ImageFault::of_error(RunError::Decode("no IDAT".into()));
        assert_eq!(fault, ImageFault::Broken("no IDAT".into()));
        for error in [RunError::Stalled(5), RunError::Internal("16 bits".into())] {
            assert!(matches!(ImageFault::of_error(error), ImageFault::Unchecked(_)));
        }
    }
}
