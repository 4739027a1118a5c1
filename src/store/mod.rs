#![doc = include_str!("README.md")]
#![allow(clippy::disallowed_methods, reason = "the state folder is the program's own")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLockReadGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

use crate::config::DatabaseSettings;
use crate::domain::histogram::Histogram;
use crate::error::{Code, Error, Result};

mod appender;
mod batch;
mod commit;
#[cfg(feature = "cluster")]
mod database;
#[cfg(not(feature = "cluster"))]
#[path = "no_database.rs"]
mod database;
mod disk_space;
mod draft;
mod export;
mod index;
mod journal;
mod lock;
mod migrate;
mod permissions;
mod quarantine;
mod record;
mod recover;
mod rewrite;
pub mod secret;
mod snapshot;
mod tail;
mod tree;

pub use batch::{Batch, Edit, MAX_BATCH_CHANGES};
use commit::CommitError;
pub use database::{machine_error as database_machine_error, settings_error as database_settings_error};
pub use export::{backup, backup_database, export, export_database, import, import_into_database};
use lock::StateLock;
pub use record::MAX_RECORD_BYTES;
pub use tree::Tree;

/// Free disk space below which writes are refused, bytes. It is left to sled, to other programs and to removals.
pub const RESERVE_BYTES: u64 = 32 << 20;

/// How long a starting server waits for another one to release the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// File of a state folder that is the copy of a state in PostgreSQL: the id of that state.
const COPY_FILE: &str = "database";

/// Length below which a journal is never compacted, bytes.
const COMPACT_FROM_BYTES: u64 = 16 << 20;

/// The servers of a database, as one of them sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseStatus {
    /// Whether this server is the active one; it opens its state then.
    pub is_active: bool,
    /// Where another active server is reached, if it listens.
    pub active_address: Option<String>,
    /// The signing keys of all its servers, a line each.
    pub signing_keys: String,
}

/// How a server waits until it is the active one of a database.
pub struct Standby {
    pub listen: SocketAddr,
    /// Where other servers reach this one, unless it is found by itself.
    pub peer_address: Option<String>,
    /// Called several times a second while another server is active, and once when this one is.
    pub notify: Box<dyn Fn(DatabaseStatus) + Send + Sync>,
}

/// The persistent state of one server. Cheap to clone; dropping the last clone closes it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    dir: PathBuf,
    reserve_bytes: u64,
    view: commit::SharedView,
    /// Records that were found lost while opening, as `tree/key`.
    lost_records: Vec<String>,
    /// Taken on drop, so that the committer ends.
    change_queue: Option<mpsc::Sender<commit::PendingChange>>,
    committer: Option<JoinHandle<()>>,
    commit_times: Arc<Histogram>,
    /// Locked as long as the state is open.
    _lock: StateLock,
}

impl Store {
    /// Opens the state in `dir`, and creates the folder if it does not exist. Afterwards no other user of the machine
    /// can enter it.
    ///
    /// # Errors
    /// `FORBIDDEN` when the folder cannot be closed to other users; `CONFLICT` when another process has the state open;
    /// `INTERNAL` naming what cannot be opened.
    pub fn open(dir: &Path) -> Result<Self> {
        Self::open_with(dir, RESERVE_BYTES)
    }

    /// Opens the state like [`Self::open`], but waits at most 2 s for another process to close it: a supervisor may
    /// restart a server before the system has released the lock of the killed one.
    pub fn open_waiting(dir: &Path) -> Result<Self> {
        let sizes = commit::StoreSizes { reserve_bytes: RESERVE_BYTES, compact_from_bytes: COMPACT_FROM_BYTES };
        Self::open_with_timeout(dir, sizes, LOCK_TIMEOUT)
    }

    /// Opens the state like [`Self::open`]; writes are refused while fewer than `reserve_bytes` bytes are free on the disk.
    pub fn open_with(dir: &Path, reserve_bytes: u64) -> Result<Self> {
        Self::open_with_sizes(dir, commit::StoreSizes { reserve_bytes, compact_from_bytes: COMPACT_FROM_BYTES })
    }

    fn open_with_sizes(dir: &Path, sizes: commit::StoreSizes) -> Result<Self> {
        Self::open_with_timeout(dir, sizes, Duration::ZERO)
    }

    fn open_with_timeout(dir: &Path, sizes: commit::StoreSizes, lock_timeout: Duration) -> Result<Self> {
        permissions::secure_folder(dir)?;
        let lock = StateLock::acquire(dir, lock_timeout)?;
        refuse_copy(dir)?;
        Self::start(dir, sizes, lock, recover::open(dir)?, None)
    }

    /// Opens the configured state: that of the folder, or with `database` that of PostgreSQL, whose copy the folder is. With
    /// `waits`, it waits at most 2 s for the lock of the folder.
    ///
    /// # Errors
    /// As [`Self::open`]; `CONFLICT` when another server is active, or when the folder belongs to another state.
    pub fn open_configured(dir: &Path, database: Option<DatabaseSettings>, waits: bool) -> Result<Self> {
        let lock_timeout = if waits { LOCK_TIMEOUT } else { Duration::ZERO };
        match database {
            Some(database) => Self::open_database(dir, database, lock_timeout, None),
            None => {
                let sizes = commit::StoreSizes { reserve_bytes: RESERVE_BYTES, compact_from_bytes: COMPACT_FROM_BYTES };
                Self::open_with_timeout(dir, sizes, lock_timeout)
            }
        }
    }

    /// Opens the state in PostgreSQL, whose copy the folder is, once no other server is active.
    ///
    /// # Errors
    /// As [`Self::open`]; `CONFLICT` when the folder belongs to another state.
    pub fn open_as_standby(dir: &Path, database: DatabaseSettings, standby: &Standby) -> Result<Self> {
        Self::open_database(dir, database, LOCK_TIMEOUT, Some(standby))
    }

    fn open_database(
        dir: &Path,
        database: DatabaseSettings,
        lock_timeout: Duration,
        standby: Option<&Standby>,
    ) -> Result<Self> {
        let sizes = commit::StoreSizes { reserve_bytes: RESERVE_BYTES, compact_from_bytes: COMPACT_FROM_BYTES };
        let open = || {
            permissions::secure_folder(dir)?;
            let lock = StateLock::acquire(dir, lock_timeout)?;
            let session = database::become_active(dir, database, standby)?;
            let database::OpenedCopy { recovered, missing, last_number, remote: journal } =
                database::open_copy(dir, session, standby)?;
            let remote = commit::RemoteState { journal, missing, last_number };
            Self::start(dir, sizes, lock, recovered, Some(remote))
        };
        outside_of_runtime(open)
    }

    fn start(
        dir: &Path,
        sizes: commit::StoreSizes,
        lock: StateLock,
        mut recovered: recover::RecoveredState,
        remote: Option<commit::RemoteState>,
    ) -> Result<Self> {
        let lost_records = std::mem::take(&mut recovered.lost_records);
        let commit_times = Arc::<Histogram>::default();
        let (view, change_queue, committer) =
            commit::start(dir.to_owned(), recovered, sizes, commit_times.clone(), remote)
                .map_err(|cause| open_error(dir, cause))?;
        let (reserve_bytes, change_queue, committer) = (sizes.reserve_bytes, Some(change_queue), Some(committer));
        let inner = Inner {
            dir: dir.to_owned(),
            reserve_bytes,
            view,
            lost_records,
            change_queue,
            committer,
            commit_times,
            _lock: lock,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// How long it took to make changes durable, with one measurement for those that shared a sync.
    pub fn commit_times(&self) -> &Histogram {
        &self.inner.commit_times
    }

    /// Reads one record; `None` when it does not exist.
    ///
    /// # Errors
    /// `INTERNAL` for a record that is damaged or cannot be read: it is never reported as missing.
    pub fn get<T: DeserializeOwned>(&self, tree: Tree, key: &str) -> Result<Option<T>> {
        let sled_tree = {
            let view = self.view();
            if let Some(json) = view.unindexed.get(&(tree, key.to_owned())) {
                let value = json.as_deref().map(serde_json::from_slice).transpose();
                return value.map_err(|cause| record_error(tree, key, cause));
            }
            tree_in_index(&view, tree)?
        };
        let stored = sled_tree.get(key).map_err(|cause| record_error(tree, key, cause))?;
        let value = stored.map(|stored| record::decode(tree.name(), key, &stored)).transpose();
        value.map_err(|cause| record_error(tree, key, cause))
    }

    /// Writes one record, as [`Self::write`] does.
    ///
    /// # Errors
    /// Those of [`Edit::put`] and [`Self::write`].
    pub async fn put<T: Serialize>(&self, tree: Tree, key: &str, value: &T) -> Result<()> {
        self.write(Edit::put(tree, key, value)?).await.map(drop)
    }

    /// Removes one record, as [`Self::write`] does; returns whether it existed.
    pub async fn delete(&self, tree: Tree, key: &str) -> Result<bool> {
        self.write(Edit::delete(tree, key)).await
    }

    /// Makes one change, or all changes of a batch or none; returns whether one of the records existed. They are on disk when
    /// this returns; a reader may see some of them earlier. A record of a tree that is not journaled is written at once, but
    /// not synced.
    ///
    /// # Errors
    /// `STORAGE_FULL` when they could not be made durable: the previous records are unchanged, also after a restart.
    /// `SERVER_BUSY` when the database that has the state cannot be reached: it does not have the changes.
    /// `INTERNAL` when disk or database fail and the outcome is unknown: after a restart either all changes exist or none.
    pub async fn write(&self, batch: impl Into<Batch>) -> Result<bool> {
        let mut edits = Vec::new();
        for edit in batch.into().edits {
            if edit.json.is_some() || self.contains(edit.tree, &edit.key)? {
                edits.push(edit);
            }
        }
        match &*edits {
            [] => return Ok(false),
            [edit] if !edit.tree.journaled() => return self.write_unjournaled(edit),
            _ => {}
        }
        let (reply, outcome) = oneshot::channel();
        let change_queue = self.inner.change_queue.as_ref().expect("the committer runs as long as the store is open");
        let change = commit::PendingChange { edits, reply };
        change_queue.send(change).await.map_err(|_| not_stored_error("the committer has stopped"))?;
        match outcome.await.map_err(|_| unknown_outcome_error("the committer has stopped"))? {
            Ok(before) => Ok(before),
            Err(CommitError::Refused(cause)) => Err(not_stored_error(cause)),
            Err(CommitError::OutcomeUnknown(cause)) => Err(unknown_outcome_error(cause)),
            Err(CommitError::Unavailable(cause)) => Err(unavailable_error(cause)),
        }
    }

    /// Resolves once the index has answered a read, and the committer has taken an empty change from its queue. An error is an
    /// answer too: a full disk, or a state that is being reopened. Nothing is written, so an idle disk stays asleep.
    pub async fn wait_until_responsive(&self) {
        let _ = self.contains(Tree::Meta, index::LAST_NUMBER_KEY);
        let (reply, outcome) = oneshot::channel();
        let change_queue = self.inner.change_queue.as_ref().expect("the committer runs as long as the store is open");
        if change_queue.send(commit::PendingChange { edits: Vec::new(), reply }).await.is_ok() {
            let _ = outcome.await;
        }
    }

    /// Reads all records of a tree, ordered by key.
    pub fn scan<T: DeserializeOwned>(&self, tree: Tree) -> Result<Vec<(String, T)>> {
        let mut all = Vec::new();
        self.for_each(tree, |key, value| all.push((key.to_owned(), value)))?;
        Ok(all)
    }

    /// Calls a function with every record of a tree, ordered by key, without keeping them all in memory.
    pub fn for_each<T: DeserializeOwned>(&self, tree: Tree, mut visit: impl FnMut(&str, T)) -> Result<()> {
        let (sled_tree, mut unindexed) = {
            let view = self.view();
            let unindexed = view.unindexed.iter().filter(|((of, _), _)| *of == tree);
            let unindexed: BTreeMap<_, _> = unindexed.map(|((_, key), json)| (key.clone(), json.clone())).collect();
            (tree_in_index(&view, tree)?, unindexed)
        };
        let parse_value =
            |key: &str, json: &[u8]| serde_json::from_slice(json).map_err(|cause| record_error(tree, key, cause));
        // Both are ordered by key; an unindexed change replaces the record in the index.
        for entry in sled_tree.iter() {
            let (key, stored) = entry.map_err(|cause| record_error(tree, "?", cause))?;
            let key = String::from_utf8_lossy(&key);
            while unindexed.first_key_value().is_some_and(|(first, _)| **first < *key) {
                if let Some((key, Some(json))) = unindexed.pop_first() {
                    visit(&key, parse_value(&key, &json)?);
                }
            }
            if unindexed.contains_key(&*key) {
                continue;
            }
            visit(&key, record::decode(tree.name(), &key, &stored).map_err(|cause| record_error(tree, &key, cause))?);
        }
        for (key, json) in unindexed {
            if let Some(json) = json {
                visit(&key, parse_value(&key, &json)?);
            }
        }
        Ok(())
    }

    /// Lists the keys of a tree that begin with `prefix`, in order.
    pub fn keys(&self, tree: Tree, prefix: &str) -> Result<Vec<String>> {
        let view = self.view();
        let found = tree_in_index(&view, tree)?.scan_prefix(prefix).keys();
        let found = found.map(|key| key.map(|key| String::from_utf8_lossy(&key).into_owned()));
        let mut keys: BTreeSet<String> =
            found.collect::<sled::Result<_>>().map_err(|cause| record_error(tree, prefix, cause))?;
        let unindexed = view.unindexed.iter().filter(|((of, key), _)| *of == tree && key.starts_with(prefix));
        for ((_, key), json) in unindexed {
            match json {
                Some(_) => keys.insert(key.clone()),
                None => keys.remove(key),
            };
        }
        Ok(keys.into_iter().collect())
    }

    fn view(&self) -> RwLockReadGuard<'_, commit::ReadView> {
        self.inner.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn contains(&self, tree: Tree, key: &str) -> Result<bool> {
        let view = self.view();
        if let Some(json) = view.unindexed.get(&(tree, key.to_owned())) {
            return Ok(json.is_some());
        }
        tree_in_index(&view, tree)?.contains_key(key).map_err(|cause| record_error(tree, key, cause))
    }

    /// Writes directly to the index: records of trees that are not journaled can be computed again.
    fn write_unjournaled(&self, Edit { tree, key, json }: &Edit) -> Result<bool> {
        if disk_space::free_bytes(&self.inner.dir) < self.inner.reserve_bytes {
            return Err(not_stored_error("the disk is nearly full"));
        }
        let view = self.view();
        let index = view.index.as_ref().ok_or_else(|| not_stored_error("the index is being reopened"))?;
        index.set(*tree, key, 0, json.as_deref()).map(|before| before.is_some()).map_err(not_stored_error)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.change_queue = None;
        if let Some(committer) = self.committer.take() {
            let _ = committer.join();
        }
    }
}

/// `None` when the file does not exist.
fn if_exists<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

fn open_error(path: &Path, cause: impl std::fmt::Display) -> Error {
    Error::internal(format!("the state in {} cannot be opened: {cause}", path.display()))
}

fn tree_in_index(view: &commit::ReadView, tree: Tree) -> Result<sled::Tree> {
    let busy_error = || {
        let message = "the state is being reopened after a disk failure";
        Error::new(Code::ServerBusy, message).with_retry_after(1)
    };
    let index = view.index.as_ref().ok_or_else(busy_error)?;
    Ok(index.tree(tree).clone())
}

fn record_error(tree: Tree, key: &str, cause: impl std::fmt::Display) -> Error {
    Error::internal(format!("record {}/{key} cannot be read: {cause}", tree.name()))
}

fn not_stored_error(cause: impl std::fmt::Display) -> Error {
    Error::new(Code::StorageFull, "the change could not be stored").with_cause(cause)
}

fn unavailable_error(cause: impl std::fmt::Display) -> Error {
    let message = "the database cannot be reached, so nothing can be changed now";
    Error::new(Code::ServerBusy, message).with_cause(cause).with_retry_after(1)
}

/// Runs a function that waits for a database in a thread of its own, because a runtime's threads must not wait.
fn outside_of_runtime<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let outcome = std::thread::scope(|scope| scope.spawn(work).join());
    outcome.unwrap_or_else(|_| Err(Error::internal("opening the database panicked")))
}

/// Checks that a database can have the state.
///
/// # Errors
/// `INTERNAL` saying why it cannot.
pub fn check_database(database: DatabaseSettings) -> Result<()> {
    outside_of_runtime(|| database::check(database))
}

/// Makes the signing keys of the folder those of the database, after they were changed.
///
/// # Errors
/// `INTERNAL` when the database does not take them.
pub fn publish_signing_keys(dir: &Path, database: DatabaseSettings) -> Result<()> {
    outside_of_runtime(|| database::publish_signing_keys(dir, database))
}

/// Refuses a copy that is opened without its database, which would not get its changes.
fn refuse_copy(dir: &Path) -> Result<()> {
    if !dir.join(COPY_FILE).exists() {
        return Ok(());
    }
    let message = format!(
        "{} is the copy of a state in PostgreSQL: configure its address as state, or export the database and import it into \
         an empty folder",
        dir.display()
    );
    Err(Error::new(Code::Conflict, message))
}

fn unknown_outcome_error(cause: impl std::fmt::Display) -> Error {
    let message = "disk or database failed, and whether the change was stored is unknown: check before you repeat it";
    Error::new(Code::Internal, message).with_cause(cause)
}

#[cfg(test)]
pub mod tests;
