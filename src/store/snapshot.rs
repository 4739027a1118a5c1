//! A snapshot of the records of a state at one moment, read from its journal while a server may be running.
//!
//! The journal is read through one descriptor and only up to its first length. So later changes are not seen, nor a
//! compaction, which replaces the file. A server truncates its journal after a failed append: then the snapshot is
//! repeated.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::journal::{self, Reading, Slot};
use super::recover::unreadable;
use super::tail;
use super::tree::Tree;
use super::unusable;
use crate::error::{Error, Result};

/// Most attempts, and the pause between two: a server truncates a failed append in less time.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// Tree, key and JSON of a record.
pub type Record = (Tree, String, Vec<u8>);

/// The journal at one moment.
pub struct Snapshot {
    file: File,
    reading: Reading,
    name: String,
}

impl Snapshot {
    /// Takes a snapshot of the state in `dir`.
    ///
    /// # Errors
    /// `INTERNAL` naming what cannot be read, or if the journal is damaged or lacks changes: a restart repairs that.
    pub fn take(dir: &Path) -> Result<Self> {
        let mut attempt = 1;
        loop {
            match Self::attempt(dir)? {
                Ok(snapshot) => return Ok(snapshot),
                Err(_) if attempt < ATTEMPTS => thread::sleep(PAUSE),
                Err(fault) => {
                    let way = "restart the server, which repairs the journal from its copies, then try again";
                    return Err(unusable(dir, format!("{fault}: {way}")));
                }
            }
            attempt += 1;
        }
    }

    fn attempt(dir: &Path) -> Result<Result<Self, String>> {
        // The tail is read first: the journal, read later, has everything that is in it.
        let tail = tail::read(dir).map_err(|cause| unreadable(dir, tail::NAME, cause))?;
        let path = dir.join("journal");
        let file = File::open(&path).map_err(|cause| unusable(&path, cause))?;
        let reading = journal::read_from(&file).map_err(|cause| unreadable(dir, "journal", cause))?;
        if let Some(at) = reading.faults.first() {
            return Ok(Err(format!("the journal is damaged at byte {at}")));
        }
        // A compaction drops removals, so a removal that is only in the tail is not missing.
        let missing = tail.slots.iter().find(|(id, slot)| match reading.slots.get(*id) {
            Some(known) => known.number < slot.number,
            None => !slot.gone,
        });
        if let Some(((tree, key), _)) = missing {
            return Ok(Err(format!("the journal lacks the newest change of record {}/{key}", tree.name())));
        }
        let snapshot = Self { file, reading, name: path.display().to_string() };
        // Every record is read once before the first is returned: the server may be truncating a failed append.
        let fault = snapshot.records().find_map(Result::err);
        match fault {
            Some(error) => Ok(Err(error.cause.unwrap_or(error.message))),
            None => Ok(Ok(snapshot)),
        }
    }

    /// All records, by tree and key.
    pub fn records(&self) -> impl Iterator<Item = Result<Record>> {
        let mut records: Vec<(&(Tree, String), &Slot)> =
            self.reading.slots.iter().filter(|(_, slot)| !slot.gone).collect();
        records.sort_unstable_by_key(|(id, _)| *id);
        records.into_iter().map(|((tree, key), slot)| {
            let unreadable = |cause: String| {
                Error::internal(format!("{}: record {}/{key} cannot be read: {cause}", self.name, tree.name()))
            };
            let json = journal::reread(&self.file, *slot).map_err(|cause| unreadable(cause.to_string()))?;
            let json = json.ok_or_else(|| unreadable("its line changed".to_owned()))?;
            Ok((*tree, key.clone(), json))
        })
    }
}
