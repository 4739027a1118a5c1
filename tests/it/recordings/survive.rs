//! Durability of recordings: a killed server and a full disk.

use std::path::Path;
use std::time::{Duration, Instant};

use hearthcast::config::Config;
use hearthcast::domain::channel::RequestedItem;
use hearthcast::domain::library::Root;
use hearthcast::domain::recording::{RetentionLimit, Padding, Recording, RecordingState};
use hearthcast::domain::schedule::ScheduleMode;
use hearthcast::service::Service;
use hearthcast::service::channels::ChannelChange;
use hearthcast::service::recordings::{NewRecording, RecordingTarget};
use jiff::Timestamp;

use super::plays;
use crate::kit::film;
use crate::kit::program::Program;

/// Adds a channel over a folder and a recording to the state of a stopped program.
async fn prepare(program: &Program, films: &Path, recorded: &Path, from: i64, to: i64) -> String {
    let service = open(program, films, recorded);
    let change = ChannelChange {
        name: Some("One".into()),
        mode: Some(ScheduleMode::Sequential),
        start_at: Some(Timestamp::now() - Duration::from_secs(7200)),
        requested_items: Some(vec![RequestedItem { path: films.to_str().unwrap().into(), recursive: false, title: None, weight: 1 }]),
        ..ChannelChange::default()
    };
    let channel_id = service.add_channel(change).await.unwrap().id;
    let now_ms = Timestamp::now().as_millisecond();
    let asked = NewRecording {
        channel_id,
        user_id: "u".into(),
        target: Some(RecordingTarget::Span(now_ms + from * 1000, now_ms + to * 1000)),
        padding: Padding::default(),
        series: None,
        keep: RetentionLimit::default(),
    };
    let made = service.schedule_recording(asked).await.unwrap();
    // Stop at once, because the program is to make the recording.
    service.recordings.shutdown().await;
    made.recording.unwrap().id
}

fn open(program: &Program, films: &Path, recorded: &Path) -> std::sync::Arc<Service> {
    let mut config = Config::new(program.state(), program.state().join("cache"));
    config.roots = vec![Root { id: "r0".into(), path: films.to_path_buf() }];
    config.recordings = Some(recorded.to_path_buf());
    // The task of a dropped service may still hold the lock for a moment.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match Service::open(config.clone()) {
            Ok(service) => return service,
            Err(fault) => assert!(Instant::now() < deadline, "{fault}"),
        }
        std::thread::yield_now();
    }
}

/// Waits until the only file in the subfolders has this many bytes; returns its path and length.
async fn grown(recorded: &Path, least: u64) -> (std::path::PathBuf, u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let files = std::fs::read_dir(recorded).unwrap().flatten().flat_map(|folder| std::fs::read_dir(folder.path()));
        let files: Vec<_> = files.flatten().flatten().map(|file| file.path()).collect();
        assert!(files.len() <= 1, "{files:?}");
        let len = files.first().map_or(0, |file| std::fs::metadata(file).map_or(0, |file| file.len()));
        if len >= least {
            return (files[0].clone(), len);
        }
        assert!(Instant::now() < deadline, "{files:?} has {len} bytes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The stored recording, while no program runs.
fn left(program: &Program, films: &Path, recorded: &Path, id: &str) -> Recording {
    open(program, films, recorded).recordings.get(id).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_goes_on_after_a_kill_as_if_nothing_had_been() {
    let (films, recorded) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    film::flash_and_beep(&films.path().join("Show.mp4"), 6, "-c:v libx264 -preset ultrafast -g 50 -c:a aac");
    let folder = recorded.path().to_str().unwrap().to_owned();
    let mut program = Program::start(&[films.path()], &[("HEARTHCAST_RECORDINGS", &folder)]).await;
    program.kill();
    // Most of it is in the past, so that appending starts at once; its end passes while the program is stopped.
    let id = prepare(&program, films.path(), recorded.path(), -20, 8).await;
    program.restart().await;
    grown(recorded.path(), 1).await;
    program.kill();
    let before = left(&program, films.path(), recorded.path(), &id);
    assert_eq!(before.state, RecordingState::Recording);
    let until = before.end_ms + 500;
    while Timestamp::now().as_millisecond() < until {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    program.restart().await;
    let deadline = Instant::now() + Duration::from_secs(60);
    let done = loop {
        let answer = program.get("/api/livetv/recordings").send().await.unwrap();
        assert_eq!(answer.status(), 200, "every user may list recordings");
        let (path, _) = grown(recorded.path(), 1).await;
        let pictures = film::packets(&path).iter().filter(|packet| packet.stream == 0).count();
        if pictures >= 27 * 25 {
            break path;
        }
        assert!(Instant::now() < deadline, "{pictures} frames");
    };
    program.kill();
    plays(&done, 28.0).await;
    let after = left(&program, films.path(), recorded.path(), &id);
    assert_eq!((after.id.as_str(), after.written_range.missing_ticks), (&*id, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_that_finds_no_more_space_fails_and_says_so() {
    let (films, recorded) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    film::flash_and_beep(&films.path().join("Show.mp4"), 6, "-c:v libx264 -preset ultrafast -g 50 -b:v 4M -c:a aac");
    let folder = recorded.path().to_str().unwrap().to_owned();
    let settings = [("HEARTHCAST_RECORDINGS", &*folder), ("HEARTHCAST_LIMITS_SEGMENT_DISK_BYTES", "0")];
    let limit = 4 << 20;
    let mut program = Program::start_limited(&[films.path()], &settings, limit).await;
    program.kill();
    let id = prepare(&program, films.path(), recorded.path(), -3600, -60).await;
    // `restart` would remove the limit.
    program.restart_limited(limit).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, len) = grown(recorded.path(), 1).await;
        program.kill();
        let seen = left(&program, films.path(), recorded.path(), &id);
        if seen.state == RecordingState::Failed {
            let failure = seen.failure.unwrap();
            assert_eq!(failure.code, "STORAGE_FULL");
            assert!(failure.message.contains("full"), "{}", failure.message);
            assert_eq!(seen.written_range.bytes, len, "the recorded size is the file size");
            let path = seen.path.unwrap();
            let seconds = (seen.written_range.through_ticks - seen.written_range.from_ticks) as f64 / 90_000.0;
            assert!(seconds > 4.0 && len <= limit);
            plays(Path::new(&path), seconds).await;
            return;
        }
        assert!(Instant::now() < deadline, "{seen:?}");
        program.restart_limited(limit).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
