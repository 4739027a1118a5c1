//! Chains written page by page.

use super::*;
use crate::engine::source::open_in_test;

/// The header packets of 48 kHz stereo.
const OPUS: &[&[u8]] = &[b"OpusHead\x01\x02\0\0\x80\xbb\0\0\0\0\0", b"OpusTags"];
/// The beginnings of the header packets of 44.1 kHz stereo.
const VORBIS: &[&[u8]] = &[b"\x01vorbis\0\0\0\0\x02\x44\xac\0\0", b"\x03vorbis", b"\x05vorbis"];

fn written(flags: u8, granule: u64, serial: u32, packets: &[&[u8]]) -> Vec<u8> {
    let mut page = [&b"OggS\0"[..], &[0; 21], &[packets.len() as u8]].concat();
    page.extend(packets.iter().map(|packet| packet.len() as u8));
    page.extend(packets.concat());
    rewrite(&mut page, flags, granule, serial, 0);
    page
}

/// A link whose audio pages have these granule positions and numbers of packets.
fn link(serial: u32, headers: &[&[u8]], audio: &[(u64, usize)]) -> Vec<u8> {
    let mut link = [written(FIRST, 0, serial, &headers[..1]), written(0, 0, serial, &headers[1..])].concat();
    for (granule, packets) in audio {
        link.extend(written(0, *granule, serial, &vec![&b"aa"[..]; *packets]));
    }
    link
}

fn open(bytes: &[u8]) -> SourceFile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain.ogg");
    std::fs::write(&path, bytes).unwrap();
    open_in_test(&path)
}

#[test]
fn leading_silence_is_played_and_the_missed_part_of_a_title_is_not() {
    let first = link(1, VORBIS, &[(8_820, 9), (17_640, 9)]);
    // An encoder puts 2 s of silence into one page with what follows it.
    let silent = [(97_020, 95), (105_840, 9)];
    // A recorder joined the stream 10 minutes after the title began.
    let joined = [(26_460_000, 9), (26_468_820, 9)];
    for (second, samples) in [(silent, 105_840), (joined, 17_640)] {
        let found = links(&open(&[&first[..], &link(2, VORBIS, &second)].concat())).unwrap();
        assert_eq!(found.pieces.len(), 2);
        assert_eq!(found.end, Ticks::from_units(17_640 + samples, 44_100));
    }
}

#[test]
fn the_length_of_many_long_links_does_not_overflow() {
    let longest: u64 = (1 << 40) - 1;
    let file: Vec<u8> = (0..120).flat_map(|serial| link(serial, OPUS, &[(longest, 1)])).collect();
    // 90,000 ticks for 48,000 samples.
    assert_eq!(links(&open(&file)).unwrap().end, Ticks(120 * 15 / 8 * longest as i64));
}

#[test]
fn headers_of_too_many_pages_are_refused() {
    let found = |empty: usize| {
        let second = [
            written(FIRST, 0, 2, &OPUS[..1]),
            written(0, 0, 2, &[]).repeat(empty),
            written(0, 0, 2, &OPUS[1..]),
            written(0, 960, 2, &[b"aa"]),
        ];
        links(&open(&[link(1, OPUS, &[(960, 1)]), second.concat()].concat()))
    };
    assert_eq!(found(1000).unwrap().pieces.len(), 2);
    assert_eq!(found(1100), None);
}

#[test]
fn of_links_that_do_not_fit_together_the_first_one_is_played() {
    let first = link(1, OPUS, &[(48_000, 50), (96_000, 50)]);
    assert_eq!(chained(&open(&first), true), None);
    let other = open(&[&first[..], &link(2, VORBIS, &[(8_820, 9)])].concat());
    assert_eq!(chained(&other, true), Some(PlayedLinks::First(2.0)));
    let same = open(&[&first[..], &link(2, OPUS, &[(48_000, 50)])].concat());
    assert!(matches!(chained(&same, true), Some(PlayedLinks::All(_))));
    assert_eq!(chained(&same, false), Some(PlayedLinks::First(2.0)));
}
