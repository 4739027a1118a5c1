//! Damaged files: the readers answer, and answer soon.

use std::process::Command;
use std::time::{Duration, Instant};

use super::*;

/// A small film made by ffmpeg, as bytes.
fn film(name: &str, more: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x48:r=25:d=3"]);
    command.args(["-c:v", "libx264", "-preset", "ultrafast", "-g", "10", "-bf", "2"]);
    let status = command.args(more.split_whitespace()).arg(&path).status().unwrap();
    assert!(status.success());
    std::fs::read(path).unwrap()
}

/// A fixed sequence of numbers, so that a failure repeats.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }
}

/// Changes bytes, writes extremes, moves runs, cuts the end off.
fn damage(bytes: &mut Vec<u8>, from: usize, to: usize, dice: &mut Dice) {
    for _ in 0..1 + dice.roll(4) {
        let at = from + dice.roll(to - from);
        match dice.roll(5) {
            0 => bytes[at] = dice.roll(256) as u8,
            1 | 2 => {
                let extremes = [0u32, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0xffff_fffe, 0x0100_0000];
                let value = extremes[dice.roll(extremes.len())].to_be_bytes();
                let end = (at + 4).min(bytes.len());
                bytes[at..end].copy_from_slice(&value[..end - at]);
            }
            3 => {
                let count = dice.roll(64).min(bytes.len() - at);
                let to = dice.roll(bytes.len() - count);
                bytes.copy_within(at..at + count, to);
            }
            _ if dice.roll(10) == 0 => bytes.truncate(at.max(from + 1)),
            _ => {}
        }
        if bytes.len() <= to {
            return;
        }
    }
}

#[test]
fn damaged_tables_are_answered_soon_and_without_panic() {
    let films = [
        ("a.mp4", "-movflags +faststart", Container::Mp4),
        ("b.mp4", "-movflags +frag_keyframe+delay_moov+default_base_moof", Container::Mp4),
        ("c.mkv", "-reserve_index_space 2000", Container::Matroska),
    ];
    let mut dice = Dice(7);
    for (name, more, container) in films {
        let sound = film(name, more);
        let read = |bytes: &[u8]| {
            let table = if container == Container::Mp4 { mp4::table(bytes, 0) } else { mkv::table(bytes, 0) };
            table.and_then(|table| from_table(bytes, 0, table))
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
    let whole = film("a.mp4", "-movflags +faststart");
    let index = |bytes: &[u8]| from_table(bytes, 0, mp4::table(bytes, 0).unwrap()).unwrap();
    let (all, cut) = (index(&whole), index(&whole[..whole.len() * 6 / 10]));
    assert!(cut.end < all.end && cut.keyframes.len() < all.keyframes.len());
    assert_eq!(cut.keyframes[..], all.keyframes[..cut.keyframes.len()]);
    assert!(cut.keyframes.iter().all(|&at| at < cut.end));
}

#[test]
fn pictures_in_another_file_are_refused() {
    let mut film = film("a.mp4", "-movflags +faststart");
    let at = film.windows(4).position(|four| four == b"url ").unwrap();
    film[at + 7] = 0;
    assert!(matches!(mp4::table(&film[..], 0), Err(Refusal::Final(why)) if why.contains("another file")));
}
