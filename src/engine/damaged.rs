//! Films made by ffmpeg, and damaged on purpose: for the tests of the readers.

use std::process::Command;

/// A small film made by ffmpeg, as bytes; `sound` as an input, `more` as options of the output.
pub fn film(name: &str, sound: &str, more: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x48:r=25:d=3"]);
    command.args(sound.split_whitespace());
    command.args(["-c:v", "libx264", "-preset", "ultrafast", "-g", "10", "-bf", "2"]);
    let status = command.args(more.split_whitespace()).arg(&path).status().unwrap();
    assert!(status.success());
    std::fs::read(path).unwrap()
}

/// A fixed sequence of numbers, so that a failure repeats.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }
}

/// Changes bytes, writes extremes, moves runs, cuts the end off.
pub fn damage(bytes: &mut Vec<u8>, from: usize, to: usize, dice: &mut Dice) {
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
