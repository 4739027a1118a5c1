//! Saves that are on the disk when they are answered, reads, and the first page of a long history; compared with SQLite
//! (WAL, synchronous=FULL, driven by Python) on the same disk in turns.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearthcast::domain::access::Role;
use hearthcast::domain::library::Root;
use hearthcast::domain::progress::{ProgressItem, ProgressSave};
use hearthcast::service::Service;
use hearthcast::service::progress::HistoryFilter;
use serde_json::json;
use tokio::net::TcpListener;

use crate::service_config::service_config;

const RECORDS: usize = 100_000;
const WRITERS: usize = 32;
const MEASURED_SPAN: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;

/// Saves per second and the 99th percentile in ms.
#[derive(Clone, Copy)]
struct SaveRate {
    saves_per_second: f64,
    p99_ms: f64,
}

pub fn run() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let films = make_films(folder.path(), WRITERS);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let service = open_service(folder.path());
        let started = Instant::now();
        fill_store(&service).await;
        println!("{RECORDS} records written in {:.1} s", started.elapsed().as_secs_f64());
        let (mut store_rates, mut http_rates, mut sqlite_rates, mut grouped_rates) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            store_rates.push(measure_store(&service).await);
            http_rates.push(measure_http(&service, &films).await);
            sqlite_rates.push(measure_sqlite(folder.path(), 1));
            grouped_rates.push(measure_sqlite(folder.path(), WRITERS));
        }
        println!("| {WRITERS} writers | durable saves/s | p99, ms | / SQLite | / SQLite, {WRITERS} a transaction |");
        println!("|---|---|---|---|---|");
        let (sqlite_rate, grouped_rate) = (median(&sqlite_rates), median(&grouped_rates));
        let rows = [
            ("store", median(&store_rates)),
            ("over HTTP", median(&http_rates)),
            ("SQLite", sqlite_rate),
            ("SQLite, grouped", grouped_rate),
        ];
        for (name, rate) in rows {
            let to_sqlite = rate.saves_per_second / sqlite_rate.saves_per_second;
            let to_grouped = rate.saves_per_second / grouped_rate.saves_per_second;
            println!(
                "| {name} | {:.0} | {:.2} | {to_sqlite:.2} | {to_grouped:.2} |",
                rate.saves_per_second, rate.p99_ms
            );
        }
        let (read, page) = (read_percentiles(&service), page_percentiles(&service));
        println!("| read | p50 {:.4} ms | p99 {:.4} ms |", read.0, read.1);
        println!("| first page of {RECORDS} | p50 {:.3} ms | p99 {:.3} ms |", page.0, page.1);
        drop(service);
        let started = Instant::now();
        let service = open_service(folder.path());
        println!("| opening {RECORDS} records | {:.2} s |", started.elapsed().as_secs_f64());
        drop(service);
        let started = Instant::now();
        let store = hearthcast::store::Store::open(&folder.path().join("state")).expect("the store opens");
        println!("| of which the store | {:.2} s |", started.elapsed().as_secs_f64());
        drop(store);
    });
}

/// Makes small films that differ in content.
pub fn make_films(folder: &Path, count: usize) -> Vec<PathBuf> {
    let first = folder.join("film.mp4");
    let status = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=s=64x64:r=5:d=1", "-c:v", "libx264"])
        .arg(&first)
        .status();
    assert!(status.expect("ffmpeg runs").success());
    let bytes = std::fs::read(&first).expect("the film exists");
    let film = |n: usize| {
        let path = folder.join(format!("film-{n}.mp4"));
        // A box of free space at the end changes the content.
        let padding = [&[0, 0, 0, 16][..], b"free", &(n as u64).to_be_bytes()].concat();
        std::fs::write(&path, [&bytes[..], &padding].concat()).expect("written");
        path
    };
    (0..count).map(film).collect()
}

fn open_service(folder: &Path) -> Arc<Service> {
    let mut config = service_config(&folder.join("state"), &folder.join("cache"));
    config.roots = vec![Root { id: "r".into(), path: folder.to_owned() }];
    Service::open(config).expect("the service opens")
}

fn progress_item(n: usize) -> ProgressItem {
    ProgressItem {
        media_id: format!("f_{n:032x}"),
        path: format!("/library/shows/A Show of Some Length/Season 01/A Show of Some Length S01E{n:06} Title.mkv"),
        title: format!("A Show of Some Length S01E{n:06} Title"),
        size_bytes: 4_000_000_000,
        duration_seconds: Some(5400.0),
    }
}

async fn save_position(service: &Service, n: usize, position: f64) {
    let save = ProgressSave {
        position_seconds: Some(position),
        completed: Some(false),
        player: Some("web".into()),
        ..ProgressSave::default()
    };
    service.progress.save("u_1", progress_item(n), save, |_| true).await.expect("saved");
}

async fn fill_store(service: &Arc<Service>) {
    let writers = (0..256).map(|w| {
        let service = service.clone();
        tokio::spawn(async move {
            for n in (w..RECORDS).step_by(256) {
                save_position(&service, n, 100.0).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("no panic");
    }
}

async fn measure_store(service: &Arc<Service>) -> SaveRate {
    measure_rate(|w, n| {
        let service = service.clone();
        async move { save_position(&service, (w + WRITERS * n) % RECORDS, n as f64).await }
    })
    .await
}

async fn measure_http(service: &Arc<Service>, films: &[PathBuf]) -> SaveRate {
    let token = service.accounts.issue_token("bench", Role::User).await.expect("a user can be made");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/api/stream/progress", listener.local_addr().expect("bound"));
    let server = tokio::spawn(hearthcast::http::serve(service.clone(), listener, std::future::pending()));
    let client = reqwest::Client::new();
    let rate = measure_rate(|w, n| {
        let request = client.post(&url).bearer_auth(&token);
        let request = request.json(&json!({"mediaPath": films[w], "positionSeconds": n, "durationSeconds": 1_000_000}));
        async move {
            let answer = request.send().await.expect("an answer");
            assert_eq!(answer.status(), 200);
            answer.bytes().await.expect("a body");
        }
    })
    .await;
    server.abort();
    rate
}

async fn measure_rate<F, W>(save: W) -> SaveRate
where
    W: Fn(usize, usize) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let deadline = Instant::now() + MEASURED_SPAN;
    let started = Instant::now();
    let writers = (0..WRITERS).map(|w| {
        let work = &save;
        async move {
            let mut times = Vec::new();
            let mut n = 0;
            while Instant::now() < deadline {
                let sent = Instant::now();
                work(w, n).await;
                times.push(sent.elapsed());
                n += 1;
            }
            times
        }
    });
    let times: Vec<Duration> = futures_util::future::join_all(writers).await.concat();
    let saves = times.len() as f64 / started.elapsed().as_secs_f64();
    SaveRate { saves_per_second: saves, p99_ms: percentile_millis(times, 0.99) }
}

fn read_percentiles(service: &Service) -> (f64, f64) {
    let times: Vec<Duration> = (0..20_000)
        .map(|n| {
            let id = format!("f_{:032x}", n * 7919 % RECORDS);
            let started = Instant::now();
            assert!(service.progress.record("u_1", &id).expect("read").is_some());
            started.elapsed()
        })
        .collect();
    (percentile_millis(times.clone(), 0.5), percentile_millis(times, 0.99))
}

fn page_percentiles(service: &Service) -> (f64, f64) {
    let times: Vec<Duration> = (0..500)
        .map(|_| {
            let started = Instant::now();
            let page = service.progress.history("u_1", HistoryFilter::default(), None, 20).expect("a page");
            assert_eq!((page.entries.len(), page.total), (20, RECORDS));
            started.elapsed()
        })
        .collect();
    (percentile_millis(times.clone(), 0.5), percentile_millis(times, 0.99))
}

/// One writer into SQLite with `group_size` saves per transaction; the 99th percentile is of a transaction.
fn measure_sqlite(folder: &Path, group_size: usize) -> SaveRate {
    const PYTHON_SCRIPT: &str = r#"
import json, os, sqlite3, sys, time
path, group, span = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
db = sqlite3.connect(path, isolation_level=None)
db.execute("PRAGMA journal_mode=WAL"); db.execute("PRAGMA synchronous=FULL")
db.execute("CREATE TABLE IF NOT EXISTS progress (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
value = json.dumps({"path": "/library/shows/A Show/Season 01/x.mkv", "title": "x" * 380})
times, n, begun = [], 0, time.perf_counter()
while time.perf_counter() - begun < span:
    at = time.perf_counter()
    db.execute("BEGIN IMMEDIATE")
    for _ in range(group):
        n += 1
        db.execute("INSERT INTO progress VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                   ("u_1/f_%032x" % (n * 7919 % 100000), value + str(n)))
    db.execute("COMMIT")
    times.append(time.perf_counter() - at)
times.sort()
print(n / (time.perf_counter() - begun), times[int((len(times) - 1) * 0.99)] * 1000)
"#;
    let output = Command::new("python3")
        .args(["-c", PYTHON_SCRIPT])
        .arg(folder.join("peer.sqlite"))
        .args([group_size.to_string(), MEASURED_SPAN.as_secs_f64().to_string()])
        .output()
        .expect("python3 runs");
    let text = String::from_utf8(output.stdout).expect("plain text");
    let mut numbers = text.split_whitespace().map(|number| number.parse().expect("a number"));
    SaveRate { saves_per_second: numbers.next().expect("a rate"), p99_ms: numbers.next().expect("a time") }
}

fn median(rates: &[SaveRate]) -> SaveRate {
    let mut rates = rates.to_vec();
    rates.sort_by(|a, b| a.saves_per_second.total_cmp(&b.saves_per_second));
    rates[rates.len() / 2]
}

/// A percentile of these times, ms.
fn percentile_millis(mut times: Vec<Duration>, share: f64) -> f64 {
    times.sort();
    times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0
}
