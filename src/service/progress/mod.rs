//! Watch progress and watch history: saved durably, listed from memory, sent to event streams.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jiff::{SignedDuration, Timestamp};

use crate::domain::progress::{self, ProgressRecord, ProgressSave, SaveResult};
use crate::error::{Error, Result};
use crate::service::clock::{FutureTimeGuard, Clock};
use crate::service::events::{Events, EventContent};
use crate::store::{Batch, Store, Tree};

mod index;
mod next_up;
#[cfg(test)]
mod tests;
mod watch;

pub use index::Filter;
pub use next_up::{NextUp, follows};
pub use watch::{Item, Wish, stem};

use index::Index;

/// Number of locks for records. Records of different items may change at once; changes to one item wait for each other.
const LANES: usize = 64;

/// How long a reset is remembered, so that late saves from other devices do not undo it.
const REMEMBER_RESET: SignedDuration = SignedDuration::from_hours(30 * 24);

/// One page of a list.
pub struct Page {
    pub records: Vec<ProgressRecord>,
    pub total: usize,
    pub next_cursor: Option<String>,
}

/// Stores the progress records of one kind: media, or audiobooks.
pub struct Progress {
    store: Store,
    clock: Clock,
    tree: Tree,
    events: Arc<Events>,
    users: RwLock<HashMap<String, Index>>,
    lanes: Vec<tokio::sync::Mutex<()>>,
    ahead: FutureTimeGuard,
}

/// Keys of records that need cleanup.
#[derive(Default)]
struct Found {
    surplus: Vec<String>,
    ahead: Vec<String>,
}

impl Progress {
    /// Reads all records.
    ///
    /// # Errors
    /// `INTERNAL` naming the record that cannot be read.
    pub fn open(store: Store, tree: Tree, clock: Clock, events: Arc<Events>) -> Result<Self> {
        let mut users: HashMap<String, Index> = HashMap::new();
        store.each(tree, |key, record: ProgressRecord| {
            if let Some((user, _)) = key.split_once('/') {
                users.entry(user.to_owned()).or_default().put(&record);
            }
        })?;
        let lanes = (0..LANES).map(|_| tokio::sync::Mutex::default()).collect();
        Ok(Self { store, clock, tree, events, users: RwLock::new(users), lanes, ahead: FutureTimeGuard::default() })
    }

    /// A user's record of an item; None if it was never started or was reset.
    ///
    /// # Errors
    /// `INTERNAL` for a record that cannot be read.
    pub fn of(&self, user_id: &str, media_id: &str) -> Result<Option<ProgressRecord>> {
        Ok(self.stored(user_id, media_id)?.filter(|record| !record.is_reset))
    }

    /// A user's record of the item last seen at a path; for paths whose file is gone.
    ///
    /// # Errors
    /// Same as [`Self::of`].
    pub fn at(&self, user_id: &str, path: &str) -> Result<Option<ProgressRecord>> {
        let id = self.read().get(user_id).and_then(|index| index.at(path).cloned());
        id.map_or(Ok(None), |id| self.of(user_id, &id))
    }

    /// Merges a save into the stored record and persists it. `make` receives the current record.
    ///
    /// # Errors
    /// `STORAGE_FULL` if it could not be persisted; `INTERNAL` if the stored record cannot be read.
    pub async fn save(
        &self,
        user_id: &str,
        media_id: &str,
        make: impl FnOnce(Option<&ProgressRecord>) -> ProgressSave,
    ) -> Result<SaveResult> {
        let _lane = self.lane(user_id, media_id).lock().await;
        let stored = self.stored(user_id, media_id)?;
        let seen = stored.as_ref().filter(|record| !record.is_reset);
        let verdict = progress::merge_save(stored.as_ref(), make(seen), self.now());
        if let SaveResult::Applied(record) = &verdict {
            self.write_down(user_id, record).await?;
        }
        Ok(verdict)
    }

    /// Resets a record, durably; returns whether there was one.
    ///
    /// # Errors
    /// Same as [`Self::save`].
    pub async fn reset(&self, user_id: &str, media_id: &str) -> Result<bool> {
        let _lane = self.lane(user_id, media_id).lock().await;
        let Some(record) = self.of(user_id, media_id)? else { return Ok(false) };
        self.write_down(user_id, &record.to_reset(self.now())).await?;
        Ok(true)
    }

    /// A page of a user's started items, last watched first, then by path.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid cursor; `INTERNAL` for a record that cannot be read.
    pub fn history(&self, user_id: &str, filter: Filter, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let found = match self.read().get(user_id) {
            Some(index) => index.page(filter, cursor, limit)?,
            None => Index::default().page(filter, cursor, limit)?,
        };
        let records = found.ids.iter().map(|id| self.of(user_id, id)).collect::<Result<Vec<_>>>()?;
        Ok(Page {
            records: records.into_iter().flatten().collect(),
            total: found.total,
            next_cursor: found.next_cursor,
        })
    }

    /// Moves a user's record to another content id, because the item at its path was changed. Once begun, it is completed
    /// even if the caller is dropped: lists must show what is on disk.
    ///
    /// # Errors
    /// Same as [`Self::save`].
    pub async fn carry(self: &Arc<Self>, user_id: &str, from: &str, to: &str) -> Result<()> {
        let (progress, user_id) = (self.clone(), user_id.to_owned());
        let (from, to) = (from.to_owned(), to.to_owned());
        let moved = tokio::spawn(async move { progress.move_record(&user_id, &from, &to).await });
        moved.await.map_err(Error::internal)?
    }

    async fn move_record(&self, user_id: &str, from: &str, to: &str) -> Result<()> {
        // Both are locked, the lower one first, so that no save is lost and no two moves wait for each other.
        let (one, other) = (self.lane_index(user_id, from), self.lane_index(user_id, to));
        let _lower = self.lanes[one.min(other)].lock().await;
        let _higher = if one == other { None } else { Some(self.lanes[one.max(other)].lock().await) };
        if self.of(user_id, to)?.is_some() {
            return Ok(());
        }
        let Some(record) = self.of(user_id, from)? else { return Ok(()) };
        let record = ProgressRecord { media_id: to.to_owned(), ..record };
        let mut batch = Batch::default();
        batch.put(self.tree, &key(user_id, to), &record)?;
        batch.delete(self.tree, &key(user_id, from))?;
        self.store.write(batch).await?;
        self.notify_written(user_id, &record);
        if let Some(index) = self.write().get_mut(user_id) {
            index.remove(from);
        }
        Ok(())
    }

    /// Every item with a record: its id, the path where it was last seen, its size.
    pub fn places(&self) -> HashSet<(Arc<str>, Arc<str>, u64)> {
        let users = self.read();
        let places = users.values().flat_map(Index::places);
        places.map(|(id, path, size)| (id.clone(), path.clone(), size)).collect()
    }

    /// Updates the path of an item in the records of all users.
    ///
    /// # Errors
    /// Same as [`Self::save`].
    pub async fn moved(&self, media_id: &str, path: &str) -> Result<()> {
        let users: Vec<String> = self.read().keys().cloned().collect();
        for user in users {
            let _lane = self.lane(&user, media_id).lock().await;
            if let Some(record) = self.of(&user, media_id)?.filter(|record| record.path != path) {
                // The version stays the same, because no device changed the record.
                self.write_down(&user, &ProgressRecord { path: path.to_owned(), ..record }).await?;
            }
        }
        Ok(())
    }

    /// Deletes old resets and records of deleted users; corrects times that were written while the clock was ahead.
    /// `is_user` is checked again for each deletion, because users may be added meanwhile.
    ///
    /// # Errors
    /// Same as [`Self::save`].
    pub async fn tidy(&self, is_user: impl Fn(&str) -> bool + Clone + Send + 'static) -> Result<()> {
        let now = self.now();
        let (store, tree, known) = (self.store.clone(), self.tree, is_user.clone());
        // Reads and parses every record: takes seconds if there are many.
        let walk = tokio::task::spawn_blocking(move || {
            let mut found = Found::default();
            store.each(tree, |key, record: ProgressRecord| {
                if is_surplus(user_of(key), &record, &known, now) {
                    found.surplus.push(key.to_owned());
                } else if record.has_future_time(now) {
                    found.ahead.push(key.to_owned());
                }
            })?;
            Ok::<_, Error>(found)
        });
        let found = walk.await.map_err(Error::internal)??;
        for key in found.surplus {
            let (user_id, media_id) = key.split_once('/').unwrap_or(("", &key));
            let _lane = self.lane(user_id, media_id).lock().await;
            let stored: Option<ProgressRecord> = self.store.get(self.tree, &key)?;
            if stored.is_some_and(|record| is_surplus(user_id, &record, &is_user, now)) {
                self.store.delete(self.tree, &key).await?;
            }
        }
        if self.ahead.is_due(!found.ahead.is_empty(), now.as_second()) {
            for key in found.ahead {
                let (user_id, media_id) = key.split_once('/').unwrap_or(("", &key));
                let _lane = self.lane(user_id, media_id).lock().await;
                if let Some(record) = self.stored(user_id, media_id)?.filter(|record| record.has_future_time(now)) {
                    self.write_down(user_id, &record.without_future_times(now)).await?;
                }
            }
        }
        let gone: Vec<String> = self.read().keys().filter(|user| !is_user(user)).cloned().collect();
        let mut users = self.write();
        for user in gone {
            users.remove(&user);
        }
        Ok(())
    }

    fn stored(&self, user_id: &str, media_id: &str) -> Result<Option<ProgressRecord>> {
        self.store.get(self.tree, &key(user_id, media_id))
    }

    /// The caller holds the lock of the item.
    async fn write_down(&self, user_id: &str, record: &ProgressRecord) -> Result<()> {
        self.store.put(self.tree, &key(user_id, &record.media_id), record).await?;
        self.notify_written(user_id, record);
        Ok(())
    }

    fn notify_written(&self, user_id: &str, record: &ProgressRecord) {
        self.write().entry(user_id.to_owned()).or_default().put(record);
        self.events.publish(Some(user_id), EventContent::Progress(Box::new(record.clone())));
    }

    /// Now, with the precision of the API, so that a timestamp a device received and sent back is not older than the record.
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }

    fn lane(&self, user_id: &str, media_id: &str) -> &tokio::sync::Mutex<()> {
        &self.lanes[self.lane_index(user_id, media_id)]
    }

    fn lane_index(&self, user_id: &str, media_id: &str) -> usize {
        let mut hasher = DefaultHasher::new();
        (user_id, media_id).hash(&mut hasher);
        (hasher.finish() % self.lanes.len() as u64) as usize
    }

    // A panic while the lock was held hides at most one record from lists until its next change.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<String, Index>> {
        self.users.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<String, Index>> {
        self.users.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether to delete a record: its user is gone, or it is an old reset.
fn is_surplus(user_id: &str, record: &ProgressRecord, is_user: impl Fn(&str) -> bool, now: Timestamp) -> bool {
    !is_user(user_id) || (record.is_reset && record.updated_at < now - REMEMBER_RESET)
}

/// The user a record's key begins with.
fn user_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(user, _)| user)
}

fn key(user_id: &str, media_id: &str) -> String {
    format!("{user_id}/{media_id}")
}
