//! Small secret files of mode 0600: signing keys, the set-up code.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::if_exists;

/// Writes `text` to a file of mode 0600, atomically and durably.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let new_path = path.with_extension("new");
    remove(&new_path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new_path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new_path, path)?;
    File::open(folder)?.sync_all()
}

/// Reads the file's text; `None` when the file does not exist.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    if_exists(fs::read_to_string(path))
}

/// Removes the file if it exists.
pub fn remove(path: &Path) -> io::Result<()> {
    if_exists(fs::remove_file(path)).map(drop)
}
