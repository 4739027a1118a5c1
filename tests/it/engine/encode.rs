//! Encoded runs: exact grid, the same segments in any order, audio in sync with video.

use super::*;
use crate::kit::film::Seen;

const X264: &str = "-c:v libx264 -preset ultrafast -g 60 -bf 2 -c:a aac -b:a 96k";
const BASE: i64 = 3600 * 90_000;

fn split(packets: &[Seen]) -> (Vec<Seen>, Vec<Seen>) {
    packets.iter().cloned().partition(|packet| packet.stream == 0)
}

#[tokio::test]
async fn every_frame_lies_on_the_grid_and_joined_segments_decode_without_a_word() {
    on_the_grid(Bench::encoding("a.mp4", Container::Mp4, 7, X264)).await;
}

pub(super) async fn on_the_grid(bench: Bench) {
    let segments = bench.all().await;
    assert_eq!(segments.iter().map(|segment| segment.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    for segment in &segments {
        assert_eq!(segment.bytes.len() % 188, 0);
        // PAT, then PMT, then a keyframe's first packet with the random access indicator.
        let pid = |n: usize| u16::from_be_bytes([segment.bytes[n * 188 + 1] & 0x1f, segment.bytes[n * 188 + 2]]);
        assert_eq!((pid(0), pid(1)), (0, 0x20));
        let path = bench.write("one.ts", [segment]);
        let (video, _) = split(&film::packets(&path));
        assert!(video[0].key, "segment {} begins with a keyframe", segment.index);
        assert_eq!(video[0].pts, BASE + bench.grid.segment_start(segment.index));
    }
    let whole = bench.write("whole.ts", &segments);
    assert_eq!(film::complaints(&whole), "");
    let (video, audio) = split(&film::packets(&whole));
    let mut shown: Vec<i64> = video.iter().map(|packet| packet.pts - BASE).collect();
    shown.sort_unstable();
    assert_eq!(shown, (0..175).map(|n| n * 3600).collect::<Vec<_>>());
    // 7 s are 328.1 AAC frames: all frames that begin before the end.
    let heard: Vec<i64> = audio.iter().map(|packet| packet.pts - BASE).collect();
    assert_eq!(heard, (0..329).map(|n| n * 1920).collect::<Vec<_>>());
}

#[tokio::test]
async fn flash_and_beep_stay_together() {
    for (name, container, made_by) in [
        ("a.mp4", Container::Mp4, X264),
        ("a.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -c:a ac3"),
        ("a.ts", Container::MpegTs, "-c:v mpeg2video -q:v 3 -c:a mp2"),
        ("a.webm", Container::Webm, "-c:v libvpx -deadline realtime -cpu-used 8 -b:v 1M -c:a libvorbis"),
        ("a.avi", Container::Avi, "-c:v mpeg4 -q:v 3 -bf 0 -c:a mp3"),
        ("cd.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -ar 44100 -c:a flac"),
        ("telephone.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -ar 8000 -ac 1 -c:a flac"),
    ] {
        together(&Bench::encoding(name, container, 5, made_by), 0.04).await;
    }
}

/// Asserts a flash and a beep every second, less than `apart` seconds from each other.
pub(super) async fn together(bench: &Bench, apart: f64) {
    let name = bench.source.file_name();
    let whole = bench.write("whole.ts", &bench.all().await);
    assert_eq!(film::complaints(&whole), "", "{name}");
    let (flashes, beeps) = film::flashes_and_beeps(&whole, 25.0);
    assert_eq!((flashes.len(), beeps.len()), (5, 5), "{name}: {flashes:?} {beeps:?}");
    for (second, (flash, beep)) in flashes.iter().zip(&beeps).enumerate() {
        assert!((flash - beep).abs() < apart, "{name}: flash at {flash}, beep at {beep}");
        assert!((flash - 3600.0 - second as f64).abs() < 0.041, "{name}: flash at {flash}");
    }
}

#[tokio::test]
async fn segments_are_the_same_in_any_order() {
    for (name, container, made_by) in [
        ("a.mp4", Container::Mp4, X264),
        ("a.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -bf 3 -c:a ac3"),
        ("a.ts", Container::MpegTs, "-c:v libx264 -preset ultrafast -g 50 -bf 2 -c:a mp2"),
    ] {
        in_any_order(&Bench::encoding(name, container, 7, made_by)).await;
    }
}

pub(super) async fn in_any_order(bench: &Bench) {
    let name = bench.source.file_name();
    let run_through = bench.all().await;
    assert_eq!(run_through.len(), 6);
    for index in [5, 1, 4] {
        let jumped = bench.one(index).await;
        assert_eq!(jumped.index, index);
        let (a, b) = (bench.write("through.ts", [&run_through[index]]), bench.write("jumped.ts", [&jumped]));
        let times = |path: &Path| {
            let (video, audio) = split(&film::packets(path));
            let mut video: Vec<i64> = video.iter().map(|packet| packet.pts).collect();
            video.sort_unstable();
            (video, audio.iter().map(|packet| packet.pts).collect::<Vec<_>>())
        };
        assert_eq!(times(&a), times(&b), "{name} segment {index}");
        let psnr = film::psnr(&a, &b);
        assert!(psnr > 30.0, "{name} segment {index}: frames differ, {psnr} dB");
    }
}
