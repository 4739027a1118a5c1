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
const IDLE: Duration = Duration::from_secs(10);

/// A value to drop on another thread: a file, or a test's substitute.
type Closing = Box<dyn Send>;

/// For each device that may hang, the thread that closes its files. Separate threads, so that devices do not wait for each
/// other.
static THREADS: Mutex<BTreeMap<u64, Sender<Closing>>> = Mutex::new(BTreeMap::new());

/// An open file. Dropping it never waits for a network or FUSE file system.
#[derive(Debug)]
pub struct OpenFile {
    /// None only during drop.
    file: Option<File>,
    /// The device, if its `close` may block.
    device: Option<u64>,
}

impl OpenFile {
    /// A file on this device. Queries the type of the file system.
    pub fn new(file: File, device: u64) -> Self {
        let device = (!is_local(&file)).then_some(device);
        Self { file: Some(file), device }
    }

    /// Whether the kernel handles this file without a network or another process.
    pub fn is_local(&self) -> bool {
        self.device.is_none()
    }
}

/// Whether a file is on a file system of this machine (magic numbers: statfs(2)).
fn is_local(file: &File) -> bool {
    const NETWORKS: [u32; 9] = [
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
    rustix::fs::fstatfs(file).is_ok_and(|system| !NETWORKS.contains(&(system.f_type as u32)))
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
        if let (Some(file), Some(device)) = (self.file.take(), self.device) {
            close(device, Box::new(file));
        }
    }
}

fn threads() -> MutexGuard<'static, BTreeMap<u64, Sender<Closing>>> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes a file to the thread of its device. Files queue there while the device hangs; the limit of open files bounds the
/// queue.
fn close(device: u64, file: Closing) {
    let unsent = {
        let mut threads = threads();
        let unsent = match threads.get(&device) {
            Some(thread) => thread.send(file).err().map(|SendError(file)| file),
            None => Some(file),
        };
        unsent.and_then(|file| begin(&mut threads, device, file))
    };
    // If no thread can be started, it is closed here: blocking is better than leaking.
    drop(unsent);
}

/// Starts the thread of a device with its first file. Returns the file if no thread can be started.
fn begin(threads: &mut BTreeMap<u64, Sender<Closing>>, device: u64, file: Closing) -> Option<Closing> {
    let (sender, files) = mpsc::channel();
    if thread::Builder::new().name("close".to_owned()).spawn(move || run(device, &files)).is_err() {
        return Some(file);
    }
    let unsent = sender.send(file).err().map(|SendError(file)| file);
    threads.insert(device, sender);
    unsent
}

fn run(device: u64, files: &Receiver<Closing>) {
    loop {
        match files.recv_timeout(IDLE) {
            Ok(file) => drop(file),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                // Under the lock, so that no file is sent to a thread that has ended.
                let mut threads = threads();
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

    const LONG: Duration = Duration::from_secs(60);

    /// A file on a device that hangs until it is released. On drop it reports whether it was.
    struct Hung {
        release: Receiver<()>,
        closed: Sender<bool>,
    }

    impl Drop for Hung {
        fn drop(&mut self) {
            let _ = self.closed.send(self.release.recv_timeout(LONG).is_ok());
        }
    }

    #[test]
    fn a_device_that_hangs_holds_up_neither_the_caller_nor_other_devices() {
        let hung = || {
            let ((releases, release), (closed, closes)) = (channel(), channel());
            (releases, closes, Box::new(Hung { release, closed }))
        };
        let (a, b) = (u64::MAX, u64::MAX - 1);
        let (release, first, file) = hung();
        close(a, file);
        let (release_next, second, file) = hung();
        close(a, file);
        let (release_other, other, file) = hung();
        release_other.send(()).unwrap();
        close(b, file);
        assert!(other.recv_timeout(LONG).unwrap(), "another device is not blocked");
        assert!(first.try_recv().is_err() && second.try_recv().is_err());
        release.send(()).unwrap();
        release_next.send(()).unwrap();
        assert!(first.recv_timeout(LONG).unwrap() && second.recv_timeout(LONG).unwrap());
    }

    #[test]
    fn a_file_of_such_a_device_is_closed_by_its_thread() {
        let device = u64::MAX - 2;
        let ((release, released), (closed, closes)) = (channel(), channel());
        close(device, Box::new(Hung { release: released, closed }));
        let (mut reader, writer) = std::io::pipe().unwrap();
        drop(OpenFile { file: Some(File::from(OwnedFd::from(writer))), device: Some(device) });
        assert!(closes.try_recv().is_err());
        release.send(()).unwrap();
        assert!(closes.recv_timeout(LONG).unwrap(), "drop did not block");
        // The pipe ends once the file is closed.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
