//! One worker process as the server sees it: its frames, its heartbeats, and how it ended.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::Serialize;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::beat_monitor::BeatMonitor;
use super::crash_page::CrashPage;
use super::death::Death;
use super::log_relay::LogRelay;
use super::message::{Hello, JobMessage};
use super::statistics::BusyGuard;
use super::wire::{ConnectionError, Frame, FrameReader, FrameWriter, split};
use crate::domain::worker::SandboxReport;
use crate::domain::worker::blame::{Evidence, Silence};
use crate::domain::worker::frame::FrameKind;
use crate::engine::process::ChildLimits;
use crate::engine::process::sandbox::WorkerKind;
use crate::engine::process::{Process, spawn_worker};

/// Time from the start of a worker to its `Hello`.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Nice value of work that no viewer waits for. With 19 a busy machine would not let it end before its deadline.
const LOW_PRIORITY: i32 = 10;

/// How long the end of a process is waited for after its socket closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// How workers are started.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// This program.
    pub program: PathBuf,
    /// The server's cache folder.
    pub cache: PathBuf,
}

impl WorkerSettings {
    /// GStreamer's registry, made by a worker before the others start.
    pub fn registry_path(&self) -> PathBuf {
        self.cache.join("gstreamer-registry.bin")
    }

    /// Variables of a worker besides the usual ones of child processes.
    fn environment(&self) -> Vec<(String, OsString)> {
        // A confined worker cannot write a registry, so it reads the one that is there.
        let registry = ("GST_REGISTRY".to_owned(), self.registry_path().into_os_string());
        let flags = ["GST_REGISTRY_FORK", "GST_REGISTRY_UPDATE"].map(|name| (name.to_owned(), OsString::from("no")));
        // Each arena of glibc reserves 64 MiB of the address space, and a run has dozens of threads.
        let arenas = ("MALLOC_ARENA_MAX".to_owned(), OsString::from("4"));
        [registry, arenas].into_iter().chain(flags).collect()
    }
}

/// Makes GStreamer's registry in a worker without a job, confined by limits only.
///
/// # Errors
/// Why it was not made.
pub async fn make_registry(settings: &WorkerSettings) -> Result<(), String> {
    let start = async {
        let (_own_end, worker_end) = new_socket_pair()?;
        let crash_page = CrashPage::create()?;
        let args = ["worker", "--make-registry"].map(str::to_owned).to_vec();
        let environment =
            settings.environment().into_iter().filter(|(name, _)| name != "GST_REGISTRY_UPDATE").collect();
        let page = crash_page.file().clone();
        spawn_worker(&settings.program, args, environment, worker_end, page, ChildLimits::REGISTRY_WORKER).await
    };
    let mut process = start.await.map_err(|cause| format!("the registry of GStreamer was not made: {cause}"))?;
    let exit = timeout(Duration::from_secs(60), process.wait()).await;
    match exit {
        Ok(exit) if exit.is_success() => Ok(()),
        Ok(exit) => Err(format!("the registry of GStreamer was not made: {}", exit.last_error("no message"))),
        Err(_) => Err("the registry of GStreamer was not made within 60 s".to_owned()),
    }
}

fn new_socket_pair() -> std::io::Result<(std::os::fd::OwnedFd, std::os::fd::OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// A frame of a worker, or its end.
#[derive(Debug)]
pub enum WorkerEvent {
    Frame(Frame),
    /// It has ended, or was killed. [`WorkerProcess::death`] says why.
    Lost,
}

/// A running worker. Dropping it kills its process group.
#[derive(Debug)]
pub struct WorkerProcess {
    number: u32,
    pid: u32,
    process: Process,
    reader: FrameReader,
    writer: FrameWriter,
    crash_page: CrashPage,
    sandbox: SandboxReport,
    monitor: BeatMonitor,
    log: LogRelay,
    /// Jobs it was given; the number of the current one.
    jobs: u32,
    busy: Option<BusyGuard>,
    is_closed: bool,
    silence: Option<Silence>,
    protocol_fault: Option<String>,
}

impl WorkerProcess {
    /// Starts a worker and waits until it is ready.
    ///
    /// # Errors
    /// Why it did not start. Its process is gone then.
    pub async fn start(settings: &WorkerSettings, number: u32, kind: WorkerKind) -> Result<Self, String> {
        let failed = |cause: std::io::Error| format!("a worker did not start: {cause}");
        let (own_end, worker_end) = new_socket_pair().map_err(failed)?;
        let stream = std::os::unix::net::UnixStream::from(own_end);
        stream.set_nonblocking(true).map_err(failed)?;
        let stream = UnixStream::from_std(stream).map_err(failed)?;
        let crash_page = CrashPage::create().map_err(failed)?;
        let mut args = vec!["worker".to_owned(), "--number".to_owned(), number.to_string()];
        if matches!(kind, WorkerKind::Network) {
            args.push("--network".to_owned());
        }
        let (environment, page) = (settings.environment(), crash_page.file().clone());
        let process = spawn_worker(&settings.program, args, environment, worker_end, page, ChildLimits::WORKER).await;
        let process = process.map_err(failed)?;
        let pid = process.pid().unwrap_or(0);
        let (reader, writer) = split(stream);
        let mut worker = Self {
            number,
            pid,
            process,
            reader,
            writer,
            crash_page,
            sandbox: SandboxReport::default(),
            monitor: BeatMonitor::new(Instant::now()),
            log: LogRelay::new(number, pid),
            jobs: 0,
            busy: None,
            is_closed: false,
            silence: None,
            protocol_fault: None,
        };
        match timeout(HELLO_TIMEOUT, worker.exchange_hello()).await {
            Ok(Ok(())) => Ok(worker),
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err(format!("a worker was not ready within {} s", HELLO_TIMEOUT.as_secs())),
        }
    }

    async fn exchange_hello(&mut self) -> Result<(), String> {
        // A worker that has ended already is reported by its end, which says more.
        let _ = self.writer.write(FrameKind::Hello, 0, &Hello::new(SandboxReport::default())).await;
        // Its heartbeats begin after it has loaded the plugins.
        let frame = loop {
            match self.reader.read().await {
                Ok(Some(frame)) if frame.kind == FrameKind::Hello => break frame,
                Ok(Some(frame)) => drop(self.absorb(frame)),
                Ok(None) | Err(_) => {
                    self.is_closed = true;
                    return Err(format!("a worker ended as it started: {}", self.death().await.text));
                }
            }
        };
        let hello: Hello = frame.parse().map_err(|fault| format!("a worker's Hello: {fault}"))?;
        if !hello.is_same_build() {
            return Err(format!("the worker is of version {:?}, not of this one", hello.build));
        }
        self.sandbox = hello.sandbox;
        self.monitor = BeatMonitor::new(Instant::now());
        Ok(())
    }

    /// Its number, unique in this server.
    pub fn number(&self) -> u32 {
        self.number
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its sandbox.
    pub fn sandbox(&self) -> &SandboxReport {
        &self.sandbox
    }

    /// The number of jobs it was given, and of the current one.
    pub fn jobs(&self) -> u32 {
        self.jobs
    }

    /// Whether it has ended, or was killed.
    pub fn is_lost(&self) -> bool {
        self.is_closed
    }

    /// Whether it works without progress, with no read of its source under way.
    pub fn is_stuck(&self) -> bool {
        self.monitor.is_stuck()
    }

    /// Gives it a job, with its descriptors. If the worker does not take it, the next event is its end. `busy` is dropped
    /// when the worker is, or by [`Self::finish_job`].
    ///
    /// # Errors
    /// Why the job cannot be described in a frame. The worker stays as it was.
    pub async fn send_job(
        &mut self,
        message: &JobMessage,
        descriptors: &[BorrowedFd<'_>],
        busy: BusyGuard,
    ) -> Result<(), String> {
        self.jobs += 1;
        self.busy = Some(busy);
        self.monitor.resume(Instant::now());
        let written = self.writer.write_with_descriptors(FrameKind::Job, self.jobs, message, descriptors).await;
        if let Err(ConnectionError::Unsendable(_)) = &written {
            self.busy = None;
            return written.map_err(|fault| fault.to_string());
        }
        self.note_write(written);
        Ok(())
    }

    /// Counts it as idle.
    pub fn finish_job(&mut self) {
        self.busy = None;
    }

    /// Writes a frame of the current job. If that fails, the next event is its end.
    pub async fn send(&mut self, kind: FrameKind, message: &impl Serialize) {
        let written = self.writer.write(kind, self.jobs, message).await;
        self.note_write(written);
    }

    fn note_write(&mut self, written: Result<(), ConnectionError>) {
        match written {
            Ok(()) => {}
            Err(ConnectionError::Stuck) => self.end_for(Silence::NoProgress { is_reading: false }),
            // What it sent before its end is still read.
            Err(fault) => tracing::debug!(worker = self.number, %fault, "a frame was not written"),
        }
    }

    /// The next frame of the current job; logs and heartbeats are handled here. A dropped call loses nothing.
    pub async fn next(&mut self) -> WorkerEvent {
        while !self.is_closed {
            let check_at = self.monitor.next_check(Instant::now());
            tokio::select! {
                biased;
                read = self.reader.read() => match read {
                    Ok(Some(frame)) => if let Some(frame) = self.absorb(frame) {
                        return WorkerEvent::Frame(frame);
                    },
                    Ok(None) | Err(ConnectionError::Closed(_)) => self.is_closed = true,
                    Err(fault) => self.end_for_protocol(fault.to_string()),
                },
                () = sleep_until(check_at) => {
                    let pid = self.pid;
                    if let Some(silence) = self.monitor.check_silence(Instant::now(), || process_state(pid)) {
                        self.end_for(silence);
                    }
                }
            }
        }
        WorkerEvent::Lost
    }

    /// Handles a frame that is not for the job. Frames of an earlier job are dropped.
    fn absorb(&mut self, frame: Frame) -> Option<Frame> {
        let handled = match frame.kind {
            FrameKind::Beat => frame.parse().map(|beat| {
                if let Some(silence) = self.monitor.record(beat, Instant::now()) {
                    self.end_for(silence);
                }
            }),
            FrameKind::Log => frame.parse().map(|message| self.log.emit(&message)),
            FrameKind::Answer => return Some(frame),
            _ if frame.job == self.jobs && self.jobs > 0 => return Some(frame),
            _ => Ok(()),
        };
        if let Err(fault) = handled {
            self.end_for_protocol(fault.to_string());
        }
        None
    }

    /// Starts the silence rules anew, after a time in which the server did not read its frames.
    pub fn resume(&mut self) {
        self.monitor.resume(Instant::now());
    }

    /// Kills it because it is silent.
    pub fn end_for(&mut self, silence: Silence) {
        self.silence.get_or_insert(silence);
        self.end();
    }

    /// Kills it because it broke the protocol.
    pub fn end_for_protocol(&mut self, fault: String) {
        self.protocol_fault.get_or_insert(fault);
        self.end();
    }

    fn end(&mut self) {
        self.is_closed = true;
        self.process.kill();
    }

    /// Waits for the end of a lost worker, at most 2 s, and judges it.
    pub async fn death(&mut self) -> Death {
        let mut exit = timeout(EXIT_TIMEOUT, self.process.wait()).await;
        if exit.is_err() {
            // It has closed its socket and is still there.
            let is_reading = process_state(self.pid) == Some('D');
            self.end_for(Silence::NoProgress { is_reading });
            exit = timeout(EXIT_TIMEOUT, self.process.wait()).await;
        }
        let exit = exit.unwrap_or_default();
        let evidence = Evidence {
            pid: self.pid.cast_signed(),
            exit_code: exit.code,
            exit_signal: exit.signal,
            record: self.crash_page.read(),
            silence: self.silence,
            // Workers have no control group of their own.
            was_own_oom: false,
        };
        let death = Death::new(evidence, self.protocol_fault.as_deref(), exit.error_lines.last().map(String::as_str));
        self.log.span().in_scope(|| tracing::warn!(cause = death.text, blame = ?death.blame, "a worker ended"));
        death
    }

    /// Ends it after its work, within `grace`; then it is killed.
    pub async fn cancel(mut self, grace: Duration) {
        self.send(FrameKind::Cancel, &serde_json::json!({})).await;
        let _ = timeout(grace, self.process.wait()).await;
    }

    /// Lowers its priority below that of the work that viewers wait for.
    pub fn lower_priority(&self) {
        let pid = rustix::process::Pid::from_raw(self.pid.cast_signed());
        if let Err(cause) = rustix::process::setpriority_process(pid, LOW_PRIORITY) {
            tracing::debug!(%cause, "the priority of a worker was not lowered");
        }
    }

    /// The memory it has of its own, bytes (PSS); None if the kernel does not say.
    pub fn memory_bytes(&self) -> Option<u64> {
        let rollup = read_proc(format!("/proc/{}/smaps_rollup", self.pid))?;
        let line = rollup.lines().find(|line| line.starts_with("Pss:"))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
    }
}

/// The state letter of a process; None if it is gone.
fn process_state(pid: u32) -> Option<char> {
    state_letter(&read_proc(format!("/proc/{pid}/stat"))?)
}

/// The state in a line of `/proc/<pid>/stat`. The name before it may contain parentheses.
fn state_letter(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[allow(clippy::disallowed_methods, reason = "paths of the kernel, made of a process id")]
fn read_proc(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_the_name() {
        assert_eq!(state_letter("7 (a) T (b) S 1 7 7 0"), Some('S'));
        assert_eq!(state_letter("7 (hearthcast) T 1 7 7 0"), Some('T'));
        assert_eq!(state_letter(""), None);
        assert_eq!(process_state(std::process::id()).map(|state| "RSD".contains(state)), Some(true));
    }

    #[test]
    fn a_confined_worker_reads_the_registry_and_never_updates_it() {
        let settings = WorkerSettings { program: "/p".into(), cache: "/var/cache/h".into() };
        let environment = settings.environment();
        let value = |name: &str| {
            let found = environment.iter().find(|(variable, _)| variable == name);
            found.and_then(|(_, value)| value.to_str())
        };
        assert_eq!(value("GST_REGISTRY"), Some("/var/cache/h/gstreamer-registry.bin"));
        assert_eq!((value("GST_REGISTRY_FORK"), value("GST_REGISTRY_UPDATE")), (Some("no"), Some("no")));
    }
}
