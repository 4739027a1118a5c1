//! Crash recovery at start: journal, tail and index are read completely and compared. Each repairs the others; a record
//! that none of them has is named in the log.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::appender::Appender;
use super::batch::Edit;
use super::disk_space::free_bytes;
use super::index::{Index, IndexContents, IndexError, LAST_NUMBER_KEY};
use super::journal::{self, JournalContents, JournalError};
use super::rewrite::{StateContents, rewrite_journal};
use super::tail::{self, Tail};
use super::tree::Tree;
use super::{computed, draft, migrate, open_error, quarantine};
use crate::error::{Error, Result};

/// Free disk space required to open a state, bytes: sled writes when it opens, and an index that cannot be opened for lack
/// of space must not be mistaken for a damaged one.
const MIN_FREE_BYTES: u64 = 4 << 20;

/// Up to this length the journal is read by the opening thread, bytes. That takes at most about 40 ms, and glibc would keep
/// the memory that another thread allocated (half a kilobyte for each of a thousand channels, measured).
const SHORT_JOURNAL_BYTES: u64 = 4 << 20;

/// An open state, intact or repaired.
pub struct RecoveredState {
    pub index: Index,
    pub journal: Appender,
    pub tail: Tail,
    /// Number of the last change.
    pub last_number: u64,
    /// Number of current records, and the bytes of their lines.
    pub live_records: u64,
    pub live_bytes: u64,
    /// Records without a readable copy, as `tree/key`: they no longer exist.
    pub lost_records: Vec<String>,
}

impl RecoveredState {
    /// Writes changes that follow the last one to journal and tail. The index gets them when the state is opened again.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn append_changes(mut self, changes: &[Edit]) -> io::Result<()> {
        let mut lines = Vec::new();
        for (edit, number) in changes.iter().zip(self.last_number + 1..) {
            journal::write_change(&mut lines, number, std::slice::from_ref(edit));
        }
        self.journal.append(&lines)?;
        self.tail.file.append(&lines)
    }
}

/// Opens the state in `dir` and repairs it. The caller must have its lock.
///
/// # Errors
/// `INTERNAL` naming what cannot be opened, read or repaired.
pub fn open(dir: &Path) -> Result<RecoveredState> {
    let to_error = |cause: io::Error| open_error(dir, cause);
    let index_folder = dir.join("db");
    let available = free_bytes(dir);
    if available < MIN_FREE_BYTES {
        let message = format!("the disk is full: {available} bytes are free, {MIN_FREE_BYTES} are required");
        return Err(open_error(dir, message));
    }
    if !dir.join("journal").try_exists().map_err(to_error)? && index_folder.try_exists().map_err(to_error)? {
        migrate::from_layout_1(dir, &index_folder)?;
    }
    // Removes a draft that never replaced the journal.
    let _ = fs::remove_file(dir.join(draft::FILE_NAME));
    // Syncs a rename that an earlier process could not sync.
    File::open(dir).and_then(|folder| folder.sync_all()).map_err(to_error)?;

    let started = Instant::now();
    let read_both = || {
        let tail = tail::read(dir).map_err(|cause| unreadable_error(dir, tail::FILE_NAME, cause))?;
        Ok((read_journal(dir)?, tail, started.elapsed()))
    };
    let is_short = fs::metadata(dir.join("journal")).is_ok_and(|found| found.len() <= SHORT_JOURNAL_BYTES);
    let (journal_and_tail, index, index_took) = match is_short {
        true => (Ok(read_both()), open_index(&index_folder), started.elapsed()),
        // The files are read in parallel, because they do not depend on each other.
        false => thread::scope(|scope| {
            let reader = scope.spawn(read_both);
            let index = open_index(&index_folder);
            let index_took = started.elapsed();
            (reader.join(), index, index_took)
        }),
    };
    let (journal, tail, journal_took) =
        journal_and_tail.map_err(|_| open_error(&dir.join("journal"), "reading it panicked"))??;
    let had_journal = journal.is_some();
    let (journal, mut lost_records) = (journal.unwrap_or_default(), Vec::new());
    let (mut index, indexed) = match index {
        Ok(opened) => opened,
        Err(IndexError::System(cause)) => return Err(open_error(&index_folder, cause)),
        // If the journal is not intact, the index may have the only copy of a record, and the disk may be able to read
        // it later.
        Err(IndexError::Io(cause)) if !had_journal || !journal.fault_offsets.is_empty() => {
            return Err(open_error(&index_folder, cause));
        }
        Err(IndexError::Io(fault) | IndexError::Damage(fault)) => {
            let quarantined = quarantine::move_away(dir, "db").map_err(to_error)?;
            tracing::error!(fault, kept = %quarantined.display(), "the index cannot be opened: rebuilding it from the journal");
            (Index::open(&index_folder).map_err(|cause| open_error(&index_folder, cause))?, IndexContents::default())
        }
    };
    let mut contents = StateContents { journal, tail, index: indexed };
    let has_newer_changes =
        contents.index.last_number > contents.journal.last_number || contents.tail_has_newer_changes();
    if !had_journal || has_newer_changes || !contents.journal.fault_offsets.is_empty() {
        if had_journal || contents.index.last_number.max(contents.tail.last_number) > 0 {
            log_damage(dir, &contents, had_journal);
        }
        // The index may have the only copy of records whose lines are damaged.
        let unknown = index.unknown_trees();
        if !unknown.is_empty() {
            return Err(unreadable_error(dir, "db", JournalError::UnknownTrees(unknown)));
        }
        if had_journal {
            quarantine::keep_copy(dir, "journal").map_err(to_error)?;
        }
        lost_records = rewrite_journal(dir, &contents, &index).map_err(to_error)?;
        contents.journal = read_journal(dir)?.ok_or_else(|| open_error(dir, "the journal has disappeared"))?;
    }
    if let Some(fault) = find_index_fault(&contents) {
        drop(index);
        let quarantined = quarantine::move_away(dir, "db").map_err(to_error)?;
        tracing::error!(fault, kept = %quarantined.display(), "the index is damaged: rebuilding it from the journal");
        index = Index::open(&index_folder).map_err(|cause| open_error(&index_folder, cause))?;
        contents.index = IndexContents::default();
    }
    update_index(dir, &contents, &index)?;
    computed::take_from_index(dir, &index);
    migrate::write_layout_marker(&index);
    let current = contents.journal.positions.values().filter(|position| !position.is_removal);
    let (records, live_bytes) =
        current.fold((0, 0), |(count, bytes), position| (count + 1, bytes + u64::from(position.len)));
    let journal = Appender::open(&dir.join("journal"), contents.journal.valid_bytes).map_err(to_error)?;
    let last_number = contents.journal.last_number.max(contents.index.last_number).max(contents.tail.last_number);
    // Journal and index now contain everything that is in the tail.
    let tail = Tail::open(dir, &contents.tail, &index).map_err(to_error)?;
    let to_millis = |took: Duration| took.as_millis() as u64;
    let (journal_ms, index_ms, all_ms) = (to_millis(journal_took), to_millis(index_took), to_millis(started.elapsed()));
    tracing::debug!(records, journal_bytes = journal.len, journal_ms, index_ms, all_ms, "the state is open");
    Ok(RecoveredState { index, journal, tail, last_number, live_records: records, live_bytes, lost_records })
}

/// Reads the journal; `None` when it does not exist.
fn read_journal(dir: &Path) -> Result<Option<JournalContents>> {
    journal::read(&dir.join("journal")).map_err(|cause| unreadable_error(dir, "journal", cause))
}

/// The error of a journal or tail that cannot be read, worded for the person who started the program.
pub fn unreadable_error(dir: &Path, name: &str, cause: JournalError) -> Error {
    match cause {
        JournalError::Io(cause) => open_error(&dir.join(name), cause),
        JournalError::NewerLayout(layout) => {
            let newest = journal::LAYOUT;
            let message = format!(
                "it was written by a newer version (layout {layout}, this program reads {newest}): start the newer \
                 version, or import a backup made before it"
            );
            open_error(dir, message)
        }
        JournalError::UnknownTrees(trees) => {
            let trees = trees.join(", ");
            let message = format!(
                "it was written by a newer version: {name} contains records of {trees}, which this version does \
                 not know and would lose; start the newer version, or import a backup made before it"
            );
            open_error(dir, message)
        }
    }
}

fn open_index(folder: &Path) -> Result<(Index, IndexContents), IndexError> {
    let index = Index::open(folder)?;
    let held = index.verify()?;
    Ok((index, held))
}

fn log_damage(dir: &Path, contents: &StateContents, had_journal: bool) {
    let StateContents { journal, tail, index } = contents;
    let what = match had_journal {
        false => "the journal is missing: writing a new one from its tail and the index",
        true if journal.fault_offsets.is_empty() => {
            "the journal has lost its end: adding changes from its tail and the index"
        }
        true => "the journal is damaged: repairing it from its tail and the index",
    };
    let (state, first) = (dir.display(), journal.fault_offsets.first());
    tracing::error!(
        %state,
        damaged_lines = journal.fault_offsets.len(),
        first_at = first,
        last_in_journal = journal.last_number,
        last_in_tail = tail.last_number,
        last_in_index = index.last_number,
        index_faults = index.faults.len(),
        "{what}"
    );
}

/// Describes damage of the index. Lacking only the last changes of the journal is not damage: every crash leaves it so.
fn find_index_fault(contents: &StateContents) -> Option<String> {
    let StateContents { journal, index, .. } = contents;
    if let Some(fault) = index.faults.first() {
        return Some(fault.clone());
    }
    let name = |(tree, key): &(Tree, String)| format!("{}/{key}", tree.name());
    let missing = journal.positions.iter().find(|(id, position)| {
        !position.is_removal
            && position.number < index.last_number
            && index.numbers.get(*id).is_none_or(|number| *number < position.number)
    });
    if let Some((id, position)) = missing {
        let (name, number, last) = (name(id), position.number, index.last_number);
        return Some(format!("record {name}: change {number} is missing, although change {last} exists"));
    }
    let stray = index.numbers.iter().find(|(id, number)| match journal.positions.get(*id) {
        None => **number < index.last_number,
        Some(position) => position.is_removal && position.number < index.last_number,
    });
    stray.map(|(id, _)| format!("record {}: it was removed, but exists", name(id)))
}

/// Applies to the index the changes that only the journal has.
fn update_index(dir: &Path, contents: &StateContents, index: &Index) -> Result<()> {
    let StateContents { journal, index: indexed, .. } = contents;
    let outdated = journal.positions.iter().filter(|(id, position)| match indexed.numbers.get(*id) {
        Some(number) => position.is_removal || *number != position.number,
        None => !position.is_removal,
    });
    let mut outdated: Vec<_> = outdated.collect();
    let stray = indexed.numbers.keys().filter(|id| !journal.positions.contains_key(*id));
    let to_error = |cause: IndexError| open_error(dir, cause);
    for (tree, key) in stray {
        index.set(*tree, key, 0, None).map_err(to_error)?;
    }
    if outdated.is_empty() && indexed.last_number >= journal.last_number {
        return Ok(());
    }
    // In the order of the changes, as the committer writes them: otherwise a gap would not prove damage.
    outdated.sort_unstable_by_key(|(_, position)| position.number);
    let file = File::open(dir.join("journal")).map_err(|cause| open_error(dir, cause))?;
    for ((tree, key), position) in &outdated {
        let json = match position.is_removal {
            true => None,
            false => journal::read_json_at(&file, **position).map_err(|cause| open_error(dir, cause))?,
        };
        if json.is_none() && !position.is_removal {
            return Err(open_error(dir, "the journal changed while it was read"));
        }
        index.set(*tree, key, position.number, json.as_deref()).map_err(to_error)?;
    }
    index.set(Tree::Meta, LAST_NUMBER_KEY, journal.last_number, Some(b"0")).map_err(to_error)?;
    tracing::info!(changes = outdated.len(), "changes from the journal were applied to the index");
    Ok(())
}
