//! Probes by a reused worker, by a spare and in this process, taken in turn; the first probe of a cold server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearthcast::config::IsolationSetting;
use hearthcast::domain::library::Root;
use hearthcast::engine::source::Roots;
use hearthcast::engine::worker::Isolation;
use hearthcast::service::open_isolation;
use hearthcast::service::quarantine::NoQuarantine;
use serde_json::Value;

use super::{corpus_folder, make_film, median, percentile, print_floor};
use crate::program::ServerProcess;
use crate::service_config::service_config;

/// Probes of each file by each method.
const ROUNDS: usize = 3;
/// More for made media, because there are few.
const ROUNDS_OF_MADE_MEDIA: usize = 15;
const COLD_STARTS: usize = 5;

/// Workers of a pool, idle: one for probes, one for runs.
const SPARES: usize = 2;

const METHODS: [&str; 3] = ["in process", "reused worker", "spare"];

/// Made media: name and encoder arguments.
const FILMS: [(&str, &str); 5] = [
    ("film.mp4", "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac"),
    ("film.mkv", "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a ac3"),
    ("film.ts", "-c:v mpeg2video -c:a mp2"),
    ("film.avi", "-c:v mpeg4 -c:a libmp3lame"),
    ("audio.flac", "-vn -c:a flac"),
];

const SOURCE: &str = "testsrc2=s=1280x720:r=25:d=5";

fn make_media(folder: &Path) -> Vec<PathBuf> {
    let make = |(name, arguments): &(&str, &str)| {
        let path = folder.join(name);
        make_film(&path, SOURCE, arguments);
        path
    };
    FILMS.iter().map(make).collect()
}

/// The media files of the manifest of a corpus that GStreamer can discover.
fn corpus_files(corpus: &Path) -> Vec<PathBuf> {
    let text = std::fs::read(corpus.join("manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&text).expect("JSON");
    let files = manifest["items"].as_array().expect("items").iter().filter_map(|item| item["file"].as_str());
    files
        .filter(|file| ["video/", "audio/", "broken/"].iter().any(|part| file.starts_with(part)))
        .map(|file| corpus.join(file))
        .collect()
}

/// The pools of a measurement.
struct Pools {
    roots: Roots,
    state: tempfile::TempDir,
    reused: Isolation,
    /// Workers of `reused` that had died or were recycled at the last check.
    replaced: u64,
    /// A film for a worker's first probe, which is not measured.
    healthy: PathBuf,
}

impl Pools {
    async fn open(folder: &Path, root: &Path, healthy: PathBuf) -> Self {
        let state = tempfile::tempdir_in(folder).expect("a temporary folder");
        let roots = [root, folder].into_iter().enumerate();
        let roots = roots.map(|(n, path)| Root { id: format!("r{n}"), path: path.to_owned() }).collect();
        let roots = Roots::open(roots).expect("the folders open");
        let reused = open_pool(state.path()).await;
        let mut pools = Self { roots, state, reused, replaced: u64::MAX, healthy };
        // GStreamer starts in this process.
        pools.probe(0, &pools.healthy.clone()).await;
        pools
    }

    /// Milliseconds of a probe by this method; None if it has no result.
    async fn probe(&mut self, method: usize, path: &Path) -> Option<f64> {
        let isolation = match METHODS[method] {
            "in process" => Isolation::None,
            "spare" => open_pool(self.state.path()).await,
            _ => {
                // After a recycling, the next worker has not been used yet.
                if self.reused.status().restarted != self.replaced {
                    self.replaced = self.reused.status().restarted;
                    discover(&self.roots, &self.reused, &self.healthy).await;
                    wait_for_spares(&self.reused).await;
                }
                self.reused.clone()
            }
        };
        discover(&self.roots, &isolation, path).await
    }
}

/// A pool of its own, with its spares ready.
async fn open_pool(state: &Path) -> Isolation {
    let mut config = service_config(&state.join("state"), &state.join("cache"));
    config.isolation = IsolationSetting::Process;
    let isolation = open_isolation(&config, Arc::new(NoQuarantine));
    isolation.warm().await;
    wait_for_spares(&isolation).await;
    isolation
}

async fn wait_for_spares(isolation: &Isolation) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while isolation.status().ready < SPARES {
        assert!(Instant::now() < deadline, "no spare: {:?}", isolation.status());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn discover(roots: &Roots, isolation: &Isolation, path: &Path) -> Option<f64> {
    let source = Arc::new(roots.open_file(path.to_str().expect("plain name")).ok()?);
    // The server has computed it before.
    source.fingerprint().ok()?;
    let started = Instant::now();
    let discovered = isolation.discover(&source).await;
    let elapsed = started.elapsed();
    discovered.is_ok().then_some(elapsed.as_secs_f64() * 1000.0)
}

pub async fn measure(folder: &Path) {
    let made = make_media(folder);
    let (root, files, rounds) = match corpus_folder() {
        Some(corpus) => (corpus.clone(), corpus_files(&corpus), ROUNDS),
        None => (folder.to_owned(), made.clone(), ROUNDS_OF_MADE_MEDIA),
    };
    let mut pools = Pools::open(folder, &root, made[0].clone()).await;
    let (mut samples, mut medians) = ([const { Vec::new() }; 3], [const { Vec::new() }; 3]);
    let mut without_result = 0;
    for file in &files {
        let mut of_file = [const { Vec::new() }; 3];
        for turn in 0..rounds * METHODS.len() {
            // Each method is first equally often.
            let method = (turn + turn / METHODS.len()) % METHODS.len();
            of_file[method].extend(pools.probe(method, file).await);
        }
        // Files that a method has no result for are not comparable.
        if of_file.iter().any(|times| times.len() < rounds) {
            println!("without a result: {}", file.file_name().unwrap_or_default().display());
            without_result += 1;
            continue;
        }
        for method in 0..METHODS.len() {
            medians[method].push(median(&of_file[method]));
            samples[method].append(&mut of_file[method]);
        }
    }
    println!(
        "{} files, {without_result} more without a result by each method; {rounds} rounds in turn",
        files.len() - without_result
    );
    println!("| probe, ms | median | p95 |\n|---|---|---|");
    for method in 0..METHODS.len() {
        let (middle, high) = (median(&medians[method]), percentile(&samples[method], 0.95));
        println!("| {} | {middle:.1} | {high:.1} |", METHODS[method]);
    }
    let added = |method: usize| median(&medians[method]) - median(&medians[0]);
    print_floor("added by a reused worker", added(1), " ms", "<=", 5.0);
    print_floor("added by a spare", added(2), " ms", "<=", 20.0);
}

/// The first probe of a server that has just begun to listen, without and with the registry of an earlier start.
pub async fn measure_cold_servers(folder: &Path) {
    let library = tempfile::tempdir_in(folder).expect("a temporary folder");
    let film = library.path().join("film.mp4");
    make_film(&film, SOURCE, FILMS[0].1);
    let (mut first_starts, mut later_starts) = (Vec::new(), Vec::new());
    for round in 0..COLD_STARTS {
        let mut program = ServerProcess::start_new(&[library.path()]).await;
        first_starts.push(seconds_of_probe(&program, &film).await);
        // Wait for the registry.
        program.wait_until_childless().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        program.restart().await;
        // Unknown to its store.
        let copy = library.path().join(format!("copy-{round}.mp4"));
        let mut bytes = std::fs::read(&film).expect("a film");
        bytes.extend_from_slice(&[0, 0, 0, 9, b'f', b'r', b'e', b'e', round as u8]);
        std::fs::write(&copy, bytes).expect("a folder of our own");
        later_starts.push(seconds_of_probe(&program, &copy).await);
    }
    print_floor("first probe of a new server, median", median(&first_starts), " s", "<=", 0.5);
    print_floor("first probe of a restarted server, median", median(&later_starts), " s", "<=", 0.5);
}

async fn seconds_of_probe(program: &ServerProcess, film: &Path) -> f64 {
    let query = serde_urlencoded::to_string([("path", film.to_str().expect("plain name"))]).expect("plain text");
    let started = Instant::now();
    let answer = program.get(&format!("/api/stream/info/full?{query}")).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    answer.bytes().await.expect("a body");
    started.elapsed().as_secs_f64()
}
