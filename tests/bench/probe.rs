//! Media info of an unknown film, compared with ffprobe, and of a known one, over HTTP.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearthcast::domain::access::Role;
use hearthcast::domain::library::Root;
use hearthcast::domain::media::Media;
use hearthcast::engine::source::{Roots, SourceFile};
use hearthcast::service::media::Probes;
use hearthcast::service::quarantine::NoQuarantine;
use hearthcast::service::{Service, open_isolation};
use tokio::net::TcpListener;

use crate::service_config::service_config;

const ROUNDS: usize = 15;
const REPEATS: usize = 500;

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!(
        "| film | ffprobe, ms | cold, ms | cold / ffprobe | known, over HTTP, ms | p99 |\n|---|---|---|---|---|---|"
    );
    for (name, args) in [
        ("film.mp4", &["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac"][..]),
        ("film.mkv", &["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "ac3"]),
        ("film.ts", &["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac"]),
    ] {
        let path = folder.path().join(name);
        make_film(&path, args);
        let (ffprobe, cold) = runtime.block_on(cold_medians(folder.path(), &path));
        let (known_median, p99) = runtime.block_on(known_medians(folder.path(), &path));
        println!("| {name} | {ffprobe:.1} | {cold:.1} | {:.2} | {known_median:.2} | {p99:.2} |", cold / ffprobe);
    }
}

fn make_film(path: &Path, args: &[&str]) {
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "testsrc2=size=1920x1080:rate=25:duration=60"])
        .args(["-f", "lavfi", "-i", "sine=sample_rate=48000:duration=60"])
        .args(args)
        .arg(path)
        .status();
    assert!(status.expect("ffmpeg runs").success());
}

/// Medians in ms of a whole ffprobe process and of a probe with empty caches, in turns.
async fn cold_medians(folder: &Path, path: &Path) -> (f64, f64) {
    let roots = Roots::open(vec![Root { id: "r".into(), path: folder.to_owned() }]).expect("the folder opens");
    let text = path.to_str().expect("plain text");
    let config = service_config(&folder.join("state"), &folder.join("cache"));
    let isolation = open_isolation(&config, Arc::new(NoQuarantine));
    let new_probes = || Probes::new(Path::new("ffmpeg"), Duration::from_secs(5), isolation.clone());
    new_probes().warm().await;
    let (mut ffprobe_times, mut own_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let status = Command::new("ffprobe")
            .args(["-v", "error", "-print_format", "json", "-show_format", "-show_streams", "-show_chapters"])
            .arg(path)
            .stdout(Stdio::null())
            .status();
        assert!(status.expect("ffprobe runs").success());
        ffprobe_times.push(started.elapsed());
        let started = Instant::now();
        let source = Arc::new(roots.open_file(text).expect("the film opens"));
        new_probes().probe(&source).await.expect("the film is media");
        own_times.push(started.elapsed());
    }
    (percentile_millis(ffprobe_times, 0.5), percentile_millis(own_times, 0.5))
}

/// Median and 99th percentile in ms of repeated requests on one connection.
async fn known_medians(folder: &Path, path: &Path) -> (f64, f64) {
    let state = tempfile::tempdir_in(folder).expect("a temporary folder");
    let mut config = service_config(&state.path().join("state"), &state.path().join("cache"));
    config.roots = vec![Root { id: "r".into(), path: folder.to_owned() }];
    let service = Service::open(config).expect("the service opens");
    let token = service.accounts.issue_token("bench", Role::User).await.expect("a user can be made");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let server = tokio::spawn(hearthcast::http::serve(service, listener, std::future::pending()));
    let client = reqwest::Client::new();
    let query = serde_urlencoded::to_string([("path", path.to_str().expect("plain text"))]).expect("plain text");
    let url = format!("http://{address}/api/stream/info/full?{query}");
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let started = Instant::now();
        let answer = client.get(&url).bearer_auth(&token).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        answer.bytes().await.expect("a body");
        times.push(started.elapsed());
    }
    server.abort();
    (percentile_millis(times.clone(), 0.5), percentile_millis(times, 0.99))
}

/// A percentile of these times, ms.
/// Opens and probes a film in a folder.
pub async fn open_film(folder: &Path, path: &Path) -> (Arc<SourceFile>, Arc<Media>) {
    let roots = Roots::open(vec![Root { id: "r".into(), path: folder.to_owned() }]).expect("the folder opens");
    let source = Arc::new(roots.open_file(path.to_str().expect("plain text")).expect("the film opens"));
    let config = service_config(&folder.join("state"), &folder.join("cache"));
    let isolation = open_isolation(&config, Arc::new(NoQuarantine));
    let probed = Probes::new(Path::new("ffmpeg"), Duration::from_secs(5), isolation).probe(&source).await;
    (source, probed.expect("the film is media").media)
}

pub fn percentile_millis(mut times: Vec<Duration>, share: f64) -> f64 {
    times.sort();
    times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0
}
