//! Slates of a channel: made by a worker, by ffmpeg when that fails, and checked before a channel is saved.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearthcast::config::IsolationSetting;
use hearthcast::domain::schedule::segmentation::VideoFormat;
use hearthcast::service::channels::slates::SlateContent;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::json;

use super::{CHANNELS, add_channel, expect_refused_field, make_audio_files};
use crate::kit::wait::MAX_WAIT;
use crate::kit::worker_processes::signal_workers;
use crate::kit::{self, Server, media};

/// Starts and failures of both backends that make slates.
fn counts(server: &Server) -> [(u64, u64); 2] {
    let counts = server.service.slates.counts().snapshot();
    ["gstreamer", "ffmpeg"].map(|backend| counts.get(backend).map_or((0, 0), |count| (count.started, count.failed)))
}

/// Makes a slate of this text. Returns the number of its frames.
async fn make_slate(server: &Server, text: &str) -> usize {
    let content = SlateContent { text: Some(text.into()), image: None };
    let slate = server.service.slates.get_or_make(&server.service, &VideoFormat::default(), &content).await;
    slate.unwrap().frames.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_makes_a_slate_and_ffmpeg_replaces_one_that_is_killed() {
    let server = Arc::new(kit::start_server(&[]).await);
    assert_eq!(make_slate(&server, "first").await, 38);
    assert_eq!(counts(&server), [(1, 0), (0, 0)]);
    let service = server.service.clone();
    // Killed as soon as it has the job.
    let cache = server.service.config.cache.clone();
    let killer = tokio::task::spawn_blocking(move || {
        let deadline = Instant::now() + MAX_WAIT;
        while !service.isolation.status().causes.contains_key("killed") && Instant::now() < deadline {
            if service.isolation.status().busy > 0 {
                signal_workers(&cache, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert_eq!(make_slate(&server, "second").await, 38);
    killer.await.unwrap();
    assert_eq!(counts(&server), [(2, 1), (1, 0)]);
    assert!(server.service.quarantine.is_empty(), "the kill is no fault of an image");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slate_is_made_without_workers_and_without_gstreamer() {
    for (isolation, program, expected) in [
        (IsolationSetting::None, None, [(1, 0), (0, 0)]),
        (IsolationSetting::Process, Some("/bin/false"), [(1, 1), (1, 0)]),
    ] {
        let server = kit::start_server_with(&[], |config| {
            config.isolation = isolation;
            if let Some(program) = program {
                config.worker_program = program.into();
            }
        });
        let server = server.await;
        assert_eq!(make_slate(&server, "text").await, 38);
        assert_eq!(counts(&server), expected);
    }
}

/// Writes the first half of a PNG.
fn make_broken_image(path: &Path) {
    media::run_ffmpeg(path, &["-f lavfi -i", "testsrc2=s=400x300", "-frames:v 1"]);
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_with_a_broken_image_is_not_saved() {
    let folder = tempfile::tempdir().unwrap();
    let (broken, intact) = (folder.path().join("broken.png"), folder.path().join("intact.png"));
    make_broken_image(&broken);
    media::run_ffmpeg(&intact, &["-f lavfi -i", "testsrc2=s=400x300", "-frames:v 1"]);
    let films = make_audio_files(folder.path(), &[3]);
    let server = kit::start_server(&[folder.path()]).await;
    let body = json!({"name": "One", "items": [{"path": films[0]}], "offline": {"imageUrl": intact}});
    let channel = add_channel(&server, &body).await;
    let target = format!("{CHANNELS}/{}", channel["id"]);
    for (field, change) in [
        ("offline.imageUrl", json!({"offline": {"imageUrl": broken}})),
        ("watermark.imageUrl", json!({"watermark": {"imageUrl": broken}})),
    ] {
        expect_refused_field(&server, Method::PATCH, &target, &change, field).await;
    }
    assert_eq!(server.service.isolation.status().restarted, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slate_whose_image_breaks_later_keeps_its_text() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.png");
    make_broken_image(&broken);
    let server = kit::start_server(&[folder.path()]).await;
    let path: Box<str> = broken.to_str().unwrap().into();
    let slate = async |image: Option<Box<str>>| {
        let content = SlateContent { text: Some("text".into()), image: image.map(|path| (path, 1)) };
        server.service.slates.get_or_make(&server.service, &VideoFormat::default(), &content).await.unwrap()
    };
    assert_eq!(slate(Some(path)).await, slate(None).await);
    assert_eq!(counts(&server), [(2, 0), (0, 0)]);
}
