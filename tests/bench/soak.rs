//! A household for hours: readers, encodes, channels, zaps, a growing library and a recording at once. Counts stalls, and prints
//! memory and descriptors over time. `scripts/bench soak 2m` tries it, `scripts/bench soak 8h` runs it over a night.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::program::ServerProcess;

/// A player's buffer.
mod player_buffer;
/// Readers of a file.
mod readers;
/// Memory and descriptors of the server.
mod usage;
/// Viewers of sessions and channels.
mod viewers;

use player_buffer::Totals;
use usage::UsageTable;

const DEFAULT_DURATION: Duration = Duration::from_secs(30 * 60);
const READERS: usize = 50;
/// Of the film that is read, bits per second.
const READ_BITS: u64 = 20_000_000;
const READ_SECONDS: u64 = 30;
const ENCODES: usize = 2;
const CHANNELS: usize = 5;
/// Films that the library has from the start.
const SCANNED_FILMS: usize = 1000;
/// The library gains a film, and later loses one, this often.
const LIBRARY_CHANGE: Duration = Duration::from_secs(5);
const ZAP: Duration = Duration::from_secs(10);
/// From the end of the recording to the end of the soak.
const RECORDING_MARGIN: Duration = Duration::from_secs(20);
const TABLE_ROWS: u32 = 15;

/// Films of each kind, as paths.
struct Films {
    read: PathBuf,
    encoded: Vec<PathBuf>,
    aired: Vec<PathBuf>,
    /// A small film that the others of the library are made of.
    small: Vec<u8>,
}

pub fn run() {
    let duration = requested_duration();
    println!(
        "\n# soak: {} min, {READERS} readers at {} Mbit/s, {ENCODES} encodes, {CHANNELS} channels, zaps, a scan, a recording",
        duration.as_secs() / 60,
        READ_BITS / 1_000_000
    );
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let films = make_films(folder.path());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    runtime.block_on(soak(folder.path(), films, duration));
}

/// The argument after `soak`: minutes (`2m`) or hours (`8h`).
fn requested_duration() -> Duration {
    let argument = std::env::args().skip_while(|argument| argument != "soak").nth(1);
    let Some(text) = argument.filter(|text| !text.starts_with('-')) else { return DEFAULT_DURATION };
    let seconds = match text.split_at(text.len() - 1) {
        (minutes, "m") => minutes.parse::<u64>().ok().map(|minutes| minutes * 60),
        (hours, "h") => hours.parse::<u64>().ok().map(|hours| hours * 3600),
        _ => None,
    };
    Duration::from_secs(seconds.unwrap_or_else(|| panic!("{text:?} is not a time like 2m or 8h")))
}

async fn soak(folder: &Path, films: Films, duration: Duration) {
    let (library, recorded) = (folder.join("library"), folder.join("recorded"));
    std::fs::create_dir(&recorded).expect("a fresh folder");
    for number in 0..SCANNED_FILMS {
        write_small_film(&library, &films.small, number);
    }
    let settings = [
        ("HEARTHCAST_RECORDINGS", recorded.to_str().expect("a text")),
        ("HEARTHCAST_LIMITS_CONCURRENT_JOBS", "4"),
        ("HEARTHCAST_LIMITS_SESSIONS_PER_USER", "8"),
        // Full within the first third, so that memory is flat afterwards.
        ("HEARTHCAST_LIMITS_SEGMENT_MEMORY_BYTES", "16777216"),
    ];
    let server = Arc::new(ServerProcess::start(&[&library], &settings).await);
    let mut channels = Vec::new();
    for film in &films.aired {
        channels.push(add_channel(&server, film).await);
    }
    let totals = Arc::new(Totals::default());
    let end = Instant::now() + duration;
    let recording = start_recording(&server, channels[0], duration).await;
    for number in 0..READERS {
        readers::start(&server, &films.read, READ_BITS, number, end, totals.clone());
    }
    let mut tasks = tokio::task::JoinSet::new();
    for film in films.encoded {
        tasks.spawn(viewers::watch_film(server.clone(), film, end, totals.clone()));
    }
    for &channel in &channels {
        tasks.spawn(viewers::watch_channel(server.clone(), channel, end, totals.clone()));
    }
    tasks.spawn(viewers::zap(server.clone(), channels, ZAP, end, totals.clone()));
    tasks.spawn(change_library(library, films.small, end));

    let mut table = UsageTable::start(&server);
    let row = (duration / TABLE_ROWS).clamp(Duration::from_secs(10), Duration::from_secs(600));
    while Instant::now() < end {
        tokio::time::sleep(row.min(end.saturating_duration_since(Instant::now()))).await;
        table.print_row(&server, &totals);
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no viewer panics");
    }
    table.print_growth();
    totals.print();
    print_recording(&server, &recording).await;
}

/// Requests a recording from now until shortly before the end; returns its id.
async fn start_recording(server: &ServerProcess, channel: u64, duration: Duration) -> String {
    let start = Timestamp::now();
    let end = start + duration.saturating_sub(RECORDING_MARGIN);
    let body = json!({"channelId": channel, "start": start.to_string(), "end": end.to_string(),
        "paddingSeconds": {"before": 0, "after": 0}});
    let answer = post_as_admin(server, "/api/livetv/recordings", &body).await;
    answer["recording"]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

async fn print_recording(server: &ServerProcess, id: &str) {
    let address = format!("{}/api/livetv/recordings/{id}", server.base);
    let answer = server.client.get(address).bearer_auth(&server.admin).send().await.expect("an answer");
    let recording = answer.json::<Value>().await.expect("JSON")["recording"].clone();
    println!(
        "recording: {}, {} bytes, {} s missing",
        recording["state"], recording["sizeBytes"], recording["missingSeconds"]
    );
}

/// Adds a channel of one film that has been on air for a while; returns its id.
async fn add_channel(server: &ServerProcess, film: &Path) -> u64 {
    let start = Timestamp::now() - Duration::from_secs(600);
    let name = film.file_stem().expect("a name").to_string_lossy();
    let body =
        json!({"name": name, "scheduleMode": "sequential", "startAt": start.to_string(), "items": [{"path": film}]});
    let answer = post_as_admin(server, "/api/livetv/channels", &body).await;
    answer["channel"]["id"].as_u64().unwrap_or_else(|| panic!("{answer}"))
}

/// Sends a request until the server is ready for it.
async fn post_as_admin(server: &ServerProcess, target: &str, body: &Value) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let request = server.client.post(format!("{}{target}", server.base)).bearer_auth(&server.admin).json(body);
        let answer = request.send().await.expect("an answer");
        if answer.status() != 503 || Instant::now() > deadline {
            return answer.json().await.expect("JSON");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Adds a film to the library and removes an older one, again and again.
async fn change_library(library: PathBuf, small: Vec<u8>, end: Instant) {
    let mut number = SCANNED_FILMS;
    while Instant::now() + LIBRARY_CHANGE < end {
        tokio::time::sleep(LIBRARY_CHANGE).await;
        write_small_film(&library, &small, number);
        let _ = std::fs::remove_file(small_film_path(&library, number - SCANNED_FILMS));
        number += 1;
    }
}

fn small_film_path(library: &Path, number: usize) -> PathBuf {
    library.join("Scanned").join(format!("Film {number}.mp4"))
}

/// Writes a film that differs from all others by a box at its end.
fn write_small_film(library: &Path, small: &[u8], number: usize) {
    let path = small_film_path(library, number);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let free = [&16_u32.to_be_bytes()[..], b"free", &(number as u64).to_be_bytes()].concat();
    std::fs::write(path, [small, &free].concat()).expect("a film");
}

fn make_films(folder: &Path) -> Films {
    let library = folder.join("library");
    std::fs::create_dir(&library).expect("a fresh folder");
    let bits = READ_BITS.to_string();
    let read = library.join("Read.mp4");
    let source = format!("testsrc2=s=1920x1080:r=24:d={READ_SECONDS},noise=alls=20:allf=t");
    let rate = format!(
        "-c:v libx264 -preset ultrafast -g 48 -b:v {bits} -maxrate {bits} -bufsize {bits} -pix_fmt yuv420p -an"
    );
    make_film(&read, &source, &rate);
    let film = |name: String, seconds: usize, hue: usize, arguments: &str| {
        let path = library.join(name);
        make_film(&path, &format!("testsrc2=s=640x360:r=24:d={seconds},hue=h={hue}"), arguments);
        path
    };
    let encoded =
        (0..ENCODES).map(|n| film(format!("Encoded {n}.mkv"), 300, 40 * n, "-c:v mpeg2video -b:v 2M -g 24 -c:a ac3"));
    let encoded = encoded.collect();
    let copied = "-c:v libx264 -preset ultrafast -g 48 -pix_fmt yuv420p -c:a aac";
    let aired = (0..CHANNELS).map(|n| film(format!("Channel {n}.mp4"), 60, 70 * n, copied)).collect();
    let small = folder.join("small.mp4");
    make_film(&small, "testsrc2=s=64x64:r=5:d=4", "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -an");
    Films { read, encoded, aired, small: std::fs::read(small).expect("a film") }
}

/// Makes a film with this video, a tone, and these arguments of ffmpeg.
fn make_film(path: &Path, source: &str, arguments: &str) {
    let mut command = Command::new("ffmpeg");
    command.args([
        "-nostdin",
        "-v",
        "error",
        "-y",
        "-f",
        "lavfi",
        "-i",
        source,
        "-f",
        "lavfi",
        "-i",
        "sine=f=440:r=48000",
    ]);
    let status = command.args(arguments.split_whitespace()).arg("-shortest").arg(path).status().expect("ffmpeg runs");
    assert!(status.success(), "{command:?}");
}
