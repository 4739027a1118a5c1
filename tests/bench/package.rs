//! A film whose streams are copied: its first segment and the processor time for all, over HTTP, compared with nginx sending
//! the same bytes from files, and with the ffmpeg command that writes them.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::hls_client::HlsClient;
use super::peer::{ServerUnderTest, cpu_seconds, discard, read_head, start_nginx, start_ours, wait_until_up};

const ROUNDS: usize = 5;

/// Figures of one complete session.
struct SessionFigures {
    /// From the start request to the last byte of the first segment, milliseconds.
    first_millis: f64,
    /// Processor seconds of the server for all segments.
    cpu_seconds: f64,
    gibibytes: f64,
}

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let film = folder.path().join("film.mp4");
    make_film(&film);
    let server = start_ours(folder.path());
    wait_until_up(&server);
    let first_viewing = play_session(&server, &film);
    let viewings: Vec<SessionFigures> = (0..ROUNDS).map(|_| play_session(&server, &film)).collect();
    println!(
        "first segment: unknown film {:.1} ms, known film {:.1} ms",
        first_viewing.first_millis,
        median(&viewings, |v| v.first_millis)
    );
    let per_gib = |viewing: &SessionFigures| viewing.cpu_seconds / viewing.gibibytes;
    println!("processor time per GiB: {:.2} s over {:.2} GiB", median(&viewings, per_gib), first_viewing.gibibytes);

    let segments = folder.path().join("segments");
    std::fs::create_dir(&segments).expect("a fresh folder");
    let commands: Vec<f64> = (0..ROUNDS).map(|_| ffmpeg_seconds_per_gib(&film, &segments)).collect();
    println!("ffmpeg -c copy: {:.2} s per GiB", median(&commands, |seconds| *seconds));
    let Some(files) = start_nginx(folder.path(), "nginx buffers", "sendfile off; output_buffers 2 1m;") else { return };
    wait_until_up(&files);
    let nginx_figures: Vec<f64> = (0..ROUNDS).map(|_| nginx_seconds_per_gib(&files, &segments)).collect();
    println!("nginx, sendfile off: {:.2} s per GiB", median(&nginx_figures, |seconds| *seconds));
}

/// Makes ten minutes of 1080p24 at 8 Mbit/s with audio.
fn make_film(film: &Path) {
    let minute = film.with_file_name("minute.mp4");
    run_command(
        Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi"])
            .args(["-i", "testsrc2=s=1920x1080:r=24:d=60,noise=alls=12:allf=t", "-f", "lavfi"])
            .args(["-i", "sine=f=440:r=48000:d=60", "-c:v", "libx264", "-preset", "ultrafast", "-b:v", "8M"])
            .args(["-maxrate", "8M", "-bufsize", "8M", "-g", "48", "-pix_fmt", "yuv420p", "-c:a", "aac", "-ac", "2"])
            .arg(&minute),
    );
    run_command(
        Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-y", "-stream_loop", "9", "-i"])
            .arg(&minute)
            .args(["-c", "copy", "-movflags", "+faststart"])
            .arg(film),
    );
}

pub fn run_command(command: &mut Command) {
    assert!(command.status().expect("ffmpeg runs").success(), "{command:?}");
}

/// Plays one session from start to end, over one connection.
fn play_session(peer: &ServerUnderTest, film: &Path) -> SessionFigures {
    let mut client = HlsClient::connect(peer);
    let (cpu, start_time) = (cpu_seconds(peer), Instant::now());
    let session = client.start_session(&serde_json::json!({"mediaPath": film, "forceTranscode": true}));
    assert_eq!(session.answer["decision"]["video"], "copy", "{}", session.answer);
    let media = session.listed_urls(&client.multivariant(&session)).remove(0);
    let segments = session.listed_urls(&client.get_text(&media));
    let (mut first, mut bytes) = (0.0, 0);
    for target in &segments {
        let len = client.drain(target);
        if bytes == 0 {
            first = start_time.elapsed().as_secs_f64() * 1000.0;
        }
        bytes += len;
    }
    let cpu = cpu_seconds(peer) - cpu;
    client.stop_session(&session);
    SessionFigures { first_millis: first, cpu_seconds: cpu, gibibytes: bytes as f64 / f64::from(1 << 30) }
}

/// Processor seconds per GiB of the command that writes all segments.
fn ffmpeg_seconds_per_gib(film: &Path, segments: &Path) -> f64 {
    let before = children_seconds();
    run_command(
        Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-y", "-i"])
            .arg(film)
            .args(["-c", "copy", "-hls_time", "6", "-f", "hls", "-hls_list_size", "0", "-hls_segment_type", "mpegts"])
            .arg(segments.join("out.m3u8")),
    );
    (children_seconds() - before)
        / (segment_files(segments).iter().map(|(_, len)| len).sum::<u64>() as f64 / f64::from(1 << 30))
}

fn segment_files(segments: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(segments).expect("a folder").flatten();
    let found = entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata().expect("a file").len()));
    found.filter(|(name, _)| name.ends_with(".ts")).collect()
}

/// Processor time of this process's ended children, seconds.
pub fn children_seconds() -> f64 {
    stat_seconds([13, 14])
}

/// Processor time of this process and its ended children, seconds.
pub fn processor_seconds() -> f64 {
    stat_seconds([11, 12]) + children_seconds()
}

/// Two fields of `/proc/self/stat` after the name (proc(5)), seconds.
fn stat_seconds(numbers: [usize; 2]) -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let field = |n: usize| fields.get(n).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    numbers.map(field).iter().sum::<f64>() / 100.0
}

/// Processor seconds per GiB of nginx sending the files that ffmpeg wrote.
fn nginx_seconds_per_gib(peer: &ServerUnderTest, segments: &Path) -> f64 {
    let mut socket = TcpStream::connect(peer.address).expect("the server accepts");
    let (cpu, mut bytes) = (cpu_seconds(peer), 0);
    for (name, _) in segment_files(segments) {
        let request = format!("GET /segments/{name} HTTP/1.1\r\nHost: b\r\n\r\n");
        socket.write_all(request.as_bytes()).expect("the server reads");
        let (len, mut remaining) = read_head(&mut socket).expect("the server answers");
        while remaining > 0 {
            remaining -= discard(&socket, remaining).expect("the answer is whole");
        }
        bytes += len;
    }
    (cpu_seconds(peer) - cpu) / (bytes as f64 / f64::from(1 << 30))
}

pub fn median<T>(values: &[T], figure_of: impl Fn(&T) -> f64) -> f64 {
    let mut values: Vec<f64> = values.iter().map(figure_of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
