//! One open folder of a root: its entries, and what each entry is.

use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, OFlags};

use super::source::Roots;
use crate::domain::library::LocatedPath;
use crate::error::{Code, Error, Result};

/// Entries read of one folder; further ones are ignored.
const MAX_ENTRIES: usize = 100_000;

/// An open folder.
pub struct Folder<'a> {
    roots: &'a Roots,
    fd: OwnedFd,
    pub located: LocatedPath,
}

/// The target of a name; links are followed while they stay beneath the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryTarget {
    Folder,
    File { size_bytes: u64, modified: SystemTime },
}

/// The type of an entry as the folder lists it, without a stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryHint {
    Folder,
    File,
    /// A link, or the file system does not report types.
    Unknown,
}

impl Roots {
    /// Opens a request path as a folder beneath its root. Blocks on the file system.
    ///
    /// # Errors
    /// `INVALID_PATH`, `FORBIDDEN`, `NOT_FOUND`, `SOURCE_READ_FAILED`.
    pub fn open_folder(&self, request_path: &str) -> Result<Folder<'_>> {
        let located = self.locate(request_path)?;
        let fd = self.open_beneath(&located, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Folder { roots: self, fd, located })
    }

    /// The target of a request path; None if it does not exist, is outside the roots, or is neither file nor folder. Blocks
    /// on the file system.
    pub fn resolve_target(&self, request_path: &str) -> Option<EntryTarget> {
        self.resolve_target_beneath(&self.locate(request_path).ok()?)
    }

    fn resolve_target_beneath(&self, located: &LocatedPath) -> Option<EntryTarget> {
        let fd = self.open_beneath(located, OFlags::PATH).ok()?;
        let stat = rustix::fs::statat(fd, "", AtFlags::EMPTY_PATH).ok()?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Some(EntryTarget::Folder),
            FileType::RegularFile => {
                let since_epoch = Duration::new(u64::try_from(stat.st_mtime).unwrap_or(0), stat.st_mtime_nsec as u32);
                let modified = SystemTime::UNIX_EPOCH + since_epoch;
                Some(EntryTarget::File { size_bytes: stat.st_size as u64, modified })
            }
            _ => None,
        }
    }
}

impl Folder<'_> {
    /// Every name that is UTF-8 and not hidden, of folders, files and entries of unknown type.
    ///
    /// # Errors
    /// `SOURCE_READ_FAILED`.
    pub fn list_entries(&self) -> Result<Vec<(String, EntryHint)>> {
        let unreadable = |cause: rustix::io::Errno| {
            Error::new(Code::SourceReadFailed, "the folder could not be read").with_cause(cause)
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(unreadable)?.take(MAX_ENTRIES) {
            let entry = entry.map_err(unreadable)?;
            let hint = match entry.file_type() {
                FileType::Directory => EntryHint::Folder,
                FileType::RegularFile => EntryHint::File,
                FileType::Symlink | FileType::Unknown => EntryHint::Unknown,
                _ => continue,
            };
            match entry.file_name().to_str() {
                Ok(name) if !name.starts_with('.') => names.push((name.to_owned(), hint)),
                _ => {}
            }
        }
        Ok(names)
    }

    /// The target of a name; None if it disappeared, leaves the root or is neither file nor folder.
    pub fn resolve_entry(&self, name: &str) -> Option<EntryTarget> {
        let mut located = self.located.clone();
        located.relative_path.push(name);
        self.roots.resolve_target_beneath(&located)
    }
}
