#![doc = include_str!("README.md")]
#![allow(clippy::disallowed_methods, reason = "the state folder is the program's own")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Code, Error, Result};

mod commit;
mod export;
mod index;
mod journal;
mod lock;
mod migrate;
mod quarantine;
mod record;
mod recover;
mod rewrite;
pub mod secret;
mod tail;
mod tree;

pub use export::import;
use lock::Lock;
pub use tree::Tree;

/// Disk space left alone unless configured, bytes: for sled, for other programs, and for what frees space.
pub const RESERVE_BYTES: u64 = 32 << 20;

/// The state of one server. Cheap to clone; the last clone closes it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    dir: PathBuf,
    reserve: u64,
    index: commit::Shared,
    /// Taken on drop, which ends the committer.
    waiting: Option<mpsc::Sender<commit::Change>>,
    committer: Option<JoinHandle<()>>,
    /// Held as long as the database is open.
    _lock: Lock,
}

impl Store {
    /// Opens the state in `dir`, making the folder (mode 0700) when it is absent.
    ///
    /// # Errors
    /// `CONFLICT` when another process has it open; `INTERNAL` naming what cannot be opened.
    pub fn open(dir: &Path) -> Result<Self> {
        Self::open_with(dir, RESERVE_BYTES)
    }

    /// The same; writes are refused while fewer than `reserve` bytes are free on the disk.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(dir: &Path, reserve: u64) -> Result<Self> {
        make_private(dir)?;
        let lock = Lock::take(dir)?;
        let opened = recover::open(dir)?;
        let (index, waiting, committer) =
            commit::start(dir.to_owned(), opened, reserve).map_err(|cause| unusable(dir, cause))?;
        let (waiting, committer) = (Some(waiting), Some(committer));
        Ok(Self { inner: Arc::new(Inner { dir: dir.to_owned(), reserve, index, waiting, committer, _lock: lock }) })
    }

    /// One record.
    ///
    /// # Errors
    /// `INTERNAL` for a record that is damaged or cannot be read: it is never passed over as missing.
    pub fn get<T: DeserializeOwned>(&self, tree: Tree, key: &str) -> Result<Option<T>> {
        let stored = self.tree(tree)?.get(key).map_err(|cause| damaged(tree, key, cause))?;
        stored
            .map(|stored| record::open(tree.name(), key, &stored))
            .transpose()
            .map_err(|cause| damaged(tree, key, cause))
    }

    /// Writes one record; it is on disk when this returns. One that can be found again is only written.
    ///
    /// # Errors
    /// `STORAGE_FULL` when it could not be made durable: then it may or may not be there after a restart, and what was
    /// there before is not half.
    pub async fn put<T: Serialize>(&self, tree: Tree, key: &str, value: &T) -> Result<()> {
        let json = record::json(value).map_err(Error::internal)?;
        self.change(tree, key, Some(json)).await.map(drop)
    }

    /// Removes one record, durably; tells whether it was there.
    ///
    /// # Errors
    /// `STORAGE_FULL` when that could not be made durable.
    pub async fn delete(&self, tree: Tree, key: &str) -> Result<bool> {
        let there = self.tree(tree)?.contains_key(key).map_err(|cause| damaged(tree, key, cause))?;
        if !there {
            return Ok(false);
        }
        self.change(tree, key, None).await
    }

    /// All records of a tree, by key.
    ///
    /// # Errors
    /// As [`Self::get`], for the first record that cannot be read.
    pub fn scan<T: DeserializeOwned>(&self, tree: Tree) -> Result<Vec<(String, T)>> {
        let mut all = Vec::new();
        self.each(tree, |key, value| all.push((key.to_owned(), value)))?;
        Ok(all)
    }

    /// Shows every record of a tree, by key, without holding them all.
    ///
    /// # Errors
    /// As [`Self::get`], for the first record that cannot be read.
    pub fn each<T: DeserializeOwned>(&self, tree: Tree, mut show: impl FnMut(&str, T)) -> Result<()> {
        for entry in self.tree(tree)?.iter() {
            let (key, stored) = entry.map_err(|cause| damaged(tree, "?", cause))?;
            let key = String::from_utf8_lossy(&key);
            show(&key, record::open(tree.name(), &key, &stored).map_err(|cause| damaged(tree, &key, cause))?);
        }
        Ok(())
    }

    fn tree(&self, tree: Tree) -> Result<sled::Tree> {
        let index = self.inner.index.read().unwrap_or_else(PoisonError::into_inner);
        let index = index.as_ref().ok_or_else(|| Error::internal("the index is being opened again"))?;
        Ok(index.tree(tree).clone())
    }

    /// Hands a change to the committer, and waits until it is durable.
    async fn change(&self, tree: Tree, key: &str, json: Option<Vec<u8>>) -> Result<bool> {
        if !tree.journaled() {
            return self.change_unjournaled(tree, key, json);
        }
        let (done, outcome) = oneshot::channel();
        let waiting = self.inner.waiting.as_ref().expect("the committer runs as long as the store is open");
        let change = commit::Change { tree, key: key.to_owned(), json, done };
        waiting.send(change).await.map_err(|_| not_durable("the committer has stopped"))?;
        outcome.await.map_err(|_| not_durable("the committer has stopped"))?.map_err(not_durable)
    }

    /// What can be found again goes straight into the index.
    fn change_unjournaled(&self, tree: Tree, key: &str, json: Option<Vec<u8>>) -> Result<bool> {
        if commit::free_bytes(&self.inner.dir) < self.inner.reserve {
            return Err(not_durable("the disk is nearly full"));
        }
        let index = self.inner.index.read().unwrap_or_else(PoisonError::into_inner);
        let index = index.as_ref().ok_or_else(|| not_durable("the index is being opened again"))?;
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

fn make_private(dir: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|cause| unusable(dir, cause))
}

fn unusable(path: &Path, cause: impl std::fmt::Display) -> Error {
    Error::internal(format!("the state in {} cannot be opened: {cause}", path.display()))
}

fn damaged(tree: Tree, key: &str, cause: impl std::fmt::Display) -> Error {
    Error::internal(format!("record {}/{key} cannot be read: {cause}", tree.name()))
}

fn not_durable(cause: impl std::fmt::Display) -> Error {
    Error::new(Code::StorageFull, "the change could not be stored").with_cause(cause)
}

#[cfg(test)]
mod tests;
