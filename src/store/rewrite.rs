//! Rewrites a damaged journal: each record from its newest good copy in journal, tail or index.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::Path;

use super::draft::Draft;
use super::index::{Held, Index};
use super::journal::{self, Reading, Slot};
use super::tail;
use super::tree::Tree;

type Id = (Tree, String);

/// The file with the newest copy of a record.
#[derive(Clone, Copy)]
enum Place {
    Journal(Slot),
    Tail(Slot),
    Index(u64),
}

impl Place {
    fn number(self) -> u64 {
        match self {
            Self::Journal(slot) | Self::Tail(slot) => slot.number,
            Self::Index(number) => number,
        }
    }
}

/// Whether the tail contains a change that is missing from the journal. A compaction drops removals that the index has up
/// to its `last` change; if the program is killed after it, the tail still has them.
pub fn tail_knows_more(reading: &Reading, tail: &Reading, last: u64) -> bool {
    tail.slots.iter().any(|(id, slot)| match reading.slots.get(id) {
        Some(known) => known.number < slot.number,
        None => !slot.gone || slot.number > last,
    })
}

/// Rewrites the journal from the newest good copy of every record; returns the names of records without a good copy.
///
/// # Errors
/// The system's error: a copy that cannot be read at the moment is not treated as missing.
pub fn journal(dir: &Path, reading: &Reading, tail: &Reading, index: &Index, held: &Held) -> io::Result<Vec<String>> {
    let (old, copy) = (opened(&dir.join("journal"))?, opened(&dir.join(tail::NAME))?);
    let again = |file: &Option<File>, slot: Slot| match file {
        Some(file) => Ok(journal::reread(file, slot)?.map(|json| (slot.number, json))),
        None => Ok::<_, io::Error>(None),
    };
    let mut draft = Draft::begin(dir)?;
    let mut lost = Vec::new();
    let removed = removed(reading, tail, held);
    let mut newest: Vec<_> = newest(reading, tail, held).into_iter().collect();
    // Ordered by number: gaps in the numbers show how much a damaged line can hide.
    newest.sort_unstable_by_key(|(_, place)| place.number());
    for (id, place) in newest {
        let (tree, key) = id;
        let copied = match place {
            Place::Journal(slot) | Place::Tail(slot) if slot.gone => {
                // An older index, without this removal, needs a line for it.
                if slot.number > held.last {
                    draft.add(*tree, key, slot.number, None)?;
                }
                continue;
            }
            Place::Journal(_) if removed.contains(id) => continue,
            Place::Journal(slot) => again(&old, slot)?,
            Place::Tail(slot) => again(&copy, slot)?,
            Place::Index(_) => None,
        };
        let found = match copied {
            Some(copied) => Some(copied),
            None => index.get(*tree, key).map_err(|fault| io::Error::other(fault.to_string()))?,
        };
        match found {
            Some((number, json)) => draft.add(*tree, key, number, Some(&json))?,
            None => lost.push(format!("{}/{key}", tree.name())),
        }
    }
    // Records whose line and copy in the index are both damaged are lost, too.
    let known = |id: &&Id| reading.slots.contains_key(*id) || tail.slots.contains_key(*id);
    let unreadable = held.unreadable.iter().filter(|id| !known(id));
    lost.extend(unreadable.map(|(tree, key)| format!("{}/{key}", tree.name())));
    if !lost.is_empty() {
        tracing::error!(records = %lost.join(" "), "records are lost: no copy of them can be read");
    }
    draft.finish(dir)?;
    Ok(lost)
}

/// Opens a file; `None` when it does not exist.
fn opened(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

fn newest<'a>(reading: &'a Reading, tail: &'a Reading, held: &'a Held) -> HashMap<&'a Id, Place> {
    let mut newest: HashMap<&Id, Place> = HashMap::with_capacity(reading.slots.len());
    let journal = reading.slots.iter().map(|(id, slot)| (id, Place::Journal(*slot)));
    let tail = tail.slots.iter().map(|(id, slot)| (id, Place::Tail(*slot)));
    let index = held.numbers.iter().map(|(id, number)| (id, Place::Index(*number)));
    for (id, place) in journal.chain(tail).chain(index) {
        let known = newest.entry(id).or_insert(place);
        if known.number() < place.number() {
            *known = place;
        }
    }
    newest
}

/// Records of the journal whose removal was in a damaged line or in a lost end of the file: an intact index lacks them,
/// although it has later changes. If more records are missing than such lines can hide, the index has lost them, and they
/// are kept.
fn removed<'a>(reading: &'a Reading, tail: &Reading, held: &Held) -> HashSet<&'a Id> {
    let absent = |(id, slot): &(&Id, &Slot)| {
        !slot.gone && slot.number <= held.last && !held.numbers.contains_key(*id) && !tail.slots.contains_key(*id)
    };
    let missing: HashSet<_> = reading.slots.iter().filter(absent).map(|(id, _)| id).collect();
    let hidden = reading.hidden() + held.last.saturating_sub(reading.last);
    if !held.faults.is_empty() || missing.len() as u64 > hidden {
        return HashSet::new();
    }
    for (tree, key) in &missing {
        tracing::warn!("record {}/{key} is treated as removed: its removal was in a damaged line", tree.name());
    }
    missing
}
