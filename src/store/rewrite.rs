//! Rewrites a damaged journal: each record from its newest good copy in journal, tail or index.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::Path;

use super::draft::Draft;
use super::index::{Index, IndexContents};
use super::journal::{self, JournalContents, LinePosition};
use super::tree::Tree;
use super::{if_exists, tail};

type RecordId = (Tree, String);

/// The file with the newest copy of a record.
#[derive(Clone, Copy)]
enum CopyLocation {
    Journal(LinePosition),
    Tail(LinePosition),
    Index(u64),
}

impl CopyLocation {
    fn number(self) -> u64 {
        match self {
            Self::Journal(slot) | Self::Tail(slot) => slot.number,
            Self::Index(number) => number,
        }
    }
}

/// Contents of the three files with records.
pub struct StateContents {
    pub journal: JournalContents,
    pub tail: JournalContents,
    pub index: IndexContents,
}

impl StateContents {
    /// Whether the tail contains a change that is missing from the journal. A compaction drops removals that the index has
    /// up to its last change; if the program is killed after it, the tail still has them.
    pub fn tail_has_newer_changes(&self) -> bool {
        self.tail.positions.iter().any(|(id, position)| match self.journal.positions.get(id) {
            Some(known) => known.number < position.number,
            None => !position.is_removal || position.number > self.index.last_number,
        })
    }

    fn newest_copies(&self) -> HashMap<&RecordId, CopyLocation> {
        let mut newest: HashMap<&RecordId, CopyLocation> = HashMap::with_capacity(self.journal.positions.len());
        let journal = self.journal.positions.iter().map(|(id, slot)| (id, CopyLocation::Journal(*slot)));
        let tail = self.tail.positions.iter().map(|(id, slot)| (id, CopyLocation::Tail(*slot)));
        let index = self.index.numbers.iter().map(|(id, number)| (id, CopyLocation::Index(*number)));
        for (id, location) in journal.chain(tail).chain(index) {
            let best = newest.entry(id).or_insert(location);
            if best.number() < location.number() {
                *best = location;
            }
        }
        newest
    }

    /// Records of the journal whose removal was in a damaged line or in a lost end of the file: an intact index lacks them,
    /// although it has later changes. If more records are missing than such lines can hide, the index has lost them, and
    /// they are kept.
    fn removed_records(&self) -> HashSet<&RecordId> {
        let Self { journal, tail, index } = self;
        let absent = |(id, slot): &(&RecordId, &LinePosition)| {
            !slot.is_removal
                && slot.number <= index.last_number
                && !index.numbers.contains_key(*id)
                && !tail.positions.contains_key(*id)
        };
        let missing: HashSet<_> = journal.positions.iter().filter(absent).map(|(id, _)| id).collect();
        let hidden = journal.hidden_changes() + index.last_number.saturating_sub(journal.last_number);
        if !index.faults.is_empty() || missing.len() as u64 > hidden {
            return HashSet::new();
        }
        for (tree, key) in &missing {
            tracing::warn!("record {}/{key} is treated as removed: its removal was in a damaged line", tree.name());
        }
        missing
    }
}

/// Rewrites the journal from the newest good copy of every record; returns the names of records without a good copy.
///
/// # Errors
/// The system's error: a copy that cannot be read at the moment is not treated as missing.
pub fn rewrite_journal(dir: &Path, contents: &StateContents, index: &Index) -> io::Result<Vec<String>> {
    let journal_file = if_exists(File::open(dir.join("journal")))?;
    let tail_file = if_exists(File::open(dir.join(tail::FILE_NAME)))?;
    let reread = |file: &Option<File>, position: LinePosition| match file {
        Some(file) => Ok(journal::read_json_at(file, position)?.map(|json| (position.number, json))),
        None => Ok::<_, io::Error>(None),
    };
    let mut draft = Draft::begin(dir)?;
    let mut lost = Vec::new();
    let removed_ids = contents.removed_records();
    let mut copies: Vec<_> = contents.newest_copies().into_iter().collect();
    // Ordered by number: gaps in the numbers show how much a damaged line can hide.
    copies.sort_unstable_by_key(|(_, location)| location.number());
    for (id, location) in copies {
        let (tree, key) = id;
        let copied = match location {
            CopyLocation::Journal(slot) | CopyLocation::Tail(slot) if slot.is_removal => {
                // An older index, without this removal, needs a line for it.
                if slot.number > contents.index.last_number {
                    draft.add_record(*tree, key, slot.number, None)?;
                }
                continue;
            }
            CopyLocation::Journal(_) if removed_ids.contains(id) => continue,
            CopyLocation::Journal(slot) => reread(&journal_file, slot)?,
            CopyLocation::Tail(slot) => reread(&tail_file, slot)?,
            CopyLocation::Index(_) => None,
        };
        let record = match copied {
            Some(copied) => Some(copied),
            None => index.get(*tree, key).map_err(|fault| io::Error::other(fault.to_string()))?,
        };
        match record {
            Some((number, json)) => draft.add_record(*tree, key, number, Some(&json))?,
            None => lost.push(format!("{}/{key}", tree.name())),
        }
    }
    // Records whose line and copy in the index are both damaged are lost, too.
    let files = [&contents.journal, &contents.tail];
    let is_known = |id: &RecordId| files.iter().any(|file| file.positions.contains_key(id));
    let unreadable = contents.index.unreadable_records.iter().filter(|id| !is_known(id));
    lost.extend(unreadable.map(|(tree, key)| format!("{}/{key}", tree.name())));
    if !lost.is_empty() {
        tracing::error!(records = %lost.join(" "), "records are lost: no copy of them can be read");
    }
    draft.complete_and_replace(dir)?;
    Ok(lost)
}
