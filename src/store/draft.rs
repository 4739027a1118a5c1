//! A journal being written, whole, beside the one in use.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::appender::Appender;
use super::journal;
use super::tree::Tree;

/// Its name until it replaces the journal.
pub const NAME: &str = "journal.new";

/// A journal being written.
pub struct Draft {
    file: BufWriter<File>,
    path: PathBuf,
    line: Vec<u8>,
    pub bytes: u64,
}

/// A journal that is complete and on the disk, and replaces nothing yet.
pub struct Complete {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl Draft {
    pub fn begin(dir: &Path) -> io::Result<Self> {
        let path = dir.join(NAME);
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        // Open for appending already: the committer goes on with this very file, so that no open can fail once it has
        // replaced the old journal.
        let file = OpenOptions::new().create_new(true).read(true).append(true).mode(0o600).open(&path)?;
        let mut file = BufWriter::with_capacity(256 * 1024, file);
        let head = journal::header(journal::LAYOUT);
        file.write_all(head.as_bytes())?;
        Ok(Self { file, path, line: Vec::new(), bytes: head.len() as u64 })
    }

    pub fn add(&mut self, tree: Tree, key: &str, number: u64, json: Option<&[u8]>) -> io::Result<()> {
        self.line.clear();
        journal::write(&mut self.line, tree, key, number, json);
        self.bytes += self.line.len() as u64;
        self.file.write_all(&self.line)
    }

    /// Brings it to the disk.
    pub fn complete(self) -> io::Result<Complete> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(Complete { file, path: self.path, bytes: self.bytes })
    }

    /// As [`Self::complete`] and [`Complete::replace`].
    pub fn finish(self, dir: &Path) -> io::Result<()> {
        self.complete()?.replace(dir).map(drop)
    }
}

impl Complete {
    /// Replaces the journal, durably, and gives it for appending.
    ///
    /// # Errors
    /// What the system says. Either journal may be in place then: the caller appends to none before it has opened the
    /// state again.
    pub fn replace(self, dir: &Path) -> io::Result<Appender> {
        fs::rename(&self.path, dir.join("journal"))?;
        File::open(dir)?.sync_all()?;
        Ok(Appender::new(self.file, self.bytes))
    }
}
