//! The library's root folders, and opening files beneath them.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{OpenFile, SourceFile, links, read_full};
use crate::domain::library::{LocatedPath, Root, locate, outside_roots_error};
use crate::domain::sniff;
use crate::error::{Code, Error, Result};

/// The configured roots, opened once.
#[derive(Debug)]
pub struct Roots {
    pub(super) roots: Vec<Root>,
    pub(super) root_fds: Vec<OwnedFd>,
    /// The roots' paths with symbolic links resolved, as they were at start-up.
    pub(super) canonical_paths: Vec<PathBuf>,
}

impl Roots {
    /// Opens every root folder.
    ///
    /// # Errors
    /// The first folder that cannot be opened, with its path.
    pub fn open(roots: Vec<Root>) -> std::io::Result<Self> {
        let root_fds = roots
            .iter()
            .map(|root| {
                #[allow(clippy::disallowed_methods, reason = "the configured roots")]
                rustix::fs::open(&root.path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                    .map_err(|cause| std::io::Error::other(format!("root {}: {cause}", root.path.display())))
            })
            .collect::<Result<_, _>>()?;
        let canonical_paths = roots.iter().map(|root| root.path.canonicalize()).collect::<Result<_, _>>()?;
        Ok(Self { roots, root_fds, canonical_paths })
    }

    pub fn list(&self) -> &[Root] {
        &self.roots
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
            file,
            fingerprint: OnceLock::new(),
            derived_value: OnceLock::new(),
            verified: Mutex::new(None),
            #[cfg(test)]
            read_delay: std::time::Duration::ZERO,
        })
    }

    /// Resolves a request path to a root and a relative path, without touching the file system.
    ///
    /// # Errors
    /// `INVALID_PATH`, `FORBIDDEN`.
    pub fn locate(&self, request_path: &str) -> Result<LocatedPath> {
        locate(&self.roots, request_path)
    }

    pub(in crate::engine) fn open_beneath(&self, located: &LocatedPath, flags: OFlags) -> Result<OwnedFd> {
        let open_in_root = |index: usize, relative: &Path| {
            let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            #[allow(clippy::disallowed_methods, reason = "the one place where request data is opened")]
            rustix::fs::openat2(self.root_fds[index].as_fd(), relative, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
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
