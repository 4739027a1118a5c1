//! `/api/stream/audiobook`: one file with chapters, and a folder of files on one timeline.

use std::path::Path;

use hearthcast::domain::access::Principal;
use hearthcast::domain::progress::{ProgressItem, ProgressSave};
use serde_json::{Value, json};

use super::{delete, get, route_with_path};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::{self, Server, media};
use crate::library::catalogue::{start, wait_for};

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
async fn an_m4b_has_one_progress_wherever_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("book.m4b");
    make_book(&path, "-c:a aac -f ipod");
    let server = kit::start_server(&[folder.path()]).await;
    // As earlier versions stored it.
    let user = get(&server, "/api/auth/me").await["user"]["id"].as_str().unwrap().to_owned();
    let source = server.service.library.open(path.to_str().unwrap()).await.unwrap();
    let id = server.service.media.fingerprint(&source).await.unwrap();
    let item = ProgressItem::new_file(id, path.to_str().unwrap(), source.len);
    let save = ProgressSave { position_seconds: Some(2.5), duration_seconds: Some(6.0), ..ProgressSave::default() };
    server.service.progress.save(&user, item, save, |_| true).await.unwrap();
    server.service.clean_up_progress().await.unwrap();
    let as_book = get(&server, &route_with_path(PROGRESS_ROUTE, &path)).await;
    assert_eq!(
        (&as_book["progress"]["positionSeconds"], &as_book["progress"]["progressPercentage"]),
        (&json!(2.5), &json!(41.67))
    );

    let file_route = "/api/stream/progress";
    let body = json!({"mediaPath": path, "positionSeconds": 3.5, "durationSeconds": 6, "mediaType": "audio"});
    let saved = expect_success(server.post(file_route, &body).send().await.unwrap(), 200).await;
    assert_eq!((&saved["positionSeconds"], &saved["mediaType"]), (&json!(3.5), &json!("audiobook")));
    let book = get(&server, &route_with_path(PROGRESS_ROUTE, &path)).await["progress"].clone();
    assert_eq!((&book["version"], &book["chapterIndex"]), (&saved["version"], &json!(1)));
    let book = save_position(&server, &path, json!({"positionSeconds": 5.5})).await;
    let as_file = get(&server, &route_with_path(file_route, &path)).await["progress"].clone();
    assert_eq!((&as_file["positionSeconds"], &as_file["version"]), (&json!(5.5), &book["version"]));
    assert_eq!(get(&server, "/api/stream/history").await["total"], 0);
    assert_eq!(get(&server, "/api/stream/audiobook/history").await["total"], 1);
    assert_eq!(delete(&server, &route_with_path(file_route, &path)).await["deleted"], true);
    assert_eq!(get(&server, &route_with_path(PROGRESS_ROUTE, &path)).await["progress"], Value::Null);
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

#[tokio::test]
async fn the_parts_of_a_book_have_one_progress() {
    let folder = tempfile::tempdir().unwrap();
    let book_folder = folder.path().join("Audiobooks/Verne/The Island");
    std::fs::create_dir_all(&book_folder).unwrap();
    let parts: Vec<_> = [1, 2, 3].iter().map(|part| book_folder.join(format!("{part}.wav"))).collect();
    for (at, part) in parts.iter().enumerate() {
        let sine = format!("sine=frequency={}:duration={}:sample_rate=8000", 200 + at, 20 + 10 * at);
        media::run_ffmpeg(part, &["-f lavfi -i", &sine, "-c:a pcm_s16le"]);
    }
    let server = start(folder.path()).await;
    wait_for(&server, "/api/library/books", |answer| answer["books"][0]["fileCount"] == 3).await;

    // By the interface's routes of books and of files, whose client knows only files.
    let saved = save_position(&server, &parts[1], json!({"positionSeconds": 12.5, "durationSeconds": 30})).await;
    assert_eq!((&saved["audiobookPath"], &saved["positionSeconds"]), (&json!(parts[1]), &json!(12.5)));
    assert_eq!(get(&server, &route_with_path(PROGRESS_ROUTE, &parts[1])).await["progress"], saved);
    let book = get(&server, &route_with_path(BOOK_ROUTE, &parts[0])).await;
    assert_eq!((&book["audiobookPath"], &book["durationSeconds"]), (&json!(book_folder), &json!(90.0)));
    let progress = &book["progress"];
    assert_eq!((&progress["positionSeconds"], &progress["completed"]), (&json!(32.5), &json!(false)));
    assert_eq!((&progress["filePath"], &progress["filePositionSeconds"]), (&json!(parts[1]), &json!(12.5)));

    let file_route = "/api/stream/progress";
    let body = json!({"mediaPath": parts[1], "positionSeconds": 29.9, "durationSeconds": 30, "completed": true});
    let ended = expect_success(server.post(file_route, &body).send().await.unwrap(), 200).await;
    assert_eq!((&ended["completed"], &ended["positionSeconds"]), (&json!(true), &json!(30.0)));
    let listed = get(&server, "/api/library/books").await["books"][0].clone();
    assert_eq!((&listed["watched"], &listed["progress"]["positionSeconds"]), (&json!(false), &json!(50.0)));
    assert_eq!(listed["progress"]["filePath"], json!(parts[2]), "the next part is to be resumed");
    let watched = get(&server, "/api/library/items?kind=audiobook&watched=watched").await;
    let paths: Vec<_> = watched["items"].as_array().unwrap().iter().map(|item| item["mediaPath"].clone()).collect();
    assert_eq!(paths, [json!(parts[0]), json!(parts[1])]);
    let titles = get(&server, "/api/library/items?kind=audiobook").await;
    let states: Vec<_> = titles["items"].as_array().unwrap().iter().map(|item| item["watched"].clone()).collect();
    assert_eq!(states, [true, true, false]);

    let body = json!({"mediaPath": parts[2]});
    let done = expect_success(server.post("/api/stream/progress/watched", &body).send().await.unwrap(), 200).await;
    assert_eq!(done["completed"], true);
    let history = get(&server, "/api/stream/audiobook/history?status=completed").await;
    assert_eq!((&history["total"], &history["history"][0]["audiobookPath"]), (&json!(1), &json!(book_folder)));
    assert_eq!(get(&server, "/api/stream/history").await["total"], 0);
    assert_eq!(get(&server, "/api/stream/next-up").await["nextUp"], json!([]));
    assert_eq!(delete(&server, &route_with_path(file_route, &parts[0])).await["deleted"], true);
    assert_eq!(get(&server, &route_with_path(PROGRESS_ROUTE, &book_folder)).await["progress"], Value::Null);
}

#[tokio::test]
async fn earlier_progress_in_a_part_becomes_that_of_its_book() {
    let folder = tempfile::tempdir().unwrap();
    let book_folder = folder.path().join("Audiobooks/Verne/The Island");
    std::fs::create_dir_all(&book_folder).unwrap();
    for part in [1, 2] {
        let sine = format!("sine=frequency={}:duration=20:sample_rate=8000", 200 + part);
        media::run_ffmpeg(&book_folder.join(format!("{part}.wav")), &["-f lavfi -i", &sine, "-c:a pcm_s16le"]);
    }
    let server = start(folder.path()).await;
    wait_for(&server, "/api/library/books", |answer| answer["books"][0]["fileCount"] == 2).await;
    let user = get(&server, "/api/auth/me").await["user"]["id"].as_str().unwrap().to_owned();
    let path = book_folder.join("2.wav").to_str().unwrap().to_owned();
    let save = ProgressSave { position_seconds: Some(7.0), ..ProgressSave::default() };
    server.service.save_progress(&Principal::without_login(user), &path, save).await.unwrap();
    assert_eq!(get(&server, "/api/stream/history").await["total"], 1);
    server.service.unite_part_progress().await.unwrap();
    assert_eq!(get(&server, "/api/stream/history").await["total"], 0);
    let progress = get(&server, &route_with_path(PROGRESS_ROUTE, &book_folder)).await["progress"].clone();
    assert_eq!((&progress["positionSeconds"], &progress["filePositionSeconds"]), (&json!(27.0), &json!(7.0)));
}
