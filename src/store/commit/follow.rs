//! The committer of a standby's copy, until it becomes that of the active server.

use std::io;
use std::sync::PoisonError;

use super::Committer;
use crate::store::batch::Edit;
use crate::store::database::RemoteJournal;

/// The database of a copy, with what the copy lacks.
pub struct RemoteState {
    pub journal: RemoteJournal,
    pub missing: Vec<Edit>,
    pub last_number: u64,
}

impl Committer {
    /// Writes to the copy of a standby the changes of the database that follow its last one.
    ///
    /// # Errors
    /// When they cannot be written: the copy must be opened again.
    pub fn follow(&mut self, missing: Vec<Edit>) -> io::Result<()> {
        let last_number = self.last_number + missing.len() as u64;
        self.write_missing(missing)?;
        self.shorten_files();
        match self.files.is_some() && self.last_number == last_number {
            true => Ok(()),
            false => Err(io::Error::other("the changes are not in its files")),
        }
    }

    /// The number of the last change in the files.
    pub fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Skips numbers of changes that only removed records: a copy that was made from the records lacks them.
    pub fn skip_to(&mut self, last_number: u64) {
        self.last_number = self.last_number.max(last_number);
    }

    /// Closes the index. Reads fail from now on.
    pub fn close(self) {
        let index = self.view.write().unwrap_or_else(PoisonError::into_inner).index.take();
        drop(index);
    }

    /// Connects the committer to its database, and writes to the files the changes that only the database has.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn catch_up(&mut self, remote: RemoteState) -> io::Result<()> {
        self.remote = Some(remote.journal);
        self.write_missing(remote.missing)?;
        // Changes that only removed records are not in a copy that was made from the records.
        self.last_number = remote.last_number;
        Ok(())
    }
}
