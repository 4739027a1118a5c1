#![doc = include_str!("README.md")]
#![allow(clippy::disallowed_methods, reason = "the state folder is the program's own")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLockReadGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Code, Error, Result};

mod appender;
mod batch;
mod commit;
mod draft;
mod export;
mod index;
mod journal;
mod lock;
mod migrate;
mod private;
mod quarantine;
mod record;
mod recover;
mod rewrite;
pub mod secret;
mod snapshot;
mod tail;
mod tree;

use batch::Edit;
pub use batch::{Batch, MAX_CHANGES};
use commit::NotStored;
pub use export::{backup, export, import};
pub use journal::MAX_RECORD;
use lock::Lock;
pub use tree::Tree;

/// Free disk space below which writes are refused, bytes. It is left to sled, to other programs and to removals.
pub const RESERVE_BYTES: u64 = 32 << 20;

/// How long a starting server waits for another one to release the lock.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Length below which a journal is never compacted, bytes.
const COMPACT_FROM_BYTES: u64 = 16 << 20;

/// The persistent state of one server. Cheap to clone; dropping the last clone closes it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    dir: PathBuf,
    reserve: u64,
    view: commit::Shared,
    /// Records that were found lost while opening, as `tree/key`.
    lost: Vec<String>,
    /// Taken on drop, so that the committer ends.
    waiting: Option<mpsc::Sender<commit::Change>>,
    committer: Option<JoinHandle<()>>,
    /// Locked as long as the state is open.
    _lock: Lock,
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
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_waiting(dir: &Path) -> Result<Self> {
        let sizes = commit::Sizes { reserve: RESERVE_BYTES, compact_from: COMPACT_FROM_BYTES };
        Self::open_patiently(dir, sizes, LOCK_WAIT)
    }

    /// Opens the state like [`Self::open`]; writes are refused while fewer than `reserve` bytes are free on the disk.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(dir: &Path, reserve: u64) -> Result<Self> {
        Self::open_sized(dir, commit::Sizes { reserve, compact_from: COMPACT_FROM_BYTES })
    }

    fn open_sized(dir: &Path, sizes: commit::Sizes) -> Result<Self> {
        Self::open_patiently(dir, sizes, Duration::ZERO)
    }

    fn open_patiently(dir: &Path, sizes: commit::Sizes, patience: Duration) -> Result<Self> {
        private::folder(dir)?;
        let lock = Lock::take(dir, patience)?;
        let mut opened = recover::open(dir)?;
        let lost = std::mem::take(&mut opened.lost);
        let (view, waiting, committer) =
            commit::start(dir.to_owned(), opened, sizes).map_err(|cause| unusable(dir, cause))?;
        let (reserve, waiting, committer) = (sizes.reserve, Some(waiting), Some(committer));
        let inner = Inner { dir: dir.to_owned(), reserve, view, lost, waiting, committer, _lock: lock };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Reads one record; `None` when it does not exist.
    ///
    /// # Errors
    /// `INTERNAL` for a record that is damaged or cannot be read: it is never reported as missing.
    pub fn get<T: DeserializeOwned>(&self, tree: Tree, key: &str) -> Result<Option<T>> {
        let sled = {
            let view = self.view();
            if let Some(json) = view.ahead.get(&(tree, key.to_owned())) {
                let value = json.as_deref().map(serde_json::from_slice).transpose();
                return value.map_err(|cause| damaged(tree, key, cause));
            }
            opened(&view, tree)?
        };
        let stored = sled.get(key).map_err(|cause| damaged(tree, key, cause))?;
        stored
            .map(|stored| record::open(tree.name(), key, &stored))
            .transpose()
            .map_err(|cause| damaged(tree, key, cause))
    }

    /// Writes one record; it is on disk when this returns. A record of a tree that is not journaled is written, but not
    /// synced.
    ///
    /// # Errors
    /// `PAYLOAD_TOO_LARGE` for more than [`MAX_RECORD`] bytes of key and JSON. `STORAGE_FULL` when the record could not be
    /// made durable: the previous value is unchanged, also after a restart. `INTERNAL` when the disk fails and the outcome
    /// is unknown.
    pub async fn put<T: Serialize>(&self, tree: Tree, key: &str, value: &T) -> Result<()> {
        let json = record::json(value).map_err(Error::internal)?;
        let bytes = key.len() + json.len();
        if bytes > MAX_RECORD {
            let message = format!("the record has {bytes} bytes, the limit is {MAX_RECORD}");
            return Err(Error::new(Code::PayloadTooLarge, message));
        }
        self.change(tree, key, Some(json)).await.map(drop)
    }

    /// Removes one record, durably; returns whether it existed.
    ///
    /// # Errors
    /// `STORAGE_FULL` when the removal could not be made durable: the record still exists. `INTERNAL` as for [`Self::put`].
    pub async fn delete(&self, tree: Tree, key: &str) -> Result<bool> {
        if !self.contains(tree, key)? {
            return Ok(false);
        }
        self.change(tree, key, None).await
    }

    /// Makes all changes of a batch, or none; they are on disk when this returns. A reader may see some of them earlier.
    ///
    /// # Errors
    /// `STORAGE_FULL` when they could not be made durable: the previous records are unchanged, also after a restart.
    /// `INTERNAL` when the disk fails and the outcome is unknown: after a restart either all changes exist or none.
    pub async fn write(&self, batch: Batch) -> Result<()> {
        let mut edits = Vec::with_capacity(batch.edits.len());
        for edit in batch.edits {
            if edit.json.is_some() || self.contains(edit.tree, &edit.key)? {
                edits.push(edit);
            }
        }
        match edits.is_empty() {
            true => Ok(()),
            false => self.commit(edits).await.map(drop),
        }
    }

    /// Reads all records of a tree, ordered by key.
    ///
    /// # Errors
    /// As [`Self::get`], for the first record that cannot be read.
    pub fn scan<T: DeserializeOwned>(&self, tree: Tree) -> Result<Vec<(String, T)>> {
        let mut all = Vec::new();
        self.each(tree, |key, value| all.push((key.to_owned(), value)))?;
        Ok(all)
    }

    /// Calls a function with every record of a tree, ordered by key, without keeping them all in memory.
    ///
    /// # Errors
    /// As [`Self::get`], for the first record that cannot be read.
    pub fn each<T: DeserializeOwned>(&self, tree: Tree, mut show: impl FnMut(&str, T)) -> Result<()> {
        let (sled, mut ahead) = {
            let view = self.view();
            let ahead = view.ahead.iter().filter(|((of, _), _)| *of == tree);
            let ahead: BTreeMap<String, _> = ahead.map(|((_, key), json)| (key.clone(), json.clone())).collect();
            (opened(&view, tree)?, ahead)
        };
        let value = |key: &str, json: &[u8]| serde_json::from_slice(json).map_err(|cause| damaged(tree, key, cause));
        // Both are ordered by key; an unindexed change replaces the record in the index.
        for entry in sled.iter() {
            let (key, stored) = entry.map_err(|cause| damaged(tree, "?", cause))?;
            let key = String::from_utf8_lossy(&key);
            while ahead.first_key_value().is_some_and(|(first, _)| **first < *key) {
                if let Some((key, Some(json))) = ahead.pop_first() {
                    show(&key, value(&key, &json)?);
                }
            }
            if ahead.contains_key(&*key) {
                continue;
            }
            show(&key, record::open(tree.name(), &key, &stored).map_err(|cause| damaged(tree, &key, cause))?);
        }
        for (key, json) in ahead {
            if let Some(json) = json {
                show(&key, value(&key, &json)?);
            }
        }
        Ok(())
    }

    /// Lists the keys of a tree that begin with `prefix`, in order.
    ///
    /// # Errors
    /// `INTERNAL` when the tree cannot be read.
    pub fn keys(&self, tree: Tree, prefix: &str) -> Result<Vec<String>> {
        let view = self.view();
        let found = opened(&view, tree)?.scan_prefix(prefix).keys();
        let found = found.map(|key| key.map(|key| String::from_utf8_lossy(&key).into_owned()));
        let mut keys: BTreeSet<String> =
            found.collect::<sled::Result<_>>().map_err(|cause| damaged(tree, prefix, cause))?;
        let ahead = view.ahead.iter().filter(|((of, key), _)| *of == tree && key.starts_with(prefix));
        for ((_, key), json) in ahead {
            match json {
                Some(_) => keys.insert(key.clone()),
                None => keys.remove(key),
            };
        }
        Ok(keys.into_iter().collect())
    }

    fn view(&self) -> RwLockReadGuard<'_, commit::View> {
        self.inner.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn contains(&self, tree: Tree, key: &str) -> Result<bool> {
        let view = self.view();
        if let Some(json) = view.ahead.get(&(tree, key.to_owned())) {
            return Ok(json.is_some());
        }
        opened(&view, tree)?.contains_key(key).map_err(|cause| damaged(tree, key, cause))
    }

    async fn change(&self, tree: Tree, key: &str, json: Option<Vec<u8>>) -> Result<bool> {
        if !tree.journaled() {
            return self.change_unjournaled(tree, key, json);
        }
        self.commit(vec![Edit { tree, key: key.to_owned(), json }]).await
    }

    /// Sends changes to the committer and waits until they are durable; returns whether one of the records existed.
    async fn commit(&self, edits: Vec<Edit>) -> Result<bool> {
        let (done, outcome) = oneshot::channel();
        let waiting = self.inner.waiting.as_ref().expect("the committer runs as long as the store is open");
        let change = commit::Change { edits, done };
        waiting.send(change).await.map_err(|_| not_durable("the committer has stopped"))?;
        match outcome.await.map_err(|_| unknown("the committer has stopped"))? {
            Ok(before) => Ok(before),
            Err(NotStored::Refused(cause)) => Err(not_durable(cause)),
            Err(NotStored::Unknown(cause)) => Err(unknown(cause)),
        }
    }

    /// Writes directly to the index: records of trees that are not journaled can be computed again.
    fn change_unjournaled(&self, tree: Tree, key: &str, json: Option<Vec<u8>>) -> Result<bool> {
        if commit::free_bytes(&self.inner.dir) < self.inner.reserve {
            return Err(not_durable("the disk is nearly full"));
        }
        let view = self.view();
        let index = view.index.as_ref().ok_or_else(|| not_durable("the index is being reopened"))?;
        index.set(tree, key, 0, json.as_deref()).map(|before| before.is_some()).map_err(not_durable)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.waiting = None;
        if let Some(committer) = self.committer.take() {
            let _ = committer.join();
        }
    }
}

fn unusable(path: &Path, cause: impl std::fmt::Display) -> Error {
    Error::internal(format!("the state in {} cannot be opened: {cause}", path.display()))
}

fn opened(view: &commit::View, tree: Tree) -> Result<sled::Tree> {
    let failed = || {
        let message = "the state is being reopened after a disk failure";
        Error::new(Code::ServerBusy, message).with_retry_after(1)
    };
    let index = view.index.as_ref().ok_or_else(failed)?;
    Ok(index.tree(tree).clone())
}

fn damaged(tree: Tree, key: &str, cause: impl std::fmt::Display) -> Error {
    Error::internal(format!("record {}/{key} cannot be read: {cause}", tree.name()))
}

fn not_durable(cause: impl std::fmt::Display) -> Error {
    Error::new(Code::StorageFull, "the change could not be stored").with_cause(cause)
}

fn unknown(cause: impl std::fmt::Display) -> Error {
    let message = "the disk failed, and whether the change was stored is unknown: check before you repeat it";
    Error::new(Code::Internal, message).with_cause(cause)
}

#[cfg(test)]
mod tests;
