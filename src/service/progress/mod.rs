//! Watch progress and watch history: saved durably, listed from memory, sent to event streams.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jiff::{SignedDuration, Timestamp};

use crate::domain::progress::{self, ProgressItem, ProgressRecord, ProgressSave, SaveResult};
use crate::error::{Code, Error, Result};
use crate::service::clock::{Clock, FutureTimeGuard};
use crate::service::events::{EventContent, Events};
use crate::store::{Batch, Edit, Store, Tree};

pub mod audiobook;
mod book_files;
mod by_path;
mod index;
#[cfg(test)]
mod tests;

pub use index::{HistoryFilter, ItemProgress};

use index::HistoryIndex;

/// Number of locks for records. Records of different items may change at once; changes to one item wait for each other.
const LOCK_COUNT: usize = 64;

/// Start of the ids of folders. A folder gets another id when it gains or loses a file.
const FOLDER_ID_PREFIX: &str = "b_";

/// How long a reset is remembered, so that late saves from other devices do not undo it.
const RESET_RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);

/// One page of a list.
pub struct HistoryPage<T> {
    pub entries: Vec<T>,
    pub total: usize,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Stores the progress records of one kind: media, or audiobooks.
pub struct ProgressStore {
    store: Store,
    clock: Clock,
    tree: Tree,
    events: Arc<Events>,
    index_by_user: RwLock<HashMap<String, HistoryIndex>>,
    item_locks: Vec<tokio::sync::Mutex<()>>,
    future_time_guard: FutureTimeGuard,
}

/// Keys of records that need cleanup.
#[derive(Default)]
struct CleanupKeys {
    expired: Vec<String>,
    ahead_of_clock: Vec<String>,
}

impl ProgressStore {
    /// Reads all records.
    pub fn open(store: Store, tree: Tree, clock: Clock, events: Arc<Events>) -> Result<Self> {
        let mut users: HashMap<String, HistoryIndex> = HashMap::new();
        store.for_each(tree, |key, record: ProgressRecord| {
            if let Some((user, _)) = key.split_once('/') {
                users.entry(user.to_owned()).or_default().put(&record);
            }
        })?;
        let item_locks = (0..LOCK_COUNT).map(|_| tokio::sync::Mutex::default()).collect();
        Ok(Self {
            store,
            clock,
            tree,
            events,
            index_by_user: RwLock::new(users),
            item_locks,
            future_time_guard: FutureTimeGuard::default(),
        })
    }

    /// A user's record of an item; None if it was never started or was reset.
    pub fn record(&self, user_id: &str, media_id: &str) -> Result<Option<ProgressRecord>> {
        let stored: Option<ProgressRecord> = self.store.get(self.tree, &record_key(user_id, media_id))?;
        Ok(stored.filter(|record| !record.is_reset))
    }

    /// A user's record of the item last seen at a path; for paths whose file is gone.
    pub fn record_at_path(&self, user_id: &str, path: &str) -> Result<Option<ProgressRecord>> {
        let id = self.read_index().get(user_id).and_then(|index| index.item_at_path(path).cloned());
        id.map_or(Ok(None), |id| self.record(user_id, &id))
    }

    /// Merges a save of an item into the stored record: locks the item, reads its record, and makes the merged one durable
    /// and known to lists and event streams. `is_user` is checked while the item is locked, because the user may have been
    /// removed since the request was admitted.
    ///
    /// # Errors
    /// `UNAUTHORIZED` if the user was removed; `STORAGE_FULL` if it could not be made durable; `INTERNAL` if the stored record
    /// cannot be read.
    pub async fn save(
        &self,
        user_id: &str,
        mut item: ProgressItem,
        save: ProgressSave,
        is_user: impl Fn(&str) -> bool,
    ) -> Result<SaveResult> {
        let _item_lock = self.item_lock(user_id, &item.media_id).lock().await;
        if !is_user(user_id) {
            let removed = Error::new(Code::Unauthorized, "the user was removed");
            return Err(removed.with_header("www-authenticate", "Bearer error=\"invalid_token\""));
        }
        if is_folder_id(&item.media_id) {
            item.media_id = self.current_folder_id(user_id, &item.media_id, &item.path)?;
        }
        let key = record_key(user_id, &item.media_id);
        let stored: Option<ProgressRecord> = self.store.get(self.tree, &key)?;
        let result = progress::merge_save(stored.as_ref(), &item, save, self.now());
        if let SaveResult::Applied(record) = &result {
            self.store.write(Edit::put(self.tree, &key, record)?).await?;
            self.write_index().entry(user_id.to_owned()).or_default().put(record);
            self.events.publish(Some(user_id), EventContent::Progress(Box::new(record.clone())));
        }
        Ok(result)
    }

    /// Resets the record of the item at a path, durably; returns whether there was one.
    ///
    /// # Errors
    /// Same as [`Self::save`].
    pub async fn reset(&self, user_id: &str, media_id: &str, path: &str) -> Result<bool> {
        let _item_lock = self.item_lock(user_id, media_id).lock().await;
        let current_id = match is_folder_id(media_id) {
            true => self.current_folder_id(user_id, media_id, path)?,
            false => media_id.to_owned(),
        };
        let Some(record) = self.record(user_id, &current_id)? else { return Ok(false) };
        self.replace(user_id, &current_id, record.to_reset(self.now())).await?;
        Ok(true)
    }

    /// A page of a user's started items, last watched first, then by path.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid cursor; `INTERNAL` for a record that cannot be read.
    pub fn history(
        &self,
        user: &str,
        filter: HistoryFilter,
        cursor: Option<&str>,
        max: usize,
    ) -> Result<HistoryPage<ProgressRecord>> {
        let HistoryPage { entries: ids, total, next_cursor } = match self.read_index().get(user) {
            Some(index) => index.page(filter, cursor, max)?,
            None => HistoryIndex::default().page(filter, cursor, max)?,
        };
        let records = ids.iter().map(|id| self.record(user, id)).collect::<Result<Vec<_>>>()?;
        Ok(HistoryPage { entries: records.into_iter().flatten().collect(), total, next_cursor })
    }

    /// Moves a user's record to another content id, because the item at its path was changed. Once begun, it is completed
    /// even if the caller is dropped: lists must show what is on disk.
    ///
    /// # Errors
    /// Same as [`Self::save`].
    pub async fn move_record(self: &Arc<Self>, user_id: &str, from: &str, to: &str) -> Result<()> {
        let (progress, user_id) = (self.clone(), user_id.to_owned());
        let (from, to) = (from.to_owned(), to.to_owned());
        let moved = tokio::spawn(async move { progress.move_record_inner(&user_id, &from, &to).await });
        moved.await.map_err(Error::internal)?
    }

    async fn move_record_inner(&self, user_id: &str, from: &str, to: &str) -> Result<()> {
        // Both are locked, the lower one first, so that no save is lost and no two moves wait for each other.
        let (one, other) = (self.lock_index(user_id, from), self.lock_index(user_id, to));
        let _lower = self.item_locks[one.min(other)].lock().await;
        let _higher = if one == other { None } else { Some(self.item_locks[one.max(other)].lock().await) };
        if self.record(user_id, to)?.is_some() {
            return Ok(());
        }
        let Some(record) = self.record(user_id, from)? else { return Ok(()) };
        self.replace(user_id, from, ProgressRecord { media_id: to.to_owned(), ..record }).await
    }

    /// A user's progress in every item, from memory.
    pub fn item_progress(&self, user_id: &str) -> HashMap<Arc<str>, ItemProgress> {
        let users = self.read_index();
        let items = users.get(user_id).into_iter().flat_map(HistoryIndex::item_progress);
        items.map(|(id, progress)| (id.clone(), progress)).collect()
    }

    /// Every item with a record: its id, the path where it was last seen, its size.
    pub fn known_items(&self) -> HashSet<(Arc<str>, Arc<str>, u64)> {
        let users = self.read_index();
        let items = users.values().flat_map(HistoryIndex::known_items);
        items.map(|(id, path, size)| (id.clone(), path.clone(), size)).collect()
    }

    /// Updates the path of an item in the records of all users.
    ///
    /// # Errors
    /// Same as [`Self::save`].
    pub async fn update_path(&self, media_id: &str, path: &str) -> Result<()> {
        let users: Vec<String> = self.read_index().keys().cloned().collect();
        for user in users {
            let _item_lock = self.item_lock(&user, media_id).lock().await;
            if let Some(record) = self.record(&user, media_id)?.filter(|record| record.path != path) {
                // The version stays the same, because no device changed the record.
                self.replace(&user, media_id, ProgressRecord { path: path.to_owned(), ..record }).await?;
            }
        }
        Ok(())
    }

    /// Updates the path of an item in the records of all users who had it at `gone`, a file that was removed.
    ///
    /// # Errors
    /// Same as [`Self::save`].
    pub async fn leave_path(&self, media_id: &str, gone: &str, path: &str) -> Result<()> {
        let had_it = |index: &HistoryIndex| index.item_at_path(gone).is_some_and(|id| **id == *media_id);
        let users: Vec<String> =
            self.read_index().iter().filter(|(_, index)| had_it(index)).map(|(user, _)| user.clone()).collect();
        for user in users {
            let _item_lock = self.item_lock(&user, media_id).lock().await;
            if let Some(record) = self.record(&user, media_id)?.filter(|record| record.path == gone) {
                self.replace(&user, media_id, ProgressRecord { path: path.to_owned(), ..record }).await?;
            }
        }
        Ok(())
    }

    /// Deletes old resets and records of deleted users; corrects times that were written while the clock was ahead.
    /// `is_user` is checked again for each deletion, because users may be added meanwhile.
    ///
    /// # Errors
    /// Same as [`Self::save`].
    pub async fn clean_up(&self, is_user: impl Fn(&str) -> bool + Clone + Send + 'static) -> Result<()> {
        let now = self.now();
        let (store, tree, is_known_user) = (self.store.clone(), self.tree, is_user.clone());
        // Reads and parses every record: takes seconds if there are many.
        let scan_task = tokio::task::spawn_blocking(move || {
            let mut found = CleanupKeys::default();
            store.for_each(tree, |key, record: ProgressRecord| {
                if is_expired(split_key(key).0, &record, &is_known_user, now) {
                    found.expired.push(key.to_owned());
                } else if record.has_future_time(now) {
                    found.ahead_of_clock.push(key.to_owned());
                }
            })?;
            Ok::<_, Error>(found)
        });
        let found = scan_task.await.map_err(Error::internal)??;
        for key in found.expired {
            let (user_id, media_id) = split_key(&key);
            let _item_lock = self.item_lock(user_id, media_id).lock().await;
            let stored: Option<ProgressRecord> = self.store.get(self.tree, &key)?;
            if stored.is_some_and(|record| is_expired(user_id, &record, &is_user, now)) {
                self.store.delete(self.tree, &key).await?;
            }
        }
        if self.future_time_guard.is_due(!found.ahead_of_clock.is_empty(), now.as_second()) {
            for key in found.ahead_of_clock {
                let (user_id, media_id) = split_key(&key);
                let _item_lock = self.item_lock(user_id, media_id).lock().await;
                let stored: Option<ProgressRecord> = self.store.get(self.tree, &key)?;
                if let Some(record) = stored.filter(|record| record.has_future_time(now)) {
                    self.replace(user_id, media_id, record.without_future_times(now)).await?;
                }
            }
        }
        let deleted_users: Vec<String> = self.read_index().keys().filter(|user| !is_user(user)).cloned().collect();
        let mut users = self.write_index();
        for user in deleted_users {
            users.remove(&user);
        }
        Ok(())
    }

    /// The id under which the record of a folder is stored. It is not `media_id` if the folder gained or lost a file after
    /// the caller had computed that id, and the record was moved meanwhile. The caller holds the lock of the item.
    fn current_folder_id(&self, user_id: &str, media_id: &str, path: &str) -> Result<String> {
        let moved = match self.record(user_id, media_id)? {
            None => self.record_at_path(user_id, path)?.filter(|record| is_folder_id(&record.media_id)),
            Some(_) => None,
        };
        Ok(moved.map_or_else(|| media_id.to_owned(), |record| record.media_id))
    }

    /// Stores and publishes a record in place of the one with the id `former_id`, usually its own. The caller holds the
    /// locks of both.
    async fn replace(&self, user_id: &str, former_id: &str, record: ProgressRecord) -> Result<()> {
        let mut batch = Batch::default();
        batch.put(self.tree, &record_key(user_id, &record.media_id), &record)?;
        if former_id != record.media_id {
            batch.delete(self.tree, &record_key(user_id, former_id))?;
        }
        self.store.write(batch).await?;
        let mut users = self.write_index();
        let index = users.entry(user_id.to_owned()).or_default();
        index.remove(former_id);
        index.put(&record);
        drop(users);
        self.events.publish(Some(user_id), EventContent::Progress(Box::new(record)));
        Ok(())
    }

    /// Now, with the precision of the API, so that a timestamp a device received and sent back is not older than the record.
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }

    fn item_lock(&self, user_id: &str, media_id: &str) -> &tokio::sync::Mutex<()> {
        &self.item_locks[self.lock_index(user_id, media_id)]
    }

    /// All folders of a user share a lock, because the record of a folder moves with every change of its id.
    fn lock_index(&self, user_id: &str, media_id: &str) -> usize {
        let media_id = if is_folder_id(media_id) { FOLDER_ID_PREFIX } else { media_id };
        let mut hasher = DefaultHasher::new();
        (user_id, media_id).hash(&mut hasher);
        (hasher.finish() % self.item_locks.len() as u64) as usize
    }

    // A panic while the lock was held hides at most one record from lists until its next change.
    fn read_index(&self) -> RwLockReadGuard<'_, HashMap<String, HistoryIndex>> {
        self.index_by_user.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_index(&self) -> RwLockWriteGuard<'_, HashMap<String, HistoryIndex>> {
        self.index_by_user.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether to delete a record: its user is gone, or it is an old reset.
fn is_expired(user_id: &str, record: &ProgressRecord, is_user: impl Fn(&str) -> bool, now: Timestamp) -> bool {
    !is_user(user_id) || (record.is_reset && record.updated_at < now - RESET_RETENTION)
}

fn is_folder_id(media_id: &str) -> bool {
    media_id.starts_with(FOLDER_ID_PREFIX)
}

fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

fn record_key(user_id: &str, media_id: &str) -> String {
    format!("{user_id}/{media_id}")
}
