//! Containers and clocks that GStreamer reads in its own way: both backends show the same frames at the same times.

use super::*;
use hearthcast::engine::clock;

const X264: &str = "-c:v libx264 -preset ultrafast -qp 4 -g 60 -bf 2 -pix_fmt yuv420p";

/// Side of the frames of a numbered film, pixels.
const SIDE: usize = 64;

/// Name, container, arguments of the encoder of the video, and the others.
type FilmKind = (&'static str, Container, &'static str, &'static str);

/// Kinds of files that demuxers of GStreamer read, and transport streams.
const FILMS: [FilmKind; 7] = [
    ("late.mkv", Container::Matroska, X264, "-c:a aac -output_ts_offset 5"),
    ("late.mp4", Container::Mp4, X264, "-c:a aac -output_ts_offset 5"),
    // Its audio starts 7 ms before 0.
    ("opus.mkv", Container::Matroska, X264, "-c:a libopus"),
    ("avc.ts", Container::MpegTs, X264, "-c:a aac"),
    ("hevc.ts", Container::MpegTs, "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=60", "-c:a ac3"),
    ("open.ts", Container::MpegTs, "-c:v mpeg2video -q:v 2 -bf 2 -g 30", "-c:a mp2 -output_ts_offset 1000"),
    ("plain.avi", Container::Avi, "-c:v mpeg4 -q:v 2 -bf 0 -g 60", "-c:a mp3"),
];

/// AVI files whose frames are not stored in the order of display.
const REORDERED: [FilmKind; 1] = [("reordered.avi", Container::Avi, "-c:v mpeg4 -q:v 2 -bf 2 -g 60", "-c:a mp3")];

const PROGRAM_STREAMS: [FilmKind; 3] = [
    ("disc.vob", Container::MpegPs, "-c:v mpeg2video -q:v 2 -bf 2 -g 30", "-c:a ac3 -f vob"),
    ("late.mpg", Container::MpegPs, "-c:v mpeg2video -q:v 2 -bf 2 -g 60", "-c:a mp2 -output_ts_offset 1000 -f svcd"),
    ("old.mpg", Container::MpegPs, "-c:v mpeg1video -q:v 2 -bf 2 -g 30", "-c:a mp2 -f mpeg"),
];

/// Makes 12 s of frames whose colour encodes their number, for `media::frame_numbers`, with a tone.
fn make_numbered_film(path: &Path, encoder_args: &str) {
    let colours = "geq=lum='20+10*mod(N\\,20)':cb='20+10*mod(floor(N/20)\\,20)':cr='20+5*floor(N/400)'";
    let frames = format!("nullsrc=s={SIDE}x{SIDE}:r=25:d=12,format=yuv420p,{colours}");
    media::run_ffmpeg(path, &["-f lavfi -i", &frames, "-f lavfi -i", "aevalsrc=0.4*sin(2000*t):d=12", encoder_args]);
}

/// States the profile of MPEG-4 video without B-frames, which the kit's probe omits.
fn set_profile(bench: &mut Bench, encoder_args: &str) {
    if !encoder_args.contains("-bf 0") {
        return;
    }
    for stream in Arc::make_mut(&mut bench.media).streams.iter_mut().filter(|stream| stream.codec == "mpeg4") {
        stream.profile = Some("simple-profile".into());
    }
}

fn numbered_bench(name: &str, container: Container, encoder_args: &str) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    make_numbered_film(&path, encoder_args);
    let mut bench = Bench::of_file(folder, &path, container, FPS25, 12.0);
    if let Some(VideoPlan::Encode(plan)) = &mut Arc::make_mut(&mut bench.rendition).video {
        (plan.width, plan.height) = (SIDE as u32, SIDE as u32);
    }
    set_profile(&mut bench, encoder_args);
    bench
}

/// Segments that a backend made, each by a run of its own.
async fn write_segments(bench: &Bench, indices: &[usize]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for &index in indices {
        let name = format!("{}-{index}.ts", bench.backend.name());
        paths.push(bench.write_joined(&name, [&bench.single_segment(index).await]));
    }
    paths
}

/// Asserts that the beginning, the middle and the end look the same with both backends, each after a seek of its own: the numbers
/// of the frames, and the times of the packets of each stream.
async fn check_same_frames(name: &str, bench: Bench) {
    let indices = [0, 2, 3, bench.grid.len() - 1];
    let by_ffmpeg = write_segments(&bench, &indices).await;
    let bench = bench.with_gstreamer();
    let by_gstreamer = write_segments(&bench, &indices).await;
    let paths: Vec<&Path> = by_ffmpeg.iter().chain(&by_gstreamer).map(PathBuf::as_path).collect();
    let shown: Vec<_> = media::convert(&paths, [media::RAW_FRAMES, "-map {n} -c copy -f framecrc"])
        .into_iter()
        .map(|[frames, packets]| (media::parse_frame_numbers(&frames, SIDE), packet_times(&packets)))
        .collect();
    let (by_ffmpeg, by_gstreamer) = shown.split_at(indices.len());
    for ((index, theirs), ours) in indices.into_iter().zip(by_ffmpeg).zip(by_gstreamer) {
        assert!(!theirs.0.is_empty() && theirs.1.len() > theirs.0.len(), "{name}, segment {index}: {theirs:?}");
        assert_eq!(ours, theirs, "{name}, segment {index}");
    }
}

/// Stream and presentation time of the packets that ffmpeg's muxer `framecrc` lists, sorted.
fn packet_times(listing: &[u8]) -> Vec<(u64, i64)> {
    let listing = String::from_utf8_lossy(listing);
    let lines = listing.lines().filter(|line| !line.starts_with('#'));
    let mut times: Vec<(u64, i64)> = lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            (fields[0].parse().unwrap(), fields[2].parse().unwrap())
        })
        .collect();
    times.sort_unstable();
    times
}

async fn check_films(films: &[FilmKind]) {
    for &(name, container, video_args, other_args) in films {
        check_same_frames(name, numbered_bench(name, container, &format!("{video_args} {other_args}"))).await;
    }
}

#[tokio::test]
async fn both_backends_show_the_same_frames_after_a_seek() {
    check_films(&FILMS).await;
}

#[tokio::test]
async fn both_backends_show_the_same_frames_of_program_streams() {
    check_films(&PROGRAM_STREAMS).await;
}

#[tokio::test]
async fn both_backends_show_the_same_frames_of_reordered_avi_video() {
    check_films(&REORDERED).await;
}

/// Removes the timestamps of all video packets in which no sequence header begins. A multiplexer may omit them for 0.7 s.
fn remove_timestamps_between_keyframes(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let (mut at, mut removed_count) = (0, 0);
    while let Some(&[0, 0, 1, id]) = bytes[at..].first_chunk::<4>() {
        let len = usize::from(u16::from_be_bytes([bytes[at + 4], bytes[at + 5]])) + 6;
        if id == 0xba {
            at += 14 + usize::from(bytes[at + 13] & 7);
            continue;
        }
        let packet = &mut bytes[at..at + len];
        at += len;
        if id == 0xe0 && packet[7] & 0x80 != 0 && !packet.windows(4).any(|code| code == [0, 0, 1, 0xb3]) {
            packet[7] &= 0x3f;
            let end = 9 + usize::from(packet[8]);
            packet[9..end].fill(0xff);
            removed_count += 1;
        }
    }
    assert!(removed_count > 10, "{removed_count} timestamps were removed");
    std::fs::write(path, bytes).unwrap();
}

/// The numbered films have frames of a few bytes, so that packets contain several of them.
#[tokio::test]
async fn program_streams_with_few_timestamps_show_the_frames_of_ffmpeg() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse.vob");
    let frames = "testsrc2=s=320x180:r=25:d=8,noise=alls=20";
    media::run_ffmpeg(&path, &["-f lavfi -i", frames, "-c:v mpeg2video -q:v 4 -bf 2 -g 15 -f vob"]);
    remove_timestamps_between_keyframes(&path);
    let bench = Bench::of_file(folder, &path, Container::MpegPs, FPS25, 8.0);
    let indices = [0, 2, 3, bench.grid.len() - 1];
    let mut expected = Vec::new();
    for index in indices {
        expected.push(bench.write_joined(&format!("ffmpeg{index}.ts"), [&bench.single_segment(index).await]));
    }
    let bench = bench.with_gstreamer();
    for (index, theirs) in indices.into_iter().zip(expected) {
        let ours = bench.write_joined("gstreamer.ts", [&bench.single_segment(index).await]);
        let psnr = media::worst_psnr_decibels(&theirs, &ours);
        assert!(psnr > 24.0, "segment {index}: frames differ, {psnr} dB");
    }
}

/// Without `HEARTHCAST_ALL_FILMS` every other film is encoded.
#[tokio::test]
async fn audio_and_video_stay_in_sync() {
    let films = FILMS.into_iter().chain(PROGRAM_STREAMS).chain(REORDERED);
    for (name, container, video_args, other_args) in films.step_by(media::film_step(2)) {
        let mut bench = Bench::of_new_film(name, container, 5, &format!("{video_args} {other_args}"));
        set_profile(&mut bench, video_args);
        encode::check_sync(&bench.with_gstreamer(), 0.03).await;
    }
}

#[tokio::test]
async fn an_avi_file_without_index_is_left_to_ffmpeg() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, path) = (folder.path().join("whole.avi"), folder.path().join("a.avi"));
    media::flash_and_beep(&whole, 5, "-c:v mpeg4 -q:v 2 -bf 0 -c:a mp3");
    let bytes = std::fs::read(&whole).unwrap();
    let index = bytes.windows(4).rposition(|name| name == b"idx1").unwrap();
    std::fs::write(&path, &bytes[..index]).unwrap();
    let mut bench = Bench::of_file(folder, &path, Container::Avi, FPS25, 5.0);
    set_profile(&mut bench, "-bf 0");
    let mut run = bench.with_gstreamer().start(0, usize::MAX);
    let error = next_segment(&mut run).await.unwrap().map(|segment| segment.index).unwrap_err();
    assert!(error.to_string().contains("no index"), "{error}");
}

/// A transport stream of two parts, of which the second has another clock.
#[tokio::test]
async fn a_transport_stream_on_two_clocks_is_read_in_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("joined.ts");
    let mut bytes = Vec::new();
    for (name, offset) in [("first.ts", 100), ("second.ts", 50)] {
        let part = folder.path().join(name);
        let encoder_args = format!("-c:v mpeg2video -q:v 3 -bf 0 -c:a mp2 -output_ts_offset {offset}");
        media::flash_and_beep(&part, 5, &encoder_args);
        bytes.extend(std::fs::read(&part).unwrap());
    }
    std::fs::write(&path, bytes).unwrap();
    let mut bench = Bench::of_file(folder, &path, Container::MpegTs, FPS25, 10.0);
    let repair = clock::find_clock_repair(&bench.source).unwrap().unwrap();
    repair.apply_to(Arc::make_mut(&mut bench.media), bench.source.len);
    let joined = bench.write_joined("ffmpeg.ts", &bench.all_segments().await);
    let expected = media::flash_and_beep_times(&joined, 25.0);
    let bench = bench.with_gstreamer();
    let joined = bench.write_joined("gstreamer.ts", &bench.all_segments().await);
    assert_eq!(media::decoder_warnings(&joined), "");
    let shown = media::flash_and_beep_times(&joined, 25.0);
    assert_eq!((shown.0.len(), shown.1.len()), (expected.0.len(), expected.1.len()), "{shown:?} {expected:?}");
    let pairs = shown.0.iter().zip(&expected.0).chain(shown.1.iter().zip(&expected.1));
    for (ours, theirs) in pairs {
        assert!((ours - theirs).abs() < 0.041, "{shown:?} {expected:?}");
    }
    let single = bench.single_segment(bench.grid.len() - 1).await;
    assert!(media::flash_and_beep_times(&bench.write_joined("one.ts", [&single]), 25.0).0.len() <= 2);
}

/// Copies the audio of a film instead of encoding it.
fn copy_audio(bench: &mut Bench) {
    let stream = bench.media.audio_streams().next().unwrap().0.index;
    Arc::make_mut(&mut bench.rendition).audio = Some(AudioPlan::Copy { stream });
}

/// Start, ticks of the item, and size of the audio packets of these segments. GStreamer's parser drops the frames that end
/// before the item begins (encoder priming), so they are left out.
fn audio_packets<'a>(bench: &Bench, segments: impl IntoIterator<Item = &'a SegmentBytes>) -> Vec<(i64, u64)> {
    let path = bench.write_joined("packets.ts", segments);
    let audio = media::packets(&path).into_iter().filter(|packet| packet.stream == 1);
    let timed = audio.map(|packet| (packet.pts - 3600 * 90_000, packet.size));
    timed.filter(|(start, _)| *start > -900).collect()
}

#[tokio::test]
async fn copied_audio_beside_encoded_video_is_that_of_ffmpeg() {
    for (name, container, encoder_args) in [
        ("aac.mp4", Container::Mp4, "-c:v libx264 -preset ultrafast -g 60 -bf 2 -c:a aac"),
        ("late.mp4", Container::Mp4, "-c:v libx264 -preset ultrafast -g 60 -c:a aac -ar 44100 -output_ts_offset 5"),
        ("aac.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 60 -c:a aac"),
        ("mp3.mkv", Container::Matroska, "-c:v libx264 -preset ultrafast -g 60 -c:a libmp3lame"),
        ("aac.ts", Container::MpegTs, "-c:v mpeg2video -q:v 3 -c:a aac"),
        ("mp3.avi", Container::Avi, "-c:v mpeg4 -q:v 3 -bf 0 -c:a libmp3lame"),
    ] {
        check_copied_audio(name, container, encoder_args).await;
    }
}

#[tokio::test]
async fn copied_audio_of_a_program_stream_is_that_of_ffmpeg() {
    check_copied_audio("mp3.mpg", Container::MpegPs, "-c:v mpeg2video -q:v 3 -bf 2 -c:a libmp3lame -f mpeg").await;
}

/// Asserts that the copied audio of a film is that of ffmpeg, whole and after a seek.
async fn check_copied_audio(name: &str, container: Container, encoder_args: &str) {
    let mut bench = Bench::of_new_film(name, container, 7, encoder_args);
    set_profile(&mut bench, encoder_args);
    copy_audio(&mut bench);
    let theirs = audio_packets(&bench, &bench.all_segments().await);
    let bench = bench.with_gstreamer();
    let segments = bench.all_segments().await;
    let joined = bench.write_joined("whole.ts", &segments);
    assert_eq!(media::decoder_warnings(&joined), "", "{name}");
    let ours = audio_packets(&bench, &segments);
    // qtdemux omits what begins in the last frame of an edit.
    assert!(ours.len().abs_diff(theirs.len()) <= 1 && ours.len() > 250, "{name}: {} {}", ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        // Matroska and AVI round times to milliseconds.
        assert!((ours.0 - theirs.0).abs() <= 180 && ours.1 == theirs.1, "{name}: {ours:?} {theirs:?}");
    }
    let (flashes, beeps) = media::flash_and_beep_times(&joined, 25.0);
    assert_eq!((flashes.len(), beeps.len()), (7, 7), "{name}: {flashes:?} {beeps:?}");
    assert!(
        flashes.iter().zip(&beeps).all(|(flash, beep)| (flash - beep).abs() < 0.06),
        "{name}: {flashes:?} {beeps:?}"
    );
    for index in [1, 3, segments.len() - 1] {
        let single = bench.single_segment(index).await;
        assert_eq!(audio_packets(&bench, [&single]), audio_packets(&bench, [&segments[index]]), "{name}, {index}");
    }
}
