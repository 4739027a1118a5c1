//! The sandbox, tried from within: this test binary starts itself again, enters the sandbox of workers and attempts each
//! forbidden act upon a process and files of the same user. ffmpeg reads the file it inherits and no other.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Error, Result, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use hearthcast::engine::process::sandbox::{WorkerKind, enter_worker_sandbox_up_to, supported};
use hearthcast::engine::process::{ChildLimits, lower_memory_limit, spawn};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;

use crate::kit::media;

/// The variable with the [`Attempt`]; without it [`act_in_child`] does nothing.
const VARIABLE: &str = "HEARTHCAST_ACT";

/// An unprivileged user.
const USER: &str = "65534";

/// The sandbox of the child, and the objects of its acts.
#[derive(Clone, Serialize, Deserialize)]
struct Attempt {
    /// The work of the worker that it plays; None leaves it unconfined.
    kind: Option<String>,
    newest_abi: Option<u32>,
    /// With files to read, overwrite and remove, and a socket.
    folder: PathBuf,
    tcp_port: u16,
    udp_port: u16,
    /// A process of the same user.
    victim: i32,
}

/// Acts that must be refused. The control run without a sandbox must do those that are marked.
const FORBIDDEN: [(&str, bool); 27] = [
    ("read-passwords", true),
    ("read-media", true),
    ("read-environment", true),
    ("list-home", true),
    ("write", true),
    ("truncate", true),
    ("unlink", true),
    ("chmod", true),
    ("make-folder", true),
    ("tcp-connect", true),
    ("udp-send", true),
    ("unix-connect", true),
    ("unix-abstract", true),
    ("unix-datagram-pair", true),
    ("kill", true),
    ("tgkill", true),
    ("own-signals", true),
    ("prlimit", true),
    ("priority", true),
    ("fork", true),
    // Some kernels and containers refuse these to everyone.
    ("io-uring", false),
    ("namespace", false),
    ("ptrace", false),
    ("read-memory", false),
    ("raise-limit", false),
    ("tcp-listen", true),
    ("exec", true),
];

/// Acts that media work needs.
const NEEDED: [&str; 8] = [
    "thread",
    "socket-pair",
    "read-library",
    "map-memory",
    "signal-itself",
    "lower-limit",
    "read-descriptor",
    "new-call",
];

impl Attempt {
    fn run(&self, act: &str) -> Result<()> {
        let in_folder = |name: &str| self.folder.join(name);
        let victim = self.victim;
        // SAFETY: system calls with numbers, and with pointers to values that live as long as the call.
        unsafe {
            match act {
                "read-passwords" => fs::read("/etc/passwd").map(drop),
                "read-media" => fs::read(in_folder("film")).map(drop),
                "read-environment" => fs::read(format!("/proc/{victim}/environ")).map(drop),
                "list-home" => fs::read_dir(&self.folder).map(drop),
                "write" => fs::write(in_folder("new"), "x"),
                "truncate" => File::options().write(true).truncate(true).open(in_folder("film")).map(drop),
                "unlink" => fs::remove_file(in_folder("removable")),
                "chmod" => fs::set_permissions(in_folder("film"), PermissionsExt::from_mode(0o600)),
                "make-folder" => fs::create_dir(in_folder("folder")),
                "tcp-connect" => TcpStream::connect(("127.0.0.1", self.tcp_port)).map(drop),
                "tcp-listen" => TcpListener::bind("127.0.0.1:0").map(drop),
                "udp-send" => {
                    let socket = UdpSocket::bind("127.0.0.1:0")?;
                    socket.send_to(b"x", ("127.0.0.1", self.udp_port)).map(drop)
                }
                "unix-connect" => UnixStream::connect(in_folder("socket")).map(drop),
                "unix-abstract" => UnixStream::connect_addr(&self.abstract_address()).map(drop),
                "unix-datagram-pair" => UnixDatagram::pair()?.0.send_to(b"x", in_folder("datagrams")).map(drop),
                "kill" => check(libc::kill(victim, 0)),
                "tgkill" => check(libc::syscall(libc::SYS_tgkill, victim, victim, 0)),
                "own-signals" => {
                    let (_reader, writer) = std::io::pipe()?;
                    check(libc::fcntl(writer.as_raw_fd(), libc::F_SETOWN, victim))
                }
                "prlimit" => {
                    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                    check(libc::prlimit(victim, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit))?;
                    check(libc::prlimit(victim, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()))
                }
                "priority" => check(libc::setpriority(libc::PRIO_PROCESS, victim as u32, 19)),
                "fork" => match libc::fork() {
                    0 => libc::_exit(0),
                    child => {
                        check(child)?;
                        check(libc::waitpid(child, std::ptr::null_mut(), 0))
                    }
                },
                "io-uring" => {
                    let mut parameters = [0_u8; 120];
                    check(libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()))
                }
                "namespace" => check(libc::unshare(libc::CLONE_NEWUSER)),
                "ptrace" => {
                    let none = std::ptr::null_mut::<libc::c_void>();
                    check(libc::ptrace(libc::PTRACE_SEIZE, victim, none, none))
                }
                "read-memory" => {
                    let mut byte = 0_u8;
                    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
                    let remote = libc::iovec { iov_base: 0x1000 as *mut libc::c_void, iov_len: 1 };
                    let read = libc::process_vm_readv(victim, &raw const local, 1, &raw const remote, 1, 0);
                    match Error::last_os_error().raw_os_error() {
                        // Permitted, but nothing is mapped there.
                        Some(libc::EFAULT) if read < 0 => Ok(()),
                        _ => check(read as i64),
                    }
                }
                "raise-limit" => {
                    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                    check(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit))?;
                    limit.rlim_max += 1;
                    check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit))
                }
                // The last act: if it is done, this process becomes `echo`.
                "exec" => {
                    let (program, mark) = (CString::new("/bin/echo")?, CString::new("act exec done")?);
                    let arguments = [program.as_ptr(), mark.as_ptr(), std::ptr::null()];
                    libc::execv(program.as_ptr(), arguments.as_ptr());
                    Err(Error::last_os_error())
                }
                "thread" => std::thread::Builder::new().spawn(|| {})?.join().map_err(|_| Error::other("panicked")),
                "socket-pair" => UnixStream::pair().map(drop),
                "read-library" => fs::read("/etc/ld.so.cache").map(drop),
                "map-memory" => {
                    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
                    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                    let memory = libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0);
                    if memory == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(()) }
                }
                "signal-itself" => check(libc::raise(0)),
                "lower-limit" => lower_memory_limit(64 << 30),
                "read-descriptor" => {
                    let mut byte = [0_u8];
                    check(libc::read(libc::STDIN_FILENO, byte.as_mut_ptr().cast(), 1) as i64)
                }
                // C libraries fall back to older calls only if a new one is missing.
                "new-call" => match libc::syscall(1000) {
                    -1 if Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) => Ok(()),
                    _ => Err(Error::last_os_error()),
                },
                _ => unreachable!("{act}"),
            }
        }
    }

    fn abstract_address(&self) -> SocketAddr {
        SocketAddr::from_abstract_name(format!("hearthcast-{}", self.folder.display())).unwrap()
    }
}

/// The result of a system call.
fn check(result: impl Into<i64>) -> Result<()> {
    if result.into() < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Runs in the child only.
#[test]
fn act_in_child() {
    let Ok(text) = std::env::var(VARIABLE) else { return };
    let attempt: Attempt = serde_json::from_str(&text).unwrap();
    // The largest limit of this process, so that raising it is no question of the machine's maximum.
    let limit = libc::rlimit { rlim_cur: 256, rlim_max: 256 };
    // SAFETY: the pointer is to a value on the stack.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).unwrap();
    let confined = attempt.kind.as_deref().map(|kind| {
        let kind = if kind == "network" { WorkerKind::Network } else { WorkerKind::Media };
        enter_worker_sandbox_up_to(kind, attempt.newest_abi)
    });
    println!("report {}", serde_json::to_string(&confined).unwrap());
    let forbidden = FORBIDDEN.map(|(act, _)| act);
    for act in NEEDED.into_iter().chain(forbidden) {
        if act == "exec" {
            std::io::stdout().flush().unwrap();
        }
        match attempt.run(act) {
            Ok(()) => println!("act {act} done"),
            Err(cause) => println!("act {act} refused {cause}"),
        }
    }
    std::io::stdout().flush().unwrap();
}

/// Files, sockets and a process for the acts.
struct Scene {
    attempt: Attempt,
    user: Option<&'static str>,
    victim: Child,
    _folder: tempfile::TempDir,
    _tcp: TcpListener,
    _udp: UdpSocket,
    _sockets: (UnixListener, UnixListener, UnixDatagram),
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// A command as this user, or as an unprivileged one.
fn command(program: &Path, user: Option<&str>) -> Command {
    let Some(user) = user else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--clear-groups", "--"]).arg(program);
    command
}

impl Scene {
    fn new(kind: Option<&str>, newest_abi: Option<u32>, user: Option<&'static str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        for name in ["film", "removable"] {
            fs::write(path.join(name), "bytes").unwrap();
        }
        let listener = UnixListener::bind(path.join("socket")).unwrap();
        let datagrams = UnixDatagram::bind(path.join("datagrams")).unwrap();
        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        if let Some(user) = user {
            let owner = user.parse().unwrap();
            for name in ["", "film", "removable", "socket", "datagrams"] {
                std::os::unix::fs::chown(path.join(name), Some(owner), Some(owner)).unwrap();
            }
        }
        // It writes a line when it runs as its user.
        let mut victim = command(Path::new("/bin/sh"), user);
        let mut victim = victim.args(["-c", "echo; exec sleep 600"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0];
        std::io::Read::read_exact(victim.stdout.as_mut().unwrap(), &mut line).unwrap();
        let attempt = Attempt {
            kind: kind.map(str::to_owned),
            newest_abi,
            folder: path,
            tcp_port: tcp.local_addr().unwrap().port(),
            udp_port: udp.local_addr().unwrap().port(),
            victim: victim.id() as i32,
        };
        let abstract_listener = UnixListener::bind_addr(&attempt.abstract_address()).unwrap();
        let sockets = (listener, abstract_listener, datagrams);
        Self { attempt, user, victim, _folder: folder, _tcp: tcp, _udp: udp, _sockets: sockets }
    }

    /// Runs all acts: whether each was done, by its name.
    fn run(&self) -> BTreeMap<String, bool> {
        let mut child = command(&std::env::current_exe().unwrap(), self.user);
        child.args(["--exact", "sandbox::act_in_child", "--nocapture", "--test-threads=1"]);
        child.env(VARIABLE, serde_json::to_string(&self.attempt).unwrap());
        let output = child.stdin(File::open("/dev/zero").unwrap()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let acts = text.lines().filter_map(|line| {
            let mut words = line.split(' ').skip_while(|word| *word != "act").skip(1);
            Some((words.next()?.to_owned(), words.next()? == "done"))
        });
        let acts: BTreeMap<String, bool> = acts.collect();
        assert_eq!(acts.len(), FORBIDDEN.len() + NEEDED.len(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        println!(
            "{:?}, {:?}: {}",
            self.user,
            self.attempt.newest_abi,
            text.lines().find(|l| l.contains("report")).unwrap()
        );
        acts
    }
}

/// This user, and an unprivileged one if this is root.
fn users() -> Vec<Option<&'static str>> {
    let is_root = rustix::process::geteuid().is_root();
    let can_start = is_root
        && command(&std::env::current_exe().unwrap(), Some(USER))
            .args(["--list"])
            .output()
            .is_ok_and(|o| o.status.success());
    if !can_start {
        eprintln!(
            "skipped: acts of another user, because this user cannot start this test as one (setpriv, folder rights)"
        );
    }
    if can_start { vec![None, Some(USER)] } else { vec![None] }
}

/// Whether this kernel has the whole sandbox.
fn has_sandbox() -> bool {
    let report = supported();
    if !report.gaps.is_empty() {
        eprintln!("skipped: {:?}", report.gaps);
    }
    report.gaps.is_empty()
}

#[test]
fn acts_outside_media_work_are_refused() {
    if !has_sandbox() {
        return;
    }
    for user in users() {
        let control = Scene::new(None, None, user).run();
        for act in FORBIDDEN.iter().filter(|(_, is_certain)| *is_certain).map(|(act, _)| *act).chain(NEEDED) {
            assert!(control[act], "without a sandbox {act} is possible ({user:?})");
        }
        for newest_abi in [None, Some(2)] {
            let acts = Scene::new(Some("media"), newest_abi, user).run();
            for (act, _) in FORBIDDEN {
                assert!(!acts[act], "{act} must be refused ({user:?}, Landlock {newest_abi:?})");
            }
            for act in NEEDED {
                assert!(acts[act], "{act} must be possible ({user:?}, Landlock {newest_abi:?})");
            }
        }
    }
}

/// Version 0 is a kernel without Landlock: files can be read then.
#[test]
fn without_landlock_no_file_is_created_or_removed() {
    if !has_sandbox() {
        return;
    }
    let scene = Scene::new(Some("media"), Some(0), None);
    let acts = scene.run();
    for act in ["write", "unlink", "chmod", "make-folder"] {
        assert!(!acts[act], "{act} must be refused");
    }
    assert!(acts["read-media"] && !scene.attempt.folder.join("new").exists());
}

#[test]
fn a_network_worker_may_send_udp_and_nothing_more() {
    if !has_sandbox() {
        return;
    }
    let acts = Scene::new(Some("network"), None, None).run();
    let done: Vec<&str> = FORBIDDEN.iter().map(|(act, _)| *act).filter(|act| acts[*act]).collect();
    assert_eq!(done, ["udp-send"]);
}

#[tokio::test]
async fn ffmpeg_reads_the_file_it_inherits_and_no_other() {
    if !has_sandbox() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (given, other) = (folder.path().join("given.mkv"), folder.path().join("other.mkv"));
    media::flash_and_beep(&given, 1, "-c:v libx264 -preset ultrafast -c:a aac");
    fs::copy(&given, &other).unwrap();
    let ffmpeg = hearthcast::engine::ffmpeg::find_program().expect("ffmpeg is installed");
    let file = File::open(&given).unwrap();
    let inherited_path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let file = Arc::new(file);
    // The text proves that fonts are found: without them the filter fails.
    let arguments = |input: &str| -> Vec<String> {
        let words = "-vf drawtext=text=Text:fontsize=40 -c:v libx264 -threads 1 -c:a aac -bitexact -flags +bitexact \
                     -fflags +bitexact -f mpegts pipe:1";
        ["-nostdin", "-v", "error", "-i", input]
            .into_iter()
            .chain(words.split_whitespace())
            .map(str::to_owned)
            .collect()
    };
    let run = async |input: &str| {
        let inherit = vec![file.clone() as hearthcast::engine::process::InheritedFile];
        let mut child = spawn(&ffmpeg, arguments(input), inherit, ChildLimits::PROBE).await.unwrap();
        let mut output = Vec::new();
        child.stdout.read_to_end(&mut output).await.unwrap();
        (output, child.wait().await)
    };
    let (output, exit) = run(&inherited_path).await;
    assert!(exit.is_success(), "{exit:?}");
    let unconfined = Command::new(&ffmpeg).args(arguments(given.to_str().unwrap())).output().unwrap();
    assert!(unconfined.status.success() && output == unconfined.stdout, "the sandbox changes the output");
    let (output, exit) = run(other.to_str().unwrap()).await;
    assert!(output.is_empty() && !exit.is_success(), "{exit:?}");
    assert!(exit.error_lines.iter().any(|line| line.contains("Permission denied")), "{exit:?}");
}
