//! The sandbox: Landlock for files, seccomp for system calls, no capabilities. Neither of the first two is enough alone, and
//! each is used as far as the kernel has it.
//!
//! A *program* (ffmpeg) is confined between fork and exec. Everything is allocated before the fork, and the child makes only
//! system calls. A *worker* confines itself, after it has loaded its libraries and while it has one thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Once;

use rustix::thread::CapabilitySet;

use crate::domain::worker::SandboxReport;

mod landlock;
mod paths;
mod program;
mod seccomp;
mod syscalls;

use landlock::Sockets;
use paths::AllowedPaths;
use program::Program;
use seccomp::{Confined, Filter};

/// The work of a worker, which decides about sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerKind {
    /// Files from descriptors; no new sockets.
    Media,
    /// A stream by SRT: sockets for UDP as well.
    Network,
}

/// Confines this process for good, as far as the kernel can, and reports how far. To be called while it has one thread,
/// because Landlock covers the calling thread and those it starts.
pub fn enter_worker_sandbox(kind: WorkerKind) -> SandboxReport {
    enter_worker_sandbox_up_to(kind, None)
}

/// [`enter_worker_sandbox`] with no Landlock rights newer than `newest_abi`, to test older kernels.
#[doc(hidden)]
pub fn enter_worker_sandbox_up_to(kind: WorkerKind, newest_abi: Option<u32>) -> SandboxReport {
    let mut faults = Vec::new();
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        faults
            .push(format!("{} threads were started before the sandbox, and Landlock does not cover them", threads - 1));
    }
    keep_capabilities(CapabilitySet::empty());
    let _ = rustix::thread::set_no_new_privs(true);
    let sockets = Sockets { may_send_udp: kind == WorkerKind::Network, tcp_port: None };
    let ruleset = landlock::create_ruleset(&AllowedPaths::of_machine(), &[], sockets, newest_abi);
    let restricted = ruleset.and_then(|ruleset| {
        landlock::restrict_self(ruleset.as_fd()).map_err(|cause| cause.to_string())?;
        landlock::kernel_abi().map_err(|cause| cause.to_string())
    });
    let landlock_abi = restricted.map(|kernel| newest_abi.map_or(kernel, |newest| newest.min(kernel)));
    let filter = Filter::build(Confined::Worker(kind)).map_err(|error| error.to_string());
    let filtered = filter.and_then(|mut filter| filter.install(true).map_err(|cause| cause.to_string()));
    report(landlock_abi, filtered, faults)
}

/// Reports how far the kernel can confine a worker, without confining the caller.
pub fn supported() -> SandboxReport {
    let filter = if seccomp::is_available() { Ok(()) } else { Err("not available".to_owned()) };
    let filter = filter.and_then(|()| Filter::build(Confined::Worker(WorkerKind::Media)).map_err(|e| e.to_string()));
    report(landlock::kernel_abi().map_err(|cause| cause.to_string()), filter.map(drop), Vec::new())
}

/// The report about a Landlock version and a filter, each in force or with the reason why not.
fn report(landlock: Result<u32, String>, filter: Result<(), String>, faults: Vec<String>) -> SandboxReport {
    /// The first version that covers TCP, and signals and abstract sockets.
    const FIRST_SCOPED_ABI: u32 = 6;
    let (landlock_abi, seccomp) = (landlock.as_ref().ok().copied(), filter.is_ok());
    let mut gaps = faults;
    if let Err(cause) = landlock {
        gaps.push(format!("every file of the server's user can be read, because Landlock is missing ({cause})"));
    }
    if let Err(cause) = filter {
        gaps.push(format!("processes and UDP sockets can be started, because seccomp is missing ({cause})"));
        if landlock_abi.is_none_or(|abi| abi < FIRST_SCOPED_ABI) {
            gaps.push("other processes of the server's user can be signalled and connected to".to_owned());
        }
    }
    SandboxReport { landlock_abi, seccomp, gaps }
}

/// The sandbox of a program, prepared before the fork.
#[derive(Debug)]
pub(super) struct ProgramSandbox {
    ruleset: Option<OwnedFd>,
    filter: Option<Filter>,
}

impl ProgramSandbox {
    /// Prepares the sandbox of `program`, which may read the files behind `inherited` by `/proc/self/fd`, and connect to
    /// `loopback_port` by TCP. Kernels before 6.7 (Landlock 4) cannot restrict the port.
    pub fn prepare(program: &Path, inherited: &[BorrowedFd<'_>], loopback_port: Option<u16>) -> Self {
        static WARNING: Once = Once::new();
        let Program { is_script, executable, libraries } = Program::examine(program);
        let mut paths = AllowedPaths { executable, ..AllowedPaths::of_machine() };
        paths.readable.extend(libraries);
        let ruleset =
            landlock::create_ruleset(&paths, inherited, Sockets { may_send_udp: false, tcp_port: loopback_port }, None);
        let filter = Filter::build(Confined::Program { is_script, may_connect: loopback_port.is_some() });
        if ruleset.is_err() || filter.is_err() || !seccomp::is_available() {
            WARNING.call_once(|| tracing::warn!(gaps = ?supported().gaps, "child processes are not fully confined"));
        }
        Self { ruleset: ruleset.ok(), filter: filter.ok() }
    }

    /// Enters the sandbox between fork and exec, as far as the kernel can. Makes only system calls: no allocation, no lock.
    pub fn enter(&mut self) {
        // As root it reads files of other users, as the server does.
        keep_capabilities(CapabilitySet::DAC_READ_SEARCH);
        if let Some(ruleset) = &self.ruleset {
            let _ = landlock::restrict_self(ruleset.as_fd());
        }
        if let Some(filter) = &mut self.filter {
            let _ = filter.install(false);
        }
    }
}

/// Gives up all capabilities but `kept`, which root has: with them it could raise its limits.
fn keep_capabilities(kept: CapabilitySet) {
    if let Ok(mut sets) = rustix::thread::capabilities(None) {
        sets.permitted &= kept;
        sets.effective &= kept;
        sets.inheritable &= kept;
        let _ = rustix::thread::set_capabilities(None, sets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_name_what_the_kernel_lacks() {
        let lacks = || Err("no".to_owned());
        let gaps = |landlock: Result<u32, String>, filter: Result<(), String>| {
            let report = report(landlock, filter.map_err(|_| "no".to_owned()), Vec::new());
            (report.landlock_abi, report.seccomp, report.gaps.len())
        };
        assert_eq!(gaps(Ok(2), Ok(())), (Some(2), true, 0), "seccomp covers what Landlock 2 does not");
        assert_eq!(gaps(Ok(7), Err(String::new())), (Some(7), false, 1));
        assert_eq!(gaps(Ok(2), Err(String::new())), (Some(2), false, 2));
        assert_eq!(gaps(lacks(), Ok(())), (None, true, 1));
        assert_eq!(gaps(lacks(), Err(String::new())), (None, false, 3));
    }

    #[test]
    fn a_query_of_what_is_supported_confines_nothing() {
        let report = supported();
        assert_eq!(report.landlock_abi.is_some() && report.seccomp, report.gaps.is_empty());
        assert!(std::fs::read("/etc/passwd").is_ok());
    }
}
