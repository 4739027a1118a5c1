//! One open media file, and the only way to open one.
//!
//! A request path becomes a file descriptor beneath its root in one `openat2` call; that descriptor is what is served,
//! probed and transcoded. Nothing else in the program opens request data.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::domain::library::{Located, Root, forbidden, locate};
use crate::error::{Code, Error, Result};

/// The configured roots, opened once.
#[derive(Debug)]
pub struct Roots {
    roots: Vec<Root>,
    folders: Vec<OwnedFd>,
}

/// One open regular file inside a root.
#[derive(Debug)]
pub struct Source {
    pub file: File,
    /// The path as it was asked for.
    pub path: String,
    pub root_id: String,
    /// Relative to the root.
    pub relative: PathBuf,
    pub len: u64,
    pub modified: SystemTime,
    /// Device and inode, for identity.
    pub inode: (u64, u64),
    fingerprint: OnceLock<String>,
}

impl Roots {
    /// Opens every root folder.
    ///
    /// # Errors
    /// The first folder that cannot be opened, by name.
    pub fn open(roots: Vec<Root>) -> std::io::Result<Self> {
        let folders = roots
            .iter()
            .map(|root| {
                rustix::fs::open(&root.path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                    .map_err(|cause| std::io::Error::other(format!("root {}: {cause}", root.path.display())))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { roots, folders })
    }

    pub fn list(&self) -> &[Root] {
        &self.roots
    }

    /// Opens a request path as a regular file beneath its root.
    ///
    /// # Errors
    /// `INVALID_PATH`, `FORBIDDEN` (outside the roots, symlinks included) or `NOT_FOUND` (inside, but no such file).
    pub fn open_file(&self, raw: &str) -> Result<Source> {
        let located = locate(&self.roots, raw)?;
        let fd = self.open_beneath(&located, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let file = File::from(fd);
        let meta = file.metadata().map_err(Error::internal)?;
        if !meta.is_file() {
            return Err(not_found());
        }
        Ok(Source {
            path: located.raw,
            root_id: self.roots[located.root].id.clone(),
            relative: located.relative,
            len: meta.len(),
            modified: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            inode: (meta.dev(), meta.ino()),
            file,
            fingerprint: OnceLock::new(),
        })
    }

    /// Opens a request path as a folder beneath its root.
    pub fn open_folder(&self, raw: &str) -> Result<(Located, OwnedFd)> {
        let located = locate(&self.roots, raw)?;
        let fd = self.open_beneath(&located, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok((located, fd))
    }

    fn open_beneath(&self, located: &Located, flags: OFlags) -> Result<OwnedFd> {
        let folder = self.folders[located.root].as_fd();
        let relative = if located.relative.as_os_str().is_empty() { ".".as_ref() } else { located.relative.as_path() };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(folder, relative, flags | OFlags::CLOEXEC, Mode::empty(), resolve).map_err(|cause| {
            use rustix::io::Errno;
            match cause {
                Errno::XDEV | Errno::LOOP | Errno::ACCESS | Errno::PERM => forbidden(),
                Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::NXIO | Errno::NAMETOOLONG | Errno::NODEV => {
                    not_found()
                }
                other => Error::internal(format!("open {}: {other}", located.raw)),
            }
        })
    }
}

fn not_found() -> Error {
    Error::new(Code::NotFound, "no such file in the library")
}

impl Source {
    /// A path by which a child process or a demuxer of this process reaches this very file.
    pub fn proc_path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }

    /// The name without folders.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Strong validator (RFC 9110 section 8.8.3): changes whenever inode, length or modification time do.
    pub fn etag(&self) -> String {
        let modified = self.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        format!("\"{:x}-{:x}-{:x}\"", self.inode.1, self.len, modified.as_nanos())
    }

    /// Identity by content: `f_` and 128 bits of BLAKE3 over length, head, middle and tail (64 KiB each), so that it
    /// survives renames and moves without reading the whole file.
    ///
    /// # Errors
    /// What reading the file gives.
    pub fn fingerprint(&self) -> std::io::Result<&str> {
        if let Some(known) = self.fingerprint.get() {
            return Ok(known);
        }
        const PIECE: u64 = 64 * 1024;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.len.to_le_bytes());
        let mut piece = vec![0; PIECE as usize];
        for at in [0, (self.len / 2).saturating_sub(PIECE / 2), self.len.saturating_sub(PIECE)] {
            let mut filled = 0;
            while filled < piece.len() {
                match self.file.read_at(&mut piece[filled..], at + filled as u64)? {
                    0 => break,
                    n => filled += n,
                }
            }
            hasher.update(&piece[..filled]);
        }
        let name = format!("f_{}", &hasher.finalize().to_hex()[..32]);
        Ok(self.fingerprint.get_or_init(|| name))
    }
}
