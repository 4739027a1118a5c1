//! The keyframe index, compared with ffprobe's packets.

use super::*;
use hearthcast::domain::time::Ticks;
use hearthcast::engine::index::{RecoveryPoints, build_index};

/// Keyframes and end according to ffprobe, in source time.
fn keyframes_by_ffprobe(path: &Path, media: &Media) -> (Vec<Ticks>, Ticks) {
    let report = media::ffprobe(path, &["-select_streams", "v:0", "-show_packets"]);
    let seconds = |value: &serde_json::Value, default| value.as_str().unwrap_or(default).parse::<f64>().unwrap();
    let time = |value: &serde_json::Value| Ticks::from_seconds(seconds(value, "0") - media.start_seconds);
    let length = |value: &serde_json::Value| Ticks::from_seconds(seconds(value, "0.04"));
    let packets = report["packets"].as_array().unwrap();
    let keys = packets.iter().filter(|packet| packet["flags"].as_str().unwrap().starts_with('K'));
    let mut keys: Vec<Ticks> = keys.map(|packet| time(&packet["pts_time"])).collect();
    keys.sort_unstable();
    let ends = packets.iter().map(|packet| time(&packet["pts_time"]) + length(&packet["duration_time"]));
    (keys, ends.max().unwrap())
}

#[tokio::test]
async fn the_index_equals_ffprobes_keyframes_for_every_container() {
    for (name, container, encoder_args) in [
        ("end.mp4", Container::Mp4, "-bf 3"),
        ("front.mp4", Container::Mp4, "-bf 2 -movflags +faststart"),
        ("baseline.mp4", Container::Mp4, "-bf 0"),
        ("late.mp4", Container::Mp4, "-bf 2 -output_ts_offset 1.5"),
        ("fragments.mp4", Container::Mp4, "-bf 2 -movflags +frag_keyframe+empty_moov+default_base_moof"),
        ("negative.mp4", Container::Mp4, "-bf 2 -movflags +negative_cts_offsets"),
        ("fragments-negative.mp4", Container::Mp4, "-bf 2 -movflags +frag_keyframe+empty_moov+negative_cts_offsets"),
        ("a.mov", Container::Mp4, "-bf 2"),
        ("a.mkv", Container::Matroska, "-bf 2"),
        ("front.mkv", Container::Matroska, "-bf 2 -reserve_index_space 10000 -cluster_time_limit 500"),
        ("a.ts", Container::MpegTs, "-bf 2"),
        ("a.flv", Container::Flv, "-bf 2"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let encoder = "-c:v libx264 -preset ultrafast -x264-params keyint=37:scenecut=0";
        media::flash_and_beep(&path, 6, &format!("{encoder} -c:a aac -b:a 64k {encoder_args}"));
        let media = media::probe_media(&path, container);
        let index = build_index(&media::open(&path), &media, 0, RecoveryPoints::Refused).await;
        let index = index.unwrap_or_else(|error| panic!("{name}: {error}"));
        let (keys, end) = keyframes_by_ffprobe(&path, &media);
        let is_near = |a: Ticks, b: Ticks| (a - b).abs() <= Ticks(3);
        assert_eq!(keys.len(), 5, "{name}");
        assert_eq!(index.keyframes.len(), keys.len(), "{name}: {:?} {keys:?}", index.keyframes);
        assert!(
            index.keyframes.iter().zip(&keys).all(|(a, b)| is_near(*a, *b)),
            "{name}: {:?} {keys:?}",
            index.keyframes
        );
        assert!((index.end - end).abs() <= Ticks::from_ms(40), "{name}: ends at {:?} or {end:?}", index.end);
        let longest_gap = index.keyframes.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest_gap >= Some(Ticks::from_ms(37 * 40 - 1)), "{name}");
    }
}

#[tokio::test]
async fn segments_begin_at_recovery_points_only_where_they_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    for (name, container) in [("a.mp4", Container::Mp4), ("a.mkv", Container::Matroska), ("a.ts", Container::MpegTs)] {
        let path = folder.path().join(name);
        let encoder_args = "-c:v libx264 -preset medium -bf 3 -x264-params keyint=25:scenecut=0:open-gop=1 -an";
        media::flash_and_beep(&path, 6, encoder_args);
        let (source, media) = (media::open(&path), media::probe_media(&path, container));
        let closed = build_index(&source, &media, 0, RecoveryPoints::Refused).await.unwrap();
        assert_eq!(closed.keyframes, [Ticks::ZERO], "{name}: only the first frame is an IDR");
        assert!(closed.has_closed_groups, "{name}");
        let open = build_index(&source, &media, 0, RecoveryPoints::Accepted).await.unwrap();
        let (keys, _) = keyframes_by_ffprobe(&path, &media);
        let is_near = |(a, b): (&Ticks, &Ticks)| (*a - *b).abs() <= Ticks(3);
        assert!(keys.len() >= 6 && open.keyframes.len() == keys.len(), "{name}: {:?} {keys:?}", open.keyframes);
        assert!(open.keyframes.iter().zip(&keys).all(is_near), "{name}: {:?} {keys:?}", open.keyframes);
        assert!(!open.has_closed_groups && open.end == closed.end, "{name}");
        assert!((open.end - Ticks::from_ms(6000)).abs() <= Ticks::from_ms(40), "{name}: {:?}", open.end);
    }
}

#[tokio::test]
async fn uncopyable_video_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mp4");
    media::flash_and_beep(&path, 2, "-c:v mpeg4 -c:a aac");
    let result =
        build_index(&media::open(&path), &media::probe_media(&path, Container::Mp4), 0, RecoveryPoints::Refused).await;
    assert!(result.unwrap_err().to_string().contains("mpeg4 is not supported"));
}
