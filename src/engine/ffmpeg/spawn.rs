//! Child processes that cannot outlive us, be confused about their input, or grow without bound.
//!
//! All children are forked by one long-lived thread, for PR_SET_PDEATHSIG follows the *thread* that forked (prctl(2)): a
//! child forked by a worker thread would die with that worker. A second small thread per child drains its error output
//! and reaps it, so that no zombie stays whoever waits or does not.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Error, Result};
use std::os::fd::AsRawFd;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions};
use tokio::sync::{mpsc, oneshot};

use crate::engine::source::Source;

/// An open file the child gets under the same number, so that `/proc/self/fd/<number>` names it there too.
pub type Inherited = Arc<dyn AsFd + Send + Sync>;

/// Lines and bytes of error output kept.
const TAIL_LINES: usize = 40;
const TAIL_LINE_BYTES: u64 = 500;

/// The only environment a child sees: what finds programs, drivers and fonts. Secrets are not passed on.
const ENVIRONMENT: [&str; 12] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME",
    "XDG_DATA_DIRS",
    "FONTCONFIG_FILE",
    "FONTCONFIG_PATH",
    "LIBVA_DRIVER_NAME",
    "LIBVA_DRIVERS_PATH",
    "OCL_ICD_VENDORS",
    "NVIDIA_VISIBLE_DEVICES",
];

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What the kernel holds a child to.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Address space, bytes.
    pub memory: u64,
    /// Processor time, seconds; None for work as long as a film.
    pub cpu_seconds: Option<u64>,
}

impl Limits {
    /// For a transcoder: 4K with frame threads on many cores maps some GiB.
    pub const TRANSCODE: Self = Self { memory: 16 << 30, cpu_seconds: None };
    /// For something that must answer in seconds.
    pub const PROBE: Self = Self { memory: 4 << 30, cpu_seconds: Some(20) };

    /// The address space allowed on a machine with `total` bytes of memory: no more than it has, but at least a quarter
    /// of the limit, because stacks and arenas of threads are mapped and hardly used.
    fn memory_of(self, total: u64) -> u64 {
        self.memory.min(total.max(self.memory / 4))
    }
}

/// A running child. Dropping it kills its whole process group; it is reaped in any case.
#[derive(Debug)]
pub struct Child {
    /// What the child writes. A full pipe blocks it: not reading is how it is paused.
    pub stdout: tokio::process::ChildStdout,
    process: Arc<Process>,
    exit: oneshot::Receiver<Exit>,
}

/// How a child ended.
#[derive(Clone, Debug, Default)]
pub struct Exit {
    /// None when a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Its last lines of error output.
    pub stderr: Vec<String>,
}

impl Exit {
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }
}

/// Shared by the handle and the reaper. The pid is taken out under the lock before it is reaped, so that a signal can
/// never reach a stranger with a reused number.
#[derive(Debug)]
struct Process {
    pid: Mutex<Option<Pid>>,
    tail: Mutex<VecDeque<String>>,
}

impl Process {
    fn kill(&self) {
        let pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = *pid {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
    }

    fn tail(&self) -> Vec<String> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Child {
    /// Process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        let pid = self.process.pid.lock().unwrap_or_else(PoisonError::into_inner);
        pid.map(|pid| pid.as_raw_pid().unsigned_abs())
    }

    /// The last lines of error output so far.
    pub fn stderr_tail(&self) -> Vec<String> {
        self.process.tail()
    }

    pub fn kill(&self) {
        self.process.kill();
    }

    /// Waits for the end. Read `stdout` to its end first, or the child may never end.
    pub async fn wait(&mut self) -> Exit {
        (&mut self.exit).await.unwrap_or_default()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.process.kill();
    }
}

struct Request {
    program: PathBuf,
    args: Vec<String>,
    inherit: Vec<Inherited>,
    limits: Limits,
    reply: oneshot::Sender<Result<Forked>>,
}

struct Forked {
    stdout: Option<std::process::ChildStdout>,
    process: Arc<Process>,
    exit: oneshot::Receiver<Exit>,
}

impl Drop for Forked {
    /// Nobody waited for the reply.
    fn drop(&mut self) {
        if self.stdout.is_some() {
            self.process.kill();
        }
    }
}

/// Starts `program` with exactly these arguments, no shell: standard input empty, output piped to the handle, error
/// output kept as a bounded tail.
///
/// # Errors
/// What starting it gave, e.g. not found.
pub async fn spawn(program: &Path, args: Vec<String>, inherit: Vec<Inherited>, limits: Limits) -> Result<Child> {
    let (reply, answer) = oneshot::channel();
    let request = Request { program: program.to_owned(), args, inherit, limits, reply };
    let gone = || Error::other("the thread that starts processes is gone");
    forker()?.send(request).await.map_err(|_| gone())?;
    let mut forked = answer.await.map_err(|_| gone())??;
    let stdout = forked.stdout.take().ok_or_else(|| Error::other("the child has no output"))?;
    let (process, exit) = (forked.process.clone(), std::mem::replace(&mut forked.exit, oneshot::channel().1));
    let stdout = tokio::process::ChildStdout::from_std(stdout).inspect_err(|_| process.kill())?;
    Ok(Child { stdout, process, exit })
}

/// The one thread that forks; it lives as long as the program.
fn forker() -> Result<&'static mpsc::Sender<Request>> {
    static FORKER: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    if let Some(known) = FORKER.get() {
        return Ok(known);
    }
    let (sender, mut requests) = mpsc::channel::<Request>(16);
    // Of two racing first callers one thread stays unused and ends when its sender is dropped.
    std::thread::Builder::new().name("forker".into()).spawn(move || {
        while let Some(request) = requests.blocking_recv() {
            if !request.reply.is_closed() {
                let forked = fork(&request);
                let _ = request.reply.send(forked);
            }
        }
    })?;
    Ok(FORKER.get_or_init(|| sender))
}

/// A short call of a program that reads no file of the library: the same environment and confinement as [`spawn`], but
/// the caller waits for it and ends it.
pub fn confined(program: &Path) -> Command {
    let mut command = bare(program);
    let limits = Limits { memory: Limits::TRANSCODE.memory_of(memory()), ..Limits::TRANSCODE };
    // SAFETY: as in `fork`.
    unsafe {
        command.pre_exec(move || confine(limits, &[]));
    }
    command
}

/// A command with nothing but the environment that children see.
fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null());
    command.envs(ENVIRONMENT.iter().filter_map(|&name| Some((name, std::env::var_os(name)?))));
    command.env("LC_ALL", "C.UTF-8").env("AV_LOG_FORCE_NOCOLOR", "1");
    command
}

/// Memory of this machine, bytes.
fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}

/// What a child gives up between fork and exec. Makes only system calls: no allocation, no lock.
///
/// There is no `RLIMIT_NPROC`: it counts all threads of the user, those of the server and of other programs too.
fn confine(limits: Limits, files: &[RawFd]) -> Result<()> {
    // SAFETY: closes nothing before exec, so that the descriptors of this process stay valid. By number, because musl has
    // no such function.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) } != 0 {
        let cause = Error::last_os_error();
        // Linux before 5.11 lacks the call or the flag: there the mark of each descriptor has to do.
        if !matches!(cause.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) {
            return Err(cause);
        }
    }
    for &file in files {
        // SAFETY: the caller keeps these descriptors open.
        rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(file) }, FdFlags::empty())?;
    }
    rustix::thread::set_no_new_privs(true)?;
    prefer_for_oom_kill();
    limit(Resource::Core, 0)?;
    limit(Resource::As, limits.memory)?;
    if let Some(seconds) = limits.cpu_seconds {
        limit(Resource::Cpu, seconds)?;
    }
    // Children write to pipes only. A library that writes a cache (fontconfig, mesa) gets an error, not a signal.
    // SAFETY: sets a disposition; runs no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    limit(Resource::Fsize, 0)?;
    Ok(())
}

/// The kernel ends a transcode before it ends the server (proc(5)). Where /proc is missing, nothing is lost but that.
fn prefer_for_oom_kill() {
    #[allow(clippy::disallowed_methods, reason = "a fixed path of the kernel")]
    let file = rustix::fs::open(c"/proc/self/oom_score_adj", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    if let Ok(file) = file {
        let _ = rustix::io::write(&file, b"1000");
    }
}

fn fork(request: &Request) -> Result<Forked> {
    let files: Vec<RawFd> = request.inherit.iter().map(|file| file.as_fd().as_raw_fd()).collect();
    let limits = Limits { memory: request.limits.memory_of(memory()), ..request.limits };
    let mut command = bare(&request.program);
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
    let process = Arc::new(Process { pid: Mutex::new(Some(pid)), tail: Mutex::default() });
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (send, exit) = oneshot::channel();
    let forked = Forked { stdout, process: process.clone(), exit };
    let reaper = std::thread::Builder::new().name(format!("child-{}", child.id())).stack_size(256 * 1024);
    let started = reaper.spawn({
        let process = process.clone();
        move || {
            if let Some(stderr) = stderr {
                drain(stderr, &process.tail);
            }
            let _ = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let mut known = process.pid.lock().unwrap_or_else(PoisonError::into_inner);
            *known = None;
            let status = child.wait();
            drop(known);
            let (code, signal) = status.map_or((None, None), |status| (status.code(), status.signal()));
            let _ = send.send(Exit { code, signal, stderr: process.tail() });
        }
    });
    started.inspect_err(|_| process.kill())?;
    Ok(forked)
}

fn limit(resource: Resource, most: u64) -> rustix::io::Result<()> {
    rustix::process::setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
}

/// Reads error output to its end and keeps the last lines, each cut to a bounded length.
fn drain(stderr: impl std::io::Read, tail: &Mutex<VecDeque<String>>) {
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
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.len() == TAIL_LINES {
            tail.pop_front();
        }
        tail.push_back(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};
    use tokio::io::AsyncReadExt;

    const SH: &str = "/bin/sh";

    async fn shell(script: &str, inherit: Vec<Inherited>) -> Child {
        spawn(Path::new(SH), vec!["-c".into(), script.into()], inherit, Limits::PROBE).await.unwrap()
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
        assert_eq!(exit.stderr, ["first", "second"]);
    }

    #[tokio::test]
    async fn endless_error_output_keeps_a_bounded_tail() {
        let mut child = shell("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo last >&2", vec![]).await;
        let exit = child.wait().await;
        assert_eq!(exit.stderr.len(), TAIL_LINES);
        assert!(exit.stderr.iter().all(|line| line.len() <= 500));
        assert!(exit.stderr.last().unwrap().ends_with("last"));
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
        // Its parent died too, so that init reaps it: gone or a zombie that is not ours.
        let stat = std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z") || !alive(grandchild), "{stat}");
    }

    #[tokio::test]
    async fn an_inherited_file_has_the_same_number_and_others_are_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "content").unwrap();
        let (given, kept) = (std::fs::File::open(&path).unwrap(), std::fs::File::open(&path).unwrap());
        let (given_number, kept_number) = (given.as_raw_fd(), kept.as_raw_fd());
        std::fs::remove_file(&path).unwrap();
        let script = format!("cat /proc/self/fd/{given_number}; test -e /proc/self/fd/{kept_number} && echo leaked");
        let mut child = shell(&script, vec![Arc::new(given)]).await;
        let mut out = String::new();
        child.stdout.read_to_string(&mut out).await.unwrap();
        assert_eq!(out, "content");
        drop(kept);
    }

    #[tokio::test]
    async fn a_running_child_is_confined() {
        // Inherited where a library forgets the mark, as GStreamer's poll sockets are.
        let leaky = rustix::fs::memfd_create("leaky", rustix::fs::MemfdFlags::empty()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "test -e /proc/self/fd/{} && echo leaked; (echo x >{}) 2>/dev/null && echo wrote; echo ready; sleep 60",
            leaky.as_raw_fd(),
            folder.path().join("file").display()
        );
        let mut child = shell(&script, vec![]).await;
        let mut said = [0; 64];
        let read = child.stdout.read(&mut said).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&said[..read]), "ready\n");
        let pid = child.pid().unwrap();
        let proc = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
        assert!(proc("status").lines().any(|line| line == "NoNewPrivs:\t1"), "{}", proc("status"));
        assert_eq!(proc("oom_score_adj").trim(), "1000");
        let limits = proc("limits");
        let soft = |name: &str| {
            let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
            line[name.len()..].split_whitespace().next().unwrap().to_owned()
        };
        assert_eq!((soft("Max file size"), soft("Max core file size")), ("0".into(), "0".into()));
        assert_eq!(soft("Max address space"), Limits::PROBE.memory_of(memory()).to_string());
        assert_eq!(soft("Max cpu time"), "20");
    }

    #[test]
    fn the_address_space_follows_the_memory_of_the_machine() {
        const GIB: u64 = 1 << 30;
        let of = |total: u64| (Limits::PROBE.memory_of(total), Limits::TRANSCODE.memory_of(total));
        assert_eq!(of(GIB / 2), (GIB, 4 * GIB));
        assert_eq!(of(6 * GIB), (4 * GIB, 6 * GIB));
        assert_eq!(of(64 * GIB), (4 * GIB, 16 * GIB));
    }

    #[tokio::test]
    async fn short_calls_see_no_secrets_either() {
        let mut command = tokio::process::Command::from(confined(Path::new(SH)));
        let script = "env | cut -d= -f1 | sort; grep NoNewPrivs /proc/self/status";
        let output = command.args(["-c", script]).output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("NoNewPrivs:\t1") && !text.contains("CARGO"), "{text}");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_an_error() {
        let missing = spawn(Path::new("/no/such/program"), vec![], vec![], Limits::PROBE).await;
        assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn secrets_in_the_environment_are_not_passed_on() {
        let mut child = shell("env | cut -d= -f1 | sort", vec![]).await;
        let mut out = String::new();
        child.stdout.read_to_string(&mut out).await.unwrap();
        let known = |name: &str| {
            ENVIRONMENT.contains(&name)
                || ["LC_ALL", "AV_LOG_FORCE_NOCOLOR", "PWD", "_", "OLDPWD", "SHLVL"].contains(&name)
        };
        assert!(out.lines().all(known), "{out}");
    }
}
