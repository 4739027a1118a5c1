//! Folders watched by the kernel (inotify). It reports nothing of what other machines do on a network mount, and the kernel
//! bounds the number of watches, so a caller must also scan the folders now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use inotify::{EventMask, EventStream, Inotify, WatchMask};
use rustix::fs::OFlags;

use super::source::Roots;
use crate::domain::compact_map;

/// Size of the buffer for events, bytes.
const EVENT_BUFFER_BYTES: usize = 16 * 1024;

/// The watched folders.
pub struct FolderWatcher {
    events: EventStream<Vec<u8>>,
    folders: BTreeMap<i32, Arc<str>>,
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
        let events = Inotify::init()?.into_event_stream(vec![0; EVENT_BUFFER_BYTES])?;
        Ok(Self { events, folders: BTreeMap::new(), is_limit_reached: false })
    }

    /// Watches one more folder of the library. Blocks on the file system for a moment. Once the kernel's limit is
    /// reached, this is logged and no further folder is tried.
    pub fn add_folder(&mut self, roots: &Roots, path: &Arc<str>) {
        if self.is_limit_reached {
            return;
        }
        let Ok(located) = roots.locate(path) else { return };
        let Ok(folder) = roots.open_beneath(&located, OFlags::PATH | OFlags::DIRECTORY) else { return };
        let flags = WatchMask::CREATE
            | WatchMask::DELETE
            | WatchMask::MOVED_FROM
            | WatchMask::MOVED_TO
            | WatchMask::CLOSE_WRITE
            | WatchMask::ONLYDIR;
        // By its descriptor, so that the watched folder is the one opened beneath the root.
        let descriptor_path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        match self.events.watches().add(descriptor_path, flags) {
            Ok(watch) => {
                self.folders.insert(watch.get_watch_descriptor_id(), path.clone());
            }
            // ENOSPC
            Err(cause) if cause.kind() == io::ErrorKind::StorageFull => {
                self.is_limit_reached = true;
                let watched = self.folders.len();
                tracing::warn!(
                    watched,
                    "no more folders can be watched (fs.inotify.max_user_watches): changes in others are found later"
                );
            }
            Err(cause) => tracing::debug!(media.path = &**path, %cause, "cannot watch a folder"),
        }
    }

    /// Gives back memory that many new folders left unused.
    pub fn compact(&mut self) {
        compact_map(&mut self.folders);
    }

    /// Waits for changes.
    pub async fn next_changes(&mut self) -> io::Result<FolderChanges> {
        let mut folders = BTreeSet::new();
        loop {
            let next = if folders.is_empty() {
                self.events.next().await
            } else {
                // Events that are already queued are reported together.
                let Some(queued) = self.events.next().now_or_never() else {
                    return Ok(FolderChanges::Folders(folders));
                };
                queued
            };
            let event = next.ok_or(io::ErrorKind::UnexpectedEof)??;
            let id = event.wd.get_watch_descriptor_id();
            if event.mask.contains(EventMask::Q_OVERFLOW) {
                return Ok(FolderChanges::Everything);
            }
            // When the folder itself is gone, its watch number may be reused.
            let is_gone = event.mask.contains(EventMask::IGNORED);
            let folder = if is_gone { self.folders.remove(&id) } else { self.folders.get(&id).cloned() };
            folders.extend(folder.map(|folder| folder.to_string()));
        }
    }
}
