//! The segment cache: finished segments by content address, in memory first, then spilled to disk, then evicted (LRU).
//!
//! Every segment can be made again. So a full or broken disk only means that fewer are cached, and a file that does not
//! read back as written counts as absent.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::content::Content;

#[cfg(test)]
mod tests;

/// How long segments stay after the last session that needed them, so that a viewer who returns soon need not wait.
const LINGER: Duration = Duration::from_secs(60);

/// Pause before the disk is tried again after a failed write.
const DISK_REST: Duration = Duration::from_secs(30);

/// Limits of the cache, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub memory: u64,
    /// Memory one rendition may use.
    pub rendition_memory: u64,
    pub disk: u64,
}

/// A segment to serve.
#[derive(Clone, Debug)]
pub struct Stored {
    pub content: Content,
    /// Strong validator of exactly these bytes: encoders need not make the same bytes twice.
    pub etag: Arc<str>,
}

/// Cached segments of one rendition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub segments: usize,
    /// In memory and on disk together.
    pub bytes: u64,
}

/// The cache. Clones share it.
#[derive(Clone, Debug)]
pub struct Segments {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    budget: Budget,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    shelves: HashMap<Arc<str>, Shelf>,
    memory: u64,
    disk: u64,
    /// Counts uses, so that the least recently used entry has the lowest number.
    uses: u64,
    disk_rests_until: Option<Instant>,
}

#[derive(Debug, Default)]
struct Shelf {
    entries: HashMap<usize, Entry>,
    memory: u64,
    holds: usize,
    free_at: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    /// None when it is on disk.
    memory: Option<Content>,
    spilling: bool,
    len: u64,
    /// Hash of its bytes; None for a segment that is quickly made again, and so is dropped instead of spilled.
    digest: Option<blake3::Hash>,
    etag: Arc<str>,
    used: u64,
}

/// Keeps a rendition's segments in the cache. When the last hold is dropped they linger for `LINGER`, then expire.
#[derive(Debug)]
pub struct Hold {
    cache: Segments,
    rendition: Arc<str>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(shelf) = self.cache.lock().shelves.get_mut(&self.rendition) {
            shelf.holds -= 1;
            if shelf.holds == 0 {
                shelf.free_at = Some(Instant::now() + LINGER);
            }
        }
    }
}

impl Segments {
    /// A cache that spills into `folder`, which is emptied first: files of an earlier process cannot be trusted.
    ///
    /// # Errors
    /// When the folder cannot be emptied or created.
    pub fn open(folder: &Path, budget: Budget) -> io::Result<Self> {
        remove_folder(folder)?;
        std::fs::create_dir_all(folder)?;
        Ok(Self { inner: Arc::new(Inner { folder: folder.to_owned(), budget, state: Mutex::default() }) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().expect("no panic while held")
    }

    fn file(&self, rendition: &str, index: usize) -> PathBuf {
        self.inner.folder.join(rendition).join(format!("{index}.ts"))
    }

    /// Keeps all present and future segments of `rendition` until the hold is dropped.
    pub fn hold(&self, rendition: &Arc<str>) -> Hold {
        let mut state = self.lock();
        let shelf = state.shelves.entry(rendition.clone()).or_default();
        shelf.holds += 1;
        shelf.free_at = None;
        Hold { cache: self.clone(), rendition: rendition.clone() }
    }

    /// Whether a segment is cached.
    pub fn holds(&self, rendition: &str, index: usize) -> bool {
        self.lock().shelves.get(rendition).is_some_and(|shelf| shelf.entries.contains_key(&index))
    }

    pub fn tally(&self, rendition: &str) -> Tally {
        let state = self.lock();
        let Some(shelf) = state.shelves.get(rendition) else { return Tally::default() };
        Tally { segments: shelf.entries.len(), bytes: shelf.entries.values().map(|entry| entry.len).sum() }
    }

    /// A cached segment; None when it must be made (again).
    pub async fn get(&self, rendition: &Arc<str>, index: usize) -> Option<Stored> {
        let (etag, len, digest) = {
            let mut state = self.lock();
            state.uses += 1;
            let used = state.uses;
            let entry = state.shelves.get_mut(rendition)?.entries.get_mut(&index)?;
            entry.used = used;
            if let Some(content) = &entry.memory {
                return Some(Stored { content: content.clone(), etag: entry.etag.clone() });
            }
            (entry.etag.clone(), entry.len, entry.digest)
        };
        let file = self.file(rendition, index);
        #[allow(clippy::disallowed_methods, reason = "the cache's own file")]
        let read = tokio::task::spawn_blocking(move || std::fs::read(file)).await;
        match read {
            Ok(Ok(bytes)) if bytes.len() as u64 == len && Some(blake3::hash(&bytes)) == digest => {
                Some(Stored { content: bytes.into(), etag })
            }
            _ => {
                tracing::warn!(rendition = &**rendition, index, "a spilled segment did not read back as written");
                self.forget(&mut self.lock(), rendition, index);
                None
            }
        }
    }

    /// Stores a segment and evicts others to make room; returns when that is done.
    pub async fn put(&self, rendition: &Arc<str>, index: usize, bytes: Bytes) -> Stored {
        let digest = blake3::hash(&bytes);
        let etag = quoted(&digest);
        self.insert(rendition, index, Content::Whole(bytes), (etag, Some(digest))).await
    }

    /// Stores a segment that can be made again with the same bytes, faster than a disk returns them. `made_of` names its
    /// inputs and gives the validator, so that its bytes are neither hashed nor ever written to disk.
    pub async fn put_light(&self, rendition: &Arc<str>, index: usize, content: Content, made_of: &str) -> Stored {
        let etag = quoted(&blake3::hash(format!("{rendition} {index} {made_of}").as_bytes()));
        self.insert(rendition, index, content, (etag, None)).await
    }

    async fn insert(
        &self,
        rendition: &Arc<str>,
        index: usize,
        content: Content,
        (etag, digest): (Arc<str>, Option<blake3::Hash>),
    ) -> Stored {
        let len = content.weight();
        let stored = Stored { content: content.clone(), etag: etag.clone() };
        let (victims, to_disk) = {
            let mut state = self.lock();
            self.forget(&mut state, rendition, index);
            state.uses += 1;
            let entry = Entry { memory: Some(content), spilling: false, len, digest, etag, used: state.uses };
            state.memory += len;
            let shelf = state.shelves.entry(rendition.clone()).or_default();
            shelf.memory += len;
            shelf.entries.insert(index, entry);
            let to_disk =
                self.inner.budget.disk > 0 && state.disk_rests_until.is_none_or(|until| Instant::now() >= until);
            (self.victims(&mut state, rendition, index), to_disk)
        };
        for (rendition, index, bytes) in victims {
            match bytes.filter(|_| to_disk) {
                Some(bytes) => self.spill(&rendition, index, bytes).await,
                None => self.forget(&mut self.lock(), &rendition, index),
            }
        }
        stored
    }

    /// Picks the least recently used entries in memory that must leave it, and marks them as spilling.
    fn victims(&self, state: &mut State, newest: &Arc<str>, newest_index: usize) -> Vec<Victim> {
        let mut victims = Vec::new();
        let (mut memory, mut shelf_memory) = (state.memory, state.shelves.get(newest).map_or(0, |shelf| shelf.memory));
        loop {
            let over_shelf = shelf_memory > self.inner.budget.rendition_memory;
            if !over_shelf && memory <= self.inner.budget.memory {
                return victims;
            }
            let oldest = state
                .shelves
                .iter_mut()
                .filter(|(name, _)| !over_shelf || *name == newest)
                .flat_map(|(name, shelf)| shelf.entries.iter_mut().map(move |(index, entry)| (name, *index, entry)))
                .filter(|(name, index, entry)| {
                    entry.memory.is_some() && !entry.spilling && !(*name == newest && *index == newest_index)
                })
                .min_by_key(|(_, _, entry)| entry.used);
            let Some((name, index, entry)) = oldest else { return victims };
            entry.spilling = true;
            memory -= entry.len;
            if name == newest {
                shelf_memory -= entry.len;
            }
            let bytes = match &entry.memory {
                Some(Content::Whole(bytes)) if entry.digest.is_some() => Some(bytes.clone()),
                _ => None,
            };
            victims.push((name.clone(), index, bytes));
        }
    }

    async fn spill(&self, rendition: &Arc<str>, index: usize, bytes: Bytes) {
        let file = self.file(rendition, index);
        let len = bytes.len() as u64;
        let written = tokio::task::spawn_blocking(move || write_whole(&file, &bytes)).await;
        let written = written.unwrap_or_else(|cause| Err(io::Error::other(cause)));
        let mut state = self.lock();
        if let Err(cause) = written {
            tracing::warn!(%cause, "cannot spill segments to disk");
            state.disk_rests_until = Some(Instant::now() + DISK_REST);
            self.forget(&mut state, rendition, index);
            return;
        }
        let spilled = state.shelves.get_mut(rendition).and_then(|shelf| {
            let entry = shelf.entries.get_mut(&index).filter(|entry| entry.spilling)?;
            entry.spilling = false;
            entry.memory = None;
            shelf.memory -= len;
            Some(())
        });
        if spilled.is_none() {
            // Evicted or replaced while it was written.
            let _ = std::fs::remove_file(self.file(rendition, index));
            return;
        }
        state.memory -= len;
        state.disk += len;
        while state.disk > self.inner.budget.disk {
            let oldest = state
                .shelves
                .iter()
                .flat_map(|(name, shelf)| shelf.entries.iter().map(move |(index, entry)| (name, *index, entry)))
                .filter(|(_, _, entry)| entry.memory.is_none())
                .min_by_key(|(_, _, entry)| entry.used)
                .map(|(name, index, _)| (name.clone(), index));
            let Some((name, index)) = oldest else { return };
            self.forget(&mut state, &name, index);
        }
    }

    fn forget(&self, state: &mut State, rendition: &str, index: usize) {
        let Some(shelf) = state.shelves.get_mut(rendition) else { return };
        let Some(entry) = shelf.entries.remove(&index) else { return };
        if entry.memory.is_some() {
            shelf.memory -= entry.len;
            state.memory -= entry.len;
        } else {
            state.disk -= entry.len;
            let _ = std::fs::remove_file(self.file(rendition, index));
        }
    }

    /// Evicts the segments of renditions that have had no hold for `LINGER`.
    pub fn expire(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        let due = |shelf: &Shelf| shelf.holds == 0 && shelf.free_at.is_none_or(|at| at <= now);
        let names: Vec<Arc<str>> =
            state.shelves.iter().filter(|(_, shelf)| due(shelf)).map(|(name, _)| name.clone()).collect();
        for name in names {
            let indexes: Vec<usize> = state.shelves[&name].entries.keys().copied().collect();
            for index in indexes {
                self.forget(&mut state, &name, index);
            }
            state.shelves.remove(&name);
            let _ = std::fs::remove_dir(self.inner.folder.join(&*name));
        }
    }

    /// Empties the cache and removes every file.
    pub fn clear(&self) {
        *self.lock() = State::default();
        let _ = remove_folder(&self.inner.folder);
    }
}

/// An entry that must leave memory: rendition, segment, and its bytes if they are to be spilled.
type Victim = (Arc<str>, usize, Option<Bytes>);

fn quoted(digest: &blake3::Hash) -> Arc<str> {
    format!("\"{}\"", &digest.to_hex()[..32]).into()
}

/// Writes a temporary file and renames it, so that a file of this name is always complete.
fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().expect("a segment file is in its rendition's folder");
    std::fs::create_dir_all(folder)?;
    let beside = file.with_extension("part");
    let written = std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, file));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
        _ => Ok(()),
    }
}
