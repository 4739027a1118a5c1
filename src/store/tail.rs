//! The newest changes a second time, in a file of its own. A change is in the journal and here until the index that holds
//! it is on the disk as well: damaged bytes in any one of the three lose nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::appender::Appender;
use super::index::Index;
use super::journal::{self, Reading, Unreadable};

/// The file, in the journal's own layout.
pub const NAME: &str = "journal.tail";

/// Length at which it is begun anew, bytes.
const FULL: u64 = 16 << 20;

/// The tail as it is appended to.
pub struct Tail {
    file: Appender,
    head: u64,
    /// Length at which it is begun anew: greater after an attempt that failed.
    full: u64,
}

/// Reads the tail; empty when there is none.
///
/// # Errors
/// As of a journal.
pub fn read(dir: &Path) -> Result<Reading, Unreadable> {
    Ok(journal::read(&dir.join(NAME))?.unwrap_or_default())
}

impl Tail {
    /// Opens what was read, and begins it anew: journal and index hold what it says. When the index cannot be brought
    /// to the disk, as on one that is full, lines are appended to those that are there.
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

    /// Bytes that count.
    pub fn len(&self) -> u64 {
        self.file.len
    }

    /// Appends lines and waits until they are on the disk.
    ///
    /// # Errors
    /// As of [`Appender::append`].
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.append(lines)
    }

    /// As of [`Appender::take_back`].
    ///
    /// # Errors
    /// What the system says.
    pub fn take_back(&mut self, len: u64) -> io::Result<()> {
        self.file.take_back(len)
    }

    /// Begins anew once it is long, or at once with `always`. What it held is in the journal and, on the disk, in the
    /// index. An index that cannot be brought to the disk is no error: the tail grows.
    ///
    /// # Errors
    /// When it cannot be truncated: then nothing may be appended.
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
                tracing::warn!(cause, "the index could not be written out; the journal has everything, and its tail");
                self.full = self.file.len + FULL;
                Ok(())
            }
        }
    }
}
