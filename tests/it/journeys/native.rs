//! Sessions whose segments GStreamer makes in the server's own process.

use hearthcast::config::Backend;
use serde_json::json;

use super::sessions::{play, start, status};
use crate::kit::{self, film};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_made_in_process_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mkv");
    film::flash_and_beep(&path, 5, "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3 -b:a 192k");
    let server = kit::server_with(&[folder.path()], |config| config.backend = Backend::Gstreamer).await;
    let session = start(&server, &json!({"mediaPath": path.to_str().unwrap()})).await;
    let (said, seconds) = play(format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap())).await;
    let diagnostics = status(&server, &session).await["diagnostics"].clone();
    assert_eq!((said.as_str(), diagnostics["fallback"].clone()), ("", json!(false)), "{diagnostics}");
    assert!((4.9..5.2).contains(&seconds), "{seconds}");
    assert_eq!(diagnostics["pipeline"], "gstreamer");
    assert_eq!(diagnostics["pipelineReason"], "so configured");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_gstreamer_does_not_make_is_made_by_ffmpeg_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.ts");
    film::flash_and_beep(&path, 3, "-c:v mpeg2video -q:v 4 -g 25 -c:a mp2");
    let server = kit::server_with(&[folder.path()], |config| config.backend = Backend::Gstreamer).await;
    let session = start(&server, &json!({"mediaPath": path.to_str().unwrap()})).await;
    let diagnostics = status(&server, &session).await["diagnostics"].clone();
    assert_eq!(diagnostics["pipeline"], "ffmpeg");
    assert_eq!(diagnostics["pipelineReason"], "a stream's times do not begin with its first picture");
}
