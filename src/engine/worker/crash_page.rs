//! The crash page: memory that a worker shares with the server, in which its signal handler records why it dies.
//!
//! The worker can write anything into it. It can only make itself look guilty or the death look external, and repeated
//! deaths that nothing explains count as well ([`crate::domain::worker::blame`]).

use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, Ordering};

use rustix::fs::MemfdFlags;

use crate::domain::worker::blame::SignalRecord;

/// Length of the page, bytes.
pub const PAGE_BYTES: usize = 4096;

/// Marks a record as complete.
const MAGIC: u32 = 0x4843_5243;

/// Length of a thread's name with its terminating zero (`PR_GET_NAME`).
pub const THREAD_NAME_BYTES: usize = 16;

/// The record as it lies at the beginning of the page. Atomic, because two processes use it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct CrashRecord {
    /// Set last.
    magic: AtomicU32,
    signal: AtomicI32,
    code: AtomicI32,
    sender: AtomicI32,
    thread: [AtomicU8; THREAD_NAME_BYTES],
}

const _: () = assert!(size_of::<CrashRecord>() <= PAGE_BYTES);

impl CrashRecord {
    /// Writes the record. Safe in a signal handler: stores only.
    pub fn write(&self, signal: i32, code: i32, sender: i32, thread: &[u8; THREAD_NAME_BYTES]) {
        self.signal.store(signal, Ordering::Relaxed);
        self.code.store(code, Ordering::Relaxed);
        self.sender.store(sender, Ordering::Relaxed);
        for (byte, value) in self.thread.iter().zip(thread) {
            byte.store(*value, Ordering::Relaxed);
        }
        self.magic.store(MAGIC, Ordering::Release);
    }
}

/// The server's handle of a worker's crash page.
#[derive(Clone, Debug)]
pub struct CrashPage {
    file: Arc<File>,
}

impl CrashPage {
    /// An empty page.
    ///
    /// # Errors
    /// Those of `memfd_create` and `ftruncate`.
    pub fn create() -> io::Result<Self> {
        let file = File::from(rustix::fs::memfd_create("crash-page", MemfdFlags::CLOEXEC)?);
        file.set_len(PAGE_BYTES as u64)?;
        Ok(Self { file: Arc::new(file) })
    }

    /// The file in memory to pass to the worker.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The record of the worker's death; None if its handler wrote none.
    pub fn read(&self) -> Option<SignalRecord> {
        // Not mapped: a worker that truncates the file causes a short read here, not a signal.
        let mut bytes = [0; size_of::<CrashRecord>()];
        self.file.read_exact_at(&mut bytes, 0).ok()?;
        let word = |at: usize| bytes[at..at + 4].try_into().map(u32::from_ne_bytes).unwrap_or(0);
        let number = |at: usize| word(at).cast_signed();
        if word(offset_of!(CrashRecord, magic)) != MAGIC {
            return None;
        }
        let name = &bytes[offset_of!(CrashRecord, thread)..][..THREAD_NAME_BYTES];
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let is_plain = |c: &char| !c.is_control();
        Some(SignalRecord {
            signal: number(offset_of!(CrashRecord, signal)),
            code: number(offset_of!(CrashRecord, code)),
            sender: number(offset_of!(CrashRecord, sender)),
            thread: String::from_utf8_lossy(name).chars().filter(is_plain).collect(),
        })
    }
}

/// Maps the crash page of this process for its whole life.
///
/// # Errors
/// Those of `fstat` and `mmap`; `InvalidInput` for a file that is shorter than a page.
pub fn map_for_process(page: impl AsFd) -> io::Result<&'static CrashRecord> {
    use rustix::mm::{MapFlags, ProtFlags};
    // A page past the end of its file would raise SIGBUS in the handler.
    let len = rustix::fs::fstat(&page)?.st_size;
    if usize::try_from(len).unwrap_or(0) < PAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "descriptor 3 is not a crash page"));
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses. It is never unmapped, aligned to a page, as long as the
    // record, and every value of its bytes is a valid record of atomic integers.
    unsafe {
        let address = rustix::mm::mmap(std::ptr::null_mut(), PAGE_BYTES, protection, MapFlags::SHARED, page, 0)?;
        Ok(&*address.cast::<CrashRecord>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_reads_what_the_worker_recorded() {
        let page = CrashPage::create().unwrap();
        let record = map_for_process(page.file()).unwrap();
        assert_eq!(page.read(), None, "nothing was recorded");
        record.write(11, 1, -7, b"queue0:src\0\x01\x02\x03\x04\x05");
        let expected = SignalRecord { signal: 11, code: 1, sender: -7, thread: "queue0:src".into() };
        assert_eq!(page.read(), Some(expected));
        record.write(6, -6, 4321, b"sixteen bytes \n!");
        let read = page.read().unwrap();
        assert_eq!((read.signal, read.code, read.sender), (6, -6, 4321));
        assert_eq!(read.thread, "sixteen bytes !", "without end, and without control characters");
    }

    #[test]
    fn an_incomplete_record_and_a_truncated_page_are_no_record() {
        let page = CrashPage::create().unwrap();
        let record = map_for_process(page.file()).unwrap();
        record.signal.store(11, Ordering::Relaxed);
        assert_eq!(page.read(), None, "the mark of a complete record is missing");
        record.write(11, 1, 0, &[0; THREAD_NAME_BYTES]);
        assert!(page.read().is_some());
        page.file().set_len(8).unwrap();
        assert_eq!(page.read(), None);
        assert!(map_for_process(page.file()).is_err());
    }
}
