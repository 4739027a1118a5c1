#![doc = include_str!("README.md")]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::{Notify, watch};

use crate::engine::folder::EntryTarget;
use crate::error::{Code, Error, Result};
use crate::store::Store;

mod albums;
mod artists;
mod artwork;
mod audio_groups;
mod book_parts;
mod books;
mod channel_items;
mod details;
mod idle;
mod index;
mod item;
mod next_up;
mod page;
mod playlists;
mod pool;
mod probing;
mod query;
mod record;
mod scan;
mod search;
mod seasons;
mod series;
mod series_index;
mod similar;
mod titles;
mod view;

pub use albums::{AlbumDetails, AlbumFilter, ListedAlbum};
pub use artists::ListedArtist;
pub use artwork::{Artwork, ArtworkSource, ArtworkVersions};
pub use audio_groups::AudioSummary;
pub use books::ListedBook;
pub use details::ItemDetails;
pub use idle::IdleTime;
pub use item::{ItemId, ListedItem, SeriesId};
pub use next_up::NextUp;
pub use page::Page;
pub use playlists::PlaylistSummary;
pub use query::{DEFAULT_LIMIT, ItemFilter, MAX_LIMIT, SortOrder};
pub use record::Technical;
pub use scan::start;
pub use search::{MAX_QUERY_BYTES, MAX_SEARCH_RESULTS, PersonResult, SearchResults};
pub use series::{SeasonDetails, SeriesDetails, SeriesSummary};

use index::CatalogueIndex;
use item::IndexedItem;

/// Folders that wait to be read; one more makes the watcher's next full scan find them again.
const MAX_PENDING_FOLDERS: usize = 500_000;

/// Files that are gone and whose length and time are remembered.
const MAX_GONE_FILES: usize = 20_000;

/// All items of the library.
pub struct Catalogue {
    store: Store,
    index: RwLock<CatalogueIndex>,
    pending: Mutex<PendingFolders>,
    work_arrived: Notify,
    /// Marked as changed after a change of items.
    items_changed: watch::Sender<()>,
    /// Whether the stored items were read.
    is_loaded: watch::Sender<bool>,
}

/// Folders that changed, and where the first scan of the roots is.
#[derive(Default)]
struct PendingFolders {
    folders: BTreeSet<Arc<str>>,
    /// Roots whose folders have all been reported once.
    reported_roots: HashSet<String>,
    /// The folder that is being read.
    reading: Option<Arc<str>>,
    /// Lengths and times of files that are gone, until no folder waits: a renamed one may be in a folder that does.
    gone: HashMap<ItemId, EntryTarget>,
}

impl Catalogue {
    pub fn new(store: Store) -> Self {
        Self {
            store,
            index: RwLock::default(),
            pending: Mutex::default(),
            work_arrived: Notify::new(),
            items_changed: watch::Sender::default(),
            is_loaded: watch::Sender::default(),
        }
    }

    /// Reads folders again, in the background: files in them were added, removed or changed.
    pub fn update_folders(&self, folders: impl IntoIterator<Item = impl Into<Arc<str>>>) {
        let mut pending = self.lock_pending();
        for folder in folders {
            if pending.folders.len() < MAX_PENDING_FOLDERS {
                pending.folders.insert(folder.into());
            }
        }
        drop(pending);
        self.work_arrived.notify_one();
    }

    /// Takes all folders of a root, after the watcher has read it for the first time. Folders that the catalogue knows from
    /// before are read as well, because they may be gone.
    pub fn update_root(&self, root: &str, folders: impl IntoIterator<Item = impl Into<Arc<str>>>) {
        self.lock_pending().reported_roots.insert(root.to_owned());
        self.update_folders(folders);
    }

    /// Takes a root that was removed: its items leave the catalogue, unless they are in another root.
    pub fn remove_root(&self, root: &str) {
        self.lock_pending().reported_roots.remove(root);
        let folders = self.read_index().all_folders_below(root);
        self.update_folders(folders);
    }

    /// The folders at or below a path that have items.
    pub fn known_folders(&self, path: &str) -> Vec<String> {
        self.read_index().folders_below(path)
    }

    /// The path of a folder, shared with the items in it.
    pub fn folder_path(&self, folder: &str) -> Arc<str> {
        self.read_index().folder_path(folder)
    }

    /// Waits until the stored items were read.
    pub async fn wait_until_loaded(&self) {
        // The sender is a part of this catalogue.
        let _ = self.is_loaded.subscribe().wait_for(|is_loaded| *is_loaded).await;
    }

    /// Whether every folder was read since the start, and no change waits.
    pub fn is_current(&self, root_count: usize) -> bool {
        let pending = self.lock_pending();
        let has_work = pending.reading.is_some() || !pending.folders.is_empty();
        *self.is_loaded.borrow() && pending.reported_roots.len() >= root_count && !has_work
    }

    /// Removes a file that is gone from the index; returns its item.
    fn remove(&self, folder: &str, name: &str) -> Option<ItemId> {
        let mut index = self.write_index();
        let version = index.file(folder, name).map(IndexedItem::version);
        let removed = index.remove(folder, name)?;
        drop(index);
        let mut pending = self.lock_pending();
        if pending.gone.len() < MAX_GONE_FILES {
            pending.gone.extend(version.map(|version| (removed, version)));
        }
        Some(removed)
    }

    fn lock_pending(&self) -> MutexGuard<'_, PendingFolders> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // After a panic while the lock was held, one item may be missing until its folder is read again.
    fn read_index(&self) -> RwLockReadGuard<'_, CatalogueIndex> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_index(&self) -> RwLockWriteGuard<'_, CatalogueIndex> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_item_error() -> Error {
    Error::new(Code::NotFound, "there is no such item in the library")
}

/// Parses the id of an item in a request.
///
/// # Errors
/// `NOT_FOUND` for a text that is no id.
pub fn parse_item_id(text: &str) -> Result<ItemId> {
    ItemId::parse(text).ok_or_else(no_item_error)
}

#[cfg(test)]
mod tests;
