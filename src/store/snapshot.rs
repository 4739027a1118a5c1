//! A snapshot of the records of a state at one moment, read from its journal while a server may be running.
//!
//! The journal is read through one descriptor and only up to its first length. So later changes are not seen, nor a
//! compaction, which replaces the file. A server truncates its journal after a failed append: then the snapshot is
//! repeated.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::journal::{self, JournalContents, LinePosition};
use super::open_error;
use super::recover::unreadable_error;
use super::tail;
use super::tree::Tree;
use crate::error::{Error, Result};

/// Most attempts, and the pause between two: a server truncates a failed append in less time.
const MAX_ATTEMPTS: usize = 5;
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Tree, key and JSON of a record.
pub type SnapshotRecord = (Tree, String, Vec<u8>);

/// The journal at one moment.
pub struct Snapshot {
    file: File,
    contents: JournalContents,
    journal_path: String,
}

impl Snapshot {
    /// Takes a snapshot of the state in `dir`.
    ///
    /// # Errors
    /// `INTERNAL` naming what cannot be read, or if the journal is damaged or lacks changes: a restart repairs that.
    pub fn take(dir: &Path) -> Result<Self> {
        let mut attempt = 1;
        loop {
            match Self::try_take(dir)? {
                Ok(snapshot) => return Ok(snapshot),
                Err(_) if attempt < MAX_ATTEMPTS => thread::sleep(RETRY_PAUSE),
                Err(fault) => {
                    let remedy = "restart the server, which repairs the journal from its copies, then try again";
                    return Err(open_error(dir, format!("{fault}: {remedy}")));
                }
            }
            attempt += 1;
        }
    }

    fn try_take(dir: &Path) -> Result<Result<Self, String>> {
        // The tail is read first: the journal, read later, has everything that is in it.
        let tail = tail::read(dir).map_err(|cause| unreadable_error(dir, tail::FILE_NAME, cause))?;
        let path = dir.join("journal");
        let file = File::open(&path).map_err(|cause| open_error(&path, cause))?;
        let contents = journal::read_from(&file).map_err(|cause| unreadable_error(dir, "journal", cause))?;
        if let Some(at) = contents.fault_offsets.first() {
            return Ok(Err(format!("the journal is damaged at byte {at}")));
        }
        // A compaction drops removals, so a removal that is only in the tail is not missing.
        let missing = tail.positions.iter().find(|(id, position)| match contents.positions.get(*id) {
            Some(in_journal) => in_journal.number < position.number,
            None => !position.is_removal,
        });
        if let Some(((tree, key), _)) = missing {
            return Ok(Err(format!("the journal lacks the newest change of record {}/{key}", tree.name())));
        }
        let snapshot = Self { file, contents, journal_path: path.display().to_string() };
        // Every record is read once before the first is returned: the server may be truncating a failed append.
        let fault = snapshot.records().find_map(Result::err);
        match fault {
            Some(error) => Ok(Err(error.cause.unwrap_or(error.message))),
            None => Ok(Ok(snapshot)),
        }
    }

    /// All records, by tree and key.
    pub fn records(&self) -> impl Iterator<Item = Result<SnapshotRecord>> {
        let mut records: Vec<(&(Tree, String), &LinePosition)> =
            self.contents.positions.iter().filter(|(_, position)| !position.is_removal).collect();
        records.sort_unstable_by_key(|(id, _)| *id);
        records.into_iter().map(|((tree, key), position)| {
            let to_error = |cause: String| {
                Error::internal(format!("{}: record {}/{key} cannot be read: {cause}", self.journal_path, tree.name()))
            };
            let json = journal::read_json_at(&self.file, *position).map_err(|cause| to_error(cause.to_string()))?;
            let json = json.ok_or_else(|| to_error("its line changed".to_owned()))?;
            Ok((*tree, key.clone(), json))
        })
    }
}
