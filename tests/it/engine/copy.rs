//! Copied runs: segments begin at the source's keyframes, and no packet is lost or repeated.

use super::*;
use crate::kit::film::Seen;
use hearthcast::engine::index::build_index;

const SOURCES: [(&str, Container, &str); 5] = [
    ("a.mp4", Container::Mp4, "-bf 2"),
    ("fragments.mp4", Container::Mp4, "-bf 2 -movflags +frag_keyframe+delay_moov+default_base_moof"),
    ("a.mkv", Container::Matroska, "-bf 2"),
    ("a.ts", Container::MpegTs, "-bf 2"),
    ("a.flv", Container::Flv, "-bf 2"),
];

impl Bench {
    /// A film of flashes and beeps whose video is copied.
    async fn copying(name: &str, container: Container, made_by: &str, copy_audio: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let encoder = "-c:v libx264 -preset ultrafast -x264-params keyint=37:scenecut=0 -c:a aac -b:a 64k";
        film::flash_and_beep(&path, 7, &format!("{encoder} {made_by}"));
        let mut bench = Self::over(folder, &path, container, FPS25, 7.0);
        let video = bench.media.video_streams().next().unwrap().0.index;
        let audio = bench.media.audio_streams().next().unwrap().0.index;
        let index = build_index(&bench.source, &bench.media, video).await.unwrap();
        bench.grid = Arc::new(Grid::from_keyframes(&index.keyframes, 1.0, index.end_ticks as f64 / 90_000.0));
        let audio = if copy_audio {
            AudioPlan::Copy { stream: audio }
        } else {
            AudioPlan::Encode { stream: audio, channels: 2, kbps: 96, gain_tenths_db: None }
        };
        bench.rendition = Arc::new(Rendition { video: Some(VideoPlan::Copy { stream: video }), audio: Some(audio) });
        bench
    }
}

/// Packets without the sizes of audio, which may differ between encodes.
fn shape(packets: &[Seen], stream: u64, sizes: bool) -> Vec<(i64, bool, u64)> {
    let of = packets.iter().filter(|packet| packet.stream == stream);
    of.map(|packet| (packet.pts, packet.key, if sizes { packet.size } else { 0 })).collect()
}

#[tokio::test]
async fn copied_segments_hold_every_packet_once_in_any_order() {
    for (name, container, made_by) in SOURCES {
        // Audio is copied and encoded where times are exact, and encoded where they are rounded.
        let both: &[bool] = if name.ends_with("mp4") || name.ends_with("mkv") { &[true, false] } else { &[false] };
        for &copy_audio in both {
            let bench = Bench::copying(name, container, made_by, copy_audio).await;
            let run_through = bench.all().await;
            assert_eq!(run_through.len(), 5, "{name}: {:?}", bench.grid);
            let whole = bench.write("whole.out", &run_through);
            let source = film::packets(&bench.folder.path().join(name));
            let joined = film::packets(&whole);
            let pictures = |packets: &[Seen]| shape(packets, 0, false).len();
            assert_eq!(pictures(&joined), pictures(&source), "{name}");
            let sounds = |packets: &[Seen]| shape(packets, 1, false).len();
            if copy_audio {
                // ffmpeg drops the packet of encoder priming that an edit list hides.
                assert!(
                    sounds(&joined).abs_diff(sounds(&source)) <= 2,
                    "{name}: {} {}",
                    sounds(&joined),
                    sounds(&source)
                );
            }
            assert_eq!(film::complaints(&whole), "", "{name}");
            let (flashes, beeps) = film::flashes_and_beeps(&whole, 25.0);
            assert_eq!((flashes.len(), beeps.len()), (7, 7), "{name}");
            for (flash, beep) in flashes.iter().zip(&beeps) {
                assert!((flash - beep).abs() < 0.04, "{name}: flash at {flash}, beep at {beep}");
            }
            for index in [3] {
                let (a, b) =
                    (bench.write("a.out", [&run_through[index]]), bench.write("b.out", [&bench.one(index).await]));
                let (a, b) = (film::packets(&a), film::packets(&b));
                assert!(a[0].key && a[0].pts == 3600 * 90_000 + bench.grid.segment_start(index), "{name} {index}");
                assert_eq!(shape(&a, 0, true), shape(&b, 0, true), "{name} segment {index}");
                // ffmpeg counts from the first packet it copies, so that whole-millisecond times move slightly.
                let (a, b) = (shape(&a, 1, copy_audio), shape(&b, 1, copy_audio));
                assert_eq!(a.len(), b.len(), "{name} segment {index}");
                for (a, b) in a.iter().zip(&b) {
                    assert!((a.0 - b.0).abs() <= 90 && a.2 == b.2, "{name} segment {index}: {a:?} {b:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_pixel_aspect_that_only_the_container_knew_is_in_the_copy() {
    let mut bench = Bench::copying("a.mp4", Container::Mp4, "-bf 2", true).await;
    let aspect = |path: &Path| {
        let known = film::ffprobe(path, &["-select_streams", "v:0", "-show_entries", "stream=sample_aspect_ratio"]);
        known["streams"][0]["sample_aspect_ratio"].as_str().map(str::to_owned)
    };
    let plain = bench.write("plain.ts", [&bench.one(1).await]);
    assert_eq!(aspect(&plain).as_deref(), Some("1:1"));
    let mut media = (*bench.media).clone();
    for stream in &mut media.streams {
        if let StreamKind::Video(video) = &mut stream.kind {
            video.sample_aspect = (16, 11);
        }
    }
    bench.media = Arc::new(media);
    let wide = bench.write("wide.ts", [&bench.one(1).await]);
    assert_eq!(aspect(&wide).as_deref(), Some("16:11"));
    assert_eq!(film::complaints(&wide), "");
}
