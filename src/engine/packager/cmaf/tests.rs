//! A made Matroska file with header stripping and lacing; damaged files: opening fails, or segments are made, never a panic.

use super::*;
use crate::domain::cmaf::boxes::tests::find;
use crate::domain::grid::Grid;
use crate::engine::container::bytes::ReadAt;
use crate::engine::damaged_films::{SeededRandom, damage, make_film};
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
    let track = CmafTrack::open_matroska(&file[..], 0, 0.0).unwrap();
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
fn compressed_tracks_and_files_without_cues_are_refused() {
    let file = stripped_and_laced_file();
    let changed = |from: &[u8], to: &[u8]| {
        let at = file.windows(from.len()).position(|bytes| bytes == from).unwrap();
        let mut bytes = file.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        CmafTrack::open_matroska(&bytes[..], 0, 0.0).unwrap_err().reason()
    };
    let algorithm = number(0x4254, 3);
    assert_eq!(changed(&algorithm, &number(0x4254, 0)), "the track is compressed or encrypted");
    assert_eq!(changed(&0x1c53_bb6bu32.to_be_bytes(), &0x1254_c367u32.to_be_bytes()), "there are no Cues");
    assert_eq!(changed(b"A_AAC", b"A_XYZ"), "the audio codec has no MP4 form that players support");
}

/// Opens every stream and makes up to 20 segments of each; the number of segments made.
fn count_segments(bytes: &[u8]) -> Result<usize, String> {
    let open = |stream| {
        let is_matroska = bytes.starts_with(&[0x1a, 0x45, 0xdf, 0xa3]);
        let track = if is_matroska {
            CmafTrack::open_matroska(bytes, stream, 0.0)
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
