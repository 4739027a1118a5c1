//! The newest changes a second time, in a file of its own. A change stands in the journal and here until the index that
//! holds it is on the disk as well: so bytes that are damaged in any one of the three lose nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::index::Index;
use super::journal::{self, Appender, Reading, Unreadable};

/// The file, in the journal's own layout.
pub const NAME: &str = "journal.tail";

/// From this length on it is begun anew, bytes.
const FULL: u64 = 16 << 20;

/// The tail as it is appended to.
pub struct Tail {
    file: Appender,
    head: u64,
    /// Length at which it is tried to begin anew: further away after a try that failed.
    full: u64,
}

/// Reads what stands there; empty when there is none.
///
/// # Errors
/// As of a journal.
pub fn read(dir: &Path) -> Result<Reading, Unreadable> {
    Ok(journal::read(&dir.join(NAME))?.unwrap_or_default())
}

impl Tail {
    /// Opens what was read, and begins it anew: journal and index hold what it says. When the index cannot be brought
    /// to the disk, as on one that is full, it goes on behind what is there.
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
        tail.restart(index, true);
        Ok(tail)
    }

    /// Appends lines and waits until they are on the disk. After an error none of them counts.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.append(lines)
    }

    /// Begins anew once it is long, or at once with `whatever`. What it held stands in the journal and, on the disk, in
    /// the index.
    pub fn restart(&mut self, index: &Index, whatever: bool) {
        if self.file.len <= self.head || !whatever && self.file.len < self.full {
            return;
        }
        match index.sync() {
            Ok(()) => {
                self.file.take_back(self.head);
                self.full = FULL;
            }
            Err(cause) => {
                tracing::warn!(cause, "the index could not be written out; the journal has everything, and its tail");
                self.full = self.file.len + FULL;
            }
        }
    }
}
