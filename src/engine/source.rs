//! One open media file, and the only way to open one: the protection against path traversal.
//!
//! A request path becomes a file descriptor beneath its root in one `openat2` call; that descriptor is what is served,
//! probed and transcoded. Nothing else in the program opens request data.

use std::any::Any;
use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use rustix::io::{Errno, ReadWriteFlags};

use crate::domain::sniff::Sniffed;

mod links;
mod open_file;
mod roots;

pub use open_file::OpenFile;
pub use roots::Roots;

/// One open regular file inside a root.
#[derive(Debug)]
pub struct Source {
    pub file: OpenFile,
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
    /// [`OpenFile::is_local`]: only then may its file system be asked inline.
    pub local: bool,
    fingerprint: OnceLock<String>,
    made_of_it: OnceLock<Box<dyn Any + Send + Sync>>,
    /// A disk that is asleep: reading it for the fingerprint takes this long.
    #[cfg(test)]
    pub stall: Duration,
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
    use crate::domain::library::Root;

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
