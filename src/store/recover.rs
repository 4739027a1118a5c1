//! Crash recovery at start: journal, tail and index are read whole and compared. Each repairs the others; a record that none of
//! them has is named in the log, never passed over.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::appender::Appender;
use super::commit::free_bytes;
use super::index::{Fault, Held, Index};
use super::journal::{self, Reading, Slot, Unreadable};
use super::tail::{self, Tail};
use super::tree::Tree;
use super::{draft, migrate, quarantine, rewrite, unusable};
use crate::error::{Error, Result};

/// Disk space without which nothing is opened, bytes: sled writes when it opens, and an index that cannot be opened for
/// want of space is not a damaged one.
const NEEDED: u64 = 4 << 20;

/// A journal that is no longer is read by the thread that opens it, bytes: that takes some 40 ms at most, and glibc keeps
/// what another thread's own memory grew to (half a kilobyte for each of a thousand channels, measured).
const SHORT_BYTES: u64 = 4 << 20;

/// A state that was opened and found whole, or made whole.
pub struct Opened {
    pub index: Index,
    pub journal: Appender,
    pub tail: Tail,
    /// The number of the last change.
    pub last: u64,
    /// Records there are, and the bytes of their lines.
    pub live: u64,
    pub live_bytes: u64,
    /// Records of which no copy could be read, by name: they are gone with this opening.
    pub lost: Vec<String>,
}

/// Opens the state in `dir`. The caller holds its lock.
///
/// # Errors
/// `INTERNAL` naming what cannot be opened, read or mended.
pub fn open(dir: &Path) -> Result<Opened> {
    let failed = |cause: io::Error| unusable(dir, cause);
    let folder = dir.join("db");
    let free = free_bytes(dir);
    if free < NEEDED {
        return Err(unusable(dir, format!("the disk is full: {free} bytes are free, {NEEDED} are needed")));
    }
    if !dir.join("journal").try_exists().map_err(failed)? && folder.try_exists().map_err(failed)? {
        migrate::from_layout_1(dir, &folder)?;
    }
    // A draft that never replaced the journal.
    let _ = fs::remove_file(dir.join(draft::NAME));
    // A rename that an earlier run could not bring to the disk.
    File::open(dir).and_then(|folder| folder.sync_all()).map_err(failed)?;

    let began = Instant::now();
    let read_both = || {
        let tail = tail::read(dir).map_err(|cause| unreadable(dir, tail::NAME, cause))?;
        Ok((read(dir)?, tail, began.elapsed()))
    };
    let short = fs::metadata(dir.join("journal")).is_ok_and(|found| found.len() <= SHORT_BYTES);
    let (both, index, index_took) = match short {
        true => (Ok(read_both()), open_index(&folder), began.elapsed()),
        // All at once: each is read whole, and none needs the others for that.
        false => thread::scope(|scope| {
            let both = scope.spawn(read_both);
            let index = open_index(&folder);
            let took = began.elapsed();
            (both.join(), index, took)
        }),
    };
    let (reading, tail, journal_took) = both.map_err(|_| unusable(&dir.join("journal"), "reading it panicked"))??;
    let had_journal = reading.is_some();
    let (mut reading, mut lost) = (reading.unwrap_or_default(), Vec::new());
    let (mut index, mut held) = match index {
        Ok(opened) => opened,
        Err(Fault::System(cause)) => return Err(unusable(&folder, cause)),
        // Where the journal is not whole, the index may have the only copy of a record: a disk that fails to read it
        // now may do so later.
        Err(Fault::Io(cause)) if !had_journal || !reading.faults.is_empty() => return Err(unusable(&folder, cause)),
        Err(Fault::Io(fault) | Fault::Damage(fault)) => {
            let place = quarantine::away(dir, "db").map_err(failed)?;
            tracing::error!(fault, kept = %place.display(), "the index cannot be opened: it is made again from the journal");
            (Index::open(&folder).map_err(|cause| unusable(&folder, cause))?, Held::default())
        }
    };
    let behind = held.last > reading.last || rewrite::tail_knows_more(&reading, &tail);
    if !had_journal || behind || !reading.faults.is_empty() {
        if had_journal || held.last.max(tail.last) > 0 {
            say_damaged(dir, &reading, &tail, &held, had_journal);
        }
        // The index may be all that is left of records whose lines are damaged.
        let unknown = index.unknown_trees();
        if !unknown.is_empty() {
            return Err(unreadable(dir, "db", Unreadable::UnknownTrees(unknown)));
        }
        if had_journal {
            quarantine::keep(dir, "journal").map_err(failed)?;
        }
        lost = rewrite::journal(dir, &reading, &tail, &index, &held).map_err(failed)?;
        reading = read(dir)?.ok_or_else(|| unusable(dir, "its journal is gone"))?;
    }
    if let Some(fault) = index_fault(&reading, &held) {
        drop(index);
        let place = quarantine::away(dir, "db").map_err(failed)?;
        tracing::error!(fault, kept = %place.display(), "the index was damaged: it is made again from the journal");
        index = Index::open(&folder).map_err(|cause| unusable(&folder, cause))?;
        held = Held::default();
    }
    bring_up(dir, &reading, &index, &held)?;
    migrate::mark(&index);
    let live = reading.slots.values().filter(|slot| !slot.gone);
    let (live, live_bytes) = live.fold((0, 0), |(count, bytes), slot| (count + 1, bytes + u64::from(slot.len)));
    let journal = Appender::open(&dir.join("journal"), reading.end).map_err(failed)?;
    let last = reading.last.max(held.last).max(tail.last);
    // What it holds is in the journal by now, and in the index.
    let tail = Tail::open(dir, &tail, &index).map_err(failed)?;
    let ms = |took: Duration| took.as_millis() as u64;
    let (journal_ms, index_ms, all_ms) = (ms(journal_took), ms(index_took), ms(began.elapsed()));
    tracing::debug!(records = live, journal_bytes = journal.len, journal_ms, index_ms, all_ms, "the state is open");
    Ok(Opened { index, journal, tail, last, live, live_bytes, lost })
}

/// The journal as it is on the disk; None when there is none.
fn read(dir: &Path) -> Result<Option<Reading>> {
    journal::read(&dir.join("journal")).map_err(|cause| unreadable(dir, "journal", cause))
}

/// Why a journal or its tail cannot be read, for the person who started the program.
pub fn unreadable(dir: &Path, name: &str, cause: Unreadable) -> Error {
    match cause {
        Unreadable::System(cause) => unusable(&dir.join(name), cause),
        Unreadable::Newer(layout) => {
            let newest = journal::LAYOUT;
            unusable(dir, format!("it was written by another version (layout {layout}, this program reads {newest})"))
        }
        Unreadable::UnknownTrees(trees) => {
            let trees = trees.join(", ");
            unusable(
                dir,
                format!(
                    "it was written by a newer version: {name} holds records of {trees}, which this version does not \
                     know and would lose; start the newer version, or import a backup made before it"
                ),
            )
        }
    }
}

fn open_index(folder: &Path) -> Result<(Index, Held), Fault> {
    let index = Index::open(folder)?;
    let held = index.check()?;
    Ok((index, held))
}

fn say_damaged(dir: &Path, reading: &Reading, tail: &Reading, held: &Held, had_journal: bool) {
    let what = match had_journal {
        false => "the journal is gone: it is written again from its tail and the index",
        true if reading.faults.is_empty() => {
            "the journal has lost its end: it is written again with what its tail and the index hold"
        }
        true => "the journal is damaged: it is written again with what its tail and the index hold",
    };
    let (state, first) = (dir.display(), reading.faults.first());
    tracing::error!(
        %state,
        damaged_lines = reading.faults.len(),
        first_at = first,
        last_in_journal = reading.last,
        last_in_tail = tail.last,
        last_in_index = held.last,
        index_faults = held.faults.len(),
        "{what}"
    );
}

/// What is wrong with an index, beside being behind the journal: that is how every crash leaves it, and then it is
/// behind with the last changes only.
fn index_fault(reading: &Reading, held: &Held) -> Option<String> {
    if let Some(fault) = held.faults.first() {
        return Some(fault.clone());
    }
    let name = |(tree, key): &(Tree, String)| format!("{}/{key}", tree.name());
    let missing = reading.slots.iter().find(|(id, slot)| {
        !slot.gone && slot.number < held.last && held.numbers.get(*id).is_none_or(|number| *number < slot.number)
    });
    if let Some((id, slot)) = missing {
        return Some(format!(
            "record {}: change {} is missing, though change {} is there",
            name(id),
            slot.number,
            held.last
        ));
    }
    let stray = held.numbers.iter().find(|(id, number)| match reading.slots.get(*id) {
        None => **number < held.last,
        Some(slot) => slot.gone && slot.number < held.last,
    });
    stray.map(|(id, _)| format!("record {}: it was removed, and is there", name(id)))
}

/// Brings the index to what the journal says.
fn bring_up(dir: &Path, reading: &Reading, index: &Index, held: &Held) -> Result<()> {
    let mut behind: Vec<(&(Tree, String), &Slot)> = reading
        .slots
        .iter()
        .filter(|(id, slot)| match held.numbers.get(*id) {
            Some(number) => slot.gone || *number != slot.number,
            None => !slot.gone,
        })
        .collect();
    let stray = held.numbers.keys().filter(|id| !reading.slots.contains_key(*id));
    let failed = |cause: Fault| unusable(dir, cause);
    for (tree, key) in stray {
        index.set(*tree, key, 0, None).map_err(failed)?;
    }
    if behind.is_empty() && held.last >= reading.last {
        return Ok(());
    }
    // In the order of the changes, as the committer writes them: only so is a gap a sign of damage.
    behind.sort_unstable_by_key(|(_, slot)| slot.number);
    let file = File::open(dir.join("journal")).map_err(|cause| unusable(dir, cause))?;
    for ((tree, key), slot) in &behind {
        let json = match slot.gone {
            true => None,
            false => journal::reread(&file, **slot).map_err(|cause| unusable(dir, cause))?,
        };
        if json.is_none() && !slot.gone {
            return Err(unusable(dir, "the journal changed while it was read"));
        }
        index.set(*tree, key, slot.number, json.as_deref()).map_err(failed)?;
    }
    index.note(reading.last).map_err(failed)?;
    tracing::info!(changes = behind.len(), "changes were taken over from the journal");
    Ok(())
}
