//! The library's root folders, and opening files beneath them.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{OpenFile, SourceFile, links, read_full};
use crate::domain::library::{LocatedPath, Root, locate, outside_roots_error};
use crate::domain::media_folder::FolderKind;
use crate::domain::sniff;
use crate::error::{Code, Error, Result};

/// Roots that can be added to those of the start, in one process. A removed one counts, because its index is not used again.
const MAX_ADDED: usize = 256;

/// The roots: those of the start, and those added since. A root keeps its index while the process runs.
#[derive(Debug)]
pub struct Roots {
    slots: Box<[OnceLock<RootSlot>]>,
    /// Whether other machines send the same files.
    are_shared: bool,
}

#[derive(Debug)]
pub(super) struct RootSlot {
    pub root: Root,
    /// Its path with symbolic links resolved, as it was when the root was added.
    pub canonical_path: PathBuf,
    kind: Option<FolderKind>,
    is_removed: AtomicBool,
}

/// No more roots can be added until the process starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("media folders were added {MAX_ADDED} times since the start: restart the server to add more")]
pub struct TooManyRoots;

impl Roots {
    /// Checks that every root folder can be opened.
    ///
    /// # Errors
    /// The first folder that cannot be opened, with its path.
    pub fn open(roots: Vec<Root>) -> std::io::Result<Self> {
        let slots = (0..roots.len() + MAX_ADDED).map(|_| OnceLock::new()).collect();
        let opened = Self { slots, are_shared: false };
        for root in roots {
            let path = root.path.clone();
            let to_error = |cause: Errno| std::io::Error::other(format!("root {}: {cause}", path.display()));
            let index = opened.add(root, None).map_err(std::io::Error::other)?;
            opened.open_root(index).map_err(to_error)?;
        }
        Ok(opened)
    }

    /// Sets whether other machines send the same files: their ETags must be the same there, so they do not contain the inode.
    #[must_use]
    pub fn shared(self, are_shared: bool) -> Self {
        Self { are_shared, ..self }
    }

    /// Adds a root, whose folder may be missing; returns its index. Blocks on the file system.
    ///
    /// # Errors
    /// [`TooManyRoots`].
    pub fn add(&self, root: Root, kind: Option<FolderKind>) -> Result<usize, TooManyRoots> {
        let canonical_path = root.path.canonicalize().unwrap_or_else(|_| root.path.clone());
        let mut slot = RootSlot { root, canonical_path, kind, is_removed: AtomicBool::new(false) };
        for (index, place) in self.slots.iter().enumerate() {
            match place.set(slot) {
                Ok(()) => return Ok(index),
                Err(refused) => slot = refused,
            }
        }
        Err(TooManyRoots)
    }

    /// Removes a root: no path is in it any more. Files that are open stay open.
    pub fn remove(&self, index: usize) {
        if let Some(slot) = self.slots[index].get() {
            slot.is_removed.store(true, Ordering::Release);
        }
    }

    /// Whether a root was not removed.
    pub fn contains(&self, index: usize) -> bool {
        self.slot(index).is_some_and(|slot| !slot.is_removed.load(Ordering::Acquire))
    }

    /// Whether a folder is in a root, by its path or by the one without symbolic links.
    pub fn is_covered(&self, path: &Path, real_path: &Path) -> bool {
        self.slots().any(|(_, slot)| path.starts_with(&slot.root.path) || real_path.starts_with(&slot.canonical_path))
    }

    /// The roots that exist, with their indexes.
    pub fn list(&self) -> impl Iterator<Item = (usize, &Root)> {
        self.slots().map(|(index, slot)| (index, &slot.root))
    }

    /// A root by its index, also after it was removed.
    pub fn get(&self, index: usize) -> Option<&Root> {
        self.slot(index).map(|slot| &slot.root)
    }

    /// The name of a root by which the files in it are interpreted: that of its kind, otherwise of its folder.
    pub fn stated_name(&self, index: usize) -> Option<&str> {
        let slot = self.slot(index)?;
        let own = slot.root.path.file_name().and_then(|name| name.to_str());
        Some(slot.kind.map(FolderKind::folder_name).or(own).unwrap_or_default())
    }

    /// The content of a root, as an admin chose it.
    pub fn kind(&self, index: usize) -> Option<FolderKind> {
        self.slot(index)?.kind
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = (usize, &RootSlot)> {
        let slots = self.slots.iter().map_while(OnceLock::get).enumerate();
        slots.filter(|(_, slot)| !slot.is_removed.load(Ordering::Acquire))
    }

    pub(super) fn slot(&self, index: usize) -> Option<&RootSlot> {
        self.slots.get(index)?.get()
    }

    /// Opens a root folder by its path, every time: a descriptor that is kept would stay in the file system that was there
    /// first when the root's disk is mounted, unmounted or replaced, and would keep it from being unmounted.
    pub(super) fn open_root(&self, index: usize) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = self.get(index).ok_or(Errno::NOENT)?;
        #[allow(clippy::disallowed_methods, reason = "the roots")]
        rustix::fs::open(&root.path, flags, Mode::empty())
    }

    /// Opens a request path as a regular file beneath its root, media or not. Blocks on file I/O.
    ///
    /// # Errors
    /// `INVALID_PATH`, `FORBIDDEN` (outside the roots, also through a symbolic link), `NOT_FOUND` (inside a root, but no
    /// such file) or `SOURCE_READ_FAILED`.
    pub fn open_file(&self, request_path: &str) -> Result<SourceFile> {
        let located = self.locate(request_path)?;
        if located.has_trailing_slash {
            return Err(not_found_error());
        }
        let fd = self.open_beneath(&located, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let file = File::from(fd);
        let metadata = file.metadata().map_err(Error::internal)?;
        if !metadata.is_file() {
            return Err(not_found_error());
        }
        let read_error = |cause: io::Error| {
            Error::new(Code::SourceReadFailed, "the file could not be read")
                .with_cause(format!("{request_path}: {cause}"))
        };
        let format = sniff::detect_format(&mut FileHeadReader(&file)).map_err(read_error)?;
        let file = OpenFile::new(file, metadata.dev());
        Ok(SourceFile {
            is_local: file.is_local(),
            format,
            path: located.path,
            root_index: located.root_index,
            len: metadata.len(),
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            changed_at: (metadata.ctime(), metadata.ctime_nsec()),
            file_id: (metadata.dev(), metadata.ino()),
            is_shared: self.are_shared,
            file,
            fingerprint: OnceLock::new(),
            derived_value: OnceLock::new(),
            verified: Mutex::new(None),
            loopback: None,
            #[cfg(test)]
            read_delay: std::time::Duration::ZERO,
        })
    }

    /// Resolves a request path to a root and a relative path, without touching the file system.
    ///
    /// # Errors
    /// `INVALID_PATH`, `FORBIDDEN`.
    pub fn locate(&self, request_path: &str) -> Result<LocatedPath> {
        locate(self.list(), request_path)
    }

    pub(in crate::engine) fn open_beneath(&self, located: &LocatedPath, flags: OFlags) -> Result<OwnedFd> {
        let open_in_root = |index: usize, relative: &Path| {
            let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            #[allow(clippy::disallowed_methods, reason = "the one place where request data is opened")]
            rustix::fs::openat2(self.open_root(index)?, relative, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
        };
        let opened = match open_in_root(located.root_index, &located.relative_path) {
            Err(Errno::XDEV) => {
                let (root, relative) = links::resolve_links(self, located).ok_or_else(outside_roots_error)?;
                open_in_root(root, &relative)
            }
            opened => opened,
        };
        opened.map_err(|cause| match cause {
            Errno::XDEV | Errno::LOOP => outside_roots_error(),
            Errno::ACCESS | Errno::PERM => Error::new(Code::Forbidden, "the server may not read this file")
                .with_cause(format!("open {}: {cause}", located.path)),
            Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::NXIO | Errno::NAMETOOLONG | Errno::NODEV => {
                not_found_error()
            }
            other => Error::new(Code::SourceReadFailed, "the file could not be opened")
                .with_cause(format!("open {}: {other}", located.path)),
        })
    }
}

/// Reads a file's bytes for format detection.
struct FileHeadReader<'a>(&'a File);

impl sniff::ByteSource for FileHeadReader<'_> {
    type Error = io::Error;

    fn read_at(&mut self, offset: u64, most: usize) -> io::Result<Cow<'_, [u8]>> {
        if i64::try_from(offset).is_err() {
            return Ok(Cow::Borrowed(&[]));
        }
        let mut buffer = vec![0; most];
        let filled = read_full(self.0, &mut buffer, offset)?;
        buffer.truncate(filled);
        Ok(Cow::Owned(buffer))
    }
}

fn not_found_error() -> Error {
    Error::new(Code::NotFound, "no such file in the library")
}
