//! One large cached file: our server compared with two nginx configurations, in interleaved rounds.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::peer::{
    ServerUnderTest, anonymous_kib, cpu_seconds, discard, read_head, request_and_drain, start_nginx, start_ours,
    sum_over_processes, wait_until_up,
};

const FILE_BYTES: u64 = 1 << 30;
const ROUNDS: usize = 5;
const MEASURED_SPAN: Duration = Duration::from_millis(1500);

/// One row: the measured figure, and whether less is better.
struct BenchRow {
    name: &'static str,
    less_is_better: bool,
    measure: fn(&ServerUnderTest) -> f64,
}

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let film = folder.path().join("film.mp4");
    make_film(&film);
    let mut peers = vec![start_ours(folder.path())];
    peers.extend(start_nginx(folder.path(), "nginx sendfile", "sendfile on; tcp_nopush off;"));
    peers.extend(start_nginx(folder.path(), "nginx buffers", "sendfile off; output_buffers 2 1m;"));
    for peer in &peers {
        wait_until_up(peer);
    }
    let rows = [
        BenchRow { name: "1 stream, MiB/s", less_is_better: false, measure: |peer| measure_streams(peer, 1).0 },
        BenchRow { name: "64 streams, MiB/s", less_is_better: false, measure: |peer| measure_streams(peer, 64).0 },
        BenchRow { name: "64 streams, CPU s/GiB", less_is_better: true, measure: |peer| measure_streams(peer, 64).1 },
        BenchRow { name: "64 KiB ranges/s", less_is_better: false, measure: |peer| measure_ranges(peer, 64 << 10).0 },
        BenchRow {
            name: "64 KiB ranges, p99 ms",
            less_is_better: true,
            measure: |peer| measure_ranges(peer, 64 << 10).1,
        },
        BenchRow { name: "1 MiB ranges/s", less_is_better: false, measure: |peer| measure_ranges(peer, 1 << 20).0 },
        BenchRow { name: "1 KiB ranges/s", less_is_better: false, measure: |peer| measure_ranges(peer, 1 << 10).0 },
        BenchRow { name: "64 streams, RssAnon MiB", less_is_better: true, measure: |peer| measure_streams(peer, 64).2 },
    ];
    print!("| row ");
    peers.iter().for_each(|peer| print!("| {} ", peer.name));
    println!("| ours / best nginx |\n|{}", "---|".repeat(peers.len() + 2));
    for row in rows {
        let mut figures = vec![Vec::new(); peers.len()];
        for _ in 0..ROUNDS {
            for (peer, values) in peers.iter().zip(&mut figures) {
                values.push((row.measure)(peer));
            }
        }
        let medians: Vec<f64> = figures.into_iter().map(median).collect();
        let others = medians[1..].iter().copied();
        let ratio = match row.less_is_better {
            true => others.reduce(f64::min).map(|best| best / medians[0]),
            false => others.reduce(f64::max).map(|best| medians[0] / best),
        };
        print!("| {} ", row.name);
        medians.iter().for_each(|value| print!("| {} ", format_figure(*value)));
        println!("| {} |", ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")));
    }
}

fn format_figure(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Makes a gigabyte that is recognised as MP4 and is in the page cache afterwards.
fn make_film(film: &Path) {
    let mut file = std::fs::File::create(film).expect("a fresh file");
    let mut first_chunk: Vec<u8> = (0..1 << 20).map(|position| (position % 251) as u8).collect();
    let head = b"\0\0\0\x14ftypisom\0\0\x02\0isom\0\0\0\0mdat";
    let chunk = first_chunk.clone();
    first_chunk[..head.len()].copy_from_slice(head);
    for n in 0..FILE_BYTES >> 20 {
        file.write_all(if n == 0 { &first_chunk } else { &chunk }).expect("room for a gigabyte");
    }
    file.sync_all().expect("the file is written before the measurement");
}

/// `count` simultaneous downloads: MiB/s in total, CPU seconds per GiB, anonymous memory in MiB.
fn measure_streams(peer: &ServerUnderTest, count: usize) -> (f64, f64, f64) {
    let is_over = AtomicBool::new(false);
    let (cpu, started) = (cpu_seconds(peer), Instant::now());
    let (bytes, memory) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..count).map(|_| scope.spawn(|| download_repeatedly(peer, &is_over))).collect();
        std::thread::sleep(MEASURED_SPAN);
        let memory = sum_over_processes(peer, anonymous_kib) / 1024.0;
        is_over.store(true, Ordering::Relaxed);
        (readers.into_iter().map(|reader| reader.join().expect("no reader fails")).sum::<u64>(), memory)
    });
    let (cpu, seconds) = (cpu_seconds(peer) - cpu, started.elapsed().as_secs_f64());
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    (mebibytes / seconds, cpu / (mebibytes / 1024.0), memory)
}

/// Downloads the file repeatedly; returns the number of bytes received.
fn download_repeatedly(peer: &ServerUnderTest, is_over: &AtomicBool) -> u64 {
    let mut socket = TcpStream::connect(peer.address).expect("the server accepts");
    let mut received = 0;
    while !is_over.load(Ordering::Relaxed) {
        socket.write_all(format!("{}\r\n", peer.request_head).as_bytes()).expect("the server reads");
        let (_, mut remaining) = read_head(&mut socket).expect("the server answers");
        while remaining > 0 && !is_over.load(Ordering::Relaxed) {
            let drained = discard(&socket, remaining).expect("the answer is whole");
            remaining -= drained;
            received += drained;
        }
    }
    received
}

/// Random ranges over 16 connections: responses per second, and the 99th percentile of their times in milliseconds.
fn measure_ranges(peer: &ServerUnderTest, len: u64) -> (f64, f64) {
    let started = Instant::now();
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..16u64).map(|seed| scope.spawn(move || time_random_ranges(peer, len, seed))).collect();
        readers.into_iter().flat_map(|reader| reader.join().expect("no reader fails")).collect()
    });
    let rate = times.len() as f64 / started.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    (rate, times[times.len() * 99 / 100])
}

fn time_random_ranges(peer: &ServerUnderTest, len: u64, seed: u64) -> Vec<f64> {
    let mut socket = TcpStream::connect(peer.address).expect("the server accepts");
    socket.set_nodelay(true).expect("TCP has it");
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut times = Vec::new();
    let started = Instant::now();
    while started.elapsed() < MEASURED_SPAN {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let first = state % (FILE_BYTES - len);
        let sent = Instant::now();
        assert_eq!(
            request_and_drain(&mut socket, peer, Some((first, first + len - 1))).expect("the server answers"),
            len
        );
        times.push(sent.elapsed().as_secs_f64() * 1000.0);
    }
    times
}
