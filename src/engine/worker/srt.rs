//! The SRT receiver: its worker has access to the network, but not to media files.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::message::{JobMessage, SrtWork, Work};
use super::pool::{WorkerPool, error_text};
use super::process::{WorkerEvent, WorkerProcess};
use crate::domain::worker::frame::FrameKind;
use crate::engine::gst::srt::SrtStream;
use crate::engine::process::sandbox::WorkerKind;

/// Maximum time without a packet, the first one included.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Address space of the worker, bytes.
const MEMORY_BYTES: u64 = 1 << 30;

/// A running stream. Dropping it closes the connection.
#[derive(Debug)]
pub enum SrtReceiver {
    Worker(Box<WorkerProcess>),
    /// In this process, for servers without worker processes.
    InProcess(SrtStream),
}

impl SrtReceiver {
    /// The next packets; the error is why there are no more. A dropped call loses nothing.
    ///
    /// # Errors
    /// The end of the stream, 10 s without a packet, or the end of the worker.
    pub async fn next(&mut self) -> Result<Bytes, String> {
        let next = async {
            match self {
                Self::Worker(worker) => next_piece(worker).await,
                Self::InProcess(stream) => stream.next().await,
            }
        };
        timeout(IDLE_TIMEOUT, next).await.map_err(|_| "no data received".to_owned())?
    }
}

async fn next_piece(worker: &mut WorkerProcess) -> Result<Bytes, String> {
    // The caller may have left the frames unread for a while.
    worker.resume();
    loop {
        match worker.next().await {
            WorkerEvent::Lost => {
                return Err(format!("the media worker of the stream ended: {}", worker.death().await.text));
            }
            WorkerEvent::Frame(frame) => match frame.kind {
                FrameKind::Piece => return Ok(frame.body.into()),
                FrameKind::Failed => return Err(error_text(&frame.body)),
                FrameKind::Done => return Err("the stream ended".to_owned()),
                FrameKind::Answer => {}
                kind => worker.end_for_protocol(format!("a frame {kind:?} in a stream")),
            },
        }
    }
}

impl WorkerPool {
    /// Connects as a caller, in a worker of its own.
    ///
    /// # Errors
    /// Why no worker starts. A refused connection is the first error of [`SrtReceiver::next`].
    pub async fn receive_srt(&self, work: SrtWork) -> Result<SrtReceiver, String> {
        let mut worker = self.starter.start(WorkerKind::Network).await?;
        let message = JobMessage { memory_bytes: MEMORY_BYTES, work: Work::Srt(work) };
        worker.send_job(&message, &[], self.starter.statistics.count_busy()).await?;
        Ok(SrtReceiver::Worker(Box::new(worker)))
    }
}
