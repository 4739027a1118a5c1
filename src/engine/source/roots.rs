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

use super::{OpenFile, Source, links, read_full};
use crate::domain::library::{LocatedPath, Root, outside_roots_error, locate};
use crate::domain::sniff;
use crate::error::{Code, Error, Result};

/// The configured roots, opened once.
#[derive(Debug)]
pub struct Roots {
    pub(super) roots: Vec<Root>,
    pub(super) folders: Vec<OwnedFd>,
    /// The roots' paths with symbolic links resolved, as they were at start-up.
    pub(super) real: Vec<PathBuf>,
}

impl Roots {
    /// Opens every root folder.
    ///
    /// # Errors
    /// The first folder that cannot be opened, with its path.
    pub fn open(roots: Vec<Root>) -> std::io::Result<Self> {
        let folders = roots
            .iter()
            .map(|root| {
                #[allow(clippy::disallowed_methods, reason = "the configured roots")]
                rustix::fs::open(&root.path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                    .map_err(|cause| std::io::Error::other(format!("root {}: {cause}", root.path.display())))
            })
            .collect::<Result<_, _>>()?;
        let real = roots.iter().map(|root| root.path.canonicalize()).collect::<Result<_, _>>()?;
        Ok(Self { roots, folders, real })
    }

    pub fn list(&self) -> &[Root] {
        &self.roots
    }

    /// Opens a request path as a media file beneath its root. Blocks on file I/O.
    ///
    /// # Errors
    /// Those of [`Self::open_file`]; `UNSUPPORTED_MEDIA_TYPE` if its bytes are not media.
    pub fn open_media(&self, raw: &str) -> Result<Source> {
        let source = self.open_file(raw)?;
        if source.sniffed.is_none() {
            return Err(Error::new(Code::UnsupportedMediaType, "this file is not media"));
        }
        Ok(source)
    }

    /// Opens a request path as a regular file beneath its root, media or not. Blocks on file I/O.
    ///
    /// # Errors
    /// `INVALID_PATH`, `FORBIDDEN` (outside the roots, also through a symbolic link), `NOT_FOUND` (inside a root, but no
    /// such file) or `SOURCE_READ_FAILED`.
    pub fn open_file(&self, raw: &str) -> Result<Source> {
        let located = self.locate(raw)?;
        if located.has_trailing_slash {
            return Err(not_found());
        }
        let fd = self.open_beneath(&located, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let file = File::from(fd);
        let meta = file.metadata().map_err(Error::internal)?;
        if !meta.is_file() {
            return Err(not_found());
        }
        let unreadable = |cause: io::Error| {
            Error::new(Code::SourceReadFailed, "the file could not be read").with_cause(format!("{raw}: {cause}"))
        };
        let sniffed = sniff::detect_format(&mut Pieces(&file)).map_err(unreadable)?;
        let file = OpenFile::new(file, meta.dev());
        Ok(Source {
            local: file.is_local(),
            sniffed,
            path: located.path,
            root: located.root_index,
            root_id: self.roots[located.root_index].id.clone(),
            relative: located.relative_path,
            len: meta.len(),
            modified: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            changed: (meta.ctime(), meta.ctime_nsec()),
            inode: (meta.dev(), meta.ino()),
            file,
            fingerprint: OnceLock::new(),
            made_of_it: OnceLock::new(),
            verified: Mutex::new(None),
            #[cfg(test)]
            stall: std::time::Duration::ZERO,
        })
    }

    /// Resolves a request path to a root and a relative path, without touching the file system.
    ///
    /// # Errors
    /// `INVALID_PATH`, `FORBIDDEN`.
    pub fn locate(&self, raw: &str) -> Result<LocatedPath> {
        locate(&self.roots, raw)
    }

    pub(in crate::engine) fn open_beneath(&self, located: &LocatedPath, flags: OFlags) -> Result<OwnedFd> {
        let opened = match self.open_in(located.root_index, &located.relative_path, flags) {
            Err(Errno::XDEV) => {
                let (root, relative) = links::followed(self, located).ok_or_else(outside_roots_error)?;
                self.open_in(root, &relative, flags)
            }
            opened => opened,
        };
        opened.map_err(|cause| match cause {
            Errno::XDEV | Errno::LOOP => outside_roots_error(),
            Errno::ACCESS | Errno::PERM => Error::new(Code::Forbidden, "the server may not read this file")
                .with_cause(format!("open {}: {cause}", located.path)),
            Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::NXIO | Errno::NAMETOOLONG | Errno::NODEV => {
                not_found()
            }
            other => Error::new(Code::SourceReadFailed, "the file could not be opened")
                .with_cause(format!("open {}: {other}", located.path)),
        })
    }

    fn open_in(&self, root: usize, relative: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let relative = if relative.as_os_str().is_empty() { ".".as_ref() } else { relative };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        #[allow(clippy::disallowed_methods, reason = "the one place where request data is opened")]
        rustix::fs::openat2(self.folders[root].as_fd(), relative, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    }
}

/// Reads a file's bytes for format detection.
struct Pieces<'a>(&'a File);

impl sniff::ByteSource for Pieces<'_> {
    type Error = io::Error;

    fn read_at(&mut self, offset: u64, most: usize) -> io::Result<Cow<'_, [u8]>> {
        if i64::try_from(offset).is_err() {
            return Ok(Cow::Borrowed(&[]));
        }
        let mut piece = vec![0; most];
        let filled = read_full(self.0, &mut piece, offset)?;
        piece.truncate(filled);
        Ok(Cow::Owned(piece))
    }
}

fn not_found() -> Error {
    Error::new(Code::NotFound, "no such file in the library")
}
