//! Recordings of two servers of one database and one recordings folder: each is made once, also over a fail-over, and the former
//! active server no longer reaches the file.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::database_proxy::DatabaseProxy;
use super::household::{Household, Server};
use crate::ingest::transport_stream_source::{self, FILM_SECONDS, TransportStreamSource};
use crate::kit::player;
use crate::kit::response::{expect_success, send_until_ready};
use crate::kit::wait::MAX_WAIT;

/// Exit status of a server that another one has replaced.
const REPLACED_EXIT_STATUS: i32 = 75;

/// Longest gap in a recording over a fail-over, at 90 kHz: what the source sent before the new server was connected, and at
/// most 10 s that were not stored.
const MAX_GAP: i64 = 25 * 90_000;

/// A household with an external channel that may be recorded.
struct Studio {
    household: Household,
    source: TransportStreamSource,
    recorded: PathBuf,
}

impl Studio {
    async fn start() -> Option<Self> {
        let mut household = Household::start().await?;
        let (film, recorded) = (household.folder.path().join("live.ts"), household.folder.path().join("recorded"));
        transport_stream_source::make_transport_stream(&film);
        std::fs::create_dir(&recorded).unwrap();
        household.settings = vec![
            ("HEARTHCAST_RECORDINGS", recorded.to_str().unwrap().to_owned()),
            ("HEARTHCAST_ALLOWED_SOURCES", "127.0.0.1".to_owned()),
        ];
        Some(Self { household, source: TransportStreamSource::start(&film, FILM_SECONDS).await, recorded })
    }

    async fn request(&self, server: &Server, method: Method, path: &str, body: &Value) -> reqwest::Response {
        let request = server.client.request(method, format!("{}{path}", server.base)).json(body);
        send_until_ready(request.bearer_auth(&self.household.admin).timeout(Duration::from_secs(30))).await
    }

    async fn add_channel(&self, server: &Server) -> Value {
        let body = json!({
            "name": "Remote", "sourceType": "external", "source": {"url": self.source.url()},
            "provenance": {"sourceName": "Own antenna", "sourceUrl": "https://antenna.example/", "importedAt": "2026-01-01"},
            "rights": {"basis": "own-content", "statement": "Received with my own antenna, for my own household.",
                "recordingBasis": "My own pictures."},
            "attestation": {"authorized": true},
        });
        let answer = self.request(server, Method::POST, "/api/livetv/channels", &body).await;
        expect_success(answer, 201).await["channel"]["id"].clone()
    }

    /// Schedules a recording, in seconds from now; returns its id.
    async fn schedule(&self, server: &Server, channel: &Value, from: u64, to: u64) -> String {
        let time = |seconds: u64| (jiff::Timestamp::now() + Duration::from_secs(seconds)).to_string();
        let body = json!({"channelId": channel, "start": time(from), "end": time(to)});
        let answer = self.request(server, Method::POST, "/api/livetv/recordings", &body).await;
        expect_success(answer, 201).await["recording"]["id"].as_str().unwrap().to_owned()
    }

    async fn recordings(&self, server: &Server) -> Vec<Value> {
        let answer = self.request(server, Method::GET, "/api/livetv/recordings", &json!({})).await;
        expect_success(answer, 200).await["recordings"].as_array().unwrap().clone()
    }

    /// Waits until the database has a length of a recording's file; returns its path and the bytes up to there.
    async fn wait_until_stored(&self, id: &str) -> (PathBuf, Vec<u8>) {
        let statement = format!(
            "SELECT json::jsonb->'written'->>'bytes' FROM hearthcast_record WHERE tree = 'recordings' AND key = '{id}'"
        );
        let path =
            format!("SELECT json::jsonb->>'path' FROM hearthcast_record WHERE tree = 'recordings' AND key = '{id}'");
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let len: usize = self.household.database.sql(&statement).parse().unwrap();
            if len > 0 {
                let path = PathBuf::from(self.household.database.sql(&path));
                let bytes = std::fs::read(&path).unwrap()[..len].to_vec();
                return (path, bytes);
            }
            assert!(Instant::now() < deadline, "the length is stored");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until all recordings are complete.
    async fn wait_until_complete(&self, server: &Server) -> Vec<Value> {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let recordings = self.recordings(server).await;
            if recordings.iter().all(|recording| recording["state"] == "complete") {
                return recordings;
            }
            assert!(Instant::now() < deadline, "{recordings:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// All files below the recordings folder, sorted.
    fn files(&self) -> Vec<PathBuf> {
        let folders = std::fs::read_dir(&self.recorded).unwrap().flatten();
        let mut files: Vec<_> =
            folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten()).collect();
        files.sort_by_key(std::fs::DirEntry::path);
        files.iter().map(std::fs::DirEntry::path).collect()
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.household.folder.path().join(name).join("log")).unwrap()
    }

    /// Asserts that the files are those of the recordings, that each plays, and that their sizes are as recorded.
    async fn expect_files(&self, recordings: &[Value]) {
        let mut paths: Vec<PathBuf> =
            recordings.iter().map(|recording| PathBuf::from(recording["path"].as_str().unwrap())).collect();
        paths.sort();
        assert_eq!(self.files(), paths);
        for recording in recordings {
            let path = Path::new(recording["path"].as_str().unwrap());
            assert_eq!(recording["sizeBytes"], std::fs::metadata(path).unwrap().len(), "{recording}");
            let (start, length) = player::check_decodes_through(path, MAX_GAP).await;
            assert!((0.9..1.1).contains(&start), "the file does not begin at 1 s: {start}");
            assert!(length > 4.0, "{length} s: {recording}");
            let recorded = recording["recordedSeconds"].as_f64().unwrap();
            assert!(length + 0.1 > recorded, "{length} s of {recorded} s");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recordings_are_made_once_over_a_kill_9_of_the_active_server() {
    let Some(studio) = Studio::start().await else { return };
    let household = &studio.household;
    let mut active = household.server("a");
    active.wait_until_listening();
    let mut standby = household.server("b");
    standby.wait_until_standby();
    let channel = studio.add_channel(&standby).await;
    let running = studio.schedule(&active, &channel, 0, 45).await;
    let scheduled = studio.schedule(&standby, &channel, 30, 40).await;
    let (path, before) = studio.wait_until_stored(&running).await;
    let states: Vec<_> = studio.recordings(&standby).await.iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states, ["scheduled", "recording"], "latest start first");
    active.kill();
    let address = active.base.strip_prefix("http://").unwrap().to_owned();
    standby.wait_until_listening();
    let mut former = household.server_at("a", &address, &[]);
    former.wait_until_standby();

    let recordings = studio.wait_until_complete(&former).await;
    let ids: Vec<_> = recordings.iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [&*scheduled, &*running]);
    assert_eq!(recordings[1]["path"].as_str(), path.to_str(), "it continues as after a restart");
    studio.expect_files(&recordings).await;
    let whole = std::fs::read(&path).unwrap();
    assert!(
        whole.starts_with(&before) && whole.len() > before.len() * 3 / 2,
        "{} bytes, then {}",
        before.len(),
        whole.len()
    );
    eprintln!("{} s recorded, {} s missing", recordings[1]["recordedSeconds"], recordings[1]["missingSeconds"]);
    assert_eq!(studio.log("a").matches("recording complete").count(), 0);
    assert_eq!(studio.log("b").matches("recording complete").count(), 2);
    assert_eq!(studio.source.accepted_connections(), 2, "the standby does not receive the channel");
    household.expect_dense_numbers();
}

/// Lets another server take over while the active one records and does not learn of it, because it is stopped or has no
/// connection to the database; then lets it learn.
async fn replace_recording_server(studio: &Studio, is_stopped: bool) {
    let household = &studio.household;
    let proxy = DatabaseProxy::start(&household.database.url).await;
    let mut former = household.server_with_database("a", &proxy.url);
    former.wait_until_listening();
    let mut active = household.server("b");
    active.wait_until_standby();
    let channel = studio.add_channel(&former).await;
    let id = studio.schedule(&former, &channel, 0, 50).await;
    let (path, before) = studio.wait_until_stored(&id).await;
    let former_file = std::fs::metadata(&path).unwrap().ino();
    if is_stopped {
        former.signal(Signal::STOP);
        let sessions = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND granted";
        assert_eq!(household.database.sql(sessions), "1");
    } else {
        // The database notices that the connection is gone, as with keepalives.
        proxy.cut();
    }
    active.wait_until_listening();
    // Not the bytes that the former server had not stored.
    let deadline = Instant::now() + MAX_WAIT;
    let min_len = before.len() as u64 + 100_000;
    while !std::fs::metadata(&path).is_ok_and(|file| file.ino() != former_file && file.len() > min_len) {
        assert!(Instant::now() < deadline, "the new server records");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    if !is_stopped {
        // Longer than the interval at which it stores the length, and then truncates the file without it.
        tokio::time::sleep(Duration::from_secs(12)).await;
        assert_eq!(
            former.child.try_wait().unwrap(),
            None,
            "without the database it does not learn that it was replaced"
        );
    }
    let snapshot = std::fs::read(&path).unwrap();
    if is_stopped {
        former.signal(Signal::CONT);
    }
    proxy.restore();
    assert_eq!(former.child.wait().unwrap().code(), Some(REPLACED_EXIT_STATUS));
    let recordings = studio.wait_until_complete(&active).await;
    assert_eq!(recordings.len(), 1);
    assert_eq!(recordings[0]["path"].as_str(), path.to_str());
    studio.expect_files(&recordings).await;
    let whole = std::fs::read(&path).unwrap();
    assert!(whole.starts_with(&before), "the part of the former server");
    assert!(whole.starts_with(&snapshot), "what the new server had recorded is as it wrote it");
    assert!(whole.len() > snapshot.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_former_server_writes_nothing_into_a_recording() {
    let Some(studio) = Studio::start().await else { return };
    replace_recording_server(&studio, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_server_without_its_database_writes_nothing_into_a_recording() {
    let Some(studio) = Studio::start().await else { return };
    replace_recording_server(&studio, false).await;
}
