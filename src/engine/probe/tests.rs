use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{ProbeTools, coded, matroska, mp4, mpegts, probe_with_ffprobe, probe_with_readers, truncation};
use crate::domain::media::{Container, Media, Stream};
use crate::engine::damaged_films::{SeededRandom, damage, run_ffmpeg, thread_cpu_time};
use crate::engine::source::{SourceFile, open_in_test};
use crate::engine::worker::Isolation;

mod durations;

/// A folder with the films of a test.
struct Films(tempfile::TempDir);

impl Films {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a film of 2 s with audio, and returns its bytes. A further input must precede all output options.
    fn make(&self, name: &str, options: &[&str]) -> Vec<u8> {
        let (inputs, more) = options.split_at(if options.first() == Some(&"-i") { 2 } else { 0 });
        let film = "-f lavfi -i testsrc2=size=64x64:rate=25:duration=2 -f lavfi -i sine=sample_rate=48000:duration=2";
        let codecs = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac";
        let args = film.split(' ').chain(inputs.iter().copied()).chain(codecs.split(' ')).chain(more.iter().copied());
        run_ffmpeg(args, &self.path(name));
        std::fs::read(self.path(name)).unwrap()
    }

    fn open(&self, name: &str) -> Arc<SourceFile> {
        Arc::new(open_in_test(&self.path(name)))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Arc<SourceFile> {
        std::fs::write(self.path(name), bytes).unwrap();
        self.open(name)
    }
}

async fn by_readers(source: &Arc<SourceFile>) -> Result<Media, String> {
    probe_with_readers(&ProbeTools::for_ffmpeg(Path::new("ffmpeg")), source, &Isolation::None).await
}

async fn by_ffprobe(source: &Arc<SourceFile>) -> Media {
    probe_with_ffprobe(&ProbeTools::for_ffmpeg(Path::new("ffmpeg")), source).await.unwrap()
}

#[test]
fn damaged_headers_neither_panic_nor_delay_a_reader() {
    let films = Films::new();
    let mut random = SeededRandom(3);
    for name in ["good.mp4", "good.mkv", "good.ts"] {
        // The tables of the mp4 are at its beginning.
        let good = films.make(name, if name == "good.mp4" { &["-movflags", "faststart"] } else { &[] });
        for round in 0..400 {
            let mut bad = good.clone();
            let to = if round % 4 == 0 { bad.len() } else { bad.len().min(4096) };
            damage(&mut bad, 0, to, &mut random);
            let source = films.write("bad", &bad);
            let started = thread_cpu_time();
            let _ = (mp4::read_outline(&source).is_ok(), matroska::read_outline(&source, false).is_ok());
            let _ = mpegts::read_outline(&source).is_ok();
            let _ = (matroska::last_timestamp(&source, matroska::last_cluster(&source)), matroska::stated_end(&source));
            for container in [Container::Mp4, Container::Webm] {
                let _ = truncation::measure_present_share(&source, container);
            }
            let spent = thread_cpu_time() - started;
            assert!(spent < Duration::from_secs(2), "{name}: {spent:?}");
        }
    }
}

#[tokio::test]
async fn both_probes_agree_on_a_plain_film() {
    let films = Films::new();
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
        films.make(name, more);
        let source = films.open(name);
        let by_readers = by_readers(&source).await.unwrap();
        let by_ffprobe = by_ffprobe(&source).await;
        let without_bitrate = |media: &Media| {
            let plain = |stream: &Stream| Stream { bitrate_kbps: None, ..stream.clone() };
            (media.container, media.mime_type.clone(), media.streams.iter().map(plain).collect::<Vec<_>>())
        };
        assert_eq!(without_bitrate(&by_readers), without_bitrate(&by_ffprobe), "{name}");
        let seconds = |media: &Media| media.duration_seconds.unwrap();
        assert!((seconds(&by_readers) - seconds(&by_ffprobe)).abs() < 0.1, "{name}");
        assert!((by_readers.start_seconds - by_ffprobe.start_seconds).abs() < 0.02, "{name}");
    }
}

#[tokio::test]
async fn attached_fonts_and_chapters_do_not_fill_the_report() {
    let films = Films::new();
    std::fs::write(
        films.path("a.ass"),
        "[Script Info]\nScriptType: v4.00+\n\n[Events]\nFormat: Start, End, Text\n\
        Dialogue: 0:00:00.10,0:00:01.00,hello\n",
    )
    .unwrap();
    // As a hexadecimal dump this is 13 MB.
    std::fs::write(films.path("font.ttf"), vec![0x5a; 3 << 20]).unwrap();
    let (cues, font) = (films.path("a.ass"), films.path("font.ttf"));
    let (cues, font) = (cues.to_str().unwrap(), font.to_str().unwrap());
    films.make(
        "a.mkv",
        &["-i", cues, "-c:s", "ass", "-pix_fmt", "yuv420p10le", "-attach", font, "-metadata:s:t", "mimetype=font/ttf"],
    );
    let media = by_ffprobe(&films.open("a.mkv")).await;
    let codecs: Vec<_> = media.streams.iter().map(|stream| stream.codec.as_str()).collect();
    assert_eq!(codecs, ["h264", "aac", "ass"]);
    assert!(media.streams[0].codec_string.as_deref().unwrap().starts_with("avc1.6E"), "{:?}", media.streams[0]);
    assert!(media.attachments[0].is_font());
    // In the report this is more than 4 MiB.
    let title = "x".repeat(3000);
    let chapter = |n: u32| format!("[CHAPTER]\nTIMEBASE=1/1000\nSTART={n}\nEND={}\ntitle={title}\n", n + 1);
    std::fs::write(films.path("a.txt"), format!(";FFMETADATA1\n{}", (0..1500).map(chapter).collect::<String>()))
        .unwrap();
    films.make("a.mkv", &["-i", films.path("a.txt").to_str().unwrap()]);
    let media = by_ffprobe(&films.open("a.mkv")).await;
    let codecs: Vec<_> = media.streams.iter().map(|stream| stream.codec.as_str()).collect();
    assert_eq!(codecs, ["h264", "aac"]);
}

#[tokio::test]
async fn frames_of_more_than_8k_are_left_to_ffprobe() {
    let films = Films::new();
    let too_large = "frames too large for the discoverer";
    let args = "-f lavfi -i color=black:s=8192x4352:r=25:d=0.2 -c:v libx264 -preset ultrafast -threads 1";
    run_ffmpeg(args.split(' '), &films.path("large.mp4"));
    let source = films.open("large.mp4");
    assert_eq!(by_readers(&source).await.unwrap_err(), too_large);
    // The container may state a wrong size; the parameter sets cannot.
    let mut bytes = std::fs::read(films.path("large.mp4")).unwrap();
    // The first match is a brand, the last one the sample entry.
    let at = bytes.windows(4).rposition(|four| four == b"avc1").unwrap();
    assert_eq!(bytes[at + 28..at + 32], [0x20, 0, 0x11, 0], "8192 x 4352");
    bytes[at + 28..at + 32].copy_from_slice(&[1, 0, 1, 0]);
    assert_eq!(by_readers(&films.write("large.mp4", &bytes)).await.unwrap_err(), too_large);
    for (name, codec, header, replacement, reason) in [
        // A record without parameter sets: the decoder would take those in the frames.
        ("a.mp4", "libx264", &b"avcC"[..], &[1, 100, 0, 12, 0xff, 0xe0][..], "the video does not state its frame size"),
        // 16000 x 16000.
        ("a.mkv", "libvpx", &[0x9d, 1, 0x2a], &[0x80, 0x3e, 0x80, 0x3e], too_large),
    ] {
        let mut bytes = films.make(name, &["-c:v", codec]);
        let at = bytes.windows(header.len()).position(|window| window == header).unwrap() + header.len();
        bytes[at..at + replacement.len()].copy_from_slice(replacement);
        assert_eq!(by_readers(&films.write(name, &bytes)).await.unwrap_err(), reason, "{name}");
    }
}

#[test]
fn the_frame_size_is_read_from_the_video_itself() {
    let films = Films::new();
    for (name, codec) in [("a.mp4", "libx264"), ("b.mp4", "libx265"), ("a.mkv", "libvpx"), ("b.mkv", "libvpx-vp9")] {
        films.make(name, &["-c:v", codec]);
        let source = films.open(name);
        let read =
            if name.ends_with("mkv") { matroska::read_outline(&source, false) } else { mp4::read_outline(&source) };
        assert_eq!(coded::luma_samples(&read.unwrap().tracks[0]), Some(64 * 64), "{codec}");
    }
}

#[test]
fn unusual_transport_streams_are_refused() {
    let films = Films::new();
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
        films.make(name, more);
        let source = films.open(name);
        let read = mpegts::read_outline(&source);
        let is_plain = read.is_ok_and(|(_, seen)| seen.iter().all(|seen| !seen.is_interlaced));
        assert_eq!(is_plain, name == "plain.ts", "{name}");
    }
    let plain = std::fs::read(films.path("plain.ts")).unwrap();
    let middle = plain.len() / 188 / 2 * 188;
    for (name, bytes) in [
        ("twice", [&plain[..], &plain].concat()),
        ("late", plain[middle..].to_vec()),
        ("slipped", [&plain[..middle], &[0; 100], &plain[middle..]].concat()),
    ] {
        let source = films.write(name, &bytes);
        assert!(mpegts::read_outline(&source).is_err(), "{name}");
    }
}
