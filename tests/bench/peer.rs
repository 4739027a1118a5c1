//! Servers under test, and a client that discards what it receives in the kernel.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hearthcast::config::Config;
use hearthcast::domain::access::Role;
use hearthcast::service::accounts::Accounts;
use hearthcast::service::clock::Clock;
use hearthcast::store::Store;
use rustix::net::RecvFlags;

/// A running server under test.
pub struct ServerUnderTest {
    pub name: &'static str,
    child: Child,
    pub address: SocketAddr,
    /// Request line and headers except `Range`, with the final line end.
    pub request_head: String,
    /// Its state and cache, outside the folder it serves.
    _data: Option<tempfile::TempDir>,
}

impl Drop for ServerUnderTest {
    fn drop(&mut self) {
        // nginx's master forwards SIGTERM to its workers.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// Starts our server over a folder; its request head is for `film.mp4` there.
pub fn start_ours(folder: &Path) -> ServerUnderTest {
    let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (state, cache) = (data.path().join("state"), data.path().join("cache"));
    let token = {
        let config = Config::new(state.clone(), cache.clone());
        let store = Store::open(&state).expect("a fresh store opens");
        let accounts = Accounts::open(&config, store, Clock::default()).expect("fresh accounts open");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(accounts.issue_token("bench", Role::User)).expect("a user can be made")
    };
    let address = free_address();
    let log = std::fs::File::create(folder.join("log")).expect("a fresh file");
    // Another build of the server can be measured.
    let program = std::env::var_os("HEARTHCAST_BENCH_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_hearthcast").into());
    let child = Command::new(program)
        .args(["serve", "--listen", &address.to_string(), "--state"])
        .arg(&state)
        .arg("--root")
        .arg(folder)
        .env("HEARTHCAST_CACHE", cache)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the server starts");
    let path = folder.join("film.mp4").display().to_string().replace('/', "%2F");
    let head = format!("GET /api/stream/file?path={path} HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer {token}\r\n");
    ServerUnderTest { name: "ours", child, address, request_head: head, _data: Some(data) }
}

/// Starts nginx; prints a note and returns None where it is not installed.
pub fn start_nginx(folder: &Path, name: &'static str, directives: &str) -> Option<ServerUnderTest> {
    let address = free_address();
    let prefix = folder.join(name.replace(' ', "-"));
    std::fs::create_dir(&prefix).expect("a fresh folder");
    let workers = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {}/{kind};\n", prefix.display()))
        .collect();
    let config = format!(
        "daemon off; worker_processes {workers}; pid {p}/pid; error_log {p}/error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; {temp} {directives} open_file_cache max=100; keepalive_requests 1000000000;\n\
         server {{ listen {address}; root {root}; }} }}\n",
        p = prefix.display(),
        root = folder.display()
    );
    let path = prefix.join("nginx.conf");
    std::fs::write(&path, config).expect("a fresh file");
    match Command::new("nginx").arg("-p").arg(&prefix).arg("-c").arg(&path).stdin(Stdio::null()).spawn() {
        Ok(child) => {
            let request_head = "GET /film.mp4 HTTP/1.1\r\nHost: b\r\n".into();
            Some(ServerUnderTest { name, child, address, request_head, _data: None })
        }
        Err(cause) => {
            eprintln!("{name} skipped: {cause}");
            None
        }
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// Waits for the first complete response, checked by its length.
pub fn wait_until_up(peer: &ServerUnderTest) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Ok(mut socket) = TcpStream::connect(peer.address)
            && let Ok(len) = request_and_drain(&mut socket, peer, Some((5, 104)))
        {
            assert_eq!(len, 100, "{} answers a range request", peer.name);
            return;
        }
        assert!(Instant::now() < deadline, "{} does not answer", peer.name);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends one request; drains the response without copying it and returns the length of its body.
pub fn request_and_drain(
    socket: &mut TcpStream,
    peer: &ServerUnderTest,
    range: Option<(u64, u64)>,
) -> std::io::Result<u64> {
    let range = range.map_or(String::new(), |(first, last)| format!("Range: bytes={first}-{last}\r\n"));
    socket.write_all(format!("{}{range}\r\n", peer.request_head).as_bytes())?;
    let (len, mut remaining) = read_head(socket)?;
    while remaining > 0 {
        remaining -= discard(socket, remaining)?;
    }
    Ok(len)
}

/// Reads the head of a response; returns the length of its body, and how much of it has not been read yet.
pub fn read_head(socket: &mut TcpStream) -> std::io::Result<(u64, u64)> {
    let mut buffer = [0; 2048];
    let mut filled = 0;
    loop {
        let read = socket.read(&mut buffer[filled..])?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        filled += read;
        if let Some(end) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
            assert!(text.starts_with("http/1.1 20"), "{text}");
            let len = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
            let len: u64 = len.expect("responses have a Content-Length");
            return Ok((len, len - (filled - end - 4) as u64));
        }
    }
}

/// Discards received bytes in the kernel; at most `remaining` bytes.
pub fn discard(socket: &TcpStream, remaining: u64) -> std::io::Result<u64> {
    // With MSG_TRUNC the kernel only uses the buffer's length and never writes into it.
    static BUFFER_LENGTH: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| 4 << 20);
    thread_local! {
        static BUFFER: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; *BUFFER_LENGTH]);
    }
    let discarded = BUFFER.with_borrow_mut(|buffer| {
        let limit = buffer.len().min(remaining as usize);
        rustix::net::recv(socket, &mut buffer[..limit], RecvFlags::TRUNC).map(|(_, taken)| taken)
    })?;
    if discarded == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(discarded as u64)
}

/// User and system time of the process and its children so far, seconds.
pub fn cpu_seconds(peer: &ServerUnderTest) -> f64 {
    // USER_HZ, which is the same on every current Linux.
    const TICKS_PER_SECOND: f64 = 100.0;
    sum_over_processes(peer, |pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let field = |n: usize| fields.get(n).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        (field(11) + field(12)) / TICKS_PER_SECOND
    })
}

pub fn anonymous_kib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

/// Sums a figure over the process and its children.
pub fn sum_over_processes(peer: &ServerUnderTest, figure: impl Fn(u32) -> f64) -> f64 {
    let pid = peer.child.id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    figure(pid) + children.split_whitespace().filter_map(|pid| pid.parse().ok()).map(figure).sum::<f64>()
}
