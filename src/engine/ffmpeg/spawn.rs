//! Child processes that cannot outlive the server, open other inputs, or grow without bound.
//!
//! One long-lived thread forks all children, because PR_SET_PDEATHSIG follows the *thread* that forked (prctl(2)): a child
//! forked by a worker thread would die with that worker. A second small thread per child drains its error output and reaps
//! it, so that no zombie remains even if no caller waits.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Error, Result};
use std::os::fd::AsRawFd;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::process::ChildStdout;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::confine::{bare_command, confine};
use crate::engine::source::SourceFile;

pub use super::confine::{ChildLimits, confined_command};

/// An open file the child gets under the same number, so that `/proc/self/fd/<number>` names it there too.
pub type InheritedFile = Arc<dyn AsFd + Send + Sync>;

/// Lines of error output kept, and the largest length of each in bytes.
const TAIL_LINES: usize = 40;
const TAIL_LINE_BYTES: u64 = 500;

impl AsFd for SourceFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A running child. Dropping it kills its whole process group; the child is always reaped.
#[derive(Debug)]
pub struct Child {
    /// Standard output of the child. A full pipe blocks the child, so not reading pauses it.
    pub stdout: ChildStdout,
    process: Arc<Process>,
    exit: oneshot::Receiver<ChildExit>,
}

/// How a child ended.
#[derive(Clone, Debug, Default)]
pub struct ChildExit {
    /// Exit code; None when a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// The last lines of its error output.
    pub error_lines: Vec<String>,
}

impl ChildExit {
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// The last line of its error output, or `fallback`.
    pub fn last_error(&self, fallback: &str) -> String {
        self.error_lines.last().map_or(fallback, String::as_str).to_owned()
    }
}

/// Shared by the handle and the reaper. The pid is removed under the lock before the child is reaped, so that a signal can
/// never reach another process with a reused number.
#[derive(Debug)]
struct Process {
    pid: Mutex<Option<Pid>>,
    error_tail: Mutex<VecDeque<String>>,
}

impl Process {
    fn kill(&self) {
        let pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = *pid {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
    }

    fn error_tail(&self) -> Vec<String> {
        self.error_tail.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Child {
    /// Process id while the child runs.
    pub fn pid(&self) -> Option<u32> {
        let pid = self.process.pid.lock().unwrap_or_else(PoisonError::into_inner);
        pid.map(|pid| pid.as_raw_pid().unsigned_abs())
    }

    pub fn kill(&self) {
        self.process.kill();
    }

    /// Waits for the child to end. Read `stdout` to its end first, or the child may never end.
    pub async fn wait(&mut self) -> ChildExit {
        (&mut self.exit).await.unwrap_or_default()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.process.kill();
    }
}

struct SpawnRequest {
    program: PathBuf,
    args: Vec<String>,
    inherited_files: Vec<InheritedFile>,
    limits: ChildLimits,
    /// Reads the child's output.
    runtime: Handle,
    reply: oneshot::Sender<Result<Child>>,
}

/// Starts `program` with exactly these arguments, no shell: standard input empty, output piped to the handle, error
/// output kept as a bounded tail.
///
/// # Errors
/// The system's error when the program cannot be started, e.g. `NotFound`.
pub async fn spawn(
    program: &Path,
    args: Vec<String>,
    inherited_files: Vec<InheritedFile>,
    limits: ChildLimits,
) -> Result<Child> {
    let (reply, reply_receiver) = oneshot::channel();
    let (program, runtime) = (program.to_owned(), Handle::current());
    let request = SpawnRequest { program, args, inherited_files, limits, runtime, reply };
    let no_forker_error = || Error::other("the thread that starts processes is gone");
    forker_channel()?.send(request).await.map_err(|_| no_forker_error())?;
    reply_receiver.await.map_err(|_| no_forker_error())?
}

/// The channel to the one thread that forks, which lives as long as the process.
fn forker_channel() -> Result<&'static mpsc::Sender<SpawnRequest>> {
    static FORKER: OnceLock<mpsc::Sender<SpawnRequest>> = OnceLock::new();
    if let Some(sender) = FORKER.get() {
        return Ok(sender);
    }
    let (sender, mut requests) = mpsc::channel::<SpawnRequest>(16);
    // If two first callers race, one thread is unused and ends when its sender is dropped.
    std::thread::Builder::new().name("forker".into()).spawn(move || {
        while let Some(request) = requests.blocking_recv() {
            if !request.reply.is_closed() {
                let forked = fork(&request);
                // If the caller has gone away, the child is dropped and so killed.
                let _ = request.reply.send(forked);
            }
        }
    })?;
    Ok(FORKER.get_or_init(|| sender))
}

fn fork(request: &SpawnRequest) -> Result<Child> {
    let files: Vec<RawFd> = request.inherited_files.iter().map(|file| file.as_fd().as_raw_fd()).collect();
    let limits = request.limits.capped_to_machine();
    let mut command = bare_command(&request.program);
    command.args(&request.args).current_dir("/").process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: the closure runs between fork and exec and makes only system calls: no allocation, no lock. The
    // descriptors are kept open by `request` until the child has been started.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            confine(limits, &files)
        });
    }
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let process = Arc::new(Process { pid: Mutex::new(Some(pid)), error_tail: Mutex::default() });
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (exit_sender, exit) = oneshot::channel();
    let reaper = std::thread::Builder::new().name(format!("child-{}", child.id())).stack_size(256 * 1024);
    let reaper_thread = reaper.spawn({
        let process = process.clone();
        move || {
            if let Some(stderr) = stderr {
                drain_error_output(stderr, &process.error_tail);
            }
            let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let mut current_pid = process.pid.lock().unwrap_or_else(PoisonError::into_inner);
            *current_pid = None;
            let status = child.wait();
            drop(current_pid);
            let (code, signal) = status.map_or((None, None), |status| (status.code(), status.signal()));
            let _ = exit_sender.send(ChildExit { code, signal, error_lines: process.error_tail() });
        }
    });
    reaper_thread.inspect_err(|_| process.kill())?;
    let _runtime = request.runtime.enter();
    let stdout = stdout.ok_or_else(|| Error::other("the child has no output")).and_then(ChildStdout::from_std);
    Ok(Child { stdout: stdout.inspect_err(|_| process.kill())?, process, exit })
}

/// Reads error output to its end and keeps the last lines, each cut to a bounded length.
fn drain_error_output(stderr: impl std::io::Read, error_tail: &Mutex<VecDeque<String>>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match std::io::Read::take(&mut reader, TAIL_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        if text.is_empty() {
            continue;
        }
        let mut tail = error_tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.len() == TAIL_LINES {
            tail.pop_front();
        }
        tail.push_back(text);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::time::{Duration, Instant};
    use tokio::io::AsyncReadExt;

    pub const SH: &str = "/bin/sh";

    pub async fn shell(script: &str, inherit: Vec<InheritedFile>) -> Child {
        spawn(Path::new(SH), vec!["-c".into(), script.into()], inherit, ChildLimits::PROBE).await.unwrap()
    }

    fn alive(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    async fn until_gone(pid: u32) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while alive(pid) {
            assert!(Instant::now() < deadline, "process {pid} is still there");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn output_error_tail_and_exit_code_come_back() {
        let mut child = shell("echo out; echo first >&2; echo second >&2; exit 3", vec![]).await;
        let mut out = String::new();
        child.stdout.read_to_string(&mut out).await.unwrap();
        let exit = child.wait().await;
        assert_eq!((out.as_str(), exit.code, exit.signal), ("out\n", Some(3), None));
        assert_eq!(exit.error_lines, ["first", "second"]);
    }

    #[tokio::test]
    async fn endless_error_output_keeps_a_bounded_tail() {
        let mut child = shell("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo last >&2", vec![]).await;
        let exit = child.wait().await;
        assert_eq!(exit.error_lines.len(), TAIL_LINES);
        assert!(exit.error_lines.iter().all(|line| line.len() <= 500));
        assert!(exit.error_lines.last().unwrap().ends_with("last"));
    }

    #[tokio::test]
    async fn a_dropped_child_and_its_own_children_are_gone_without_a_zombie() {
        let mut child = shell("sleep 100 & echo $!; wait", vec![]).await;
        let mut line = [0; 16];
        let read = child.stdout.read(&mut line).await.unwrap();
        let grandchild: u32 = String::from_utf8_lossy(&line[..read]).trim().parse().unwrap();
        let pid = child.pid().unwrap();
        assert!(alive(pid) && alive(grandchild));
        drop(child);
        until_gone(pid).await;
        // Its parent died too, so init reaps it: it is gone, or a zombie that is not ours.
        let stat = std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z") || !alive(grandchild), "{stat}");
    }

    #[tokio::test]
    async fn an_inherited_file_has_the_same_number_and_others_are_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "content").unwrap();
        let (inherited, other) = (std::fs::File::open(&path).unwrap(), std::fs::File::open(&path).unwrap());
        let (given_number, kept_number) = (inherited.as_raw_fd(), other.as_raw_fd());
        std::fs::remove_file(&path).unwrap();
        let script = format!("cat /proc/self/fd/{given_number}; test -e /proc/self/fd/{kept_number} && echo leaked");
        let mut child = shell(&script, vec![Arc::new(inherited)]).await;
        let mut out = String::new();
        child.stdout.read_to_string(&mut out).await.unwrap();
        assert_eq!(out, "content");
        drop(other);
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_an_error() {
        let missing = spawn(Path::new("/no/such/program"), vec![], vec![], ChildLimits::PROBE).await;
        assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }
}
