//! Starts jobs, one at a time, none on the thread that reads the stream. A job ends with one `Report`, `Failed` or `Done`.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde::Serialize;

use super::beats::Activity;
use super::connection::Connection;
use super::report_thread::ReportThread;
use super::run_job::{RunControl, receive_image};
use super::{end_process, run_job, still_job};
use crate::domain::worker::frame::{FrameKind, MAX_PIECE_BYTES};
use crate::engine::gst::srt::SrtStream;
use crate::engine::gst::{check_image, compare_decoder, discoverer, examine, progress};
use crate::engine::nfo_file::parse_nfo_file;
use crate::engine::process::lower_memory_limit;
use crate::engine::process::sandbox::WorkerKind;
use crate::engine::source::SourceFile;
use crate::engine::worker::message::{JobMessage, SourceFacts, SrtWork, Work};
use crate::engine::{Result, RunError};

pub(super) struct JobRunner {
    kind: WorkerKind,
    connection: Arc<Connection>,
    activity: Arc<Activity>,
    reports: ReportThread,
    /// The run of this process, once there is one.
    run: Option<RunControl>,
    /// Whether the current job can only be ended with the process.
    is_last_job: bool,
}

impl JobRunner {
    /// # Errors
    /// When no thread can be started.
    pub(super) fn new(kind: WorkerKind, connection: Arc<Connection>, activity: Arc<Activity>) -> io::Result<Self> {
        let reports = ReportThread::start(kind == WorkerKind::Media, connection.clone(), activity.clone())?;
        Ok(Self { kind, connection, activity, reports, run: None, is_last_job: false })
    }

    /// Starts a job. A job that cannot be started fails.
    pub(super) fn start(&mut self, job: u32, message: JobMessage, descriptors: Vec<OwnedFd>) {
        if let Err(error) = self.try_start(job, message, descriptors) {
            self.connection.send_json(FrameKind::Failed, job, &error);
        }
    }

    fn try_start(&mut self, job: u32, message: JobMessage, descriptors: Vec<OwnedFd>) -> Result<()> {
        let is_for_network = matches!(message.work, Work::Srt(_));
        if is_for_network != (self.kind == WorkerKind::Network) {
            return Err(RunError::Internal("this kind of worker does not do this work".into()));
        }
        if self.run.is_some() {
            return Err(RunError::Internal("a worker makes one run".into()));
        }
        let is_begun = match &message.work {
            Work::Run(work) => self.activity.begin_run(job, work.first, work.through),
            _ => self.activity.begin(job),
        };
        if !is_begun {
            return Err(RunError::Internal("the worker has another job".into()));
        }
        let started = self.start_work(job, message, descriptors);
        started.inspect_err(|_| self.activity.end())
    }

    fn start_work(&mut self, job: u32, message: JobMessage, descriptors: Vec<OwnedFd>) -> Result<()> {
        let limited = lower_memory_limit(message.memory_bytes);
        limited.map_err(|cause| RunError::Internal(format!("the memory could not be limited: {cause}")))?;
        self.is_last_job = !matches!(message.work, Work::Discover { .. } | Work::Image | Work::Nfo);
        match message.work {
            Work::Discover { source } => self.reports.report(job, move || discover(source, descriptors)),
            Work::Image => self.reports.report(job, move || check_image(&receive_image(only_one(descriptors)?)?)),
            Work::Nfo => self.reports.report(job, move || parse_nfo_file(&only_one(descriptors)?.into())),
            Work::Examine { encoders } => {
                self.reports.report(job, move || examine(encoders).map_err(RunError::Internal))
            }
            Work::CompareDecoder { element } => {
                self.reports.report(job, move || compare_decoder(&only_one(descriptors)?.into(), &element))
            }
            Work::Run(work) => {
                let (connection, activity) = (self.connection.clone(), self.activity.clone());
                self.run = Some(run_job::start(job, *work, descriptors, connection, activity)?);
                Ok(())
            }
            Work::Srt(work) => self.spawn_srt(job, work),
            Work::Still(work) => still_job::start(job, work, descriptors, self.connection.clone()),
        }
    }

    /// Starts receiving a stream. The process ends with the stream.
    fn spawn_srt(&self, job: u32, work: SrtWork) -> Result<()> {
        let connection = self.connection.clone();
        // It waits for the network, and the receiver of the pieces has a timeout.
        self.activity.set_waiting(true);
        spawn("srt", move || {
            let deliver = |bytes: &[u8]| {
                progress().add(bytes.len() as u64);
                bytes.chunks(MAX_PIECE_BYTES).for_each(|piece| connection.send(FrameKind::Piece, job, piece));
            };
            let receive = || match SrtStream::connect(work.server, &work.options) {
                Ok(stream) => stream.receive_all(deliver),
                Err(reason) => reason,
            };
            let reason = catch_unwind(AssertUnwindSafe(receive)).unwrap_or_else(|_| "the job panicked".to_owned());
            connection.send_json(FrameKind::Failed, job, &RunError::SourceRead(reason));
            end_process(0);
        })
    }

    pub(super) fn raise_gate(&self, job: u32, through: usize) {
        if let Some(run) = self.run.as_ref().filter(|_| self.activity.job() == Some(job)) {
            self.activity.raise_gate(through);
            run.raise_gate(through);
        }
    }

    /// Ends the job, and the process with it. A probe is left to its end, which comes within two seconds.
    pub(super) fn cancel(&self, job: u32) {
        if self.is_last_job && self.activity.job() == Some(job) {
            end_process(0);
        }
    }
}

/// Starts a thread.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(|_| ()).map_err(|cause| RunError::Internal(format!("no thread for a job: {cause}")))
}

fn discover(source: SourceFacts, descriptors: Vec<OwnedFd>) -> Result<impl Serialize> {
    let source = Arc::new(SourceFile::from_descriptor(only_one(descriptors)?, &source));
    discoverer::discover(&source).map_err(RunError::Decode)
}

/// The descriptor of a job that has one.
fn only_one(descriptors: Vec<OwnedFd>) -> Result<OwnedFd> {
    let only_one = <[OwnedFd; 1]>::try_from(descriptors);
    let [file] = only_one
        .map_err(|descriptors| RunError::Internal(format!("{} descriptors for one file", descriptors.len())))?;
    Ok(file)
}
