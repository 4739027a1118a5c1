//! Watching the library: moved files keep their progress, and changes are published as events.

use std::path::Path;
use std::time::{Duration, Instant};

use hearthcast::service::{events::EventContent, library_watcher};
use serde_json::{Value, json};

use super::{get, save, small_film};
use crate::kit::answer::success;
use crate::kit::{self, Server, film};

/// Waits until the only entry of a list has this path and is available.
async fn until_at(server: &Server, route: &str, field: &str, path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
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
async fn what_was_moved_is_found_again_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "film.mp4", 70);
    let server = kit::server(&[folder.path()]).await;
    let mut told = server.service.events.subscribe("nobody", None).unwrap();
    let body = json!({"mediaPath": film, "positionSeconds": 700, "durationSeconds": 5400});
    let saved: Value = success(server.post("/api/stream/progress", &body).send().await.unwrap(), 200).await;
    library_watcher::start_watchers(&server.service);
    // Moved twice, into new folders.
    let mut at = film;
    for name in ["a/b/other.mp4", "c/third.mp4"] {
        let to = folder.path().join(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::rename(&at, &to).unwrap();
        until_at(&server, "/api/stream/history", "mediaPath", &to).await;
        at = to;
    }
    let list = get(&server, "/api/stream/history").await;
    assert_eq!((&list["history"][0]["id"], &list["history"][0]["version"]), (&saved["id"], &saved["version"]));
    let folders = async {
        loop {
            if let EventContent::Library { folders } = &told.receiver.recv().await.unwrap().content {
                return folders.clone();
            }
        }
    };
    let folders = tokio::time::timeout(Duration::from_secs(20), folders).await.expect("a change is published");
    assert!(folders.iter().all(|path| path.starts_with(folder.path().to_str().unwrap())), "{folders:?}");
}

#[tokio::test]
async fn what_was_moved_while_no_server_ran_is_found_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "film.mp4", 71);
    let book = folder.path().join("Book");
    std::fs::create_dir(&book).unwrap();
    for n in 1..3 {
        let sound = format!("sine=frequency={}:duration=1:sample_rate=8000", 100 * n);
        film::make(&book.join(format!("{n}.wav")), &["-f lavfi -i", &sound, "-c:a pcm_s16le"]);
    }
    let server = kit::server(&[folder.path()]).await;
    save(&server, &film, 700.0, json!({})).await;
    let body = json!({"audiobookPath": book, "positionSeconds": 1.5});
    success(server.post("/api/stream/audiobook/progress", &body).send().await.unwrap(), 200).await;
    let (film_now, book_now) = (folder.path().join("films/renamed.mp4"), folder.path().join("books/Renamed"));
    std::fs::create_dir(folder.path().join("films")).unwrap();
    std::fs::create_dir(folder.path().join("books")).unwrap();
    std::fs::rename(&film, &film_now).unwrap();
    std::fs::rename(&book, &book_now).unwrap();
    assert_eq!(get(&server, "/api/stream/history").await["history"][0]["available"], false);
    library_watcher::start_watchers(&server.service);
    until_at(&server, "/api/stream/history", "mediaPath", &film_now).await;
    until_at(&server, "/api/stream/audiobook/history", "audiobookPath", &book_now).await;
}
