//! The library watched: files that come, go, change or move are noticed, at once where inotify reports them, and by a full
//! scan where it does not.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::engine::folder_watcher::{FolderChanges, FolderWatcher};
use crate::service::Service;
use crate::service::events::EventContent;

mod snapshot;

use snapshot::{RootChanges, RootSnapshot};

/// Interval of full scans, for network mounts and for events that inotify lost.
const SCAN_INTERVAL: Duration = Duration::from_secs(300);

/// How long changes are collected, so that a copy of many files is one change.
const GATHER_TIME: Duration = Duration::from_millis(400);

/// Folders in one event at most.
const MAX_REPORTED_FOLDERS: usize = 50;

/// Files and folders examined in one pass as possible new paths of moved items.
const MAX_CANDIDATES: usize = 500;

/// Watches every root in a task of its own, so that a dead disk does not delay the others; also roots that are added later.
pub fn start_watchers(service: &Arc<Service>) {
    service.tasks.spawn(watch_roots(service.clone()));
}

async fn watch_roots(service: Arc<Service>) {
    let mut changes = service.library.root_changes();
    let mut next = 0;
    loop {
        while service.library.roots().get(next).is_some() {
            service.tasks.spawn(watch_until_removed(service.clone(), next));
            next += 1;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Watches a root while it exists. Then its items leave the catalogue.
async fn watch_until_removed(service: Arc<Service>, root: usize) {
    let mut changes = service.library.root_changes();
    let removal = changes.wait_for(|()| !service.library.roots().contains(root));
    tokio::select! {
        () = watch_root(service.clone(), root) => return,
        _ = removal => {}
    }
    if let Some(removed) = service.library.roots().get(root) {
        service.catalogue.remove_root(&removed.path.to_string_lossy());
    }
}

async fn watch_root(service: Arc<Service>, root: usize) {
    let mut watcher = FolderWatcher::new()
        .inspect_err(|cause| tracing::warn!(%cause, "the library cannot be watched; only full scans find changes"))
        .ok();
    let Some(path) = service.library.roots().get(root).map(|root| &root.path) else { return };
    let top = path.to_string_lossy().into_owned();
    // The snapshot shares the paths of folders that the catalogue has.
    service.catalogue.wait_until_loaded().await;
    let mut snapshot = RootSnapshot::default();
    let mut stale: BTreeSet<String> = BTreeSet::from([top.clone()]);
    let (mut is_first, mut is_full_scan, mut last_full_scan) = (true, true, Instant::now());
    let mut reported_at: Option<Instant> = None;
    loop {
        let roots = service.library.roots().clone();
        let (started, state) = (Instant::now(), (snapshot, watcher));
        let items = service.progress.known_items().into_iter().chain(service.books.known_items());
        let sizes = items.map(|(_, _, size)| size).collect();
        let scanning = service.clone();
        let update = tokio::task::spawn_blocking(move || {
            let (mut snapshot, mut watcher) = state;
            let path_of = |folder: &str| scanning.catalogue.folder_path(folder);
            let mut changes = RootChanges::new(sizes);
            for folder in stale {
                snapshot.update(&roots, &folder, is_full_scan, &mut changes, &path_of, &mut |path| {
                    if let Some(watcher) = &mut watcher {
                        watcher.add_folder(&roots, path);
                    }
                });
            }
            if is_first {
                snapshot.compact();
                watcher.iter_mut().for_each(FolderWatcher::compact);
            }
            (snapshot, watcher, changes)
        });
        let Ok((updated, same_watcher, changes)) = update.await else { return };
        (snapshot, watcher) = (updated, same_watcher);
        if is_full_scan {
            last_full_scan = started;
            tracing::debug!(media.path = %top, files = snapshot.file_count(), duration_ms = started.elapsed().as_millis() as u64, "swept");
        }
        find_moved(&service, &snapshot, &changes, &top).await;
        if is_first {
            let known = service.catalogue.known_folders(&top).into_iter().map(Arc::from);
            service.catalogue.update_root(&top, changes.folders.iter().cloned().chain(known));
        } else {
            service.catalogue.update_folders(changes.folders.iter().cloned());
        }
        if !is_first && !changes.folders.is_empty() {
            let folders = changes.folders.iter().take(MAX_REPORTED_FOLDERS).map(|folder| folder.to_string()).collect();
            service.events.publish(None, EventContent::Library { folders });
            if let Some(reported_at) = reported_at {
                service.library_change_times.record(reported_at.elapsed());
            }
        }
        is_first = false;
        drop(changes);
        let next = wait_for_changes(&mut watcher, last_full_scan + SCAN_INTERVAL, &top).await;
        (stale, is_full_scan, reported_at) = (next.folders, next.is_full_scan, next.reported_at);
    }
}

/// The folders to read next.
struct StaleFolders {
    folders: BTreeSet<String>,
    is_full_scan: bool,
    /// When inotify reported the first of their changes; None if it reported none.
    reported_at: Option<Instant>,
}

/// Waits for the next folders to read.
async fn wait_for_changes(watcher: &mut Option<FolderWatcher>, due: Instant, top: &str) -> StaleFolders {
    let full_scan =
        || StaleFolders { folders: BTreeSet::from([top.to_owned()]), is_full_scan: true, reported_at: None };
    let Some(active) = watcher else {
        tokio::time::sleep_until(due).await;
        return full_scan();
    };
    let mut folders = BTreeSet::new();
    let (mut deadline, mut reported_at) = (due, None);
    loop {
        match timeout(deadline.saturating_duration_since(Instant::now()), active.next_changes()).await {
            Err(_) if folders.is_empty() => return full_scan(),
            Err(_) => return StaleFolders { folders, is_full_scan: false, reported_at },
            Ok(Ok(FolderChanges::Folders(more))) => {
                if folders.is_empty() {
                    let now = Instant::now();
                    (deadline, reported_at) = (now + GATHER_TIME, Some(now));
                }
                folders.extend(more);
            }
            Ok(Ok(FolderChanges::Everything)) => {
                tokio::time::sleep(GATHER_TIME).await;
                return full_scan();
            }
            Ok(Err(cause)) => {
                tracing::warn!(%cause, "the library is no longer watched; only full scans find changes");
                *watcher = None;
                tokio::time::sleep_until(due).await;
                return full_scan();
            }
        }
    }
}

/// Finds moved items with watch progress again, by content.
async fn find_moved(service: &Arc<Service>, snapshot: &RootSnapshot, changes: &RootChanges, top: &str) {
    let sizes: HashSet<u64> = changes.changed_files.iter().map(|(_, size)| *size).collect();
    if sizes.is_empty() && changes.new_folders.is_empty() {
        return;
    }
    let positions = service.progress.known_items().into_iter().chain(service.books.known_items());
    // Size 0 means a folder.
    let may_match = |size: u64| sizes.contains(&size) || size == 0 && !changes.new_folders.is_empty();
    let absent = positions.filter(|(_, path, size)| may_match(*size) && !snapshot.contains(path));
    let (here, others): (Vec<_>, Vec<_>) = absent.partition(|(_, path, _)| is_within(path, top));
    let exists = service.library.check_available(others.iter().map(|(_, path, _)| path.to_string()).collect()).await;
    let others = others.into_iter().zip(exists).filter(|(_, exists)| !exists).map(|(position, _)| position);
    let missing_items: HashMap<_, _> = here.into_iter().chain(others).map(|(id, _, size)| (id, size)).collect();
    let missing_sizes: HashSet<u64> = missing_items.values().copied().collect();

    let files = changes.changed_files.iter().filter(|(_, size)| missing_sizes.contains(size));
    for (path, _) in files.take(MAX_CANDIDATES) {
        let Ok(source) = service.library.open(path).await else { continue };
        let Ok(id) = service.media.fingerprint(&source).await else { continue };
        if missing_items.contains_key(&*id) {
            record_move(service, &id, path).await;
        }
    }
    let folders = changes.new_folders.iter().filter(|_| missing_sizes.contains(&0));
    for path in folders.take(MAX_CANDIDATES) {
        if let Ok((item, _)) = service.book_item(path).await
            && missing_items.contains_key(&*item.media_id)
        {
            record_move(service, &item.media_id, path).await;
        }
    }
}

/// Whether a path is inside a folder, not only beside it with a longer name.
fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

async fn record_move(service: &Service, id: &str, path: &str) {
    for collection in [&service.progress, &service.books] {
        if let Err(error) = collection.update_path(id, path).await {
            tracing::warn!(%error, media.path = path, "the new path of an item could not be stored");
        }
    }
    tracing::info!(media.id = id, media.path = path, "moved item found");
}

#[cfg(test)]
mod tests {
    use super::is_within;

    #[test]
    fn a_root_does_not_contain_its_neighbours_with_longer_names() {
        for (path, folder, expected) in [
            ("/media/tv/show/1.mkv", "/media/tv", true),
            ("/media/tv-archive/show/1.mkv", "/media/tv", false),
            ("/media/tv/show/1.mkv", "/media/tv/", true),
            ("/show/1.mkv", "/", true),
        ] {
            assert_eq!(is_within(path, folder), expected, "{path} in {folder}");
        }
    }
}
