//! A file of lines as it is appended to: the journal, and its tail.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// Disk space allocated ahead of the end, bytes, so that a write does not run out of space halfway.
const AHEAD: u64 = 1 << 20;

/// A file of lines open for appending.
pub struct Appender {
    file: File,
    /// Bytes that count; a failed append may have left more.
    pub len: u64,
    allocated: u64,
    /// The file was truncated, and the disk does not know it yet.
    unsynced: bool,
}

impl Appender {
    /// Opens a file whose first `end` bytes are good, and truncates it there.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path, end: u64) -> io::Result<Self> {
        let mut appender = Self::new(OpenOptions::new().read(true).append(true).open(path)?, end);
        appender.take_back(end)?;
        Ok(appender)
    }

    /// A file of `len` bytes, opened for appending and synced.
    pub fn new(file: File, len: u64) -> Self {
        Self { file, len, allocated: len, unsynced: false }
    }

    /// Appends lines and waits until they are on the disk.
    ///
    /// # Errors
    /// What the system says. Then the file may hold the lines, whole or in part: the caller takes them back.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.allocate(lines.len() as u64)?;
        self.file.write_all(lines)?;
        self.file.sync_data()?;
        self.len += lines.len() as u64;
        Ok(())
    }

    /// Truncates to `len` bytes, durably. After an error it must be called again before anything is appended.
    ///
    /// # Errors
    /// What the system says.
    pub fn take_back(&mut self, len: u64) -> io::Result<()> {
        if self.unsynced {
            // The system reports a failed sync once: a change makes the next one write again.
            self.file.set_len(len + 1)?;
        }
        if self.file.metadata()?.len() != len {
            self.unsynced = true;
            self.file.set_len(len)?;
            self.allocated = len;
        }
        self.len = len;
        if self.unsynced {
            self.file.sync_data()?;
            self.unsynced = false;
        }
        Ok(())
    }

    /// Allocates disk space before it is needed.
    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        if self.len + bytes <= self.allocated {
            return Ok(());
        }
        let more = bytes + AHEAD;
        #[cfg(test)]
        super::tests::syscalls::before_fallocate(&self.file)?;
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.len, more) {
            Ok(()) => {
                self.allocated = self.len + more;
                Ok(())
            }
            // A file system that cannot: the write itself reports a full disk.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::FBIG) => Ok(()),
            Err(cause) => Err(cause.into()),
        }
    }
}
