//! Durability of recordings: a killed server and a full disk.

use std::path::Path;
use std::time::{Duration, Instant};

use hearthcast::domain::channel::RequestedItem;
use hearthcast::domain::library::Root;
use hearthcast::domain::recording::{Padding, Recording, RecordingState, RetentionLimit};
use hearthcast::domain::schedule::ScheduleMode;
use hearthcast::domain::time::Ticks;
use hearthcast::service::Service;
use hearthcast::service::channels::ChannelChange;
use hearthcast::service::recordings::{NewRecording, RecordingTarget};
use jiff::Timestamp;

use super::check_plays;
use crate::kit::media;
use crate::kit::program::ServerProcess;
use crate::kit::service_config::service_config;
use crate::kit::wait::MAX_WAIT;

/// Adds a channel over a folder and a recording to the state of a stopped program.
async fn prepare_recording(
    program: &ServerProcess,
    films: &Path,
    recordings_folder: &Path,
    from: i64,
    to: i64,
) -> String {
    let service = open_service(program, films, recordings_folder);
    let change = ChannelChange {
        name: Some("One".into()),
        mode: Some(ScheduleMode::Sequential),
        start_at: Some(Timestamp::now() - Duration::from_secs(7200)),
        requested_items: Some(vec![RequestedItem::from_path(films.to_str().unwrap())]),
        ..ChannelChange::default()
    };
    let channel_id = service.add_channel(change).await.unwrap().id;
    let now_ms = Timestamp::now().as_millisecond();
    let request = NewRecording {
        channel_id,
        user_id: "u".into(),
        target: Some(RecordingTarget::Span(now_ms + from * 1000, now_ms + to * 1000)),
        padding: Padding::default(),
        series: None,
        retention: RetentionLimit::default(),
    };
    let created = service.schedule_recording(request).await.unwrap();
    // Stop at once, because the program is to make the recording.
    service.shutdown().await;
    created.recording.unwrap().id
}

fn open_service(program: &ServerProcess, films: &Path, recorded: &Path) -> std::sync::Arc<Service> {
    let mut config = service_config(&program.state_folder(), &program.state_folder().join("cache"));
    config.roots = vec![Root { id: "r0".into(), path: films.to_path_buf() }];
    config.recordings = Some(recorded.to_path_buf());
    // The task of a dropped service may still hold the lock for a moment.
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        match Service::open(config.clone()) {
            Ok(service) => return service,
            Err(fault) => assert!(Instant::now() < deadline, "{fault}"),
        }
        std::thread::yield_now();
    }
}

/// Waits until the only file in the subfolders has this many bytes; returns its path and length.
async fn wait_for_file(recorded: &Path, min_bytes: u64) -> (std::path::PathBuf, u64) {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let files = std::fs::read_dir(recorded).unwrap().flatten().flat_map(|folder| std::fs::read_dir(folder.path()));
        let files: Vec<_> = files.flatten().flatten().map(|file| file.path()).collect();
        assert!(files.len() <= 1, "{files:?}");
        let len = files.first().map_or(0, |file| std::fs::metadata(file).map_or(0, |file| file.len()));
        if len >= min_bytes {
            return (files[0].clone(), len);
        }
        assert!(Instant::now() < deadline, "{files:?} has {len} bytes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The stored recording, while no program runs.
fn stored_recording(program: &ServerProcess, films: &Path, recorded: &Path, id: &str) -> Recording {
    open_service(program, films, recorded).recordings.get(id).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_resumes_after_a_kill_without_a_gap() {
    let (films, recorded) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    media::flash_and_beep(&films.path().join("Show.mp4"), 6, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let folder = recorded.path().to_str().unwrap().to_owned();
    let mut program = ServerProcess::start(&[films.path()], &[("HEARTHCAST_RECORDINGS", &folder)]).await;
    program.kill();
    // Most of it is in the past, so that appending starts at once; its end passes while the program is stopped.
    let id = prepare_recording(&program, films.path(), recorded.path(), -20, 8).await;
    program.restart().await;
    wait_for_file(recorded.path(), 1).await;
    program.kill();
    let after_kill = stored_recording(&program, films.path(), recorded.path(), &id);
    assert_eq!(after_kill.state, RecordingState::Recording);
    let end_ms = after_kill.end_ms + 500;
    while Timestamp::now().as_millisecond() < end_ms {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    program.restart().await;
    let deadline = Instant::now() + MAX_WAIT;
    let path = loop {
        let answer = program.get("/api/livetv/recordings").send().await.unwrap();
        assert_eq!(answer.status(), 200, "every user may list recordings");
        let (path, _) = wait_for_file(recorded.path(), 1).await;
        let frame_count = media::packets(&path).iter().filter(|packet| packet.stream == 0).count();
        if frame_count >= 27 * 25 {
            break path;
        }
        assert!(Instant::now() < deadline, "{frame_count} frames");
    };
    program.kill();
    check_plays(&path, 28.0).await;
    let finished = stored_recording(&program, films.path(), recorded.path(), &id);
    assert_eq!((finished.id.as_str(), finished.written_range.missing), (&*id, Ticks::ZERO));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_on_a_full_disk_fails_with_its_reason() {
    let (films, recorded) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    media::flash_and_beep(&films.path().join("Show.mp4"), 6, "-c:v libx264 -preset ultrafast -g 50 -b:v 4M -c:a aac");
    let folder = recorded.path().to_str().unwrap().to_owned();
    let settings = [("HEARTHCAST_RECORDINGS", &*folder), ("HEARTHCAST_LIMITS_SEGMENT_DISK_BYTES", "0")];
    let limit = 4 << 20;
    let mut program = ServerProcess::start_limited(&[films.path()], &settings, limit).await;
    program.kill();
    let id = prepare_recording(&program, films.path(), recorded.path(), -3600, -60).await;
    // `restart` would remove the limit.
    program.restart_limited(limit).await;
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let (_, len) = wait_for_file(recorded.path(), 1).await;
        program.kill();
        let recording = stored_recording(&program, films.path(), recorded.path(), &id);
        if recording.state == RecordingState::Failed {
            let failure = recording.failure.unwrap();
            assert_eq!(failure.code, "STORAGE_FULL");
            assert!(failure.message.contains("full"), "{}", failure.message);
            assert_eq!(recording.written_range.bytes, len, "the recorded size is the file size");
            let path = recording.path.unwrap();
            let seconds = (recording.written_range.through - recording.written_range.from).as_seconds();
            assert!(seconds > 4.0 && len <= limit);
            check_plays(Path::new(&path), seconds).await;
            return;
        }
        assert!(Instant::now() < deadline, "{recording:?}");
        program.restart_limited(limit).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
