#![doc = include_str!("README.md")]
#![allow(clippy::disallowed_methods, reason = "the state folder is the program's own")]

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Code, Error, Result};

mod commit;
mod lock;
mod record;
pub mod secret;

use lock::Lock;

/// Memory sled may use for pages, bytes. Its own default is 1 GiB.
const CACHE_BYTES: u64 = 32 << 20;

/// Layout of the records below; a state folder of a newer layout is refused, never guessed at.
const FORMAT: u32 = 1;

macro_rules! trees {
    ($($name:ident $text:literal),+ $(,)?) => {
        /// What is kept, one tree each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Tree { $($name),+ }

        impl Tree {
            const ALL: &[Tree] = &[$(Tree::$name),+];

            /// The name on disk.
            const fn name(self) -> &'static str {
                match self { $(Tree::$name => $text),+ }
            }
        }
    };
}

trees! {
    Meta "meta",
    Users "users",
    Logins "logins",
    Probes "probes",
    Indexes "indexes",
    Progress "progress",
    Books "books",
}

/// The state of one server. Cheap to clone; the last clone closes it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    trees: Vec<sled::Tree>,
    /// Taken on drop, which ends the committer.
    waiting: Option<mpsc::Sender<oneshot::Sender<commit::Outcome>>>,
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
        make_private(dir)?;
        let lock = Lock::take(dir)?;
        let folder = dir.join("db");
        let open = || {
            let db = sled::Config::new().path(&folder).cache_capacity(CACHE_BYTES).flush_every_ms(None).open()?;
            let trees = Tree::ALL.iter().map(|tree| db.open_tree(tree.name())).collect::<sled::Result<Vec<_>>>()?;
            sled::Result::Ok((db, trees))
        };
        let (db, trees) = open().map_err(|cause| unusable(&folder, cause))?;
        let file = File::open(folder.join("db")).map_err(|cause| unusable(&folder, cause))?;
        let (waiting, committer) = commit::start(db, file).map_err(|cause| unusable(&folder, cause))?;
        let store =
            Self { inner: Arc::new(Inner { trees, waiting: Some(waiting), committer: Some(committer), _lock: lock }) };
        store.check_format(&folder)?;
        Ok(store)
    }

    fn check_format(&self, folder: &Path) -> Result<()> {
        match self.get::<u32>(Tree::Meta, "format")? {
            Some(FORMAT) => Ok(()),
            Some(other) => {
                let cause = format!("it was written by another version (layout {other}, this program reads {FORMAT})");
                Err(unusable(folder, cause))
            }
            // It becomes durable with the first record that is.
            None => self.insert(Tree::Meta, "format", &FORMAT),
        }
    }

    /// One record.
    ///
    /// # Errors
    /// `INTERNAL` for a record that is damaged or cannot be read: it is never passed over as missing.
    pub fn get<T: DeserializeOwned>(&self, tree: Tree, key: &str) -> Result<Option<T>> {
        let stored = self.tree(tree).get(key).map_err(|cause| damaged(tree, key, cause))?;
        stored
            .map(|stored| record::open(tree.name(), key, &stored))
            .transpose()
            .map_err(|cause| damaged(tree, key, cause))
    }

    /// Writes one record; it is on disk when this returns.
    ///
    /// # Errors
    /// `STORAGE_FULL` when it could not be made durable.
    pub async fn put<T: Serialize>(&self, tree: Tree, key: &str, value: &T) -> Result<()> {
        self.insert(tree, key, value)?;
        self.commit().await
    }

    /// Removes one record, durably; tells whether it was there.
    ///
    /// # Errors
    /// `STORAGE_FULL` when that could not be made durable.
    pub async fn delete(&self, tree: Tree, key: &str) -> Result<bool> {
        let was_there = self.tree(tree).remove(key).map_err(not_durable)?.is_some();
        if was_there {
            self.commit().await?;
        }
        Ok(was_there)
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
        for entry in self.tree(tree).iter() {
            let (key, stored) = entry.map_err(|cause| damaged(tree, "?", cause))?;
            let key = String::from_utf8_lossy(&key);
            show(&key, record::open(tree.name(), &key, &stored).map_err(|cause| damaged(tree, &key, cause))?);
        }
        Ok(())
    }

    fn tree(&self, tree: Tree) -> &sled::Tree {
        &self.inner.trees[tree as usize]
    }

    fn insert<T: Serialize>(&self, tree: Tree, key: &str, value: &T) -> Result<()> {
        let sealed = record::seal(tree.name(), key, value).map_err(Error::internal)?;
        self.tree(tree).insert(key, sealed).map(drop).map_err(not_durable)
    }

    /// Waits until everything inserted so far is on disk.
    async fn commit(&self) -> Result<()> {
        let (done, outcome) = oneshot::channel();
        let waiting = self.inner.waiting.as_ref().expect("the committer runs as long as the store is open");
        waiting.send(done).await.map_err(|_| not_durable("the committer has stopped"))?;
        outcome.await.map_err(|_| not_durable("the committer has stopped"))?.map_err(not_durable)
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
