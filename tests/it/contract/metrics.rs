//! `GET /metrics`: the text format of Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use reqwest::Method;
use rustix::process::Signal;

use crate::kit::worker_processes::signal_workers;
use crate::kit::{self, Server};

const KILLED: &str = "hearthcast_worker_restarts_total{cause=\"killed\"}";

/// The samples by name and labels. Checks the format of each line.
async fn samples(server: &Server) -> BTreeMap<String, f64> {
    let answer = server.request(Method::GET, "/metrics").bearer_auth(&server.admin).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let text = answer.text().await.unwrap();
    assert!(text.ends_with('\n'), "{text}");
    let (mut samples, mut helped, mut typed) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            assert!(helped.insert(help.split_once(' ').expect("a help text").0.to_owned()), "{line}");
        } else if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, kind) = described.split_once(' ').unwrap();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            typed.insert(name.to_owned(), kind.to_owned());
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let family = name.split('{').next().unwrap();
            assert!(helped.contains(family) && typed.contains_key(family), "{line}");
            assert!(samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    samples
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_is_counted_by_its_cause() {
    let server = kit::start_server(&[]).await;
    server.service.isolation.warm().await;
    let deadline = Instant::now() + Duration::from_secs(20);
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
    kit::media::flash_and_beep(&film, 3, "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 25 -c:a ac3");
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
    let after = samples(&server).await;
    let runs = after.iter().filter(|(name, _)| name.starts_with("hearthcast_runs_started_total{"));
    assert!(runs.map(|(_, count)| count).sum::<f64>() >= 1.0, "{after:?}");
}
