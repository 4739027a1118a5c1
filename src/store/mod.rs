#![doc = include_str!("README.md")]
#![allow(clippy::disallowed_methods, reason = "the state folder is the program's own")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLockReadGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

use crate::domain::histogram::Histogram;
use crate::error::{Code, Error, Result};

mod appender;
mod batch;
mod commit;
mod computed;
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
mod shared_state;
mod snapshot;
mod tail;
mod tree;

pub use batch::{Batch, Edit, MAX_BATCH_CHANGES};
use commit::{CommitError, Committer, StoreSizes};
use computed::ComputedRecords;
pub use database::{machine_error as database_machine_error, settings_error as database_settings_error};
pub use export::{backup, backup_database, export, export_database, import, import_into_database};
use lock::StateLock;
pub use record::MAX_RECORD_BYTES;
use recover::RecoveredState;
pub use shared_state::{CopyChange, DatabaseStatus, Standby, check_database, publish_signing_keys};
use shared_state::{refuse_copy, standard_sizes};
pub use tree::Tree;

/// Free disk space below which writes are refused, bytes. It is left to sled, to other programs and to removals.
pub const RESERVE_BYTES: u64 = 32 << 20;

/// How long a starting server waits for another one to release the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// File of a state folder that is the copy of a state in PostgreSQL: the id of that state.
const COPY_FILE: &str = "database";

/// Length below which a journal is never compacted, bytes.
const COMPACT_FROM_BYTES: u64 = 16 << 20;

/// The persistent state of one server. Cheap to clone; dropping the last clone closes it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    dir: PathBuf,
    reserve_bytes: u64,
    view: commit::SharedView,
    computed: Arc<ComputedRecords>,
    /// Records that were found lost while opening, as `tree/key`.
    lost_records: Vec<String>,
    /// Missing as long as this server is a standby.
    writer: OnceLock<Writer>,
    commit_times: Arc<Histogram>,
    /// Locked as long as the state is open.
    _lock: Arc<StateLock>,
}

/// The thread that writes, and the queue of what it writes.
struct Writer {
    change_queue: mpsc::Sender<commit::PendingChange>,
    thread: JoinHandle<()>,
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
        Self::open_with_timeout(dir, standard_sizes(), LOCK_TIMEOUT)
    }

    /// Opens the state like [`Self::open`]; writes are refused while fewer than `reserve_bytes` bytes are free on the disk.
    pub fn open_with(dir: &Path, reserve_bytes: u64) -> Result<Self> {
        Self::open_with_sizes(dir, StoreSizes { reserve_bytes, compact_from_bytes: COMPACT_FROM_BYTES })
    }

    fn open_with_sizes(dir: &Path, sizes: StoreSizes) -> Result<Self> {
        Self::open_with_timeout(dir, sizes, Duration::ZERO)
    }

    fn open_with_timeout(dir: &Path, sizes: StoreSizes, lock_timeout: Duration) -> Result<Self> {
        permissions::secure_folder(dir)?;
        let lock = StateLock::acquire(dir, lock_timeout)?;
        refuse_copy(dir)?;
        let (store, committer) = Self::new(dir, sizes, Arc::new(lock), recover::open(dir)?);
        store.begin_writing(committer)?;
        Ok(store)
    }

    /// Opens for readers what was recovered; [`Self::begin_writing`] with the committer permits changes.
    fn new(dir: &Path, sizes: StoreSizes, lock: Arc<StateLock>, mut recovered: RecoveredState) -> (Self, Committer) {
        let lost_records = std::mem::take(&mut recovered.lost_records);
        let commit_times = Arc::<Histogram>::default();
        let (committer, view) = Committer::new(dir.to_owned(), recovered, sizes, commit_times.clone());
        let (reserve_bytes, computed) = (sizes.reserve_bytes, Arc::new(ComputedRecords::open(dir)));
        let (dir, writer) = (dir.to_owned(), OnceLock::new());
        let inner = Inner { dir, reserve_bytes, view, computed, lost_records, writer, commit_times, _lock: lock };
        (Self { inner: Arc::new(inner) }, committer)
    }

    fn begin_writing(&self, committer: Committer) -> Result<()> {
        let (change_queue, thread) = committer.start().map_err(|cause| open_error(&self.inner.dir, cause))?;
        // Only the owner of the committer begins, so there is no writer yet.
        let _ = self.inner.writer.set(Writer { change_queue, thread });
        Ok(())
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
        if let Some(computed) = self.inner.computed.get(tree) {
            let json = computed.get(key).map_err(|cause| record_error(tree, key, cause))?;
            let value = json.map(|json| serde_json::from_slice(&json)).transpose();
            return value.map_err(|cause| record_error(tree, key, cause));
        }
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
        match edits.first() {
            None => return Ok(false),
            // Those of a batch are all journaled.
            Some(edit) if !edit.tree.journaled() => return self.write_computed(edits.remove(0)).await,
            Some(_) => {}
        }
        let (reply, outcome) = oneshot::channel();
        let Some(writer) = self.inner.writer.get() else {
            return Err(Error::new(Code::ServerBusy, "this server is a standby").with_retry_after(1));
        };
        let change = commit::PendingChange { edits, reply };
        writer.change_queue.send(change).await.map_err(|_| not_stored_error("the committer has stopped"))?;
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
        let Some(writer) = self.inner.writer.get() else { return };
        if writer.change_queue.send(commit::PendingChange { edits: Vec::new(), reply }).await.is_ok() {
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
        if let Some(computed) = self.inner.computed.get(tree) {
            return computed
                .for_each(|key, json| {
                    visit(key, serde_json::from_slice(json)?);
                    Ok(())
                })
                .map_err(|cause| record_error(tree, "?", cause));
        }
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
        if let Some(computed) = self.inner.computed.get(tree) {
            let keys = computed.keys().map_err(|cause| record_error(tree, prefix, cause))?;
            return Ok(keys.into_iter().filter(|key| key.starts_with(prefix)).collect());
        }
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
        if let Some(computed) = self.inner.computed.get(tree) {
            return computed.contains(key).map_err(|cause| record_error(tree, key, cause));
        }
        let view = self.view();
        if let Some(json) = view.unindexed.get(&(tree, key.to_owned())) {
            return Ok(json.is_some());
        }
        tree_in_index(&view, tree)?.contains_key(key).map_err(|cause| record_error(tree, key, cause))
    }

    async fn write_computed(&self, Edit { tree, key, json }: Edit) -> Result<bool> {
        if disk_space::free_bytes(&self.inner.dir) < self.inner.reserve_bytes {
            return Err(not_stored_error("the disk is nearly full"));
        }
        let computed = self.inner.computed.clone();
        // It may rewrite the file.
        let set = move || computed.get(tree).map_or(Ok(false), |records| records.set(&key, json.as_deref()));
        tokio::task::spawn_blocking(set).await.map_err(not_stored_error)?.map_err(not_stored_error)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(Writer { change_queue, thread }) = self.writer.take() {
            // Without the queue the thread ends.
            drop(change_queue);
            let _ = thread.join();
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

fn unknown_outcome_error(cause: impl std::fmt::Display) -> Error {
    let message = "disk or database failed, and whether the change was stored is unknown: check before you repeat it";
    Error::new(Code::Internal, message).with_cause(cause)
}

#[cfg(test)]
pub mod tests;
