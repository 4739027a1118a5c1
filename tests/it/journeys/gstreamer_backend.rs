//! Sessions whose segments GStreamer makes.

use hearthcast::config::BackendSetting;
use hearthcast::domain::worker::{ProvenFault, QuarantineKey, Stage};
use hearthcast::engine::versions;
use hearthcast::engine::worker::FaultRecorder;
use jiff::Timestamp;
use serde_json::json;

use super::sessions::{play_to_end, start, status};
use crate::corpus;
use crate::kit::file_client::{FileClient, Outcome};
use crate::kit::program::ServerProcess;
use crate::kit::{self, media};

#[tokio::test(flavor = "multi_thread")]
async fn a_gstreamer_session_reports_its_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mkv");
    media::flash_and_beep(&path, 5, "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3 -b:a 192k");
    let server = kit::start_server_with(&[folder.path()], |config| config.backend = BackendSetting::Gstreamer).await;
    let session = start(&server, &json!({"mediaPath": path.to_str().unwrap()})).await;
    let (warnings, seconds) =
        play_to_end(format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap())).await;
    let diagnostics = status(&server, &session).await["diagnostics"].clone();
    assert_eq!((warnings.as_str(), diagnostics["fallback"].clone()), ("", json!(false)), "{diagnostics}");
    assert!((4.9..5.2).contains(&seconds), "{seconds}");
    assert_eq!(diagnostics["pipeline"], "gstreamer");
    assert_eq!(diagnostics["pipelineReason"], "configured");
}

#[tokio::test(flavor = "multi_thread")]
async fn ffmpeg_takes_what_gstreamer_refuses_and_reports_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mpg");
    media::flash_and_beep(&path, 3, "-c:v mpeg2video -q:v 4 -g 25 -c:a pcm_s16be -f vob");
    let server = kit::start_server_with(&[folder.path()], |config| config.backend = BackendSetting::Gstreamer).await;
    let session = start(&server, &json!({"mediaPath": path.to_str().unwrap()})).await;
    let diagnostics = status(&server, &session).await["diagnostics"].clone();
    assert_eq!(diagnostics["pipeline"], "ffmpeg");
    assert_eq!(diagnostics["pipelineReason"], "this codec of a program stream is decoded by ffmpeg");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_admins_see_the_pipelines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mkv");
    media::flash_and_beep(&path, 60, "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3 -b:a 192k");
    let server = kit::start_server_with(&[folder.path()], |config| config.backend = BackendSetting::Gstreamer).await;
    let get_as =
        |path: String, token: &str| server.client.get(format!("{}{path}", server.base)).bearer_auth(token).send();
    let session = start(&server, &json!({"mediaPath": path.to_str().unwrap()})).await;
    let first = server.get(session["playlistUrl"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(first.status(), 200);
    // It plays as long as its session lives.
    let all: serde_json::Value =
        get_as("/api/debug/pipelines".into(), &server.admin).await.unwrap().json().await.unwrap();
    let decoder = all["pipelines"].as_array().unwrap().iter().find(|pipeline| {
        pipeline["name"].as_str().unwrap().starts_with("decode-video") && pipeline["state"] == "playing"
    });
    let decoder = decoder.unwrap_or_else(|| panic!("{all}"));
    assert!(decoder["queues"].is_array() && decoder["ageSeconds"].is_number(), "{decoder}");
    let id = decoder["id"].as_str().unwrap().to_owned();
    for (ending, expected_text) in [
        ("mmd", "flowchart LR"),
        ("txt", "matroskademux"),
        ("dot", "digraph pipeline"),
        ("svg", ">matroskademux</text>"),
    ] {
        let graph = get_as(format!("/api/debug/pipelines/{id}.{ending}"), &server.admin).await.unwrap();
        assert_eq!(graph.status(), 200);
        assert!(graph.text().await.unwrap().contains(expected_text), "{ending}");
    }
    let log: serde_json::Value =
        get_as(format!("/api/debug/pipelines/{id}/log"), &server.admin).await.unwrap().json().await.unwrap();
    assert!(log["lines"].as_array().unwrap().iter().any(|line| line.as_str().unwrap().contains("is Paused")), "{log}");
    for (path, status) in [("/0.mmd", 404), ("/1.png", 404), ("/x/log", 404)] {
        assert_eq!(
            get_as(format!("/api/debug/pipelines{path}"), &server.admin).await.unwrap().status(),
            status,
            "{path}"
        );
    }
    for path in ["", "/1.mmd", "/1/log"] {
        assert_eq!(get_as(format!("/api/debug/pipelines{path}"), &server.token).await.unwrap().status(), 403);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_quarantine_is_left_to_ffmpeg() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mkv");
    media::flash_and_beep(&path, 3, "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3 -b:a 192k");
    let server = kit::start_server_with(&[folder.path()], |config| config.backend = BackendSetting::Gstreamer).await;
    let media_path = path.to_str().unwrap();
    let fault = ProvenFault {
        key: QuarantineKey {
            fingerprint: media::open(&path).fingerprint().unwrap().to_owned(),
            stage: Stage::Run,
            pipeline: "segment".into(),
            version: versions::worker_version(),
        },
        path: media_path.to_owned(),
        cause: "SIGSEGV in queue0:src".into(),
        at: Timestamp::now(),
    };
    server.service.quarantine.record(fault);
    let session = start(&server, &json!({"mediaPath": media_path})).await;
    let (warnings, _) = play_to_end(format!("{}{}", server.base, session["signedPlaylistUrl"].as_str().unwrap())).await;
    let diagnostics = status(&server, &session).await["diagnostics"].clone();
    assert_eq!((warnings.as_str(), &diagnostics["fallback"]), ("", &json!(false)), "ffmpeg from the start");
    assert_eq!(diagnostics["pipeline"], "ffmpeg");
    assert_eq!(diagnostics["pipelineReason"], "this file is in quarantine after a crash");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_process_maps_no_decoder_while_it_probes_and_plays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mkv");
    media::flash_and_beep(&path, 5, "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3 -b:a 192k");
    let program = ServerProcess::start(&[folder.path()], &[("HEARTHCAST_BACKEND", "gstreamer")]).await;
    let request = program.client.post(format!("{}/api/stream/transcode/start", program.base));
    let request = request.bearer_auth(&program.token).json(&json!({"mediaPath": path.to_str().unwrap()}));
    let session: serde_json::Value = request.send().await.unwrap().json().await.unwrap();
    let playlist = session["signedPlaylistUrl"].as_str().unwrap_or_else(|| panic!("{session}"));
    let (warnings, seconds) = play_to_end(format!("{}{playlist}", program.base)).await;
    assert!(warnings.is_empty() && (4.9..5.2).contains(&seconds), "{seconds} s, {warnings}");
    let status = format!("/api/stream/transcode/{}/status", session["sessionId"].as_str().unwrap());
    let status: serde_json::Value = program.get(&status).send().await.unwrap().json().await.unwrap();
    assert_eq!(status["diagnostics"]["pipeline"], "gstreamer", "{status}");
    assert_maps_no_decoder(program.pid());
}

/// Asserts that a process has no plugin of GStreamer, no library of ffmpeg and no encoder in memory.
fn assert_maps_no_decoder(pid: u32) {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let is_decoder = |line: &&str| ["/gstreamer-1.0/", "/libav", "/libx264"].iter().any(|name| line.contains(name));
    let decoders: Vec<&str> = maps.lines().filter(is_decoder).collect();
    assert!(decoders.is_empty(), "{decoders:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_process_maps_no_decoder_over_the_whole_corpus() {
    let Some(corpus) = corpus::corpus_folder() else { return };
    let files = corpus::media_paths(&corpus);
    for backend in ["gstreamer", "ffmpeg"] {
        let client = FileClient::start(&corpus, backend).await;
        let (mut played, mut faults) = (0, Vec::new());
        for file in &files {
            match client.try_file(file).await {
                Outcome::Played => played += 1,
                Outcome::Refused(_) => {}
                Outcome::Fault(text) => faults.push(format!("{}: {text}", file.display())),
            }
            assert_maps_no_decoder(client.program.pid());
        }
        println!("{backend}: {played} of {} files played", files.len());
        assert!(faults.is_empty() && played * 2 > files.len(), "{played} of {} played; {faults:#?}", files.len());
    }
}
