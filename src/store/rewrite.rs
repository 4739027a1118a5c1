//! A journal written again: of every record the newest good copy among journal, tail and index.

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

/// Where the newest copy of a record stands.
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

/// Whether the tail knows of a change that the journal should hold and does not.
pub fn tail_knows_more(reading: &Reading, tail: &Reading) -> bool {
    tail.slots.iter().any(|(id, slot)| reading.slots.get(id).is_none_or(|known| known.number < slot.number))
}

/// Writes a journal of the newest good copy of every record; names the records of which there is none.
///
/// # Errors
/// What the system says: a copy that cannot be read just now is not taken for missing.
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
    // In order: missing numbers tell how much a damaged line can hide.
    newest.sort_unstable_by_key(|(_, place)| place.number());
    for (id, place) in newest {
        let (tree, key) = id;
        let copied = match place {
            Place::Journal(slot) | Place::Tail(slot) if slot.gone => {
                // An index that has this removal needs no line for it; an older one does.
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
    // Nor are those in it whose line is damaged, and their copy in the index too.
    let known = |id: &&Id| reading.slots.contains_key(*id) || tail.slots.contains_key(*id);
    let unreadable = held.unreadable.iter().filter(|id| !known(id));
    lost.extend(unreadable.map(|(tree, key)| format!("{}/{key}", tree.name())));
    if !lost.is_empty() {
        tracing::error!(records = %lost.join(" "), "records are lost: nothing holds a copy that can be read");
    }
    draft.finish(dir)?;
    Ok(lost)
}

/// None when there is no such file; every other failure to open it is an error.
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

/// Records of the journal that an index without a fault does not have, though it has later changes: their removal stood
/// in a damaged line, or in an end that is gone. When more records are missing than these can hide, the index lost them,
/// and they are kept.
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
        tracing::warn!("record {}/{key} is taken as removed: a damaged line hides the change", tree.name());
    }
    missing
}
