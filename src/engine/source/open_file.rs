//! An open file that closes without blocking its owner.
//!
//! A FUSE file system is called at every `close` (`FLUSH`), an NFS server at the last one. While such a disk hangs, so
//! does `close`: on an async thread it would block every request, and under a lock every file of the library.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A thread ends after this long without a file to close.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// A value to drop on another thread: a file, or a test's substitute.
type Closeable = Box<dyn Send>;

/// For each device that may hang, the thread that closes its files. Separate threads, so that devices do not wait for each
/// other.
static CLOSE_THREADS: Mutex<BTreeMap<u64, Sender<Closeable>>> = Mutex::new(BTreeMap::new());

/// An open file. Dropping it never waits for a network or FUSE file system.
#[derive(Debug)]
pub struct OpenFile {
    /// None only during drop.
    file: Option<File>,
    /// The device, if its `close` may block.
    blocking_device: Option<u64>,
}

impl OpenFile {
    /// A file on this device. Queries the type of the file system.
    pub fn new(file: File, device: u64) -> Self {
        let is_local = is_on_local_file_system(&file);
        Self::with_locality(file, device, is_local)
    }

    /// Like [`Self::new`], with the known answer of [`Self::is_local`].
    pub(super) fn with_locality(file: File, device: u64, is_local: bool) -> Self {
        Self { file: Some(file), blocking_device: (!is_local).then_some(device) }
    }

    /// Whether the kernel handles this file without a network or another process.
    pub fn is_local(&self) -> bool {
        self.blocking_device.is_none()
    }
}

/// Whether a file is on a file system of this machine (magic numbers: statfs(2)).
fn is_on_local_file_system(file: &File) -> bool {
    const NETWORK_FILE_SYSTEMS: [u32; 9] = [
        0x6969,      // NFS
        0xff53_4d42, // CIFS
        0xfe53_4d42, // SMB2
        0x517b,      // SMB
        0x6573_5546, // FUSE, which may hide a network
        0x0102_1997, // 9P
        0x00c3_6400, // Ceph
        0x5346_414f, // AFS
        0x7461_636f, // OCFS2
    ];
    rustix::fs::fstatfs(file).is_ok_and(|stats| !NETWORK_FILE_SYSTEMS.contains(&(stats.f_type as u32)))
}

impl Deref for OpenFile {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.as_ref().expect("the file is present until drop")
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.deref().as_fd()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if let (Some(file), Some(device)) = (self.file.take(), self.blocking_device) {
            close_on_thread(device, Box::new(file));
        }
    }
}

fn lock_threads() -> MutexGuard<'static, BTreeMap<u64, Sender<Closeable>>> {
    CLOSE_THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes a file to the thread of its device. Files queue there while the device hangs; the limit of open files bounds the
/// queue.
fn close_on_thread(device: u64, file: Closeable) {
    let unsent = {
        let mut threads = lock_threads();
        let unsent = match threads.get(&device) {
            Some(thread) => thread.send(file).err().map(|SendError(file)| file),
            None => Some(file),
        };
        unsent.and_then(|file| start_thread(&mut threads, device, file))
    };
    // If no thread can be started, it is closed here: blocking is better than leaking.
    drop(unsent);
}

/// Starts the thread of a device with its first file. Returns the file if no thread can be started.
fn start_thread(threads: &mut BTreeMap<u64, Sender<Closeable>>, device: u64, file: Closeable) -> Option<Closeable> {
    let (sender, files) = mpsc::channel();
    if thread::Builder::new().name("close".to_owned()).spawn(move || close_files(device, &files)).is_err() {
        return Some(file);
    }
    let unsent = sender.send(file).err().map(|SendError(file)| file);
    threads.insert(device, sender);
    unsent
}

fn close_files(device: u64, files: &Receiver<Closeable>) {
    loop {
        match files.recv_timeout(IDLE_TIMEOUT) {
            Ok(file) => drop(file),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                // Under the lock, so that no file is sent to a thread that has ended.
                let mut threads = lock_threads();
                let Ok(file) = files.try_recv() else {
                    threads.remove(&device);
                    return;
                };
                drop(threads);
                drop(file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::sync::mpsc::channel;

    const TEST_TIMEOUT: Duration = Duration::from_secs(60);

    /// A file on a device that hangs until it is released. On drop it reports whether it was.
    struct HangingFile {
        release: Receiver<()>,
        closed: Sender<bool>,
    }

    impl Drop for HangingFile {
        fn drop(&mut self) {
            let _ = self.closed.send(self.release.recv_timeout(TEST_TIMEOUT).is_ok());
        }
    }

    #[test]
    fn a_hanging_device_blocks_neither_the_caller_nor_other_devices() {
        let hanging_file = || {
            let ((releases, release), (closed, closes)) = (channel(), channel());
            (releases, closes, Box::new(HangingFile { release, closed }))
        };
        let (a, b) = (u64::MAX, u64::MAX - 1);
        let (release, first, file) = hanging_file();
        close_on_thread(a, file);
        let (release_next, second, file) = hanging_file();
        close_on_thread(a, file);
        let (release_other, other, file) = hanging_file();
        release_other.send(()).unwrap();
        close_on_thread(b, file);
        assert!(other.recv_timeout(TEST_TIMEOUT).unwrap(), "another device is not blocked");
        assert!(first.try_recv().is_err() && second.try_recv().is_err());
        release.send(()).unwrap();
        release_next.send(()).unwrap();
        assert!(first.recv_timeout(TEST_TIMEOUT).unwrap() && second.recv_timeout(TEST_TIMEOUT).unwrap());
    }

    #[test]
    fn a_file_on_a_blocking_device_is_closed_by_its_thread() {
        let device = u64::MAX - 2;
        let ((release, released), (closed, closes)) = (channel(), channel());
        close_on_thread(device, Box::new(HangingFile { release: released, closed }));
        let (mut reader, writer) = std::io::pipe().unwrap();
        drop(OpenFile { file: Some(File::from(OwnedFd::from(writer))), blocking_device: Some(device) });
        assert!(closes.try_recv().is_err());
        release.send(()).unwrap();
        assert!(closes.recv_timeout(TEST_TIMEOUT).unwrap(), "drop did not block");
        // The pipe ends once the file is closed.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
