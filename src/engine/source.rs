//! One open media file, and the only way to open one: the protection against path traversal.
//!
//! A request path becomes a file descriptor beneath its root in one `openat2` call; that descriptor is what is served,
//! probed and transcoded. Nothing else in the program opens request data.

use std::any::Any;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::domain::library::{Located, Root, forbidden, locate};
use crate::domain::sniff::{self, Sniffed};
use crate::error::{Code, Error, Result};

mod links;

/// The configured roots, opened once.
#[derive(Debug)]
pub struct Roots {
    roots: Vec<Root>,
    folders: Vec<OwnedFd>,
    /// Their paths without links, as they were at the start.
    real: Vec<PathBuf>,
}

/// One open regular file inside a root.
#[derive(Debug)]
pub struct Source {
    pub file: File,
    /// The one spelling of the path it was asked for by.
    pub path: String,
    /// Index of its root.
    pub root: usize,
    pub root_id: String,
    /// Relative to the root.
    pub relative: PathBuf,
    pub len: u64,
    pub modified: SystemTime,
    /// When its bytes, its name or its permissions last changed, seconds and nanoseconds: the one time no program sets.
    pub changed: (i64, i64),
    /// Device and inode, for identity.
    pub inode: (u64, u64),
    /// What the bytes are; None for what is no media.
    pub sniffed: Option<Sniffed>,
    /// Whether the kernel answers for this file without asking a network: only then may it be asked inline.
    pub local: bool,
    fingerprint: OnceLock<String>,
    made_of_it: OnceLock<Box<dyn Any + Send + Sync>>,
    /// A disk that is asleep: reading it for the fingerprint takes this long.
    #[cfg(test)]
    pub stall: Duration,
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
                #[allow(clippy::disallowed_methods, reason = "the roots the operator named")]
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

    /// Opens a request path as a media file beneath its root. Blocks on the file system.
    ///
    /// # Errors
    /// Those of [`Self::open_file`]; `UNSUPPORTED_MEDIA_TYPE` when its bytes are no media.
    pub fn open_media(&self, raw: &str) -> Result<Source> {
        let source = self.open_file(raw)?;
        if source.sniffed.is_none() {
            return Err(Error::new(Code::UnsupportedMediaType, "this file is not media"));
        }
        Ok(source)
    }

    /// Opens a request path as a regular file beneath its root, media or not. Blocks on the file system.
    ///
    /// # Errors
    /// `INVALID_PATH`, `FORBIDDEN` (outside the roots, symlinks included), `NOT_FOUND` (inside, but no such file) or
    /// `SOURCE_READ_FAILED`.
    pub fn open_file(&self, raw: &str) -> Result<Source> {
        let located = self.locate(raw)?;
        if located.folder {
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
        let sniffed = sniff::sniff(&mut Pieces(&file)).map_err(unreadable)?;
        Ok(Source {
            local: is_local(&file),
            sniffed,
            path: located.path,
            root: located.root,
            root_id: self.roots[located.root].id.clone(),
            relative: located.relative,
            len: meta.len(),
            modified: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            changed: (meta.ctime(), meta.ctime_nsec()),
            inode: (meta.dev(), meta.ino()),
            file,
            fingerprint: OnceLock::new(),
            made_of_it: OnceLock::new(),
            #[cfg(test)]
            stall: Duration::ZERO,
        })
    }

    /// Where a request path belongs.
    ///
    /// # Errors
    /// `INVALID_PATH`, `FORBIDDEN`.
    pub fn locate(&self, raw: &str) -> Result<Located> {
        locate(&self.roots, raw)
    }

    pub(super) fn open_beneath(&self, located: &Located, flags: OFlags) -> Result<OwnedFd> {
        let opened = match self.open_in(located.root, &located.relative, flags) {
            Err(Errno::XDEV) => {
                let (root, relative) = links::followed(self, located).ok_or_else(forbidden)?;
                self.open_in(root, &relative, flags)
            }
            opened => opened,
        };
        opened.map_err(|cause| match cause {
            Errno::XDEV | Errno::LOOP => forbidden(),
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

/// A file's bytes for the look at its head.
struct Pieces<'a>(&'a File);

impl sniff::Bytes for Pieces<'_> {
    type Error = io::Error;

    fn at(&mut self, offset: u64, most: usize) -> io::Result<Cow<'_, [u8]>> {
        if i64::try_from(offset).is_err() {
            return Ok(Cow::Borrowed(&[]));
        }
        let mut piece = vec![0; most];
        let filled = read_full(self.0, &mut piece, offset)?;
        piece.truncate(filled);
        Ok(Cow::Owned(piece))
    }
}

/// Reads until the buffer is full or the file ends.
fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(filled)
}

/// Whether a file lies on a file system of this machine (magic numbers: statfs(2)).
fn is_local(file: &File) -> bool {
    const NETWORKS: [u32; 9] = [
        0x6969,      // NFS
        0xff53_4d42, // CIFS
        0xfe53_4d42, // SMB2
        0x517b,      // SMB
        0x6573_5546, // FUSE, which may be anything
        0x0102_1997, // 9P
        0x00c3_6400, // Ceph
        0x5346_414f, // AFS
        0x7461_636f, // OCFS2
    ];
    rustix::fs::fstatfs(file).is_ok_and(|system| !NETWORKS.contains(&(system.f_type as u32)))
}

fn not_found() -> Error {
    Error::new(Code::NotFound, "no such file in the library")
}

impl Source {
    /// A path by which a child process or a demuxer of this process reaches this very file.
    pub fn proc_path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }

    /// The media type to serve it with.
    pub fn mime(&self) -> &'static str {
        self.sniffed.map_or("application/octet-stream", Sniffed::mime)
    }

    /// Whether the open file still is what it was and still has a name. Asks the file system.
    pub fn is_unchanged(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|now| {
            let modified = self.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
            now.st_nlink > 0
                && now.st_size as u64 == self.len
                && (now.st_mtime as u64, now.st_mtime_nsec as u32) == (modified.as_secs(), modified.subsec_nanos())
                && (now.st_ctime, now.st_ctime_nsec as i64) == self.changed
        })
    }

    /// Whether the open file still holds what it held, with a name or without. A file that only grew does: it is longer,
    /// and where it was sampled for its fingerprint it is what it was. The time of change is left out: a file that is
    /// renamed or deleted while it plays holds what it held. Asks the file system.
    pub fn holds_the_same(&self) -> bool {
        let Ok(now) = self.file.metadata() else { return false };
        match now.len().cmp(&self.len) {
            Ordering::Less => false,
            Ordering::Equal => now.modified().is_ok_and(|at| at == self.modified),
            Ordering::Greater => self.begins_as_before(),
        }
    }

    /// Whether the samples of the fingerprint are what they were; false where they were never taken.
    fn begins_as_before(&self) -> bool {
        let known = self.fingerprint.get();
        known.is_some_and(|known| self.sampled().is_ok_and(|now| now == *known))
    }

    /// Whether another opening led to the same file in the same state.
    pub fn is_same(&self, other: &Self) -> bool {
        let state = |one: &Self| (one.inode, one.len, one.modified, one.changed);
        state(self) == state(other)
    }

    /// Fills a buffer from what is in memory already, without waiting for a disk; None when something is not. A short
    /// count is the end of the file.
    ///
    /// # Errors
    /// What reading gives.
    pub fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        if !self.local {
            return Ok(None);
        }
        let mut filled = 0;
        while filled < buffer.len() {
            let mut into = [IoSliceMut::new(&mut buffer[filled..])];
            match rustix::io::preadv2(&self.file, &mut into, offset + filled as u64, ReadWriteFlags::NOWAIT) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(None),
                Err(cause) => return Err(cause.into()),
            }
        }
        Ok(Some(filled))
    }

    /// Whether a run of bytes is in memory, by a look at one byte in 128 KiB: the kernel reads ahead in such pieces.
    pub fn is_cached(&self, offset: u64, len: u64) -> bool {
        const STEP: u64 = 128 * 1024;
        let last = offset + len.max(1) - 1;
        let mut byte = [0];
        (offset..last)
            .step_by(STEP as usize)
            .chain([last])
            .all(|at| matches!(self.read_cached(&mut byte, at), Ok(Some(1))))
    }

    /// Brings a run of bytes into memory, waiting as long as it takes, and asks for what follows; gives how much of
    /// the run the file still has.
    ///
    /// # Errors
    /// What reading gives.
    pub fn warm_blocking(&self, offset: u64, len: u64) -> io::Result<u64> {
        self.announce(offset);
        let mut scratch = [0; 32 * 1024];
        let mut warm = 0;
        while warm < len {
            let most = scratch.len().min((len - warm) as usize);
            match read_full(&self.file, &mut scratch[..most], offset + warm)? {
                0 => break,
                n => warm += n as u64,
            }
        }
        Ok(warm)
    }

    /// Fills a buffer, waiting as long as it takes. A short count is the end of the file.
    ///
    /// # Errors
    /// What reading gives.
    pub fn read_blocking(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_full(&self.file, buffer, offset)
    }

    /// The same, and asks for what follows.
    ///
    /// # Errors
    /// What reading gives.
    pub fn read_ahead(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.announce(offset);
        read_full(&self.file, buffer, offset)
    }

    /// Asks the kernel to bring what lies from an offset on into memory.
    fn announce(&self, offset: u64) {
        const AHEAD: NonZeroU64 = NonZeroU64::new(4 << 20).expect("not zero");
        let _ = rustix::fs::fadvise(&self.file, offset, Some(AHEAD), rustix::fs::Advice::WillNeed);
    }

    /// The name without folders.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// What a room above made of this file once, for as long as it is open; there is one such thing.
    pub fn made_once<T: Any + Send + Sync>(&self, make: impl FnOnce(&Self) -> T) -> &T {
        let made = self.made_of_it.get_or_init(|| Box::new(make(self)));
        made.downcast_ref().expect("only one kind of thing is made of a file")
    }

    /// Strong validator (RFC 9110 section 8.8.3): changes whenever inode, length or modification time do.
    pub fn etag(&self) -> String {
        let modified = self.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        format!("\"{:x}-{:x}-{:x}\"", self.inode.1, self.len, modified.as_nanos())
    }

    /// The state of this file: differs after every write to it in place, also where the writer restores the modification
    /// time, and after a rename. What is made of a file is kept by this and the fingerprint; what a user did with it, by
    /// the fingerprint alone.
    pub fn version(&self) -> String {
        let modified = self.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let mut hasher = blake3::Hasher::new();
        for part in [self.inode.0, self.inode.1, self.len] {
            hasher.update(&part.to_le_bytes());
        }
        hasher.update(&modified.as_nanos().to_le_bytes());
        hasher.update(&self.changed.0.to_le_bytes());
        hasher.update(&self.changed.1.to_le_bytes());
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// The fingerprint, where it was computed already.
    pub fn known_fingerprint(&self) -> Option<&str> {
        self.fingerprint.get().map(String::as_str)
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
        #[cfg(test)]
        std::thread::sleep(self.stall);
        let name = self.sampled()?;
        Ok(self.fingerprint.get_or_init(|| name))
    }

    /// The fingerprint of the bytes up to the length known, as they are now.
    fn sampled(&self) -> std::io::Result<String> {
        const PIECE: u64 = 64 * 1024;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.len.to_le_bytes());
        let mut piece = vec![0; PIECE as usize];
        for at in [0, (self.len / 2).saturating_sub(PIECE / 2), self.len.saturating_sub(PIECE)] {
            let most = PIECE.min(self.len - at.min(self.len)) as usize;
            let filled = read_full(&self.file, &mut piece[..most], at)?;
            hasher.update(&piece[..filled]);
        }
        Ok(format!("f_{}", &hasher.finalize().to_hex()[..32]))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_grew_holds_what_it_held_and_one_that_was_written_over_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("growing.mkv");
        std::fs::write(&path, vec![7; 300_000]).unwrap();
        let roots = Roots::open(vec![Root { id: "films".into(), path: folder.path().to_owned() }]).unwrap();
        let source = roots.open_file(path.to_str().unwrap()).unwrap();
        let append = |bytes: &[u8]| {
            std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(bytes).unwrap();
        };
        source.fingerprint().unwrap();
        append(&[8; 1000]);
        assert!(source.holds_the_same() && !source.is_unchanged());
        std::fs::write(&path, vec![6; 400_000]).unwrap();
        assert!(!source.holds_the_same(), "longer, with another beginning");
        std::fs::write(&path, vec![7; 200_000]).unwrap();
        assert!(!source.holds_the_same(), "shorter");
    }
}
