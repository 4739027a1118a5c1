//! Generated files with all kinds of clock jumps, and one that only loses data.

use std::path::Path;

use super::*;
use crate::domain::library::Root;
use crate::domain::mpegts::WRAP;
use crate::domain::mpegts::clock::source_time;
use crate::domain::mpegts::shift::shift;
use crate::domain::mpegts::tables::{Entry, Track};
use crate::domain::mpegts::write::{Unit, Writer};
use crate::domain::time::TICKS_PER_SECOND;
use crate::engine::source::Roots;

const SECOND: i64 = TICKS_PER_SECOND;

/// Video and audio from one second to another, `size` bytes per frame; frames are decoded 0.1 s before they are shown.
fn film(from: i64, to: i64, size: usize) -> Vec<u8> {
    let bytes = vec![7; size];
    let mut writer = Writer::new(Track::Video);
    for frame in from * 25..to * 25 {
        let (dts, key) = (frame * 3600, frame % 25 == 0);
        let (picture, sound) = ([&bytes[..]], [&bytes[..100]]);
        writer.put(&Unit { track: Track::Video, pts: dts + 9000, dts: Some(dts), random_access: key, parts: &picture });
        writer.put(&Unit { track: Track::Audio, pts: dts + 1000, dts: None, random_access: true, parts: &sound });
    }
    let entry = |track: Track, stream_type| Entry { pid: track.pid(), stream_type, descriptors: Vec::new() };
    writer.finish(&[entry(Track::Video, 0x1b), entry(Track::Audio, 0x0f)])
}

fn moved(mut film: Vec<u8>, by: i64) -> Vec<u8> {
    shift(&mut film, by);
    film
}

fn open(folder: &Path, bytes: &[u8]) -> Arc<Source> {
    let path = folder.join("film.ts");
    std::fs::write(&path, bytes).unwrap();
    let roots = Roots::open(vec![Root { id: "films".into(), path: folder.to_owned() }]).unwrap();
    Arc::new(roots.open_file(path.to_str().unwrap()).unwrap())
}

/// A film of 20 s with another clock after its tenth second, and its repair.
fn joined(second: impl Fn(Vec<u8>) -> Vec<u8>) -> (usize, Option<Repaired>) {
    let folder = tempfile::tempdir().unwrap();
    let first = moved(film(0, 10, 300), 5000 * SECOND);
    let second = second(moved(film(10, 20, 300), 5000 * SECOND));
    let source = open(folder.path(), &[&first[..], &second].concat());
    let found = repaired(&source).unwrap();
    assert_eq!(found.is_some(), has_jump(&source).unwrap());
    (first.len(), found)
}

#[test]
fn every_jump_is_repaired_and_nothing_else() {
    let by = |seconds: i64| joined(move |film| moved(film, seconds * SECOND));
    for seconds in [-4900, -5, 20, 1000, -50_000, 40_000] {
        let (at, found) = by(seconds);
        let found = found.unwrap_or_else(|| panic!("a jump of {seconds} s"));
        let pieces = &found.pieces;
        // The tables at the beginning of the second part may belong to either piece.
        assert!(pieces.len() == 2 && (at as u64..at as u64 + 3 * 188).contains(&pieces[1].at), "{seconds}: {found:?}");
        assert_eq!(source_time(pieces, 0, (5000 * SECOND).rem_euclid(WRAP)), 0);
        let first = ((5010 + seconds) * SECOND).rem_euclid(WRAP);
        assert_eq!(source_time(pieces, pieces[1].at, first), 10 * SECOND, "{seconds} s");
        assert_eq!(found.end, 20 * SECOND + 9000, "{seconds} s");
    }
    // 5 s are lost; the 33 bits wrap.
    assert_eq!(by(5).1, None);
    let folder = tempfile::tempdir().unwrap();
    let source = open(folder.path(), &moved(film(0, 10, 300), WRAP - 5 * SECOND));
    assert_eq!(repaired(&source).unwrap(), None);
}

#[test]
fn a_stream_that_says_so_has_another_clock_after_a_second_too() {
    let (_, found) = joined(|film| {
        let mut film = moved(film, SECOND);
        let clock =
            film.as_chunks_mut::<LEN>().0.iter_mut().find(|packet| packet[3] & 0x20 != 0 && packet[5] & 0x10 != 0);
        clock.unwrap()[5] |= 0x80;
        film
    });
    assert_eq!(found.unwrap().end, 20 * SECOND + 9000);
}

#[test]
fn one_damaged_time_is_no_jump_and_a_cut_packet_no_obstacle() {
    let (_, found) = joined(|mut film| {
        // One frame in the middle of the film.
        let packets = film.as_chunks_mut::<LEN>().0;
        let mut pictures = packets.iter_mut().filter(|packet| {
            Packet::new(packet).is_some_and(|packet| packet.pid() == Track::Video.pid() && packet.starts_unit())
        });
        crate::domain::mpegts::shift::shift_packet(pictures.nth(100).unwrap(), 3000 * SECOND);
        film
    });
    assert_eq!(found, None);
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = film(0, 10, 300);
    bytes.truncate(bytes.len() - 100);
    let at = bytes.len();
    bytes.extend(film(0, 10, 300));
    let found = repaired(&open(folder.path(), &bytes)).unwrap().unwrap();
    assert!((at as u64..at as u64 + 3 * 188).contains(&found.pieces[1].at), "{found:?}");
    assert_eq!(found.end, 20 * SECOND + 9000);
}

#[test]
fn jumps_of_a_large_file_are_found_without_reading_it_whole() {
    let folder = tempfile::tempdir().unwrap();
    // 2.5 MB per second: 50 MB.
    let first = film(0, 9, 100_000);
    let source = open(folder.path(), &[&first[..], &moved(film(9, 20, 100_000), -7 * SECOND)].concat());
    assert!(source.len > jumps::WHOLE);
    let found = repaired(&source).unwrap().unwrap();
    assert_eq!((found.pieces.len(), found.end), (2, 20 * SECOND + 9000), "{found:?}");
    assert!((first.len() as u64..first.len() as u64 + 3 * 188).contains(&found.pieces[1].at));
}

#[tokio::test]
async fn a_feed_begins_where_it_is_asked_to_with_tables_and_one_clock() {
    use std::io::Read;
    let folder = tempfile::tempdir().unwrap();
    let source = open(folder.path(), &[film(0, 10, 3000), moved(film(10, 20, 3000), -9 * SECOND)].concat());
    let found = repaired(&source).unwrap().unwrap();
    for from in [0.0, 7.5, 10.02, 19.0] {
        let feed = Feed::open(&source, &found.pieces, from).await.unwrap();
        let offset = feed.offset_seconds;
        let reader = feed.reader.clone();
        drop(feed);
        let reading = tokio::task::spawn_blocking(move || {
            let mut bytes = Vec::new();
            (&*reader).read_to_end(&mut bytes).unwrap();
            bytes
        });
        let bytes = reading.await.unwrap();
        assert!(bytes.len().is_multiple_of(LEN) && Packet::new(bytes.first_chunk().unwrap()).unwrap().pid() == 0);
        let lane = Lane::of(&open(tempfile::tempdir().unwrap().path(), &bytes)).unwrap().unwrap();
        let marks = lane.marks(0, bytes.len() as u64).unwrap();
        let times: Vec<i64> = marks.iter().map(|mark| mark.dts + offset * SECOND).collect();
        assert!(
            (0..=(0.041 * SECOND as f64) as i64).contains(&((from * SECOND as f64) as i64 - times[0])),
            "{from}: {times:?}"
        );
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 3600), "{from}");
        assert_eq!(times.last(), Some(&(20 * SECOND - 3600)));
    }
}
