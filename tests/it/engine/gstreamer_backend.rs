//! Runs of GStreamer in process, with the same checks as the runs of ffmpeg.

use super::*;
use hearthcast::domain::time::Ticks;

use crate::kit::wait::MAX_WAIT;

const ENCODER_ARGS: &str = "-c:v libx264 -preset ultrafast -g 60 -bf 2 -c:a aac -b:a 96k";

/// Kinds of files that are encoded in process.
const FILMS: [(&str, Container, &str); 5] = [
    ("a.mp4", Container::Mp4, ENCODER_ARGS),
    ("a.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -bf 3 -c:a ac3"),
    ("a.webm", Container::Webm, "-c:v libvpx -deadline realtime -cpu-used 8 -b:v 1M -c:a libvorbis"),
    ("cd.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -ar 44100 -c:a flac"),
    ("telephone.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 300 -ar 8000 -ac 1 -c:a flac"),
];

#[tokio::test]
async fn every_frame_is_on_the_grid_and_joined_segments_decode_without_warnings() {
    encode::check_grid(Bench::of_new_film("a.mp4", Container::Mp4, 7, ENCODER_ARGS).with_gstreamer()).await;
}

/// A single pipeline for video and audio would deadlock here: its queues are shorter than the distance between the two.
#[tokio::test]
async fn distant_keyframes_cause_no_deadlock() {
    let encoder_args = "-c:v libx264 -preset ultrafast -g 250 -sc_threshold 0 -bf 2 -c:a aac -b:a 96k";
    let bench = Bench::of_new_film("ten.mp4", Container::Mp4, 13, encoder_args).with_gstreamer();
    let all_segments = bench.all_segments().await;
    assert_eq!(all_segments.len(), bench.grid.len());
    // The last segment before a keyframe, and the first after it.
    for index in [9000, 10_000].map(|ms| bench.grid.segment_at(Ticks::from_ms(ms))) {
        let single = bench.single_segment(index).await;
        let psnr_decibels = media::worst_psnr_decibels(
            &bench.write_joined("a.ts", [&all_segments[index]]),
            &bench.write_joined("b.ts", [&single]),
        );
        // The first segment of a run is encoded faster, so the two differ by 37 dB.
        assert!(psnr_decibels > 34.0, "segment {index}: frames differ, {psnr_decibels} dB");
    }
}

#[tokio::test]
async fn audio_and_video_stay_in_sync() {
    for (name, container, encoder_args) in FILMS {
        encode::check_sync(&Bench::of_new_film(name, container, 5, encoder_args).with_gstreamer(), 0.022).await;
    }
}

#[tokio::test]
async fn segments_are_the_same_in_any_order() {
    for (name, container, encoder_args) in FILMS {
        encode::check_any_order(&Bench::of_new_film(name, container, 7, encoder_args).with_gstreamer()).await;
    }
}

/// How often this process has the film open.
fn open_count(bench: &Bench) -> usize {
    let name = bench.source.file_name();
    let path = bench.folder.path().join(name);
    let files =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    files.filter(|file| *file == path).count()
}

pub(super) async fn wait_until_closed(bench: &Bench) {
    let deadline = std::time::Instant::now() + MAX_WAIT;
    while open_count(bench) > 1 {
        assert!(std::time::Instant::now() < deadline, "the film is still open {} times", open_count(bench));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_run_pauses_at_its_gate_resumes_and_frees_everything_when_dropped() {
    let bench = Bench::of_new_film("a.mp4", Container::Mp4, 12, ENCODER_ARGS).with_gstreamer();
    let mut run = bench.start(0, 1);
    for index in 0..2 {
        assert_eq!(next_segment(&mut run).await.unwrap().unwrap().index, index);
    }
    assert!(
        tokio::time::timeout(Duration::from_millis(500), run.next()).await.is_err(),
        "segment 2 is beyond the gate"
    );
    assert_eq!(open_count(&bench), 3, "two paused decoders have the file open");
    run.allow_through(3);
    for index in 2..4 {
        assert_eq!(next_segment(&mut run).await.unwrap().unwrap().index, index);
    }
    drop(run);
    wait_until_closed(&bench).await;
}

/// One run, started anywhere and dropped at any moment.
pub(super) async fn cycle(bench: &Bench, number: u64) {
    let first = (number * 5 % 7) as usize;
    let mut run = bench.start(first, usize::MAX);
    match number % 4 {
        0 => {}
        1 => drop(tokio::time::timeout(Duration::from_millis(number * 37 % 400), run.next()).await),
        2 => assert_eq!(next_segment(&mut run).await.unwrap().unwrap().index, first),
        _ => drop(tokio::time::timeout(Duration::from_millis(30), run.next()).await),
    }
}

#[tokio::test]
async fn runs_dropped_at_any_moment_leave_nothing() {
    run_cycles(&Bench::of_new_film("a.mkv", Container::Matroska, 12, ENCODER_ARGS).with_gstreamer(), 8).await;
}

/// Starts and stops runs over one film `default_cycles` times, or as often as `HEARTHCAST_CYCLES` says.
pub(super) async fn run_cycles(bench: &Bench, default_cycles: u64) {
    let cycles = std::env::var("HEARTHCAST_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(default_cycles);
    let name = bench.source.file_name();
    drop(next_segment(&mut bench.start(0, 0)).await);
    wait_until_closed(bench).await;
    let size_before = threads_and_mib();
    for number in 0..cycles {
        cycle(bench, number).await;
        if number % 100 == 99 {
            eprintln!("{name}, {} cycles: (threads, MiB) {:?}", number + 1, threads_and_mib());
        }
    }
    wait_until_closed(bench).await;
    let (threads, memory) = threads_and_mib();
    eprintln!("{name}: before {size_before:?}, after {cycles} cycles ({threads}, {memory})");
    // Only the long version has the process to itself. GLib's pools keep some threads.
    if cycles >= 100 {
        assert!(threads <= size_before.0 + 8, "{threads} threads, {} before", size_before.0);
    }
}

/// Threads of this process, and its memory in MiB.
fn threads_and_mib() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let number = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    (number("Threads:"), number("VmRSS:") / 1024)
}

#[tokio::test]
async fn a_file_that_changes_ends_the_run() {
    let bench = Bench::of_new_film("a.mp4", Container::Mp4, 12, ENCODER_ARGS).with_gstreamer();
    let mut run = bench.start(0, 0);
    next_segment(&mut run).await.unwrap().unwrap();
    let path = bench.folder.path().join("a.mp4");
    std::io::Write::write_all(&mut std::fs::OpenOptions::new().append(true).open(path).unwrap(), b"more").unwrap();
    run.allow_through(usize::MAX);
    assert!(matches!(next_segment(&mut run).await, Some(Err(RunError::SourceChanged))));
}

#[tokio::test]
async fn audio_only_items_have_segments_of_equal_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.flac");
    media::run_ffmpeg(&path, &["-f lavfi -i", "sine=d=7:r=44100", "-c:a flac"]);
    let bench = Bench::of_file(folder, &path, Container::Flac, FPS25, 7.0).with_gstreamer();
    let segments = bench.all_segments().await;
    assert_eq!(segments.len(), 4);
    let joined_path = bench.write_joined("whole.ts", &segments);
    assert_eq!(media::decoder_warnings(&joined_path), "");
    let audio_times: Vec<i64> = media::packets(&joined_path).iter().map(|packet| packet.pts - 3600 * 90_000).collect();
    assert_eq!(audio_times, (0..329).map(|n| n * 1920).collect::<Vec<_>>());
}

/// A film that needs more than decoding: its name, source filter and encoder arguments, and the change of its plan.
type SpecialFilm = (&'static str, &'static str, &'static str, fn(&mut EncodeVideo));

const SPECIAL_FILMS: [SpecialFilm; 4] = [
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
async fn special_films_look_as_with_ffmpeg() {
    for (name, source, encoder_args, change) in SPECIAL_FILMS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        media::run_ffmpeg(&path, &["-f lavfi -i", source, encoder_args]);
        let container = if name.ends_with("mp4") { Container::Mp4 } else { Container::Matroska };
        let mut bench = Bench::of_file(folder, &path, container, FPS25, 12.0);
        if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
            change(plan);
        }
        let expected = bench.single_segment(5).await;
        let bench = bench.with_gstreamer();
        let output = bench.single_segment(5).await;
        let (a, b) = (bench.write_joined("ffmpeg.ts", [&expected]), bench.write_joined("gstreamer.ts", [&output]));
        assert_eq!(media::packets(&a).len(), media::packets(&b).len(), "{name}");
        let psnr = media::worst_psnr_decibels(&a, &b);
        assert!(psnr > 24.0, "{name}: frames differ, {psnr} dB");
    }
}

#[tokio::test]
async fn each_field_becomes_a_frame_with_both_backends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("woven.mkv");
    let source = "testsrc2=s=320x180:r=50:d=4,tinterlace=interleave_top,fieldorder=tff";
    media::run_ffmpeg(&path, &["-f lavfi -i", source, "-c:v mpeg2video -q:v 2 -flags +ildct+ilme"]);
    let mut bench = Bench::of_file(folder, &path, Container::Matroska, FrameRate { num: 50, den: 1 }, 4.0);
    if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
        (plan.deinterlace, plan.has_frame_per_field) = (true, true);
    }
    let expected = bench.all_segments().await;
    let bench = bench.with_gstreamer();
    let output = bench.all_segments().await;
    let (a, b) = (bench.write_joined("ffmpeg.ts", &expected), bench.write_joined("gstreamer.ts", &output));
    assert_eq!((media::packets(&a).len(), media::packets(&b).len()), (200, 200));
    let psnr = media::worst_psnr_decibels(&a, &b);
    assert!(psnr > 24.0, "frames differ, {psnr} dB");
}

#[tokio::test]
async fn video_is_rotated_as_its_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let (unrotated, path) = (folder.path().join("flat.mp4"), folder.path().join("turned.mp4"));
    media::run_ffmpeg(
        &unrotated,
        &["-f lavfi -i", "testsrc2=s=320x180:r=25:d=4", "-c:v libx264 -preset ultrafast -pix_fmt yuv420p"],
    );
    media::run_ffmpeg(&path, &["-i", unrotated.to_str().unwrap(), "-c copy -metadata:s:v:0 rotate=90"]);
    let mut bench = Bench::of_file(folder, &path, Container::Mp4, FPS25, 4.0);
    if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
        (plan.width, plan.height) = (180, 320);
    }
    let expected = bench.single_segment(1).await;
    for stream in &mut Arc::make_mut(&mut bench.media).streams {
        if let StreamKind::Video(video) = &mut stream.kind {
            // This ffmpeg writes a matrix for counterclockwise rotation.
            video.rotation = 270;
        }
    }
    let bench = bench.with_gstreamer();
    let output = bench.single_segment(1).await;
    let psnr = media::worst_psnr_decibels(
        &bench.write_joined("ffmpeg.ts", [&expected]),
        &bench.write_joined("gstreamer.ts", [&output]),
    );
    assert!(psnr > 24.0, "frames differ, {psnr} dB");
}
