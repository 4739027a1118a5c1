//! The two signing keys, current and previous, in a file of their own.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;

use super::random_bytes;
use crate::domain::signing::{SigningKey, parse_keys};
use crate::error::{Error, Result};
use crate::store::secret;

/// Keys that sign and verify: the first signs, all verify.
pub type Keys = Vec<SigningKey>;

fn keys_file(state: &Path) -> PathBuf {
    state.join("signing-keys")
}

/// Reads the keys, and creates the first one if the file is missing.
///
/// # Errors
/// `INTERNAL` when the file cannot be read or written, or has other content.
pub fn open(state: &Path) -> Result<Keys> {
    let path = keys_file(state);
    let file_error = |cause: &dyn std::fmt::Display| Error::internal(format!("{}: {cause}", path.display()));
    let Some(text) = secret::read(&path).map_err(|cause| file_error(&cause))? else {
        return write(state, vec![random_bytes()]);
    };
    parse_keys(&text)
        .filter(|keys| (1..=2).contains(&keys.len()))
        .ok_or_else(|| file_error(&"it must contain one or two keys"))
}

/// Creates a new current key; the previous one still verifies, older ones do not.
///
/// # Errors
/// As [`open`].
pub fn rotate(state: &Path) -> Result<Keys> {
    let previous = open(state)?[0];
    write(state, vec![random_bytes(), previous])
}

fn write(state: &Path, keys: Keys) -> Result<Keys> {
    let path = keys_file(state);
    let text: String = keys.iter().map(|key| HEXLOWER.encode(key) + "\n").collect();
    secret::write(&path, &text).map_err(|cause| Error::internal(format!("{}: {cause}", path.display())))?;
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_stay_until_rotated_and_one_previous_key_stays() {
        let dir = tempfile::tempdir().unwrap();
        let first = open(dir.path()).unwrap();
        assert_eq!(open(dir.path()).unwrap(), first);
        let mode = std::fs::metadata(keys_file(dir.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let second = rotate(dir.path()).unwrap();
        assert_eq!((second.len(), second[1]), (2, first[0]));
        let third = rotate(dir.path()).unwrap();
        assert_eq!(third[1], second[0]);
        assert_eq!(open(dir.path()).unwrap(), third);
        std::fs::write(keys_file(dir.path()), "abc").unwrap();
        assert!(open(dir.path()).is_err());
    }
}
