//! Damaged files: opening fails, or segments are made; never a panic, never a long wait.

use std::time::Duration;

use super::*;
use crate::domain::grid::Grid;
use crate::engine::container::bytes::ReadAt;
use crate::engine::damaged_films::{SeededRandom, damage, make_film, thread_cpu_time};
use crate::engine::source::open_in_test;

const AUDIO_INPUT: &str = "-f lavfi -i sine=r=48000:d=3";

fn sample_files() -> Vec<Vec<u8>> {
    let containers =
        ["a.mp4 -movflags +faststart", "b.mp4", "c.mp4 -movflags +frag_keyframe+empty_moov", "d.mov", "e.mkv"];
    let make = |text: &&str| {
        let (name, options) = text.split_once(' ').unwrap_or((text, ""));
        make_film(name, AUDIO_INPUT, &format!("-c:a aac {options}"))
    };
    containers.iter().map(make).collect()
}

/// The number of segments made, or the reason of the refusal.
fn count_segments(bytes: &[u8]) -> Result<usize, String> {
    let matroska = bytes.starts_with(&[0x1a, 0x45, 0xdf, 0xa3]);
    let package = if matroska {
        MuxedTracks::open_matroska(bytes, 0, Some(1), 0.0)
    } else {
        MuxedTracks::open_mp4(bytes, Some(0), Some(1), 0.0)
    };
    let package = package.map(Package::from).map_err(|refusal| refusal.reason().to_owned())?;
    let index = package.index().unwrap();
    let grid = Grid::from_keyframes(index.keyframes.get(1..).unwrap_or_default(), 0.5, index.end.as_seconds());
    let count = grid.len().min(20);
    let check_segment = |segment| {
        let lazy = package.lay_out_segment(bytes, &grid, segment).map_err(|error| error.to_string())?;
        let bytes_packed =
            lazy.read_with(|buffer, offset| Some(bytes.read_at(buffer, offset))).map_err(|_| "the file ends")?;
        assert_eq!(bytes_packed.len() as u64, lazy.size_bytes());
        Ok::<_, String>(())
    };
    (0..count).try_for_each(check_segment)?;
    Ok(count)
}

#[test]
fn damaged_files_are_refused_or_packaged_soon_and_without_panic() {
    let rounds = std::env::var("HEARTHCAST_MUTANTS").ok().and_then(|text| text.parse().ok()).unwrap_or(240);
    let (mut random, mut refused, mut slowest) = (SeededRandom(11), 0, Duration::ZERO);
    for file in sample_files() {
        assert_eq!(count_segments(&file), Ok(4));
        // Start of the tables.
        let from = file.windows(4).position(|four| four == b"moov").unwrap_or(0);
        for round in 0..rounds {
            let mut bytes = file.clone();
            let (from, to) = if round % 4 == 0 { (0, bytes.len()) } else { (from, (from + 4000).min(bytes.len())) };
            damage(&mut bytes, from, to, &mut random);
            let started = thread_cpu_time();
            refused += usize::from(count_segments(&bytes).is_err());
            slowest = slowest.max(thread_cpu_time() - started);
        }
    }
    assert!(slowest < Duration::from_secs(4), "the slowest took {slowest:?}");
    assert!(refused > rounds / 4, "too few files were refused: {refused} of {}", rounds * 5);
    println!("{refused} of {} refused, the slowest took {slowest:?}", rounds * 5);
}

#[test]
fn a_network_is_queried_only_where_waiting_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = (folder.path().join("a.mp4"), make_film("a.mp4", "", ""));
    std::fs::write(&path, &bytes).unwrap();
    let package = Package::from(MuxedTracks::open_mp4(&bytes[..], Some(0), None, 0.0).unwrap());
    let segment = package.lay_out_segment(&bytes[..], &Grid::from_keyframes(&[], 0.5, 3.0), 0).unwrap();
    let mut source = open_in_test(&path);
    source.is_local = false;
    let mut reader = Arc::new(segment).reader(Arc::new(source));
    std::fs::write(&path, "cut").unwrap();
    assert!(matches!(reader.next_cached(), Ok(None)));
    assert!(matches!(reader.next_blocking(), Err(RunError::SourceChanged)));
}
