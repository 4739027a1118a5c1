//! A worker with hardware that decodes and encodes, until it fails.

use std::path::PathBuf;
use std::time::Instant;

use hearthcast::service::workers;
use serde_json::Value;
use tempfile::TempDir;

use super::nats_server::NatsServer;
use super::sessions::{ENCODED, diagnostics, start_encode};
use super::worker_program::WorkerProgram;
use crate::kit::hardware_tools::{WORKS, make_tools};
use crate::kit::media::flash_and_beep;
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server, player};

/// How long hardware rests after its first failure.
const FIRST_REST_SECONDS: u64 = 60;

/// A server, and a worker whose hardware can be made to fail.
struct Desktop {
    server: Server,
    folder: TempDir,
    film: PathBuf,
    /// Of the next session: each has another one, so that no segment is there already.
    max_kbps: u32,
    set_at: Instant,
    /// Length of the worker's log when the hardware was set.
    log_start: usize,
    _worker: WorkerProgram,
    _nats: NatsServer,
}

impl Desktop {
    async fn start() -> Option<Self> {
        let nats = NatsServer::start()?;
        let folder = tempfile::tempdir().unwrap();
        let [library, tools, state] = ["library", "tools", "worker"].map(|name| folder.path().join(name));
        for folder in [&library, &tools, &state] {
            std::fs::create_dir(folder).unwrap();
        }
        let film = library.join("film.mkv");
        flash_and_beep(&film, 20, ENCODED);
        let server = kit::start_server_with(&[&library], |config| config.queue = Some(nats.url.clone())).await;
        workers::start(&server.service);
        let ffmpeg = make_tools(&tools, WORKS, WORKS, WORKS);
        let worker = WorkerProgram::enrol_with_ffmpeg(&server, &state, &ffmpeg).await;
        let (max_kbps, set_at, log_start) = (300, Instant::now(), 0);
        Some(Self { server, folder, film, max_kbps, set_at, log_start, _worker: worker, _nats: nats })
    }

    /// The worker's log since the hardware was set.
    fn log(&self) -> String {
        let log = std::fs::read(self.folder.path().join("worker/log")).unwrap();
        String::from_utf8_lossy(&log[self.log_start..]).into_owned()
    }

    /// Lets the hardware do this in runs, and work in trials.
    fn set_runs(&mut self, encoding: &str, decoding: &str) {
        let in_runs = |command: &str| format!("[ \"$is_run\" ] || exec ffmpeg \"$@\"\n{command}");
        make_tools(&self.folder.path().join("tools"), WORKS, &in_runs(encoding), &in_runs(decoding));
        self.log_start += self.log().len();
        self.set_at = Instant::now();
    }

    /// Asserts that hardware which failed since [`Self::set_runs`] was tried no sooner than after its rest.
    fn expect_rest(&self, line: &str) {
        let (count, seconds) = (self.log().matches(line).count() as u64, self.set_at.elapsed().as_secs());
        assert!((1..=1 + seconds / FIRST_REST_SECONDS).contains(&count), "{line} {count} times in {seconds} s");
    }

    /// Plays the whole film; returns the diagnostics.
    async fn play(&mut self) -> Value {
        self.max_kbps += 1;
        let (session, player) = start_encode(&self.server, &self.film, self.max_kbps).await;
        let bytes = player.fetch_all().await.unwrap();
        let diagnostics = diagnostics(&self.server, &session).await;
        player::stop(&self.server, &session).await;
        let joined = self.folder.path().join("joined.ts");
        std::fs::write(&joined, bytes).unwrap();
        let decoded = player::decode(&joined).await;
        assert_eq!(decoded.timing_faults(), [""; 0]);
        assert!((decoded.video_seconds() - 20.0).abs() < 0.5, "{} s", decoded.video_seconds());
        diagnostics
    }

    /// Plays the film until a run at the worker is made by this encoder, and begins with this line in its log.
    async fn play_until(&mut self, (encoder, line): (&str, &str)) {
        let began = Instant::now();
        loop {
            let played = self.play().await;
            let log = self.log();
            if log.contains(line) && played["pipeline"] == "remote" && played["encoder"] == encoder {
                return;
            }
            assert!(began.elapsed() < MAX_WAIT, "no run has {line}: {played}; log: {log}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_uses_its_hardware_and_gives_it_up_step_by_step() {
    let Some(mut desktop) = Desktop::start().await else { return };
    let [full, encoder_only, software] = [
        ("h264_nvenc", "h264_nvenc encodes, cuda decodes"),
        ("h264_nvenc", "h264_nvenc encodes, software decodes"),
        ("libx264", "libx264 encodes, software decodes"),
    ];
    desktop.play_until(full).await;

    desktop.set_runs(WORKS, "exit 1");
    desktop.play_until(encoder_only).await;
    desktop.expect_rest(full.1);

    desktop.set_runs("exit 1", "exit 1");
    desktop.play_until(software).await;
    desktop.expect_rest(encoder_only.1);
}
