//! Crash recovery at start: journal, tail and index are read completely and compared. Each repairs the others; a record
//! that none of them has is named in the log.

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

/// Free disk space required to open a state, bytes: sled writes when it opens, and an index that cannot be opened for lack
/// of space must not be mistaken for a damaged one.
const NEEDED: u64 = 4 << 20;

/// Up to this length the journal is read by the opening thread, bytes. That takes at most about 40 ms, and glibc would keep
/// the memory that another thread allocated (half a kilobyte for each of a thousand channels, measured).
const SHORT_BYTES: u64 = 4 << 20;

/// An open state, intact or repaired.
pub struct Opened {
    pub index: Index,
    pub journal: Appender,
    pub tail: Tail,
    /// Number of the last change.
    pub last: u64,
    /// Number of current records, and the bytes of their lines.
    pub live: u64,
    pub live_bytes: u64,
    /// Records without a readable copy, as `tree/key`: they no longer exist.
    pub lost: Vec<String>,
}

/// Opens the state in `dir` and repairs it. The caller must have its lock.
///
/// # Errors
/// `INTERNAL` naming what cannot be opened, read or repaired.
pub fn open(dir: &Path) -> Result<Opened> {
    let failed = |cause: io::Error| unusable(dir, cause);
    let folder = dir.join("db");
    let free = free_bytes(dir);
    if free < NEEDED {
        return Err(unusable(dir, format!("the disk is full: {free} bytes are free, {NEEDED} are required")));
    }
    if !dir.join("journal").try_exists().map_err(failed)? && folder.try_exists().map_err(failed)? {
        migrate::from_layout_1(dir, &folder)?;
    }
    // Removes a draft that never replaced the journal.
    let _ = fs::remove_file(dir.join(draft::NAME));
    // Syncs a rename that an earlier process could not sync.
    File::open(dir).and_then(|folder| folder.sync_all()).map_err(failed)?;

    let began = Instant::now();
    let read_both = || {
        let tail = tail::read(dir).map_err(|cause| unreadable(dir, tail::NAME, cause))?;
        Ok((read(dir)?, tail, began.elapsed()))
    };
    let short = fs::metadata(dir.join("journal")).is_ok_and(|found| found.len() <= SHORT_BYTES);
    let (both, index, index_took) = match short {
        true => (Ok(read_both()), open_index(&folder), began.elapsed()),
        // The files are read in parallel, because they do not depend on each other.
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
        // If the journal is not intact, the index may have the only copy of a record, and the disk may be able to read
        // it later.
        Err(Fault::Io(cause)) if !had_journal || !reading.faults.is_empty() => return Err(unusable(&folder, cause)),
        Err(Fault::Io(fault) | Fault::Damage(fault)) => {
            let place = quarantine::away(dir, "db").map_err(failed)?;
            tracing::error!(fault, kept = %place.display(), "the index cannot be opened: rebuilding it from the journal");
            (Index::open(&folder).map_err(|cause| unusable(&folder, cause))?, Held::default())
        }
    };
    let behind = held.last > reading.last || rewrite::tail_knows_more(&reading, &tail, held.last);
    if !had_journal || behind || !reading.faults.is_empty() {
        if had_journal || held.last.max(tail.last) > 0 {
            say_damaged(dir, &reading, &tail, &held, had_journal);
        }
        // The index may have the only copy of records whose lines are damaged.
        let unknown = index.unknown_trees();
        if !unknown.is_empty() {
            return Err(unreadable(dir, "db", Unreadable::UnknownTrees(unknown)));
        }
        if had_journal {
            quarantine::keep(dir, "journal").map_err(failed)?;
        }
        lost = rewrite::journal(dir, &reading, &tail, &index, &held).map_err(failed)?;
        reading = read(dir)?.ok_or_else(|| unusable(dir, "the journal has disappeared"))?;
    }
    if let Some(fault) = index_fault(&reading, &held) {
        drop(index);
        let place = quarantine::away(dir, "db").map_err(failed)?;
        tracing::error!(fault, kept = %place.display(), "the index is damaged: rebuilding it from the journal");
        index = Index::open(&folder).map_err(|cause| unusable(&folder, cause))?;
        held = Held::default();
    }
    bring_up(dir, &reading, &index, &held)?;
    migrate::mark(&index);
    let live = reading.slots.values().filter(|slot| !slot.gone);
    let (live, live_bytes) = live.fold((0, 0), |(count, bytes), slot| (count + 1, bytes + u64::from(slot.len)));
    let journal = Appender::open(&dir.join("journal"), reading.end).map_err(failed)?;
    let last = reading.last.max(held.last).max(tail.last);
    // Journal and index now contain everything that is in the tail.
    let tail = Tail::open(dir, &tail, &index).map_err(failed)?;
    let ms = |took: Duration| took.as_millis() as u64;
    let (journal_ms, index_ms, all_ms) = (ms(journal_took), ms(index_took), ms(began.elapsed()));
    tracing::debug!(records = live, journal_bytes = journal.len, journal_ms, index_ms, all_ms, "the state is open");
    Ok(Opened { index, journal, tail, last, live, live_bytes, lost })
}

/// Reads the journal; `None` when it does not exist.
fn read(dir: &Path) -> Result<Option<Reading>> {
    journal::read(&dir.join("journal")).map_err(|cause| unreadable(dir, "journal", cause))
}

/// The error of a journal or tail that cannot be read, worded for the person who started the program.
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
                    "it was written by a newer version: {name} contains records of {trees}, which this version does \
                     not know and would lose; start the newer version, or import a backup made before it"
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
        false => "the journal is missing: writing a new one from its tail and the index",
        true if reading.faults.is_empty() => "the journal has lost its end: adding changes from its tail and the index",
        true => "the journal is damaged: repairing it from its tail and the index",
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

/// Describes damage of the index. Lacking only the last changes of the journal is not damage: every crash leaves it so.
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
            "record {}: change {} is missing, although change {} exists",
            name(id),
            slot.number,
            held.last
        ));
    }
    let stray = held.numbers.iter().find(|(id, number)| match reading.slots.get(*id) {
        None => **number < held.last,
        Some(slot) => slot.gone && slot.number < held.last,
    });
    stray.map(|(id, _)| format!("record {}: it was removed, but exists", name(id)))
}

/// Applies to the index the changes that only the journal has.
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
    // In the order of the changes, as the committer writes them: otherwise a gap would not prove damage.
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
    tracing::info!(changes = behind.len(), "changes from the journal were applied to the index");
    Ok(())
}
