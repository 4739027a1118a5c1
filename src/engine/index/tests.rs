//! Damaged files: the readers return, and return soon.

use std::time::Duration;

use super::*;
use crate::engine::damaged_films::{SeededRandom, damage, make_film, thread_cpu_time};

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
            let started = thread_cpu_time();
            let _ = index_of(&bytes);
            let spent = thread_cpu_time() - started;
            assert!(spent < Duration::from_secs(4), "{name} round {round} took {spent:?}");
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

/// Moves all sync samples of a film but the first to a sample group. Its `moov` is at the end of the file.
fn move_sync_samples_to_group(file: &[u8]) -> Vec<u8> {
    let find = |kind: &[u8; 4], before: usize| file[..before].windows(4).rposition(|bytes| bytes == kind).unwrap() - 4;
    let number = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap());
    let at = find(b"stss", file.len());
    let end = at + number(at) as usize;
    let samples: Vec<u32> = (at + 16..end).step_by(4).map(number).collect();
    let runs = samples.windows(2).flat_map(|pair| [pair[1] - pair[0] - 1, 0, 1, 1]);
    // The first sample is in no group.
    let group: Vec<u32> = [1, 0].into_iter().chain(runs).collect();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let stss = [&words(&[20])[..], b"stss", &words(&[0, 1, 1])].concat();
    let size = 20 + group.len() as u32 * 4;
    let sbgp = [&words(&[size])[..], b"sbgp", &words(&[0]), b"rap ", &words(&[group.len() as u32 / 2]), &words(&group)]
        .concat();
    let mut changed = [&file[..at], &stss, &sbgp, &file[end..]].concat();
    for kind in [b"stbl", b"minf", b"mdia", b"trak", b"moov"] {
        let parent = find(kind, at);
        let size = number(parent) + changed.len() as u32 - file.len() as u32;
        changed[parent..parent + 4].copy_from_slice(&size.to_be_bytes());
    }
    changed
}

#[test]
fn recovery_points_in_sample_groups_are_keyframes() {
    let file = make_film("a.mp4", "", "-x264-params open-gop=1:scenecut=0");
    let index = |table| keep_keyframes(&file[..], Ticks::ZERO, table).unwrap().0;
    let expected = index(mp4_table(&file).unwrap());
    assert!(expected.keyframes.len() == 8 && !expected.has_closed_groups, "{expected:?}");
    let grouped = move_sync_samples_to_group(&file);
    let table = mp4_table(&grouped).unwrap();
    assert_eq!(index(table.clone()), expected);
    // Others are not.
    let other = grouped.windows(4).rposition(|bytes| bytes == b"rap ").unwrap();
    let others = [&grouped[..other], b"tsas", &grouped[other + 4..]].concat();
    assert_eq!(index(mp4_table(&others).unwrap()).keyframes.len(), 1);
    let track = Mp4File::read(&grouped[..]).unwrap().read_track(0).unwrap();
    let refused = mp4::candidate_table(&track, RecoveryPoints::Refused).unwrap();
    assert_eq!(refused.candidates.len(), 1, "not in MPEG-TS");
    assert_eq!(table.candidates.len(), 8);
}
