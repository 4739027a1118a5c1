//! The packager, compared with `ffmpeg -c copy` of the same file: every packet, its times and its bytes.

use std::collections::BTreeMap;
use std::process::Command;

use super::*;
use hearthcast::domain::media::StreamKind;
use hearthcast::domain::mpegts::packet::Packet;
use hearthcast::engine::packager::{self, Packager};

/// A packet in a transport stream: times in ticks and a digest of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MuxedPacket {
    pts: i64,
    dts: i64,
    is_keyframe: bool,
    digest: String,
}

/// The packets of a transport stream by kind of stream; times are relative to the common base.
fn muxed_packets(path: &Path) -> BTreeMap<String, Vec<MuxedPacket>> {
    let sections = ["-show_packets", "-show_data_hash", "MD5", "-show_entries"];
    let report = media::ffprobe(path, &[&sections[..], &["packet=codec_type,pts,dts,flags,data_hash"]].concat());
    let mut packets: BTreeMap<String, Vec<MuxedPacket>> = BTreeMap::new();
    for packet in report["packets"].as_array().into_iter().flatten() {
        let ticks = |name: &str| packet[name].as_i64().map(|ticks| ticks - 3600 * 90_000);
        let pts = ticks("pts").unwrap_or(i64::MIN);
        let flags = packet["flags"].as_str().unwrap_or_default();
        packets.entry(packet["codec_type"].as_str().unwrap_or_default().to_owned()).or_default().push(MuxedPacket {
            pts,
            dts: ticks("dts").unwrap_or(pts),
            is_keyframe: flags.starts_with('K'),
            digest: packet["data_hash"].as_str().unwrap_or_default().to_owned(),
        });
    }
    packets
}

/// Copies the whole file with ffmpeg alone, with one audio frame per packet.
fn copy_with_ffmpeg(path: &Path, media: &Media, streams: &[u32], to: &Path) {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y", "-copyts", "-itsoffset", &format!("{:.6}", -media.start_seconds)]);
    command.arg("-i").arg(path).args(["-c", "copy", "-output_ts_offset", "3600", "-muxdelay", "0", "-muxpreload", "0"]);
    for stream in streams {
        command.args(["-map", &format!("0:{stream}")]);
    }
    command.args(["-avoid_negative_ts", "disabled", "-mpegts_copyts", "1", "-pes_payload_size", "0", "-f", "mpegts"]);
    assert!(command.arg(to).status().unwrap().success());
}

/// Describes how two lists of packets differ.
fn describe_difference(ours: &[MuxedPacket], theirs: &[MuxedPacket], tolerance_ticks: i64) -> Option<String> {
    if ours.len() != theirs.len() {
        let index = ours.iter().zip(theirs).position(|(a, b)| a.digest != b.digest);
        return Some(format!("{} packets instead of {}, first difference at {index:?}", ours.len(), theirs.len()));
    }
    let are_equal = |a: &MuxedPacket, b: &MuxedPacket| {
        (a.pts - b.pts).abs() <= tolerance_ticks
            && (a.dts - b.dts).abs() <= tolerance_ticks
            && a.is_keyframe == b.is_keyframe
            && a.digest == b.digest
    };
    let index = ours.iter().zip(theirs).position(|(a, b)| !are_equal(a, b))?;
    Some(format!("packet {index}: {:?} instead of {:?}", ours[index], theirs[index]))
}

impl Bench {
    /// A file to be packaged, or the reason why it cannot be.
    pub(super) async fn of_packaged_file(folder: tempfile::TempDir, path: &Path) -> Result<Self, String> {
        let is_matroska = path.extension().is_some_and(|extension| extension == "mkv");
        let container = if is_matroska { Container::Matroska } else { Container::Mp4 };
        let mut bench = Self::of_file(folder, path, container, FPS25, 1.0);
        let video = bench.media.video_streams().next().map(|(stream, _)| stream.index);
        let audio = bench.media.audio_streams().next().map(|(stream, _)| stream.index);
        let package = packager::open_package(&bench.source, &bench.media, video, audio).await?;
        let duration = bench.media.duration_seconds.unwrap_or(1.0);
        bench.grid = Arc::new(match package.index() {
            Some(index) => {
                let video_seconds = index.end.as_seconds();
                Grid::from_keyframes(&index.keyframes[1..], 1.0, duration.max(video_seconds))
            }
            None => Grid::from_step(2.0, duration),
        });
        bench.package = Some(Arc::new(package.into()));
        bench.rendition = Arc::new(Rendition {
            video: video.map(|stream| VideoPlan::Copy { stream }),
            audio: audio.map(|stream| AudioPlan::Copy { stream }),
            ..Rendition::default()
        });
        Ok(bench)
    }

    async fn package_segments(&self, first: usize, through: usize) -> Vec<SegmentBytes> {
        let mut run = Packager.start(self.job(first), through).unwrap();
        let mut segments = Vec::new();
        for _ in first..=through.min(self.grid.len() - 1) {
            let segment = next_segment(&mut run).await.expect("a segment").unwrap();
            segments.push(SegmentBytes::read(segment, &self.source).await);
        }
        segments
    }

    /// Differences from ffmpeg's copy.
    async fn differences_from_ffmpeg(&self, path: &Path) -> Vec<String> {
        let is_truncated = path.file_name().unwrap().to_str().unwrap().starts_with("truncated");
        let segments = self.package_segments(0, usize::MAX).await;
        let (ours, theirs) = (self.write_joined("ours.ts", &segments), self.folder.path().join("theirs.ts"));
        let streams: Vec<u32> = self.media.video_streams().map(|(s, _)| s.index).take(1).collect();
        let audio = self.media.audio_streams().map(|(s, _)| s.index).take(1);
        copy_with_ffmpeg(path, &self.media, &streams.into_iter().chain(audio).collect::<Vec<_>>(), &theirs);
        let (a, b) = (muxed_packets(&ours), muxed_packets(&theirs));
        let mut differences = Vec::new();
        // ffmpeg rounds the offset of the file to the track's time scale, and counts audio times from its first packet.
        let offset_tolerance = if self.media.start_seconds == 0.0 { 0 } else { 4 };
        // In a time scale of milliseconds, it begins with the first packet's time; we put all packets on one grid.
        let rounding_tolerance = if self.media.container == Container::Matroska { 135 } else { 0 };
        for (kind, slack) in [("video", 1 + offset_tolerance), ("audio", 2 + offset_tolerance + rounding_tolerance)] {
            let packets_of =
                |packets: &BTreeMap<String, Vec<MuxedPacket>>| packets.get(kind).cloned().unwrap_or_default();
            let (mut a, mut b) = (packets_of(&a), packets_of(&b));
            // Audio that begins after the item's end belongs to no segment; nor does half a packet at the end of a cut file.
            let total = b.len();
            if rounding_tolerance > 0 {
                // ffmpeg guesses the decoding times of the frames before the first known one.
                a.iter_mut().zip(&mut b).take(4).for_each(|(a, b)| a.dts = b.dts);
            }
            b.retain(|packet| kind == "video" || packet.pts < self.grid.end().0);
            if is_truncated && b.len() == a.len() + 1 {
                b.pop();
            }
            differences.extend(describe_difference(&a, &b, slack).map(|words| format!("{kind} {words}")));
            if b.len() == total && total > 0 {
                let digests = media::convert(&[&ours, &theirs], [&format!("-map {{n}}:{} -f md5", &kind[..1])]);
                if digests[0] != digests[1] {
                    differences.push(format!("{kind} decodes differently"));
                }
            }
        }
        differences
    }
}

/// Lets every edit begin at time 0 of its track, like encoders that ignore reordering.
fn begin_edits_at_zero(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let edit_offsets: Vec<usize> =
        (0..bytes.len() - 4).filter(|&offset| &bytes[offset..offset + 4] == b"elst").collect();
    assert_eq!(edit_offsets.len(), 2);
    for offset in edit_offsets {
        bytes[offset + 16..offset + 20].fill(0);
    }
    std::fs::write(path, bytes).unwrap();
}

const ENCODER_ARGS: &str = "-c:v libx264 -preset ultrafast -x264-params keyint=37:scenecut=0 -c:a aac -b:a 64k";

#[tokio::test]
async fn packets_are_those_of_ffmpegs_copy() {
    let mut failures = Vec::new();
    for (name, encoder_args) in [
        ("end.mp4", "-bf 3"),
        ("front.mp4", "-bf 2 -movflags +faststart"),
        ("baseline.mp4", "-bf 0"),
        ("late.mp4", "-bf 2 -output_ts_offset 1.5"),
        ("no-edits.mp4", "-bf 2 -use_editlist 0"),
        ("negative.mp4", "-bf 2 -movflags +negative_cts_offsets"),
        ("negative-no-edits.mp4", "-bf 2 -movflags +negative_cts_offsets -use_editlist 0"),
        ("late-in-its-edit.mp4", "-bf 2"),
        ("fragments.mp4", "-bf 2 -movflags +frag_keyframe+empty_moov+default_base_moof"),
        ("partly.mp4", "-bf 2 -movflags +frag_keyframe+delay_moov"),
        ("mono.mp4", "-bf 2 -ac 1 -ar 44100"),
        ("intra.mp4", "-g 1 -x264-params keyint=1"),
        ("a.mov", "-bf 2"),
        ("a.mkv", "-bf 2"),
        ("deep.mkv", "-bf 4 -x264-params keyint=37:b-pyramid=2 -ar 44100"),
        ("baseline.mkv", "-bf 0 -cluster_time_limit 700"),
        ("short-groups.mkv", "-bf 3 -x264-params keyint=2 -an"),
        ("silent.mp4", "-bf 2 -an"),
        ("audio.m4a", "-vn"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        media::flash_and_beep(&path, 5, &format!("{ENCODER_ARGS} {encoder_args}"));
        if name.starts_with("late-in") {
            begin_edits_at_zero(&path);
        }
        let bench = Bench::of_packaged_file(folder, &path).await.unwrap_or_else(|reason| panic!("{name}: {reason}"));
        failures.extend(
            bench.differences_from_ffmpeg(&path).await.into_iter().map(|difference| format!("{name}: {difference}")),
        );
        let warnings = media::decoder_warnings(&bench.folder.path().join("ours.ts"));
        if !warnings.is_empty() {
            failures.push(format!("{name}: {warnings}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Packets whose continuity counter does not follow the one before on its PID.
fn counter_breaks(stream: &[u8]) -> usize {
    let mut next: BTreeMap<u16, u8> = BTreeMap::new();
    let packets = stream.as_chunks::<188>().0.iter().filter_map(Packet::new);
    let with_payload = packets.filter(|packet| packet.payload_offset().is_some());
    let is_break = |packet: &Packet| {
        next.insert(packet.pid(), (packet.continuity_counter() + 1) % 16)
            .is_some_and(|expected| expected != packet.continuity_counter())
    };
    with_payload.filter(is_break).count()
}

#[tokio::test]
async fn a_segment_is_the_same_in_any_run_and_can_follow_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mp4");
    media::flash_and_beep(&path, 9, &format!("{ENCODER_ARGS} -bf 2"));
    let bench = Bench::of_packaged_file(folder, &path).await.unwrap();
    let segments = bench.package_segments(0, usize::MAX).await;
    assert_eq!(segments.len(), bench.grid.len());
    for index in [3, 0, 5, 1] {
        assert_eq!(bench.package_segments(index, index).await[0].bytes, segments[index].bytes, "segment {index}");
    }
    for order in [[0, 1, 2, 3], [4, 2, 5, 0]] {
        let joined: Vec<u8> = order.iter().flat_map(|&index| segments[index].bytes.to_vec()).collect();
        assert_eq!(counter_breaks(&joined), 0, "{order:?}");
    }
}

#[tokio::test]
async fn a_run_pauses_at_its_gate_and_ends_when_its_file_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mp4");
    media::flash_and_beep(&path, 6, ENCODER_ARGS);
    let bench = Bench::of_packaged_file(folder, &path).await.unwrap();
    let mut run = Packager.start(bench.job(0), 1).unwrap();
    for index in 0..2 {
        assert_eq!(next_segment(&mut run).await.unwrap().unwrap().index, index);
    }
    let third = tokio::time::timeout(Duration::from_millis(100), run.next()).await;
    assert!(third.is_err(), "segment 2 is beyond the gate");
    std::fs::File::options().append(true).open(&path).unwrap().set_len(9_000).unwrap();
    run.allow_through(2);
    assert!(matches!(next_segment(&mut run).await, Some(Err(RunError::SourceChanged))));
    assert!(next_segment(&mut run).await.is_none());
}

#[tokio::test]
async fn unpackageable_files_are_refused_with_a_reason() {
    for (name, encoder_args, expected_reason) in [
        ("a.mp4", "-c:v mpeg4 -c:a aac", "does not support mpeg4"),
        ("a.mp4", "-c:v libx264 -preset ultrafast -c:a ac3", "does not support ac3"),
        (
            "a.mp4",
            "-c:v libx264 -preset ultrafast -bf 2 -movflags +frag_keyframe+empty_moov+negative_cts_offsets",
            "negative",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        media::flash_and_beep(&path, 2, encoder_args);
        let reason = Bench::of_packaged_file(folder, &path).await.map(|_| "packaged").unwrap_err();
        assert!(reason.contains(expected_reason), "{encoder_args}: {reason}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mp4");
    media::flash_and_beep(&path, 2, ENCODER_ARGS);
    let mut media = media::probe_media(&path, Container::Mp4);
    if let StreamKind::Video(video) = &mut media.streams[0].kind {
        video.sample_aspect = (4, 3);
    }
    let reason = packager::open_package(&media::open(&path), &media, Some(0), Some(1)).await.unwrap_err();
    assert!(reason.contains("sample aspect ratio"), "{reason}");
}

/// Every mp4 and Matroska file of the corpus is packaged as ffmpeg copies it, if at all. `CORPUS_ONLY` selects files.
#[tokio::test(flavor = "multi_thread")]
async fn the_corpus_is_packaged_as_ffmpeg_copies_it() {
    let mut failures = Vec::new();
    for (name, path) in corpus_films(&["mp4", "m4a", "m4b", "mov", "3gp", "mkv"]) {
        match Bench::of_packaged_file(tempfile::tempdir().unwrap(), &path).await {
            Err(reason) => println!("{name}: left to ffmpeg, {reason}"),
            Ok(bench) => {
                let differences = bench.differences_from_ffmpeg(&path).await;
                println!("{name}: {} segments, {differences:?}", bench.grid.len());
                failures.extend(differences.into_iter().map(|difference| format!("{name}: {difference}")));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
