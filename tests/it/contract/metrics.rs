//! `GET /metrics`: the text format of Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use reqwest::Method;
use rustix::process::Signal;

use crate::kit::wait::MAX_WAIT;
use crate::kit::worker_processes::signal_workers;
use crate::kit::{self, Server};

const KILLED: &str = "hearthcast_worker_restarts_total{cause=\"killed\"}";

/// All metrics of a server: the type of each, and the samples by name and labels.
#[derive(Default)]
struct Metrics {
    types: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

/// The samples of a server by name and labels.
async fn samples(server: &Server) -> BTreeMap<String, f64> {
    metrics(server).await.samples
}

/// The metric of a sample, by its name: without what a histogram appends.
fn family_of<'a>(types: &BTreeMap<String, String>, name: &'a str) -> &'a str {
    let is_histogram = |family: &&str| types.get(*family).is_some_and(|kind| kind == "histogram");
    let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
    family.filter(is_histogram).unwrap_or(name)
}

/// The metrics of a server. Checks the format of each line.
async fn metrics(server: &Server) -> Metrics {
    let answer = server.request(Method::GET, "/metrics").bearer_auth(&server.admin).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let text = answer.text().await.unwrap();
    assert!(text.ends_with('\n'), "{text}");
    let (mut metrics, mut helped) = (Metrics::default(), BTreeSet::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            assert!(helped.insert(help.split_once(' ').expect("a help text").0.to_owned()), "{line}");
        } else if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, kind) = described.split_once(' ').unwrap();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            metrics.types.insert(name.to_owned(), kind.to_owned());
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let family = family_of(&metrics.types, name.split('{').next().unwrap());
            assert!(helped.contains(family) && metrics.types.contains_key(family), "{line}");
            assert!(metrics.samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    metrics
}

/// The metrics that a query of Prometheus names.
fn metrics_in(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("hearthcast_") || word.starts_with("process_"))
}

/// All queries of a dashboard: texts named `expr`, and those of its variables.
fn queries(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    serde_json::Value::String(text) if name == "expr" || name == "query" => found.push(text.clone()),
                    _ => queries(field, found),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_dashboard_shows_every_metric_and_no_other() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/grafana/hearthcast.json");
    let dashboard = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut found = Vec::new();
    queries(&dashboard, &mut found);
    assert!(found.len() > 20, "{} queries", found.len());
    let server = kit::start_server(&[]).await;
    let types = metrics(&server).await.types;
    let shown: BTreeSet<&str> =
        found.iter().flat_map(|query| metrics_in(query)).map(|name| family_of(&types, name)).collect();
    let existing: BTreeSet<&str> = types.keys().map(String::as_str).collect();
    let only = |one: &BTreeSet<&str>, other: &BTreeSet<&str>| format!("{:?}", one.difference(other));
    assert_eq!(shown, existing, "no such metric: {}; not shown: {}", only(&shown, &existing), only(&existing, &shown));
}

#[tokio::test]
async fn requests_bytes_and_commits_are_counted_with_the_same_labels_at_all_times() {
    let server = kit::start_server(&[]).await;
    let before = samples(&server).await;
    let channels = server.get("/api/livetv/channels").send().await.unwrap();
    let received = channels.text().await.unwrap().len() as f64;
    assert_eq!(server.get("/api/no/such/route").send().await.unwrap().status(), 404);
    let after = samples(&server).await;
    let grown = |name: &str| after[name] - before[name];
    assert_eq!(grown("hearthcast_http_requests_total{class=\"api\",status=\"2xx\"}"), 1.0);
    assert_eq!(grown("hearthcast_http_requests_total{class=\"unknown\",status=\"4xx\"}"), 1.0);
    assert!(grown("hearthcast_http_sent_bytes_total{class=\"api\"}") > received);
    // The set-up wrote accounts.
    assert!(after["hearthcast_store_commit_seconds_count"] > 0.0);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_is_counted_by_its_cause() {
    let server = kit::start_server(&[]).await;
    server.service.isolation.warm().await;
    let deadline = Instant::now() + MAX_WAIT;
    while server.service.isolation.status().ready < 2 {
        assert!(Instant::now() < deadline, "no spare was started");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let before = samples(&server).await;
    assert_eq!((before["hearthcast_workers_ready"], before["hearthcast_workers_busy"]), (2.0, 0.0));
    assert_eq!((before["hearthcast_quarantined_files"], before[KILLED]), (0.0, 0.0));
    for cause in ["crashed", "stopped", "stuck", "storage", "recycled"] {
        assert_eq!(before[&format!("hearthcast_worker_restarts_total{{cause=\"{cause}\"}}")], 0.0);
    }
    let started = before["process_start_time_seconds"];
    let now = jiff::Timestamp::now().as_second() as f64;
    assert!((now - 300.0..=now).contains(&started), "{started}");
    let build = before.keys().find(|name| name.starts_with("hearthcast_build_info{")).unwrap();
    assert!(build.contains(&format!("version=\"{}\"", env!("CARGO_PKG_VERSION"))), "{build}");
    signal_workers(&server.service.config.cache, Signal::KILL);
    while samples(&server).await[KILLED] < 2.0 {
        assert!(Instant::now() < deadline, "the deaths are not counted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_counted_by_backend() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("a.mp4");
    kit::media::flash_and_beep(&film, 3, "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3");
    // Long enough for a busy machine.
    let probe_deadline = Duration::from_secs(60);
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.probe_deadline = probe_deadline).await;
    assert!(!samples(&server).await.keys().any(|name| name.starts_with("hearthcast_runs_started_total{")));
    let body = serde_json::json!({"mediaPath": film, "maxHeight": 36});
    let started = server.post("/api/stream/transcode/start", &body).send().await.unwrap();
    assert_eq!(started.status(), 200);
    let session: serde_json::Value = started.json().await.unwrap();
    let url = format!("/api/stream/transcode/{}/v0-00000.ts", session["sessionId"].as_str().unwrap());
    assert_eq!(server.get(&url).send().await.unwrap().status(), 200);
    // The session notes the time of its first segment on its own, maybe after the answer.
    let deadline = Instant::now() + MAX_WAIT;
    let after = loop {
        let after = samples(&server).await;
        if after["hearthcast_first_segment_seconds_count"] == 1.0 {
            break after;
        }
        assert!(Instant::now() < deadline, "{after:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((after["hearthcast_sessions"], after["hearthcast_sessions_started_total"]), (1.0, 1.0));
    assert!(after["hearthcast_segment_cache_requests_total{result=\"miss\"}"] >= 1.0);
    let encoded =
        |name: &str| after.iter().filter(|(key, _)| key.starts_with(name)).map(|(_, value)| value).sum::<f64>();
    assert!(encoded("hearthcast_encoded_media_seconds_total{") > 0.0, "{after:?}");
    assert!(encoded("hearthcast_encode_time_seconds_total{") > 0.0, "{after:?}");
    let runs = after.iter().filter(|(name, _)| name.starts_with("hearthcast_runs_started_total{"));
    assert!(runs.map(|(_, count)| count).sum::<f64>() >= 1.0, "{after:?}");
}
