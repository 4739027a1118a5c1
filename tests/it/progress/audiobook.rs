//! `/api/stream/audiobook`: one file with chapters, and a folder of files on one timeline.

use std::path::Path;

use serde_json::{Value, json};

use super::{delete, get, route_with_path};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::{self, Server, media};

const BOOK_ROUTE: &str = "/api/stream/audiobook";
const PROGRESS_ROUTE: &str = "/api/stream/audiobook/progress";

async fn save_position(server: &Server, path: &Path, fields: Value) -> Value {
    let mut body = json!({"audiobookPath": path});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    expect_success(server.post(PROGRESS_ROUTE, &body).send().await.unwrap(), 200).await["progress"].clone()
}

/// Makes an audio file with three chapters of 2, 3 and 1 seconds.
fn make_book(path: &Path, codec: &str) {
    let folder = path.parent().unwrap();
    let chapter_file = folder.join("marks.ffmeta");
    let chapter = |start: u32, end: u32, title: &str| {
        format!("[CHAPTER]\nTIMEBASE=1/1000\nSTART={}\nEND={}\ntitle={title}\n", start * 1000, end * 1000)
    };
    let text = [
        ";FFMETADATA1\nalbum=The Book\n".to_owned(),
        chapter(0, 2, "One"),
        chapter(2, 5, "Two"),
        chapter(5, 6, "Three"),
    ];
    std::fs::write(&chapter_file, text.concat()).unwrap();
    let input = format!("-i {} -map_metadata 1 -map 0:a {codec}", chapter_file.display());
    media::run_ffmpeg(path, &["-f lavfi -i", "sine=frequency=300:duration=6:sample_rate=44100", &input]);
    std::fs::remove_file(chapter_file).unwrap();
}

#[tokio::test]
async fn a_book_in_one_file_has_its_chapters() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    for (name, codec) in [("book.m4b", "-c:a aac -f ipod"), ("book.mp3", "-c:a libmp3lame"), ("book.mkv", "-c:a aac")] {
        let path = folder.path().join(name);
        make_book(&path, codec);
        let book = get(&server, &route_with_path(BOOK_ROUTE, &path)).await;
        let chapters: Vec<(&str, f64)> = book["chapters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|chapter| (chapter["title"].as_str().unwrap_or("-"), chapter["startSeconds"].as_f64().unwrap()))
            .collect();
        assert_eq!(chapters, [("One", 0.0), ("Two", 2.0), ("Three", 5.0)], "{name}");
        assert!((book["durationSeconds"].as_f64().unwrap() - 6.0).abs() < 0.1, "{name}: {book}");
        assert_eq!((&book["files"][0]["path"], &book["progress"]), (&json!(path), &json!(null)));
        let bytes = server.get(book["files"][0]["directUrl"].as_str().unwrap()).send().await.unwrap();
        assert_eq!(bytes.status(), 200);
        assert_eq!(bytes.bytes().await.unwrap(), std::fs::read(&path).unwrap());
        let saved = save_position(&server, &path, json!({"positionSeconds": 3.5})).await;
        assert_eq!((&saved["chapterIndex"], &saved["chapterPositionSeconds"]), (&json!(1), &json!(1.5)), "{name}");
    }
}

#[tokio::test]
async fn audiobook_progress_stores_rate_and_percentage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("book.m4b");
    make_book(&path, "-c:a aac -f ipod");
    let server = kit::start_server(&[folder.path()]).await;
    assert_eq!(get(&server, &route_with_path(PROGRESS_ROUTE, &path)).await, json!({"progress": null}));
    let sent = json!({
        "title": "The Book", "chapterIndex": 12, "chapterPositionSeconds": 30, "positionSeconds": 900,
        "durationSeconds": 3600, "progressPercentage": 25.4, "playbackRate": 1.25, "completed": false,
    });
    let saved = save_position(&server, &path, sent.clone()).await;
    for (field, value) in sent.as_object().unwrap() {
        assert_eq!(saved[field].as_f64(), value.as_f64(), "{field}");
    }
    assert_eq!((&saved["audiobookPath"], &saved["title"]), (&json!(path), &json!("The Book")));
    assert_eq!((&saved["version"], &saved["applied"]), (&json!(1), &json!(true)));
    assert_eq!(get(&server, &route_with_path(PROGRESS_ROUTE, &path)).await["progress"], saved);

    // An implausible or missing percentage is computed, and the rate stays.
    let implausible = save_position(&server, &path, json!({"positionSeconds": 1800, "progressPercentage": 90})).await;
    assert_eq!((&implausible["progressPercentage"], &implausible["playbackRate"]), (&json!(50.0), &json!(1.25)));
    assert_eq!(implausible["durationSeconds"], 3600.0);
    let late = json!({"positionSeconds": 1, "clientUpdatedAt": "2020-01-01T00:00:00Z"});
    assert_eq!(save_position(&server, &path, late).await["applied"], false);
    let done = save_position(&server, &path, json!({"positionSeconds": 9999, "completed": true})).await;
    assert_eq!((&done["progressPercentage"], &done["positionSeconds"]), (&json!(100.0), &json!(3600.0)));

    let history = get(&server, "/api/stream/audiobook/history?status=completed").await;
    assert_eq!((&history["total"], &history["history"][0]["available"]), (&json!(1), &json!(true)));
    assert_eq!(get(&server, "/api/stream/history").await["total"], 0, "audiobooks are not in the history of films");
    assert_eq!(
        delete(&server, &route_with_path(PROGRESS_ROUTE, &path)).await,
        json!({"audiobookPath": path, "deleted": true})
    );
    assert_eq!(delete(&server, &route_with_path(PROGRESS_ROUTE, &path)).await["deleted"], false);

    for (wrong, field) in [
        (json!({"positionSeconds": -1}), "positionSeconds"),
        (json!({"positionSeconds": 1, "playbackRate": 0.2}), "playbackRate"),
        (json!({"positionSeconds": 1, "playbackRate": 4.5}), "playbackRate"),
        (json!({"positionSeconds": 1, "chapterIndex": -1}), "chapterIndex"),
        (json!({"positionSeconds": 1, "progressPercentage": 101}), "progressPercentage"),
        (json!({}), "positionSeconds"),
    ] {
        let mut body = wrong.clone();
        body["audiobookPath"] = json!(path);
        let refusal =
            expect_error(server.post(PROGRESS_ROUTE, &body).send().await.unwrap(), 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], field, "{wrong}");
    }
    for (path, status, code) in [("/etc", 403, "FORBIDDEN"), ("book", 400, "INVALID_PATH")] {
        let body = json!({"audiobookPath": path, "positionSeconds": 1});
        expect_error(server.post(PROGRESS_ROUTE, &body).send().await.unwrap(), status, code).await;
    }
}

#[tokio::test]
async fn a_jump_back_to_the_start_keeps_the_old_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("book.m4b");
    make_book(&path, "-c:a aac -f ipod");
    let server = kit::start_server(&[folder.path()]).await;
    let far = save_position(&server, &path, json!({"positionSeconds": 1312.5, "durationSeconds": 5400})).await;
    assert_eq!(far["positionHistory"], json!([]));
    let stray = save_position(&server, &path, json!({"positionSeconds": 0})).await;
    let history = json!([{"positionSeconds": 1312.5, "at": far["updatedAt"]}]);
    assert_eq!((&stray["positionSeconds"], &stray["positionHistory"]), (&json!(0.0), &history));
    assert_eq!(get(&server, &route_with_path(BOOK_ROUTE, &path)).await["progress"]["positionHistory"], history);
}

#[tokio::test]
async fn a_folder_is_one_book_on_one_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let book_folder = folder.path().join("Author/Title vol. 2");
    std::fs::create_dir_all(book_folder.join("Disc 2")).unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for (name, seconds) in [("1 one.wav", 2), ("2 two.wav", 3), ("10 ten.wav", 1), ("Disc 2/1.wav", 4)] {
        let sine = format!("sine=frequency={}:duration={seconds}:sample_rate=8000", 200 + seconds);
        media::run_ffmpeg(&book_folder.join(name), &["-f lavfi -i", &sine, "-c:a pcm_s16le"]);
    }
    std::fs::write(book_folder.join("cover.jpg"), "no audio").unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let book = get(&server, &route_with_path(BOOK_ROUTE, &book_folder)).await;
    let values = |list: &str, field: &str| -> Vec<Value> {
        book[list].as_array().unwrap().iter().map(|item| item[field].clone()).collect()
    };
    assert_eq!(values("files", "startSeconds"), [0.0, 2.0, 5.0, 6.0]);
    assert_eq!(values("chapters", "title"), ["1 one", "2 two", "10 ten", "1"]);
    assert_eq!(values("chapters", "fileIndex"), [0, 1, 2, 3]);
    assert_eq!((&book["durationSeconds"], &book["title"]), (&json!(10.0), &json!("Title vol. 2")));

    let saved = save_position(&server, &book_folder, json!({"positionSeconds": 5.5})).await;
    assert_eq!((&saved["chapterIndex"], &saved["chapterPositionSeconds"]), (&json!(2), &json!(0.5)));
    assert_eq!((&saved["progressPercentage"], &saved["title"]), (&json!(55.0), &json!("Title vol. 2")));

    // A moved book is still the same book, also when it loses a file.
    let moved = folder.path().join("Moved");
    std::fs::rename(&book_folder, &moved).unwrap();
    assert_eq!(get(&server, &route_with_path(PROGRESS_ROUTE, &moved)).await["progress"]["positionSeconds"], 5.5);
    save_position(&server, &moved, json!({"positionSeconds": 6.5})).await;
    std::fs::rename(moved.join("Disc 2/1.wav"), folder.path().join("away.wav")).unwrap();
    let fewer = get(&server, &route_with_path(PROGRESS_ROUTE, &moved)).await;
    assert_eq!(fewer["progress"]["positionSeconds"], 6.5, "{fewer}");
    let history = get(&server, "/api/stream/audiobook/history").await;
    assert_eq!((&history["total"], &history["history"][0]["available"]), (&json!(1), &json!(true)));

    let no_media = server.get(&route_with_path(BOOK_ROUTE, &folder.path().join("empty"))).send().await.unwrap();
    expect_error(no_media, 415, "UNSUPPORTED_MEDIA_TYPE").await;
    let missing = server.get(&route_with_path(BOOK_ROUTE, &folder.path().join("none"))).send().await.unwrap();
    expect_error(missing, 404, "NOT_FOUND").await;
}
