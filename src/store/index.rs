//! The index: a sled database with one sled tree per [`Tree`]. It serves reads; when damaged, it is rebuilt from the journal.

use std::collections::HashMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::tree::Tree;
use super::{if_exists, record};

/// Memory sled may use for pages, bytes. Its own default is 1 GiB.
const CACHE_BYTES: u64 = 32 << 20;

/// Interval at which sled writes its files, ms. Acknowledgements wait for the journal only, but a damaged journal is
/// repaired from this second copy, so it must follow soon.
const FLUSH_INTERVAL_MS: u64 = 500;

/// Maximum wait for sled's lock. The caller has the lock of the state, so only a child process can hold this one: a child shares the
/// locks of its parent from its fork until it executes its program.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Key in [`Tree::Meta`] of the number of the last change written to the index. A removal leaves no other trace of its number
/// there. The value is `0`.
pub const LAST_NUMBER_KEY: &str = "last";

/// The tree sled creates by itself.
const SLED_DEFAULT_TREE: &str = "__sled__default";

pub struct Index {
    /// `None` only during drop.
    db: Option<sled::Db>,
    folder: PathBuf,
    trees: Vec<sled::Tree>,
}

/// Why the index cannot be opened or read.
#[derive(Debug)]
pub enum IndexError {
    /// Its content is damaged: it is rebuilt from the journal.
    Damage(String),
    /// The disk failed: the index is rebuilt if the journal is intact.
    Io(String),
    /// The system refused a file descriptor, memory, space or permission: the index may be intact.
    System(String),
}

impl From<sled::Error> for IndexError {
    fn from(cause: sled::Error) -> Self {
        match &cause {
            sled::Error::Io(io) if is_lock_held(io) || is_resource_shortage(io) => Self::System(cause.to_string()),
            sled::Error::Io(_) => Self::Io(cause.to_string()),
            _ => Self::Damage(cause.to_string()),
        }
    }
}

/// Whether another process has sled's lock, which only the text of sled's error tells.
fn is_lock_held(cause: &std::io::Error) -> bool {
    cause.kind() == std::io::ErrorKind::Other && cause.to_string().starts_with("could not acquire lock")
}

fn is_resource_shortage(cause: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC, Errno::DQUOT, Errno::FBIG];
    let refusals = [Errno::ROFS, Errno::ACCESS, Errno::PERM];
    Errno::from_io_error(cause).is_some_and(|errno| shortages.contains(&errno) || refusals.contains(&errno))
}

/// Content of the journaled trees in the index.
#[derive(Default)]
pub struct IndexContents {
    /// Number of the change that wrote each record.
    pub numbers: HashMap<(Tree, String), u64>,
    /// Number of the last change in the index.
    pub last_number: u64,
    /// Descriptions of everything that cannot be read.
    pub faults: Vec<String>,
    /// Records that cannot be read.
    pub unreadable_records: Vec<(Tree, String)>,
}

/// Opens the sled database in `folder` and waits for its lock.
pub fn open_database(folder: &Path) -> Result<sled::Db, IndexError> {
    let config = sled::Config::new().path(folder).cache_capacity(CACHE_BYTES).flush_every_ms(Some(FLUSH_INTERVAL_MS));
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match catch_panics(|| Ok(config.open()))? {
            Err(sled::Error::Io(cause)) if is_lock_held(&cause) && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            opened => return Ok(opened?),
        }
    }
}

impl Index {
    /// Opens the index in `folder`, or creates it. sled checks little and may panic on damaged files; such a panic is
    /// returned as an error.
    pub fn open(folder: &Path) -> Result<Self, IndexError> {
        remove_unfinished_snapshots(folder).map_err(sled::Error::Io)?;
        let db = open_database(folder)?;
        let mut index = Self { db: Some(db), folder: folder.to_owned(), trees: Vec::new() };
        index.trees = catch_panics(|| Tree::ALL.iter().map(|tree| index.db().open_tree(tree.name())).collect())?;
        Ok(index)
    }

    fn db(&self) -> &sled::Db {
        self.db.as_ref().expect("the database is open until the index is dropped")
    }

    pub fn tree(&self, tree: Tree) -> &sled::Tree {
        &self.trees[tree as usize]
    }

    /// Writes a record, or removes it without JSON; returns the stored length of the previous record in bytes.
    pub fn set(&self, tree: Tree, key: &str, number: u64, json: Option<&[u8]>) -> Result<Option<usize>, IndexError> {
        catch_panics(|| {
            let before = match json {
                Some(json) => self.tree(tree).insert(key, record::encode(tree.name(), key, number, json))?,
                None => self.tree(tree).remove(key)?,
            };
            Ok(before.map(|before| before.len()))
        })
    }

    /// Reads number and JSON of a record; `None` when it is missing or damaged.
    ///
    /// # Errors
    /// The system's error; damage is not an error here.
    pub fn get(&self, tree: Tree, key: &str) -> Result<Option<(u64, Vec<u8>)>, IndexError> {
        let stored = match catch_panics(|| self.tree(tree).get(key)) {
            Ok(sealed) => sealed,
            Err(IndexError::Damage(_)) => None,
            Err(fault) => return Err(fault),
        };
        let verified = stored.as_deref().and_then(|stored| record::verify(tree.name(), key, stored).ok());
        Ok(verified.map(|(number, json)| (number, json.to_vec())))
    }

    /// Names of non-empty trees that this version does not know.
    pub fn unknown_trees(&self) -> Vec<String> {
        let names = self.db().tree_names().into_iter().filter_map(|name| String::from_utf8(name.to_vec()).ok());
        let unknown = names.filter(|name| name != SLED_DEFAULT_TREE && Tree::from_name(name).is_none());
        unknown.filter(|name| catch_panics(|| Ok(!self.db().open_tree(name)?.is_empty())).unwrap_or(false)).collect()
    }

    /// Reads every journaled record and verifies its checksum.
    ///
    /// # Errors
    /// The system's error; damage is listed in the result.
    pub fn verify(&self) -> Result<IndexContents, IndexError> {
        let last_number = self.get(Tree::Meta, LAST_NUMBER_KEY)?.map_or(0, |(number, _)| number);
        let mut contents = IndexContents { last_number, ..IndexContents::default() };
        for tree in Tree::journaled_trees() {
            let result = catch_panics(|| {
                for entry in self.tree(tree).iter() {
                    let (key, stored) = entry?;
                    let key = String::from_utf8_lossy(&key).into_owned();
                    match record::verify(tree.name(), &key, &stored) {
                        Ok((number, _)) => {
                            contents.last_number = contents.last_number.max(number);
                            contents.numbers.insert((tree, key), number);
                        }
                        Err(fault) => {
                            contents.faults.push(format!("record {}/{key}: {fault}", tree.name()));
                            contents.unreadable_records.push((tree, key));
                        }
                    }
                }
                Ok(())
            });
            match result {
                Ok(()) => {}
                Err(IndexError::Damage(fault)) => contents.faults.push(format!("tree {}: {fault}", tree.name())),
                Err(fault) => return Err(fault),
            }
        }
        Ok(contents)
    }

    /// Flushes sled and syncs its files to disk: sled's own flush does not sync the data.
    pub fn sync(&self) -> Result<(), String> {
        let result = catch_panics(|| {
            self.db().flush()?;
            // Guarded too: std panics when a folder that was read cannot be closed.
            Ok(sync_files(&self.folder)?)
        });
        result.map_err(|fault| fault.to_string())
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // sled panics when the last sync of its file fails; the dropping thread must continue.
        let (db, trees) = (self.db.take(), std::mem::take(&mut self.trees));
        if let Err(fault) = catch_panics(|| {
            drop(trees);
            drop(db);
            Ok(())
        }) {
            tracing::error!(%fault, "the index could not be closed cleanly");
        }
    }
}

/// Removes snapshots that sled did not finish because it was killed or the disk was full. At the next start sled would take
/// such a file for its newest snapshot and refuse to open because its checksum is wrong (0.34.7: `get_snapshot_files` skips
/// `.in___motion`, but unfinished ones end in `.generating`). The previous snapshot exists until the rename.
fn remove_unfinished_snapshots(folder: &Path) -> std::io::Result<()> {
    let Some(entries) = if_exists(std::fs::read_dir(folder))? else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "generating") {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn sync_files(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_files(&entry.path())?;
        } else if let Some(file) = if_exists(File::open(entry.path()))? {
            // sled may have removed the file meanwhile: then it needs no sync.
            file.sync_data()?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Runs an operation of sled, which may panic on damaged files.
pub fn catch_panics<T>(operation: impl FnOnce() -> sled::Result<T>) -> Result<T, IndexError> {
    match catch_unwind(AssertUnwindSafe(operation)) {
        Ok(outcome) => Ok(outcome?),
        Err(panic) => {
            let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(IndexError::Damage(format!("sled panicked: {}", message.unwrap_or_default())))
        }
    }
}

impl std::fmt::Display for IndexError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Damage(cause) | Self::Io(cause) | Self::System(cause)) = self;
        f.write_str(cause)
    }
}
