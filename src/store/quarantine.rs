//! Quarantine: damaged files are moved to `damaged/`, so that people can examine them, and not deleted at once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Most files or folders in quarantine; the oldest is deleted first.
const MAX_KEPT: usize = 4;

/// Moves a file or folder of the state to `damaged/`; returns its new path.
pub fn move_away(dir: &Path, name: &str) -> io::Result<PathBuf> {
    let to = new_path(dir, name)?;
    fs::rename(dir.join(name), &to)?;
    Ok(to)
}

/// Keeps a copy of a file in `damaged/` (a hard link if possible), because a new file is about to replace it.
pub fn keep_copy(dir: &Path, name: &str) -> io::Result<PathBuf> {
    let to = new_path(dir, name)?;
    fs::hard_link(dir.join(name), &to).or_else(|_| fs::copy(dir.join(name), &to).map(drop))?;
    Ok(to)
}

fn new_path(dir: &Path, name: &str) -> io::Result<PathBuf> {
    let folder = dir.join("damaged");
    fs::create_dir_all(&folder)?;
    let mut entries: Vec<PathBuf> = fs::read_dir(&folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    for old in &entries[..entries.len().saturating_sub(MAX_KEPT - 1)] {
        let _ = if old.is_dir() { fs::remove_dir_all(old) } else { fs::remove_file(old) };
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(folder.join(format!("{:013}-{name}", now.as_millis())))
}
