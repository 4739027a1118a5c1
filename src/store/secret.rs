//! Small secret files of mode 0600: signing keys, the set-up code.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes `text` to a file of mode 0600, atomically and durably.
///
/// # Errors
/// The system's error.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let new_path = path.with_extension("new");
    match fs::remove_file(&new_path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new_path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new_path, path)?;
    File::open(folder)?.sync_all()
}

/// Reads the file's text; `None` when the file does not exist.
///
/// # Errors
/// The system's error.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Removes the file if it exists.
///
/// # Errors
/// The system's error.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
        _ => Ok(()),
    }
}
