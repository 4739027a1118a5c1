//! Sessions whose segments a worker makes.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hearthcast::config::BackendSetting;
use hearthcast::domain::traffic::RouteClass;
use hearthcast::service::workers;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::nats_server::NatsServer;
use super::worker_program::WorkerProgram;
use crate::kit::media::{flash_and_beep, run_ffmpeg};
use crate::kit::player::{self, PlayerSession};
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server};

pub const ENCODED: &str = "-c:v libx264 -preset ultrafast -g 50 -c:a aac";

/// The remote workers of a server.
pub async fn remote_workers(server: &Server) -> Vec<Value> {
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

/// A server with one slot, whose run at work pauses after the segments it makes ahead, and a worker.
struct BusyServer {
    nats: NatsServer,
    server: Server,
    folder: TempDir,
    worker: WorkerProgram,
    worker_folder: TempDir,
    session: Value,
}

impl BusyServer {
    /// With `checks_credentials` nats-server lets in this server and its workers only.
    async fn start(checks_credentials: bool) -> Option<Self> {
        let mut nats = if checks_credentials { NatsServer::new() } else { NatsServer::start()? };
        let folder = tempfile::tempdir().unwrap();
        let film = folder.path().join("first.mp4");
        flash_and_beep(&film, 60, ENCODED);
        let roots = [folder.path()];
        let server = kit::start_server_with(&roots, |config| {
            config.queue = Some(nats.url.clone());
            config.backend = BackendSetting::Ffmpeg;
            config.limits.concurrent_jobs = 1;
        });
        let server = server.await;
        workers::start(&server.service);
        let nats = match checks_credentials {
            true => {
                nats.configuration = Some(queue_configuration(&server).await);
                nats.run_if_installed()?
            }
            false => nats,
        };
        assert!(remote_workers(&server).await.is_empty());
        let worker_folder = tempfile::tempdir().unwrap();
        let worker = WorkerProgram::enrol(&server, worker_folder.path()).await;
        wait_for_workers(&server, "the worker does not report", |workers| workers.len() == 1).await;
        let (session, player) = start_encode(&server, &film, 90).await;
        player.segment(0).await.unwrap();
        assert!(!is_busy(&remote_workers(&server).await), "this server has a free slot");
        Some(Self { nats, server, folder, worker, worker_folder, session })
    }

    /// Jumps to these segments until the worker has a run: a busy machine may claim one too late.
    async fn jump_until_busy(&self, player: &PlayerSession, indexes: &[usize]) -> bool {
        for index in indexes {
            player.segment(*index).await.unwrap();
            if is_busy(&remote_workers(&self.server).await) {
                return true;
            }
        }
        false
    }

    /// Starts sessions with other bit rates until the worker has a run; returns the last session and its bit rate.
    async fn encode_at_worker(&self, film: &Path, first_kbps: u32) -> (Value, u32) {
        let began = Instant::now();
        for max_kbps in first_kbps.. {
            let (session, player) = start_encode(&self.server, film, max_kbps).await;
            if self.jump_until_busy(&player, &[0, 6]).await {
                return (session, max_kbps);
            }
            player::stop(&self.server, &session).await;
            assert!(began.elapsed() < MAX_WAIT, "the worker has no run");
        }
        unreachable!("there are other bit rates")
    }
}

/// The configuration for nats-server that an admin gets.
async fn queue_configuration(server: &Server) -> String {
    let request = server.request(Method::GET, "/api/workers/queue-configuration").bearer_auth(&server.admin);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.text().await.unwrap()
}

pub async fn start_encode(server: &Server, film: &Path, max_kbps: u32) -> (Value, PlayerSession) {
    let transcode = json!({"forceTranscode": true, "profile": {"maxBitrateKbps": max_kbps}});
    let (status, session) = player::start(server, film, transcode).await;
    assert_eq!(status, 200, "{session}");
    let player = PlayerSession::open(server, &session).await.unwrap();
    (session, player)
}

/// The diagnostics of a session.
pub async fn diagnostics(server: &Server, session: &Value) -> Value {
    let path = format!("/api/stream/transcode/{}/status", session["sessionId"].as_str().unwrap());
    let mut status: Value = server.get(&path).send().await.unwrap().json().await.unwrap();
    status["diagnostics"].take()
}

/// Waits until the diagnostics of a session name this backend; returns the encoder they name.
async fn wait_for_encoder(server: &Server, session: &Value, backend: &str) -> String {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let diagnostics = diagnostics(server, session).await;
        if diagnostics["pipeline"] == backend {
            return diagnostics["encoder"].as_str().unwrap().to_owned();
        }
        assert!(Instant::now() < deadline, "not made by {backend}: {diagnostics}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn is_busy(workers: &[Value]) -> bool {
    workers.len() == 1 && workers[0]["activeJobCount"] == 1 && workers[0]["status"] == "busy"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_continues_when_its_worker_is_killed() {
    let Some(mut busy) = BusyServer::start(false).await else { return };
    let film = busy.folder.path().join("second.mkv");
    flash_and_beep(&film, 60, ENCODED);
    let (session, player) = start_encode(&busy.server, &film, 90).await;
    if !busy.jump_until_busy(&player, &[0, 4, 8, 12]).await {
        let log = std::fs::read_to_string(busy.worker_folder.path().join("log")).unwrap();
        wait_for_workers(&busy.server, &format!("the worker has no run; its log: {log}"), is_busy).await;
    }
    assert_eq!(wait_for_encoder(&busy.server, &session, "remote").await, "libx264");
    assert_eq!(wait_for_encoder(&busy.server, &busy.session, "ffmpeg").await, "libx264");
    busy.worker.kill();
    let bytes = player.fetch_all().await.unwrap();
    wait_for_workers(&busy.server, "a killed worker is listed", <[Value]>::is_empty).await;
    let joined = busy.folder.path().join("joined.ts");
    std::fs::write(&joined, bytes).unwrap();
    assert_eq!(wait_for_encoder(&busy.server, &session, "ffmpeg").await, "libx264");
    let decoded = player::decode(&joined).await;
    assert_eq!(decoded.timing_faults(), [""; 0]);
    assert!((decoded.video_seconds() - 60.0).abs() < 0.5, "{} s", decoded.video_seconds());
    player::stop(&busy.server, &busy.session).await;
    player::stop(&busy.server, &session).await;
}

/// A stint of eight segments reads at most 1.5 times their bytes, with the beginning of the file.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_reads_little_more_of_a_film_than_it_encodes() {
    let Some(busy) = BusyServer::start(false).await else { return };
    let sent = || busy.server.service.traffic.sent_bytes(RouteClass::File).load(Ordering::Relaxed);
    for name in ["dense.mp4", "dense.mkv"] {
        let film = busy.folder.path().join(name);
        let pictures = "testsrc2=s=640x360:r=25:d=64,noise=alls=20:allf=t";
        let encoder = "-c:v libx264 -preset ultrafast -b:v 6M -maxrate 6M -bufsize 6M -g 50 -pix_fmt yuv420p -c:a aac";
        run_ffmpeg(&film, &["-f lavfi -i", pictures, "-f lavfi -i", "sine=d=64", encoder]);
        let size = std::fs::metadata(&film).unwrap().len() as f64;
        let began = Instant::now();
        for max_kbps in 1500.. {
            let before = sent();
            let (session, player) = start_encode(&busy.server, &film, max_kbps).await;
            player.fetch_all().await.unwrap();
            player::stop(&busy.server, &session).await;
            let ratio = (sent() - before) as f64 / size;
            // On a busy machine the server may make some segments itself, or a run may be lost and read again.
            if ratio > 0.9 && ratio <= 1.5 {
                break;
            }
            assert!(began.elapsed() < MAX_WAIT, "{name}: the worker reads {ratio} of its bytes");
        }
    }
    player::stop(&busy.server, &busy.session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_has_runs_after_nats_server_with_credentials_was_killed() {
    let Some(mut busy) = BusyServer::start(true).await else { return };
    let film = busy.folder.path().join("second.mkv");
    flash_and_beep(&film, 60, ENCODED);
    let (session, max_kbps) = busy.encode_at_worker(&film, 91).await;
    // Its run is over while the server cannot reach the worker.
    busy.nats.kill();
    player::stop(&busy.server, &session).await;
    busy.nats.run().unwrap();
    let (session, _) = busy.encode_at_worker(&film, max_kbps + 1).await;
    player::stop(&busy.server, &session).await;
    player::stop(&busy.server, &busy.session).await;
}
