//! Damaged files: the readers return, and return soon.

use std::time::{Duration, Instant};

use super::*;
use crate::engine::damaged_films::{SeededRandom, damage, make_film};

fn mkv(bytes: &[u8]) -> Result<Table, Refusal> {
    let film = Film::read(bytes)?;
    let track = film.track(0)?;
    mkv::table(bytes, film.layout, &track, &film.cues(track.number)?)
}

fn mp4(bytes: &[u8]) -> Result<Table, Refusal> {
    mp4::table(&Movie::read(bytes)?.track(0)?)
}

#[test]
fn damaged_tables_are_answered_soon_and_without_panic() {
    let films = [
        ("a.mp4", "-movflags +faststart", Container::Mp4),
        ("b.mp4", "-movflags +frag_keyframe+delay_moov+default_base_moof", Container::Mp4),
        ("c.mkv", "-reserve_index_space 2000", Container::Matroska),
    ];
    let mut dice = SeededRandom(7);
    for (name, more, container) in films {
        let sound = make_film(name, "", more);
        let read = |bytes: &[u8]| {
            let table = if container == Container::Mp4 { mp4(bytes) } else { mkv(bytes) };
            table.and_then(|table| from_table(bytes, 0, table)).map(|(index, _)| index)
        };
        assert_eq!(read(&sound).unwrap().keyframes.len(), 8, "{name}");
        let head = sound.len().min(3000);
        for round in 0..400 {
            let mut bytes = sound.clone();
            let to = if round % 4 == 0 { bytes.len() } else { head };
            damage(&mut bytes, 0, to, &mut dice);
            let began = Instant::now();
            let _ = read(&bytes);
            assert!(began.elapsed() < Duration::from_secs(4), "{name} round {round} took {:?}", began.elapsed());
        }
    }
}

#[test]
fn a_file_cut_short_ends_where_its_bytes_do() {
    let whole = make_film("a.mp4", "", "-movflags +faststart");
    let index = |bytes: &[u8]| from_table(bytes, 0, mp4(bytes).unwrap()).unwrap().0;
    let (all, cut) = (index(&whole), index(&whole[..whole.len() * 6 / 10]));
    assert!(cut.end < all.end && cut.keyframes.len() < all.keyframes.len());
    assert_eq!(cut.keyframes[..], all.keyframes[..cut.keyframes.len()]);
    assert!(cut.keyframes.iter().all(|&at| at < cut.end));
}

#[test]
fn pictures_in_another_file_are_refused() {
    let mut film = make_film("a.mp4", "", "-movflags +faststart");
    let at = film.windows(4).position(|four| four == b"url ").unwrap();
    film[at + 7] = 0;
    assert!(matches!(mp4(&film), Err(Refusal::Final(why)) if why.contains("another file")));
}
