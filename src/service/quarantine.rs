//! Files that were being read in this process when it died.
//!
//! A demuxer in process can take the whole server down. So each file leaves a mark before it is read and takes it
//! away after; a mark that is found at start belongs to a file that did not let it come to that, and it is never read
//! in process again. The mark stays, so that it holds over the next restart too.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Marks looked at when starting.
const MARKS: usize = 10_000;

/// Keeper of the marks: one small file each, named by fingerprint, holding the path for whoever looks.
#[derive(Debug)]
pub struct Quarantine {
    folder: PathBuf,
    held: HashSet<String>,
}

/// A mark; dropping it takes it away.
#[derive(Debug)]
pub struct Mark(PathBuf);

impl Drop for Mark {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Quarantine {
    /// Reads the marks a former process left in `folder`, and names them in the log.
    ///
    /// # Errors
    /// `INTERNAL` when the folder cannot be made or read.
    pub fn open(folder: PathBuf) -> Result<Self> {
        let fault = |cause| Error::internal(format!("{}: {cause}", folder.display()));
        std::fs::create_dir_all(&folder).map_err(fault)?;
        let mut held = HashSet::new();
        for entry in std::fs::read_dir(&folder).map_err(fault)?.flatten().take(MARKS) {
            let Ok(name) = entry.file_name().into_string() else { continue };
            #[allow(clippy::disallowed_methods, reason = "a mark of our own, named by nobody's request")]
            let path = std::fs::read_to_string(entry.path()).unwrap_or_default();
            tracing::warn!(
                media.path = path,
                "the server ended while it read this file; it is no longer read in process"
            );
            held.insert(name);
        }
        Ok(Self { folder, held })
    }

    /// Marks a file before it is read in process; None when it must not be.
    pub fn enter(&self, fingerprint: &str, path: &str) -> Option<Mark> {
        if self.held.contains(fingerprint) {
            return None;
        }
        let mark = self.mark(fingerprint);
        // No flush: what a crash of this process leaves in the page cache is not lost.
        std::fs::write(&mark, path).ok()?;
        Some(Mark(mark))
    }

    fn mark(&self, fingerprint: &str) -> PathBuf {
        self.folder.join(Path::new(fingerprint).file_name().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_left_behind_keeps_its_file_out() {
        let folder = tempfile::tempdir().unwrap();
        let first = Quarantine::open(folder.path().join("reading")).unwrap();
        drop(first.enter("f_good", "/library/good.mkv").unwrap());
        std::mem::forget(first.enter("f_bad", "/library/bad.mkv").unwrap());
        let second = Quarantine::open(folder.path().join("reading")).unwrap();
        assert!(second.enter("f_bad", "/elsewhere/bad.mkv").is_none());
        assert!(second.enter("f_good", "/library/good.mkv").is_some());
        let third = Quarantine::open(folder.path().join("reading")).unwrap();
        assert!(third.enter("f_bad", "/library/bad.mkv").is_none(), "it holds over the next restart");
    }
}
