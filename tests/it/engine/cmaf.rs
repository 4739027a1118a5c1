//! CMAF segments, compared with their source: payload, order and presentation time of every packet, through ffprobe.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::cmaf_checker::check_track;
use super::*;
use hearthcast::domain::mpegts::psi::TrackKind;
use hearthcast::domain::segment_format::SegmentFormat;
use hearthcast::engine::packager::{self, Packager};

/// A film of fragments with negative composition offsets, and the largest of them in seconds: ffmpeg shows its video later than
/// the file states.
const DELAYED_BY_FFMPEG: (&str, f64) = ("rotated-90-fragmented.mp4", 2.0 / 24.0);

/// A packet: its presentation time in seconds of source time, if it has one, and a digest of its bytes.
#[derive(Clone, Debug, PartialEq)]
struct TimedPacket {
    seconds: Option<f64>,
    digest: String,
}

/// A stream that was packaged.
pub(super) struct PackagedTrack {
    stream: u32,
    pub(super) codec: String,
    kind: TrackKind,
    package: Arc<Package>,
}

/// A film whose streams are packaged one by one.
pub(super) struct CmafFilm {
    bench: Bench,
    /// Video first.
    pub(super) tracks: Vec<PackagedTrack>,
    /// Streams that are not packaged: stream, codec and reason.
    pub(super) refusals: Vec<(u32, String, String)>,
}

/// The packets of each stream, in the order of the file. `start_seconds` is subtracted from all times.
fn packets_by_stream(path: &Path, start_seconds: f64) -> BTreeMap<u64, Vec<TimedPacket>> {
    let report = media::ffprobe(
        path,
        &["-show_packets", "-show_data_hash", "MD5", "-show_entries", "packet=stream_index,pts_time,data_hash"],
    );
    let mut packets: BTreeMap<u64, Vec<TimedPacket>> = BTreeMap::new();
    for packet in report["packets"].as_array().into_iter().flatten() {
        let seconds = packet["pts_time"].as_str().and_then(|text| text.parse::<f64>().ok());
        packets.entry(packet["stream_index"].as_u64().unwrap()).or_default().push(TimedPacket {
            seconds: seconds.map(|seconds| seconds - start_seconds),
            digest: packet["data_hash"].as_str().unwrap_or_default().to_owned(),
        });
    }
    packets
}

/// Describes how two lists of packets differ.
fn describe_difference(ours: &[TimedPacket], theirs: &[TimedPacket], tolerance_seconds: f64) -> Option<String> {
    if ours.len() != theirs.len() {
        let index = ours.iter().zip(theirs).position(|(a, b)| a.digest != b.digest);
        return Some(format!("{} packets instead of {}, first difference at {index:?}", ours.len(), theirs.len()));
    }
    let are_equal = |a: &TimedPacket, b: &TimedPacket| {
        a.digest == b.digest
            && a.seconds.zip(b.seconds).is_none_or(|(ours, theirs)| (ours - theirs).abs() <= tolerance_seconds)
    };
    let index = ours.iter().zip(theirs).position(|(a, b)| !are_equal(a, b))?;
    Some(format!("packet {index}: {:?} instead of {:?}", ours[index], theirs[index]))
}

impl CmafFilm {
    pub(super) async fn open(folder: tempfile::TempDir, path: &Path) -> Self {
        let container = match path.extension().and_then(|extension| extension.to_str()) {
            Some("mkv" | "mka") => Container::Matroska,
            Some("webm") => Container::Webm,
            _ => Container::Mp4,
        };
        let mut bench = Bench::of_file(folder, path, container, FPS25, 1.0);
        bench.backend = Arc::new(Packager);
        let streams = bench.media.video_streams().take(1).map(|(stream, _)| (stream, TrackKind::Video));
        let streams = streams.chain(bench.media.audio_streams().map(|(stream, _)| (stream, TrackKind::Audio)));
        let (mut tracks, mut refusals) = (Vec::new(), Vec::new());
        for (stream, kind) in streams {
            let (stream, codec) = (stream.index, stream.codec.clone());
            match packager::open_cmaf_track(&bench.source, &bench.media, stream).await {
                Ok(track) => {
                    assert_eq!(track.kind(), kind);
                    tracks.push(PackagedTrack { stream, codec, kind, package: Arc::new(track.into()) });
                }
                Err(reason) => refusals.push((stream, codec, reason)),
            }
        }
        let duration = bench.media.duration_seconds.unwrap_or(1.0);
        bench.grid = Arc::new(match tracks.iter().find_map(|track| track.package.index()) {
            Some(index) => Grid::from_keyframes(&index.keyframes[1..], 1.0, duration.max(index.end.as_seconds())),
            None => Grid::from_step(2.0, duration),
        });
        Self { bench, tracks, refusals }
    }

    /// Selects the track whose segments the bench makes.
    fn select(&mut self, track: usize) {
        let PackagedTrack { stream, kind, package, .. } = &self.tracks[track];
        let (stream, is_video) = (*stream, *kind == TrackKind::Video);
        self.bench.package = Some(package.clone());
        self.bench.rendition = Arc::new(Rendition {
            video: is_video.then_some(VideoPlan::Copy { stream }),
            audio: (!is_video).then_some(AudioPlan::Copy { stream }),
            format: SegmentFormat::Fmp4,
        });
    }

    /// Writes all segments and playlists; returns the path of the multivariant playlist.
    async fn write_presentation(&mut self) -> PathBuf {
        let folder = self.bench.folder.path().to_owned();
        let has_video = self.tracks.first().is_some_and(|track| track.kind == TrackKind::Video);
        // ffmpeg numbers the streams in the order in which playlists are named.
        let audio = if has_video && self.tracks.len() > 1 { ",AUDIO=\"a\"" } else { "" };
        let mut multivariant = format!("#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-STREAM-INF:BANDWIDTH=1{audio}\n0.m3u8\n");
        for n in 0..self.tracks.len() {
            self.select(n);
            let track = self.tracks[n].package.cmaf_track().unwrap();
            std::fs::write(folder.join(format!("{n}-init.mp4")), track.init_segment()).unwrap();
            let grid = self.bench.grid.clone();
            let mut playlist =
                "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:60\n#EXT-X-PLAYLIST-TYPE:VOD\n".to_owned();
            writeln!(playlist, "#EXT-X-MAP:URI=\"{n}-init.mp4\"").unwrap();
            let segments = self.bench.all_segments().await;
            let bytes: Vec<&[u8]> = segments.iter().map(|segment| &segment.bytes[..]).collect();
            let checked = check_track(self.tracks[n].kind, track.init_segment(), &bytes);
            assert_eq!(checked, Ok(()), "{}: track {n}", self.tracks[n].codec);
            for segment in segments {
                let name = format!("{n}-{}.m4s", segment.index);
                std::fs::write(folder.join(&name), &segment.bytes).unwrap();
                let seconds = grid.segment_length(segment.index).as_seconds();
                writeln!(playlist, "#EXTINF:{seconds:.5},\n{name}").unwrap();
            }
            playlist.push_str("#EXT-X-ENDLIST\n");
            std::fs::write(folder.join(format!("{n}.m3u8")), playlist).unwrap();
            if has_video && n > 0 {
                let name = format!("TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"{n}\",AUTOSELECT=YES");
                writeln!(multivariant, "#EXT-X-MEDIA:{name},URI=\"{n}.m3u8\"").unwrap();
            }
        }
        let path = folder.join("multivariant.m3u8");
        std::fs::write(&path, multivariant).unwrap();
        path
    }

    /// How each packaged track differs from its source: in decoding order of the file's packets.
    pub(super) async fn differences_from_source(&mut self, path: &Path) -> Vec<(usize, Option<String>)> {
        let is_truncated = path.file_name().unwrap().to_str().unwrap().starts_with("truncated");
        let playlist = self.write_presentation().await;
        let theirs = packets_by_stream(path, self.bench.media.start_seconds);
        let ours = packets_by_stream(&playlist, 3600.0);
        // mp4: the file's first timestamp is rounded to a unit of the track. Matroska: all times are rounded to milliseconds, and audio
        // that would begin before the end of the frame before it follows that frame.
        let tolerance = |kind| match (self.bench.media.container, kind) {
            (Container::Mp4, _) => 0.000_05,
            (_, TrackKind::Video) => 0.0011,
            (_, TrackKind::Audio) => 0.002,
        };
        let end = self.bench.grid.end().as_seconds();
        let has_video = self.tracks.first().is_some_and(|track| track.kind == TrackKind::Video);
        let mut differences = Vec::new();
        for (n, track) in self.tracks.iter().enumerate() {
            // A file of several audio tracks is one variant for the first of them.
            if !has_video && n > 0 {
                break;
            }
            let mut theirs = theirs.get(&u64::from(track.stream)).cloned().unwrap_or_default();
            if path.ends_with(DELAYED_BY_FFMPEG.0) && track.kind == TrackKind::Video {
                theirs.iter_mut().for_each(|packet| packet.seconds = packet.seconds.map(|at| at - DELAYED_BY_FFMPEG.1));
            }
            // Audio that begins after the end belongs to no segment.
            theirs.retain(|packet| track.kind == TrackKind::Video || packet.seconds.is_none_or(|time| time < end));
            let ours = ours.get(&(n as u64)).cloned().unwrap_or_default();
            // Nor does half a packet at the end of a truncated file.
            if is_truncated && theirs.len() == ours.len() + 1 {
                theirs.pop();
            }
            differences.push((n, describe_difference(&ours, &theirs, tolerance(track.kind))));
        }
        differences
    }
}

const ALL_AUDIO: &str = "-map 0:v -map 1:a -map 1:a -map 1:a -map 1:a -map 1:a -map 1:a -map 1:a -map 1:a -strict -2 \
    -c:a:0 aac -c:a:1 ac3 -c:a:2 eac3 -c:a:3 libopus -c:a:4 flac -c:a:5 alac -c:a:6 dca -c:a:7 libmp3lame -b:a:6 1411k";
const H264: &str = "-c:v libx264 -preset ultrafast -bf 3 -x264-params keyint=37:scenecut=0:b-pyramid=2";
const OPEN_H264: &str = "-c:v libx264 -preset veryfast -bf 3 -x264-params keyint=25:scenecut=0:open-gop=1";
const HEVC: &str = "-c:v libx265 -preset ultrafast -x265-params log-level=none:bframes=3:keyint=25:min-keyint=25";
const VP9: &str = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 30 -auto-alt-ref 1 -lag-in-frames 10";
const AV1: &str = "-c:v libaom-av1 -usage realtime -cpu-used 8 -g 30";

#[tokio::test]
async fn packets_are_those_of_the_source_for_every_codec() {
    let mut failures = Vec::new();
    for (name, encoder_args, track_count, is_closed) in [
        ("all.mkv", format!("{H264} {ALL_AUDIO}"), 9, true),
        ("all.mp4", format!("{HEVC}:open-gop=1 -tag:v hvc1 {ALL_AUDIO}"), 9, false),
        ("recovery-points.mkv", format!("{OPEN_H264} -an"), 1, false),
        ("recovery-points.mp4", format!("{OPEN_H264} -c:a aac"), 2, false),
        ("live.mkv", format!("{H264} -c:a aac -live 1"), 2, true),
        ("closed.mkv", format!("{HEVC}:open-gop=0 -c:a aac -ar 44100"), 2, true),
        ("open.mkv", format!("{HEVC}:open-gop=1 -an"), 1, false),
        ("fragments.mp4", format!("{H264} -c:a aac -movflags +frag_keyframe+empty_moov+default_base_moof"), 2, true),
        ("late.mp4", format!("{H264} -c:a aac -output_ts_offset 1.5"), 2, true),
        ("negative.mp4", format!("{H264} -c:a aac -movflags +negative_cts_offsets"), 2, true),
        ("a.mov", format!("{HEVC}:open-gop=0 -tag:v hvc1 -c:a alac"), 2, true),
        ("vp9.webm", format!("{VP9} -c:a libopus"), 2, true),
        ("vp9.mp4", format!("{VP9} -strict -2 -c:a flac"), 2, true),
        ("av1.webm", format!("{AV1} -c:a libopus -frame_duration 60"), 2, true),
        ("av1.mp4", format!("{AV1} -c:a libopus"), 2, true),
        ("audio.mka", "-vn -c:a flac".to_owned(), 1, true),
        ("audio.m4a", "-vn -c:a aac".to_owned(), 1, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        media::flash_and_beep(&path, 5, &encoder_args);
        let mut film = CmafFilm::open(folder, &path).await;
        if film.tracks.len() != track_count {
            failures.push(format!("{name}: {} tracks, refused: {:?}", film.tracks.len(), film.refusals));
            continue;
        }
        if let Some(index) = film.tracks[0].package.index() {
            assert_eq!(index.has_closed_groups, is_closed, "{name}");
            assert!(film.bench.grid.len() > 2, "{name}: {:?}", film.bench.grid);
        }
        for (n, difference) in film.differences_from_source(&path).await {
            failures.extend(difference.map(|text| format!("{name}: {} {text}", film.tracks[n].codec)));
        }
        let warnings = media::decoder_warnings(&film.bench.folder.path().join("multivariant.m3u8"));
        if !warnings.is_empty() {
            failures.push(format!("{name}: {warnings}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[tokio::test]
async fn a_segment_is_the_same_in_any_order_of_making() {
    for name in ["a.mkv", "a.mp4"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        media::flash_and_beep(&path, 9, &format!("{H264} -c:a aac -ar 44100"));
        let mut film = CmafFilm::open(folder, &path).await;
        for track in 0..film.tracks.len() {
            film.select(track);
            let segments = film.bench.all_segments().await;
            assert_eq!(segments.len(), film.bench.grid.len());
            for index in [3, 0, 4, 1] {
                assert_eq!(film.bench.single_segment(index).await.bytes, segments[index].bytes, "{name} {index}");
            }
        }
    }
}

#[tokio::test]
async fn streams_that_cannot_be_packaged_are_refused_with_a_reason() {
    for (name, encoder_args, expected_reasons) in [
        ("a.mp4", "-c:v mpeg4 -c:a libvorbis", &["does not support mpeg4", "does not support vorbis"][..]),
        ("b.mkv", "-c:v libx264 -preset ultrafast -c:a pcm_s16le", &["does not support pcm_s16le"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        media::flash_and_beep(&path, 2, encoder_args);
        let film = CmafFilm::open(folder, &path).await;
        let reasons: Vec<&str> = film.refusals.iter().map(|(.., reason)| &**reason).collect();
        let are_expected = reasons.iter().zip(expected_reasons).all(|(reason, expected)| reason.contains(expected));
        assert!(reasons.len() == expected_reasons.len() && are_expected, "{name}: {reasons:?}");
    }
    // A package of the other format.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mp4");
    media::flash_and_beep(&path, 2, &format!("{H264} -c:a aac"));
    let mut film = CmafFilm::open(folder, &path).await;
    film.select(0);
    film.bench.rendition =
        Arc::new(Rendition { format: SegmentFormat::MpegTs, ..Rendition::clone(&film.bench.rendition) });
    let error = Packager.start(film.bench.job(0), 0).unwrap_err();
    assert!(error.to_string().contains("fmp4 segments, not mpeg-ts"), "{error}");
}

/// Every track of the corpus that can be packaged has the packets of its source, except for 2 in 100: audio in laced blocks
/// that hold one frame more than their times have room for is late. `CORPUS_ONLY` selects files.
#[tokio::test(flavor = "multi_thread")]
async fn the_corpus_is_packaged_as_its_own_packets() {
    let (mut equal, mut different, mut refused) = (0, 0, 0);
    for (name, path) in corpus_films(&["mp4", "m4a", "m4b", "m4v", "mov", "3gp", "mkv", "mka", "webm"]) {
        let mut film = CmafFilm::open(tempfile::tempdir().unwrap(), &path).await;
        for (stream, codec, reason) in &film.refusals {
            println!("{name} {stream} {codec}: refused, {reason}");
            refused += 1;
        }
        if film.tracks.is_empty() {
            continue;
        }
        for (n, difference) in film.differences_from_source(&path).await {
            let PackagedTrack { stream, codec, package, .. } = &film.tracks[n];
            let codecs = &package.cmaf_track().unwrap().entry().codecs;
            let result = difference.as_deref().unwrap_or("equal");
            println!("{name} {stream} {codec} {codecs}: {} segments, {result}", film.bench.grid.len());
            (equal, different) = (equal + u32::from(difference.is_none()), different + u32::from(difference.is_some()));
        }
    }
    println!("{equal} tracks are equal, {different} differ, {refused} are refused");
    assert!(different * 100 <= (equal + different) * 2, "{different} of {} tracks differ", equal + different);
}
