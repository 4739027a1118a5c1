//! Copied runs: segments begin at the source's keyframes, and no packet is lost or repeated.

use super::*;
use crate::kit::media::Packet;
use hearthcast::engine::index::{RecoveryPoints, build_index};

const FILMS: [(&str, Container, &str); 5] = [
    ("a.mp4", Container::Mp4, "-bf 2"),
    ("fragments.mp4", Container::Mp4, "-bf 2 -movflags +frag_keyframe+delay_moov+default_base_moof"),
    ("a.mkv", Container::Matroska, "-bf 2"),
    ("a.ts", Container::MpegTs, "-bf 2"),
    ("a.flv", Container::Flv, "-bf 2"),
];

impl Bench {
    /// A film of flashes and beeps whose video is copied.
    async fn with_copied_video(name: &str, container: Container, encoder_args: &str, copy_audio: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let encoder = "-c:v libx264 -preset ultrafast -x264-params keyint=37:scenecut=0 -c:a aac -b:a 64k";
        media::flash_and_beep(&path, 7, &format!("{encoder} {encoder_args}"));
        let mut bench = Self::of_file(folder, &path, container, FPS25, 7.0);
        let video = bench.media.video_streams().next().unwrap().0.index;
        let audio = bench.media.audio_streams().next().unwrap().0.index;
        let keyframe_index = build_index(&bench.source, &bench.media, video, RecoveryPoints::Refused).await.unwrap();
        bench.grid = Arc::new(Grid::from_keyframes(&keyframe_index.keyframes, 1.0, keyframe_index.end.as_seconds()));
        let audio = if copy_audio {
            AudioPlan::Copy { stream: audio }
        } else {
            AudioPlan::Encode { stream: audio, channels: 2, kbps: 96, gain_tenths_db: None }
        };
        bench.rendition = Arc::new(Rendition {
            video: Some(VideoPlan::Copy { stream: video }),
            audio: Some(audio),
            ..Rendition::default()
        });
        bench
    }
}

/// Packets without the sizes of audio, which may differ between encodes.
fn packet_shapes(packets: &[Packet], stream: u64, with_sizes: bool) -> Vec<(i64, bool, u64)> {
    let of_stream = packets.iter().filter(|packet| packet.stream == stream);
    of_stream.map(|packet| (packet.pts, packet.is_keyframe, if with_sizes { packet.size } else { 0 })).collect()
}

#[tokio::test]
async fn copied_segments_contain_every_packet_once_in_any_order() {
    for (name, container, encoder_args) in FILMS {
        // Audio is copied and encoded where times are exact, and encoded where they are rounded.
        let audio_modes: &[bool] =
            if name.ends_with("mp4") || name.ends_with("mkv") { &[true, false] } else { &[false] };
        for &copy_audio in audio_modes {
            let bench = Bench::with_copied_video(name, container, encoder_args, copy_audio).await;
            let segments = bench.all_segments().await;
            assert_eq!(segments.len(), 5, "{name}: {:?}", bench.grid);
            let joined_path = bench.write_joined("whole.out", &segments);
            let source = media::packets(&bench.folder.path().join(name));
            let joined = media::packets(&joined_path);
            let video_count = |packets: &[Packet]| packet_shapes(packets, 0, false).len();
            assert_eq!(video_count(&joined), video_count(&source), "{name}");
            let audio_count = |packets: &[Packet]| packet_shapes(packets, 1, false).len();
            if copy_audio {
                // ffmpeg drops the packet of encoder priming that an edit list hides.
                assert!(
                    audio_count(&joined).abs_diff(audio_count(&source)) <= 2,
                    "{name}: {} {}",
                    audio_count(&joined),
                    audio_count(&source)
                );
            }
            assert_eq!(media::decoder_warnings(&joined_path), "", "{name}");
            let (flashes, beeps) = media::flash_and_beep_times(&joined_path, 25.0);
            assert_eq!((flashes.len(), beeps.len()), (7, 7), "{name}");
            for (flash, beep) in flashes.iter().zip(&beeps) {
                assert!((flash - beep).abs() < 0.04, "{name}: flash at {flash}, beep at {beep}");
            }
            for index in [3] {
                let (a, b) = (
                    bench.write_joined("a.out", [&segments[index]]),
                    bench.write_joined("b.out", [&bench.single_segment(index).await]),
                );
                let (a, b) = (media::packets(&a), media::packets(&b));
                assert!(
                    a[0].is_keyframe && a[0].pts == 3600 * 90_000 + bench.grid.segment_start(index).0,
                    "{name} {index}"
                );
                assert_eq!(packet_shapes(&a, 0, true), packet_shapes(&b, 0, true), "{name} segment {index}");
                // ffmpeg counts from the first packet it copies, so that whole-millisecond times move slightly.
                let (a, b) = (packet_shapes(&a, 1, copy_audio), packet_shapes(&b, 1, copy_audio));
                assert_eq!(a.len(), b.len(), "{name} segment {index}");
                for (a, b) in a.iter().zip(&b) {
                    assert!((a.0 - b.0).abs() <= 90 && a.2 == b.2, "{name} segment {index}: {a:?} {b:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn the_pixel_aspect_of_the_container_is_in_the_copy() {
    let mut bench = Bench::with_copied_video("a.mp4", Container::Mp4, "-bf 2", true).await;
    let pixel_aspect = |path: &Path| {
        let report = media::ffprobe(path, &["-select_streams", "v:0", "-show_entries", "stream=sample_aspect_ratio"]);
        report["streams"][0]["sample_aspect_ratio"].as_str().map(str::to_owned)
    };
    let plain = bench.write_joined("plain.ts", [&bench.single_segment(1).await]);
    assert_eq!(pixel_aspect(&plain).as_deref(), Some("1:1"));
    let mut media = (*bench.media).clone();
    for stream in &mut media.streams {
        if let StreamKind::Video(video) = &mut stream.kind {
            video.sample_aspect = (16, 11);
        }
    }
    bench.media = Arc::new(media);
    let wide = bench.write_joined("wide.ts", [&bench.single_segment(1).await]);
    assert_eq!(pixel_aspect(&wide).as_deref(), Some("16:11"));
    assert_eq!(media::decoder_warnings(&wide), "");
}
