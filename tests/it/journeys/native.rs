//! Sessions whose segments GStreamer makes in process.

use hearthcast::config::BackendSetting;
use hearthcast::service::quarantine::{self, Quarantine};
use serde_json::json;

use super::sessions::{play, start, status};
use crate::kit::{self, film};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_made_in_process_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mkv");
    film::flash_and_beep(&path, 5, "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3 -b:a 192k");
    let server = kit::server_with(&[folder.path()], |config| config.backend = BackendSetting::Gstreamer).await;
    let session = start(&server, &json!({"mediaPath": path.to_str().unwrap()})).await;
    let (said, seconds) = play(format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap())).await;
    let diagnostics = status(&server, &session).await["diagnostics"].clone();
    assert_eq!((said.as_str(), diagnostics["fallback"].clone()), ("", json!(false)), "{diagnostics}");
    assert!((4.9..5.2).contains(&seconds), "{seconds}");
    assert_eq!(diagnostics["pipeline"], "gstreamer");
    assert_eq!(diagnostics["pipelineReason"], "configured");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_gstreamer_does_not_make_is_made_by_ffmpeg_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.ts");
    film::flash_and_beep(&path, 3, "-c:v mpeg2video -q:v 4 -g 25 -c:a mp2");
    let server = kit::server_with(&[folder.path()], |config| config.backend = BackendSetting::Gstreamer).await;
    let session = start(&server, &json!({"mediaPath": path.to_str().unwrap()})).await;
    let diagnostics = status(&server, &session).await["diagnostics"].clone();
    assert_eq!(diagnostics["pipeline"], "ffmpeg");
    assert_eq!(diagnostics["pipelineReason"], "a stream's times do not start at its first frame");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_sees_the_pipelines_and_nobody_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mkv");
    film::flash_and_beep(&path, 60, "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3 -b:a 192k");
    let server = kit::server_with(&[folder.path()], |config| config.backend = BackendSetting::Gstreamer).await;
    let look =
        |path: String, token: &str| server.client.get(format!("{}{path}", server.base)).bearer_auth(token).send();
    let session = start(&server, &json!({"mediaPath": path.to_str().unwrap()})).await;
    let first = server.get(session["playlistUrl"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(first.status(), 200);
    // Pipelines of other tests run in the same process. This one plays as long as its session lives.
    let all: serde_json::Value =
        look("/api/debug/pipelines".into(), &server.admin).await.unwrap().json().await.unwrap();
    let decoder = all["pipelines"].as_array().unwrap().iter().find(|pipeline| {
        pipeline["name"].as_str().unwrap().starts_with("decode-picture") && pipeline["state"] == "playing"
    });
    let decoder = decoder.unwrap_or_else(|| panic!("{all}"));
    assert!(decoder["queues"].is_array() && decoder["ageSeconds"].is_number(), "{decoder}");
    let id = decoder["id"].as_str().unwrap().to_owned();
    for (ending, holds) in [
        ("mmd", "flowchart LR"),
        ("txt", "matroskademux"),
        ("dot", "digraph pipeline"),
        ("svg", ">matroskademux</text>"),
    ] {
        let drawn = look(format!("/api/debug/pipelines/{id}.{ending}"), &server.admin).await.unwrap();
        assert_eq!(drawn.status(), 200);
        assert!(drawn.text().await.unwrap().contains(holds), "{ending}");
    }
    let log: serde_json::Value =
        look(format!("/api/debug/pipelines/{id}/log"), &server.admin).await.unwrap().json().await.unwrap();
    assert!(log["lines"].as_array().unwrap().iter().any(|line| line.as_str().unwrap().contains("is Paused")), "{log}");
    for (path, status) in [("/0.mmd", 404), ("/1.png", 404), ("/x/log", 404)] {
        assert_eq!(
            look(format!("/api/debug/pipelines{path}"), &server.admin).await.unwrap().status(),
            status,
            "{path}"
        );
    }
    for path in ["", "/1.mmd", "/1/log"] {
        assert_eq!(look(format!("/api/debug/pipelines{path}"), &server.token).await.unwrap().status(), 403);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_took_the_server_down_is_not_read_in_process_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mkv");
    film::flash_and_beep(&path, 3, "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3 -b:a 192k");
    let fingerprint = film::open(&path).fingerprint().unwrap().to_owned();
    let server = kit::server_with(&[folder.path()], |config| {
        config.backend = BackendSetting::Gstreamer;
        let marks = quarantine::marks_folder(&config.state);
        for _ in 0..2 {
            let mark = Quarantine::open(marks.clone()).unwrap().mark_reading(&fingerprint, path.to_str().unwrap());
            std::mem::forget(mark.expect("the file is not in quarantine yet"));
        }
    })
    .await;
    let session = start(&server, &json!({"mediaPath": path.to_str().unwrap()})).await;
    let (said, _) = play(format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap())).await;
    let diagnostics = status(&server, &session).await["diagnostics"].clone();
    assert_eq!(
        (said.as_str(), &diagnostics["pipeline"], &diagnostics["fallback"]),
        ("", &json!("ffmpeg"), &json!(true))
    );
}
