#![doc = include_str!("README.md")]

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::process::ExitCode;
use std::sync::Arc;

use rustix::fs::OFlags;

mod beats;
mod connection;
mod crash_record;
mod job_runner;
mod log_layer;
mod plugins;
mod questions;
mod report_thread;
mod run_job;
mod still_job;

use beats::Activity;
use connection::{Connection, Frame};
use job_runner::JobRunner;
use log_layer::LogForwarder;
use questions::QuestionThread;

use super::{initialize, registry};
use crate::domain::worker::SandboxReport;
use crate::domain::worker::frame::FrameKind;
use crate::engine::process::sandbox::{self, WorkerKind};
use crate::engine::worker::message::{Gate, Hello, JobMessage, Question};

/// The descriptors that the server passes: its stream, and the crash page.
const STREAM_DESCRIPTOR: RawFd = 0;
const CRASH_PAGE_DESCRIPTOR: RawFd = 3;

/// Pipelines that a worker may number. More than a run of a day has, with a segment each second.
const PIPELINE_NUMBERS: u64 = 10_000;

/// Runs this process as worker `number` until the server closes the stream, or until its one run is over. Returns only if
/// it cannot start; the reason is on standard error.
pub fn serve(number: u32, kind: WorkerKind) -> ExitCode {
    match start(number, kind) {
        Ok(worker) => worker.serve(),
        Err(reason) => {
            eprintln!("worker {number}: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Writes GStreamer's registry of plugins, at the path in `GST_REGISTRY`: workers cannot. Must be called while the process
/// has one thread.
///
/// # Errors
/// Why GStreamer does not start.
pub fn make_registry() -> Result<(), String> {
    // SAFETY: no other thread reads the environment.
    unsafe {
        std::env::set_var("GST_REGISTRY_UPDATE", "yes");
        std::env::set_var("GST_REGISTRY_FORK", "no");
    }
    gstreamer::init().map_err(|cause| cause.to_string())
}

/// A worker that has started.
struct Worker {
    connection: Arc<Connection>,
    jobs: JobRunner,
    questions: QuestionThread,
}

/// Prepares everything that confinement would forbid, confines the process while it has one thread, and reports to the
/// server.
fn start(number: u32, kind: WorkerKind) -> Result<Worker, String> {
    let stream = take_descriptor(STREAM_DESCRIPTOR)?;
    set_blocking(&stream).map_err(|cause| format!("the server's stream: {cause}"))?;
    let connection = Arc::new(Connection::new(stream));
    let crash_page = take_descriptor(CRASH_PAGE_DESCRIPTOR)?;
    initialize()?;
    registry::start_numbers_at(first_pipeline_number(number));
    plugins::load_ahead(kind);
    crash_record::install_handlers(crash_page).map_err(|cause| format!("crash page: {cause}"))?;
    let sandbox = enter_sandbox(kind);
    connection
        .write_frame(FrameKind::Hello, 0, &serde_json::to_vec(&Hello::new(sandbox)).map_err(|cause| cause.to_string())?)
        .map_err(|cause| format!("hello: {cause}"))?;
    let (activity, log) = (Arc::<Activity>::default(), LogForwarder::new(connection.clone()));
    log.install();
    let without_thread = |cause: std::io::Error| format!("no thread: {cause}");
    beats::start(connection.clone(), activity.clone(), log).map_err(without_thread)?;
    let questions = QuestionThread::start(connection.clone()).map_err(without_thread)?;
    let jobs = JobRunner::new(kind, connection.clone(), activity).map_err(without_thread)?;
    Ok(Worker { connection, jobs, questions })
}

/// A descriptor that the server passed. Each may be taken once.
fn take_descriptor(number: RawFd) -> Result<OwnedFd, String> {
    // SAFETY: a system call with a number.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(format!("descriptor {number} is not open: workers are started by the server"));
    }
    // SAFETY: it is open, and no other part of this process uses it: the server passed it for this purpose.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Makes reads and writes of a descriptor block, whatever the server's end does.
fn set_blocking(descriptor: &OwnedFd) -> rustix::io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(descriptor)?;
    rustix::fs::fcntl_setfl(descriptor, flags - OFlags::NONBLOCK)
}

/// Confines this process; what is not covered is part of the report.
fn enter_sandbox(kind: WorkerKind) -> SandboxReport {
    let threads = std::fs::read_dir("/proc/self/task").map(Iterator::count).unwrap_or(1);
    let mut report = sandbox::enter_worker_sandbox(kind);
    if threads > 1 {
        report.gaps.push(format!("{} threads of the worker started before it was confined", threads - 1));
    }
    report
}

/// The number of a worker's first pipeline: unique over all workers of a server.
fn first_pipeline_number(number: u32) -> u64 {
    u64::from(number) * PIPELINE_NUMBERS + 1
}

/// Ends the process at once, whatever its threads and pipelines do.
fn end_process(code: i32) -> ! {
    // SAFETY: a system call. Handlers of libraries are left out on purpose: they would wait for pipelines.
    unsafe { libc::_exit(code) }
}

impl Worker {
    /// Reads frames until the server closes the stream.
    fn serve(mut self) -> ! {
        let mut is_greeted = false;
        loop {
            let outcome = match self.connection.read_frame() {
                Ok(Some(frame)) if is_greeted => self.handle(frame),
                Ok(Some(frame)) => check_hello(&frame),
                Ok(None) => end_process(0),
                Err(cause) => Err(cause.to_string()),
            };
            if let Err(fault) = outcome {
                eprintln!("the server's stream: {fault}");
                end_process(1);
            }
            is_greeted = true;
        }
    }

    /// The error is a fault of the protocol, which ends the process.
    fn handle(&mut self, frame: Frame) -> Result<(), String> {
        let parse_fault = |cause: serde_json::Error| format!("{:?}: {cause}", frame.kind);
        match frame.kind {
            FrameKind::Job => {
                let message: JobMessage = serde_json::from_slice(&frame.body).map_err(parse_fault)?;
                self.jobs.start(frame.job, message, frame.descriptors);
            }
            FrameKind::Gate => {
                let Gate { through } = serde_json::from_slice(&frame.body).map_err(parse_fault)?;
                self.jobs.raise_gate(frame.job, through);
            }
            FrameKind::Cancel => self.jobs.cancel(frame.job),
            FrameKind::Ask => {
                let question: Question = serde_json::from_slice(&frame.body).map_err(parse_fault)?;
                self.questions.answer(question);
            }
            kind => return Err(format!("a frame {kind:?} is not for a worker")),
        }
        Ok(())
    }
}

/// Checks that the first frame is the greeting of a server of the same build.
fn check_hello(frame: &Frame) -> Result<(), String> {
    if frame.kind != FrameKind::Hello {
        return Err(format!("the first frame is {:?}", frame.kind));
    }
    let hello: Hello = serde_json::from_slice(&frame.body).map_err(|cause| format!("hello: {cause}"))?;
    if !hello.is_same_build() {
        return Err(format!("the server is build {} of {} {}", hello.build, hello.protocol, hello.version));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_of_different_workers_have_different_numbers() {
        assert_eq!((first_pipeline_number(0), first_pipeline_number(1), first_pipeline_number(7)), (1, 10_001, 70_001));
        assert!(first_pipeline_number(u32::MAX) > first_pipeline_number(u32::MAX - 1), "no overflow");
        initialize().unwrap();
        registry::start_numbers_at(first_pipeline_number(3));
        let register = || registry::register(&gstreamer::Pipeline::new()).number;
        let number = register();
        assert!(number >= 30_001, "{number}");
        registry::start_numbers_at(1);
        assert!(register() > number, "a number is never used twice");
    }

    #[test]
    fn only_a_server_of_the_same_build_is_served() {
        let frame = |kind, hello: &Hello| Frame {
            kind,
            job: 0,
            body: serde_json::to_vec(hello).unwrap(),
            descriptors: Vec::new(),
        };
        let own = Hello::new(SandboxReport::default());
        assert_eq!(check_hello(&frame(FrameKind::Hello, &own)), Ok(()));
        assert!(check_hello(&frame(FrameKind::Job, &own)).is_err());
        let other = Hello { build: "0.0.1".into(), ..own };
        assert!(check_hello(&frame(FrameKind::Hello, &other)).is_err());
    }
}
