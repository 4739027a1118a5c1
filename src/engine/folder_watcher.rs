//! Folders watched by the kernel (inotify). It reports nothing of what other machines do on a network mount, and the kernel
//! bounds the number of watches, so a caller must also scan the folders now and then.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use super::source::Roots;

/// Size of the buffer for events, bytes.
const EVENT_BUFFER_BYTES: usize = 16 * 1024;

/// The watched folders.
pub struct FolderWatcher {
    queue: AsyncFd<OwnedFd>,
    folders: HashMap<i32, String>,
    /// The kernel's limit is reached.
    is_limit_reached: bool,
}

/// Reported changes.
#[derive(Debug, PartialEq, Eq)]
pub enum FolderChanges {
    /// These folders.
    Folders(BTreeSet<String>),
    /// The kernel's event queue overflowed: any folder may have changed.
    Everything,
}

impl FolderWatcher {
    /// A watcher without folders. Must be called inside the runtime.
    ///
    /// # Errors
    /// The system's error; often that this user has too many inotify instances.
    pub fn new() -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        // SAFETY: the descriptor is open, is moved here, and is closed only when its new owner is dropped.
        let queue = unsafe { AsyncFd::register(queue)? };
        Ok(Self { queue, folders: HashMap::new(), is_limit_reached: false })
    }

    /// Watches one more folder of the library. Blocks on the file system for a moment. Once the kernel's limit is
    /// reached, this is logged and no further folder is tried.
    pub fn add_folder(&mut self, roots: &Roots, path: &str) {
        if self.is_limit_reached {
            return;
        }
        let Ok(located) = roots.locate(path) else { return };
        let Ok(folder) = roots.open_beneath(&located, OFlags::PATH | OFlags::DIRECTORY) else { return };
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ONLYDIR;
        // By its descriptor, so that the watched folder is the one opened beneath the root.
        let descriptor_path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        match inotify::add_watch(self.queue.get_ref(), descriptor_path.as_str(), flags) {
            Ok(id) => {
                self.folders.insert(id, path.to_owned());
            }
            Err(Errno::NOSPC) => {
                self.is_limit_reached = true;
                let watched = self.folders.len();
                tracing::warn!(
                    watched,
                    "no more folders can be watched (fs.inotify.max_user_watches): changes in others are found later"
                );
            }
            Err(cause) => tracing::debug!(media.path = path, %cause, "cannot watch a folder"),
        }
    }

    /// Waits for changes.
    ///
    /// # Errors
    /// The system's error.
    pub async fn next_changes(&mut self) -> io::Result<FolderChanges> {
        loop {
            let mut ready = self.queue.readable().await?;
            let mut folders = BTreeSet::new();
            let mut removed = Vec::new();
            let mut buffer = [MaybeUninit::uninit(); EVENT_BUFFER_BYTES];
            let mut events = Reader::new(self.queue.get_ref(), &mut buffer);
            loop {
                match events.next() {
                    Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                        return Ok(FolderChanges::Everything);
                    }
                    Ok(event) => {
                        folders.extend(self.folders.get(&event.wd()).cloned());
                        // The folder itself is gone; its watch number may be reused.
                        if event.events().contains(ReadFlags::IGNORED) {
                            removed.push(event.wd());
                        }
                    }
                    Err(Errno::AGAIN) => break,
                    Err(Errno::INTR) => {}
                    Err(cause) => return Err(cause.into()),
                }
            }
            ready.clear_ready();
            drop(ready);
            for id in removed {
                self.folders.remove(&id);
            }
            if !folders.is_empty() {
                return Ok(FolderChanges::Folders(folders));
            }
        }
    }
}
