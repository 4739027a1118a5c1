//! The tail: a second copy of the newest changes, in its own file. A change stays in journal and tail until the index that
//! contains it is on disk, so damage in any one of the three files loses nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::appender::Appender;
use super::index::Index;
use super::journal::{self, JournalContents, JournalError};

/// File name; the layout is that of the journal.
pub const FILE_NAME: &str = "journal.tail";

/// Length from which the tail is restarted, bytes.
const RESTART_BYTES: u64 = 16 << 20;

/// The tail, open for appending.
pub struct Tail {
    pub file: Appender,
    header_bytes: u64,
    /// Length from which the tail is restarted, bytes; raised after a failed attempt.
    restart_at_bytes: u64,
}

/// Reads the tail; empty when the file does not exist.
pub fn read(dir: &Path) -> Result<JournalContents, JournalError> {
    Ok(journal::read(&dir.join(FILE_NAME))?.unwrap_or_default())
}

impl Tail {
    /// Opens the tail and restarts it, because journal and index now contain its changes. If the index cannot be synced,
    /// as on a full disk, new lines are appended to the old ones.
    pub fn open(dir: &Path, contents: &JournalContents, index: &Index) -> io::Result<Self> {
        let header = journal::header(journal::LAYOUT);
        let header_bytes = header.len() as u64;
        if !contents.fault_offsets.is_empty() {
            tracing::error!(state = %dir.display(), damaged_lines = contents.fault_offsets.len(), "the journal's tail was damaged");
        }
        if contents.valid_bytes < header_bytes || !contents.fault_offsets.is_empty() {
            index.sync().map_err(io::Error::other)?;
            let mut options = OpenOptions::new();
            let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(dir.join(FILE_NAME))?;
            file.write_all(header.as_bytes())?;
            file.sync_all()?;
            File::open(dir)?.sync_all()?;
        }
        let end = if contents.fault_offsets.is_empty() { contents.valid_bytes.max(header_bytes) } else { header_bytes };
        let file = Appender::open(&dir.join(FILE_NAME), end)?;
        let mut tail = Self { file, header_bytes, restart_at_bytes: RESTART_BYTES };
        tail.restart(index, true)?;
        Ok(tail)
    }

    /// Empties the tail once it is long, or at once with `force`. The index is synced first, so its changes are still in
    /// two files. A failed sync of the index is not an error: the tail continues to grow.
    ///
    /// # Errors
    /// The tail cannot be truncated: then nothing may be appended.
    pub fn restart(&mut self, index: &Index, force: bool) -> io::Result<()> {
        if self.file.len <= self.header_bytes || !force && self.file.len < self.restart_at_bytes {
            return Ok(());
        }
        match index.sync() {
            Ok(()) => {
                self.restart_at_bytes = RESTART_BYTES;
                self.file.truncate(self.header_bytes)
            }
            Err(cause) => {
                tracing::warn!(cause, "the index could not be synced; journal and tail have all its changes");
                self.restart_at_bytes = self.file.len + RESTART_BYTES;
                Ok(())
            }
        }
    }
}
