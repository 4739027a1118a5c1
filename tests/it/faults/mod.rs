//! Faults of the machine, one test each. `README.md` lists the twelve with their behaviour, and the tests of those that have one
//! in the module of what they hit.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hearthcast::config::BackendSetting;
use hearthcast::domain::time::WallMs;
use jiff::Timestamp;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::program::ServerProcess;
use crate::kit::response::send_until_ready;
use crate::kit::wait::{MAX_WAIT, wait_until};
use crate::kit::{self, Server, media};

/// A folder with one film that is encoded for every player.
fn make_library(seconds: u32) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mkv");
    media::flash_and_beep(&film, seconds, "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3 -b:a 192k");
    (folder, film)
}

/// Starts a session; returns the path of its routes.
async fn start_session(server: &Server, film: &Path) -> String {
    let started = send_until_ready(server.post("/api/stream/transcode/start", &json!({"mediaPath": film}))).await;
    let status = started.status();
    let session: Value = started.json().await.unwrap();
    assert_eq!(status, 200, "{session}");
    format!("/api/stream/transcode/{}", session["sessionId"].as_str().unwrap())
}

async fn segment_bytes(server: &Server, session: &str, index: usize) -> usize {
    let answer = server.get(&format!("{session}/v0-{index:05}.ts")).send().await.unwrap();
    assert_eq!(answer.status(), 200, "segment {index}");
    answer.bytes().await.unwrap().len()
}

/// The ffmpeg processes that this process started and that have `file` open.
fn ffmpeg_processes(file: &Path) -> Vec<i32> {
    let has_file = |pid: &i32| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|target| target == file)
    };
    let is_ffmpeg =
        |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "ffmpeg\n");
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
        .filter(is_ffmpeg)
        .filter(has_file)
        .collect()
}

// One thread, because the time of the server's runtime is moved.
#[tokio::test]
async fn ffmpeg_that_is_stopped_is_replaced_and_the_viewer_gets_every_segment() {
    let (_folder, film) = make_library(120);
    let server = kit::start_server_with(&[film.parent().unwrap()], |config| {
        config.backend = BackendSetting::Ffmpeg;
        config.limits.segment_wait = Duration::from_secs(50);
    })
    .await;
    let session = start_session(&server, &film).await;
    segment_bytes(&server, &session, 0).await;
    wait_until("ffmpeg does not encode", || !ffmpeg_processes(&film).is_empty()).await;
    let stopped = ffmpeg_processes(&film)[0];
    rustix::process::kill_process(Pid::from_raw(stopped).unwrap(), Signal::STOP).unwrap();
    // The first segment that does not exist yet.
    let health = server.service.renditions.health();
    let next = async {
        let mut index = 1;
        loop {
            let request = segment_bytes(&server, &session, index);
            let mut request = std::pin::pin!(request);
            let is_waiting = async {
                loop {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    if health.waiting_requests() > 0 {
                        return;
                    }
                }
            };
            tokio::select! {
                _ = &mut request => index += 1,
                () = is_waiting => {
                    tokio::time::pause();
                    // Longer than a run may deliver nothing.
                    tokio::time::advance(Duration::from_secs(31)).await;
                    tokio::time::resume();
                    return (index, request.await);
                }
            }
        }
    };
    let (index, bytes) = next.await;
    assert!(index < 58 && bytes > 1000, "segment {index}: {bytes} bytes");
    let (_, fault) = health.last_fault().expect("the stall is recorded");
    assert!(fault.to_string().contains("30 s"), "{fault}");
    wait_until("the stopped process still exists", || !ffmpeg_processes(&film).contains(&stopped)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_deleted_while_it_plays_is_played_to_its_end() {
    let (folder, film) = make_library(20);
    let server = kit::start_server(&[folder.path()]).await;
    let session = start_session(&server, &film).await;
    assert!(segment_bytes(&server, &session, 0).await > 1000);
    std::fs::remove_file(&film).unwrap();
    for index in [1, 4, 8] {
        assert!(segment_bytes(&server, &session, index).await > 1000, "segment {index}");
    }
    let again = server.post("/api/stream/transcode/start", &json!({"mediaPath": film})).send().await.unwrap();
    assert_eq!(again.status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_that_is_unmounted_and_back_plays_again_with_its_progress() {
    let folder = tempfile::tempdir().unwrap();
    let (root, disk) = (folder.path().join("films"), folder.path().join("disk"));
    std::fs::create_dir(&root).unwrap();
    let film = root.join("film.mp4");
    media::flash_and_beep(&film, 6, "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 25 -c:a aac");
    // One that no request has opened before: an open file can be read for some time.
    let unopened = root.join("unopened.mp4");
    std::fs::copy(&film, &unopened).unwrap();
    let server = kit::start_server(&[&root]).await;
    let file = format!("/api/stream/file?path={}", unopened.display());
    let progress = format!("/api/stream/progress?path={}", film.display());
    let save = json!({"mediaPath": film, "positionSeconds": 3.0, "durationSeconds": 6.0});
    let saved = send_until_ready(server.post("/api/stream/progress", &save)).await;
    assert!(saved.status().is_success(), "{}", saved.text().await.unwrap());
    let before: Value = server.get(&progress).send().await.unwrap().json().await.unwrap();
    // An unmounted disk leaves its empty mount point.
    std::fs::rename(&root, &disk).unwrap();
    std::fs::create_dir(&root).unwrap();
    assert_eq!(server.get(&file).send().await.unwrap().status(), 404);
    std::fs::remove_dir(&root).unwrap();
    assert_eq!(server.get(&file).send().await.unwrap().status(), 404, "nor the mount point");
    std::fs::rename(&disk, &root).unwrap();
    let answer = server.get(&file).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.bytes().await.unwrap().len() as u64, std::fs::metadata(&film).unwrap().len());
    let after: Value = server.get(&progress).send().await.unwrap().json().await.unwrap();
    assert_eq!(after, before);
}

/// Whether a channel has a playlist for a viewer, with a segment that can be fetched.
async fn airs(server: &Server, channel: &Value) -> bool {
    let target = format!("/api/livetv/watch/{}/live.m3u8", channel["id"]);
    let answer = server.get(&target).send().await.unwrap();
    let status = answer.status();
    let text = answer.text().await.unwrap();
    assert_eq!(status, 200, "{text}");
    let last = text.lines().rfind(|line| !line.starts_with('#')).expect("a segment is listed").to_owned();
    let base = target.rsplit_once('/').unwrap().0;
    let segment = server.get(&format!("{base}/{last}")).send().await.unwrap();
    segment.status() == 200 && segment.bytes().await.unwrap().len() > 1000
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_an_hour_changes_the_programme_and_nothing_else() {
    const HOUR: Duration = Duration::from_secs(3600);
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mp4");
    media::flash_and_beep(&film, 20, "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 25 -c:a aac");
    let server = kit::start_server(&[folder.path()]).await;
    let start = (Timestamp::now() - Duration::from_secs(7200)).to_string();
    let body = json!({"name": "One", "scheduleMode": "sequential", "startAt": start, "items": [{"path": film}]});
    let channel = crate::livetv::add_channel(&server, &body).await;
    assert!(airs(&server, &channel).await);
    let (clock, now): (_, WallMs) = (&server.service.clock, server.service.clock.now_ms());
    clock.advance(HOUR);
    assert!(airs(&server, &channel).await, "an hour ahead");
    clock.set_back(HOUR);
    assert!(airs(&server, &channel).await, "back at {now:?}");
    clock.set_back(HOUR);
    assert!(airs(&server, &channel).await, "an hour behind");
    // The users are still signed in, and changes are stored.
    let save = json!({"mediaPath": film, "positionSeconds": 10.0, "durationSeconds": 20.0});
    let saved = send_until_ready(server.post("/api/stream/progress", &save)).await;
    assert!(saved.status().is_success(), "{}", saved.text().await.unwrap());
    clock.advance(HOUR);
    let target = format!("/api/stream/progress?path={}", film.display());
    let stored: Value = server.get(&target).send().await.unwrap().json().await.unwrap();
    assert!(stored.to_string().contains("10.0"), "{stored}");
}

#[test]
fn a_port_that_is_taken_is_named_with_what_to_do() {
    let home = TempDir::new().unwrap();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearthcast"));
    command.args(["serve", "--listen", &address]).env_clear().env("HOME", home.path()).stdin(Stdio::null());
    let output = command.envs(std::env::var_os("PATH").map(|path| ("PATH", path))).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}");
    assert!(text.contains(&format!("{address} is in use by another program: choose another port")), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_plugins_of_gstreamer_ffmpeg_makes_the_segments() {
    let (folder, film) = make_library(6);
    let no_plugins = tempfile::tempdir().unwrap();
    let plugins = [("GST_PLUGIN_SYSTEM_PATH_1_0", no_plugins.path().to_str().unwrap())];
    let server = ServerProcess::start(&[folder.path()], &plugins).await;
    let post = |target: &str| server.client.post(format!("{}{target}", server.base)).bearer_auth(&server.token);
    let start = post("/api/stream/transcode/start").json(&json!({"mediaPath": film}));
    let session: Value = send_until_ready(start).await.json().await.unwrap();
    let id = session["sessionId"].as_str().unwrap_or_else(|| panic!("{session}: {}", server.log()));
    let segment = server.get(&format!("/api/stream/transcode/{id}/v0-00000.ts")).send().await.unwrap();
    assert_eq!(segment.status(), 200);
    assert!(segment.bytes().await.unwrap().len() > 1000);
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_hearthcast"));
    doctor.arg("doctor").env_clear().envs(plugins).env("HOME", folder.path()).env("HEARTHCAST_LISTEN", "127.0.0.1:0");
    doctor.envs(std::env::var_os("PATH").map(|path| ("PATH", path))).stdin(Stdio::null());
    let output = doctor.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_named = |line: &str| line.starts_with("BAD") && line.contains(" is missing ") && line.contains("(in ");
    assert!(!output.status.success() && text.lines().any(is_named), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_descriptors_the_server_waits_and_loses_nothing() {
    const LIMIT: usize = 96;
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.mp4");
    media::flash_and_beep(&film, 6, "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 25 -c:a aac");
    let mut server = ServerProcess::start(&[folder.path()], &[]).await;
    let post = |server: &ServerProcess, seconds: f64| {
        let body = json!({"mediaPath": film, "positionSeconds": seconds, "durationSeconds": 6.0});
        server.client.post(format!("{}/api/stream/progress", server.base)).bearer_auth(&server.token).json(&body)
    };
    assert!(send_until_ready(post(&server, 2.0)).await.status().is_success());
    let limit = format!("--nofile={LIMIT}:{LIMIT}");
    let limited = Command::new("prlimit").args(["--pid", &server.pid().to_string(), &limit]).status();
    assert!(limited.expect("prlimit runs").success());
    let address = server.base.strip_prefix("http://").unwrap().to_owned();
    let mut sockets = Vec::new();
    // Without a request they are closed after 15 s, so that they are renewed until none is left.
    let deadline = Instant::now() + MAX_WAIT;
    while server.open_files() < LIMIT {
        assert!(Instant::now() < deadline, "{} files are open", server.open_files());
        sockets.extend(std::net::TcpStream::connect(&address));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(server.is_running());
    drop(sockets);
    let saved = send_until_ready(post(&server, 4.0)).await;
    assert!(saved.status().is_success(), "{}", saved.text().await.unwrap());
    server.restart().await;
    let target = format!("/api/stream/progress?path={}", film.display());
    let stored: Value = server.get(&target).send().await.unwrap().json().await.unwrap();
    assert!(stored.to_string().contains("4.0"), "{stored}");
}
