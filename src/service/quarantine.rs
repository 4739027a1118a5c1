//! Files that were being read in this process when it died.
//!
//! A demuxer in process can take the whole server down. So each file leaves a mark before it is read and takes it
//! away after; a mark that is found at start belongs to a file that did not let it come to that, and it is never read
//! in process again. The mark stays, so that it holds over the next restart too.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};

/// Marks looked at when starting.
const MARKS: usize = 10_000;

/// Keeper of the marks: one small file each, named by fingerprint, holding the path for whoever looks.
#[derive(Debug)]
pub struct Quarantine {
    folder: PathBuf,
    held: HashSet<String>,
    /// How often each file is being read.
    readers: Readers,
}

type Readers = Arc<Mutex<HashMap<PathBuf, usize>>>;

/// A mark; dropping the last one of a file takes it away.
#[derive(Debug)]
pub struct Mark {
    file: PathBuf,
    readers: Readers,
}

impl Drop for Mark {
    fn drop(&mut self) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = readers.get_mut(&self.file) {
            *count -= 1;
            if *count == 0 {
                readers.remove(&self.file);
                let _ = std::fs::remove_file(&self.file);
            }
        }
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
        Ok(Self { folder, held, readers: Readers::default() })
    }

    /// Marks a file before it is read in process; None when it must not be.
    pub fn enter(&self, fingerprint: &str, path: &str) -> Option<Mark> {
        if self.held.contains(fingerprint) {
            return None;
        }
        let file = self.mark(fingerprint);
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        // No flush: what a crash of this process leaves in the page cache is not lost.
        std::fs::write(&file, path).ok()?;
        *readers.entry(file.clone()).or_default() += 1;
        Some(Mark { file, readers: self.readers.clone() })
    }

    fn mark(&self, fingerprint: &str) -> PathBuf {
        self.folder.join(Path::new(fingerprint).file_name().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_read_twice_is_marked_until_both_are_done() {
        let folder = tempfile::tempdir().unwrap();
        let quarantine = Quarantine::open(folder.path().to_owned()).unwrap();
        let first = quarantine.enter("f", "/library/a.mkv").unwrap();
        drop(quarantine.enter("f", "/library/a.mkv").unwrap());
        assert!(folder.path().join("f").exists());
        drop(first);
        assert!(!folder.path().join("f").exists());
    }

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
