//! Starts child processes that cannot outlive the server, open other inputs, or grow without bound.
//!
//! One long-lived thread forks all children, because PR_SET_PDEATHSIG follows the *thread* that forked (prctl(2)): a child
//! forked by a worker thread would die with that worker. A second small thread per child drains its error output and reaps
//! it, so that no zombie remains even if no caller waits.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use rustix::io::FdFlags;
use rustix::process::{Pid, Signal};
use tokio::process::ChildStdout;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::child::{Child, Process};
use super::limits::{ChildLimits, WORKER_VARIABLES, bare_command};
use super::sandbox::ProgramSandbox;
use crate::engine::source::SourceFile;

/// An open file the child gets under the same number, so that `/proc/self/fd/<number>` names it there too.
pub type InheritedFile = Arc<dyn AsFd + Send + Sync>;

/// Number of the crash page's descriptor in a worker.
const CRASH_PAGE_NUMBER: RawFd = 3;

impl AsFd for SourceFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Starts `program` with exactly these arguments, no shell, in the sandbox of programs: standard input empty, output piped
/// to the handle, error output kept as a bounded tail.
///
/// # Errors
/// The system's error when the program cannot be started, e.g. `NotFound`.
pub async fn spawn(
    program: &Path,
    args: Vec<String>,
    inherited_files: Vec<InheritedFile>,
    limits: ChildLimits,
) -> Result<Child> {
    let (program, runtime) = (program.to_owned(), Handle::current());
    on_forker(move || fork_program(&program, &args, &inherited_files, limits, &runtime)).await
}

/// Starts a worker: `socket` is its descriptor 0 and `crash_page` its descriptor 3, standard output is discarded, error
/// output kept as a bounded tail. It has the environment of children, what locates GStreamer's plugins, and `environment`.
/// It enters its sandbox itself ([`enter_worker_sandbox`](super::sandbox::enter_worker_sandbox)), after it has loaded its
/// libraries.
///
/// # Errors
/// The system's error when the program cannot be started, e.g. `NotFound`.
pub async fn spawn_worker(
    program: &Path,
    args: Vec<String>,
    environment: Vec<(String, OsString)>,
    socket: OwnedFd,
    crash_page: Arc<File>,
    limits: ChildLimits,
) -> Result<Process> {
    let program = program.to_owned();
    on_forker(move || fork_worker(&program, &args, environment, socket, &crash_page, limits)).await
}

/// A command for a short call that reads no file of the library. Environment, limits and sandbox are those of [`spawn`], but
/// the caller must wait for the child and end it.
pub fn confined_command(program: &Path) -> Command {
    let mut command = bare_command(program);
    let limits = ChildLimits::TRANSCODE.capped_to_machine();
    let mut sandbox = ProgramSandbox::prepare(program, &[], None);
    // SAFETY: as in `fork_program`.
    unsafe {
        command.pre_exec(move || {
            confine(limits, &[])?;
            sandbox.enter();
            Ok(())
        });
    }
    command
}

/// Work of the forker thread.
type ForkRequest = Box<dyn FnOnce() + Send>;

/// Runs `fork` on the thread that forks. If the caller goes away, the result is dropped and so killed.
async fn on_forker<T: Send + 'static>(fork: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (reply, reply_receiver) = oneshot::channel();
    let request: ForkRequest = Box::new(move || {
        if !reply.is_closed() {
            let _ = reply.send(fork());
        }
    });
    let no_forker_error = || Error::other("the thread that starts processes is gone");
    forker_channel()?.send(request).await.map_err(|_| no_forker_error())?;
    reply_receiver.await.map_err(|_| no_forker_error())?
}

/// The channel to the one thread that forks, which lives as long as the process.
fn forker_channel() -> Result<&'static mpsc::Sender<ForkRequest>> {
    static FORKER: OnceLock<mpsc::Sender<ForkRequest>> = OnceLock::new();
    if let Some(sender) = FORKER.get() {
        return Ok(sender);
    }
    let (sender, mut requests) = mpsc::channel::<ForkRequest>(16);
    // If two first callers race, one thread is unused and ends when its sender is dropped.
    std::thread::Builder::new().name("forker".into()).spawn(move || {
        while let Some(request) = requests.blocking_recv() {
            request();
        }
    })?;
    Ok(FORKER.get_or_init(|| sender))
}

fn fork_program(
    program: &Path,
    args: &[String],
    inherited_files: &[InheritedFile],
    limits: ChildLimits,
    runtime: &Handle,
) -> Result<Child> {
    let files: Vec<BorrowedFd<'_>> = inherited_files.iter().map(|file| file.as_fd()).collect();
    let numbers: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let mut sandbox = limits.is_sandboxed.then(|| ProgramSandbox::prepare(program, &files, limits.loopback_port));
    let mut command = bare_command(program);
    command.args(args).current_dir("/").process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (limits, parent) = (limits.capped_to_machine(), rustix::process::getpid());
    // SAFETY: the closure runs between fork and exec and makes only system calls: no allocation, no lock. The inherited
    // descriptors are kept open by the caller until the child has been started.
    unsafe {
        command.pre_exec(move || {
            die_with(parent)?;
            confine(limits, &numbers)?;
            if let Some(sandbox) = &mut sandbox {
                sandbox.enter();
            }
            Ok(())
        });
    }
    let mut child = command.spawn()?;
    let stdout = child.stdout.take();
    let process = Process::supervise(child)?;
    let _runtime = runtime.enter();
    let stdout = stdout.ok_or_else(|| Error::other("the child has no output")).and_then(ChildStdout::from_std)?;
    Ok(Child { stdout, process })
}

fn fork_worker(
    program: &Path,
    args: &[String],
    environment: Vec<(String, OsString)>,
    socket: OwnedFd,
    crash_page: &File,
    limits: ChildLimits,
) -> Result<Process> {
    // Takes number 3 if it is free, so that the pipe by which `Command` reports a failed exec does not get it.
    let crash_page = rustix::io::fcntl_dupfd_cloexec(crash_page, CRASH_PAGE_NUMBER)?;
    let page_number = crash_page.as_raw_fd();
    let mut command = bare_command(program);
    command.envs(WORKER_VARIABLES.split(' ').filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.args(args).envs(environment).current_dir("/").process_group(0);
    command.stdin(Stdio::from(socket)).stdout(Stdio::null()).stderr(Stdio::piped());
    let (limits, parent) = (limits.capped_to_machine(), rustix::process::getpid());
    // SAFETY: as in `fork_program`; `crash_page` is open until the child has been started.
    unsafe {
        command.pre_exec(move || {
            die_with(parent)?;
            if page_number != CRASH_PAGE_NUMBER && libc::dup2(page_number, CRASH_PAGE_NUMBER) < 0 {
                return Err(Error::last_os_error());
            }
            confine(limits, &[CRASH_PAGE_NUMBER])
        });
    }
    Process::supervise(command.spawn()?)
}

/// Makes this process end with the thread that forked it, which may already be gone. Makes only system calls.
fn die_with(parent: Pid) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != Some(parent) {
        return Err(Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

/// Keeps `files` and the standard descriptors, applies the limits and gives up new privileges. Runs between fork and exec
/// and makes only system calls: no allocation, no lock.
fn confine(limits: ChildLimits, files: &[RawFd]) -> Result<()> {
    // SAFETY: closes nothing before exec, so that the descriptors of this process stay valid. Called by number because musl
    // has no such function.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) } != 0 {
        let cause = Error::last_os_error();
        // Linux before 5.11 lacks the call or the flag: there each descriptor's close-on-exec flag has to be enough.
        if !matches!(cause.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) {
            return Err(cause);
        }
    }
    for &file in files {
        // SAFETY: the caller keeps these descriptors open.
        rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(file) }, FdFlags::empty())?;
    }
    rustix::thread::set_no_new_privs(true)?;
    limits.apply()
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use tokio::io::AsyncReadExt;

    use super::super::limits::ENVIRONMENT;
    use super::*;

    const SH: &str = "/bin/sh";

    /// Runs a script that starts other programs, which the sandbox would refuse.
    pub async fn shell(script: &str, inherit: Vec<InheritedFile>) -> Child {
        let limits = ChildLimits { is_sandboxed: false, ..ChildLimits::PROBE };
        spawn(Path::new(SH), vec!["-c".into(), script.into()], inherit, limits).await.unwrap()
    }

    async fn output_of(mut child: Child) -> String {
        let mut out = String::new();
        child.stdout.read_to_string(&mut out).await.unwrap();
        out
    }

    #[tokio::test]
    async fn an_inherited_file_has_the_same_number_and_others_are_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "content").unwrap();
        let (inherited, other) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        let (given_number, kept_number) = (inherited.as_raw_fd(), other.as_raw_fd());
        std::fs::remove_file(&path).unwrap();
        let script = format!("cat /proc/self/fd/{given_number}; test -e /proc/self/fd/{kept_number} && echo leaked");
        assert_eq!(output_of(shell(&script, vec![Arc::new(inherited)]).await).await, "content");
        drop(other);
    }

    #[tokio::test]
    async fn a_program_reads_its_inherited_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let (given_path, other_path) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&given_path, "given\n").unwrap();
        std::fs::write(&other_path, "other\n").unwrap();
        let given = File::open(&given_path).unwrap();
        // Words built into the shell, because it can start no other program.
        let script = format!(
            "read line </proc/self/fd/{}; echo $line; read line <{} && echo read; (echo forked)",
            given.as_raw_fd(),
            other_path.display()
        );
        let args = vec!["-c".into(), script];
        let child = spawn(Path::new(SH), args, vec![Arc::new(given)], ChildLimits::PROBE).await.unwrap();
        if super::super::sandbox::supported().gaps.is_empty() {
            assert_eq!(output_of(child).await, "given\n");
        } else {
            eprintln!("skipped: {:?}", super::super::sandbox::supported().gaps);
        }
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_an_error() {
        let missing = spawn(Path::new("/no/such/program"), vec![], vec![], ChildLimits::PROBE).await;
        assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn a_worker_has_its_socket_and_its_crash_page_only() {
        let page = File::from(rustix::fs::memfd_create("page", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        (&page).write_all(b"page\n").unwrap();
        rustix::fs::seek(&page, rustix::fs::SeekFrom::Start(0)).unwrap();
        let (mut own_end, worker_end) = UnixStream::pair().unwrap();
        let script = "read line; read page <&3; for n in 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
            do test -e /proc/$$/fd/$n && page=\"leaked $n\"; done
            echo $line $page $GST_REGISTRY >&0; echo cause >&2; exit 5";
        let environment = vec![("GST_REGISTRY".to_owned(), "/registry".into())];
        let args = vec!["-c".into(), script.into()];
        let limits = ChildLimits::WORKER;
        let started = spawn_worker(Path::new(SH), args, environment, worker_end.into(), Arc::new(page), limits);
        let mut worker = started.await.unwrap();
        let answer = tokio::task::spawn_blocking(move || {
            own_end.write_all(b"hello\n").unwrap();
            let mut answer = String::new();
            own_end.read_to_string(&mut answer).unwrap();
            answer
        });
        assert_eq!(answer.await.unwrap(), "hello page /registry\n");
        let exit = worker.wait().await;
        assert_eq!((exit.code, exit.error_lines), (Some(5), vec!["cause".to_owned()]));
    }

    #[tokio::test]
    async fn a_worker_that_cannot_be_started_is_an_error() {
        let page = File::from(rustix::fs::memfd_create("page", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        let (_own_end, worker_end) = UnixStream::pair().unwrap();
        let program = Path::new("/no/such/program");
        let started = spawn_worker(program, vec![], vec![], worker_end.into(), Arc::new(page), ChildLimits::WORKER);
        assert_eq!(started.await.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn short_calls_see_no_secrets_either() {
        let mut command = tokio::process::Command::from(confined_command(Path::new("env")));
        let output = command.output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("PATH=") && !text.contains("CARGO"), "{text}");
    }

    #[tokio::test]
    async fn secrets_in_the_environment_are_not_passed_on() {
        let names = output_of(shell("env | cut -d= -f1 | sort", vec![]).await).await;
        let is_allowed = |name: &str| {
            ENVIRONMENT.split(' ').any(|allowed| allowed == name)
                || ["LC_ALL", "AV_LOG_FORCE_NOCOLOR", "SVT_LOG", "PWD", "_", "OLDPWD", "SHLVL"].contains(&name)
        };
        assert!(names.lines().all(is_allowed), "{names}");
    }
}
