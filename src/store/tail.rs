//! The tail: a second copy of the newest changes, in its own file. A change stays in journal and tail until the index that
//! contains it is on disk, so damage in any one of the three files loses nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::appender::Appender;
use super::index::Index;
use super::journal::{self, Reading, Unreadable};

/// File name; the layout is that of the journal.
pub const NAME: &str = "journal.tail";

/// Length from which the tail is restarted, bytes.
const FULL: u64 = 16 << 20;

/// The tail, open for appending.
pub struct Tail {
    file: Appender,
    head: u64,
    /// Length from which the tail is restarted, bytes; raised after a failed attempt.
    full: u64,
}

/// Reads the tail; empty when the file does not exist.
///
/// # Errors
/// As for a journal.
pub fn read(dir: &Path) -> Result<Reading, Unreadable> {
    Ok(journal::read(&dir.join(NAME))?.unwrap_or_default())
}

impl Tail {
    /// Opens the tail and restarts it, because journal and index now contain its changes. If the index cannot be synced,
    /// as on a full disk, new lines are appended to the old ones.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(dir: &Path, found: &Reading, index: &Index) -> io::Result<Self> {
        let text = journal::header(journal::LAYOUT);
        let head = text.len() as u64;
        if !found.faults.is_empty() {
            tracing::error!(state = %dir.display(), damaged_lines = found.faults.len(), "the journal's tail was damaged");
        }
        if found.end < head || !found.faults.is_empty() {
            index.sync().map_err(io::Error::other)?;
            let mut options = OpenOptions::new();
            let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(dir.join(NAME))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            File::open(dir)?.sync_all()?;
        }
        let end = if found.faults.is_empty() { found.end.max(head) } else { head };
        let mut tail = Self { file: Appender::open(&dir.join(NAME), end)?, head, full: FULL };
        tail.restart(index, true)?;
        Ok(tail)
    }

    /// Length in valid bytes.
    pub fn len(&self) -> u64 {
        self.file.len
    }

    /// Appends lines and waits until they are on the disk.
    ///
    /// # Errors
    /// As for [`Appender::append`].
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.append(lines)
    }

    /// Truncates the tail, as [`Appender::take_back`] does.
    ///
    /// # Errors
    /// The system's error.
    pub fn take_back(&mut self, len: u64) -> io::Result<()> {
        self.file.take_back(len)
    }

    /// Empties the tail once it is long, or at once with `always`. The index is synced first, so its changes are still in
    /// two files. A failed sync of the index is not an error: the tail continues to grow.
    ///
    /// # Errors
    /// The tail cannot be truncated: then nothing may be appended.
    pub fn restart(&mut self, index: &Index, always: bool) -> io::Result<()> {
        if self.file.len <= self.head || !always && self.file.len < self.full {
            return Ok(());
        }
        match index.sync() {
            Ok(()) => {
                self.full = FULL;
                self.file.take_back(self.head)
            }
            Err(cause) => {
                tracing::warn!(cause, "the index could not be synced; journal and tail have all its changes");
                self.full = self.file.len + FULL;
                Ok(())
            }
        }
    }
}
