//! The resource limits of child processes, and what they see of our environment.

use std::io::Result;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit};

/// The only environment variables a child gets: those that locate programs, drivers and fonts. Secrets are not passed on.
pub(super) const ENVIRONMENT: &str = "PATH HOME TMPDIR LD_LIBRARY_PATH XDG_CACHE_HOME XDG_DATA_DIRS FONTCONFIG_FILE \
    FONTCONFIG_PATH LIBVA_DRIVER_NAME LIBVA_DRIVERS_PATH OCL_ICD_VENDORS NVIDIA_VISIBLE_DEVICES";

/// Variables that a worker gets as well: those that locate GStreamer's plugins and control its log.
pub(super) const WORKER_VARIABLES: &str = "GST_PLUGIN_SYSTEM_PATH_1_0 GST_PLUGIN_SYSTEM_PATH GST_PLUGIN_PATH_1_0 \
    GST_PLUGIN_PATH GST_DEBUG RUST_BACKTRACE";

/// Open descriptors of a child, at most: some for libraries, one for each input, a few for each running pipeline.
const MAX_DESCRIPTORS: u64 = 256;

/// Resource limits of a child, enforced by the kernel.
#[derive(Clone, Copy, Debug)]
pub struct ChildLimits {
    /// Address space, bytes.
    pub memory_bytes: u64,
    /// Processor time, seconds; None for work that may take as long as a film.
    pub cpu_seconds: Option<u64>,
    /// Size of a file it writes, bytes.
    pub(super) file_bytes: u64,
    /// Added to the score by which the kernel chooses what to kill when memory runs out, at most 1000 (proc(5)). As text,
    /// because it is written between fork and exec, where nothing may be allocated.
    pub(super) oom_score_adj: &'static str,
    /// Whether a program runs in the sandbox; false only in tests, whose shell scripts start other programs.
    pub(super) is_sandboxed: bool,
    /// The one TCP port of this machine that a program may connect to; None for no sockets at all.
    pub(super) loopback_port: Option<u16>,
}

impl ChildLimits {
    /// For a transcode: 4K with frame threads on many cores maps some GiB.
    pub const TRANSCODE: Self = Self {
        memory_bytes: 16 << 30,
        cpu_seconds: None,
        file_bytes: 0,
        oom_score_adj: "1000",
        is_sandboxed: true,
        loopback_port: None,
    };
    /// For a call that must finish in seconds.
    pub const PROBE: Self = Self { memory_bytes: 4 << 30, cpu_seconds: Some(20), ..Self::TRANSCODE };
    /// For a drawing, which is small but may state any amount of work.
    pub const DRAWING: Self = Self { memory_bytes: 1 << 30, cpu_seconds: Some(3), ..Self::TRANSCODE };
    /// For a worker, until it knows its job and calls [`lower_memory_limit`]. When memory runs out, transcodes are killed
    /// first, then workers, then the server.
    pub const WORKER: Self = Self { oom_score_adj: "500", ..Self::TRANSCODE };

    /// For the worker that makes GStreamer's registry, a file of 2 MB.
    pub const REGISTRY_WORKER: Self = Self { file_bytes: 32 << 20, ..Self::WORKER };

    /// These limits, with a TCP port of this machine that the program may connect to.
    #[must_use]
    pub fn with_loopback_port(self, loopback_port: Option<u16>) -> Self {
        Self { loopback_port, ..self }
    }

    /// These limits, reduced to the memory of this machine.
    pub(super) fn capped_to_machine(self) -> Self {
        Self { memory_bytes: self.address_space_limit(total_memory_bytes()), ..self }
    }

    /// The address space limit on a machine with `total_bytes` of memory: at most the memory, but at least a quarter of the
    /// limit, because stacks and arenas of threads are mapped and hardly used.
    fn address_space_limit(self, total_bytes: u64) -> u64 {
        self.memory_bytes.min(total_bytes.max(self.memory_bytes / 4))
    }

    /// Applies the limits to this process. Makes only system calls: no allocation, no lock.
    ///
    /// There is no `RLIMIT_NPROC`: it counts all threads of the user, including the server's and other programs'.
    pub(super) fn apply(self) -> Result<()> {
        self.prefer_for_oom_kill();
        set_limit(Resource::Core, 0)?;
        set_limit(Resource::As, self.memory_bytes)?;
        if let Some(seconds) = self.cpu_seconds {
            set_limit(Resource::Cpu, seconds)?;
        }
        // Children write to pipes and sockets only. A library that writes a cache (fontconfig, mesa) or fills a memory file
        // gets an error instead of a signal.
        // SAFETY: sets a signal disposition; runs no handler.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        set_limit(Resource::Fsize, self.file_bytes)?;
        // Last: nothing can be opened while the descriptors of the server are still open.
        set_limit(Resource::Nofile, MAX_DESCRIPTORS)?;
        Ok(())
    }

    /// Makes the kernel kill a child before the server when memory runs out (proc(5)). Without /proc only this is lost.
    fn prefer_for_oom_kill(self) {
        #[allow(clippy::disallowed_methods, reason = "a fixed path of the kernel")]
        let file = rustix::fs::open(c"/proc/self/oom_score_adj", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        if let Ok(file) = file {
            let _ = rustix::io::write(&file, self.oom_score_adj.as_bytes());
        }
    }
}

/// Lowers the address space limit of this process for good, to `bytes` or what the limit is already. A worker calls it when
/// it knows its job, after its libraries are mapped: below some 700 MB libav does not load (measured).
///
/// # Errors
/// The system's error.
pub fn lower_memory_limit(bytes: u64) -> Result<()> {
    Ok(set_limit(Resource::As, bytes)?)
}

/// A command with empty standard input and the environment of children.
pub(super) fn bare_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null());
    command.envs(ENVIRONMENT.split(' ').filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.env("LC_ALL", "C.UTF-8").env("AV_LOG_FORCE_NOCOLOR", "1");
    // SVT-AV1 writes errors only, instead of a banner at every start.
    command.env("SVT_LOG", "1");
    command
}

/// Memory of this machine, bytes.
fn total_memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}

/// Sets a limit, and the maximum to which it may be raised, to `value` or the present maximum if that is lower.
fn set_limit(resource: Resource, value: u64) -> rustix::io::Result<()> {
    let value = rustix::process::getrlimit(resource).maximum.map_or(value, |maximum| maximum.min(value));
    rustix::process::setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use tokio::io::AsyncReadExt;

    use super::super::spawn::tests::shell;
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
        assert_eq!((soft_limit("Max cpu time"), soft_limit("Max open files")), ("20".into(), "256".into()));
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
}
