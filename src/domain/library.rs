//! Roots, and where a request path belongs. Pure: opening is the engine's `source`.

use std::path::{Component, Path, PathBuf};

use crate::error::{Code, Error};

/// Longest request path, bytes (contract section 16).
pub const MAX_PATH_BYTES: usize = 4096;

/// A configured library folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Short stable name; media is addressed inside by (root id, relative path).
    pub id: String,
    /// Absolute path as configured; request paths are matched against it by components.
    pub path: PathBuf,
}

/// A request path inside a root, still unopened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Index into the roots.
    pub root: usize,
    /// Relative to the root; empty for the root itself.
    pub relative: PathBuf,
    /// As asked for.
    pub raw: String,
}

/// Finds the longest root that holds `raw`, by components.
///
/// # Errors
/// `INVALID_PATH` for what is no absolute path of 1 to 4,096 bytes without NUL; `FORBIDDEN` for every path outside
/// the roots and for every path with `..`, whether or not it exists.
pub fn locate(roots: &[Root], raw: &str) -> Result<Located, Error> {
    let invalid = |why: &str| Err(Error::new(Code::InvalidPath, format!("path {why}")));
    if raw.is_empty() {
        return invalid("is empty");
    }
    if raw.len() > MAX_PATH_BYTES {
        return invalid("is longer than 4096 bytes");
    }
    if raw.contains('\0') {
        return invalid("holds a NUL byte");
    }
    let path = Path::new(raw);
    if !path.is_absolute() {
        return invalid("is not absolute");
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(forbidden());
    }
    roots
        .iter()
        .enumerate()
        .filter_map(|(index, root)| Some((index, path.strip_prefix(&root.path).ok()?)))
        .min_by_key(|(_, relative)| relative.components().count())
        .map(|(root, relative)| Located { root, relative: relative.to_owned(), raw: raw.to_owned() })
        .ok_or_else(forbidden)
}

/// The one answer for everything outside the roots: it tells nothing of what exists there.
pub fn forbidden() -> Error {
    Error::new(Code::Forbidden, "path is outside the library roots")
}
