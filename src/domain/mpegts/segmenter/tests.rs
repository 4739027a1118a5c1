//! Tests the segmenter with synthetic streams: frames, keyframes and audio at known times.

use proptest::prelude::*;

use super::*;
use crate::domain::mpegts::packet::SYNC_BYTE;
use crate::domain::mpegts::tests::chunks;
use crate::domain::mpegts::{VIDEO_PID, psi};
use crate::domain::time::FrameRate;

const BASE: i64 = 3600 * 90_000;

/// One PES packet in as many TS packets as it needs, the last one stuffed. `random_access` sets the random access indicator.
fn pes_packets(track: TrackKind, pts: i64, random_access: bool, size: usize, with_length: bool) -> Vec<u8> {
    let pts = (pts + BASE).rem_euclid(crate::domain::mpegts::TIMESTAMP_WRAP);
    let length = if with_length { (size + 8) as u16 } else { 0 }.to_be_bytes();
    let timestamp_field = [
        0x21 | (pts >> 29) as u8 & 0x0e,
        (pts >> 22) as u8,
        (pts >> 14) as u8 | 1,
        (pts >> 7) as u8,
        (pts << 1) as u8 | 1,
    ];
    let mut body = vec![0, 0, 1, 0xe0, length[0], length[1], 0x80, 0x80, 5];
    body.extend_from_slice(&timestamp_field);
    body.resize(14 + size, 0xab);
    let pid = track.pid().to_be_bytes();
    let mut out = Vec::new();
    let mut first = true;
    while !body.is_empty() {
        let min_field_len = if first && random_access { 2 } else { 0 };
        let count = body.len().min(PACKET_LEN - 4 - min_field_len);
        let field = PACKET_LEN - 4 - count;
        let start_flag = if first { 0x40 } else { 0 };
        out.extend_from_slice(&[SYNC_BYTE, start_flag | pid[0], pid[1], if field > 0 { 0x30 } else { 0x10 }]);
        if field > 0 {
            out.push((field - 1) as u8);
            if field > 1 {
                out.push(if first && random_access { 0x40 } else { 0 });
                out.extend(std::iter::repeat_n(0xff, field - 2));
            }
        }
        out.extend(body.drain(..count));
        first = false;
    }
    out
}

fn write_tables(tracks: &[TrackKind]) -> Vec<u8> {
    let entry = |track: &TrackKind| {
        let stream_type = if *track == TrackKind::Video { 0x1b } else { 0x0f };
        PmtEntry { pid: track.pid(), stream_type, descriptors: vec![] }
    };
    [psi::build_pat(), psi::build_pmt(&tracks.iter().map(entry).collect::<Vec<_>>())].concat()
}

/// Video at 25 fps and AAC-aligned audio, interleaved by time, between `from` and `to` in ticks.
fn video_and_audio(from: i64, to: i64, with_length: bool) -> Vec<u8> {
    let mut events = Vec::new();
    for frame in from / 3600..to / 3600 {
        let (pts, size) = (frame * 3600, 300 + (frame as usize * 37) % 900);
        events.push((pts, pes_packets(TrackKind::Video, pts, frame % 50 == 0, size, with_length)));
    }
    for frame in from / AAC_FRAME_TICKS..to / AAC_FRAME_TICKS {
        let (pts, size) = (frame * AAC_FRAME_TICKS, 100 + (frame as usize * 13) % 200);
        events.push((pts, pes_packets(TrackKind::Audio, pts, true, size, true)));
    }
    events.sort_by_key(|event| event.0);
    let stream = events.into_iter().flat_map(|event| event.1);
    write_tables(&[TrackKind::Video, TrackKind::Audio]).into_iter().chain(stream).collect()
}

fn grid(seconds: f64) -> Arc<Grid> {
    Arc::new(Grid::from_frame_rate(FrameRate { num: 25, den: 1 }, 2.0, seconds))
}

fn encode_settings(grid: Arc<Grid>, first: usize) -> SegmenterSettings {
    SegmenterSettings {
        grid,
        first_segment: first,
        base_timestamp: BASE,
        has_video: true,
        audio: Some(AudioMode::Encoded),
        budget_bytes: 1 << 20,
    }
}

/// All segments the segmenter returns for a stream fed in chunks of these sizes.
fn segment_all(settings: SegmenterSettings, stream: &[u8], sizes: &[usize]) -> Vec<FinishedSegment> {
    let mut segmenter = Segmenter::new(settings);
    let mut segments: Vec<_> = chunks(stream, sizes).flat_map(|chunk| segmenter.push(chunk).unwrap()).collect();
    segments.extend(segmenter.finish().unwrap());
    segments
}

/// PTS of every PES packet with this PID in a segment, ticks of source time.
fn pes_times(segment: &[u8], pid: u16) -> Vec<i64> {
    let packets = segment.as_chunks::<PACKET_LEN>().0.iter().filter_map(Packet::new);
    let starts = packets.filter(|packet| packet.pid() == pid && packet.starts_unit());
    starts.map(|packet| pes::parse(packet.payload()).unwrap().pts.unwrap() - BASE).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn chunks_of_any_size_give_the_same_segments(sizes in proptest::collection::vec(1usize..5000, 1..20)) {
        let stream = video_and_audio(0, 7 * 90_000, true);
        let expected = segment_all(encode_settings(grid(7.0), 0), &stream, &[PACKET_LEN]);
        prop_assert_eq!(expected.len(), 6);
        prop_assert_eq!(segment_all(encode_settings(grid(7.0), 0), &stream, &sizes), expected);
    }

    #[test]
    fn a_backend_that_starts_early_gives_the_same_segments(early in 0i64..200, first in 0usize..5) {
        let grid = grid(7.0);
        let from = (grid.segment_start(first) - early * 900).max(0);
        let from_start = segment_all(encode_settings(grid.clone(), 0), &video_and_audio(0, 630_000, false), &[1000]);
        // The first frame must be complete, and audio must begin on its own grid.
        let from_middle = segment_all(encode_settings(grid, first), &video_and_audio(from, 630_000, false), &[1000]);
        prop_assert_eq!(&from_middle[1..], &from_start[first + 1..]);
        prop_assert_eq!(pes_times(&from_middle[0].bytes, VIDEO_PID), pes_times(&from_start[first].bytes, VIDEO_PID));
    }

    #[test]
    fn garbage_neither_panics_nor_exceeds_the_budget(
        bytes in proptest::collection::vec(any::<u8>(), 0..4000),
        spots in proptest::collection::vec((0usize..40_000, any::<u8>()), 0..60),
    ) {
        let mut stream = video_and_audio(0, 3 * 90_000, true);
        let count = stream.len();
        for (at, value) in spots {
            stream[at % count] = value;
        }
        stream.extend_from_slice(&bytes);
        let mut segmenter = Segmenter::new(encode_settings(grid(7.0), 0));
        for piece in stream.chunks(700) {
            if segmenter.push(piece).is_err() {
                return Ok(());
            }
            prop_assert!(segmenter.buffered_bytes <= 1 << 20);
        }
        let _ = segmenter.finish();
    }
}

#[test]
fn a_segment_is_returned_with_its_last_frame() {
    let stream = video_and_audio(0, 90_000, true);
    let mut segmenter = Segmenter::new(encode_settings(grid(7.0), 0));
    let segments = segmenter.push(&stream).unwrap();
    // All 25 video frames are there, and 46 of the 47 audio frames that begin in segment 0. Nothing of segment 1 is
    // needed.
    assert_eq!(segments.len(), 0, "the 47th audio frame is still missing");
    let last = pes_packets(TrackKind::Audio, 46 * AAC_FRAME_TICKS, true, 50, true);
    let segments = segmenter.push(&last).unwrap();
    assert_eq!(segments.iter().map(|piece| piece.index).collect::<Vec<_>>(), [0]);
    assert_eq!(pes_times(&segments[0].bytes, VIDEO_PID).len(), 25);
    assert_eq!(pes_times(&segments[0].bytes, AUDIO_PID), (0..47).map(|n| n * AAC_FRAME_TICKS).collect::<Vec<_>>());
}

#[test]
fn a_missing_track_does_not_block_segments() {
    let mut stream = write_tables(&[TrackKind::Video, TrackKind::Audio]);
    for frame in 0..10 * 25 {
        stream.extend(pes_packets(TrackKind::Video, frame * 3600, frame % 50 == 0, 200, true));
    }
    let mut segmenter = Segmenter::new(encode_settings(grid(10.0), 0));
    let segments = segmenter.push(&stream).unwrap();
    let indices: Vec<_> = segments.iter().map(|piece| piece.index).collect();
    assert_eq!(indices, [0, 1, 2, 3], "segments wait 5 s for the missing track");
    assert_eq!(segmenter.finish().unwrap().len(), 3);
}

#[test]
fn copied_video_is_cut_at_planned_keyframes_only() {
    let grid = Arc::new(Grid::Keyframes { bounds: [0, 180_000, 450_000, 630_000].into() });
    let settings = |first| SegmenterSettings { audio: None, ..encode_settings(grid.clone(), first) };
    let mut stream = write_tables(&[TrackKind::Video]);
    for frame in 0..175 {
        // A keyframe every second, with jitter like Matroska's rounding to milliseconds.
        stream.extend(pes_packets(TrackKind::Video, frame * 3600 + frame % 3 * 30, frame % 25 == 0, 200, true));
    }
    let segments = segment_all(settings(0), &stream, &[999]);
    let counts: Vec<_> = segments.iter().map(|piece| pes_times(&piece.bytes, VIDEO_PID).len()).collect();
    assert_eq!(counts, [50, 75, 50]);
    assert_eq!(segment_all(settings(1), &stream, &[999])[..], segments[1..]);
    // This plan names a keyframe that does not exist.
    let wrong = Arc::new(Grid::Keyframes { bounds: [0, 100_000, 630_000].into() });
    let mut segmenter = Segmenter::new(SegmenterSettings { grid: wrong, ..settings(1) });
    assert_eq!(segmenter.push(&stream), Err(SegmenterError::NoKeyframe(1)));
}

#[test]
fn too_large_a_segment_is_an_error() {
    let settings = SegmenterSettings { budget_bytes: 10_000, ..encode_settings(grid(7.0), 0) };
    let mut segmenter = Segmenter::new(settings);
    assert_eq!(segmenter.push(&video_and_audio(0, 180_000, true)), Err(SegmenterError::OverBudget(0)));
}

#[test]
fn audio_that_overlaps_earlier_audio_is_dropped() {
    // REVIEW-FIELD B: a filter graph rebuilt in mid-run emitted silence starting from the run's beginning, and the muxer
    // moved each of these frames to one tick after the frame before it.
    let half = 630_000 / 2 / AAC_FRAME_TICKS * AAC_FRAME_TICKS;
    let mut stream = video_and_audio(0, half, true);
    for n in 0..300 {
        stream.extend(pes_packets(TrackKind::Audio, half - AAC_FRAME_TICKS + 1 + n, true, 60, true));
    }
    stream.extend(video_and_audio(half, 630_000, true));
    let segments = segment_all(encode_settings(grid(7.0), 0), &stream, &[1000]);
    assert_eq!(segments, segment_all(encode_settings(grid(7.0), 0), &video_and_audio(0, 630_000, true), &[1000]));
}

#[test]
fn data_added_after_planning_is_not_in_the_last_segment() {
    let grid = Arc::new(Grid::Keyframes { bounds: [0, 180_000, 450_000].into() });
    let settings = SegmenterSettings { audio: None, ..encode_settings(grid, 0) };
    let mut stream = write_tables(&[TrackKind::Video]);
    for frame in 0..1000 {
        stream.extend(pes_packets(TrackKind::Video, frame * 3600, frame % 50 == 0, 200, true));
    }
    let mut segmenter = Segmenter::new(settings);
    let segments = segmenter.push(&stream).unwrap();
    assert!(segmenter.is_done());
    let counts: Vec<_> = segments.iter().map(|piece| pes_times(&piece.bytes, VIDEO_PID).len()).collect();
    assert_eq!(counts[0], 50);
    assert!((75..=88).contains(&counts[1]), "{counts:?}");
}
