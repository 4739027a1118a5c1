//! Runs that are dropped, paused or killed, or whose file changes.

use std::io::Write;
use std::time::Instant;

use super::*;

const X264: &str = "-c:v libx264 -preset ultrafast -g 60 -c:a aac -b:a 96k";

/// Child processes that read this bench's film.
fn children(bench: &Bench) -> Vec<u32> {
    let name = bench.source.proc_path();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let reads = |pid: &u32| {
        let parent = std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .and_then(|stat| stat.rsplit(") ").next()?.split(' ').nth(1)?.parse::<u32>().ok());
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // The name is unique in this process while the film is open; a zombie has no command line left.
        parent == Some(std::process::id()) && words.split('\0').any(|word| word.ends_with(&name))
    };
    all.filter(reads).collect()
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_run_rests_at_its_gate_and_goes_on_when_it_rises() {
    let bench = Bench::encoding("a.mp4", Container::Mp4, 12, X264);
    let mut run = bench.start(0, 1);
    for index in 0..2 {
        assert_eq!(next(&mut run).await.unwrap().unwrap().index, index);
    }
    assert!(
        tokio::time::timeout(Duration::from_millis(700), run.next()).await.is_err(),
        "segment 2 is beyond the gate"
    );
    assert_eq!(children(&bench).len(), 1);
    run.allow_through(3);
    for index in 2..4 {
        assert_eq!(next(&mut run).await.unwrap().unwrap().index, index);
    }
}

#[tokio::test]
async fn a_dropped_run_leaves_no_process() {
    let bench = Bench::encoding("a.mp4", Container::Mp4, 12, X264);
    // Before its first segment, and while it is paused at its gate.
    for segments in [0, 1] {
        let mut run = bench.start(0, 0);
        for _ in 0..segments {
            next(&mut run).await.unwrap().unwrap();
        }
        until("no child process started", || !children(&bench).is_empty()).await;
        let pids = children(&bench);
        drop(run);
        until("the child process still exists", || pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()))
            .await;
    }
}

#[tokio::test]
async fn a_killed_child_is_an_error_and_no_zombie() {
    let bench = Bench::encoding("a.mp4", Container::Mp4, 12, X264);
    let mut run = bench.start(0, 1);
    next(&mut run).await.unwrap().unwrap();
    let pid = children(&bench)[0];
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid as i32).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
    run.allow_through(usize::MAX);
    let error = loop {
        match next(&mut run).await.expect("the run ends with an error") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, RunError::Decode(said) if said.contains("signal 9")), "{error}");
    assert!(next(&mut run).await.is_none());
    until("the child process was not reaped", || !Path::new(&format!("/proc/{pid}")).exists()).await;
}

#[tokio::test]
async fn a_file_that_changes_ends_the_run() {
    let bench = Bench::encoding("a.mp4", Container::Mp4, 12, X264);
    let mut run = bench.start(0, 0);
    next(&mut run).await.unwrap().unwrap();
    let path = bench.folder.path().join("a.mp4");
    std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"more").unwrap();
    run.allow_through(usize::MAX);
    assert!(matches!(next(&mut run).await, Some(Err(RunError::SourceChanged))));
}

#[tokio::test]
async fn sound_that_ends_before_the_picture_becomes_silence_wherever_a_run_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mkv");
    film::make(
        &path,
        &[
            "-f lavfi -i",
            "testsrc2=s=320x180:r=25:d=9",
            "-f lavfi -i",
            "sine=d=3:r=44100",
            "-c:v libx264 -preset ultrafast -g 25 -c:a libvorbis",
        ],
    );
    let bench = Bench::over(folder, &path, Container::Matroska, FPS25, 9.0);
    let through = bench.all().await;
    assert_eq!(through.len(), 7);
    for index in [4, 5] {
        let jumped = bench.one(index).await;
        let times = |name: &str, segment: &Made| {
            let seen = film::packets(&bench.write(name, [segment]));
            let of =
                |stream| seen.iter().filter(move |seen| seen.stream == stream).map(|seen| seen.pts).collect::<Vec<_>>();
            (of(0).len(), of(1))
        };
        let (a, b) = (times("through.ts", &through[index]), times("jumped.ts", &jumped));
        assert_eq!((a.0, a.1.len() / 10), (50, 9), "segment {index} has all its video and audio");
        assert_eq!(a, b, "segment {index}");
    }
}

#[tokio::test]
async fn an_item_without_picture_is_cut_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.flac");
    film::make(&path, &["-f lavfi -i", "sine=d=7:r=44100", "-c:a flac"]);
    let bench = Bench::over(folder, &path, Container::Flac, FPS25, 7.0);
    let through = bench.all().await;
    assert_eq!(through.len(), 4);
    let whole = bench.write("whole.ts", &through);
    assert_eq!(film::complaints(&whole), "");
    let heard: Vec<i64> = film::packets(&whole).iter().map(|packet| packet.pts - 3600 * 90_000).collect();
    assert_eq!(heard, (0..329).map(|n| n * 1920).collect::<Vec<_>>());
    let pids: Vec<u8> = through[0].bytes.chunks(188).map(|packet| packet[2]).collect();
    assert!(pids.contains(&0x42) && !pids.contains(&0x41), "audio has its own PID");
}
