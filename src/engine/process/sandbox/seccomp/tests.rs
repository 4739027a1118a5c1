//! The filters, run by a small interpreter of BPF over pairs of system call and arguments.

use super::*;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const SUCCESS: u32 = libc::SECCOMP_RET_ERRNO;

const OWN: u64 = 4321;
const OTHER: u64 = 1234;

const MEDIA: Confined = Confined::Worker(WorkerKind::Media);
const SRT: Confined = Confined::Worker(WorkerKind::Network);
const FFMPEG: Confined = Confined::Program { is_script: false, may_connect: false };
const READER: Confined = Confined::Program { is_script: false, may_connect: true };
const SCRIPTED: Confined = Confined::Program { is_script: true, may_connect: false };
const EVERY: [Confined; 4] = [MEDIA, SRT, FFMPEG, SCRIPTED];

/// The kernel's answer to a call: the fields of `seccomp_data` are number, processor, instruction pointer, arguments.
fn answer(program: &[sock_filter], call: libc::c_long, arguments: &[u64]) -> u32 {
    let arch: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
    let mut data = vec![call as u32, arch, 0, 0];
    data.extend((0..6).flat_map(|n| {
        let argument = arguments.get(n).copied().unwrap_or(0);
        [argument as u32, (argument >> 32) as u32]
    }));
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at].clone();
        let code = u32::from(code);
        at += 1;
        let mut branch = |condition: bool| at += usize::from(if condition { jt } else { jf });
        match code {
            0x20 => accumulator = data[k as usize / 4],
            0x54 => accumulator &= k,
            0x05 => at += k as usize,
            0x15 => branch(accumulator == k),
            0x25 => branch(accumulator > k),
            0x35 => branch(accumulator >= k),
            0x06 => return k,
            _ => panic!("unknown instruction {code:#x}"),
        }
    }
}

fn filter(confined: Confined, ioctl_types: &[u8]) -> BpfProgram {
    let mut filter = Filter::build_with(confined, ioctl_types.iter().copied()).unwrap();
    filter.set_own_id(OWN as u32);
    filter.0
}

#[track_caller]
fn check(expected: u32, kinds: &[Confined], call: libc::c_long, arguments: &[u64]) {
    for &confined in kinds {
        let given = answer(&filter(confined, b""), call, arguments);
        assert_eq!(given, expected, "{confined:?}, call {call}, {arguments:?}: {given:#x}");
    }
}

#[test]
fn calls_of_media_work_are_allowed() {
    for confined in EVERY {
        let program = filter(confined, b"");
        for &call in COMMON.iter().copied().flatten() {
            assert_eq!(answer(&program, call, &[]), ALLOW, "{confined:?}, call {call}");
            assert!(call < FIRST_UNKNOWN);
        }
    }
}

#[test]
fn calls_upon_other_processes_files_and_the_kernel_are_refused() {
    for call in [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        libc::SYS_tkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_io_uring_setup,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_seccomp,
        libc::SYS_execveat,
        libc::SYS_accept4,
        libc::SYS_listen,
        libc::SYS_fchmodat,
        libc::SYS_fchownat,
        libc::SYS_unlinkat,
        libc::SYS_renameat2,
        libc::SYS_mkdirat,
        libc::SYS_setpgid,
        libc::SYS_open_by_handle_at,
        libc::SYS_personality,
    ] {
        check(EPERM, &EVERY, call, &[]);
    }
    check(ENOSYS, &EVERY, FIRST_UNKNOWN, &[]);
    check(ENOSYS, &EVERY, 0x4000_0000, &[]);
}

#[test]
fn a_process_names_only_itself() {
    for call in [libc::SYS_kill, libc::SYS_tgkill] {
        check(ALLOW, &EVERY, call, &[OWN, 0]);
        for other in [OTHER, 0, u64::from(u32::MAX), u64::MAX] {
            check(EPERM, &EVERY, call, &[other, 0]);
        }
    }
    for call in [libc::SYS_prlimit64, libc::SYS_sched_setaffinity] {
        check(ALLOW, &EVERY, call, &[OWN]);
        check(ALLOW, &EVERY, call, &[0]);
        check(EPERM, &EVERY, call, &[OTHER]);
    }
    check(ALLOW, &EVERY, libc::SYS_setpriority, &[0, OWN]);
    check(EPERM, &EVERY, libc::SYS_setpriority, &[0, OTHER]);
    check(EPERM, &EVERY, libc::SYS_setpriority, &[2, 0]);
    check(SUCCESS, &EVERY, libc::SYS_sched_setattr, &[OTHER]);
}

#[test]
fn threads_are_allowed_and_processes_only_to_scripts() {
    let thread = (libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD) as u64;
    check(ALLOW, &EVERY, libc::SYS_clone, &[thread]);
    check(ENOSYS, &EVERY, libc::SYS_clone3, &[]);
    check(EPERM, &EVERY, libc::SYS_clone, &[thread | libc::CLONE_NEWUSER as u64]);
    let process = libc::SIGCHLD as u64;
    check(EPERM, &[MEDIA, SRT, FFMPEG], libc::SYS_clone, &[process]);
    check(ALLOW, &[SCRIPTED], libc::SYS_clone, &[process]);
    check(EPERM, &[SCRIPTED], libc::SYS_clone, &[process | libc::CLONE_NEWNET as u64]);
    check(EPERM, &[MEDIA, SRT], libc::SYS_execve, &[]);
    check(ALLOW, &[FFMPEG, SCRIPTED], libc::SYS_execve, &[]);
    check(EPERM, &[MEDIA, SRT, FFMPEG], libc::SYS_wait4, &[]);
}

#[test]
fn files_are_opened_and_only_scripts_may_create_them() {
    let openat = |flags: i32| [0, 0, flags as u64];
    check(ALLOW, &EVERY, libc::SYS_openat, &openat(libc::O_RDWR | libc::O_CLOEXEC));
    check(ALLOW, &EVERY, libc::SYS_openat, &openat(libc::O_RDONLY | libc::O_DIRECTORY));
    for flags in [libc::O_CREAT | libc::O_EXCL | libc::O_RDWR, libc::O_TMPFILE | libc::O_RDWR] {
        check(EPERM, &[MEDIA, SRT, FFMPEG, READER], libc::SYS_openat, &openat(flags));
        check(ALLOW, &[SCRIPTED], libc::SYS_openat, &openat(flags));
    }
    #[cfg(target_arch = "x86_64")]
    {
        check(ALLOW, &EVERY, libc::SYS_open, &[0, libc::O_RDONLY as u64]);
        check(EPERM, &[MEDIA, SRT, FFMPEG, READER], libc::SYS_open, &[0, libc::O_CREAT as u64]);
    }
}

#[test]
fn sockets_are_stream_pairs_for_srt_udp_and_for_remote_files_tcp() {
    let with_flags = |kind: i32| (kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u64;
    check(ALLOW, &EVERY, libc::SYS_socketpair, &[1, with_flags(libc::SOCK_STREAM)]);
    check(EPERM, &EVERY, libc::SYS_socketpair, &[1, with_flags(libc::SOCK_DGRAM)]);
    let kinds =
        [(libc::AF_INET, libc::SOCK_STREAM), (libc::AF_UNIX, libc::SOCK_DGRAM), (libc::AF_INET, libc::SOCK_RAW)];
    for (family, kind) in kinds {
        check(EPERM, &EVERY, libc::SYS_socket, &[family as u64, with_flags(kind), 0]);
    }
    for family in [libc::AF_INET, libc::AF_INET6] {
        let udp = [family as u64, with_flags(libc::SOCK_DGRAM), libc::IPPROTO_UDP as u64];
        check(ALLOW, &[SRT], libc::SYS_socket, &udp);
        check(EPERM, &[MEDIA, FFMPEG, SCRIPTED], libc::SYS_socket, &udp);
        check(EPERM, &[SRT], libc::SYS_socket, &[udp[0], udp[1], libc::IPPROTO_ICMP as u64]);
    }
    check(ALLOW, &[READER], libc::SYS_socket, &[libc::AF_INET as u64, with_flags(libc::SOCK_STREAM), 0]);
    check(EPERM, &[READER], libc::SYS_socket, &[libc::AF_INET as u64, with_flags(libc::SOCK_DGRAM), 0]);
    check(EPERM, &[READER], libc::SYS_socket, &[libc::AF_INET6 as u64, with_flags(libc::SOCK_STREAM), 0]);
    check(ALLOW, &[READER], libc::SYS_connect, &[]);
    check(EPERM, &[READER], libc::SYS_bind, &[]);
    for call in [libc::SYS_connect, libc::SYS_bind] {
        check(ALLOW, &[SRT], call, &[]);
        check(EPERM, &[MEDIA, FFMPEG, SCRIPTED], call, &[]);
    }
}

#[test]
fn options_are_checked() {
    check(ALLOW, &EVERY, libc::SYS_prctl, &[libc::PR_SET_NAME as u64]);
    check(EPERM, &EVERY, libc::SYS_prctl, &[libc::PR_SET_SECCOMP as u64]);
    check(EPERM, &EVERY, libc::SYS_prctl, &[libc::PR_SET_PDEATHSIG as u64]);
    check(ALLOW, &EVERY, libc::SYS_fcntl, &[3, libc::F_SETFD as u64]);
    // Signals to others: F_SETOWN, F_SETSIG.
    check(EPERM, &EVERY, libc::SYS_fcntl, &[3, 8]);
    check(EPERM, &EVERY, libc::SYS_fcntl, &[3, 10]);
    check(ALLOW, &EVERY, libc::SYS_ioctl, &[3, 0x5421]);
    // TIOCSTI writes into a terminal.
    check(EPERM, &EVERY, libc::SYS_ioctl, &[3, 0x5412]);
}

#[test]
fn requests_of_devices_are_allowed_where_the_device_exists() {
    const DRM_IOCTL_VERSION: u64 = 0xc040_6400;
    check(EPERM, &EVERY, libc::SYS_ioctl, &[3, DRM_IOCTL_VERSION]);
    assert_eq!(answer(&filter(MEDIA, b"d"), libc::SYS_ioctl, &[3, DRM_IOCTL_VERSION]), ALLOW);
    assert_eq!(answer(&filter(MEDIA, b"d"), libc::SYS_ioctl, &[3, 0x5412]), EPERM);
}

#[test]
fn programs_of_other_processors_are_killed() {
    let mut program = filter(MEDIA, b"");
    let arch = program.iter_mut().find(|instruction| instruction.code == JUMP_IF_EQUAL).unwrap();
    arch.k = 0x4000_0003;
    assert_eq!(answer(&program, libc::SYS_read, &[]), libc::SECCOMP_RET_KILL_PROCESS);
}
