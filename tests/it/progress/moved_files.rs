//! Watching the library: moved files keep their progress, and changes are published as events.

use std::path::Path;
use std::time::{Duration, Instant};

use hearthcast::service::{catalogue, events::EventContent, library_watcher};
use serde_json::{Value, json};

use super::{get, save, small_film};
use crate::kit::response::expect_success;
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, Server, media};

/// Waits until the only entry of a list has this path and is available.
async fn wait_until_found_at(server: &Server, route: &str, field: &str, path: &Path) {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let list = get(server, route).await;
        let entry = &list["history"][0];
        if entry[field] == json!(path) && entry["available"] == true {
            assert_eq!(list["total"], 1);
            return;
        }
        assert!(Instant::now() < deadline, "not found again: {list}");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

#[tokio::test]
async fn moved_files_are_found_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "film.mp4", 70);
    let server = kit::start_server(&[folder.path()]).await;
    let mut subscription = server.service.events.subscribe("u_unknown", None).unwrap();
    let body = json!({"mediaPath": film, "positionSeconds": 700, "durationSeconds": 5400});
    let saved: Value = expect_success(server.post("/api/stream/progress", &body).send().await.unwrap(), 200).await;
    catalogue::start(&server.service);
    library_watcher::start_watchers(&server.service);
    // Moved twice, into new folders.
    let mut current_path = film;
    for name in ["a/b/other.mp4", "c/third.mp4"] {
        let new_path = folder.path().join(name);
        std::fs::create_dir_all(new_path.parent().unwrap()).unwrap();
        std::fs::rename(&current_path, &new_path).unwrap();
        wait_until_found_at(&server, "/api/stream/history", "mediaPath", &new_path).await;
        current_path = new_path;
    }
    let list = get(&server, "/api/stream/history").await;
    assert_eq!((&list["history"][0]["id"], &list["history"][0]["version"]), (&saved["id"], &saved["version"]));
    let folders = async {
        loop {
            if let EventContent::Library { folders } = &subscription.receiver.recv().await.unwrap().content {
                return folders.clone();
            }
        }
    };
    let folders = tokio::time::timeout(MAX_WAIT, folders).await.expect("a change is published");
    assert!(folders.iter().all(|path| path.starts_with(folder.path().to_str().unwrap())), "{folders:?}");
}

#[tokio::test]
async fn files_moved_while_stopped_are_found_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "film.mp4", 71);
    let book = folder.path().join("Book");
    std::fs::create_dir(&book).unwrap();
    for n in 1..3 {
        let sine = format!("sine=frequency={}:duration=1:sample_rate=8000", 100 * n);
        media::run_ffmpeg(&book.join(format!("{n}.wav")), &["-f lavfi -i", &sine, "-c:a pcm_s16le"]);
    }
    let server = kit::start_server(&[folder.path()]).await;
    save(&server, &film, 700.0, json!({})).await;
    let body = json!({"audiobookPath": book, "positionSeconds": 1.5});
    expect_success(server.post("/api/stream/audiobook/progress", &body).send().await.unwrap(), 200).await;
    let (moved_film, moved_book) = (folder.path().join("films/renamed.mp4"), folder.path().join("books/Renamed"));
    std::fs::create_dir(folder.path().join("films")).unwrap();
    std::fs::create_dir(folder.path().join("books")).unwrap();
    std::fs::rename(&film, &moved_film).unwrap();
    std::fs::rename(&book, &moved_book).unwrap();
    assert_eq!(get(&server, "/api/stream/history").await["history"][0]["available"], false);
    catalogue::start(&server.service);
    library_watcher::start_watchers(&server.service);
    wait_until_found_at(&server, "/api/stream/history", "mediaPath", &moved_film).await;
    wait_until_found_at(&server, "/api/stream/audiobook/history", "audiobookPath", &moved_book).await;
}
