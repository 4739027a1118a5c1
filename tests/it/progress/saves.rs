//! `/api/stream/progress`: one film, from the first save to the reset.

use serde_json::{Value, json};

use super::{delete, get, path_text, route_with_path, save, small_film};
use crate::kit::response::{expect_error, expect_success};
use crate::kit::{self};

const ROUTE: &str = "/api/stream/progress";

#[tokio::test]
async fn progress_from_the_first_save_to_the_reset() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "it's 100% \u{1f600}.mp4", 1);
    let server = kit::start_server(&[folder.path()]).await;
    assert_eq!(get(&server, &route_with_path(ROUTE, &film)).await, json!({"progress": null}));

    let first = save(&server, &film, 1312.5004, json!({"player": "web", "completed": false})).await;
    for (field, value) in [
        ("mediaPath", json!(film)),
        ("mediaType", json!("video")),
        ("title", json!("it's 100% \u{1f600}")),
        ("positionSeconds", json!(1312.5)),
        ("durationSeconds", json!(5400.0)),
        ("progressPercentage", json!(24.31)),
        ("resumePositionSeconds", json!(1312.5)),
        ("completed", json!(false)),
        ("player", json!("web")),
        ("deviceId", json!(null)),
        ("playCount", json!(0)),
        ("completedAt", json!(null)),
        ("version", json!(1)),
        ("applied", json!(true)),
        ("positionHistory", json!([])),
    ] {
        assert_eq!(first[field], value, "{field}");
    }
    assert!(first["id"].as_str().unwrap().starts_with("wp_"));
    assert!(first["updatedAt"].as_str().unwrap().ends_with('Z'));
    assert_eq!(get(&server, &route_with_path(ROUTE, &film)).await["progress"], first);
    let info = get(&server, &route_with_path("/api/stream/info/full", &film)).await;
    assert_eq!(info["watchProgress"], first);
    assert_eq!(info["mediaId"], first["mediaId"]);

    // Past the end is the end.
    let end = save(&server, &film, 9000.0, json!({"completed": true})).await;
    assert_eq!((&end["positionSeconds"], &end["resumePositionSeconds"]), (&json!(5400.0), &json!(0.0)));
    assert_eq!((&end["playCount"], &end["everCompleted"], &end["version"]), (&json!(1), &json!(true), &json!(2)));

    let deletion = delete(&server, &route_with_path(ROUTE, &film)).await;
    assert_eq!(deletion, json!({"mediaPath": film, "deleted": true}));
    assert_eq!(delete(&server, &route_with_path(ROUTE, &film)).await["deleted"], false);
    assert_eq!(get(&server, &route_with_path(ROUTE, &film)).await, json!({"progress": null}));

    let body = json!({"mediaPath": film, "mediaType": "video", "title": "Example", "durationSeconds": 100});
    let watched = expect_success(server.post("/api/stream/progress/watched", &body).send().await.unwrap(), 200).await;
    assert_eq!((&watched["completed"], &watched["positionSeconds"]), (&json!(true), &json!(100.0)));
    assert_eq!((&watched["playCount"], &watched["title"]), (&json!(1), &json!("Example")));
}

#[tokio::test]
async fn omitted_fields_get_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "film.mp4", 2);
    let server = kit::start_server(&[folder.path()]).await;
    let bare = json!({"mediaPath": film, "positionSeconds": 0.5, "unknown": 1});
    let record = expect_success(server.post(ROUTE, &bare).send().await.unwrap(), 200).await;
    assert_eq!(record["durationSeconds"], 1.0, "the file's own length: {record}");
    assert_eq!((&record["player"], &record["title"]), (&json!("unknown"), &json!("film")));
}

#[tokio::test]
async fn free_text_fields_are_stored_as_sent() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "film.mp4", 7);
    let server = kit::start_server(&[folder.path()]).await;
    for (sent, field, stored) in [
        (json!({"player": "Web Player (2.0) \u{1f600}"}), "player", json!("Web Player (2.0) \u{1f600}")),
        (json!({"player": " "}), "player", json!("unknown")),
        (json!({"mediaType": "Movie"}), "mediaType", json!("Movie")),
        (json!({"mediaType": "VIDEO"}), "mediaType", json!("video")),
        (json!({"mediaType": ""}), "mediaType", json!("video")),
        (json!({"subtitleStreamIndex": 3}), "subtitleStreamIndex", json!(3)),
        (json!({}), "subtitleStreamIndex", json!(3)),
        (json!({"subtitleStreamIndex": -1}), "subtitleStreamIndex", json!(null)),
    ] {
        assert_eq!(save(&server, &film, 700.0, sent.clone()).await[field], stored, "{sent}");
    }
    save(&server, &film, 700.0, json!({"mediaType": "Movie"})).await;
    for (filter, count) in [("Movie", 1), ("movie", 0), ("video", 0)] {
        let page = get(&server, &format!("/api/stream/history?mediaType={filter}&mediaType={filter}")).await;
        assert_eq!(page["total"], count, "{filter}");
    }
}

#[tokio::test]
async fn an_outdated_save_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "film.mp4", 3);
    let server = kit::start_server(&[folder.path()]).await;
    let first = save(&server, &film, 500.0, json!({})).await;
    let late = save(&server, &film, 20.0, json!({"clientUpdatedAt": "2020-01-01T00:00:00.000Z"})).await;
    assert_eq!(
        (&late["applied"], &late["positionSeconds"], &late["version"]),
        (&json!(false), &json!(500.0), &json!(1))
    );
    // A save with the server's own timestamp is not outdated.
    let echoed = save(&server, &film, 510.0, json!({"clientUpdatedAt": first["updatedAt"]})).await;
    assert_eq!((&echoed["applied"], &echoed["version"]), (&json!(true), &json!(2)));
    let other = save(&server, &film, 20.0, json!({"version": 1})).await;
    assert_eq!((&other["applied"], &other["version"]), (&json!(false), &json!(2)));
    assert_eq!(save(&server, &film, 520.0, json!({"version": 2})).await["version"], 3);

    let body = json!({"mediaPath": film, "positionSeconds": 1});
    let save_if_match = |tag: &'static str| server.post(ROUTE, &body).header("if-match", tag).send();
    let refusal = expect_error(save_if_match("\"2\"").await.unwrap(), 409, "CONFLICT").await;
    assert_eq!(refusal["details"]["version"], 3);
    let tagged = save_if_match("\"3\"").await.unwrap();
    assert_eq!(tagged.headers()["etag"], "\"4\"");
    assert_eq!(expect_success(tagged, 200).await["version"], 4);
    expect_error(save_if_match("soon").await.unwrap(), 400, "BAD_REQUEST").await;
}

#[tokio::test]
async fn if_match_guards_a_file_that_is_marked_as_watched() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "film.mp4", 3);
    let server = kit::start_server(&[folder.path()]).await;
    assert_eq!(save(&server, &film, 500.0, json!({})).await["version"], 1);
    let body = json!({"mediaPath": film});
    let marked = |tag: &'static str| server.post("/api/stream/progress/watched", &body).header("if-match", tag).send();
    let refusal = expect_error(marked("\"2\"").await.unwrap(), 409, "CONFLICT").await;
    assert_eq!(refusal["details"]["version"], 1);
    let stored = get(&server, &route_with_path(ROUTE, &film)).await;
    let record = &stored["progress"];
    assert_eq!((&record["completed"], &record["version"]), (&json!(false), &json!(1)));
    let watched = expect_success(marked("\"1\"").await.unwrap(), 200).await;
    assert_eq!((&watched["completed"], &watched["version"]), (&json!(true), &json!(2)));
    expect_error(marked("soon").await.unwrap(), 400, "BAD_REQUEST").await;
}

#[tokio::test]
async fn an_accidental_jump_to_zero_can_be_undone() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "film.mp4", 4);
    let server = kit::start_server(&[folder.path()]).await;
    save(&server, &film, 1312.5, json!({})).await;
    let stray = save(&server, &film, 0.0, json!({})).await;
    assert_eq!((&stray["positionSeconds"], &stray["resumePositionSeconds"]), (&json!(0.0), &json!(0.0)));
    assert_eq!(stray["positionHistory"][0]["positionSeconds"], 1312.5);
    let position = stray["positionHistory"][0]["positionSeconds"].as_f64().unwrap();
    assert_eq!(save(&server, &film, position, json!({})).await["resumePositionSeconds"], 1312.5);
    // A client that sends every field.
    let body = json!({
        "mediaPath": film, "mediaType": "video", "title": "Example", "positionSeconds": 0, "durationSeconds": 5400,
        "completed": false, "player": "web",
    });
    let stray = expect_success(server.post(ROUTE, &body).send().await.unwrap(), 200).await;
    assert_eq!(stray["positionSeconds"], 0.0);
    let positions: Vec<f64> =
        stray["positionHistory"].as_array().unwrap().iter().map(|p| p["positionSeconds"].as_f64().unwrap()).collect();
    assert_eq!(positions, [1312.5, 1312.5]);
}

#[tokio::test]
async fn progress_belongs_to_the_content_and_to_one_user() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "old name.mp4", 5);
    let server = kit::start_server(&[folder.path()]).await;
    let saved = save(&server, &film, 700.0, json!({})).await;
    let moved = folder.path().join("sub").join("new name.mp4");
    std::fs::create_dir(moved.parent().unwrap()).unwrap();
    std::fs::rename(&film, &moved).unwrap();
    let found = get(&server, &route_with_path(ROUTE, &moved)).await["progress"].clone();
    assert_eq!((&found["positionSeconds"], &found["mediaPath"]), (&json!(700.0), &json!(moved)));
    assert_eq!(found["id"], saved["id"]);
    let other =
        server.client.get(format!("{}{}", server.base, route_with_path(ROUTE, &moved))).bearer_auth(&server.admin);
    assert_eq!(expect_success(other.send().await.unwrap(), 200).await, json!({"progress": null}));

    // Progress of a deleted file can still be read and deleted.
    std::fs::remove_file(&moved).unwrap();
    let missing = server.get(&route_with_path(ROUTE, &moved)).send().await.unwrap();
    expect_error(missing, 404, "NOT_FOUND").await;
    assert_eq!(get(&server, &route_with_path(ROUTE, &film)).await["progress"]["positionSeconds"], 700.0);
    assert_eq!(delete(&server, &route_with_path(ROUTE, &film)).await["deleted"], true);
    let nothing = folder.path().join("never.mp4");
    assert_eq!(
        delete(&server, &route_with_path(ROUTE, &nothing)).await,
        json!({"mediaPath": nothing, "deleted": false})
    );
}

#[tokio::test]
async fn validation_errors_name_the_field() {
    let folder = tempfile::tempdir().unwrap();
    let film = small_film(folder.path(), "film.mp4", 6);
    std::fs::write(folder.path().join("notes.txt"), "no media").unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let path = path_text(&film);
    let save_changed = |change: Value| {
        let mut body = json!({"mediaPath": path, "positionSeconds": 1, "durationSeconds": 10});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        server.post(ROUTE, &body).send()
    };
    for (change, field) in [
        (json!({"positionSeconds": -1}), "positionSeconds"),
        (json!({"positionSeconds": 1e300}), "positionSeconds"),
        (json!({"positionSeconds": null}), "positionSeconds"),
        (json!({"durationSeconds": -0.1}), "durationSeconds"),
        (json!({"mediaType": "a\nb"}), "mediaType"),
        (json!({"mediaType": "x".repeat(65)}), "mediaType"),
        (json!({"player": "a\u{0}b"}), "player"),
        (json!({"player": "x".repeat(65)}), "player"),
        (json!({"title": "x".repeat(513)}), "title"),
        (json!({"clientUpdatedAt": "yesterday"}), "clientUpdatedAt"),
        (json!({"version": -1}), "version"),
        (json!({"audioStreamIndex": "1"}), "audioStreamIndex"),
        (json!({"audioStreamIndex": -2}), "audioStreamIndex"),
    ] {
        let refusal = expect_error(save_changed(change.clone()).await.unwrap(), 400, "VALIDATION_ERROR").await;
        assert_eq!(refusal["details"]["fields"][0]["field"], field, "{change}: {refusal}");
    }
    let position = json!({"mediaPath": path});
    let refusal = expect_error(server.post(ROUTE, &position).send().await.unwrap(), 400, "VALIDATION_ERROR").await;
    assert_eq!(refusal["details"]["fields"][0]["field"], "positionSeconds");
    for (path, status, code) in [
        ("/etc/passwd", 403, "FORBIDDEN"),
        ("", 400, "INVALID_PATH"),
        ("relative.mp4", 400, "INVALID_PATH"),
        (&format!("{path}.missing"), 404, "NOT_FOUND"),
        (path_text(&folder.path().join("notes.txt")), 415, "UNSUPPORTED_MEDIA_TYPE"),
    ] {
        expect_error(save_changed(json!({"mediaPath": path})).await.unwrap(), status, code).await;
        let body = json!({"mediaPath": path});
        expect_error(server.post("/api/stream/progress/watched", &body).send().await.unwrap(), status, code).await;
        let answer = server.get(ROUTE).query(&[("path", path)]).send().await.unwrap();
        expect_error(answer, status, code).await;
    }
    expect_error(server.get(ROUTE).send().await.unwrap(), 400, "INVALID_PATH").await;
}
