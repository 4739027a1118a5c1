//! A remote worker of two servers behind nginx: the one that takes over uses it, without a restart of the worker.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::household::{Household, another_film};
use super::nats_server::NatsServer;
use super::nginx_server::NginxServer;
use super::worker_program::WorkerProgram;
use crate::kit::media::flash_and_beep;
use crate::kit::response::{expect_success, send_until_ready};
use crate::kit::wait::MAX_WAIT;

/// Segments that a new viewer requests. A worker gets eight segments of a run at a time, so after one of these the run pauses in
/// the middle of them.
const REQUESTED_SEGMENTS: [usize; 3] = [0, 6, 9];

/// Longest wait for the worker's claim of a run.
const CLAIMED_WITHIN: Duration = Duration::from_secs(2);

/// Time after which a run has made what it may make ahead, and pauses; the worker keeps it for 10 s.
const PAUSED_AFTER: Duration = Duration::from_secs(2);

/// Fail-overs, each to the other server.
const ROUNDS: usize = 2;

/// The address of nginx, and the household of the servers after it.
struct Front {
    base: String,
    client: Client,
    household: Household,
    worker_log: PathBuf,
}

/// An encoded session.
struct Playback {
    id: String,
    playlist: String,
}

impl Front {
    fn request(&self, method: Method, path: &str, token: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).bearer_auth(token)
    }

    /// Encodes a film that was not played before.
    async fn start(&self, number: usize) -> Playback {
        let film = another_film(&self.household, &format!("{number}.mp4"));
        let body = json!({"mediaPath": film, "forceTranscode": true, "profile": {"maxBitrateKbps": 90}});
        let request = self.request(Method::POST, "/api/stream/transcode/start", &self.household.token).json(&body);
        let started = expect_success(send_until_ready(request).await, 200).await;
        let text = |name: &str| started[name].as_str().unwrap().to_owned();
        Playback { id: text("sessionId"), playlist: text("signedPlaylistUrl") }
    }

    async fn fetch(&self, playback: &Playback, index: usize) {
        let name = format!("v0-{index:05}.ts");
        let url = format!("{}{}", self.base, playback.playlist.replace("index.m3u8", &name));
        let answer = send_until_ready(self.client.get(url)).await;
        assert_eq!(answer.status(), StatusCode::OK, "{name}");
        assert!(!answer.bytes().await.unwrap().is_empty(), "{name}");
    }

    async fn stop(&self, playback: Playback) {
        let path = format!("/api/stream/transcode/{}", playback.id);
        let answer = send_until_ready(self.request(Method::DELETE, &path, &self.household.token)).await;
        assert!(answer.status().is_success(), "{}", answer.status());
    }

    /// Runs that each worker makes.
    async fn runs_of_workers(&self) -> Vec<u64> {
        let request = self.request(Method::GET, "/api/stream/v2-workers", &self.household.admin);
        let view: Value = expect_success(send_until_ready(request).await, 200).await;
        view["workers"].as_array().unwrap().iter().map(|worker| worker["activeJobCount"].as_u64().unwrap()).collect()
    }

    async fn wait_for_runs(&self, expected: &[u64]) {
        let began = Instant::now();
        while self.runs_of_workers().await != expected {
            assert!(began.elapsed() < MAX_WAIT, "{:?}, not {expected:?}", self.runs_of_workers().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether the worker claims a run, and keeps it when it pauses.
    async fn is_kept_by_worker(&self) -> bool {
        let began = Instant::now();
        while self.runs_of_workers().await != [1] {
            if began.elapsed() > CLAIMED_WITHIN {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(PAUSED_AFTER).await;
        self.runs_of_workers().await == [1]
    }

    /// Starts sessions until the worker keeps the run of one: a busy machine may claim one too late. The server's own slot is in use
    /// meanwhile. `films` is the number of films that were played.
    async fn start_at_worker(&self, films: &mut usize) -> [Playback; 2] {
        let began = Instant::now();
        let mut next = || {
            *films += 1;
            self.start(*films)
        };
        let mut own = next().await;
        self.fetch(&own, 0).await;
        loop {
            let playback = next().await;
            for index in REQUESTED_SEGMENTS {
                self.fetch(&playback, index).await;
                if self.is_kept_by_worker().await {
                    return [own, playback];
                }
                // The run of the server itself would end after some time without a request.
                self.fetch(&own, 0).await;
            }
            // One of both has a run of the server itself.
            self.stop(std::mem::replace(&mut own, playback)).await;
            let log = std::fs::read_to_string(&self.worker_log).unwrap_or_default();
            assert!(began.elapsed() < MAX_WAIT, "the worker keeps no run; its log: {log}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_that_takes_over_uses_the_worker() {
    let (Some(nats), Some(mut household)) = (NatsServer::start(), Household::start().await) else { return };
    household.settings = vec![
        ("HEARTHCAST_QUEUE", nats.url.clone()),
        ("HEARTHCAST_BACKEND", "ffmpeg".to_owned()),
        ("HEARTHCAST_LIMITS_CONCURRENT_JOBS", "1".to_owned()),
    ];
    household.film = household.film.with_file_name("work.mp4");
    flash_and_beep(&household.film, 60, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let mut active = household.server("a");
    active.wait_until_listening();
    let mut standby = household.server("b");
    standby.wait_until_standby();
    let bases = [active.base.clone(), standby.base.clone()];
    let Some(nginx) = NginxServer::start(household.folder.path(), &bases) else { return };
    let worker_folder = household.folder.path().join("worker");
    let (base, worker_log) = (nginx.base.clone(), worker_folder.join("log"));
    let front = Front { base, client: Client::new(), household, worker_log };
    std::fs::create_dir(&worker_folder).unwrap();
    let code = expect_success(
        send_until_ready(front.request(Method::POST, "/api/workers/codes", &front.household.admin)).await,
        201,
    );
    let code = code.await["code"].as_str().unwrap().to_owned();
    let mut worker = WorkerProgram::start(&front.base, &code, &worker_folder);
    front.wait_for_runs(&[0]).await;

    let (mut names, mut films) = (("a", "b"), 0);
    let mut playbacks = front.start_at_worker(&mut films).await;
    for round in 0..ROUNDS {
        active.kill();
        standby.wait_until_listening();
        names = (names.1, names.0);
        let address = active.base.strip_prefix("http://").unwrap().to_owned();
        active = std::mem::replace(&mut standby, front.household.server_at(names.1, &address, &[]));
        standby.wait_until_standby();
        for playback in playbacks {
            // It continues on the other server.
            front.fetch(&playback, 8).await;
            front.stop(playback).await;
        }
        front.wait_for_runs(&[0]).await;
        playbacks = front.start_at_worker(&mut films).await;
        assert!(worker.is_running(), "round {round}");
    }
    for playback in playbacks {
        front.stop(playback).await;
    }
    front.wait_for_runs(&[0]).await;
}
