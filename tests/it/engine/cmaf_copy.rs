//! Tracks of transport streams copied as CMAF, compared with their source: payload, order and presentation time of every packet.

use std::process::Command;

use super::cmaf_encode::{check_continuity, join};
use super::*;
use hearthcast::domain::cmaf::Color;
use hearthcast::domain::cmaf::init_reader::{InitDescription, split_init};
use hearthcast::domain::segment_format::SegmentFormat;
use hearthcast::engine::cmaf_converter::CmafConverter;
use hearthcast::engine::index::{RecoveryPoints, build_index};

const BASE_SECONDS: f64 = 3600.0;

const H264: &str = "-c:v libx264 -preset ultrafast -bf 3 -x264-params keyint=37:scenecut=0:b-pyramid=2";
const OPEN_H264: &str = "-c:v libx264 -preset veryfast -bf 3 -x264-params keyint=25:scenecut=0:open-gop=1";
const HEVC: &str = "-c:v libx265 -preset ultrafast -x265-params log-level=none:bframes=3:keyint=25:min-keyint=25";
const HDR: &str = "colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:hdr10=1:max-cll=1000,400:\
    master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)";

/// A packet: its presentation time in seconds, and a digest of its bytes.
#[derive(Clone, Debug, PartialEq)]
struct TimedPacket {
    seconds: f64,
    digest: String,
}

/// The packets of one stream in the form that they have in both containers: without access unit delimiters and parameter sets, with
/// start codes, and without ADTS headers. `offset_seconds` is subtracted from all times.
fn packets_in_common_form(path: &Path, stream: u32, codec: &str, offset_seconds: f64) -> Vec<TimedPacket> {
    let filter = match codec {
        "h264" => "filter_units=remove_types=7-9",
        "hevc" => "filter_units=remove_types=32-35",
        "aac" => "aac_adtstoasc",
        _ => "null",
    };
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-copyts", "-i"]).arg(path);
    command.args([
        "-map",
        &format!("0:{stream}"),
        "-c",
        "copy",
        "-bsf",
        filter,
        "-f",
        "framehash",
        "-hash",
        "md5",
        "-",
    ]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let base = text.lines().find_map(|line| line.strip_prefix("#tb 0: ")?.split_once('/')).unwrap();
    let unit_seconds = base.0.parse::<f64>().unwrap() / base.1.parse::<f64>().unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let seconds = fields[2].parse::<f64>().unwrap() * unit_seconds - offset_seconds;
        TimedPacket { seconds, digest: fields[5].to_owned() }
    });
    rows.collect()
}

/// A film of a transport stream on the grid of its keyframes, each of at least a second.
async fn open_film(name: &str, encoder_args: &str) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    media::flash_and_beep(&path, 6, encoder_args);
    let mut bench = Bench::of_file(folder, &path, Container::MpegTs, FPS25, 6.0);
    let index = build_index(&bench.source, &bench.media, 0, RecoveryPoints::Accepted).await.unwrap();
    let end = bench.media.duration_seconds.unwrap().max(index.end.as_seconds());
    bench.grid = Arc::new(Grid::from_keyframes(&index.keyframes[1..], 1.0, end));
    assert!(index.has_one_description && bench.grid.len() >= 4, "{name}: {:?}", bench.grid);
    bench
}

impl Bench {
    /// Selects the track that the bench copies.
    fn select_copy(&mut self, stream: u32) {
        let is_video = matches!(self.media.stream(stream).unwrap().kind, StreamKind::Video(_));
        self.backend = Arc::new(CmafConverter::new(Arc::new(ffmpeg_backend().clone())));
        self.rendition = Arc::new(Rendition {
            video: is_video.then_some(VideoPlan::Copy { stream }),
            audio: (!is_video).then_some(AudioPlan::Copy { stream }),
            format: SegmentFormat::Fmp4,
        });
    }
}

/// How the packets of a copy differ from those of its source; times by more than three ticks.
fn describe_difference(ours: &[TimedPacket], theirs: &[TimedPacket]) -> Option<String> {
    const TICK: f64 = 1.0 / 90_000.0;
    // ffmpeg rounds the times of audio frames within a PES packet one after the other.
    const TOLERANCE: f64 = 3.0 * TICK;
    let is_equal =
        |(a, b): (&TimedPacket, &TimedPacket)| a.digest == b.digest && (a.seconds - b.seconds).abs() <= TOLERANCE;
    let index = ours.iter().zip(theirs).position(|pair| !is_equal(pair));
    if ours.len() == theirs.len() && index.is_none() {
        return None;
    }
    let at = |packets: &[TimedPacket]| index.and_then(|index| packets.get(index).cloned());
    Some(format!("{} and {} packets, at {index:?} {:?} and {:?}", ours.len(), theirs.len(), at(ours), at(theirs)))
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_of_transport_streams_are_those_of_the_source() {
    let mut failures = Vec::new();
    let surround = "-map 0:v -map 1:a -map 1:a -c:a:0 ac3 -ac:a:0 6 -b:a:0 384k -c:a:1 eac3 -b:a:1 192k";
    for (name, encoder_args, codecs) in [
        (
            "h264.ts",
            format!("{H264} -map 0:v -map 1:a -map 1:a -c:a:0 aac -c:a:1 libmp3lame -ar:a:1 44100"),
            "h264 aac mp3",
        ),
        ("recovery-points.ts", format!("{OPEN_H264} -an"), "h264"),
        ("closed.ts", format!("{HEVC}:open-gop=0 -c:a aac -ar 44100"), "hevc aac"),
        ("open.m2ts", format!("{HEVC}:open-gop=1 {surround}"), "hevc ac3 eac3"),
        (
            "hdr.ts",
            format!("{HEVC}:open-gop=1:{HDR} -pix_fmt yuv420p10le {surround} -muxdelay 0 -output_ts_offset 7"),
            "hevc ac3 eac3",
        ),
    ] {
        let mut bench = open_film(name, &encoder_args).await;
        let streams: Vec<(u32, String)> =
            bench.media.streams.iter().map(|stream| (stream.index, stream.codec.clone())).collect();
        assert_eq!(streams.iter().map(|(_, codec)| &**codec).collect::<Vec<_>>().join(" "), codecs, "{name}");
        let source_path = bench.folder.path().join(name);
        for (stream, codec) in streams {
            bench.select_copy(stream);
            let segments = bench.all_segments().await;
            assert_eq!(segments.len(), bench.grid.len(), "{name} {codec}");
            // Leading pictures that wait for a random access point are decoded a unit earlier each.
            let has_open_groups = codec == "hevc" || name == "recovery-points.ts";
            check_continuity(&format!("{name} {codec}"), &segments, if has_open_groups { 8 } else { 1 });
            let path = bench.folder.path().join("joined.mp4");
            std::fs::write(&path, join(&segments)).unwrap();
            let theirs = packets_in_common_form(&source_path, stream, &codec, bench.media.start_seconds);
            let ours = packets_in_common_form(&path, 0, &codec, BASE_SECONDS);
            assert!(theirs.len() >= 150, "{name} {codec}: {}", theirs.len());
            failures.extend(describe_difference(&ours, &theirs).map(|text| format!("{name} {codec}: {text}")));
            let warnings = media::decoder_warnings(&path);
            if !warnings.is_empty() {
                failures.push(format!("{name} {codec}: {warnings}"));
            }
            // Runs that begin at other segments.
            for first in [1, bench.grid.len() / 2, bench.grid.len() - 1] {
                let later = bench.run_segments(first, usize::MAX).await;
                assert_eq!(later.len(), bench.grid.len() - first, "{name} {codec} from {first}");
                let is_equal = later.iter().zip(&segments[first..]).all(|(a, b)| a.bytes == b.bytes);
                if !is_equal {
                    failures.push(format!("{name} {codec}: a run from segment {first} makes other bytes"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_init_segment_states_colour_and_light_of_hevc() {
    let mut bench = open_film("hdr.ts", &format!("{HEVC}:{HDR} -pix_fmt yuv420p10le -an")).await;
    bench.select_copy(0);
    let segment = bench.single_segment(2).await;
    let (init, _) = split_init(&segment.bytes).unwrap();
    let description = InitDescription::read(init).unwrap();
    assert!(description.entry.codecs.starts_with("hvc1.2.4."), "{}", description.entry.codecs);
    let format = description.video_format.unwrap();
    assert_eq!(format.color, Some(Color { primaries: 9, transfer: 16, matrix: 9, is_full_range: false }));
    assert_eq!(format.content_light, Some((1000, 400)));
    let display = format.mastering_display.unwrap();
    assert_eq!(display[..4], [13_250u16.to_be_bytes(), 34_500u16.to_be_bytes()].concat());
    assert_eq!(display[16..], [10_000_000u32.to_be_bytes(), 1u32.to_be_bytes()].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn parameter_sets_that_change_are_found_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, size) in [("a.ts", "320x180"), ("b.ts", "192x108")] {
        media::flash_and_beep(&folder.path().join(name), 3, &format!("{HEVC} -s {size} -an"));
    }
    let list = folder.path().join("list");
    std::fs::write(&list, "file a.ts\nfile b.ts\n").unwrap();
    let path = folder.path().join("both.ts");
    media::run_ffmpeg(&path, &[&format!("-f concat -i {}", list.display()), "-c copy"]);
    let mut bench = Bench::of_file(folder, &path, Container::MpegTs, FPS25, 6.0);
    let index = build_index(&bench.source, &bench.media, 0, RecoveryPoints::Accepted).await.unwrap();
    assert!(!index.has_one_description);
    bench.grid = Arc::new(Grid::from_keyframes(&index.keyframes[1..], 1.0, 6.0));
    bench.select_copy(0);
    let mut run = bench.start(0, usize::MAX);
    let mut error = None;
    while let Some(outcome) = next_segment(&mut run).await {
        error = outcome.err();
    }
    let text = error.unwrap().to_string();
    assert!(text.contains("the parameter sets or the audio format differ"), "{text}");
}
