use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{ProbeTools, coded, matroska, mp4, mpegts, probe_in_process, probe_with_ffprobe, truncation};
use crate::domain::media::{Container, Media, Stream};
use crate::engine::source::{SourceFile, open_in_test};

mod durations;

fn make_film(path: &Path, options: &[&str]) {
    // A further input must precede all output options.
    let (inputs, more) = options.split_at(if options.first() == Some(&"-i") { 2 } else { 0 });
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "testsrc2=size=64x64:rate=25:duration=2"])
        .args(["-f", "lavfi", "-i", "sine=sample_rate=48000:duration=2"])
        .args(inputs)
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac"])
        .args(more)
        .arg(path)
        .status();
    assert!(status.expect("ffmpeg runs").success());
}

fn open(folder: &Path, name: &str) -> SourceFile {
    open_in_test(&folder.join(name))
}

async fn run_ffprobe(folder: &Path, name: &str) -> Media {
    let tools = ProbeTools::for_ffmpeg(Path::new("ffmpeg"));
    probe_with_ffprobe(&tools, &Arc::new(open(folder, name))).await.unwrap()
}

/// A pseudo-random number, the same in every run (xorshift).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn damaged_headers_neither_panic_nor_delay_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    make_film(&folder.path().join("good.mp4"), &["-movflags", "faststart"]);
    make_film(&folder.path().join("good.mkv"), &[]);
    let mut state = 0x9e37_79b9_7f4a_7c15;
    make_film(&folder.path().join("good.ts"), &[]);
    for name in ["good.mp4", "good.mkv", "good.ts"] {
        let good = std::fs::read(folder.path().join(name)).unwrap();
        let header = good.len().min(4096) as u64;
        for _ in 0..400 {
            let mut bad = good.clone();
            for _ in 0..1 + random(&mut state) % 6 {
                let extreme = [0, 1, 0x7f, 0x80, 0xff][(random(&mut state) % 5) as usize];
                bad[(random(&mut state) % header) as usize] = extreme;
            }
            if random(&mut state).is_multiple_of(10) {
                bad.truncate((random(&mut state) % good.len() as u64) as usize);
            }
            std::fs::write(folder.path().join("bad"), &bad).unwrap();
            let source = open(folder.path(), "bad");
            let started = Instant::now();
            let _ = (mp4::read_outline(&source).is_ok(), matroska::read_outline(&source, false).is_ok());
            let _ = mpegts::read_outline(&source).is_ok();
            let _ = (matroska::last_timestamp(&source, matroska::last_cluster(&source)), matroska::stated_end(&source));
            let _ = (
                truncation::measure_present_share(&source, Container::Mp4),
                truncation::measure_present_share(&source, Container::Webm),
            );
            assert!(started.elapsed() < Duration::from_secs(2), "{name}: {:?}", started.elapsed());
        }
    }
}

#[tokio::test]
async fn both_probes_agree_on_a_plain_film() {
    let folder = tempfile::tempdir().unwrap();
    let tools = ProbeTools::for_ffmpeg(Path::new("ffmpeg"));
    let x265_params = "log-level=none:range=full:colorprim=bt709:transfer=bt709:colormatrix=bt709";
    for (name, more) in [
        ("a.mp4", &["-metadata:s:a:0", "language=fre"][..]),
        ("a.mkv", &["-disposition:a:0", "forced"]),
        (
            "full.mp4",
            &["-pix_fmt", "yuvj420p", "-colorspace", "bt709", "-color_trc", "bt709", "-color_primaries", "bt709"],
        ),
        ("full.mkv", &["-pix_fmt", "yuvj420p"]),
        ("hevc.mp4", &["-c:v", "libx265", "-x265-params", x265_params]),
        ("hevc.mkv", &["-c:v", "libx265", "-x265-params", x265_params]),
        ("a.ts", &["-metadata:s:a:0", "language=fre", "-b:a", "32k"]),
        ("b.ts", &["-c:a", "ac3", "-ac", "6", "-profile:v", "baseline"]),
        ("c.ts", &["-c:a", "eac3", "-mpegts_flags", "system_b", "-r", "24000/1001", "-bf", "3"]),
        ("d.ts", &["-c:a", "libmp3lame", "-ac", "2", "-vf", "setsar=4/3", "-color_range", "pc"]),
        ("e.ts", &["-c:a", "mp2", "-colorspace", "bt709", "-color_trc", "bt709", "-color_primaries", "bt709"]),
        ("f.ts", &["-c:a", "ac3", "-map", "1:a", "-map", "0:v", "-map", "1:a", "-output_ts_offset", "40000"]),
    ] {
        make_film(&folder.path().join(name), more);
        let source = Arc::new(open(folder.path(), name));
        let in_process = probe_in_process(&tools, &source, Box::new(())).await.unwrap();
        let by_ffprobe = probe_with_ffprobe(&tools, &source).await.unwrap();
        let without_bitrate = |media: &Media| {
            let plain = |stream: &Stream| Stream { bitrate_kbps: None, ..stream.clone() };
            (media.container, media.mime_type.clone(), media.streams.iter().map(plain).collect::<Vec<_>>())
        };
        assert_eq!(without_bitrate(&in_process), without_bitrate(&by_ffprobe), "{name}");
        let seconds = |media: &Media| media.duration_seconds.unwrap();
        assert!((seconds(&in_process) - seconds(&by_ffprobe)).abs() < 0.1, "{name}");
        assert!((in_process.start_seconds - by_ffprobe.start_seconds).abs() < 0.02, "{name}");
    }
}

#[tokio::test]
async fn attached_fonts_do_not_fill_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(
        path("a.ass"),
        "[Script Info]\nScriptType: v4.00+\n\n[Events]\nFormat: Start, End, Text\n\
        Dialogue: 0:00:00.10,0:00:01.00,hello\n",
    )
    .unwrap();
    // As a hexadecimal dump this is 13 MB.
    std::fs::write(path("font.ttf"), vec![0x5a; 3 << 20]).unwrap();
    let (cues, font) = (path("a.ass"), path("font.ttf"));
    let (cues, font) = (cues.to_str().unwrap(), font.to_str().unwrap());
    make_film(
        &path("a.mkv"),
        &["-i", cues, "-c:s", "ass", "-pix_fmt", "yuv420p10le", "-attach", font, "-metadata:s:t", "mimetype=font/ttf"],
    );
    let media = run_ffprobe(folder.path(), "a.mkv").await;
    let codecs: Vec<_> = media.streams.iter().map(|stream| stream.codec.as_str()).collect();
    assert_eq!(codecs, ["h264", "aac", "ass"]);
    assert!(media.streams[0].codec_string.as_deref().unwrap().starts_with("avc1.6E"), "{:?}", media.streams[0]);
    assert!(media.attachments[0].is_font());
}

#[tokio::test]
async fn chapters_do_not_fill_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // In the report this is more than 4 MiB.
    let title = "x".repeat(3000);
    let chapter = |n: u32| format!("[CHAPTER]\nTIMEBASE=1/1000\nSTART={n}\nEND={}\ntitle={title}\n", n + 1);
    std::fs::write(path("a.txt"), format!(";FFMETADATA1\n{}", (0..1500).map(chapter).collect::<String>())).unwrap();
    make_film(&path("a.mkv"), &["-i", path("a.txt").to_str().unwrap()]);
    let media = run_ffprobe(folder.path(), "a.mkv").await;
    let codecs: Vec<_> = media.streams.iter().map(|stream| stream.codec.as_str()).collect();
    assert_eq!(codecs, ["h264", "aac"]);
}

#[tokio::test]
async fn frames_of_more_than_8k_are_not_decoded_in_this_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.mp4");
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "color=black:s=8192x4352:r=25:d=0.2", "-c:v", "libx264", "-preset"])
        .args(["ultrafast", "-threads", "1"])
        .arg(&path)
        .status();
    assert!(made.expect("ffmpeg runs").success());
    let tools = ProbeTools::for_ffmpeg(Path::new("ffmpeg"));
    let reason = probe_in_process(&tools, &Arc::new(open(folder.path(), "large.mp4")), Box::new(())).await.unwrap_err();
    assert_eq!(reason, "frames too large to be decoded in this process");
    // The container may state a wrong size; the parameter sets cannot.
    let mut bytes = std::fs::read(&path).unwrap();
    // The first match is a brand, the last one the sample entry.
    let at = bytes.windows(4).rposition(|four| four == b"avc1").unwrap();
    assert_eq!(bytes[at + 28..at + 32], [0x20, 0, 0x11, 0], "8192 x 4352");
    bytes[at + 28..at + 32].copy_from_slice(&[1, 0, 1, 0]);
    std::fs::write(&path, bytes).unwrap();
    let reason = probe_in_process(&tools, &Arc::new(open(folder.path(), "large.mp4")), Box::new(())).await.unwrap_err();
    assert_eq!(reason, "frames too large to be decoded in this process");
    for (name, codec, header, replacement, reason) in [
        // A record without parameter sets: the decoder would take those in the frames.
        ("a.mp4", "libx264", &b"avcC"[..], &[1, 100, 0, 12, 0xff, 0xe0][..], "the video does not state its frame size"),
        // 16000 x 16000.
        (
            "a.mkv",
            "libvpx",
            &[0x9d, 1, 0x2a],
            &[0x80, 0x3e, 0x80, 0x3e],
            "frames too large to be decoded in this process",
        ),
    ] {
        make_film(&folder.path().join(name), &["-c:v", codec]);
        let mut bytes = std::fs::read(folder.path().join(name)).unwrap();
        let at = bytes.windows(header.len()).position(|window| window == header).unwrap() + header.len();
        bytes[at..at + replacement.len()].copy_from_slice(replacement);
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let why = probe_in_process(&tools, &Arc::new(open(folder.path(), name)), Box::new(())).await.unwrap_err();
        assert_eq!(why, reason, "{name}");
    }
}

#[test]
fn the_frame_size_is_read_from_the_video_itself() {
    let folder = tempfile::tempdir().unwrap();
    for (name, codec) in [("a.mp4", "libx264"), ("b.mp4", "libx265"), ("a.mkv", "libvpx"), ("b.mkv", "libvpx-vp9")] {
        make_film(&folder.path().join(name), &["-c:v", codec]);
        let source = open(folder.path(), name);
        let read =
            if name.ends_with("mkv") { matroska::read_outline(&source, false) } else { mp4::read_outline(&source) };
        assert_eq!(coded::luma_samples(&read.unwrap().tracks[0]), Some(64 * 64), "{codec}");
    }
}

#[test]
fn unusual_transport_streams_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let maps = ["-map", "0:v", "-map", "1:a"];
    for (name, more) in [
        ("plain.ts", &[][..]),
        ("programmes.ts", &[&maps[..], &["-program", "st=0", "-program", "st=1"]].concat()),
        ("interlaced.ts", &["-flags", "+ildct+ilme", "-x264-params", "tff=1"]),
        ("wraps.ts", &["-output_ts_offset", "95442"]),
        ("timed.m2ts", &[]),
        ("mpeg2.ts", &["-c:v", "mpeg2video"]),
        ("audio.ts", &["-vn"]),
    ] {
        make_film(&folder.path().join(name), more);
        let read = mpegts::read_outline(&open(folder.path(), name));
        let is_plain = read.is_ok_and(|(_, seen)| seen.iter().all(|seen| !seen.is_interlaced));
        assert_eq!(is_plain, name == "plain.ts", "{name}");
    }
    let plain = std::fs::read(folder.path().join("plain.ts")).unwrap();
    let middle = plain.len() / 188 / 2 * 188;
    for (name, bytes) in [
        ("twice", [&plain[..], &plain].concat()),
        ("late", plain[middle..].to_vec()),
        ("slipped", [&plain[..middle], &[0; 100], &plain[middle..]].concat()),
    ] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        assert!(mpegts::read_outline(&open(folder.path(), name)).is_err(), "{name}");
    }
}
