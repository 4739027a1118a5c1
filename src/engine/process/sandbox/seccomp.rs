//! The seccomp filter: which system calls, with which arguments (seccomp(2)).
//!
//! Several calls take a process id, but a filter cannot compare an argument with the caller's own. The id is therefore put in
//! just before the filter is installed: by then the child is forked, and exec keeps the id.

use std::collections::BTreeMap;
use std::io::{Error, Result};
use std::path::Path;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::WorkerKind;
use super::syscalls::{COMMON, CONNECT, EXEC, FIRST_UNKNOWN, NETWORK, SCRIPT};

/// The process behind a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confined {
    Worker(WorkerKind),
    Program {
        /// A script starts other programs.
        is_script: bool,
        /// Whether it may connect by TCP; Landlock restricts the port.
        may_connect: bool,
    },
}

/// Stands for the id of the process until the filter is installed. Ids end at 4,194,304 (proc(5)).
const OWN_ID: u32 = 0x7fff_ff01;

/// Codes of the instructions that this module reads or writes.
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_IF_NOT_LESS: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Each of these starts a namespace, in which a process could have privileges again.
const CLONE_NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// Each of these flags of open(2) creates a file; the second one without a name, and it has a flag of its own beside
/// `O_DIRECTORY`.
const OPEN_CREATES: u64 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u64;

/// The type of a socket without its flags (net/socket.h).
const SOCKET_TYPE_MASK: u64 = 0xf;

/// Commands of fcntl(2). `F_SETOWN` and `F_SETSIG` are missing because they send signals to other processes.
const FCNTL_COMMANDS: &[u64] = &[
    libc::F_DUPFD as u64,
    libc::F_DUPFD_CLOEXEC as u64,
    libc::F_GETFD as u64,
    libc::F_SETFD as u64,
    libc::F_GETFL as u64,
    libc::F_SETFL as u64,
    libc::F_GETLK as u64,
    libc::F_SETLK as u64,
    libc::F_SETLKW as u64,
    libc::F_SETPIPE_SZ as u64,
    libc::F_GETPIPE_SZ as u64,
    libc::F_ADD_SEALS as u64,
    libc::F_GET_SEALS as u64,
];

/// Options of prctl(2): names of threads and, for newer C libraries, of mappings (`PR_SET_VMA`).
const PRCTL_OPTIONS: &[u64] = &[libc::PR_SET_NAME as u64, libc::PR_GET_NAME as u64, 0x5356_4d41];

/// Requests of ioctl(2) that any descriptor takes: FIONBIO, FIONREAD, TCGETS, FIOCLEX, FIONCLEX.
const IOCTL_REQUESTS: &[u64] = &[0x5421, 0x541b, 0x5401, 0x5451, 0x5450];

/// Types of ioctl requests (the second byte) of graphics and video devices, each only if its device exists: DRM with DMA
/// buffers and fences, NVIDIA's control device and its unified memory, V4L2 and its media controller.
const DEVICE_IOCTL_TYPES: [(&str, &[u8]); 6] = [
    ("/dev/dri", b"db>"),
    ("/dev/dma_heap", b"H"),
    ("/dev/nvidiactl", b"F"),
    ("/dev/nvidia-uvm", &[0]),
    ("/dev/video0", b"V"),
    ("/dev/media0", b"|"),
];

/// A filter for this process or one that it will fork.
#[derive(Clone, Debug)]
pub(super) struct Filter(BpfProgram);

impl Filter {
    /// Builds the filter for this machine's processor and devices.
    ///
    /// # Errors
    /// When there are no filters for this kind of processor.
    pub fn build(confined: Confined) -> std::result::Result<Self, BackendError> {
        let device_types = DEVICE_IOCTL_TYPES.iter().filter(|(device, _)| Path::new(device).exists());
        Self::build_with(confined, device_types.flat_map(|(_, types)| types.iter().copied()))
    }

    fn build_with(
        confined: Confined,
        ioctl_types: impl Iterator<Item = u8>,
    ) -> std::result::Result<Self, BackendError> {
        let refusal = SeccompAction::Errno(libc::EPERM as u32);
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let filter = SeccompFilter::new(rules(confined, ioctl_types)?, refusal, SeccompAction::Allow, arch)?;
        Ok(Self(with_other_answers(filter.try_into()?)))
    }

    /// Installs the filter in this process, or in this thread only. It cannot be taken away, and no other one can be added.
    /// Makes only system calls: no allocation, no lock.
    ///
    /// # Errors
    /// The system's error, e.g. `EINVAL` from a kernel without seccomp.
    pub fn install(&mut self, all_threads: bool) -> Result<()> {
        self.set_own_id(std::process::id());
        let installed = if all_threads {
            seccompiler::apply_filter_all_threads(&self.0)
        } else {
            seccompiler::apply_filter(&self.0)
        };
        installed.map_err(|error| match error {
            seccompiler::Error::Seccomp(cause) | seccompiler::Error::Prctl(cause) => cause,
            _ => Error::from_raw_os_error(libc::ESRCH),
        })
    }

    fn set_own_id(&mut self, id: u32) {
        for instruction in &mut self.0 {
            if instruction.code == JUMP_IF_EQUAL && instruction.k == OWN_ID {
                instruction.k = id;
            }
        }
    }
}

/// Whether the kernel has seccomp filters that answer with an error.
pub(super) fn is_available() -> bool {
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the call only reads `action`.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) == 0 }
}

/// Puts answers other than EPERM in front of the rules, right after the number of the call is loaded. One filter is enough for
/// them: of two filters that refuse a call, the answer of the later one would be given.
///
///
/// - `clone3` answers ENOSYS. The C library then uses `clone`, whose flags can be tested.
/// - `sched_setattr` answers success without effect. GLib copies the scheduling policy of the first thread to each new one,
///   which inherits it anyway; it names a thread, which a filter cannot tell from another process, and warns about EPERM.
/// - Calls newer than this program answer ENOSYS.
fn with_other_answers(mut program: BpfProgram) -> BpfProgram {
    let answer = |code: u16, number: libc::c_long, errno: i32| {
        let test = sock_filter { code, jt: 0, jf: 1, k: number as u32 };
        [test, sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | errno as u32 }]
    };
    let answers = [
        answer(JUMP_IF_EQUAL, libc::SYS_clone3, libc::ENOSYS),
        answer(JUMP_IF_EQUAL, libc::SYS_sched_setattr, 0),
        answer(JUMP_IF_NOT_LESS, FIRST_UNKNOWN, libc::ENOSYS),
    ];
    // The number is at offset 0 of seccomp_data. All jumps are relative and forward, none crosses this place.
    let load = program.iter().position(|instruction| instruction.code == LOAD_WORD && instruction.k == 0);
    let start = load.map_or(program.len(), |load| load + 1);
    program.splice(start..start, answers.into_iter().flatten());
    program
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The calls allowed always (no rules) and those allowed with the arguments of one of their rules.
fn rules(confined: Confined, ioctl_types: impl Iterator<Item = u8>) -> std::result::Result<Rules, BackendError> {
    let groups: &[&[libc::c_long]] = match confined {
        Confined::Worker(WorkerKind::Media) => &[],
        Confined::Worker(WorkerKind::Network) => &[NETWORK],
        Confined::Program { is_script: false, may_connect: false } => &[EXEC],
        Confined::Program { is_script: false, may_connect: true } => &[EXEC, CONNECT],
        Confined::Program { is_script: true, may_connect: false } => &[EXEC, SCRIPT],
        Confined::Program { is_script: true, may_connect: true } => &[EXEC, SCRIPT, CONNECT],
    };
    let mut rules: Rules =
        COMMON.iter().chain(groups).flat_map(|group| group.iter()).map(|&call| (call, vec![])).collect();
    let own_id = |index| vec![all([equals(index, OWN_ID.into())])];
    let own_id_or_0 = |index| [0, OWN_ID.into()].map(|id| all([equals(index, id)])).into();
    let is_script = matches!(confined, Confined::Program { is_script: true, .. });
    let flags = if is_script {
        masked(0, CLONE_NAMESPACES, 0)
    } else {
        let thread = libc::CLONE_THREAD as u64;
        masked(0, CLONE_NAMESPACES | thread, thread)
    };
    // No file is created, also where Landlock is missing: ORC would leave one for its code, which it could not remove. A shell
    // opens /dev/null as if it might not exist.
    let open = |flags| if is_script { vec![] } else { vec![all([masked(flags, OPEN_CREATES, 0)])] };
    let mut ioctls: Vec<_> = IOCTL_REQUESTS.iter().map(|&request| all([equals(1, request)])).collect();
    ioctls.extend(ioctl_types.map(|kind| all([masked(1, 0xff00, u64::from(kind) << 8)])));
    let unix_stream = [equals(0, libc::AF_UNIX as u64), masked(1, SOCKET_TYPE_MASK, libc::SOCK_STREAM as u64)];
    let mut checked = vec![
        (libc::SYS_clone, vec![all([flags])]),
        (libc::SYS_openat, open(2)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, open(1)),
        (libc::SYS_kill, own_id(0)),
        (libc::SYS_tgkill, own_id(0)),
        (libc::SYS_prlimit64, own_id_or_0(0)),
        (libc::SYS_sched_setaffinity, own_id_or_0(0)),
        // The priority of one process: PRIO_PROCESS is 0.
        (libc::SYS_setpriority, [0, OWN_ID.into()].map(|id| all([equals(0, 0), equals(1, id)])).into()),
        (libc::SYS_fcntl, FCNTL_COMMANDS.iter().map(|&command| all([equals(1, command)])).collect()),
        (libc::SYS_prctl, PRCTL_OPTIONS.iter().map(|&option| all([equals(0, option)])).collect()),
        (libc::SYS_ioctl, ioctls),
        // A pair of datagram sockets would do for `sendto` any address.
        (libc::SYS_socketpair, vec![all(unix_stream)]),
    ];
    if confined == Confined::Worker(WorkerKind::Network) {
        let families = [libc::AF_INET, libc::AF_INET6];
        let udp = families.into_iter().flat_map(|family| {
            [0, libc::IPPROTO_UDP].map(|protocol| {
                let datagram = masked(1, SOCKET_TYPE_MASK, libc::SOCK_DGRAM as u64);
                all([equals(0, family as u64), datagram, equals(2, protocol as u64)])
            })
        });
        checked.push((libc::SYS_socket, udp.collect()));
    }
    if matches!(confined, Confined::Program { may_connect: true, .. }) {
        let stream = masked(1, SOCKET_TYPE_MASK, libc::SOCK_STREAM as u64);
        checked.push((libc::SYS_socket, vec![all([equals(0, libc::AF_INET as u64), stream])]));
    }
    for (call, alternatives) in checked {
        rules.insert(call, alternatives.into_iter().collect::<std::result::Result<_, _>>()?);
    }
    Ok(rules)
}

type Condition = std::result::Result<SeccompCondition, BackendError>;

/// A rule that holds when all its conditions do.
fn all<const N: usize>(conditions: [Condition; N]) -> std::result::Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.into_iter().collect::<std::result::Result<_, _>>()?)
}

/// Argument `index` is `value`. The kernel takes the lower 32 bits of all arguments tested here.
fn equals(index: u8, value: u64) -> Condition {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

/// The bits of `mask` in argument `index` are those of `value`.
fn masked(index: u8, mask: u64, value: u64) -> Condition {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)
}

#[cfg(test)]
mod tests;
