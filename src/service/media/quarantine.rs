//! Files that were being read in this process when it died.
//!
//! A demuxer in process can crash the whole server. So a mark is written for each file before it is read and removed
//! afterwards; a mark found at start is a strike against its file. Files with two strikes are read by child processes only
//! (one strike may have been a power cut). They are tried again after a month, or with another version of this program or of
//! GStreamer.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::engine::versions;
use crate::error::{Error, Result};

/// Marks at most; the oldest are removed.
const MAX_MARKS: usize = 10_000;
/// Strikes at which a file is no longer read in process.
const MAX_STRIKES: u32 = 2;
/// After this long without a strike a file gets another try.
const QUARANTINE_TIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Largest mark read, bytes.
const MAX_MARK_BYTES: u64 = 64 * 1024;

/// The marks: one small file each, named by fingerprint.
#[derive(Debug)]
pub struct Quarantine {
    folder: PathBuf,
    /// This program and the GStreamer it runs on.
    version: String,
    quarantined: HashSet<String>,
    /// Strikes of files that may still be read in process.
    strikes_by_file: HashMap<String, u32>,
    /// Number of current readers of each file.
    readers: Readers,
}

/// The content of a mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineEntry {
    pub path: String,
    /// How often the server crashed while it read this file, including this time.
    pub strikes: u32,
    pub at: Timestamp,
    pub version: String,
}

impl QuarantineEntry {
    fn is_quarantined(&self, version: &str, now: Timestamp) -> bool {
        let age = now.duration_since(self.at).unsigned_abs();
        self.strikes >= MAX_STRIKES && self.version == version && age < QUARANTINE_TIME
    }
}

type Readers = Arc<Mutex<HashMap<PathBuf, usize>>>;

/// A mark; dropping the last one of a file removes it.
#[derive(Debug)]
pub struct ReadingMark {
    file: PathBuf,
    readers: Readers,
}

impl Drop for ReadingMark {
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

/// The folder of the marks within the state folder.
pub fn marks_folder(state: &Path) -> PathBuf {
    state.join("reading")
}

/// The files that only child processes read, for diagnosis. Changes nothing. While the server runs, it may also list a file
/// that is being read at this moment after an earlier strike.
pub fn list_quarantined(folder: &Path) -> Vec<QuarantineEntry> {
    let now = Timestamp::now();
    let version = version();
    let quarantined = marks_by_age(folder)
        .into_iter()
        .filter_map(|(_, mark)| read_mark(&mark))
        .filter(|entry| entry.is_quarantined(&version, now));
    quarantined.collect()
}

fn version() -> String {
    format!("{}, GStreamer {}", env!("CARGO_PKG_VERSION"), versions::gstreamer_version())
}

/// The marks in a folder, the newest first.
fn marks_by_age(folder: &Path) -> Vec<(SystemTime, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let time = |entry: &std::fs::DirEntry| entry.metadata().and_then(|meta| meta.modified());
    let mut marks: Vec<_> = entries.map(|mark| (time(&mark).unwrap_or(SystemTime::UNIX_EPOCH), mark.path())).collect();
    marks.sort_by(|a, b| b.cmp(a));
    marks
}

fn read_mark(mark: &Path) -> Option<QuarantineEntry> {
    #[allow(clippy::disallowed_methods, reason = "a mark of our own, whose name comes from no request")]
    let file = std::fs::File::open(mark).ok()?;
    let meta = file.metadata().ok()?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(file, MAX_MARK_BYTES), &mut text).ok()?;
    let modified_at = meta.modified().ok().and_then(|at| Timestamp::try_from(at).ok()).unwrap_or_default();
    // Marks of the first versions contain only the path; one truncated by the crash contains less.
    Some(serde_json::from_str(&text).unwrap_or_else(|_| QuarantineEntry {
        path: text,
        strikes: 1,
        at: modified_at,
        version: String::new(),
    }))
}

impl Quarantine {
    /// Reads the marks that an earlier process left in `folder`, and logs them.
    pub fn open(folder: PathBuf) -> Result<Self> {
        Self::open_as(folder, version(), Timestamp::now())
    }

    fn open_as(folder: PathBuf, version: String, now: Timestamp) -> Result<Self> {
        std::fs::create_dir_all(&folder).map_err(|cause| Error::internal(format!("{}: {cause}", folder.display())))?;
        let (mut quarantined, mut strikes_by_file) = (HashSet::new(), HashMap::new());
        for (index, (_, mark)) in marks_by_age(&folder).into_iter().enumerate() {
            let name = mark.file_name().and_then(|name| name.to_str()).map(str::to_owned);
            let (Some(name), Some(entry), true) = (name, read_mark(&mark), index < MAX_MARKS) else {
                let _ = std::fs::remove_file(&mark);
                continue;
            };
            let age = now.duration_since(entry.at).unsigned_abs();
            if entry.is_quarantined(&version, now) {
                tracing::warn!(
                    media.path = entry.path,
                    strikes = entry.strikes,
                    "the server crashed while it read this file; it is no longer read in process"
                );
                quarantined.insert(name);
            } else if age >= QUARANTINE_TIME && entry.strikes < MAX_STRIKES {
                let _ = std::fs::remove_file(&mark);
            } else {
                tracing::warn!(
                    media.path = entry.path,
                    strikes = entry.strikes,
                    "the server crashed while it read this file; it is tried once more in process"
                );
                strikes_by_file.insert(name, entry.strikes.min(MAX_STRIKES - 1));
            }
        }
        Ok(Self { folder, version, quarantined, strikes_by_file, readers: Readers::default() })
    }

    /// Marks a file before it is read in process; None when it must not be read.
    pub fn mark_reading(&self, fingerprint: &str, path: &str) -> Option<ReadingMark> {
        if self.quarantined.contains(fingerprint) {
            return None;
        }
        let file = self.mark_path(fingerprint);
        let strikes = self.strikes_by_file.get(fingerprint).copied().unwrap_or(0) + 1;
        let entry =
            QuarantineEntry { path: path.to_owned(), strikes, at: Timestamp::now(), version: self.version.clone() };
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        // No flush: the page cache survives a crash of this process.
        std::fs::write(&file, serde_json::to_vec(&entry).ok()?).ok()?;
        *readers.entry(file.clone()).or_default() += 1;
        Some(ReadingMark { file, readers: self.readers.clone() })
    }

    fn mark_path(&self, fingerprint: &str) -> PathBuf {
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
        let first = quarantine.mark_reading("f", "/library/a.mkv").unwrap();
        drop(quarantine.mark_reading("f", "/library/a.mkv").unwrap());
        assert!(folder.path().join("f").exists());
        drop(first);
        assert!(!folder.path().join("f").exists());
    }

    #[test]
    fn two_strikes_keep_a_file_out_until_a_month_or_a_version_later() {
        let folder = tempfile::tempdir().unwrap();
        let start = |version: &str, days: i64| {
            let now = Timestamp::now() + jiff::SignedDuration::from_hours(24 * days);
            Quarantine::open_as(folder.path().join("reading"), version.to_owned(), now).unwrap()
        };
        let crash = |marks: Quarantine| std::mem::forget(marks.mark_reading("f_bad", "/library/bad.mkv").unwrap());
        drop(start("1", 0).mark_reading("f_good", "/library/good.mkv").unwrap());
        crash(start("1", 0));
        // A power cut looks the same and is one strike.
        crash(start("1", 0));
        assert!(start("1", 0).mark_reading("f_bad", "/other/bad.mkv").is_none(), "the path does not matter");
        assert!(start("1", 29).mark_reading("f_bad", "/library/bad.mkv").is_none(), "it lasts across restarts");
        assert!(start("1", 0).mark_reading("f_good", "/library/good.mkv").is_some());
        crash(start("2", 0));
        assert!(start("2", 0).mark_reading("f_bad", "/library/bad.mkv").is_none(), "another version gets one try");
        drop(start("2", 31).mark_reading("f_bad", "/library/bad.mkv").expect("one try after a month"));
        assert!(start("2", 31).strikes_by_file.is_empty(), "a file read to its end has no strike");
    }

    #[test]
    fn quarantined_files_are_listed_and_marks_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let quarantine = Quarantine::open(folder.path().to_owned()).unwrap();
            std::mem::forget(quarantine.mark_reading("f_bad", "/library/bad.mkv"));
        }
        std::fs::write(folder.path().join("f_old"), "/library/old.mkv").unwrap();
        std::fs::write(folder.path().join("f_torn"), "{\"path\":\"/lib").unwrap();
        let entries = list_quarantined(folder.path());
        let strikes: Vec<_> = entries.iter().map(|entry| (&*entry.path, entry.strikes)).collect();
        assert_eq!(strikes, [("/library/bad.mkv", 2)]);
        for number in 0..MAX_MARKS {
            std::fs::write(folder.path().join(format!("f_{number}")), "{}").unwrap();
        }
        let opened = Quarantine::open(folder.path().to_owned()).unwrap();
        assert!(opened.quarantined.len() + opened.strikes_by_file.len() <= MAX_MARKS);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), MAX_MARKS);
    }
}
