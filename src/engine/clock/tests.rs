//! Generated files with all kinds of clock jumps, and one that only loses data.

use super::*;
use crate::domain::media::{Audio, Container, Media, Stream, StreamKind, Video};
use crate::domain::mpegts::PMT_PID;
use crate::domain::mpegts::clock_jumps::{ClockSection, source_time};
use crate::domain::mpegts::psi::{PmtEntry, ProgramEntry, TrackKind, pat_of};
use crate::domain::mpegts::timestamp_shift::shift_segment;
use crate::domain::mpegts::ts_writer::{AccessUnit, TsWriter};
use crate::domain::time::Ticks;
use crate::engine::source::open_in_test;

const SECOND: Ticks = Ticks::from_ms(1000);
/// End of a film of 20 s: its last frame is shown 0.1 s after it is decoded.
const END: Ticks = Ticks::from_ms(20_100);

/// Video and audio from one second to another, `size` bytes per frame; frames are decoded 0.1 s before they are shown.
fn make_film(from: i64, to: i64, size: usize) -> Vec<u8> {
    let bytes = vec![7; size];
    let mut writer = TsWriter::new(TrackKind::Video);
    for frame in from * 25..to * 25 {
        let (dts, is_keyframe) = (Ticks(frame * 3600), frame % 25 == 0);
        let mut push = |track, pts, dts, random_access, len: usize| {
            writer.push_unit(&AccessUnit { track, pts, dts, random_access, parts: &[&bytes[..len]] })
        };
        push(TrackKind::Video, dts + Ticks(9000), Some(dts), is_keyframe, size);
        push(TrackKind::Audio, dts + Ticks(1000), None, true, 100);
    }
    let pmt_entry = |track: TrackKind, stream_type| PmtEntry { pid: track.pid(), stream_type, descriptors: Vec::new() };
    writer.into_segment(&[pmt_entry(TrackKind::Video, 0x1b), pmt_entry(TrackKind::Audio, 0x0f)])
}

/// The same stream with all PIDs except that of the PAT increased by `by`.
fn with_pids_shifted(mut film: Vec<u8>, by: u16) -> Vec<u8> {
    for packet in film.as_chunks_mut::<PACKET_LEN>().0 {
        let (pid, counter) = (Packet::new(packet).unwrap().pid(), packet[3]);
        let payload = Packet::new(packet).unwrap().payload();
        // A packet that only closes the continuity counter holds no table.
        if pid == 0 && psi::parse_pat(payload).is_some() {
            *packet = pat_of(&[ProgramEntry { number: 1 + by, pmt_pid: PMT_PID + by }]);
        } else if pid != 0 {
            if let Some(entries) = psi::parse_pmt(payload).filter(|_| pid == PMT_PID) {
                let entries = entries.into_iter().map(|entry| PmtEntry { pid: entry.pid + by, ..entry });
                *packet = psi::build_pmt(&entries.collect::<Vec<_>>());
            }
            packet[1] = packet[1] & 0xe0 | ((pid + by) >> 8) as u8;
            packet[2] = (pid + by) as u8;
        }
        packet[3] = counter;
    }
    film
}

/// Two films in one stream, packet by packet. Every PAT lists the programs of both, as in a real multiplex.
fn interleave(one: &[u8], other: &[u8]) -> Vec<u8> {
    let listed = |packet: &[u8; PACKET_LEN]| psi::parse_programs(Packet::new(packet)?.payload());
    let first = |film: &[u8]| listed(film.first_chunk().unwrap()).unwrap();
    let combined_pat = pat_of(&[first(one), first(other)].concat());
    let pair = one.as_chunks::<PACKET_LEN>().0.iter().zip(other.as_chunks::<PACKET_LEN>().0);
    let mut packets: Vec<[u8; PACKET_LEN]> = pair.flat_map(|(one, other)| [*one, *other]).collect();
    for packet in &mut packets {
        let (pid, counter) = (Packet::new(packet).unwrap().pid(), packet[3]);
        if pid == 0 && listed(packet).is_some() {
            *packet = combined_pat;
            packet[3] = counter;
        }
    }
    packets.concat()
}

fn with_clock_shifted(mut film: Vec<u8>, by: Ticks) -> Vec<u8> {
    shift_segment(&mut film, by);
    film
}

/// Opens a file with these bytes, which is gone once it is closed.
fn open_film(bytes: &[u8]) -> Arc<SourceFile> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.ts");
    std::fs::write(&path, bytes).unwrap();
    Arc::new(open_in_test(&path))
}

/// Number of pieces, end, and whether a part is not played.
fn outcome(repair: &ClockRepair) -> (usize, Ticks, bool) {
    (repair.pieces.len(), repair.end, repair.has_unplayed_part)
}

/// A film of 20 s with another clock after its tenth second, and its repair.
fn repair_joined(second: impl Fn(Vec<u8>) -> Vec<u8>) -> (usize, Option<ClockRepair>) {
    let first = with_clock_shifted(make_film(0, 10, 300), SECOND * 5000);
    let second = second(with_clock_shifted(make_film(10, 20, 300), SECOND * 5000));
    let source = open_film(&[&first[..], &second].concat());
    let repair = find_clock_repair(&source).unwrap();
    assert_eq!(repair.is_some(), has_clock_jump(&source).unwrap());
    (first.len(), repair)
}

#[test]
fn every_jump_is_repaired_and_nothing_else() {
    let repair_of_jump = |seconds: i64| repair_joined(move |film| with_clock_shifted(film, SECOND * seconds));
    for seconds in [-4900, -5, 20, 1000, -50_000, 40_000] {
        let (boundary, repair) = repair_of_jump(seconds);
        let repair = repair.unwrap_or_else(|| panic!("a jump of {seconds} s"));
        let pieces = &repair.pieces;
        // The tables at the beginning of the second part may belong to either piece.
        assert!(
            pieces.len() == 2 && (boundary as u64..boundary as u64 + 3 * 188).contains(&pieces[1].start_byte),
            "{seconds}: {repair:?}"
        );
        assert_eq!(source_time(pieces, 0, (SECOND * 5000).wrapped()), Ticks::ZERO);
        let first = (SECOND * (5010 + seconds)).wrapped();
        assert_eq!(source_time(pieces, pieces[1].start_byte, first), SECOND * 10, "{seconds} s");
        assert_eq!(repair.end, END, "{seconds} s");
    }
    // 5 s are lost; the 33 bits wrap.
    assert_eq!(repair_of_jump(5).1, None);
    let source = open_film(&with_clock_shifted(make_film(0, 10, 300), Ticks::WRAP - SECOND * 5));
    assert_eq!(find_clock_repair(&source).unwrap(), None);
}

#[test]
fn a_file_with_too_many_jumps_is_not_repaired() {
    let part = |n: i64| with_clock_shifted(make_film(n, n + 1, 300), SECOND * (n % 2 * 100));
    let source = open_film(&(0..520).flat_map(part).collect::<Vec<u8>>());
    assert!(has_clock_jump(&source).unwrap());
    assert_eq!(find_clock_repair(&source).unwrap(), None);
}

#[test]
fn a_discontinuity_flag_makes_a_jump_of_one_second() {
    let (_, repair) = repair_joined(|film| {
        let mut film = with_clock_shifted(film, SECOND);
        let mut packets = film.as_chunks_mut::<PACKET_LEN>().0.iter_mut();
        let pcr_packet = packets.find(|packet| packet[3] & 0x20 != 0 && packet[5] & 0x10 != 0);
        pcr_packet.unwrap()[5] |= 0x80;
        film
    });
    assert_eq!(repair.unwrap().end, END);
}

#[test]
fn a_damaged_timestamp_is_no_jump_and_a_truncated_packet_is_skipped() {
    let (_, repair) = repair_joined(|mut film| {
        // One frame in the middle of the film.
        let packets = film.as_chunks_mut::<PACKET_LEN>().0;
        let mut frames = packets.iter_mut().filter(|packet| {
            Packet::new(packet).is_some_and(|packet| packet.pid() == TrackKind::Video.pid() && packet.starts_unit())
        });
        crate::domain::mpegts::timestamp_shift::shift_packet(frames.nth(100).unwrap(), SECOND * 3000);
        film
    });
    assert_eq!(repair, None);
    let mut bytes = make_film(0, 10, 300);
    bytes.truncate(bytes.len() - 100);
    let boundary = bytes.len();
    bytes.extend(make_film(0, 10, 300));
    let repair = find_clock_repair(&open_film(&bytes)).unwrap().unwrap();
    assert!((boundary as u64..boundary as u64 + 3 * 188).contains(&repair.pieces[1].start_byte), "{repair:?}");
    assert_eq!(repair.end, END);
}

/// Bytes that a feed writes, and its offset in seconds.
async fn read_feed(source: &Arc<SourceFile>, pieces: &[ClockSection], from: f64) -> (Vec<u8>, i64) {
    use std::io::Read;
    let feed = RepairedFeed::open(source, pieces, from).await.unwrap();
    let (offset, reader) = (feed.offset_seconds, feed.reader.clone());
    drop(feed);
    let task = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        (&*reader).read_to_end(&mut bytes).unwrap();
        bytes
    });
    (task.await.unwrap(), offset)
}

/// Decode times of the packets with this PID, in source time, and all PIDs present.
fn decode_times((bytes, offset): (Vec<u8>, i64), pid: u16) -> (Vec<Ticks>, Vec<u16>) {
    let (mut times, mut pids) = (Vec::new(), std::collections::BTreeSet::new());
    for packet in bytes.as_chunks::<PACKET_LEN>().0.iter().map(|bytes| Packet::new(bytes).unwrap()) {
        pids.insert(packet.pid());
        if packet.pid() == pid && packet.starts_unit() {
            times.push(pes::parse(packet.payload()).unwrap().dts.unwrap() + SECOND * offset);
        }
    }
    (times, pids.into_iter().collect())
}

#[tokio::test]
async fn a_part_with_other_pids_plays_under_the_first_ones() {
    for (jump, is_large) in [(0, false), (-4900, false), (0, true)] {
        let size = if is_large { 70_000 } else { 3000 };
        let first = with_clock_shifted(make_film(0, 10, size), SECOND * 5000);
        let second = with_pids_shifted(with_clock_shifted(make_film(10, 20, size), SECOND * (5000 + jump)), 0x100);
        let source = open_film(&[&first[..], &second].concat());
        assert_eq!(source.len > jumps::MAX_FULL_SCAN_BYTES, is_large);
        assert!(has_clock_jump(&source).unwrap());
        let repair = find_clock_repair(&source).unwrap().unwrap();
        assert_eq!(outcome(&repair), (2, END, false), "{jump}: {repair:?}");
        for from in [0.0, 9.0, 15.0] {
            let (times, pids) = decode_times(read_feed(&source, &repair.pieces, from).await, TrackKind::Video.pid());
            assert_eq!(pids, [0, PMT_PID, TrackKind::Video.pid(), TrackKind::Audio.pid()], "{jump} {from}");
            let early = Ticks::from_seconds(from) - times[0];
            assert!((Ticks::ZERO..=Ticks(3600)).contains(&early), "{jump} {from}: {early:?}");
            assert!(times.windows(2).all(|pair| pair[1] - pair[0] == Ticks(3600)), "{jump} {from}");
            assert_eq!(times.last(), Some(&(SECOND * 20 - Ticks(3600))), "{jump} {from}");
        }
    }
}

#[tokio::test]
async fn a_part_may_begin_before_its_tables() {
    for by in [0, -4900] {
        let first = with_clock_shifted(make_film(0, 10, 3000), SECOND * 5000);
        let second = with_pids_shifted(with_clock_shifted(make_film(10, 20, 3000), SECOND * (5000 + by)), 0x100);
        let (tables, frames) = second.split_at(2 * PACKET_LEN);
        assert_eq!(Packet::new(tables.last_chunk().unwrap()).unwrap().pid(), PMT_PID + 0x100);
        let (begin, rest) = frames.split_at(200 * PACKET_LEN);
        let source = open_film(&[&first[..], begin, tables, rest].concat());
        let repair = find_clock_repair(&source).unwrap().unwrap();
        assert_eq!(outcome(&repair), (2, END, false), "{by}: {repair:?}");
        let (times, _) = decode_times(read_feed(&source, &repair.pieces, 15.0).await, TrackKind::Video.pid());
        assert_eq!(times.last(), Some(&(SECOND * 20 - Ticks(3600))), "{by}");
    }
}

#[test]
fn many_packets_on_the_pid_of_the_pmt_are_not_kept() {
    let film = make_film(0, 1, 300);
    let is_pmt =
        |bytes: &[u8; PACKET_LEN]| Packet::new(bytes).is_some_and(|it| it.pid() == PMT_PID && it.starts_unit());
    let at = film.as_chunks::<PACKET_LEN>().0.iter().position(is_pmt).unwrap() * PACKET_LEN;
    let mut more = [0xff; PACKET_LEN];
    more[..4].copy_from_slice(&[SYNC_BYTE, (PMT_PID >> 8) as u8, PMT_PID as u8, 0x10]);
    let tables = |first: &[u8]| {
        let bytes = [&film[..at], first, &more.repeat(1000)[..], &film[at + PACKET_LEN..]].concat();
        ClockStream::find_in(&open_film(&bytes)).unwrap().unwrap().table_packets.len() / PACKET_LEN
    };
    let complete = &film[at..at + PACKET_LEN];
    assert_eq!(tables(complete), 2);
    // The section never ends.
    let mut endless = complete.to_vec();
    endless[6..8].copy_from_slice(&[0xbf, 0xff]);
    assert_eq!(tables(&endless), 1 + PMT_PACKETS);
}

#[test]
fn a_part_with_another_video_codec_is_not_played() {
    let mut second = with_pids_shifted(make_film(10, 20, 3000), 0x100);
    for packet in second.as_chunks_mut::<PACKET_LEN>().0 {
        if Packet::new(packet).unwrap().pid() == PMT_PID + 0x100 {
            let entry = PmtEntry { pid: TrackKind::Video.pid() + 0x100, stream_type: 0x24, descriptors: Vec::new() };
            let head = [packet[1], packet[2], packet[3]];
            *packet = psi::build_pmt(&[entry]);
            packet[1..4].copy_from_slice(&head);
        }
    }
    let source = open_film(&[make_film(0, 10, 3000), second].concat());
    let repair = find_clock_repair(&source).unwrap().unwrap();
    assert_eq!(outcome(&repair), (1, Ticks::from_ms(10_100), true), "{repair:?}");
}

#[tokio::test]
async fn of_several_programs_one_is_read_on_its_own_clock() {
    let other = |from, to| with_pids_shifted(with_clock_shifted(make_film(from, to, 3000), SECOND * 700), 0x100);
    let parts = [
        interleave(&make_film(0, 10, 3000), &other(0, 10)),
        interleave(&with_clock_shifted(make_film(10, 20, 3000), -SECOND * 7000), &other(10, 20)),
    ];
    let source = open_film(&parts.concat());
    let repair = find_clock_repair(&source).unwrap().unwrap();
    assert_eq!((repair.pieces.len(), repair.end, repair.programs), (2, END, (2, 1)), "{repair:?}");
    for from in [0.0, 15.0] {
        let (times, pids) = decode_times(read_feed(&source, &repair.pieces, from).await, TrackKind::Video.pid());
        assert_eq!(pids, [0, PMT_PID, TrackKind::Video.pid(), TrackKind::Audio.pid()]);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == Ticks(3600)), "{from}");
        assert_eq!(times.last(), Some(&(SECOND * 20 - Ticks(3600))));
    }
    // One clock: ffmpeg reads it as it is.
    let single_clock = open_film(&interleave(&make_film(0, 10, 3000), &other(0, 10)));
    assert_eq!(find_clock_repair(&single_clock).unwrap(), None);
}

#[test]
fn jumps_of_a_large_file_are_found_without_reading_it_whole() {
    // 2.5 MB per second: 50 MB.
    let first = make_film(0, 9, 100_000);
    let source = open_film(&[&first[..], &with_clock_shifted(make_film(9, 20, 100_000), -SECOND * 7)].concat());
    assert!(source.len > jumps::MAX_FULL_SCAN_BYTES);
    let repair = find_clock_repair(&source).unwrap().unwrap();
    assert_eq!((repair.pieces.len(), repair.end), (2, END), "{repair:?}");
    assert!((first.len() as u64..first.len() as u64 + 3 * 188).contains(&repair.pieces[1].start_byte));
}

#[test]
fn frames_larger_than_a_sample_hide_neither_a_jump_nor_a_position() {
    let parts = [
        with_clock_shifted(make_film(0, 1, 900_000), SECOND * 100),
        with_clock_shifted(make_film(1, 2, 900_000), SECOND * 50),
    ];
    let source = open_film(&parts.concat());
    assert!(source.len > jumps::MAX_FULL_SCAN_BYTES);
    let found = find_clock_repair(&source).unwrap().unwrap();
    assert_eq!((found.pieces.len(), found.end), (2, Ticks::from_ms(2100)), "{found:?}");
    let stream = ClockStream::find_in(&source).unwrap().unwrap();
    for mark in stream.read_marks(0, source.len).unwrap().iter().step_by(7) {
        let from = source_time(&found.pieces, mark.offset, mark.dts);
        assert_eq!(stream.find_offset(&found.pieces, from).unwrap(), mark.offset, "{from:?}");
    }
}

#[tokio::test]
async fn a_feed_begins_at_the_requested_time_with_tables_and_one_clock() {
    let source =
        open_film(&[make_film(0, 10, 3000), with_clock_shifted(make_film(10, 20, 3000), -SECOND * 9)].concat());
    let found = find_clock_repair(&source).unwrap().unwrap();
    for from in [0.0, 7.5, 10.02, 19.0] {
        let (bytes, offset) = read_feed(&source, &found.pieces, from).await;
        assert!(
            bytes.len().is_multiple_of(PACKET_LEN) && Packet::new(bytes.first_chunk().unwrap()).unwrap().pid() == 0
        );
        let stream = ClockStream::find_in(&open_film(&bytes)).unwrap().unwrap();
        let marks = stream.read_marks(0, bytes.len() as u64).unwrap();
        let times: Vec<Ticks> = marks.iter().map(|mark| mark.dts + SECOND * offset).collect();
        let early = Ticks::from_seconds(from) - times[0];
        assert!((Ticks::ZERO..=Ticks::from_ms(41)).contains(&early), "{from}: {times:?}");
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == Ticks(3600)), "{from}");
        assert_eq!(times.last(), Some(&(SECOND * 20 - Ticks(3600))));
    }
}

/// The payloads of a stream (0 is video, 1 audio) from a time on.
fn read_payloads(source: &Arc<SourceFile>, media: &Media, index: u32, start: Ticks) -> Vec<PesPayload> {
    let mut stream = ElementaryStream::open(source, media, index, start).unwrap();
    std::iter::from_fn(|| stream.next_payload().unwrap()).collect()
}

#[test]
fn one_stream_is_read_in_source_time_from_a_keyframe_on() {
    let video = StreamKind::Video(Video::new(64, 36));
    let streams = vec![
        Stream::new(0, "h264", video),
        Stream::new(1, "aac", StreamKind::Audio(Audio::new(2, 48_000))),
        Stream::new(2, "aac", StreamKind::Audio(Audio::new(2, 48_000))),
    ];
    let mut media = Media { start_seconds: 5000.0, ..Media::new(Container::MpegTs, streams) };
    let first = with_clock_shifted(make_film(0, 10, 3000), SECOND * 5000);
    // The second part has another clock and other PIDs.
    let second = with_pids_shifted(with_clock_shifted(make_film(10, 20, 3000), SECOND * 70), 0x100);
    let (plain, joined) = (open_film(&first), open_film(&[first, second].concat()));
    let missing = ElementaryStream::open(&plain, &media, 1, Ticks::ZERO);
    assert!(missing.is_err(), "the map lists one audio stream less than the probe");
    media.streams.pop();
    // Its timestamps wrap after 5 s.
    let wrapping = open_film(&with_clock_shifted(make_film(0, 10, 3000), Ticks::WRAP - SECOND * 5));
    let repaired = |media: &Media| {
        let clock_pieces = find_clock_repair(&joined).unwrap().unwrap().pieces;
        Media { start_seconds: 0.0, clock_pieces, ..media.clone() }
    };
    let near_wrap = Media { start_seconds: -5.0, ..media.clone() };
    let last = |end: i64| SECOND * end - Ticks(3600) + Ticks(9000);
    for (source, media, end) in [(&plain, &media, 10), (&wrapping, &near_wrap, 10), (&joined, &repaired(&media), 20)] {
        // Frames are shown 0.1 s after they are decoded; each second begins with a keyframe.
        for (start_ms, keyframe_ms) in [(-500, 100), (0, 100), (7500, 7100), (7050, 6100), (9990, 9100)] {
            let payloads = read_payloads(source, media, 0, Ticks::from_ms(start_ms));
            let times: Vec<Ticks> = payloads.iter().map(|payload| payload.pts.unwrap()).collect();
            assert_eq!(times[0], Ticks::from_ms(keyframe_ms), "from {start_ms} ms");
            assert!(times.windows(2).all(|pair| pair[1] - pair[0] == Ticks(3600)), "from {start_ms} ms: {times:?}");
            assert_eq!(times.last(), Some(&last(end)), "from {start_ms} ms");
            assert!(payloads.iter().all(|payload| payload.bytes == [7; 3000]));
            assert!(payloads.iter().all(|payload| payload.pts.unwrap() - payload.dts.unwrap() == Ticks(9000)));
        }
        let audio = read_payloads(source, media, 1, Ticks::from_ms(7500));
        let start = audio[0].pts.unwrap();
        assert!((Ticks::from_ms(6500)..Ticks::from_ms(6550)).contains(&start), "{start:?}");
        assert!(audio.windows(2).all(|pair| pair[1].pts.unwrap() - pair[0].pts.unwrap() == Ticks(3600)));
        assert!(audio.iter().all(|payload| payload.bytes == [7; 100]));
    }
    let from_second_part = read_payloads(&joined, &repaired(&media), 0, SECOND * 15);
    assert_eq!(from_second_part[0].pts, Some(Ticks::from_ms(14_100)));
}
