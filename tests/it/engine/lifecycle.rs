//! Runs that are dropped, paused or killed, or whose file changes.

use std::io::Write;

use super::*;

use crate::kit::wait::wait_until;

const ENCODER_ARGS: &str = "-c:v libx264 -preset ultrafast -g 60 -c:a aac -b:a 96k";

/// Child processes that read this bench's film.
fn child_processes(bench: &Bench) -> Vec<u32> {
    let name = bench.source.proc_path();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_reader = |pid: &u32| {
        let parent = std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .and_then(|stat| stat.rsplit(") ").next()?.split(' ').nth(1)?.parse::<u32>().ok());
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // The name is unique in this process while the film is open; a zombie has no command line left.
        parent == Some(std::process::id()) && words.split('\0').any(|word| word.ends_with(&name))
    };
    all.filter(is_reader).collect()
}

#[tokio::test]
async fn a_run_pauses_at_its_gate_and_resumes_when_allowed() {
    let bench = Bench::of_new_film("a.mp4", Container::Mp4, 12, ENCODER_ARGS);
    let mut run = bench.start(0, 1);
    for index in 0..2 {
        assert_eq!(next_segment(&mut run).await.unwrap().unwrap().index, index);
    }
    assert!(
        tokio::time::timeout(Duration::from_millis(700), run.next()).await.is_err(),
        "segment 2 is beyond the gate"
    );
    assert_eq!(child_processes(&bench).len(), 1);
    run.allow_through(3);
    for index in 2..4 {
        assert_eq!(next_segment(&mut run).await.unwrap().unwrap().index, index);
    }
}

#[tokio::test]
async fn a_dropped_run_leaves_no_process() {
    let bench = Bench::of_new_film("a.mp4", Container::Mp4, 12, ENCODER_ARGS);
    // Before its first segment, and while it is paused at its gate.
    for segments in [0, 1] {
        let mut run = bench.start(0, 0);
        for _ in 0..segments {
            next_segment(&mut run).await.unwrap().unwrap();
        }
        wait_until("no child process started", || !child_processes(&bench).is_empty()).await;
        let pids = child_processes(&bench);
        drop(run);
        wait_until("the child process still exists", || {
            pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists())
        })
        .await;
    }
}

#[tokio::test]
async fn a_killed_child_is_an_error_and_no_zombie() {
    let bench = Bench::of_new_film("a.mp4", Container::Mp4, 12, ENCODER_ARGS);
    let mut run = bench.start(0, 1);
    next_segment(&mut run).await.unwrap().unwrap();
    let pid = child_processes(&bench)[0];
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid as i32).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    run.allow_through(usize::MAX);
    let error = loop {
        match next_segment(&mut run).await.expect("the run ends with an error") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, RunError::Decode(message) if message.contains("signal 9")), "{error}");
    assert!(next_segment(&mut run).await.is_none());
    wait_until("the child process was not reaped", || !Path::new(&format!("/proc/{pid}")).exists()).await;
}

#[tokio::test]
async fn a_file_that_changes_ends_the_run() {
    let bench = Bench::of_new_film("a.mp4", Container::Mp4, 12, ENCODER_ARGS);
    let mut run = bench.start(0, 0);
    next_segment(&mut run).await.unwrap().unwrap();
    let path = bench.folder.path().join("a.mp4");
    std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"more").unwrap();
    run.allow_through(usize::MAX);
    assert!(matches!(next_segment(&mut run).await, Some(Err(RunError::SourceChanged))));
}

#[tokio::test]
async fn audio_that_ends_before_the_video_becomes_silence_in_every_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mkv");
    media::run_ffmpeg(
        &path,
        &[
            "-f lavfi -i",
            "testsrc2=s=320x180:r=25:d=9",
            "-f lavfi -i",
            "sine=d=3:r=44100",
            "-c:v libx264 -preset ultrafast -g 25 -c:a libvorbis",
        ],
    );
    let bench = Bench::of_file(folder, &path, Container::Matroska, FPS25, 9.0);
    let all_segments = bench.all_segments().await;
    assert_eq!(all_segments.len(), 7);
    for index in [4, 5] {
        let single = bench.single_segment(index).await;
        let times = |name: &str, segment: &SegmentBytes| {
            let packets = media::packets(&bench.write_joined(name, [segment]));
            let times_of = |stream| {
                packets.iter().filter(move |seen| seen.stream == stream).map(|seen| seen.pts).collect::<Vec<_>>()
            };
            (times_of(0).len(), times_of(1))
        };
        let (a, b) = (times("through.ts", &all_segments[index]), times("jumped.ts", &single));
        assert_eq!((a.0, a.1.len() / 10), (50, 9), "segment {index} has all its video and audio");
        assert_eq!(a, b, "segment {index}");
    }
}

#[tokio::test]
async fn audio_only_items_have_segments_of_equal_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.flac");
    media::run_ffmpeg(&path, &["-f lavfi -i", "sine=d=7:r=44100", "-c:a flac"]);
    let bench = Bench::of_file(folder, &path, Container::Flac, FPS25, 7.0);
    let segments = bench.all_segments().await;
    assert_eq!(segments.len(), 4);
    let joined_path = bench.write_joined("whole.ts", &segments);
    assert_eq!(media::decoder_warnings(&joined_path), "");
    let audio_times: Vec<i64> = media::packets(&joined_path).iter().map(|packet| packet.pts - 3600 * 90_000).collect();
    assert_eq!(audio_times, (0..329).map(|n| n * 1920).collect::<Vec<_>>());
    let pids: Vec<u8> = segments[0].bytes.chunks(188).map(|packet| packet[2]).collect();
    assert!(pids.contains(&0x42) && !pids.contains(&0x41), "audio has its own PID");
}
