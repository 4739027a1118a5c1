//! The library watched: files that come, go, change or move are noticed, at once where inotify reports them, and by a sweep
//! where it does not.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::engine::folder_watcher::{FolderChanges, FolderWatcher};
use crate::service::Service;
use crate::service::events::What;

mod snapshot;

use snapshot::{Changes, Snapshot};

/// Interval of full sweeps, for network mounts and for events that inotify lost.
const SWEEP: Duration = Duration::from_secs(300);

/// How long changes are collected, so that a copy of many files is one change.
const GATHER: Duration = Duration::from_millis(400);

/// Folders in one event at most.
const NAMED: usize = 50;

/// Files and folders examined in one pass as possible new paths of moved items.
const CANDIDATES: usize = 500;

/// Watches every root in a task of its own, so that a dead disk does not delay the others. Ends with the runtime.
pub fn start(service: &Arc<Service>) {
    for root in 0..service.roots.list().len() {
        tokio::spawn(watch(service.clone(), root));
    }
}

async fn watch(service: Arc<Service>, root: usize) {
    let mut watching = FolderWatcher::new()
        .inspect_err(|cause| tracing::warn!(%cause, "the library cannot be watched; changes are found by sweeps only"))
        .ok();
    let top = service.roots.list()[root].path.to_string_lossy().into_owned();
    let mut known = Snapshot::default();
    let mut stale: BTreeSet<String> = BTreeSet::from([top.clone()]);
    let (mut first, mut everything, mut swept) = (true, true, Instant::now());
    loop {
        let roots = service.roots.clone();
        let (begun, held) = (Instant::now(), (known, watching));
        let looking = tokio::task::spawn_blocking(move || {
            let (mut known, mut watching) = held;
            let mut changes = Changes::default();
            for folder in stale {
                known.look(&roots, &folder, everything, &mut changes, &mut |path| {
                    if let Some(watching) = &mut watching {
                        watching.add_folder(&roots, path);
                    }
                });
            }
            (known, watching, changes)
        });
        let Ok((looked, still, changes)) = looking.await else { return };
        (known, watching) = (looked, still);
        if everything {
            swept = begun;
            tracing::debug!(media.path = %top, files = known.files(), duration_ms = begun.elapsed().as_millis() as u64, "swept");
        }
        find_moved(&service, &known, &changes, &top).await;
        if !first && !changes.folders.is_empty() {
            let folders = changes.folders.into_iter().take(NAMED).collect();
            service.events.tell(None, What::Library { folders });
        }
        first = false;
        (stale, everything) = next(&mut watching, swept + SWEEP, &top).await;
    }
}

/// Waits for the next folders to read; true means a full sweep.
async fn next(watching: &mut Option<FolderWatcher>, sweep_at: Instant, top: &str) -> (BTreeSet<String>, bool) {
    let all = || (BTreeSet::from([top.to_owned()]), true);
    let Some(watch) = watching else {
        tokio::time::sleep_until(sweep_at).await;
        return all();
    };
    let mut folders = BTreeSet::new();
    let mut until = sweep_at;
    loop {
        match timeout(until.saturating_duration_since(Instant::now()), watch.next_changes()).await {
            Err(_) if folders.is_empty() => return all(),
            Err(_) => return (folders, false),
            Ok(Ok(FolderChanges::Folders(more))) => {
                if folders.is_empty() {
                    until = Instant::now() + GATHER;
                }
                folders.extend(more);
            }
            Ok(Ok(FolderChanges::Everything)) => {
                tokio::time::sleep(GATHER).await;
                return all();
            }
            Ok(Err(cause)) => {
                tracing::warn!(%cause, "the library is no longer watched; changes are found by sweeps only");
                *watching = None;
                tokio::time::sleep_until(sweep_at).await;
                return all();
            }
        }
    }
}

/// Finds moved items with watch progress again, by content.
async fn find_moved(service: &Arc<Service>, known: &Snapshot, changes: &Changes, top: &str) {
    let sizes: HashSet<u64> = changes.came.iter().map(|(_, size)| *size).collect();
    if sizes.is_empty() && changes.new_folders.is_empty() {
        return;
    }
    let places = service.progress.places().into_iter().chain(service.books.places());
    // Size 0 means a folder.
    let like = |size: u64| sizes.contains(&size) || size == 0 && !changes.new_folders.is_empty();
    let absent = places.filter(|(_, path, size)| like(*size) && !known.holds(path));
    let (here, elsewhere): (Vec<_>, Vec<_>) = absent.partition(|(_, path, _)| is_within(path, top));
    let there = service.available(elsewhere.iter().map(|(_, path, _)| path.to_string()).collect()).await;
    let elsewhere = elsewhere.into_iter().zip(there).filter(|(_, there)| !there).map(|(place, _)| place);
    let wanted: HashMap<Arc<str>, u64> = here.into_iter().chain(elsewhere).map(|(id, _, size)| (id, size)).collect();
    let wanted_sizes: HashSet<u64> = wanted.values().copied().collect();

    let files = changes.came.iter().filter(|(_, size)| wanted_sizes.contains(size));
    for (path, _) in files.take(CANDIDATES) {
        let Ok(source) = service.library.open(path).await else { continue };
        let Ok(id) = service.media.fingerprint(&source).await else { continue };
        if wanted.contains_key(&*id) {
            note(service, &id, path).await;
        }
    }
    let folders = changes.new_folders.iter().filter(|_| wanted_sizes.contains(&0));
    for path in folders.take(CANDIDATES) {
        if let Ok((item, _)) = service.book_item(path).await
            && wanted.contains_key(&*item.media_id)
        {
            note(service, &item.media_id, path).await;
        }
    }
}

/// Whether a path is inside a folder, not only beside it with a longer name.
fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

async fn note(service: &Service, id: &str, path: &str) {
    for kept in [&service.progress, &service.books] {
        if let Err(error) = kept.moved(id, path).await {
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
