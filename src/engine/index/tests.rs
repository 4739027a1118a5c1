//! Damaged files: the readers return, and return soon.

use std::time::{Duration, Instant};

use super::*;
use crate::engine::damaged_films::{SeededRandom, damage, make_film};

fn mkv_table(bytes: &[u8]) -> Result<CandidateTable, ContainerError> {
    let film = MatroskaFile::read(bytes)?;
    let track = film.read_track(0)?;
    mkv::candidate_table(bytes, film.layout, &track, &film.read_cues(track.number)?, RecoveryPoints::Accepted)
}

fn mp4_table(bytes: &[u8]) -> Result<CandidateTable, ContainerError> {
    mp4::candidate_table(&Mp4File::read(bytes)?.read_track(0)?, RecoveryPoints::Accepted)
}

#[test]
fn damaged_tables_are_read_soon_and_without_panic() {
    let films = [
        ("a.mp4", "-movflags +faststart", Container::Mp4),
        ("b.mp4", "-movflags +frag_keyframe+delay_moov+default_base_moof", Container::Mp4),
        ("c.mkv", "-reserve_index_space 2000", Container::Matroska),
    ];
    let mut random = SeededRandom(7);
    for (name, options, container) in films {
        let file = make_film(name, "", options);
        let index_of = |bytes: &[u8]| {
            let table = if container == Container::Mp4 { mp4_table(bytes) } else { mkv_table(bytes) };
            table.and_then(|table| keep_keyframes(bytes, Ticks::ZERO, table)).map(|(index, _)| index)
        };
        assert_eq!(index_of(&file).unwrap().keyframes.len(), 8, "{name}");
        let head = file.len().min(3000);
        for round in 0..400 {
            let mut bytes = file.clone();
            let to = if round % 4 == 0 { bytes.len() } else { head };
            damage(&mut bytes, 0, to, &mut random);
            let started = Instant::now();
            let _ = index_of(&bytes);
            assert!(started.elapsed() < Duration::from_secs(4), "{name} round {round} took {:?}", started.elapsed());
        }
    }
}

#[test]
fn a_truncated_file_ends_where_its_bytes_do() {
    let whole = make_film("a.mp4", "", "-movflags +faststart");
    let index = |bytes: &[u8]| keep_keyframes(bytes, Ticks::ZERO, mp4_table(bytes).unwrap()).unwrap().0;
    let (all, truncated) = (index(&whole), index(&whole[..whole.len() * 6 / 10]));
    assert!(truncated.end < all.end && truncated.keyframes.len() < all.keyframes.len());
    assert_eq!(truncated.keyframes[..], all.keyframes[..truncated.keyframes.len()]);
    assert!(truncated.keyframes.iter().all(|&at| at < truncated.end));
}

#[test]
fn samples_in_another_file_are_refused() {
    let mut file = make_film("a.mp4", "", "-movflags +faststart");
    let position = file.windows(4).position(|bytes| bytes == b"url ").unwrap();
    file[position + 7] = 0;
    assert!(matches!(mp4_table(&file), Err(ContainerError::Uncuttable(why)) if why.contains("another file")));
}
