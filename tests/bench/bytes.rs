//! One large cached file: our server beside two nginx configurations, in interleaved rounds.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hearthcast::config::Config;
use hearthcast::domain::access::Role;
use hearthcast::service::accounts::Accounts;
use hearthcast::service::clock::Clock;
use hearthcast::store::Store;
use rustix::net::RecvFlags;

const FILE_BYTES: u64 = 1 << 30;
const ROUNDS: usize = 5;
const SPAN: Duration = Duration::from_millis(1500);

/// A server under test.
struct Peer {
    name: &'static str,
    child: Child,
    address: SocketAddr,
    /// Request line and headers but `Range`, up to the last line end.
    head: String,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // nginx's master passes a polite signal on to its workers.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// One row: what is measured, and whether less is better.
struct Row {
    name: &'static str,
    less_is_better: bool,
    measure: fn(&Peer) -> f64,
}

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let film = folder.path().join("film.mp4");
    make(&film);
    let mut peers = vec![ours(folder.path())];
    peers.extend(nginx(folder.path(), "nginx sendfile", "sendfile on; tcp_nopush off;"));
    peers.extend(nginx(folder.path(), "nginx buffers", "sendfile off; output_buffers 2 1m;"));
    for peer in &peers {
        wait_until_up(peer);
    }
    let rows = [
        Row { name: "1 stream, MiB/s", less_is_better: false, measure: |peer| streams(peer, 1).0 },
        Row { name: "64 streams, MiB/s", less_is_better: false, measure: |peer| streams(peer, 64).0 },
        Row { name: "64 streams, CPU s/GiB", less_is_better: true, measure: |peer| streams(peer, 64).1 },
        Row { name: "64 KiB ranges/s", less_is_better: false, measure: |peer| ranges(peer, 64 << 10).0 },
        Row { name: "64 KiB ranges, p99 ms", less_is_better: true, measure: |peer| ranges(peer, 64 << 10).1 },
        Row { name: "1 MiB ranges/s", less_is_better: false, measure: |peer| ranges(peer, 1 << 20).0 },
        Row { name: "1 KiB ranges/s", less_is_better: false, measure: |peer| ranges(peer, 1 << 10).0 },
        Row { name: "64 streams, RssAnon MiB", less_is_better: true, measure: |peer| streams(peer, 64).2 },
    ];
    print!("| row ");
    peers.iter().for_each(|peer| print!("| {} ", peer.name));
    println!("| ours / best nginx |\n|{}", "---|".repeat(peers.len() + 2));
    for row in rows {
        let mut seen = vec![Vec::new(); peers.len()];
        for _ in 0..ROUNDS {
            for (peer, seen) in peers.iter().zip(&mut seen) {
                seen.push((row.measure)(peer));
            }
        }
        let medians: Vec<f64> = seen.into_iter().map(median).collect();
        let others = medians[1..].iter().copied();
        let ratio = match row.less_is_better {
            true => others.reduce(f64::min).map(|best| best / medians[0]),
            false => others.reduce(f64::max).map(|best| medians[0] / best),
        };
        print!("| {} ", row.name);
        medians.iter().for_each(|value| print!("| {} ", figure(*value)));
        println!("| {} |", ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")));
    }
}

fn figure(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A gigabyte that is recognised as MP4, in the page cache when this returns.
fn make(film: &Path) {
    let mut file = std::fs::File::create(film).expect("a fresh file");
    let mut piece: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
    let head = b"\0\0\0\x14ftypisom\0\0\x02\0isom\0\0\0\0mdat";
    let plain = piece.clone();
    piece[..head.len()].copy_from_slice(head);
    for n in 0..FILE_BYTES >> 20 {
        file.write_all(if n == 0 { &piece } else { &plain }).expect("room for a gigabyte");
    }
    file.sync_all().expect("written out before anything is measured");
}

fn ours(folder: &Path) -> Peer {
    let state = folder.join("state");
    let token = {
        let config = Config::new(state.clone(), folder.join("cache"));
        let store = Store::open(&state).expect("a fresh store opens");
        let accounts = Accounts::open(&config, store, Clock::default()).expect("fresh accounts open");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(accounts.issue("bench", Role::User)).expect("a user can be made")
    };
    let address = free();
    let log = std::fs::File::create(folder.join("log")).expect("a fresh file");
    // Another build of the server can be measured by naming it.
    let program = std::env::var_os("HEARTHCAST_BENCH_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_hearthcast").into());
    let child = Command::new(program)
        .args(["serve", "--listen", &address.to_string(), "--state"])
        .arg(&state)
        .arg("--root")
        .arg(folder)
        .env("HEARTHCAST_CACHE", folder.join("cache"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the server starts");
    let path = folder.join("film.mp4").display().to_string().replace('/', "%2F");
    let head = format!("GET /api/stream/file?path={path} HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer {token}\r\n");
    Peer { name: "ours", child, address, head }
}

/// None, said aloud, where nginx is not installed.
fn nginx(folder: &Path, name: &'static str, how: &str) -> Option<Peer> {
    let address = free();
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
         http {{ access_log off; {temp} {how} open_file_cache max=100; keepalive_requests 1000000000;\n\
         server {{ listen {address}; root {root}; }} }}\n",
        p = prefix.display(),
        root = folder.display()
    );
    let path = prefix.join("nginx.conf");
    std::fs::write(&path, config).expect("a fresh file");
    match Command::new("nginx").arg("-p").arg(&prefix).arg("-c").arg(&path).stdin(Stdio::null()).spawn() {
        Ok(child) => Some(Peer { name, child, address, head: "GET /film.mp4 HTTP/1.1\r\nHost: b\r\n".into() }),
        Err(cause) => {
            eprintln!("{name} left out: {cause}");
            None
        }
    }
}

fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// Waits for the first whole answer, checked to its length.
fn wait_until_up(peer: &Peer) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Ok(mut socket) = TcpStream::connect(peer.address)
            && let Ok(len) = ask(&mut socket, peer, Some((5, 104)))
        {
            assert_eq!(len, 100, "{} answers a range", peer.name);
            return;
        }
        assert!(Instant::now() < deadline, "{} does not answer", peer.name);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One request; drains the answer without copying it and gives the length of its body.
fn ask(socket: &mut TcpStream, peer: &Peer, range: Option<(u64, u64)>) -> std::io::Result<u64> {
    let range = range.map_or(String::new(), |(first, last)| format!("Range: bytes={first}-{last}\r\n"));
    socket.write_all(format!("{}{range}\r\n", peer.head).as_bytes())?;
    let (len, mut left) = head(socket)?;
    while left > 0 {
        left -= drain(socket, left)?;
    }
    Ok(len)
}

/// Reads the head of an answer; the length of its body, and how much of that is still to come.
fn head(socket: &mut TcpStream) -> std::io::Result<(u64, u64)> {
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
            let len: u64 = len.expect("answers carry their length");
            return Ok((len, len - (filled - end - 4) as u64));
        }
    }
}

/// Takes what has come and drops it in the kernel; at most `left` bytes.
fn drain(socket: &TcpStream, left: u64) -> std::io::Result<u64> {
    // With MSG_TRUNC the kernel counts by the buffer's length and never writes into it.
    static NOWHERE: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| 4 << 20);
    thread_local! {
        static BUFFER: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; *NOWHERE]);
    }
    let taken = BUFFER.with_borrow_mut(|buffer| {
        let most = buffer.len().min(left as usize);
        rustix::net::recv(socket, &mut buffer[..most], RecvFlags::TRUNC).map(|(_, taken)| taken)
    })?;
    if taken == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(taken as u64)
}

/// So many whole-file downloads at once: MiB/s of all, CPU seconds a GiB, anonymous memory in MiB.
fn streams(peer: &Peer, count: usize) -> (f64, f64, f64) {
    let over = AtomicBool::new(false);
    let (cpu, begun) = (cpu_seconds(peer), Instant::now());
    let (bytes, memory) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..count).map(|_| scope.spawn(|| stream(peer, &over))).collect();
        std::thread::sleep(SPAN);
        let memory = sum(peer, anonymous_kib) / 1024.0;
        over.store(true, Ordering::Relaxed);
        (readers.into_iter().map(|reader| reader.join().expect("no reader fails")).sum::<u64>(), memory)
    });
    let (cpu, seconds) = (cpu_seconds(peer) - cpu, begun.elapsed().as_secs_f64());
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    (mebibytes / seconds, cpu / (mebibytes / 1024.0), memory)
}

/// Downloads the file again and again; the bytes that came.
fn stream(peer: &Peer, over: &AtomicBool) -> u64 {
    let mut socket = TcpStream::connect(peer.address).expect("the server accepts");
    let mut taken = 0;
    while !over.load(Ordering::Relaxed) {
        socket.write_all(format!("{}\r\n", peer.head).as_bytes()).expect("the server reads");
        let (_, mut left) = head(&mut socket).expect("the server answers");
        while left > 0 && !over.load(Ordering::Relaxed) {
            let piece = drain(&socket, left).expect("the answer is whole");
            left -= piece;
            taken += piece;
        }
    }
    taken
}

/// Random ranges over 16 connections: answers a second, and the 99th percentile of their times in milliseconds.
fn ranges(peer: &Peer, len: u64) -> (f64, f64) {
    let begun = Instant::now();
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..16u64).map(|seed| scope.spawn(move || random_ranges(peer, len, seed))).collect();
        readers.into_iter().flat_map(|reader| reader.join().expect("no reader fails")).collect()
    });
    let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    (rate, times[times.len() * 99 / 100])
}

fn random_ranges(peer: &Peer, len: u64, seed: u64) -> Vec<f64> {
    let mut socket = TcpStream::connect(peer.address).expect("the server accepts");
    socket.set_nodelay(true).expect("TCP has it");
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut times = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < SPAN {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let first = state % (FILE_BYTES - len);
        let asked = Instant::now();
        assert_eq!(ask(&mut socket, peer, Some((first, first + len - 1))).expect("the server answers"), len);
        times.push(asked.elapsed().as_secs_f64() * 1000.0);
    }
    times
}

/// User and system time of the process and its children so far.
fn cpu_seconds(peer: &Peer) -> f64 {
    // USER_HZ, the same on every Linux of today.
    const TICKS: f64 = 100.0;
    sum(peer, |pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let field = |n: usize| fields.get(n).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        (field(11) + field(12)) / TICKS
    })
}

fn anonymous_kib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

/// Adds a figure up over the process and its children.
fn sum(peer: &Peer, figure: impl Fn(u32) -> f64) -> f64 {
    let pid = peer.child.id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    figure(pid) + children.split_whitespace().filter_map(|pid| pid.parse().ok()).map(figure).sum::<f64>()
}
