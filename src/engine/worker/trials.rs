//! Trials of this machine in workers of their own: what GStreamer can do, and which hardware decodes like software.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::message::{EngineReport, JobMessage, TrialScope, Work};
use super::pool::{WorkerPool, error_text};
use super::process::WorkerEvent;
use super::run_job::HARDWARE_MEMORY_BYTES;
use crate::domain::worker::frame::FrameKind;
use crate::engine::process::sandbox::WorkerKind;
use crate::engine::video_encoders::VIDEO_ENCODERS;

/// Time for the trials of all encoders: that of one takes up to 24 s.
const EXAMINE_TIMEOUT: Duration = Duration::from_secs(90);

/// Time for the trial of a decoder: two decodes of up to 8 s.
const DECODER_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a trial has no result.
#[derive(Debug, thiserror::Error)]
enum TrialFault {
    /// No worker started, or it took no work.
    #[error("{0}")]
    NotStarted(String),
    /// The worker ended; a driver that it tested may be the cause.
    #[error("a worker ended in a trial: {0}")]
    Ended(String),
    #[error("no result within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("{0}")]
    Reported(String),
}

impl WorkerPool {
    /// GStreamer's abilities on this machine; a worker finds out once.
    ///
    /// # Errors
    /// Why no worker did. The next call tries again.
    pub async fn examine(&self) -> Result<Arc<EngineReport>, String> {
        self.report.get_or_try_find(self.examine_once()).await
    }

    /// Finds them out again, with a new registry: plugins have elements for the devices that were there when it was made.
    ///
    /// # Errors
    /// Why no worker did. The former report stays.
    pub async fn examine_again(&self) -> Result<(), String> {
        self.starter.renew_registry().await?;
        // Before the report, so that no idle worker lacks an element that the report has.
        self.run_workers.renew().await;
        self.report.replace(self.examine_once().await?);
        Ok(())
    }

    /// A driver may end or stop the worker that tests it: a second one then tests software only.
    async fn examine_once(&self) -> Result<Arc<EngineReport>, String> {
        match self.examine_encoders(TrialScope::All).await {
            Err(fault @ (TrialFault::Ended(_) | TrialFault::Timeout(_))) => {
                tracing::warn!(%fault, "GStreamer is examined again, without hardware encoders");
                self.examine_encoders(TrialScope::Software).await
            }
            examined => examined,
        }
        .map_err(|fault| fault.to_string())
    }

    async fn examine_encoders(&self, encoders: TrialScope) -> Result<Arc<EngineReport>, TrialFault> {
        let report: EngineReport = self.do_trial(Work::Examine { encoders }, &[], EXAMINE_TIMEOUT).await?;
        if report.encoder_faults.len() != VIDEO_ENCODERS.len() {
            return Err(TrialFault::Reported("a worker reported another number of encoders".to_owned()));
        }
        Ok(Arc::new(report))
    }

    /// Decodes a film in memory by a GStreamer element of hardware and in software: the PSNR of each frame, dB.
    ///
    /// # Errors
    /// Why it was not decoded.
    pub(super) async fn compare_decoder(&self, element: &str, film: &File) -> Result<Vec<f64>, String> {
        let work = Work::CompareDecoder { element: element.to_owned() };
        self.do_trial(work, &[film.as_fd()], DECODER_TIMEOUT).await.map_err(|fault| fault.to_string())
    }

    /// Does work that ends with a report in a new worker, which ends with it.
    async fn do_trial<T: DeserializeOwned>(
        &self,
        work: Work,
        descriptors: &[BorrowedFd<'_>],
        deadline: Duration,
    ) -> Result<T, TrialFault> {
        let mut worker = self.starter.start(WorkerKind::Media).await.map_err(TrialFault::NotStarted)?;
        let message = JobMessage { memory_bytes: HARDWARE_MEMORY_BYTES, work };
        let sent = worker.send_job(&message, descriptors, self.starter.statistics.count_busy()).await;
        sent.map_err(TrialFault::NotStarted)?;
        let frame = match timeout(deadline, worker.next()).await {
            Ok(WorkerEvent::Frame(frame)) => frame,
            Ok(WorkerEvent::Lost) => {
                let death = worker.death().await;
                self.starter.statistics.record_death(death.cause, &format!("a trial: {}", death.text));
                return Err(TrialFault::Ended(death.text));
            }
            Err(_) => return Err(TrialFault::Timeout(deadline)),
        };
        match frame.kind {
            FrameKind::Report => frame.parse().map_err(|fault| TrialFault::Reported(fault.to_string())),
            _ => Err(TrialFault::Reported(error_text(&frame.body))),
        }
    }
}
