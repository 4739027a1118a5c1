//! `/api/stream/audiobook`: one file with chapters, and a folder of files on one timeline.

use std::path::Path;

use serde_json::{Value, json};

use super::{delete, get, query};
use crate::kit::answer::{refused, success};
use crate::kit::{self, Server, film};

const BOOK: &str = "/api/stream/audiobook";
const PROGRESS: &str = "/api/stream/audiobook/progress";

async fn save(server: &Server, path: &Path, more: Value) -> Value {
    let mut body = json!({"audiobookPath": path});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    success(server.post(PROGRESS, &body).send().await.unwrap(), 200).await["progress"].clone()
}

/// Makes an audio file with three chapters of 2, 3 and 1 seconds.
fn book(path: &Path, codec: &str) {
    let folder = path.parent().unwrap();
    let marks = folder.join("marks.ffmeta");
    let chapter = |start: u32, end: u32, title: &str| {
        format!("[CHAPTER]\nTIMEBASE=1/1000\nSTART={}\nEND={}\ntitle={title}\n", start * 1000, end * 1000)
    };
    let text = [
        ";FFMETADATA1\nalbum=The Book\n".to_owned(),
        chapter(0, 2, "One"),
        chapter(2, 5, "Two"),
        chapter(5, 6, "Three"),
    ];
    std::fs::write(&marks, text.concat()).unwrap();
    let input = format!("-i {} -map_metadata 1 -map 0:a {codec}", marks.display());
    film::make(path, &["-f lavfi -i", "sine=frequency=300:duration=6:sample_rate=44100", &input]);
    std::fs::remove_file(marks).unwrap();
}

#[tokio::test]
async fn a_book_of_one_file_has_its_chapters() {
    let folder = tempfile::tempdir().unwrap();
    let server = kit::server(&[folder.path()]).await;
    for (name, codec) in [("book.m4b", "-c:a aac -f ipod"), ("book.mp3", "-c:a libmp3lame"), ("book.mkv", "-c:a aac")] {
        let path = folder.path().join(name);
        book(&path, codec);
        let told = get(&server, &query(BOOK, &path)).await;
        let chapters: Vec<(&str, f64)> = told["chapters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|chapter| (chapter["title"].as_str().unwrap_or("-"), chapter["startSeconds"].as_f64().unwrap()))
            .collect();
        assert_eq!(chapters, [("One", 0.0), ("Two", 2.0), ("Three", 5.0)], "{name}");
        assert!((told["durationSeconds"].as_f64().unwrap() - 6.0).abs() < 0.1, "{name}: {told}");
        assert_eq!((&told["files"][0]["path"], &told["progress"]), (&json!(path), &json!(null)));
        let bytes = server.get(told["files"][0]["directUrl"].as_str().unwrap()).send().await.unwrap();
        assert_eq!(bytes.status(), 200);
        assert_eq!(bytes.bytes().await.unwrap(), std::fs::read(&path).unwrap());
        let saved = save(&server, &path, json!({"positionSeconds": 3.5})).await;
        assert_eq!((&saved["chapterIndex"], &saved["chapterPositionSeconds"]), (&json!(1), &json!(1.5)), "{name}");
    }
}

#[tokio::test]
async fn a_listener_is_remembered_with_rate_and_percent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("book.m4b");
    book(&path, "-c:a aac -f ipod");
    let server = kit::server(&[folder.path()]).await;
    assert_eq!(get(&server, &query(PROGRESS, &path)).await, json!({"progress": null}));
    let sent = json!({
        "title": "The Book", "chapterIndex": 12, "chapterPositionSeconds": 30, "positionSeconds": 900,
        "durationSeconds": 3600, "progressPercentage": 25.4, "playbackRate": 1.25, "completed": false,
    });
    let saved = save(&server, &path, sent.clone()).await;
    for (field, value) in sent.as_object().unwrap() {
        assert_eq!(saved[field].as_f64(), value.as_f64(), "{field}");
    }
    assert_eq!((&saved["audiobookPath"], &saved["title"]), (&json!(path), &json!("The Book")));
    assert_eq!((&saved["version"], &saved["applied"]), (&json!(1), &json!(true)));
    assert_eq!(get(&server, &query(PROGRESS, &path)).await["progress"], saved);

    // An implausible or missing percentage is computed, and the rate stays.
    let off = save(&server, &path, json!({"positionSeconds": 1800, "progressPercentage": 90})).await;
    assert_eq!((&off["progressPercentage"], &off["playbackRate"]), (&json!(50.0), &json!(1.25)));
    assert_eq!(off["durationSeconds"], 3600.0);
    let late = json!({"positionSeconds": 1, "clientUpdatedAt": "2020-01-01T00:00:00Z"});
    assert_eq!(save(&server, &path, late).await["applied"], false);
    let done = save(&server, &path, json!({"positionSeconds": 9999, "completed": true})).await;
    assert_eq!((&done["progressPercentage"], &done["positionSeconds"]), (&json!(100.0), &json!(3600.0)));

    let history = get(&server, "/api/stream/audiobook/history?status=completed").await;
    assert_eq!((&history["total"], &history["history"][0]["available"]), (&json!(1), &json!(true)));
    assert_eq!(get(&server, "/api/stream/history").await["total"], 0, "audiobooks are not in the history of films");
    assert_eq!(delete(&server, &query(PROGRESS, &path)).await, json!({"audiobookPath": path, "deleted": true}));
    assert_eq!(delete(&server, &query(PROGRESS, &path)).await["deleted"], false);

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
        let refusal = refused(server.post(PROGRESS, &body).send().await.unwrap(), 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], field, "{wrong}");
    }
    for (path, status, code) in [("/etc", 403, "FORBIDDEN"), ("book", 400, "INVALID_PATH")] {
        let body = json!({"audiobookPath": path, "positionSeconds": 1});
        refused(server.post(PROGRESS, &body).send().await.unwrap(), status, code).await;
    }
}

#[tokio::test]
async fn a_stray_return_to_the_start_loses_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("book.m4b");
    book(&path, "-c:a aac -f ipod");
    let server = kit::server(&[folder.path()]).await;
    let far = save(&server, &path, json!({"positionSeconds": 1312.5, "durationSeconds": 5400})).await;
    assert_eq!(far["positionHistory"], json!([]));
    let stray = save(&server, &path, json!({"positionSeconds": 0})).await;
    let kept = json!([{"positionSeconds": 1312.5, "at": far["updatedAt"]}]);
    assert_eq!((&stray["positionSeconds"], &stray["positionHistory"]), (&json!(0.0), &kept));
    assert_eq!(get(&server, &query(BOOK, &path)).await["progress"]["positionHistory"], kept);
}

#[tokio::test]
async fn a_folder_is_one_book_on_one_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = folder.path().join("Author/Title vol. 2");
    std::fs::create_dir_all(shelf.join("Disc 2")).unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for (name, seconds) in [("1 one.wav", 2), ("2 two.wav", 3), ("10 ten.wav", 1), ("Disc 2/1.wav", 4)] {
        let sound = format!("sine=frequency={}:duration={seconds}:sample_rate=8000", 200 + seconds);
        film::make(&shelf.join(name), &["-f lavfi -i", &sound, "-c:a pcm_s16le"]);
    }
    std::fs::write(shelf.join("cover.jpg"), "no sound").unwrap();
    let server = kit::server(&[folder.path()]).await;
    let told = get(&server, &query(BOOK, &shelf)).await;
    let of = |list: &str, field: &str| -> Vec<Value> {
        told[list].as_array().unwrap().iter().map(|item| item[field].clone()).collect()
    };
    assert_eq!(of("files", "startSeconds"), [0.0, 2.0, 5.0, 6.0]);
    assert_eq!(of("chapters", "title"), ["1 one", "2 two", "10 ten", "1"]);
    assert_eq!(of("chapters", "fileIndex"), [0, 1, 2, 3]);
    assert_eq!((&told["durationSeconds"], &told["title"]), (&json!(10.0), &json!("Title vol. 2")));

    let saved = save(&server, &shelf, json!({"positionSeconds": 5.5})).await;
    assert_eq!((&saved["chapterIndex"], &saved["chapterPositionSeconds"]), (&json!(2), &json!(0.5)));
    assert_eq!((&saved["progressPercentage"], &saved["title"]), (&json!(55.0), &json!("Title vol. 2")));

    // A moved book is still the same book, also when it loses a file.
    let moved = folder.path().join("Elsewhere");
    std::fs::rename(&shelf, &moved).unwrap();
    assert_eq!(get(&server, &query(PROGRESS, &moved)).await["progress"]["positionSeconds"], 5.5);
    save(&server, &moved, json!({"positionSeconds": 6.5})).await;
    std::fs::rename(moved.join("Disc 2/1.wav"), folder.path().join("away.wav")).unwrap();
    let fewer = get(&server, &query(PROGRESS, &moved)).await;
    assert_eq!(fewer["progress"]["positionSeconds"], 6.5, "{fewer}");
    let history = get(&server, "/api/stream/audiobook/history").await;
    assert_eq!((&history["total"], &history["history"][0]["available"]), (&json!(1), &json!(true)));

    let empty = server.get(&query(BOOK, &folder.path().join("empty"))).send().await.unwrap();
    refused(empty, 415, "UNSUPPORTED_MEDIA_TYPE").await;
    let missing = server.get(&query(BOOK, &folder.path().join("none"))).send().await.unwrap();
    refused(missing, 404, "NOT_FOUND").await;
}
