//! Damage to the files of a killed server.

use std::fs;
use std::path::Path;

/// One kind of damage.
#[derive(Clone, Copy, Debug)]
pub(super) enum Damage {
    None,
    Index,
    Tail,
    Journal,
    NoIndex,
    JournalCut,
}

pub(super) const DAMAGES: [Damage; 6] =
    [Damage::None, Damage::Index, Damage::Tail, Damage::Journal, Damage::NoIndex, Damage::JournalCut];

pub(super) fn damage_files(state: &Path, damage: Damage, seed: u64) {
    match damage {
        Damage::None => {}
        Damage::Index => flip_bytes(&state.join("db"), seed, 8),
        Damage::Tail => flip_bytes(&state.join("journal.tail"), seed, 2),
        Damage::Journal => flip_bytes(&state.join("journal"), seed, 2),
        Damage::NoIndex => fs::remove_dir_all(state.join("db")).expect("there is an index"),
        Damage::JournalCut => {
            let file = fs::File::options().write(true).open(state.join("journal")).expect("there is a journal");
            let len = file.metadata().expect("it has a length").len();
            file.set_len(len.saturating_sub(seed * 7919 % 4096)).expect("it can be cut");
        }
    }
}

/// Flips `count` bytes of a file, or of every file in a folder; the last one near the end of the data.
fn flip_bytes(path: &Path, seed: u64, count: u64) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder") {
            flip_bytes(&entry.expect("an entry").path(), seed, count);
        }
        return;
    }
    let mut bytes = fs::read(path).expect("a file");
    // sled preallocates space: the data lies at the beginning.
    let data_length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
    for k in 0..count {
        if data_length > 0 {
            let step = seed * 7919 + k * 104_729;
            let position =
                if k + 1 == count { data_length - 1 - step % data_length.min(2048) } else { step % data_length };
            bytes[position as usize] ^= 0x20;
        }
    }
    fs::write(path, bytes).expect("written");
}
