//! The sandbox of child processes: what they see of our environment, and what they give up between fork and exec.

use std::io::{Error, Result};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use rustix::process::{Resource, Rlimit};

/// The only environment variables a child gets: those that locate programs, drivers and fonts. Secrets are not passed on.
const ENVIRONMENT: &str = "PATH HOME TMPDIR LD_LIBRARY_PATH XDG_CACHE_HOME XDG_DATA_DIRS FONTCONFIG_FILE FONTCONFIG_PATH \
    LIBVA_DRIVER_NAME LIBVA_DRIVERS_PATH OCL_ICD_VENDORS NVIDIA_VISIBLE_DEVICES";

/// Resource limits of a child, enforced by the kernel.
#[derive(Clone, Copy, Debug)]
pub struct ChildLimits {
    /// Address space, bytes.
    pub memory_bytes: u64,
    /// Processor time, seconds; None for work that may take as long as a film.
    pub cpu_seconds: Option<u64>,
}

impl ChildLimits {
    /// For a transcode: 4K with frame threads on many cores maps some GiB.
    pub const TRANSCODE: Self = Self { memory_bytes: 16 << 30, cpu_seconds: None };
    /// For a call that must finish in seconds.
    pub const PROBE: Self = Self { memory_bytes: 4 << 30, cpu_seconds: Some(20) };

    /// These limits, reduced to the memory of this machine.
    pub(super) fn capped_to_machine(self) -> Self {
        Self { memory_bytes: self.address_space_limit(total_memory_bytes()), ..self }
    }

    /// The address space limit on a machine with `total_bytes` of memory: at most the memory, but at least a quarter of the
    /// limit, because stacks and arenas of threads are mapped and hardly used.
    fn address_space_limit(self, total_bytes: u64) -> u64 {
        self.memory_bytes.min(total_bytes.max(self.memory_bytes / 4))
    }
}

/// A command for a short call that reads no file of the library. Environment and confinement are those of
/// [`super::spawn::spawn`], but the caller must wait for the child and end it.
pub fn confined_command(program: &Path) -> Command {
    let mut command = bare_command(program);
    let limits = ChildLimits::TRANSCODE.capped_to_machine();
    // SAFETY: as in `fork`.
    unsafe {
        command.pre_exec(move || confine(limits, &[]));
    }
    command
}

/// A command with empty standard input and the environment of children.
pub(super) fn bare_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null());
    command.envs(ENVIRONMENT.split(' ').filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.env("LC_ALL", "C.UTF-8").env("AV_LOG_FORCE_NOCOLOR", "1");
    command
}

/// Memory of this machine, bytes.
fn total_memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}

/// Applies the limits and drops privileges between fork and exec. Makes only system calls: no allocation, no lock.
///
/// There is no `RLIMIT_NPROC`: it counts all threads of the user, including the server's and other programs'.
pub(super) fn confine(limits: ChildLimits, files: &[RawFd]) -> Result<()> {
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
    prefer_for_oom_kill();
    set_limit(Resource::Core, 0)?;
    set_limit(Resource::As, limits.memory_bytes)?;
    if let Some(seconds) = limits.cpu_seconds {
        set_limit(Resource::Cpu, seconds)?;
    }
    // Children write to pipes only. A library that writes a cache (fontconfig, mesa) gets an error instead of a signal.
    // SAFETY: sets a signal disposition; runs no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    set_limit(Resource::Fsize, 0)?;
    Ok(())
}

/// Makes the kernel kill a transcode before the server when memory runs out (proc(5)). Without /proc only this is lost.
fn prefer_for_oom_kill() {
    #[allow(clippy::disallowed_methods, reason = "a fixed path of the kernel")]
    let file = rustix::fs::open(c"/proc/self/oom_score_adj", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    if let Ok(file) = file {
        let _ = rustix::io::write(&file, b"1000");
    }
}

fn set_limit(resource: Resource, value: u64) -> rustix::io::Result<()> {
    rustix::process::setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use tokio::io::AsyncReadExt;

    use super::super::spawn::tests::{SH, shell};
    use super::*;

    #[tokio::test]
    async fn a_running_child_is_confined() {
        // A descriptor without the close-on-exec flag, like GStreamer's poll sockets.
        let leaky = rustix::fs::memfd_create("leaky", rustix::fs::MemfdFlags::empty()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "test -e /proc/self/fd/{} && echo leaked; (echo x >{}) 2>/dev/null && echo wrote; echo ready; sleep 60",
            leaky.as_raw_fd(),
            folder.path().join("file").display()
        );
        let mut child = shell(&script, vec![]).await;
        let mut output = [0; 64];
        let read = child.stdout.read(&mut output).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&output[..read]), "ready\n");
        let pid = child.pid().unwrap();
        let read_proc = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
        assert!(read_proc("status").lines().any(|line| line == "NoNewPrivs:\t1"), "{}", read_proc("status"));
        assert_eq!(read_proc("oom_score_adj").trim(), "1000");
        let limits = read_proc("limits");
        let soft_limit = |name: &str| {
            let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
            line[name.len()..].split_whitespace().next().unwrap().to_owned()
        };
        assert_eq!((soft_limit("Max file size"), soft_limit("Max core file size")), ("0".into(), "0".into()));
        let address_space = ChildLimits::PROBE.address_space_limit(total_memory_bytes());
        assert_eq!(soft_limit("Max address space"), address_space.to_string());
        assert_eq!(soft_limit("Max cpu time"), "20");
    }

    #[test]
    fn the_address_space_follows_the_memory_of_the_machine() {
        const GIB: u64 = 1 << 30;
        let limits_for = |total: u64| {
            (ChildLimits::PROBE.address_space_limit(total), ChildLimits::TRANSCODE.address_space_limit(total))
        };
        assert_eq!(limits_for(GIB / 2), (GIB, 4 * GIB));
        assert_eq!(limits_for(6 * GIB), (4 * GIB, 6 * GIB));
        assert_eq!(limits_for(64 * GIB), (4 * GIB, 16 * GIB));
    }

    #[tokio::test]
    async fn short_calls_see_no_secrets_either() {
        let mut command = tokio::process::Command::from(confined_command(Path::new(SH)));
        let script = "env | cut -d= -f1 | sort; grep NoNewPrivs /proc/self/status";
        let output = command.args(["-c", script]).output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("NoNewPrivs:\t1") && !text.contains("CARGO"), "{text}");
    }

    #[tokio::test]
    async fn secrets_in_the_environment_are_not_passed_on() {
        let mut child = shell("env | cut -d= -f1 | sort", vec![]).await;
        let mut out = String::new();
        child.stdout.read_to_string(&mut out).await.unwrap();
        let is_allowed = |name: &str| {
            ENVIRONMENT.split(' ').any(|allowed| allowed == name)
                || ["LC_ALL", "AV_LOG_FORCE_NOCOLOR", "PWD", "_", "OLDPWD", "SHLVL"].contains(&name)
        };
        assert!(out.lines().all(is_allowed), "{out}");
    }
}
