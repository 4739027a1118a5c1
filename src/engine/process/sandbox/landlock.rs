//! The Landlock ruleset: which files a process may open (landlock(7)).

use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};
use rustix::fs::FileType;

use super::paths::AllowedPaths;

/// The newest interface whose rights this program knows.
const NEWEST_ABI: ABI = ABI::V10;

/// Rights that files have; the others concern folders.
const FILE_RIGHTS: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile | Execute | IoctlDev});

const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
const USE_DEVICE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | IoctlDev});
/// The kernel reads what it executes.
const RUN: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | Execute});

/// Version of the kernel's interface.
///
/// # Errors
/// `ENOSYS` or `EPERM` without Landlock, or in a container that hides it; `EOPNOTSUPP` where it is off.
pub(super) fn kernel_abi() -> Result<u32> {
    const CREATE_RULESET_VERSION: libc::c_uint = 1;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the call takes no structure and returns a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, CREATE_RULESET_VERSION) };
    u32::try_from(version).map_err(|_| Error::last_os_error())
}

/// The sockets that a process may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sockets {
    pub may_send_udp: bool,
    /// A port that it may connect to by TCP.
    pub tcp_port: Option<u16>,
}

/// A ruleset that refuses all access to files, TCP ports, abstract sockets and foreign signals, but for `sockets`, `paths` and
/// the files behind `inherited`, which may be read. `newest_abi` leaves out the rights of newer kernels.
///
/// # Errors
/// When the kernel has no Landlock.
pub(super) fn create_ruleset(
    paths: &AllowedPaths,
    inherited: &[BorrowedFd<'_>],
    sockets: Sockets,
    newest_abi: Option<u32>,
) -> std::result::Result<OwnedFd, String> {
    let abi = newest_abi.map_or(NEWEST_ABI, |newest| ABI::from(i32::try_from(newest).unwrap_or(i32::MAX)));
    let mut ruleset = create(abi, sockets.may_send_udp).map_err(|error| error.to_string())?;
    let rights = [(&paths.readable, READ), (&paths.devices, USE_DEVICE), (&paths.executable, RUN)];
    for (paths, rights) in rights {
        for path in paths {
            // What does not exist needs no rule.
            if let Ok(parent) = PathFd::new(path) {
                allow(&mut ruleset, parent, rights & AccessFs::from_all(abi));
            }
        }
    }
    for file in inherited {
        // Everything beneath a folder would become readable.
        if !is_folder(file) {
            allow(&mut ruleset, file, AccessFs::ReadFile.into());
        }
    }
    if let (Some(port), true) = (sockets.tcp_port, abi >= ABI::V4) {
        let _ = (&mut ruleset).add_rule(NetPort::new(port, AccessNet::ConnectTcp));
    }
    Option::<OwnedFd>::from(ruleset).ok_or_else(|| "the kernel has no Landlock".to_owned())
}

fn create(abi: ABI, may_send_udp: bool) -> std::result::Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(abi))?;
    if abi >= ABI::V4 {
        ruleset = ruleset.handle_access(make_bitflags!(AccessNet::{BindTcp | ConnectTcp}))?;
    }
    if abi >= ABI::V6 {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    if abi >= ABI::V10 && !may_send_udp {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }
    ruleset.create()
}

/// Adds a rule. Pipes and memory files refuse one and need none: file systems inside the kernel are always accessible.
fn allow(ruleset: &mut RulesetCreated, parent: impl AsFd, rights: BitFlags<AccessFs>) {
    let rights = if is_folder(&parent) { rights } else { rights & FILE_RIGHTS };
    let _ = ruleset.add_rule(PathBeneath::new(parent, rights));
}

fn is_folder(file: &impl AsFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Enforces a ruleset upon this thread and those it starts, for good. Makes only one system call: no allocation, no lock.
///
/// # Errors
/// The system's error, e.g. `EPERM` if new privileges are not given up.
pub(super) fn restrict_self(ruleset: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: takes a number and flags only.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}
