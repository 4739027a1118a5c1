//! The index: sled, one tree each. Quick to ask, and made again from the journal when it is damaged.

use std::collections::HashMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::record;
use super::tree::Tree;

/// Memory sled may use for pages, bytes. Its own default is 1 GiB.
const CACHE_BYTES: u64 = 32 << 20;

/// How long the index may be behind its files, ms. Only the journal is waited for; a second copy of what it says soon
/// after is what mends a damaged journal.
const FLUSH_EVERY_MS: u64 = 500;

/// Where in `Meta` stands how far the index has come.
const LAST: &str = "last";

/// An open index.
pub struct Index {
    db: sled::Db,
    folder: PathBuf,
    trees: Vec<sled::Tree>,
}

/// What the index holds of the journaled trees.
#[derive(Default)]
pub struct Held {
    /// Key to the number of the change that wrote it.
    pub numbers: HashMap<(Tree, String), u64>,
    /// The last change it knows of.
    pub last: u64,
    /// What cannot be read.
    pub faults: Vec<String>,
}

impl Index {
    /// Opens what lies in `folder`, or makes it. sled checks little and may panic over damage: that is an error like
    /// any other here.
    ///
    /// # Errors
    /// What sled says.
    pub fn open(folder: &Path) -> Result<Self, String> {
        guarded(|| {
            let config = sled::Config::new().path(folder).cache_capacity(CACHE_BYTES);
            let db = config.flush_every_ms(Some(FLUSH_EVERY_MS)).open()?;
            let trees = Tree::ALL.iter().map(|tree| db.open_tree(tree.name())).collect::<sled::Result<Vec<_>>>()?;
            Ok(Self { db, folder: folder.to_owned(), trees })
        })
    }

    pub fn tree(&self, tree: Tree) -> &sled::Tree {
        &self.trees[tree as usize]
    }

    /// Writes or removes; tells how many bytes of JSON were there before.
    pub fn set(&self, tree: Tree, key: &str, number: u64, json: Option<&[u8]>) -> sled::Result<Option<usize>> {
        let before = match json {
            Some(json) => self.tree(tree).insert(key, record::seal(tree.name(), key, number, json))?,
            None => self.tree(tree).remove(key)?,
        };
        Ok(before.map(|before| before.len()))
    }

    /// Notes how far the index has come; a removal leaves nothing else that tells.
    pub fn note(&self, number: u64) -> sled::Result<()> {
        self.set(Tree::Meta, LAST, number, Some(b"0")).map(drop)
    }

    /// Number and JSON of a record; None when there is none, or none that can be read.
    pub fn get(&self, tree: Tree, key: &str) -> Option<(u64, Vec<u8>)> {
        let sealed = self.tree(tree).get(key).ok()??;
        record::verify(tree.name(), key, &sealed).ok().map(|(number, json)| (number, json.to_vec()))
    }

    /// Reads every journaled record and looks whether it is what was written.
    pub fn check(&self) -> Held {
        let last = guarded(|| Ok(self.get(Tree::Meta, LAST).map_or(0, |(number, _)| number))).unwrap_or(0);
        let mut held = Held { last, ..Held::default() };
        for tree in Tree::kept() {
            let read = guarded(|| {
                for entry in self.tree(tree).iter() {
                    let (key, sealed) = entry?;
                    let key = String::from_utf8_lossy(&key).into_owned();
                    match record::verify(tree.name(), &key, &sealed) {
                        Ok((number, _)) => {
                            held.last = held.last.max(number);
                            held.numbers.insert((tree, key), number);
                        }
                        Err(fault) => held.faults.push(format!("record {}/{key}: {fault}", tree.name())),
                    }
                }
                Ok(())
            });
            if let Err(fault) = read {
                held.faults.push(format!("tree {}: {fault}", tree.name()));
            }
        }
        held
    }

    /// Waits until its files hold everything, and the disk holds its files: sled's own flush is no data sync.
    pub fn sync(&self) -> Result<(), String> {
        guarded(|| self.db.flush().map(drop))?;
        synced(&self.folder).map_err(|cause| cause.to_string())
    }
}

fn synced(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => synced(&entry.path())?,
            // One that sled took away meanwhile needs no sync.
            false => match File::open(entry.path()) {
                Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {}
                file => file?.sync_data()?,
            },
        }
    }
    File::open(folder)?.sync_all()
}

fn guarded<T>(work: impl FnOnce() -> sled::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.map_err(|cause| cause.to_string()),
        Err(panic) => {
            let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(format!("it panicked: {}", said.unwrap_or_default()))
        }
    }
}
