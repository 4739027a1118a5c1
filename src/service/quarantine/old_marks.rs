//! Marks of versions before 0.3.0: a small file for each media file that the server process was reading.
//!
//! A mark left by a crash counted against its file. Workers need no marks, because the server survives their crashes.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;

/// Marks read at most.
const MAX_MARKS: usize = 10_000;
/// Largest mark read, bytes.
const MAX_MARK_BYTES: u64 = 64 * 1024;
/// Crashes after which the server process no longer read a file.
const MAX_STRIKES: u32 = 2;

#[derive(Deserialize)]
struct Mark {
    path: String,
    strikes: u32,
}

/// Removes the marks in the state folder. Files that were in quarantine are logged: workers read them again.
pub fn remove_old_marks(state: &Path) {
    let folder = state.join("reading");
    let Ok(marks) = std::fs::read_dir(&folder) else { return };
    for mark in marks.flatten().take(MAX_MARKS).filter_map(|mark| read_mark(&mark.path())) {
        if mark.strikes >= MAX_STRIKES {
            let message = "this file crashed an earlier version of the server; a worker reads it now";
            tracing::warn!(media.path = mark.path, strikes = mark.strikes, "{message}");
        }
    }
    if let Err(fault) = std::fs::remove_dir_all(&folder) {
        tracing::warn!(folder = %folder.display(), %fault, "old marks could not be removed");
    }
}

/// None for a mark that the crash truncated, and for those of the first versions, which contain only the path.
fn read_mark(path: &Path) -> Option<Mark> {
    #[allow(clippy::disallowed_methods, reason = "a mark of our own, whose name comes from no request")]
    let file = std::fs::File::open(path).ok()?;
    let mut text = String::new();
    file.take(MAX_MARK_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_once_and_removed_with_their_folder() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join("reading");
        std::fs::create_dir(&folder).unwrap();
        let mark = folder.join("f_bad");
        let text = r#"{"path":"/library/bad.mkv","strikes":2,"at":"2026-11-22T10:00:00Z","version":"0.2.0"}"#;
        std::fs::write(&mark, text).unwrap();
        std::fs::write(folder.join("f_torn"), "{\"path\":\"/lib").unwrap();
        std::fs::write(folder.join("f_old"), "/library/old.mkv").unwrap();
        let read = read_mark(&mark).unwrap();
        assert_eq!((&*read.path, read.strikes), ("/library/bad.mkv", 2));
        assert!(read_mark(&folder.join("f_torn")).is_none() && read_mark(&folder.join("f_old")).is_none());
        remove_old_marks(state.path());
        assert!(!folder.exists());
        remove_old_marks(state.path());
        assert!(state.path().exists());
    }
}
