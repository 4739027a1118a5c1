//! A running child process: its end, the tail of its error output, and the kill of its whole group.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Result};
use std::os::unix::process::ExitStatusExt;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::process::ChildStdout;
use tokio::sync::oneshot;

/// Lines of error output kept, and the largest length of each in bytes.
const TAIL_LINES: usize = 40;
const TAIL_LINE_BYTES: u64 = 500;

/// A child whose output is read. Dropping it kills its process group.
#[derive(Debug)]
pub struct Child {
    /// Standard output of the child. A full pipe blocks the child, so not reading pauses it.
    pub stdout: ChildStdout,
    pub process: Process,
}

impl Child {
    /// See [`Process::pid`].
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// See [`Process::kill`].
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Waits for the child to end. Read `stdout` to its end first, or the child may never end.
    pub async fn wait(&mut self) -> ChildExit {
        self.process.wait().await
    }
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

/// A running process that leads a group of its own. Dropping it kills the group; the process is always reaped.
#[derive(Debug)]
pub struct Process {
    state: Arc<ProcessState>,
    exit_receiver: oneshot::Receiver<ChildExit>,
    /// Set when it was waited for.
    exit: Option<ChildExit>,
}

/// Shared by the handle and the reaper.
#[derive(Debug)]
struct ProcessState {
    /// Removed under the lock before the process is reaped, so that a signal can never reach another process with a reused
    /// number.
    pid: Mutex<Option<Pid>>,
    error_tail: Mutex<VecDeque<String>>,
}

impl ProcessState {
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

impl Process {
    /// Starts the thread that drains the error output of `child` and reaps it.
    ///
    /// # Errors
    /// The system's error when there is no thread for it; the child is killed.
    pub(super) fn supervise(mut child: std::process::Child) -> Result<Self> {
        let pid = Pid::from_child(&child);
        let state = Arc::new(ProcessState { pid: Mutex::new(Some(pid)), error_tail: Mutex::default() });
        let stderr = child.stderr.take();
        let (exit_sender, exit_receiver) = oneshot::channel();
        let reaper = std::thread::Builder::new().name(format!("child-{}", child.id())).stack_size(256 * 1024);
        let reaper_thread = reaper.spawn({
            let state = state.clone();
            move || {
                if let Some(stderr) = stderr {
                    drain_error_output(stderr, &state.error_tail);
                }
                let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
                let mut current_pid = state.pid.lock().unwrap_or_else(PoisonError::into_inner);
                *current_pid = None;
                let status = child.wait();
                drop(current_pid);
                let (code, signal) = status.map_or((None, None), |status| (status.code(), status.signal()));
                let _ = exit_sender.send(ChildExit { code, signal, error_lines: state.error_tail() });
            }
        });
        reaper_thread.inspect_err(|_| state.kill())?;
        Ok(Self { state, exit_receiver, exit: None })
    }

    /// Process id while the process runs.
    pub fn pid(&self) -> Option<u32> {
        let pid = self.state.pid.lock().unwrap_or_else(PoisonError::into_inner);
        pid.map(|pid| pid.as_raw_pid().unsigned_abs())
    }

    /// Kills the process and those it started.
    pub fn kill(&self) {
        self.state.kill();
    }

    /// The last lines of its error output so far: at most 40 of 500 bytes.
    pub fn error_tail(&self) -> Vec<String> {
        self.state.error_tail()
    }

    /// Waits for the process to end and its error output to close. May be called again, also after it was cancelled.
    pub async fn wait(&mut self) -> ChildExit {
        if self.exit.is_none() {
            self.exit = Some((&mut self.exit_receiver).await.unwrap_or_default());
        }
        self.exit.clone().unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
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
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use tokio::io::AsyncReadExt;

    use super::super::spawn::tests::shell;
    use super::*;

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
        assert_eq!(child.wait().await.code, Some(3), "a second wait has the same result");
        assert_eq!((child.pid(), child.process.error_tail().len()), (None, 2));
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
}
