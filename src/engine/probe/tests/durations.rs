//! The duration of files that are truncated, joined, or state a wrong one or none.

use std::process::Command;

use super::*;
use crate::engine::container::ogg;

#[tokio::test]
async fn a_truncated_film_has_a_warning_and_its_real_duration() {
    let films = Films::new();
    for (name, more) in [("a.mp4", &["-movflags", "faststart", "-g", "5"][..]), ("a.mkv", &["-g", "5"])] {
        let whole = films.make(name, more);
        let source = films.write("half", &whole[..whole.len() * 6 / 10]);
        assert!(by_readers(&source).await.is_err(), "{name}: the quick way refuses it");
        let media = by_ffprobe(&source).await;
        let seconds = media.duration_seconds.unwrap();
        assert!((0.3..1.9).contains(&seconds), "{name}: {seconds}");
        assert!(media.warnings.iter().any(|warning| warning.contains("truncated")), "{name}: {:?}", media.warnings);
    }
}

#[tokio::test]
async fn a_missing_tail_gives_a_warning_even_for_a_short_film() {
    let films = Films::new();
    let whole = films.make("a.mp4", &["-movflags", "faststart", "-t", "0.56", "-g", "5"]);
    let media = by_ffprobe(&films.write("b.mp4", &whole[..whole.len() * 6 / 10])).await;
    assert!(media.warnings.iter().any(|warning| warning.contains("truncated")), "{:?}", media.warnings);
}

#[tokio::test]
async fn the_duration_of_half_a_file_is_that_of_its_last_packets() {
    let films = Films::new();
    let plain = ["-pix_fmt", "yuv420p", "-ar", "44100"];
    for (name, more) in [
        ("a.flv", &["-c:a", "aac"][..]),
        ("b.flv", &["-c:v", "flv1", "-c:a", "mp3"]),
        ("a.wmv", &["-c:v", "wmv2", "-c:a", "wmav2"]),
        ("a.avi", &["-c:v", "mpeg4", "-c:a", "mp3"]),
        ("a.wv", &["-vn", "-c:a", "wavpack"]),
        ("a.flac", &["-vn", "-c:a", "flac"]),
    ] {
        let whole = films.make(name, &[&plain[..], more].concat());
        let media = by_ffprobe(&films.open(name)).await;
        let stated = media.duration_seconds.unwrap();
        assert!((1.9..2.2).contains(&stated) && media.warnings.is_empty(), "{name}: {stated} {:?}", media.warnings);
        let media = by_ffprobe(&films.write("half", &whole[..whole.len() / 2])).await;
        let present = packet_seconds(&films.path("half"));
        let seconds = media.duration_seconds.unwrap();
        assert!((seconds - present).abs() < 0.3 && present < 1.6, "{name}: {seconds} s reported, {present} s present");
        assert!(media.warnings.iter().any(|warning| warning.contains("truncated")), "{name}: {:?}", media.warnings);
        assert!(media.is_seekable);
    }
}

#[tokio::test]
async fn a_recorded_stream_of_asf_packets_is_as_long_as_its_last_one() {
    let films = Films::new();
    let mut bytes = films.make("a.wmv", &["-pix_fmt", "yuv420p", "-ar", "44100", "-c:v", "wmv2", "-c:a", "wmav2"]);
    // The number of packets is 0, and the broadcast flag marks sizes as invalid (section 3.2).
    let properties = [0xa1, 0xdc, 0xab, 0x8c, 0x47, 0xa9, 0xcf, 0x11];
    let at = bytes.windows(8).position(|eight| eight == properties).expect("file properties");
    bytes[at + 56..at + 64].fill(0);
    bytes[at + 88] |= 1;
    let media = by_ffprobe(&films.write("stream.wmv", &bytes)).await;
    let seconds = media.duration_seconds.unwrap();
    assert!((1.8..2.3).contains(&seconds), "{seconds}");
    assert_eq!(media.warnings, ["the header has no duration; it was measured"]);
}

/// Duration of the first stream of a file by its packets, seconds.
fn packet_seconds(path: &Path) -> f64 {
    let output = Command::new("ffprobe")
        .args("-v quiet -select_streams 0 -show_entries packet=pts_time,duration_time -of csv=p=0".split(' '))
        .arg(path)
        .output()
        .expect("ffprobe runs");
    let text = String::from_utf8(output.stdout).unwrap();
    let end = |line: &str| Some(line.split(',').filter_map(|field| field.parse::<f64>().ok()).sum());
    text.lines().filter_map(end).fold(0.0, f64::max)
}

#[tokio::test]
async fn a_chain_of_streams_is_as_long_as_all_links_of_one_format() {
    let films = Films::new();
    let make_link = |name: &str, codec: &str, seconds: u32, channels: &str| {
        let tone = format!("sine=frequency={}:sample_rate=48000:duration={seconds}", 300 + seconds);
        let args = format!("-f lavfi -i {tone} -ac {channels} -c:a {codec} -serial_offset {seconds}");
        run_ffmpeg(args.split(' '), &films.path(name));
        std::fs::read(films.path(name)).unwrap()
    };
    for (name, codec) in [("a.ogg", "libvorbis"), ("a.opus", "libopus")] {
        let (first, second, third) =
            (make_link(name, codec, 10, "1"), make_link(name, codec, 14, "1"), make_link(name, codec, 3, "1"));
        let stereo = make_link(name, codec, 4, "2");
        // A recorder that joined a station in the middle of a title: headers, then pages from about second 8.
        let is_late = |page: &ogg::Page| page.granule > 8 * 48_000;
        let late = ogg::pages(&second, 0).filter(|page| page.granule == 0 || is_late(page));
        let late: Vec<u8> = late.flat_map(|page| second[page.at as usize..][..page.len].to_vec()).collect();
        let skipped = ogg::pages(&second, 0).filter(|page| !is_late(page)).last().unwrap().granule as f64 / 48_000.0;
        for (name, parts, seconds, pieces, warnings) in [
            ("one.ogg", vec![&first], 10.0, 0, 0),
            ("chain.ogg", vec![&first, &second], 24.0, 2, 1),
            ("three.ogg", vec![&first, &second, &third], 27.0, 3, 1),
            ("late.ogg", vec![&late, &first], 24.0 - skipped, 2, 1),
            ("unlike.ogg", vec![&first, &stereo], 10.0, 0, 1),
        ] {
            let bytes: Vec<u8> = parts.into_iter().flatten().copied().collect();
            let media = by_ffprobe(&films.write(name, &bytes)).await;
            let found = media.duration_seconds.unwrap();
            assert!((found - seconds).abs() < 0.1, "{codec} {name}: {found}");
            assert_eq!(media.clock_pieces.len(), pieces, "{codec} {name}: {:?}", media.clock_pieces);
            assert_eq!(media.warnings.len(), warnings, "{codec} {name}: {:?}", media.warnings);
        }
    }
}

#[tokio::test]
async fn a_wrong_matroska_header_is_detected_by_cues_and_clusters() {
    let films = Films::new();
    let mut bytes = films.make("a.mkv", &["-g", "10"]);
    let at = bytes.windows(3).position(|three| three == [0x44, 0x89, 0x88]).expect("a duration") + 3;
    let cues = bytes.windows(4).rposition(|four| four == [0x1c, 0x53, 0xbb, 0x6b]).expect("cues");
    for (milliseconds, has_cues, is_wrong) in
        [(3_600_000.0, true, true), (3_600_000.0, false, true), (500.0, true, true), (2_000.0, true, false)]
    {
        bytes[at..at + 8].copy_from_slice(&f64::to_be_bytes(milliseconds));
        // An element id that does not exist.
        bytes[cues] = if has_cues { 0x1c } else { 0x1d };
        let source = films.write("b.mkv", &bytes);
        for media in by_readers(&source).await.into_iter().chain([by_ffprobe(&source).await]) {
            let seconds = media.duration_seconds.unwrap();
            assert!((1.8..2.2).contains(&seconds), "{milliseconds} ms, cues {has_cues}: {seconds}");
            assert_eq!(!media.warnings.is_empty(), is_wrong, "{milliseconds} ms: {:?}", media.warnings);
        }
    }
}

#[tokio::test]
async fn raw_audio_is_as_long_as_its_frames() {
    let films = Films::new();
    // With a quiet beginning, an estimate by the first frames is far too long.
    let source = "aevalsrc='if(lt(t,8),0,random(0))':s=44100:d=20";
    for (name, more) in [
        ("a.aac", &["-c:a", "aac", "-b:a", "160k"][..]),
        ("a.mp3", &["-c:a", "libmp3lame", "-q:a", "2", "-write_xing", "0", "-id3v2_version", "3"]),
        ("b.mp3", &["-c:a", "libmp3lame", "-q:a", "2"]),
    ] {
        run_ffmpeg(["-f", "lavfi", "-i", source].into_iter().chain(more.iter().copied()), &films.path(name));
        let media = by_ffprobe(&films.open(name)).await;
        let seconds = media.duration_seconds.unwrap();
        assert!((19.9..20.2).contains(&seconds), "{name}: {seconds}");
        assert!(media.is_seekable && media.warnings.is_empty(), "{name}: {:?}", media.warnings);
    }
}

#[tokio::test]
async fn fragments_without_a_stated_duration_are_measured() {
    let films = Films::new();
    let mut bytes = films.make("a.mp4", &["-g", "5", "-movflags", "empty_moov+frag_keyframe+default_base_moof"]);
    // "Unknown", as some muxers write it into each track's header.
    let headers: Vec<usize> =
        bytes.windows(4).enumerate().filter(|(_, four)| *four == b"mdhd").map(|(at, _)| at).collect();
    assert_eq!(headers.len(), 2);
    for at in headers {
        bytes[at + 20..at + 24].fill(0xff);
    }
    let media = by_ffprobe(&films.write("b.mp4", &bytes)).await;
    let seconds = media.duration_seconds.unwrap();
    assert!((1.9..2.2).contains(&seconds), "{seconds}: {:?}", media.warnings);
    assert!(media.is_seekable);
}
