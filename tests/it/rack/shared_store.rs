//! Servers that share a store of encoded segments.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hearthcast::config::BackendSetting;
use hearthcast::engine::shared_segments::StoreCounts;
use serde_json::json;

use super::s3_server::S3Server;
use crate::kit::media::flash_and_beep;
use crate::kit::player::{self, PlayerSession};
use crate::kit::response::send_until_ready;
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server};

const ENCODED: &str = "-c:v libx264 -preset ultrafast -g 50 -c:a aac";

/// A server over `folder`, with the store.
async fn start_server(store: &S3Server, folder: &Path) -> Server {
    let configure = |config: &mut hearthcast::config::Config| {
        config.segments = Some(store.address.clone());
        config.segments_endpoint = Some(store.endpoint.clone());
        config.segments_credentials_file = Some(store.credentials_file.clone());
        // Other tests make this machine slow, not the store.
        config.segments_deadline = MAX_WAIT;
        config.backend = BackendSetting::Ffmpeg;
    };
    kit::start_server_with(&[folder], configure).await
}

fn counts(server: &Server) -> StoreCounts {
    server.service.renditions.store_counts().expect("a store is configured")
}

/// Runs of all backends, as `/metrics` states them.
async fn runs_started(server: &Server) -> f64 {
    let request = server.request(reqwest::Method::GET, "/metrics").bearer_auth(&server.admin);
    let text = request.send().await.unwrap().text().await.unwrap();
    let samples = text.lines().filter(|line| line.starts_with("hearthcast_runs_started_total{"));
    samples.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// The segments of an encoded session of `film`, in `range` of all, with their ETags.
struct Playback<'a> {
    server: &'a Server,
    session: PlayerSession,
}

impl<'a> Playback<'a> {
    async fn start(server: &'a Server, film: &Path) -> Self {
        let options = json!({"forceTranscode": true, "profile": {"maxBitrateKbps": 90}});
        let (status, started) = player::start(server, film, options).await;
        assert_eq!(status, 200, "{started}");
        Self { server, session: PlayerSession::open(server, &started).await.unwrap() }
    }

    fn len(&self) -> usize {
        self.session.segments.len()
    }

    async fn segment(&self, index: usize) -> (Bytes, String) {
        let (url, _) = &self.session.segments[index];
        let answer = send_until_ready(self.server.client.get(url.clone())).await;
        assert_eq!(answer.status(), 200, "segment {index}");
        let etag = answer.headers()["etag"].to_str().unwrap().to_owned();
        (answer.bytes().await.unwrap(), etag)
    }

    async fn all(&self) -> Vec<(Bytes, String)> {
        let mut segments = Vec::new();
        for index in 0..self.len() {
            segments.push(self.segment(index).await);
        }
        segments
    }
}

/// Copies a film into a folder of another machine: with its modification time, as another inode.
fn copy_film(film: &Path, folder: &Path) -> std::path::PathBuf {
    let copy = folder.join(film.file_name().unwrap());
    std::fs::copy(film, &copy).unwrap();
    let modified = std::fs::metadata(film).unwrap().modified().unwrap();
    std::fs::File::options().write(true).open(&copy).unwrap().set_modified(modified).unwrap();
    copy
}

async fn wait_for_uploads(server: &Server, count: usize) {
    let deadline = Instant::now() + MAX_WAIT;
    while counts(server).uploaded < count as u64 {
        assert!(Instant::now() < deadline, "{:?}", counts(server));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_serves_stored_segments_byte_for_byte_without_an_encode() {
    let store = S3Server::start().await;
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let film = folders[0].path().join("film.mp4");
    flash_and_beep(&film, 24, ENCODED);
    let first = start_server(&store, folders[0].path()).await;
    let made = Playback::start(&first, &film).await.all().await;
    wait_for_uploads(&first, made.len()).await;
    assert_eq!((counts(&first).hits, counts(&first).failed_uploads), (0, 0));
    assert_eq!(store.object_files().len(), made.len());
    first.service.shutdown().await;
    drop(first);

    let second = start_server(&store, folders[1].path()).await;
    let copy = copy_film(&film, folders[1].path());
    assert_eq!(Playback::start(&second, &copy).await.all().await, made);
    assert_eq!((runs_started(&second).await, counts(&second).hits), (0.0, made.len() as u64));
    assert_eq!(counts(&second).uploaded, 0);
    second.service.shutdown().await;
    drop(second);

    let damaged = store.object_files().pop().unwrap();
    let mut bytes = std::fs::read(&damaged).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let third = start_server(&store, folders[2].path()).await;
    let copy = copy_film(&film, folders[2].path());
    let played = Playback::start(&third, &copy).await.all().await;
    assert_eq!(played.len(), made.len());
    assert!(runs_started(&third).await >= 1.0);
    assert_eq!(counts(&third).faults, 1, "{:?}", counts(&third));
    wait_for_uploads(&third, 1).await;
    let joined = folders[2].path().join("joined.ts");
    std::fs::write(&joined, played.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect::<Vec<_>>()).unwrap();
    let decoded = player::decode(&joined).await;
    assert_eq!(decoded.timing_faults(), [""; 0]);
    assert!((decoded.video_seconds() - 24.0).abs() < 0.5, "{} s", decoded.video_seconds());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_segment_fails_when_the_store_stops() {
    let mut store = S3Server::start().await;
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let film = folders[0].path().join("film.mp4");
    flash_and_beep(&film, 60, ENCODED);
    let first = start_server(&store, folders[0].path()).await;
    let playback = Playback::start(&first, &film).await;
    let mut made = Vec::new();
    for index in 0..6 {
        made.push(playback.segment(index).await);
    }
    wait_for_uploads(&first, 6).await;

    let second = start_server(&store, folders[1].path()).await;
    let copy = copy_film(&film, folders[1].path());
    let playback = Playback::start(&second, &copy).await;
    assert_eq!(playback.segment(0).await, made[0]);
    store.stop().await;
    for index in 1..playback.len() {
        playback.segment(index).await;
    }
    let counts = counts(&second);
    assert!(counts.hits >= 1 && !counts.is_available, "{counts:?}");
    // A few reads are under way when the third one fails, and one is tried each 30 s.
    assert!(counts.skipped + counts.faults < playback.len() as u64 / 2, "it is left alone: {counts:?}");
}
