//! Start: journal and index are read whole and held against each other. Either mends the other; what neither can give
//! is named in the log, never passed over.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::thread;

use super::index::{Held, Index};
use super::journal::{self, Appender, Draft, Reading, Slot, Unreadable};
use super::tree::Tree;
use super::{migrate, quarantine, unusable};
use crate::error::Result;

/// A state that was opened and found whole, or made whole.
pub struct Opened {
    pub index: Index,
    pub journal: Appender,
    /// The number of the last change.
    pub last: u64,
    /// Records there are, and the bytes of their lines.
    pub live: u64,
    pub live_bytes: u64,
}

/// Opens the state in `dir`. The caller holds its lock.
///
/// # Errors
/// `INTERNAL` naming what cannot be opened, read or mended.
pub fn open(dir: &Path) -> Result<Opened> {
    let failed = |cause: io::Error| unusable(dir, cause);
    let folder = dir.join("db");
    if !dir.join("journal").exists() && folder.exists() {
        migrate::from_layout_1(dir, &folder)?;
    }
    // What was written beside the journal and never put in its place.
    let _ = fs::remove_file(dir.join("journal.new"));

    // Both at once: each is read whole, and neither needs the other for that.
    let (reading, index) = thread::scope(|scope| {
        let reading = scope.spawn(|| read(dir));
        let index = open_index(dir, &folder);
        (reading.join(), index)
    });
    let reading = reading.map_err(|_| unusable(&dir.join("journal"), "reading it panicked"))??;
    let (mut index, mut held) = index?;
    let had_journal = reading.is_some();
    let mut reading = reading.unwrap_or_default();
    let behind = held.last > reading.last;
    if !had_journal || behind || !reading.faults.is_empty() {
        if had_journal || held.last > 0 {
            say_damaged(dir, &reading, &held, had_journal);
        }
        if had_journal {
            quarantine::keep(dir, "journal").map_err(failed)?;
        }
        write_again(dir, &reading, &index, &held).map_err(failed)?;
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
    let journal = Appender::open(dir, reading.end).map_err(failed)?;
    Ok(Opened { index, journal, last: reading.last.max(held.last), live, live_bytes })
}

fn read(dir: &Path) -> Result<Option<Reading>> {
    journal::read(&dir.join("journal")).map_err(|cause| match cause {
        Unreadable::System(cause) => unusable(&dir.join("journal"), cause),
        Unreadable::Newer(layout) => {
            let newest = journal::LAYOUT;
            unusable(dir, format!("it was written by another version (layout {layout}, this program reads {newest})"))
        }
    })
}

fn open_index(dir: &Path, folder: &Path) -> Result<(Index, Held)> {
    match Index::open(folder) {
        Ok(index) => {
            let held = index.check();
            Ok((index, held))
        }
        Err(fault) => {
            let place = quarantine::away(dir, "db").map_err(|cause| unusable(folder, cause))?;
            tracing::error!(fault, kept = %place.display(), "the index cannot be opened: it is made again from the journal");
            let index = Index::open(folder).map_err(|cause| unusable(folder, cause))?;
            Ok((index, Held::default()))
        }
    }
}

fn say_damaged(dir: &Path, reading: &Reading, held: &Held, had_journal: bool) {
    let what = match had_journal {
        false => "the journal is gone: it is written again from the index",
        true if reading.faults.is_empty() => {
            "the journal has lost its end: it is written again with what the index holds"
        }
        true => "the journal is damaged: it is written again with what the index holds",
    };
    let (state, first) = (dir.display(), reading.faults.first());
    // Changes that stood only in damaged lines: they were made within the last moment before a crash, or the index is
    // damaged too.
    tracing::error!(
        %state,
        damaged_lines = reading.faults.len(),
        first_at = first,
        last_in_journal = reading.last,
        last_in_index = held.last,
        index_faults = held.faults.len(),
        "{what}"
    );
}

/// Records of the journal that an index without a fault does not have, though it has later changes: their removal stood
/// in a damaged line, or in an end that is gone. A damaged line can hide two changes, its own and the next one's whose
/// line end it swallowed; when more records are missing than can be explained so, the index lost them, and they are kept.
fn removed<'a>(reading: &'a Reading, held: &Held) -> HashSet<&'a (Tree, String)> {
    let absent = |(id, slot): &(&(Tree, String), &Slot)| {
        !slot.gone && slot.number <= held.last && !held.numbers.contains_key(*id)
    };
    let missing: HashSet<_> = reading.slots.iter().filter(absent).map(|(id, _)| id).collect();
    let hidden = 2 * reading.faults.len() as u64 + held.last.saturating_sub(reading.last);
    if !held.faults.is_empty() || missing.len() as u64 > hidden {
        return HashSet::new();
    }
    for (tree, key) in &missing {
        tracing::warn!("record {}/{key} is taken as removed: a damaged line hides the change", tree.name());
    }
    missing
}

/// Writes a journal of the newest good copy of every record.
fn write_again(dir: &Path, reading: &Reading, index: &Index, held: &Held) -> io::Result<()> {
    let old = File::open(dir.join("journal")).ok();
    let mut draft = Draft::begin(dir)?;
    let mut lost = Vec::new();
    let removed = removed(reading, held);
    for (id, slot) in &reading.slots {
        let (tree, key) = id;
        let newer = held.numbers.get(&(*tree, key.clone())).is_some_and(|number| *number > slot.number);
        if slot.gone || newer || removed.contains(id) {
            continue;
        }
        let json = old.as_ref().and_then(|old| journal::reread(old, *slot));
        match json.map(|json| (slot.number, json)).or_else(|| index.get(*tree, key)) {
            Some((number, json)) => draft.add(*tree, key, number, &json)?,
            None => lost.push(format!("{}/{key}", tree.name())),
        }
    }
    for ((tree, key), number) in &held.numbers {
        let older = reading.slots.get(&(*tree, key.clone())).is_some_and(|slot| slot.number >= *number);
        if older {
            continue;
        }
        match index.get(*tree, key) {
            Some((number, json)) => draft.add(*tree, key, number, &json)?,
            None => lost.push(format!("{}/{key}", tree.name())),
        }
    }
    if !lost.is_empty() {
        tracing::error!(records = %lost.join(" "), "records are lost: neither journal nor index has them");
    }
    draft.finish(dir)
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
    let failed = |cause: sled::Error| unusable(dir, cause);
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
        let json = if slot.gone { None } else { journal::reread(&file, **slot) };
        if json.is_none() && !slot.gone {
            return Err(unusable(dir, "the journal changed while it was read"));
        }
        index.set(*tree, key, slot.number, json.as_deref()).map_err(failed)?;
    }
    index.note(reading.last).map_err(failed)?;
    tracing::info!(changes = behind.len(), "changes were taken over from the journal");
    index.flush().map_err(|cause| unusable(dir, cause))
}
