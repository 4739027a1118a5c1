//! A file that lines are appended to: the journal or its tail.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// Disk space allocated past the end of the file, bytes, so that a write does not run out of space halfway.
const PREALLOCATED_BYTES: u64 = 1 << 20;

/// A file of lines open for appending.
pub struct Appender {
    file: File,
    /// Valid bytes; a failed append may have left more in the file.
    pub len: u64,
    allocated_bytes: u64,
    /// The file was truncated, but not synced yet.
    needs_sync: bool,
}

impl Appender {
    /// Opens a file whose first `valid_bytes` bytes are valid, and truncates it there.
    pub fn open(path: &Path, valid_bytes: u64) -> io::Result<Self> {
        let mut appender = Self::new(OpenOptions::new().read(true).append(true).open(path)?, valid_bytes);
        appender.truncate(valid_bytes)?;
        Ok(appender)
    }

    /// Wraps a synced file of `len` bytes, opened for appending.
    pub fn new(file: File, len: u64) -> Self {
        Self { file, len, allocated_bytes: len, needs_sync: false }
    }

    /// Appends lines and waits until they are on the disk.
    ///
    /// # Errors
    /// The system's error. The file may then contain the lines in whole or in part: the caller must call
    /// [`Self::truncate`].
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.allocate(lines.len() as u64)?;
        self.file.write_all(lines)?;
        self.file.sync_data()?;
        self.len += lines.len() as u64;
        Ok(())
    }

    /// Truncates to `len` bytes, durably. After an error it must be called again before anything is appended.
    pub fn truncate(&mut self, len: u64) -> io::Result<()> {
        if self.needs_sync {
            // The system reports a failed sync only once. Changing the length forces the next sync to write again.
            self.file.set_len(len + 1)?;
        }
        if self.file.metadata()?.len() != len {
            self.needs_sync = true;
            self.file.set_len(len)?;
            self.allocated_bytes = len;
        }
        self.len = len;
        if self.needs_sync {
            self.file.sync_data()?;
            self.needs_sync = false;
        }
        Ok(())
    }

    /// Allocates disk space before a write needs it.
    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        if self.len + bytes <= self.allocated_bytes {
            return Ok(());
        }
        let allocation = bytes + PREALLOCATED_BYTES;
        #[cfg(test)]
        super::tests::syscalls::before_fallocate(&self.file)?;
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.len, allocation) {
            Ok(()) => {
                self.allocated_bytes = self.len + allocation;
                Ok(())
            }
            // The file system cannot allocate ahead: the write itself reports a full disk.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::FBIG) => Ok(()),
            Err(cause) => Err(cause.into()),
        }
    }
}
