//! A film in fMP4: processor time, first segments, jumps and 64 viewers, from mp4 and from Matroska, compared with nginx sending
//! the same bytes from files, and with the ffmpeg command that writes them.

use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::json;

use super::hls_client::{HlsClient, StartedSession};
use super::package::{children_seconds, median, run_command};
use super::peer::{ServerUnderTest, cpu_seconds, discard, read_head, start_nginx, start_ours, wait_until_up};

const ROUNDS: usize = 5;
const VIEWERS: usize = 64;
const JUMPS: usize = 100;

/// A session whose playlists were read.
struct OpenSession {
    session: StartedSession,
    /// Segments of the video and of the audio, in the order in which a player requests them.
    segments: Vec<String>,
    /// From the start request to the last byte of the first segment of each, milliseconds.
    first_millis: f64,
}

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    // The film of the requests in `peer`.
    let mp4 = folder.path().join("film.mp4");
    make_film(&mp4);
    let matroska = folder.path().join("film.mkv");
    run_command(ffmpeg().arg("-i").arg(&mp4).args(["-c", "copy"]).arg(&matroska));
    let server = start_ours(folder.path());
    wait_until_up(&server);
    let segments = folder.path().join("segments");
    std::fs::create_dir(&segments).expect("a fresh folder");
    let command = ffmpeg_seconds_per_gib(&mp4, &segments);
    let nginx = start_nginx(folder.path(), "nginx sendfile", "sendfile on; tcp_nopush on;");
    if let Some(nginx) = &nginx {
        wait_until_up(nginx);
    }
    for (name, film) in [("mp4", &mp4), ("Matroska", &matroska)] {
        let mut client = HlsClient::connect(&server);
        let opened: Vec<OpenSession> = (0..=ROUNDS).map(|_| open_session(&mut client, film)).collect();
        let known = median(&opened[1..], |session| session.first_millis);
        println!("{name}: first segments: unknown film {:.1} ms, known film {known:.1} ms", opened[0].first_millis);
        let targets = &opened[0].segments;
        // The kernel counts processor time in hundredths of a second, so all rounds are one figure.
        let rounds = (0..ROUNDS).map(|_| play(&server, &mut client, targets));
        let (cpu, gibibytes) = rounds.fold((0.0, 0.0), |sum, round| (sum.0 + round.0, sum.1 + round.1));
        let ours = cpu / gibibytes;
        println!("{name}: {ours:.3} s of processor time per GiB over {gibibytes:.2} GiB");
        println!("{name}: ffmpeg -c copy: {command:.2} s per GiB, ratio {:.3}", ours / command);
        if let Some(nginx) = &nginx {
            let files = (0..ROUNDS).map(|_| nginx_seconds_per_gib(nginx, &segments)).sum::<f64>() / ROUNDS as f64;
            println!("{name}: nginx, sendfile of ready segments: {files:.3} s per GiB, ratio {:.2}", ours / files);
        }
        let (middle, worst) = jump(&mut client, targets);
        println!("{name}: a jump: {middle:.1} ms (median), {worst:.1} ms (worst)");
        let (cpu, gibibytes, seconds) = play_together(&server, targets);
        println!(
            "{name}: {VIEWERS} viewers: {:.3} s of processor time per GiB, {:.2} GiB/s",
            cpu / gibibytes,
            gibibytes / seconds
        );
        opened.iter().for_each(|opened| client.stop_session(&opened.session));
    }
}

fn ffmpeg() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y"]);
    command
}

/// Makes eight minutes of 1080p24 at 13 Mbit/s with audio.
fn make_film(film: &Path) {
    let minute = film.with_file_name("minute.mp4");
    run_command(
        ffmpeg()
            .args(["-f", "lavfi", "-i", "testsrc2=s=1920x1080:r=24:d=60,noise=alls=20:allf=t", "-f", "lavfi"])
            .args(["-i", "sine=f=440:r=48000:d=60", "-c:v", "libx264", "-preset", "ultrafast", "-b:v", "13M"])
            .args(["-maxrate", "13M", "-bufsize", "13M", "-g", "96", "-pix_fmt", "yuv420p", "-c:a", "aac", "-ac", "2"])
            .arg(&minute),
    );
    run_command(
        ffmpeg()
            .args(["-stream_loop", "7", "-i"])
            .arg(&minute)
            .args(["-c", "copy", "-movflags", "+faststart"])
            .arg(film),
    );
}

fn open_session(client: &mut HlsClient, film: &Path) -> OpenSession {
    let start_time = Instant::now();
    let capabilities = json!({"codecs": ["avc1.640033", "mp4a.40.2"], "audioRenditions": true});
    let body =
        json!({"mediaPath": film, "forceTranscode": true, "capabilities": capabilities, "startPositionSeconds": 0});
    let session = client.start_session(&body);
    assert_eq!(session.answer["decision"]["format"], "fmp4", "{}", session.answer);
    assert_eq!(session.answer["decision"]["video"], "copy", "{}", session.answer);
    let multivariant = client.multivariant(&session);
    let video = session.listed_urls(&multivariant).remove(0);
    let audio = session.tagged_urls(&multivariant, "#EXT-X-MEDIA:TYPE=AUDIO").remove(0);
    let [video, audio] = [video, audio].map(|playlist| {
        let text = client.get_text(&playlist);
        client.drain(&session.tagged_urls(&text, "#EXT-X-MAP").remove(0));
        session.listed_urls(&text)
    });
    client.drain(&video[0]);
    client.drain(&audio[0]);
    let first_millis = start_time.elapsed().as_secs_f64() * 1000.0;
    let segments = video.into_iter().zip(audio).flat_map(|(video, audio)| [video, audio]).collect();
    OpenSession { session, segments, first_millis }
}

/// Plays all segments over one connection; processor seconds of the server, and GiB.
fn play(server: &ServerUnderTest, client: &mut HlsClient, targets: &[String]) -> (f64, f64) {
    let cpu = cpu_seconds(server);
    let bytes: u64 = targets.iter().map(|target| client.drain(target)).sum();
    (cpu_seconds(server) - cpu, bytes as f64 / f64::from(1 << 30))
}

/// Requests segments of the video in random order; the median and the worst time until the last byte, milliseconds.
fn jump(client: &mut HlsClient, targets: &[String]) -> (f64, f64) {
    let mut times: Vec<f64> = (0..JUMPS)
        .map(|n| {
            // Every other target is video.
            let target = &targets[n * 7_919 % (targets.len() / 2) * 2];
            let start_time = Instant::now();
            client.drain(target);
            start_time.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[JUMPS / 2], times[JUMPS - 1])
}

/// Many viewers at different positions; processor seconds of the server, GiB, and seconds.
fn play_together(server: &ServerUnderTest, targets: &[String]) -> (f64, f64, f64) {
    let (cpu, start_time) = (cpu_seconds(server), Instant::now());
    let bytes: u64 = std::thread::scope(|scope| {
        let viewers: Vec<_> = (0..VIEWERS)
            .map(|viewer| {
                scope.spawn(move || {
                    let mut client = HlsClient::connect(server);
                    let own = targets.iter().cycle().skip(viewer * targets.len() / VIEWERS).take(targets.len() / 8);
                    own.map(|target| client.drain(target)).sum::<u64>()
                })
            })
            .collect();
        viewers.into_iter().map(|viewer| viewer.join().expect("a viewer")).sum()
    });
    let seconds = start_time.elapsed().as_secs_f64();
    (cpu_seconds(server) - cpu, bytes as f64 / f64::from(1 << 30), seconds)
}

/// Processor seconds per GiB of the command that writes all segments.
fn ffmpeg_seconds_per_gib(film: &Path, segments: &Path) -> f64 {
    let before = children_seconds();
    run_command(
        ffmpeg()
            .arg("-i")
            .arg(film)
            .args(["-c", "copy", "-hls_time", "6", "-f", "hls", "-hls_list_size", "0", "-hls_segment_type", "fmp4"])
            .arg(segments.join("out.m3u8")),
    );
    let bytes: u64 = segment_files(segments).iter().map(|path| path.metadata().expect("a file").len()).sum();
    (children_seconds() - before) / (bytes as f64 / f64::from(1 << 30))
}

fn segment_files(segments: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(segments).expect("a folder").flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "m4s")).collect()
}

/// Processor seconds per GiB of nginx sending the files that ffmpeg wrote.
fn nginx_seconds_per_gib(nginx: &ServerUnderTest, segments: &Path) -> f64 {
    let mut socket = TcpStream::connect(nginx.address).expect("nginx accepts");
    let (cpu, mut bytes) = (cpu_seconds(nginx), 0);
    for path in segment_files(segments) {
        let name = path.file_name().expect("a file").to_string_lossy();
        let request = format!("GET /segments/{name} HTTP/1.1\r\nHost: b\r\n\r\n");
        socket.write_all(request.as_bytes()).expect("nginx reads");
        let (len, mut remaining) = read_head(&mut socket).expect("nginx answers");
        while remaining > 0 {
            remaining -= discard(&socket, remaining).expect("the answer is whole");
        }
        bytes += len;
    }
    (cpu_seconds(nginx) - cpu) / (bytes as f64 / f64::from(1 << 30))
}
