//! A made Matroska file with header stripping and lacing; damaged files: opening fails, or segments are made, never a panic.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::domain::cmaf::boxes::tests::find;
use crate::domain::grid::Grid;
use crate::domain::mpegts::psi::TrackKind;
use crate::engine::container::bytes::ReadAt;
use crate::engine::container::matroska::{MatroskaFile, SharedScan};
use crate::engine::container::mp4::Mp4File;
use crate::engine::damaged_films::{SeededRandom, damage, make_film, run_ffmpeg};
use crate::engine::packager::LazySegment;

/// An element with a size of eight bytes.
fn element(id: u32, body: &[u8]) -> Vec<u8> {
    let id = id.to_be_bytes();
    let used = id.iter().position(|&byte| byte != 0).unwrap();
    [&id[used..], &(body.len() as u64 | 1 << 56).to_be_bytes(), body].concat()
}

fn number(id: u32, value: u32) -> Vec<u8> {
    element(id, &value.to_be_bytes())
}

/// The frame of a number; frames differ in bytes and size.
fn frame(n: u8) -> Vec<u8> {
    vec![n; 10 + usize::from(n)]
}

const STRIPPED: [u8; 2] = [0xaa, 0xbb];
const FRAMES: u8 = 100;

/// AAC at 48 kHz, two frames in each block (EBML lacing), from the start of every frame of which two bytes were removed.
fn stripped_and_laced_file() -> Vec<u8> {
    let encoding = element(0x5034, &[number(0x4254, 3), element(0x4255, &STRIPPED)].concat());
    let track = [
        number(0xd7, 1),
        number(0x83, 2),
        element(0x86, b"A_AAC"),
        element(0x63a2, &[0x11, 0x90]),
        element(0xe1, &element(0xb5, &48_000f32.to_be_bytes())),
        element(0x6d80, &element(0x6240, &encoding)),
    ];
    let tracks = element(0x1654_ae6b, &element(0xae, &track.concat()));
    let cluster = |blocks: std::ops::Range<u8>| {
        let time = |block: u8| u32::from(block) * 2 * 1024 / 48;
        let start = time(blocks.start);
        let blocks = blocks.map(|block| {
            let (first, second) = (frame(block * 2), frame(block * 2 + 1));
            let head = [&[0x81][..], &((time(block) - start) as u16).to_be_bytes(), &[6, 1, 0x80 | first.len() as u8]];
            element(0xa3, &[&head.concat()[..], &first, &second].concat())
        });
        element(0x1f43_b675, &[number(0xe7, start), blocks.collect::<Vec<_>>().concat()].concat())
    };
    let (first, second) = (cluster(0..30), cluster(30..FRAMES / 2));
    let cue = |time: u32, position: u32| {
        element(
            0xbb,
            &[number(0xb3, time), element(0xb7, &[number(0xf7, 1), number(0xf1, position)].concat())].concat(),
        )
    };
    let cues = |at: u32| element(0x1c53_bb6b, &[cue(0, at), cue(1280, at + first.len() as u32)].concat());
    let clusters_at = (tracks.len() + cues(0).len()) as u32;
    let segment = element(0x1853_8067, &[tracks, cues(clusters_at), first, second].concat());
    [element(0x1a45_dfa3, &[]), segment].concat()
}

fn read(segment: CmafSegment, file: &[u8]) -> Vec<u8> {
    let lazy = LazySegment::from(segment);
    let bytes = lazy.read_with(|buffer, offset| Some(file.read_at(buffer, offset))).unwrap();
    assert_eq!(bytes.len() as u64, lazy.size_bytes());
    bytes
}

#[test]
fn stripped_bytes_and_laced_frames_are_put_back_in_order() {
    let file = stripped_and_laced_file();
    let track = CmafTrack::open_matroska(&file[..], 0, 0.0, &SharedScan::default()).unwrap();
    assert_eq!((track.timescale(), track.entry().codecs.as_str()), (48_000, "mp4a.40.2"));
    let grid = Grid::from_step(0.7, 2.1333);
    let (mut payload, mut next_time) = (Vec::new(), 3600 * 48_000);
    for number in 0..grid.len() {
        let segment = read(track.lay_out_segment(&file[..], &grid, number).unwrap(), &file);
        let traf = find(&segment, &[b"moof", b"traf"]);
        let decode_time = u64::from_be_bytes(find(traf, &[b"tfdt"])[4..].try_into().unwrap());
        assert_eq!(decode_time, next_time, "segment {number}");
        // Flags, track id and default duration.
        assert_eq!(find(traf, &[b"tfhd"])[8..12], 1024u32.to_be_bytes());
        let samples = u32::from_be_bytes(find(traf, &[b"trun"])[4..8].try_into().unwrap());
        next_time += u64::from(samples) * 1024;
        payload.extend_from_slice(find(&segment, &[b"mdat"]));
    }
    let expected: Vec<u8> = (0..FRAMES).flat_map(|n| [STRIPPED.to_vec(), frame(n)].concat()).collect();
    assert!(payload == expected, "{} bytes instead of {}", payload.len(), expected.len());
}

#[test]
fn compressed_tracks_and_other_codecs_are_refused() {
    let file = stripped_and_laced_file();
    let changed = |from: &[u8], to: &[u8]| {
        let at = file.windows(from.len()).position(|bytes| bytes == from).unwrap();
        let mut bytes = file.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        CmafTrack::open_matroska(&bytes[..], 0, 0.0, &SharedScan::default()).unwrap_err().reason()
    };
    let algorithm = number(0x4254, 3);
    assert_eq!(changed(&algorithm, &number(0x4254, 0)), "the track is compressed or encrypted");
    assert_eq!(changed(b"A_AAC", b"A_XYZ"), "the audio codec has no MP4 form that players support");
}

#[test]
fn sizes_are_those_of_the_segments() {
    let audio_input = "-f lavfi -i sine=r=44100:d=1.7";
    for (name, options) in [
        ("a.mp4", "-c:a aac"),
        ("b.mp4", "-c:a aac -movflags +frag_keyframe+empty_moov+default_base_moof"),
        ("c.mp4", "-c:a ac3 -t 2.4"),
    ] {
        let file = make_film(name, audio_input, options);
        let [video, audio] = [0, 1].map(|stream| CmafTrack::open_mp4(&file[..], stream, 0.0).unwrap());
        let index = video.index().unwrap();
        let grid = Grid::from_keyframes(&index.keyframes[1..], 0.7, index.end.as_seconds());
        for track in [&video, &audio] {
            let sizes = track.segment_sizes(&grid).unwrap();
            let mut total = 0;
            for (number, size) in sizes.iter().enumerate() {
                let segment = read(track.lay_out_segment(&file[..], &grid, number).unwrap(), &file);
                assert_eq!(size.bytes, segment.len() as u64, "{name} {number}");
                total += size.bytes;
                let keyframe_end = (track.kind() == TrackKind::Video).then(|| {
                    let trun = find(&segment, &[b"moof", b"traf", b"trun"]);
                    let word = |at: usize| u64::from(u32::from_be_bytes(trun[at..at + 4].try_into().unwrap()));
                    // The data offset, and the size of the first sample, after its duration.
                    word(8) + word(16)
                });
                assert_eq!(size.keyframe_bytes, keyframe_end, "{name} {number}");
            }
            let rates = track.bit_rates(&grid).unwrap();
            let average = total as f64 * 8.0 / grid.end().as_seconds();
            assert!((rates.average as f64 - average).abs() < 2.0 && rates.peak > rates.average, "{rates:?}");
        }
        let frames = video.keyframe_ranges(&grid).unwrap();
        assert!(frames.iter().map(|frame| frame.segment).eq(0..grid.len()), "{name}: {frames:?}");
        assert_eq!(audio.keyframe_ranges(&grid), None);
        let end = audio.end().unwrap().as_seconds();
        assert!((1.69..1.8).contains(&end), "{name}: the audio ends at {end}");
        assert_eq!(video.end(), Some(index.end));
    }
    let file = make_film("d.mkv", audio_input, "-c:a aac");
    let end = CmafTrack::open_matroska(&file[..], 1, 0.0, &SharedScan::default()).unwrap().end().unwrap().as_seconds();
    assert!((1.69..1.8).contains(&end), "the tag states {end}");
    let file = stripped_and_laced_file();
    let track = CmafTrack::open_matroska(&file[..], 0, 0.0, &SharedScan::default()).unwrap();
    let grid = Grid::from_step(0.7, 2.1);
    assert_eq!((track.end(), track.segment_sizes(&grid), track.bit_rates(&grid)), (None, None, None));
}

#[test]
fn a_keyframe_film_has_the_first_frames_of_the_segments() {
    for (name, options) in [
        ("a.mp4", ""),
        ("b.mp4", "-movflags +frag_keyframe+empty_moov"),
        ("c.mkv", ""),
        ("d.webm", "-c:v libvpx-vp9 -cpu-used 8"),
    ] {
        let file = make_film(name, "", options);
        let track = match name {
            "c.mkv" | "d.webm" => CmafTrack::open_matroska(&file[..], 0, 0.0, &SharedScan::default()).unwrap(),
            _ => CmafTrack::open_mp4(&file[..], 0, 0.0).unwrap(),
        };
        let index = track.index().unwrap();
        let grid = Grid::from_keyframes(&index.keyframes[1..], 0.0001, index.end.as_seconds());
        assert!(grid.len() > 3, "{name}: {grid:?}");
        let first_frame = |number: usize| {
            let segment = read(track.lay_out_segment(&file[..], &grid, number).unwrap(), &file);
            let trun = find(&segment, &[b"moof", b"traf", b"trun"]);
            let word = |at: usize| u32::from_be_bytes(trun[at..at + 4].try_into().unwrap()) as usize;
            segment[word(8)..word(8) + word(16)].to_vec()
        };
        let places = [0, 2, 2, 1];
        let film = track.keyframe_film(&file[..], &places).unwrap();
        assert!(film.starts_with(track.init_segment()) && film.ends_with(&places.map(first_frame).concat()), "{name}");
        assert!(track.keyframe_film(&file[..], &[index.keyframes.len()]).is_err());
        assert!(track.keyframe_film(&file[..file.len() / 3], &[2]).is_err());
    }
}

/// The segments of a track of audio, or of video from its index.
fn all_segments(track: &CmafTrack, file: &[u8], grid: &Grid) -> Vec<Vec<u8>> {
    (0..grid.len()).map(|number| read(track.lay_out_segment(file, grid, number).unwrap(), file)).collect()
}

#[test]
fn files_without_cues_are_scanned() {
    let made = make_film("a.mkv", "-f lavfi -i sine=r=48000:d=3", "-c:a aac");
    for (mut file, video) in [(made, Some(0)), (stripped_and_laced_file(), None)] {
        let audio = video.map_or(0, |_| 1);
        let open = |file: &[u8], stream, scan: &SharedScan| CmafTrack::open_matroska(file, stream, 0.0, scan).unwrap();
        let index = |file: &[u8]| video.map(|video| open(file, video, &SharedScan::default()).index().unwrap().clone());
        let grid = index(&file).map_or(Grid::from_step(0.7, 2.1333), |index| {
            assert!(index.keyframes.len() > 4);
            Grid::from_keyframes(&index.keyframes[1..], 0.7, index.end.as_seconds())
        });
        let segments = |file: &[u8]| {
            let (streams, scan) = (video.into_iter().chain([audio]), SharedScan::default());
            streams.map(|stream| all_segments(&open(file, stream, &scan), file, &grid)).collect::<Vec<_>>()
        };
        let expected = (index(&file), segments(&file));
        // Cues become tags. The seek head finds them by the position, so that no entry of it names other elements.
        let at = file.windows(4).rposition(|bytes| bytes == 0x1c53_bb6bu32.to_be_bytes()).unwrap();
        file[at..at + 4].copy_from_slice(&0x1254_c367u32.to_be_bytes());
        assert_eq!(MatroskaFile::read(&file[..]).unwrap().read_all_cues().unwrap_err().reason(), "there are no Cues");
        assert!((index(&file), segments(&file)) == expected, "video {video:?}");
        check_single_scan(&file);
    }
}

#[test]
fn negative_offsets_of_fragments_are_presentation_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mp4");
    std::fs::write(&path, make_film("a.mp4", "-f lavfi -i sine=r=48000:d=3", "-c:a aac")).unwrap();
    let copy = |name: &str, flags: &str| {
        let target = folder.path().join(name);
        let args = ["-i", path.to_str().unwrap(), "-c", "copy", "-movflags", flags];
        run_ffmpeg(args, &target);
        std::fs::read(&target).unwrap()
    };
    let whole = copy("whole.mp4", "+negative_cts_offsets");
    let fragments = copy("fragments.mp4", "+negative_cts_offsets+frag_keyframe+empty_moov+default_base_moof");
    assert!(Mp4File::read(&fragments[..]).unwrap().read_track(0).is_err());
    let open = |file: &[u8]| CmafTrack::open_mp4(file, 0, 0.0).unwrap();
    let (expected, track) = (open(&whole), open(&fragments));
    let index = expected.index().unwrap();
    assert_eq!(track.index(), Some(index));
    let grid = Grid::from_keyframes(&index.keyframes[1..], 0.7, index.end.as_seconds());
    assert!(all_segments(&track, &fragments, &grid) == all_segments(&expected, &whole, &grid));
}

/// A file that counts how often it is read.
struct CountedReads<'a>(&'a [u8], AtomicUsize);

impl ReadAt for CountedReads<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> usize {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.read_at(buffer, offset)
    }
}

/// Checks that the second reader of a file without cues does not scan it.
fn check_single_scan(file: &[u8]) {
    let (file, scan) = (CountedReads(file, AtomicUsize::new(0)), SharedScan::default());
    let header = MatroskaFile::read(&file).unwrap();
    let count_reads = |read: &dyn Fn()| {
        let before = file.1.load(Ordering::Relaxed);
        read();
        file.1.load(Ordering::Relaxed) - before
    };
    assert!(count_reads(&|| drop(header.read_or_scan_all_cues(&scan).unwrap())) > 10);
    assert_eq!(count_reads(&|| drop(header.read_or_scan_cues(1, &scan).unwrap())), 0);
}

/// Opens every stream and makes up to 20 segments of each; the number of segments made.
fn count_segments(bytes: &[u8]) -> Result<usize, String> {
    let open = |stream| {
        let is_matroska = bytes.starts_with(&[0x1a, 0x45, 0xdf, 0xa3]);
        let track = if is_matroska {
            CmafTrack::open_matroska(bytes, stream, 0.0, &SharedScan::default())
        } else {
            CmafTrack::open_mp4(bytes, stream, 0.0)
        };
        track.map_err(|refusal| refusal.reason().to_owned())
    };
    let (video, audio) = (open(0)?, open(1)?);
    let index = video.index().ok_or("the first stream is no video")?;
    let grid = Grid::from_keyframes(index.keyframes.get(1..).unwrap_or_default(), 0.5, index.end.as_seconds());
    let mut count = 0;
    for track in [&video, &audio] {
        for number in 0..grid.len().min(20) {
            let segment = track.lay_out_segment(bytes, &grid, number).map_err(|error| error.to_string())?;
            read(segment, bytes);
            count += 1;
        }
    }
    Ok(count)
}

#[test]
fn damaged_files_are_refused_or_laid_out_without_panic() {
    let audio_input = "-f lavfi -i sine=r=48000:d=3";
    for (name, options) in [
        ("a.mp4", "-c:a aac -movflags +faststart"),
        ("b.mp4", "-c:a ac3 -movflags +frag_keyframe+delay_moov"),
        ("c.mkv", "-c:a eac3"),
    ] {
        let file = make_film(name, audio_input, options);
        assert_eq!(count_segments(&file), Ok(8), "{name}");
        let from = file.windows(4).position(|four| four == b"moov").unwrap_or(0);
        let mut random = SeededRandom(17);
        for round in 0..60 {
            let mut bytes = file.clone();
            let (from, to) = if round % 4 == 0 { (0, bytes.len()) } else { (from, (from + 4000).min(bytes.len())) };
            damage(&mut bytes, from, to, &mut random);
            let _ = count_segments(&bytes);
        }
    }
}
