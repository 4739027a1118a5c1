//! Watch progress and watch history: saved durably, listed from memory, sent to event streams.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jiff::{SignedDuration, Timestamp};

use crate::domain::progress::{self, Record, Save, Verdict};
use crate::error::{Error, Result};
use crate::service::clock::{Ahead, Clock};
use crate::service::events::{Events, What};
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

/// Records of different items may change at once; those of one item wait for each other.
const LANES: usize = 64;

/// How long a reset is remembered against devices that come late.
const REMEMBER_RESET: SignedDuration = SignedDuration::from_hours(30 * 24);

/// One page of a list.
pub struct Page {
    pub records: Vec<Record>,
    pub total: usize,
    pub next_cursor: Option<String>,
}

/// Keeper of the records of one kind: what is watched, or what is read to one.
pub struct Progress {
    store: Store,
    clock: Clock,
    tree: Tree,
    events: Arc<Events>,
    users: RwLock<HashMap<String, Index>>,
    lanes: Vec<tokio::sync::Mutex<()>>,
    ahead: Ahead,
}

/// Keys of records that need something done.
#[derive(Default)]
struct Found {
    surplus: Vec<String>,
    ahead: Vec<String>,
}

impl Progress {
    /// Reads what there is.
    ///
    /// # Errors
    /// `INTERNAL` naming the record that cannot be read.
    pub fn open(store: Store, tree: Tree, clock: Clock, events: Arc<Events>) -> Result<Self> {
        let mut users: HashMap<String, Index> = HashMap::new();
        store.each(tree, |key, record: Record| {
            if let Some((user, _)) = key.split_once('/') {
                users.entry(user.to_owned()).or_default().put(&record);
            }
        })?;
        let lanes = (0..LANES).map(|_| tokio::sync::Mutex::default()).collect();
        Ok(Self { store, clock, tree, events, users: RwLock::new(users), lanes, ahead: Ahead::default() })
    }

    /// A user's record of an item; None when it was never begun, or put back.
    ///
    /// # Errors
    /// `INTERNAL` for a record that cannot be read.
    pub fn of(&self, user_id: &str, media_id: &str) -> Result<Option<Record>> {
        Ok(self.stored(user_id, media_id)?.filter(|record| !record.reset))
    }

    /// A user's record of the item that was seen last at a path: for a path where nothing is any more.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn at(&self, user_id: &str, path: &str) -> Result<Option<Record>> {
        let id = self.read().get(user_id).and_then(|index| index.at(path).cloned());
        id.map_or(Ok(None), |id| self.of(user_id, &id))
    }

    /// Decides over a save and writes it down; it is durable when this returns. `make` sees what stands.
    ///
    /// # Errors
    /// `STORAGE_FULL` when it could not be made durable; `INTERNAL` when what stands cannot be read.
    pub async fn save(
        &self,
        user_id: &str,
        media_id: &str,
        make: impl FnOnce(Option<&Record>) -> Save,
    ) -> Result<Verdict> {
        let _lane = self.lane(user_id, media_id).lock().await;
        let stored = self.stored(user_id, media_id)?;
        let seen = stored.as_ref().filter(|record| !record.reset);
        let verdict = progress::save(stored.as_ref(), make(seen), self.now());
        if let Verdict::Applied(record) = &verdict {
            self.write_down(user_id, record).await?;
        }
        Ok(verdict)
    }

    /// Puts a record back to nothing, durably; tells whether there was one.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub async fn reset(&self, user_id: &str, media_id: &str) -> Result<bool> {
        let _lane = self.lane(user_id, media_id).lock().await;
        let Some(record) = self.of(user_id, media_id)? else { return Ok(false) };
        self.write_down(user_id, &record.reset(self.now())).await?;
        Ok(true)
    }

    /// A page of what a user has begun, watched last first, then by path.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for a cursor that is none; `INTERNAL` for a record that cannot be read.
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

    /// Goes on under another content what a user has begun: the item at this path was changed.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub async fn carry(&self, user_id: &str, from: &str, to: &str) -> Result<()> {
        let _lane = self.lane(user_id, to).lock().await;
        if self.of(user_id, to)?.is_some() {
            return Ok(());
        }
        let Some(record) = self.of(user_id, from)? else { return Ok(()) };
        let record = Record { media_id: to.to_owned(), ..record };
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

    /// Every item somebody has begun: its id, where it was seen last, its size.
    pub fn places(&self) -> HashSet<(Arc<str>, Arc<str>, u64)> {
        let users = self.read();
        let places = users.values().flat_map(Index::places);
        places.map(|(id, path, size)| (id.clone(), path.clone(), size)).collect()
    }

    /// Notes where an item lies now, for everybody who has begun it.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub async fn moved(&self, media_id: &str, path: &str) -> Result<()> {
        let users: Vec<String> = self.read().keys().cloned().collect();
        for user in users {
            let _lane = self.lane(&user, media_id).lock().await;
            if let Some(record) = self.of(&user, media_id)?.filter(|record| record.path != path) {
                // The version stays: no device changed anything.
                self.write_down(&user, &Record { path: path.to_owned(), ..record }).await?;
            }
        }
        Ok(())
    }

    /// Removes old resets and what belonged to users who are gone; sets back times that were written while the clock was
    /// ahead. `is_user` is asked again for each record that is removed: users come and go meanwhile.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub async fn tidy(&self, is_user: impl Fn(&str) -> bool + Clone + Send + 'static) -> Result<()> {
        let now = self.now();
        let (store, tree, known) = (self.store.clone(), self.tree, is_user.clone());
        // Reads and parses every record: seconds, where there are many.
        let walk = tokio::task::spawn_blocking(move || {
            let mut found = Found::default();
            store.each(tree, |key, record: Record| {
                if is_surplus(user_of(key), &record, &known, now) {
                    found.surplus.push(key.to_owned());
                } else if record.is_ahead(now) {
                    found.ahead.push(key.to_owned());
                }
            })?;
            Ok::<_, Error>(found)
        });
        let found = walk.await.map_err(Error::internal)??;
        for key in found.surplus {
            let (user_id, media_id) = key.split_once('/').unwrap_or(("", &key));
            let _lane = self.lane(user_id, media_id).lock().await;
            let stored: Option<Record> = self.store.get(self.tree, &key)?;
            if stored.is_some_and(|record| is_surplus(user_id, &record, &is_user, now)) {
                self.store.delete(self.tree, &key).await?;
            }
        }
        if self.ahead.is_due(!found.ahead.is_empty(), now.as_second()) {
            for key in found.ahead {
                let (user_id, media_id) = key.split_once('/').unwrap_or(("", &key));
                let _lane = self.lane(user_id, media_id).lock().await;
                if let Some(record) = self.stored(user_id, media_id)?.filter(|record| record.is_ahead(now)) {
                    self.write_down(user_id, &record.set_back(now)).await?;
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

    fn stored(&self, user_id: &str, media_id: &str) -> Result<Option<Record>> {
        self.store.get(self.tree, &key(user_id, media_id))
    }

    /// The caller holds the item's lane.
    async fn write_down(&self, user_id: &str, record: &Record) -> Result<()> {
        self.store.put(self.tree, &key(user_id, &record.media_id), record).await?;
        self.notify_written(user_id, record);
        Ok(())
    }

    fn notify_written(&self, user_id: &str, record: &Record) {
        self.write().entry(user_id.to_owned()).or_default().put(record);
        self.events.tell(Some(user_id), What::Progress(Box::new(record.clone())));
    }

    /// Now, as exact as the wire: a device that sends back what it was told is not older than that.
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }

    fn lane(&self, user_id: &str, media_id: &str) -> &tokio::sync::Mutex<()> {
        let mut hasher = DefaultHasher::new();
        (user_id, media_id).hash(&mut hasher);
        &self.lanes[(hasher.finish() % LANES as u64) as usize]
    }

    // A panic while the lock was held leaves at worst one record out of a list until it changes again.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<String, Index>> {
        self.users.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<String, Index>> {
        self.users.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a record is kept no longer: its user is gone, or it is an old reset.
fn is_surplus(user_id: &str, record: &Record, is_user: impl Fn(&str) -> bool, now: Timestamp) -> bool {
    !is_user(user_id) || (record.reset && record.updated_at < now - REMEMBER_RESET)
}

/// The user a record's key begins with.
fn user_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(user, _)| user)
}

fn key(user_id: &str, media_id: &str) -> String {
    format!("{user_id}/{media_id}")
}
