//! Sessions whose segments a worker makes.

use std::time::{Duration, Instant};

use hearthcast::config::BackendSetting;
use hearthcast::service::workers;
use serde_json::{Value, json};

use super::nats_server::NatsServer;
use super::worker_program::WorkerProgram;
use crate::kit::media::flash_and_beep;
use crate::kit::player::{self, PlayerSession};
use crate::kit::{self, Server};

/// Longest wait for anything that is no failure.
const MAX_WAIT: Duration = Duration::from_secs(120);

const ENCODED: &str = "-c:v libx264 -preset ultrafast -g 50 -c:a aac";

/// The remote workers of a server.
async fn remote_workers(server: &Server) -> Vec<Value> {
    let view: Value = server.get("/api/stream/v2-workers").send().await.unwrap().json().await.unwrap();
    assert_eq!(view["nodes"].as_array().unwrap().len(), view["workers"].as_array().unwrap().len());
    view["workers"].as_array().unwrap().clone()
}

/// Waits until the list of workers is as it should be.
async fn wait_for_workers(server: &Server, failure: &str, is_met: impl Fn(&[Value]) -> bool) {
    let deadline = Instant::now() + MAX_WAIT;
    while !is_met(&remote_workers(server).await) {
        assert!(Instant::now() < deadline, "{failure}: {:?}", remote_workers(server).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_continues_when_its_worker_is_killed() {
    let Some(nats) = NatsServer::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let films = ["first.mp4", "second.mkv"].map(|name| folder.path().join(name));
    films.iter().for_each(|film| flash_and_beep(film, 60, ENCODED));
    let roots = [folder.path()];
    let server = kit::start_server_with(&roots, |config| {
        config.queue = Some(nats.url.clone());
        config.backend = BackendSetting::Ffmpeg;
        config.limits.concurrent_jobs = 1;
    });
    let server = server.await;
    workers::start(&server.service);
    assert!(remote_workers(&server).await.is_empty());
    let worker_folder = tempfile::tempdir().unwrap();
    let mut worker = WorkerProgram::enrol(&server, worker_folder.path()).await;
    wait_for_workers(&server, "the worker does not report", |workers| workers.len() == 1).await;

    // Its run pauses after the segments it makes ahead, so this server has no free slot.
    let transcode = json!({"forceTranscode": true, "profile": {"maxBitrateKbps": 90}});
    let (status, local) = player::start(&server, &films[0], transcode.clone()).await;
    assert_eq!(status, 200, "{local}");
    let local_player = PlayerSession::open(&server, &local).await.unwrap();
    local_player.segment(0).await.unwrap();
    let is_busy = |workers: &[Value]| workers[0]["activeJobCount"] == 1 && workers[0]["status"] == "busy";
    assert!(!is_busy(&remote_workers(&server).await), "this server has a free slot");

    let (status, remote) = player::start(&server, &films[1], transcode).await;
    assert_eq!(status, 200, "{remote}");
    let remote_player = PlayerSession::open(&server, &remote).await.unwrap();
    // A busy machine may claim a run too late; the next jump starts another one.
    for index in [0, 4, 8, 12] {
        remote_player.segment(index).await.unwrap();
        if is_busy(&remote_workers(&server).await) {
            break;
        }
    }
    let log = std::fs::read_to_string(worker_folder.path().join("log")).unwrap();
    wait_for_workers(&server, &format!("the worker has no run; its log: {log}"), is_busy).await;
    worker.kill();
    let bytes = remote_player.fetch_all().await.unwrap();
    wait_for_workers(&server, "a killed worker is listed", <[Value]>::is_empty).await;
    let joined = folder.path().join("joined.ts");
    std::fs::write(&joined, bytes).unwrap();
    let decoded = player::decode(&joined).await;
    assert_eq!(decoded.timing_faults(), [""; 0]);
    assert!((decoded.video_seconds() - 60.0).abs() < 0.5, "{} s", decoded.video_seconds());
    player::stop(&server, &local).await;
    player::stop(&server, &remote).await;
}
