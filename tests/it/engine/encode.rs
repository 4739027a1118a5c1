//! Encoded runs: exact grid, the same segments in any order, audio in sync with video.

use super::*;
use crate::kit::media::Packet;

const ENCODER_ARGS: &str = "-c:v libx264 -preset ultrafast -g 60 -bf 2 -c:a aac -b:a 96k";
const BASE_TICKS: i64 = 3600 * 90_000;

fn split_video_audio(packets: &[Packet]) -> (Vec<Packet>, Vec<Packet>) {
    packets.iter().cloned().partition(|packet| packet.stream == 0)
}

#[tokio::test]
async fn every_frame_is_on_the_grid_and_joined_segments_decode_without_warnings() {
    check_grid(Bench::of_new_film("a.mp4", Container::Mp4, 7, ENCODER_ARGS)).await;
}

pub(super) async fn check_grid(bench: Bench) {
    let segments = bench.all_segments().await;
    assert_eq!(segments.iter().map(|segment| segment.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    for segment in &segments {
        assert_eq!(segment.bytes.len() % 188, 0);
        // PAT, then PMT, then a keyframe's first packet with the random access indicator.
        let pid = |n: usize| u16::from_be_bytes([segment.bytes[n * 188 + 1] & 0x1f, segment.bytes[n * 188 + 2]]);
        assert_eq!((pid(0), pid(1)), (0, 0x20));
        let path = bench.write_joined("one.ts", [segment]);
        let (video, _) = split_video_audio(&media::packets(&path));
        assert!(video[0].is_keyframe, "segment {} begins with a keyframe", segment.index);
        assert_eq!(video[0].pts, BASE_TICKS + bench.grid.segment_start(segment.index).0);
    }
    let joined_path = bench.write_joined("whole.ts", &segments);
    assert_eq!(media::decoder_warnings(&joined_path), "");
    let (video, audio) = split_video_audio(&media::packets(&joined_path));
    let mut video_times: Vec<i64> = video.iter().map(|packet| packet.pts - BASE_TICKS).collect();
    video_times.sort_unstable();
    assert_eq!(video_times, (0..175).map(|n| n * 3600).collect::<Vec<_>>());
    // 7 s are 328.1 AAC frames: all frames that begin before the end.
    let audio_times: Vec<i64> = audio.iter().map(|packet| packet.pts - BASE_TICKS).collect();
    assert_eq!(audio_times, (0..329).map(|n| n * 1920).collect::<Vec<_>>());
}

#[tokio::test]
async fn audio_and_video_stay_in_sync() {
    for (name, container, encoder_args) in [
        ("a.mp4", Container::Mp4, ENCODER_ARGS),
        ("a.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -c:a ac3"),
        ("a.ts", Container::MpegTs, "-c:v mpeg2video -q:v 3 -c:a mp2"),
        ("a.webm", Container::Webm, "-c:v libvpx -deadline realtime -cpu-used 8 -b:v 1M -c:a libvorbis"),
        ("a.avi", Container::Avi, "-c:v mpeg4 -q:v 3 -bf 0 -c:a mp3"),
        ("cd.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -ar 44100 -c:a flac"),
        ("telephone.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -ar 8000 -ac 1 -c:a flac"),
    ] {
        check_sync(&Bench::of_new_film(name, container, 5, encoder_args), 0.04).await;
    }
}

/// Asserts a flash and a beep every second, less than `max_offset_seconds` seconds from each other.
pub(super) async fn check_sync(bench: &Bench, max_offset_seconds: f64) {
    let name = bench.source.file_name();
    let joined_path = bench.write_joined("whole.ts", &bench.all_segments().await);
    assert_eq!(media::decoder_warnings(&joined_path), "", "{name}");
    let (flashes, beeps) = media::flash_and_beep_times(&joined_path, 25.0);
    assert_eq!((flashes.len(), beeps.len()), (5, 5), "{name}: {flashes:?} {beeps:?}");
    for (second, (flash, beep)) in flashes.iter().zip(&beeps).enumerate() {
        assert!((flash - beep).abs() < max_offset_seconds, "{name}: flash at {flash}, beep at {beep}");
        assert!((flash - 3600.0 - second as f64).abs() < 0.041, "{name}: flash at {flash}");
    }
}

#[tokio::test]
async fn segments_are_the_same_in_any_order() {
    for (name, container, encoder_args) in [
        ("a.mp4", Container::Mp4, ENCODER_ARGS),
        ("a.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 100 -bf 3 -c:a ac3"),
        ("a.ts", Container::MpegTs, "-c:v libx264 -preset ultrafast -g 50 -bf 2 -c:a mp2"),
    ] {
        check_any_order(&Bench::of_new_film(name, container, 7, encoder_args)).await;
    }
}

pub(super) async fn check_any_order(bench: &Bench) {
    let name = bench.source.file_name();
    let all_segments = bench.all_segments().await;
    assert_eq!(all_segments.len(), 6);
    for index in [5, 1, 4] {
        let single = bench.single_segment(index).await;
        assert_eq!(single.index, index);
        let (a, b) =
            (bench.write_joined("through.ts", [&all_segments[index]]), bench.write_joined("jumped.ts", [&single]));
        let times = |path: &Path| {
            let (video, audio) = split_video_audio(&media::packets(path));
            let mut video: Vec<i64> = video.iter().map(|packet| packet.pts).collect();
            video.sort_unstable();
            (video, audio.iter().map(|packet| packet.pts).collect::<Vec<_>>())
        };
        assert_eq!(times(&a), times(&b), "{name} segment {index}");
        let psnr_decibels = media::worst_psnr_decibels(&a, &b);
        assert!(psnr_decibels > 30.0, "{name} segment {index}: frames differ, {psnr_decibels} dB");
    }
}
