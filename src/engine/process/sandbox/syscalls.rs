//! The system calls that confined processes may make, by group. All others answer EPERM.
//!
//! Calls whose arguments are checked are in [`seccomp`](super::seccomp). Found by `strace` over ffmpeg, ffprobe and GStreamer
//! pipelines of Debian 12, with the calls of newer C libraries added.

use libc::c_long;

/// Numbers of system calls by their names in `libc`.
macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// Numbers from here on answer ENOSYS instead of EPERM, because C libraries fall back to an older call only then.
pub(super) const FIRST_UNKNOWN: c_long = 453;

/// Every confined process needs them.
pub(super) const COMMON: &[&[c_long]] = &[MEMORY, FILES, EVENTS, SOCKETS, THREADS, SIGNALS, CLOCKS, IDENTITY, LEGACY];

/// Allocation, mapped libraries, code that ORC generates; x265 queries NUMA nodes and locks a page.
const MEMORY: &[c_long] = calls![
    SYS_brk SYS_mmap SYS_munmap SYS_mremap SYS_mprotect SYS_madvise SYS_msync SYS_mincore SYS_mlock SYS_mlock2 SYS_munlock
    SYS_memfd_create SYS_mbind SYS_get_mempolicy SYS_set_mempolicy SYS_membarrier
];

/// Reading and writing. Opening is checked by arguments, and Landlock decides about paths. Nothing here changes a folder or the
/// mode of a file.
const FILES: &[c_long] = calls![
    SYS_close SYS_close_range SYS_read SYS_readv SYS_pread64 SYS_preadv SYS_preadv2 SYS_write SYS_writev
    SYS_pwrite64 SYS_pwritev SYS_lseek SYS_fstat SYS_newfstatat SYS_statx SYS_statfs SYS_fstatfs SYS_faccessat
    SYS_faccessat2 SYS_readlinkat SYS_getcwd SYS_getdents64 SYS_fadvise64 SYS_readahead SYS_ftruncate SYS_umask SYS_dup
    SYS_dup3 SYS_pipe2
];

/// Waiting for descriptors.
const EVENTS: &[c_long] = calls![
    SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_timerfd_create SYS_timerfd_settime
    SYS_timerfd_gettime SYS_ppoll SYS_pselect6
];

/// Use of sockets that exist: the one to the server, and the pairs by which GStreamer's buses wake a thread.
const SOCKETS: &[c_long] = calls![
    SYS_sendmsg SYS_sendmmsg SYS_sendto SYS_recvmsg SYS_recvmmsg SYS_recvfrom SYS_shutdown SYS_getsockopt SYS_setsockopt
    SYS_getsockname SYS_getpeername
];

/// Threads, their locks and their end. What concerns other processes is only read: scheduling policy, processor set.
const THREADS: &[c_long] = calls![
    SYS_futex SYS_futex_waitv SYS_set_robust_list SYS_set_tid_address SYS_rseq SYS_gettid SYS_getcpu SYS_sched_yield
    SYS_sched_getaffinity SYS_sched_getattr SYS_sched_getparam SYS_sched_getscheduler SYS_sched_get_priority_max
    SYS_sched_get_priority_min SYS_getpriority SYS_exit SYS_exit_group SYS_restart_syscall
];

/// Handlers and masks of the process itself. Sending is checked by arguments.
const SIGNALS: &[c_long] = calls![
    SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending SYS_rt_sigsuspend SYS_rt_sigtimedwait
    SYS_sigaltstack
];

const CLOCKS: &[c_long] =
    calls![SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_nanosleep SYS_gettimeofday SYS_times];

/// Who and where a process is, and its own limits.
const IDENTITY: &[c_long] = calls![
    SYS_getpid SYS_getppid SYS_getpgid SYS_getsid SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid
    SYS_getresgid SYS_getgroups SYS_getrlimit SYS_setrlimit SYS_getrusage SYS_getrandom SYS_uname SYS_sysinfo
];

/// Older forms of the calls above, and the thread register. Other processors do not have them.
#[cfg(target_arch = "x86_64")]
const LEGACY: &[c_long] = calls![
    SYS_stat SYS_lstat SYS_access SYS_readlink SYS_getdents SYS_poll SYS_select SYS_pipe SYS_dup2
    SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_time SYS_getpgrp SYS_arch_prctl
];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY: &[c_long] = &[];

/// For `srtsrc`, beside `socket` for UDP: SRT binds a local port and connects it.
pub(super) const NETWORK: &[c_long] = calls![SYS_bind SYS_connect];

/// For a program that reads from a loopback port, beside `socket` for TCP.
pub(super) const CONNECT: &[c_long] = calls![SYS_connect];

/// For a program: the call that starts it, after the filter is installed.
pub(super) const EXEC: &[c_long] = calls![SYS_execve];

/// For a program that is a script, which starts others and waits for them.
#[cfg(target_arch = "x86_64")]
pub(super) const SCRIPT: &[c_long] = calls![SYS_fork SYS_vfork SYS_wait4 SYS_waitid SYS_chdir];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const SCRIPT: &[c_long] = calls![SYS_wait4 SYS_waitid SYS_chdir];
