//! Encoded tracks as CMAF, alone and beside copied ones: joined segments decode without a warning, and are continuous.

use super::*;
use hearthcast::domain::cmaf::init_reader::{InitDescription, split_init};
use hearthcast::domain::mpegts::psi::TrackKind;
use hearthcast::domain::segment_format::SegmentFormat;
use hearthcast::engine::cmaf_converter::CmafConverter;
use hearthcast::engine::packager;

const SECONDS: u32 = 9;
const BASE_SECONDS: f64 = 3600.0;

/// The fields of a media segment's fragment.
#[derive(Debug, PartialEq)]
struct FragmentTimes {
    decode_time: u64,
    /// Sum of the durations of its samples.
    duration: u64,
    sample_count: u32,
}

/// The body of the first box of this type.
fn find<'a>(mut boxes: &'a [u8], path: &[&[u8; 4]]) -> &'a [u8] {
    for kind in path {
        loop {
            let size = u32::from_be_bytes(boxes[..4].try_into().unwrap()) as usize;
            let (first, rest) = boxes.split_at(size);
            if first[4..8] == kind[..] {
                boxes = &first[8..];
                break;
            }
            boxes = rest;
        }
    }
    boxes
}

impl FragmentTimes {
    fn read(media: &[u8]) -> Self {
        let traf = find(media, &[b"moof", b"traf"]);
        let word = |body: &[u8], at: usize| u32::from_be_bytes(body[at..at + 4].try_into().unwrap());
        let decode_time = u64::from_be_bytes(find(traf, &[b"tfdt"])[4..12].try_into().unwrap());
        let (tfhd, trun) = (find(traf, &[b"tfhd"]), find(traf, &[b"trun"]));
        let sample_count = word(trun, 4);
        let flags = word(trun, 0);
        let duration = if flags & 0x100 == 0 {
            u64::from(word(tfhd, 8)) * u64::from(sample_count)
        } else {
            let fields = (flags & 0xf00).count_ones() as usize;
            (0..sample_count as usize).map(|n| u64::from(word(trun, 12 + n * fields * 4))).sum()
        };
        Self { decode_time, duration, sample_count }
    }
}

/// One track, encoded as CMAF by each backend.
fn encoding_backends(rendition: &Rendition) -> Vec<(&'static str, Arc<dyn Backend>, Arc<Rendition>)> {
    let rendition = Arc::new(Rendition { format: SegmentFormat::Fmp4, ..rendition.clone() });
    let gstreamer: Arc<dyn Backend> = Arc::new(GstBackend::new(engine_report().clone()));
    let ffmpeg: Arc<dyn Backend> = Arc::new(ffmpeg_backend().clone());
    [("ffmpeg", ffmpeg), ("gstreamer", gstreamer)]
        .map(|(name, backend)| (name, Arc::new(CmafConverter::new(backend)) as Arc<dyn Backend>, rendition.clone()))
        .into()
}

/// Checks that segments follow each other without a gap; at most `tolerance` units of the timescale.
pub(super) fn check_continuity(name: &str, segments: &[SegmentBytes], tolerance: u64) {
    let mut next = None;
    for segment in segments {
        let (_, media) = split_init(&segment.bytes).unwrap();
        let times = FragmentTimes::read(media);
        if let Some(next) = next {
            assert!(times.decode_time.abs_diff(next) <= tolerance, "{name} {}: {times:?} after {next}", segment.index);
        }
        next = Some(times.decode_time + times.duration);
    }
}

/// The first init segment and all media segments.
pub(super) fn join(segments: &[SegmentBytes]) -> Vec<u8> {
    let split: Vec<_> = segments.iter().map(|segment| split_init(&segment.bytes).unwrap()).collect();
    [split[0].0].into_iter().chain(split.iter().map(|(_, media)| *media)).flatten().copied().collect()
}

#[tokio::test]
async fn one_encoded_track_of_either_backend_is_continuous() {
    let mut bench =
        Bench::of_new_film("a.mkv", Container::Matroska, SECONDS, "-c:v libx264 -preset ultrafast -c:a flac");
    let Rendition { video, audio, .. } = Rendition::clone(&bench.rendition);
    for (kind, rendition) in [
        (TrackKind::Video, Rendition { video, audio: None, ..Rendition::default() }),
        (TrackKind::Audio, Rendition { video: None, audio, ..Rendition::default() }),
    ] {
        for (name, backend, rendition) in encoding_backends(&rendition) {
            (bench.backend, bench.rendition) = (backend, rendition);
            let segments = bench.all_segments().await;
            assert_eq!(segments.len(), bench.grid.len(), "{name} {kind:?}");
            let (init, _) = split_init(&segments[0].bytes).unwrap();
            let description = InitDescription::read(init).unwrap();
            assert_eq!(description.kind(), kind);
            match description.video_format {
                Some(format) => assert_eq!((format.width, format.height), (320, 180), "{name}"),
                None => assert_eq!((&*description.entry.codecs, description.timescale), ("mp4a.40.2", 48_000)),
            }
            check_continuity(name, &segments, if kind == TrackKind::Audio { 0 } else { 1 });
            let path = bench.folder.path().join("joined.mp4");
            std::fs::write(&path, join(&segments)).unwrap();
            assert_eq!(media::decoder_warnings(&path), "", "{name} {kind:?}");
            let report = media::ffprobe(&path, &["-count_frames", "-show_streams"]);
            let frames: u32 = report["streams"][0]["nb_read_frames"].as_str().unwrap().parse().unwrap();
            // 9 s are 421.875 frames of AAC.
            let expected = if kind == TrackKind::Video { SECONDS * 25 } else { 422 };
            assert!(frames.abs_diff(expected) <= 1, "{name} {kind:?}: {frames} frames");
            let packets = media::packets(&path);
            let first =
                packets.iter().map(|packet| packet.pts).min().unwrap() as f64 / f64::from(description.timescale);
            eprintln!("{name} {kind:?}: {} from {first}, {frames} frames", description.entry.codecs);
            assert!((first - BASE_SECONDS).abs() < 0.03, "{name} {kind:?}: begins at {first}");
            // Every segment on its own, made by a run of its own.
            let alone = bench.single_segment(3).await;
            let times = |segment: &SegmentBytes| FragmentTimes::read(split_init(&segment.bytes).unwrap().1);
            assert_eq!(times(&alone), times(&segments[3]), "{name} {kind:?}");
        }
    }
}

#[tokio::test]
async fn hevc_and_av1_have_the_segments_of_h264() {
    let film = "-c:v libx264 -preset ultrafast -g 250 -an";
    let mut bench = Bench::of_new_film("a.mkv", Container::Matroska, 10, film);
    let Rendition { video, .. } = Rendition::clone(&bench.rendition);
    let mut of_h264 = Vec::new();
    for (codec, encoder, codecs) in [
        (TargetCodec::H264, "libx264", "avc3.64"),
        (TargetCodec::Hevc, "libx265", "hvc1.1."),
        (TargetCodec::Av1, "libsvtav1", "av01.0."),
    ] {
        let Some(VideoPlan::Encode(mut plan)) = video.clone() else { panic!() };
        (plan.codec, plan.encoder) = (codec, encoder.to_owned());
        let rendition = Rendition { video: Some(VideoPlan::Encode(plan)), audio: None, ..Rendition::default() };
        (bench.backend, bench.rendition) =
            encoding_backends(&rendition).into_iter().map(|(_, b, r)| (b, r)).next().unwrap();
        let segments = bench.all_segments().await;
        check_continuity(encoder, &segments, 1);
        let times: Vec<_> =
            segments.iter().map(|segment| FragmentTimes::read(split_init(&segment.bytes).unwrap().1)).collect();
        // The first four segments are halves.
        assert_eq!(
            times.iter().map(|it| it.sample_count).collect::<Vec<_>>(),
            [25, 25, 25, 25, 50, 50, 50],
            "{encoder}"
        );
        let starts: Vec<_> = times.iter().map(|it| it.decode_time).collect();
        assert_eq!(
            starts,
            *if of_h264.is_empty() {
                of_h264.clone_from(&starts);
                &of_h264
            } else {
                &of_h264
            },
            "{encoder}"
        );
        let description = InitDescription::read(split_init(&segments[0].bytes).unwrap().0).unwrap();
        assert!(description.entry.codecs.starts_with(codecs), "{}", description.entry.codecs);
        let format = description.video_format.unwrap();
        assert_eq!((format.width, format.height), (320, 180), "{encoder}");
        let path = bench.folder.path().join("joined.mp4");
        std::fs::write(&path, join(&segments)).unwrap();
        assert_eq!(media::decoder_warnings(&path), "", "{encoder}");
        let report = media::ffprobe(&path, &["-count_frames", "-show_streams"]);
        assert_eq!(report["streams"][0]["nb_read_frames"], "250", "{encoder}");
        // Each segment begins with a keyframe, and decodes after any init segment: also one of a run of its own.
        let alone = bench.single_segment(5).await;
        assert_eq!(FragmentTimes::read(split_init(&alone.bytes).unwrap().1), times[5], "{encoder}");
        let init = split_init(&segments[0].bytes).unwrap().0;
        for segment in segments.iter().skip(1).chain([&alone]) {
            let path = bench.folder.path().join("one.mp4");
            std::fs::write(&path, [init, split_init(&segment.bytes).unwrap().1].concat()).unwrap();
            assert!(media::packets(&path)[0].is_keyframe, "{encoder} {}", segment.index);
            assert_eq!(media::decoder_warnings(&path), "", "{encoder} {}", segment.index);
        }
    }
}

#[tokio::test]
async fn encoded_audio_beside_copied_video_is_in_sync() {
    let mut bench = Bench::of_new_film(
        "a.mkv",
        Container::Matroska,
        SECONDS,
        "-c:v libx264 -preset ultrafast -bf 2 -x264-params keyint=37:scenecut=0 -c:a ac3",
    );
    let audio = Rendition { video: None, ..Rendition::clone(&bench.rendition) };
    let track = packager::open_cmaf_track(&bench.source, &bench.media, 0).await.unwrap();
    let index = track.index().unwrap();
    bench.grid = Arc::new(Grid::from_keyframes(&index.keyframes[1..], 2.0, index.end.as_seconds()));
    assert!(bench.grid.len() > 2, "{:?}", bench.grid);
    let backends = encoding_backends(&audio);

    let mut joined = track.init_segment().to_vec();
    bench.package = Some(Arc::new(track.into()));
    bench.backend = Arc::new(packager::Packager);
    let video = Some(VideoPlan::Copy { stream: 0 });
    bench.rendition = Arc::new(Rendition { video, audio: None, format: SegmentFormat::Fmp4 });
    for segment in bench.all_segments().await {
        joined.extend_from_slice(&segment.bytes);
    }
    let video_path = bench.folder.path().join("video.mp4");
    std::fs::write(&video_path, joined).unwrap();
    let (flashes, _) = media::flash_and_beep_times(&video_path, 25.0);
    assert_eq!(flashes.len(), SECONDS as usize);
    bench.package = None;
    for (name, backend, rendition) in backends {
        (bench.backend, bench.rendition) = (backend, rendition);
        let segments = bench.all_segments().await;
        assert_eq!(segments.len(), bench.grid.len(), "{name}");
        check_continuity(name, &segments, 0);
        for segment in &segments {
            let times = FragmentTimes::read(split_init(&segment.bytes).unwrap().1);
            let late = times.decode_time as f64 / 48_000.0 - BASE_SECONDS;
            let late = late - bench.grid.segment_start(segment.index).as_seconds();
            assert!((0.0..1024.0 / 48_000.0).contains(&late), "{name} {}: {late} s late", segment.index);
        }
        let path = bench.folder.path().join("audio.mp4");
        std::fs::write(&path, join(&segments)).unwrap();
        assert_eq!(media::decoder_warnings(&path), "", "{name}");
        let (_, beeps) = media::flash_and_beep_times(&path, 25.0);
        let distances: Vec<f64> = flashes.iter().zip(&beeps).map(|(flash, beep)| beep - flash).collect();
        eprintln!("{name}: beeps after flashes: {distances:?}");
        assert_eq!(beeps.len(), flashes.len(), "{name}");
        assert!(distances.iter().all(|distance| distance.abs() < 0.01), "{name}: {distances:?}");
    }
}

#[tokio::test]
async fn another_encoder_continues_after_a_published_init_segment() {
    let mut bench =
        Bench::of_new_film("a.mkv", Container::Matroska, SECONDS, "-c:v libx264 -preset ultrafast -c:a flac");
    let video = Rendition { audio: None, ..Rendition::clone(&bench.rendition) };
    let mut made = Vec::new();
    for (name, backend, rendition) in encoding_backends(&video) {
        (bench.backend, bench.rendition) = (backend, rendition);
        made.push((name, bench.all_segments().await));
    }
    let init = |segments: &[SegmentBytes]| split_init(&segments[0].bytes).unwrap().0.to_vec();
    assert!(init(&made[0].1) != init(&made[1].1), "the encoders write different parameter sets");
    let codecs = |init: &[u8]| InitDescription::read(init).unwrap().entry.codecs;
    eprintln!("{} and {}", codecs(&init(&made[0].1)), codecs(&init(&made[1].1)));
    for _ in 0..2 {
        made.reverse();
        let [(first_name, first), (_, second)] = &made[..] else { unreachable!() };
        let mut joined = init(first);
        for n in 0..first.len() {
            let segment = if n < 2 { &first[n] } else { &second[n] };
            joined.extend_from_slice(split_init(&segment.bytes).unwrap().1);
        }
        let path = bench.folder.path().join("joined.mp4");
        std::fs::write(&path, joined).unwrap();
        assert_eq!(media::decoder_warnings(&path), "", "{first_name} first");
        let (flashes, _) = media::flash_and_beep_times(&path, 25.0);
        let expected: Vec<f64> = (0..SECONDS).map(|second| BASE_SECONDS + f64::from(second)).collect();
        let is_right = flashes.iter().zip(&expected).all(|(flash, expected)| (flash - expected).abs() < 0.02);
        assert!(flashes.len() == expected.len() && is_right, "{first_name} first: {flashes:?}");
    }
}
