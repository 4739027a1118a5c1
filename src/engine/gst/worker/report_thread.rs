//! The thread of jobs that end with a report: probes, and the examination of the machine. One thread for all, because the
//! Discoverer is kept by its thread between files.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use serde::Serialize;

use super::beats::Activity;
use super::connection::Connection;
use crate::domain::worker::frame::{FrameKind, MAX_BODY_BYTES};
use crate::engine::gst::discoverer;
use crate::engine::{Result, RunError};

type Work = Box<dyn FnOnce() + Send>;

pub(super) struct ReportThread {
    /// One job at a time; the next one may arrive while the frame of the last is written.
    queue: SyncSender<Work>,
    connection: Arc<Connection>,
    activity: Arc<Activity>,
}

impl ReportThread {
    /// Starts the thread. `probes`: whether it makes its Discoverer now, so that the first probe does not wait for it.
    pub(super) fn start(probes: bool, connection: Arc<Connection>, activity: Arc<Activity>) -> io::Result<Self> {
        let (queue, jobs) = sync_channel::<Work>(1);
        let run_all = move || {
            if probes && let Err(reason) = discoverer::prepare_discoverer() {
                tracing::warn!(reason, "a worker cannot probe files");
            }
            jobs.into_iter().for_each(|work| work());
        };
        std::thread::Builder::new().name("reports".to_owned()).spawn(run_all)?;
        Ok(Self { queue, connection, activity })
    }

    /// Starts a job whose result is one report.
    ///
    /// # Errors
    /// `Internal` when the thread has another job.
    pub(super) fn report<T: Serialize>(
        &self,
        job: u32,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<()> {
        let (connection, activity) = (self.connection.clone(), self.activity.clone());
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            // Before the frame, because the server may answer it with the next job.
            activity.end();
            let report = outcome.unwrap_or_else(|_| Err(RunError::Internal("the job panicked".into())));
            match report.and_then(|report| encode_report(&report)) {
                Ok(body) => connection.send(FrameKind::Report, job, &body),
                Err(error) => connection.send_json(FrameKind::Failed, job, &error),
            }
        };
        self.queue.try_send(Box::new(run)).map_err(|_| RunError::Internal("the worker has another job".into()))
    }
}

/// The body of a report.
fn encode_report(report: &impl Serialize) -> Result<Vec<u8>> {
    match serde_json::to_vec(report) {
        Ok(body) if body.len() <= MAX_BODY_BYTES => Ok(body),
        _ => Err(RunError::Internal("the report is too long".into())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// The frame with which a job ends.
    fn end_of(work: impl FnOnce() -> Result<String> + Send + 'static) -> (FrameKind, u32, String) {
        let (server, worker) = UnixStream::pair().unwrap();
        let activity = Arc::<Activity>::default();
        let connection = Arc::new(Connection::new(worker.into()));
        let thread = ReportThread::start(false, connection, activity.clone()).unwrap();
        assert!(activity.begin(9));
        thread.report(9, work).unwrap();
        let frame = Connection::new(server.into()).read_frame().unwrap().unwrap();
        assert_eq!(activity.job(), None, "the worker takes the next job");
        (frame.kind, frame.job, String::from_utf8(frame.body).unwrap())
    }

    #[test]
    fn each_job_ends_with_one_frame() {
        assert_eq!(end_of(|| Ok("seen".into())), (FrameKind::Report, 9, "\"seen\"".into()));
        let failed = |text: &str| {
            let error = RunError::Internal(text.into());
            (FrameKind::Failed, 9, serde_json::to_string(&error).unwrap())
        };
        assert_eq!(end_of(|| Err(RunError::Internal("no".into()))), failed("no"));
        assert_eq!(end_of(|| panic!("injected")), failed("the job panicked"));
        assert_eq!(end_of(|| Ok("x".repeat(MAX_BODY_BYTES))), failed("the report is too long"));
    }
}
