//! One open media file, and the only way to open one: the protection against path traversal.
//!
//! A request path becomes a file descriptor beneath its root in one `openat2` call; that descriptor is what is served,
//! probed and transcoded. Nothing else in the program opens request data.

use std::any::Any;
use std::cmp::Ordering;
use std::fs::{File, Metadata};
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::io::{Errno, ReadWriteFlags};

use crate::domain::sniff::FileFormat;

mod facts;
mod links;
mod open_file;
mod roots;

pub use open_file::OpenFile;
pub use roots::{Roots, TooManyRoots};

/// The beginning of the URL of a file that this program serves to its own child processes.
pub const LOOPBACK_PREFIX: &str = "http://127.0.0.1:";

/// One open regular file inside a root.
#[derive(Debug)]
pub struct SourceFile {
    pub file: OpenFile,
    /// The normalized form of the requested path.
    pub path: String,
    /// Index of its root; `usize::MAX` in a worker, which knows no roots.
    pub root_index: usize,
    pub len: u64,
    pub modified: SystemTime,
    /// Last change of content, name or permissions (`ctime`), seconds and nanoseconds. No program can set it directly.
    pub changed_at: (i64, i64),
    /// Device and inode; identifies the file.
    pub file_id: (u64, u64),
    /// Whether other machines send the same file, with the same ETag.
    is_shared: bool,
    /// The format of the bytes; None if this is not media, or if this is the file of a job in a worker.
    pub format: Option<FileFormat>,
    /// [`OpenFile::is_local`]. Only then may the file system be queried on an async thread.
    pub is_local: bool,
    fingerprint: OnceLock<String>,
    derived_value: OnceLock<Box<dyn Any + Send + Sync>>,
    /// Length and modification time of the grown file when its samples were last found unchanged.
    verified: Mutex<Option<(u64, SystemTime)>>,
    /// For a file of another machine: the loopback port and the path at which ffmpeg reads it. The descriptor is then an empty
    /// file of the same length.
    loopback: Option<(u16, String)>,
    /// Simulates a sleeping disk: reading for the fingerprint takes this long.
    #[cfg(test)]
    pub read_delay: Duration,
}

/// Fills buffers one after the other from an offset, as far as the file goes.
fn read_slices(
    file: &File,
    mut slices: &mut [IoSliceMut<'_>],
    offset: u64,
    flags: ReadWriteFlags,
) -> Result<usize, Errno> {
    let mut filled = 0;
    // Without the empty ones.
    IoSliceMut::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match rustix::io::preadv2(file, slices, offset + filled as u64, flags) {
            Ok(0) => break,
            Ok(count) => {
                filled += count;
                IoSliceMut::advance_slices(&mut slices, count);
            }
            Err(Errno::INTR) => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(filled)
}

/// Reads until the buffer is full or the file ends.
pub(super) fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    Ok(read_slices(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::empty())?)
}

impl SourceFile {
    /// A path by which a child process opens this very file; the URL of a file of another machine.
    pub fn proc_path(&self) -> String {
        match &self.loopback {
            Some((port, path)) => format!("{LOOPBACK_PREFIX}{port}/{path}"),
            None => format!("/proc/self/fd/{}", self.file.as_raw_fd()),
        }
    }

    /// The port at which a file of another machine is read; None for a file of this machine.
    pub fn loopback_port(&self) -> Option<u16> {
        self.loopback.as_ref().map(|(port, _)| *port)
    }

    /// The `Content-Type` to serve it with.
    pub fn mime(&self) -> &'static str {
        self.format.map_or("application/octet-stream", FileFormat::mime)
    }

    /// Whether the open file is unchanged and still has a name. Queries the file system.
    pub fn is_unchanged(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|now| {
            let modified = self.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
            now.st_nlink > 0
                && now.st_size as u64 == self.len
                && (now.st_mtime as u64, now.st_mtime_nsec as u32) == (modified.as_secs(), modified.subsec_nanos())
                && (now.st_ctime, now.st_ctime_nsec as i64) == self.changed_at
        })
    }

    /// Whether the open file still has the same content, with a name or without. A file that only grew counts as the same
    /// while the samples of its fingerprint are unchanged. `ctime` is ignored, because a file that is renamed or deleted
    /// while it plays keeps its content. Queries the file system, and reads the samples once after each growth.
    pub fn has_same_content(&self) -> bool {
        let Ok(now) = self.file.metadata() else { return false };
        self.compared(&now).unwrap_or_else(|| {
            let is_same = self.has_same_fingerprint();
            if is_same && let Ok(modified) = now.modified() {
                *self.verified.lock().unwrap_or_else(PoisonError::into_inner) = Some((now.len(), modified));
            }
            is_same
        })
    }

    /// Like [`Self::has_same_content`], without waiting for a disk or a network; None if that is not possible.
    pub fn holds_the_same_at_once(&self) -> Option<bool> {
        if !self.is_local {
            return None;
        }
        match self.file.metadata() {
            Ok(now) => self.compared(&now),
            Err(_) => Some(false),
        }
    }

    /// Whether a file in this state has the same content; None if its samples have to be read.
    fn compared(&self, now: &Metadata) -> Option<bool> {
        match now.len().cmp(&self.len) {
            Ordering::Less => Some(false),
            Ordering::Equal => Some(now.modified().is_ok_and(|modified| modified == self.modified)),
            Ordering::Greater if self.fingerprint.get().is_none() => Some(false),
            Ordering::Greater => {
                let verified = *self.verified.lock().unwrap_or_else(PoisonError::into_inner);
                let identity = (now.len(), now.modified().ok()?);
                (verified == Some(identity)).then_some(true)
            }
        }
    }

    /// Whether the samples of the fingerprint are unchanged; false if no fingerprint was computed.
    fn has_same_fingerprint(&self) -> bool {
        let cached = self.fingerprint.get();
        cached.is_some_and(|cached| self.compute_fingerprint().is_ok_and(|now| now == *cached))
    }

    /// Whether `other` is the same file in the same state.
    pub fn is_same_version(&self, other: &Self) -> bool {
        let state = |file: &Self| (file.file_id, file.len, file.modified, file.changed_at);
        state(self) == state(other)
    }

    /// Fills a buffer from the page cache, without waiting for a disk; None if some of the bytes are not cached. A short
    /// count means the end of the file.
    ///
    /// # Errors
    /// Those of `preadv2`.
    pub fn read_cached(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.read_slices_cached(&mut [IoSliceMut::new(buffer)], offset)
    }

    /// Like [`Self::read_cached`], into buffers one after the other.
    ///
    /// # Errors
    /// Those of `preadv2`.
    pub fn read_slices_cached(&self, slices: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<Option<usize>> {
        if !self.is_local {
            return Ok(None);
        }
        match read_slices(&self.file, slices, offset, ReadWriteFlags::NOWAIT) {
            Ok(filled) => Ok(Some(filled)),
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(None),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Whether a byte range is in the page cache. Checks one byte in 128 KiB, the unit of the kernel's read-ahead.
    pub fn is_cached(&self, offset: u64, len: u64) -> bool {
        const STEP: u64 = 128 * 1024;
        let last = offset + len.max(1) - 1;
        let mut byte = [0];
        let mut positions = (offset..last).step_by(STEP as usize).chain([last]);
        positions.all(|position| matches!(self.read_cached(&mut byte, position), Ok(Some(1))))
    }

    /// Reads a byte range into the page cache, blocking as long as that takes, and requests read-ahead. Returns how many
    /// bytes of the range the file has.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn warm_blocking(&self, offset: u64, len: u64) -> io::Result<u64> {
        self.request_read_ahead(offset);
        let mut scratch = [0; 32 * 1024];
        let mut warmed = 0;
        while warmed < len {
            let chunk_len = scratch.len().min((len - warmed) as usize);
            match read_full(&self.file, &mut scratch[..chunk_len], offset + warmed)? {
                0 => break,
                n => warmed += n as u64,
            }
        }
        Ok(warmed)
    }

    /// Fills a buffer, blocking as long as that takes. A short count means the end of the file.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn read_blocking(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_full(&self.file, buffer, offset)
    }

    /// Like [`Self::read_blocking`], into buffers one after the other, and requests read-ahead from the offset.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn read_ahead(&self, slices: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        self.request_read_ahead(offset);
        Ok(read_slices(&self.file, slices, offset, ReadWriteFlags::empty())?)
    }

    /// Requests read-ahead from an offset.
    fn request_read_ahead(&self, offset: u64) {
        const READ_AHEAD_BYTES: NonZeroU64 = NonZeroU64::new(4 << 20).expect("not zero");
        let _ = rustix::fs::fadvise(&self.file, offset, Some(READ_AHEAD_BYTES), rustix::fs::Advice::WillNeed);
    }

    /// The name without folders.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// A value that another room derives from this file once and that lives as long as the file is open. Only one type of
    /// value may be stored.
    pub fn get_or_derive<T: Any + Send + Sync>(&self, derive: impl FnOnce(&Self) -> T) -> &T {
        let value = self.derived_value.get_or_init(|| Box::new(derive(self)));
        value.downcast_ref().expect("only one type of value is derived from a file")
    }

    /// Strong validator (RFC 9110 section 8.8.3): changes with length or modification time and, unless other machines send
    /// the same file, with the inode.
    pub fn etag(&self) -> String {
        let modified = self.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let inode = if self.is_shared { 0 } else { self.file_id.1 };
        format!("\"{inode:x}-{:x}-{:x}\"", self.len, modified.as_nanos())
    }

    /// The state of this file: changes after every write in place, even if the writer restores the modification time, and
    /// after a rename. Data derived from a file is keyed by this and the fingerprint; what a user did with it, by the
    /// fingerprint alone.
    pub fn version(&self) -> String {
        let modified = self.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let mut hasher = blake3::Hasher::new();
        for part in [self.file_id.0, self.file_id.1, self.len] {
            hasher.update(&part.to_le_bytes());
        }
        hasher.update(&modified.as_nanos().to_le_bytes());
        hasher.update(&self.changed_at.0.to_le_bytes());
        hasher.update(&self.changed_at.1.to_le_bytes());
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// The fingerprint, if it was computed already.
    pub fn cached_fingerprint(&self) -> Option<&str> {
        self.fingerprint.get().map(String::as_str)
    }

    /// Identity by content: `f_` and 128 bits of BLAKE3 over length, head, middle and tail (64 KiB each). It survives
    /// renames and moves without reading the whole file.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn fingerprint(&self) -> std::io::Result<&str> {
        if let Some(fingerprint) = self.fingerprint.get() {
            return Ok(fingerprint);
        }
        #[cfg(test)]
        std::thread::sleep(self.read_delay);
        let fingerprint = self.compute_fingerprint()?;
        Ok(self.fingerprint.get_or_init(|| fingerprint))
    }

    /// Computes the fingerprint of the present bytes, up to the length at opening.
    fn compute_fingerprint(&self) -> std::io::Result<String> {
        const SAMPLE_BYTES: u64 = 64 * 1024;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.len.to_le_bytes());
        let mut buffer = vec![0; SAMPLE_BYTES as usize];
        for offset in [0, (self.len / 2).saturating_sub(SAMPLE_BYTES / 2), self.len.saturating_sub(SAMPLE_BYTES)] {
            let sample_len = SAMPLE_BYTES.min(self.len - offset.min(self.len)) as usize;
            let filled = read_full(&self.file, &mut buffer[..sample_len], offset)?;
            hasher.update(&buffer[..filled]);
        }
        Ok(format!("f_{}", &hasher.finalize().to_hex()[..32]))
    }
}

/// Opens a file of a test, with its folder as the only root.
#[cfg(test)]
pub fn open_in_test(path: &std::path::Path) -> SourceFile {
    let root = crate::domain::library::Root { id: "films".into(), path: path.parent().unwrap().to_owned() };
    Roots::open(vec![root]).unwrap().open_file(path.to_str().unwrap()).unwrap()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_grew_has_the_same_content_and_one_that_was_overwritten_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("growing.mkv");
        std::fs::write(&path, vec![7; 300_000]).unwrap();
        let mut source = open_in_test(&path);
        source.is_local = true;
        let append = |bytes: &[u8]| {
            std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(bytes).unwrap();
        };
        source.fingerprint().unwrap();
        append(&[8; 1000]);
        assert_eq!(source.holds_the_same_at_once(), None, "its samples were not read since");
        assert!(source.has_same_content() && !source.is_unchanged());
        assert_eq!(source.holds_the_same_at_once(), Some(true), "they are read once");
        append(&[8; 1000]);
        assert_eq!(source.holds_the_same_at_once(), None);
        std::fs::write(&path, vec![6; 400_000]).unwrap();
        assert!(!source.has_same_content(), "longer, with a different beginning");
        std::fs::write(&path, vec![7; 200_000]).unwrap();
        assert!(!source.has_same_content(), "shorter");
        assert_eq!(source.holds_the_same_at_once(), Some(false));
        source.is_local = false;
        assert_eq!(source.holds_the_same_at_once(), None, "a network may not answer");
    }
}
