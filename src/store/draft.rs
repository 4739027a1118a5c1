//! A new journal, written beside the one in use and then put in its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::appender::Appender;
use super::tree::Tree;
use super::{journal, secret};

/// File name of a draft until it replaces the journal.
pub const FILE_NAME: &str = "journal.new";

/// A new journal that is being written.
pub struct Draft {
    file: BufWriter<File>,
    path: PathBuf,
    line_buffer: Vec<u8>,
    pub bytes: u64,
}

/// A new journal that is complete and synced, but not yet in place.
pub struct CompletedDraft {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl Draft {
    pub fn begin(dir: &Path) -> io::Result<Self> {
        let path = dir.join(FILE_NAME);
        secret::remove(&path)?;
        // Opened for appending, because the committer continues with this same file: after the rename no open can fail.
        let file = OpenOptions::new().create_new(true).read(true).append(true).mode(0o600).open(&path)?;
        let mut file = BufWriter::with_capacity(256 * 1024, file);
        let header = journal::header(journal::LAYOUT);
        file.write_all(header.as_bytes())?;
        Ok(Self { file, path, line_buffer: Vec::new(), bytes: header.len() as u64 })
    }

    pub fn add_record(&mut self, tree: Tree, key: &str, number: u64, json: Option<&[u8]>) -> io::Result<()> {
        self.line_buffer.clear();
        journal::write_line(&mut self.line_buffer, tree, key, number, json);
        self.bytes += self.line_buffer.len() as u64;
        self.file.write_all(&self.line_buffer)
    }

    /// Syncs the draft to disk.
    pub fn complete(self) -> io::Result<CompletedDraft> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(CompletedDraft { file, path: self.path, bytes: self.bytes })
    }

    /// Calls [`Self::complete`], then [`CompletedDraft::replace_journal`].
    pub fn complete_and_replace(self, dir: &Path) -> io::Result<()> {
        self.complete()?.replace_journal(dir).map(drop)
    }
}

impl CompletedDraft {
    /// Replaces the journal, durably, and returns the new one for appending.
    ///
    /// # Errors
    /// The system's error. Either journal may be in place then: the caller must reopen the state before it appends.
    pub fn replace_journal(self, dir: &Path) -> io::Result<Appender> {
        fs::rename(&self.path, dir.join("journal"))?;
        File::open(dir)?.sync_all()?;
        Ok(Appender::new(self.file, self.bytes))
    }
}
