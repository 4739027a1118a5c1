//! Runs of GStreamer in process, with the same checks as the runs of ffmpeg.

use super::*;

const X264: &str = "-c:v libx264 -preset ultrafast -g 60 -bf 2 -c:a aac -b:a 96k";

/// Kinds of files that are encoded in process.
const FILMS: [(&str, Container, &str); 5] = [
    ("a.mp4", Container::Mp4, X264),
    ("a.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -bf 3 -c:a ac3"),
    ("a.webm", Container::Webm, "-c:v libvpx -deadline realtime -cpu-used 8 -b:v 1M -c:a libvorbis"),
    ("cd.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -ar 44100 -c:a flac"),
    ("telephone.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 300 -ar 8000 -ac 1 -c:a flac"),
];

#[tokio::test]
async fn every_frame_lies_on_the_grid_and_joined_segments_decode_without_a_word() {
    encode::on_the_grid(Bench::encoding("a.mp4", Container::Mp4, 7, X264).natively()).await;
}

/// A single pipeline for video and audio would deadlock here: its queues are shorter than the distance between the two.
#[tokio::test]
async fn ten_seconds_between_keyframes_lock_nothing_up() {
    let made_by = "-c:v libx264 -preset ultrafast -g 250 -sc_threshold 0 -bf 2 -c:a aac -b:a 96k";
    let bench = Bench::encoding("ten.mp4", Container::Mp4, 13, made_by).natively();
    let through = bench.all().await;
    assert_eq!(through.len(), bench.grid.len());
    // The last segment before a keyframe, and the first after it.
    for index in [bench.grid.segment_at(9 * 90_000), bench.grid.segment_at(10 * 90_000)] {
        let jumped = bench.one(index).await;
        let psnr = film::psnr(&bench.write("a.ts", [&through[index]]), &bench.write("b.ts", [&jumped]));
        assert!(psnr > 40.0, "segment {index}: frames differ, {psnr} dB");
    }
}

#[tokio::test]
async fn flash_and_beep_stay_together() {
    for (name, container, made_by) in FILMS {
        encode::together(&Bench::encoding(name, container, 5, made_by).natively(), 0.022).await;
    }
}

#[tokio::test]
async fn segments_are_the_same_in_any_order() {
    for (name, container, made_by) in FILMS {
        encode::in_any_order(&Bench::encoding(name, container, 7, made_by).natively()).await;
    }
}

/// How often this process has the film open.
fn opened(bench: &Bench) -> usize {
    let name = bench.source.file_name();
    let path = bench.folder.path().join(name);
    let files =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    files.filter(|file| *file == path).count()
}

pub(super) async fn until_closed(bench: &Bench) {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while opened(bench) > 1 {
        assert!(std::time::Instant::now() < deadline, "the film is still open {} times", opened(bench));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_run_rests_at_its_gate_goes_on_when_it_rises_and_frees_all_when_dropped() {
    let bench = Bench::encoding("a.mp4", Container::Mp4, 12, X264).natively();
    let mut run = bench.start(0, 1);
    for index in 0..2 {
        assert_eq!(next(&mut run).await.unwrap().unwrap().index, index);
    }
    assert!(
        tokio::time::timeout(Duration::from_millis(500), run.next()).await.is_err(),
        "segment 2 is beyond the gate"
    );
    assert_eq!(opened(&bench), 3, "two paused decoders have the file open");
    run.allow_through(3);
    for index in 2..4 {
        assert_eq!(next(&mut run).await.unwrap().unwrap().index, index);
    }
    drop(run);
    until_closed(&bench).await;
}

/// One run, started anywhere and dropped at any moment.
pub(super) async fn cycle(bench: &Bench, number: u64) {
    let first = (number * 5 % 7) as usize;
    let mut run = bench.start(first, usize::MAX);
    match number % 4 {
        0 => {}
        1 => drop(tokio::time::timeout(Duration::from_millis(number * 37 % 400), run.next()).await),
        2 => assert_eq!(next(&mut run).await.unwrap().unwrap().index, first),
        _ => drop(tokio::time::timeout(Duration::from_millis(30), run.next()).await),
    }
}

#[tokio::test]
async fn starting_and_stopping_at_any_moment_leaves_nothing() {
    cycles(&Bench::encoding("a.mkv", Container::Matroska, 12, X264).natively(), 8).await;
}

/// Starts and stops runs over one film `few` times, or as often as `HEARTHCAST_CYCLES` says.
pub(super) async fn cycles(bench: &Bench, few: u64) {
    let cycles = std::env::var("HEARTHCAST_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(few);
    let name = bench.source.file_name();
    drop(next(&mut bench.start(0, 0)).await);
    until_closed(bench).await;
    let before = size();
    for number in 0..cycles {
        cycle(bench, number).await;
        if number % 100 == 99 {
            eprintln!("{name}, {} cycles: (threads, MiB) {:?}", number + 1, size());
        }
    }
    until_closed(bench).await;
    let (threads, memory) = size();
    eprintln!("{name}: before {before:?}, after {cycles} cycles ({threads}, {memory})");
    // Only the long version has the process to itself. GLib's pools keep some threads.
    if cycles >= 100 {
        assert!(threads <= before.0 + 8, "{threads} threads, {} before", before.0);
    }
}

/// Threads of this process, and its memory in MiB.
fn size() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let number = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    (number("Threads:"), number("VmRSS:") / 1024)
}

#[tokio::test]
async fn a_file_that_changes_ends_the_run() {
    let bench = Bench::encoding("a.mp4", Container::Mp4, 12, X264).natively();
    let mut run = bench.start(0, 0);
    next(&mut run).await.unwrap().unwrap();
    let path = bench.folder.path().join("a.mp4");
    std::io::Write::write_all(&mut std::fs::OpenOptions::new().append(true).open(path).unwrap(), b"more").unwrap();
    run.allow_through(usize::MAX);
    assert!(matches!(next(&mut run).await, Some(Err(RunError::SourceChanged))));
}

#[tokio::test]
async fn an_item_without_picture_is_cut_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.flac");
    film::make(&path, &["-f lavfi -i", "sine=d=7:r=44100", "-c:a flac"]);
    let bench = Bench::over(folder, &path, Container::Flac, FPS25, 7.0).natively();
    let through = bench.all().await;
    assert_eq!(through.len(), 4);
    let whole = bench.write("whole.ts", &through);
    assert_eq!(film::complaints(&whole), "");
    let heard: Vec<i64> = film::packets(&whole).iter().map(|packet| packet.pts - 3600 * 90_000).collect();
    assert_eq!(heard, (0..329).map(|n| n * 1920).collect::<Vec<_>>());
}

/// A film that needs more than decoding: its name, source filter and encoder arguments, and the change of its plan.
type Special = (&'static str, &'static str, &'static str, fn(&mut EncodeVideo));

const SPECIAL: [Special; 4] = [
    ("long.mp4", "testsrc2=s=320x180:r=25:d=12", "-c:v libx264 -preset ultrafast -g 1000 -pix_fmt yuv420p", |_| ()),
    (
        "changing.mkv",
        "testsrc2=s=320x180:r=25:d=12,select='not(eq(mod(n\\,5)\\,2))'",
        "-vsync vfr -c:v libx264 -preset ultrafast -pix_fmt yuv420p",
        |_| (),
    ),
    (
        "woven.mkv",
        "testsrc2=s=320x180:r=50:d=12,tinterlace=interleave_top,fieldorder=tff",
        "-c:v mpeg2video -q:v 2 -flags +ildct+ilme",
        |plan| plan.deinterlace = true,
    ),
    ("deep.mkv", "testsrc2=s=320x180:r=25:d=12", "-c:v libx264 -preset ultrafast -pix_fmt yuv422p10le", |_| ()),
];

#[tokio::test]
async fn what_it_shows_is_what_ffmpeg_shows() {
    for (name, source, made_by, change) in SPECIAL {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        film::make(&path, &["-f lavfi -i", source, made_by]);
        let container = if name.ends_with("mp4") { Container::Mp4 } else { Container::Matroska };
        let mut bench = Bench::over(folder, &path, container, FPS25, 12.0);
        if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
            change(plan);
        }
        let expected = bench.one(5).await;
        let bench = bench.natively();
        let made = bench.one(5).await;
        let (a, b) = (bench.write("ffmpeg.ts", [&expected]), bench.write("gstreamer.ts", [&made]));
        assert_eq!(film::packets(&a).len(), film::packets(&b).len(), "{name}");
        let psnr = film::psnr(&a, &b);
        assert!(psnr > 24.0, "{name}: frames differ, {psnr} dB");
    }
}

#[tokio::test]
async fn a_picture_is_turned_as_its_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let (flat, path) = (folder.path().join("flat.mp4"), folder.path().join("turned.mp4"));
    film::make(
        &flat,
        &["-f lavfi -i", "testsrc2=s=320x180:r=25:d=4", "-c:v libx264 -preset ultrafast -pix_fmt yuv420p"],
    );
    film::make(&path, &["-i", flat.to_str().unwrap(), "-c copy -metadata:s:v:0 rotate=90"]);
    let mut bench = Bench::over(folder, &path, Container::Mp4, FPS25, 4.0);
    if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
        (plan.width, plan.height) = (180, 320);
    }
    let expected = bench.one(1).await;
    for stream in &mut Arc::make_mut(&mut bench.media).streams {
        if let StreamKind::Video(video) = &mut stream.kind {
            // This ffmpeg writes a matrix for counterclockwise rotation.
            video.rotation = 270;
        }
    }
    let bench = bench.natively();
    let made = bench.one(1).await;
    let psnr = film::psnr(&bench.write("ffmpeg.ts", [&expected]), &bench.write("gstreamer.ts", [&made]));
    assert!(psnr > 24.0, "frames differ, {psnr} dB");
}
