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

use super::content::SegmentContent;

#[cfg(test)]
mod tests;

/// How long segments stay after the last session that needed them, so that a viewer who returns soon need not wait.
const LINGER: Duration = Duration::from_secs(60);

/// Pause before the disk is tried again after a failed write.
const DISK_RETRY_DELAY: Duration = Duration::from_secs(30);

/// Limits of the cache, bytes.
#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    pub memory_bytes: u64,
    /// Memory one rendition may use.
    pub rendition_memory_bytes: u64,
    pub disk_bytes: u64,
}

/// A segment to serve.
#[derive(Clone, Debug)]
pub struct StoredSegment {
    pub content: SegmentContent,
    /// Strong validator of exactly these bytes: encoders need not make the same bytes twice.
    pub etag: Arc<str>,
}

/// Cached segments of one rendition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenditionUsage {
    pub segments: usize,
    /// In memory and on disk together.
    pub bytes: u64,
}

/// The whole cache: its contents, and how often a requested segment was in it since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    pub hits: u64,
    pub misses: u64,
}

/// The cache. Clones share it.
#[derive(Clone, Debug)]
pub struct SegmentCache {
    inner: Arc<CacheInner>,
}

#[derive(Debug)]
struct CacheInner {
    folder: PathBuf,
    budget: CacheLimits,
    state: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    renditions: HashMap<Arc<str>, RenditionSegments>,
    memory_bytes: u64,
    disk_bytes: u64,
    /// Counts uses, so that the least recently used entry has the lowest number.
    use_count: u64,
    disk_paused_until: Option<Instant>,
    hits: u64,
    misses: u64,
}

#[derive(Debug, Default)]
struct RenditionSegments {
    entries: HashMap<usize, CachedSegment>,
    memory_bytes: u64,
    hold_count: usize,
    expires_at: Option<Instant>,
}

#[derive(Debug)]
struct CachedSegment {
    /// None when it is on disk.
    content: Option<SegmentContent>,
    is_spilling: bool,
    len: u64,
    /// Hash of its bytes; None for a segment that is quickly made again, and so is dropped instead of spilled.
    digest: Option<blake3::Hash>,
    etag: Arc<str>,
    last_use: u64,
}

/// Keeps a rendition's segments in the cache. When the last hold is dropped they linger for `LINGER`, then expire.
#[derive(Debug)]
pub struct SegmentHold {
    cache: SegmentCache,
    rendition: Arc<str>,
}

impl Drop for SegmentHold {
    fn drop(&mut self) {
        if let Some(segments) = self.cache.lock().renditions.get_mut(&self.rendition) {
            segments.hold_count -= 1;
            if segments.hold_count == 0 {
                segments.expires_at = Some(Instant::now() + LINGER);
            }
        }
    }
}

impl SegmentCache {
    /// A cache that spills into `folder`, which is emptied first: files of an earlier process cannot be trusted.
    pub fn open(folder: &Path, budget: CacheLimits) -> io::Result<Self> {
        remove_folder(folder)?;
        std::fs::create_dir_all(folder)?;
        Ok(Self { inner: Arc::new(CacheInner { folder: folder.to_owned(), budget, state: Mutex::default() }) })
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.inner.state.lock().expect("no panic while held")
    }

    fn file_path(&self, rendition: &str, index: usize) -> PathBuf {
        self.inner.folder.join(rendition).join(format!("{index}.ts"))
    }

    /// Keeps all present and future segments of `rendition` until the hold is dropped.
    pub fn hold(&self, rendition: &Arc<str>) -> SegmentHold {
        let mut state = self.lock();
        let segments = state.renditions.entry(rendition.clone()).or_default();
        segments.hold_count += 1;
        segments.expires_at = None;
        SegmentHold { cache: self.clone(), rendition: rendition.clone() }
    }

    /// Whether a segment is cached.
    pub fn contains(&self, rendition: &str, index: usize) -> bool {
        self.lock().renditions.get(rendition).is_some_and(|segments| segments.entries.contains_key(&index))
    }

    pub fn rendition_usage(&self, rendition: &str) -> RenditionUsage {
        let state = self.lock();
        let Some(segments) = state.renditions.get(rendition) else { return RenditionUsage::default() };
        let bytes = segments.entries.values().map(|entry| entry.len).sum();
        RenditionUsage { segments: segments.entries.len(), bytes }
    }

    pub fn usage(&self) -> CacheUsage {
        let CacheState { memory_bytes, disk_bytes, hits, misses, .. } = *self.lock();
        CacheUsage { memory_bytes, disk_bytes, hits, misses }
    }

    /// A cached segment; None when it must be made (again).
    pub async fn get(&self, rendition: &Arc<str>, index: usize) -> Option<StoredSegment> {
        let found = self.find(rendition, index).await;
        let mut state = self.lock();
        let count = if found.is_some() { &mut state.hits } else { &mut state.misses };
        *count += 1;
        drop(state);
        found
    }

    /// As [`Self::get`], without counting a hit or a miss.
    pub async fn find(&self, rendition: &Arc<str>, index: usize) -> Option<StoredSegment> {
        let (etag, len, digest) = {
            let mut state = self.lock();
            state.use_count += 1;
            let used = state.use_count;
            let entry = state.renditions.get_mut(rendition)?.entries.get_mut(&index)?;
            entry.last_use = used;
            if let Some(content) = &entry.content {
                return Some(StoredSegment { content: content.clone(), etag: entry.etag.clone() });
            }
            (entry.etag.clone(), entry.len, entry.digest)
        };
        let file = self.file_path(rendition, index);
        #[allow(clippy::disallowed_methods, reason = "the cache's own file")]
        let read = tokio::task::spawn_blocking(move || std::fs::read(file)).await;
        match read {
            Ok(Ok(bytes)) if bytes.len() as u64 == len && Some(blake3::hash(&bytes)) == digest => {
                Some(StoredSegment { content: bytes.into(), etag })
            }
            _ => {
                tracing::warn!(rendition = &**rendition, index, "a spilled segment did not read back as written");
                self.remove(&mut self.lock(), rendition, index);
                None
            }
        }
    }

    /// Stores a segment and evicts others to make room; returns when that is done. `inputs` is given for a segment that can be
    /// made again with the same bytes, faster than a disk returns them: they name its inputs and give the validator, so that
    /// its bytes are neither hashed nor ever written to disk.
    pub async fn put(
        &self,
        rendition: &Arc<str>,
        index: usize,
        content: SegmentContent,
        inputs: Option<&str>,
    ) -> StoredSegment {
        let (etag, digest) = match (&content, inputs) {
            (SegmentContent::InMemory(bytes), None) => {
                let digest = blake3::hash(bytes);
                (quoted_etag(&digest), Some(digest))
            }
            (_, inputs) => {
                let inputs = format!("{rendition} {index} {}", inputs.unwrap_or_default());
                (quoted_etag(&blake3::hash(inputs.as_bytes())), None)
            }
        };
        let len = content.memory_bytes();
        let stored = StoredSegment { content: content.clone(), etag: etag.clone() };
        let (victims, can_spill) = {
            let mut state = self.lock();
            self.remove(&mut state, rendition, index);
            state.use_count += 1;
            let (content, last_use) = (Some(content), state.use_count);
            let entry = CachedSegment { content, is_spilling: false, len, digest, etag, last_use };
            state.memory_bytes += len;
            let segments = state.renditions.entry(rendition.clone()).or_default();
            segments.memory_bytes += len;
            segments.entries.insert(index, entry);
            let can_spill =
                self.inner.budget.disk_bytes > 0 && state.disk_paused_until.is_none_or(|until| Instant::now() >= until);
            (self.pick_victims(&mut state, rendition, index), can_spill)
        };
        for (rendition, index, bytes) in victims {
            match bytes.filter(|_| can_spill) {
                Some(bytes) => self.spill(&rendition, index, bytes).await,
                None => self.remove(&mut self.lock(), &rendition, index),
            }
        }
        stored
    }

    /// Picks the least recently used entries in memory that must leave it, and marks them as spilling.
    fn pick_victims(&self, state: &mut CacheState, newest: &Arc<str>, newest_index: usize) -> Vec<Victim> {
        let mut victims = Vec::new();
        let (mut memory, mut rendition_memory) =
            (state.memory_bytes, state.renditions.get(newest).map_or(0, |segments| segments.memory_bytes));
        loop {
            let is_over_rendition_limit = rendition_memory > self.inner.budget.rendition_memory_bytes;
            if !is_over_rendition_limit && memory <= self.inner.budget.memory_bytes {
                return victims;
            }
            let oldest = state
                .renditions
                .iter_mut()
                .filter(|(name, _)| !is_over_rendition_limit || *name == newest)
                .flat_map(|(name, segments)| {
                    segments.entries.iter_mut().map(move |(index, entry)| (name, *index, entry))
                })
                .filter(|(name, index, entry)| {
                    entry.content.is_some() && !entry.is_spilling && !(*name == newest && *index == newest_index)
                })
                .min_by_key(|(_, _, entry)| entry.last_use);
            let Some((name, index, entry)) = oldest else { return victims };
            entry.is_spilling = true;
            memory -= entry.len;
            if name == newest {
                rendition_memory -= entry.len;
            }
            let bytes = match &entry.content {
                Some(SegmentContent::InMemory(bytes)) if entry.digest.is_some() => Some(bytes.clone()),
                _ => None,
            };
            victims.push((name.clone(), index, bytes));
        }
    }

    async fn spill(&self, rendition: &Arc<str>, index: usize, bytes: Bytes) {
        let file = self.file_path(rendition, index);
        let len = bytes.len() as u64;
        let result = tokio::task::spawn_blocking(move || write_whole(&file, &bytes)).await;
        let result = result.unwrap_or_else(|cause| Err(io::Error::other(cause)));
        let mut state = self.lock();
        if let Err(cause) = result {
            tracing::warn!(%cause, "cannot spill segments to disk");
            state.disk_paused_until = Some(Instant::now() + DISK_RETRY_DELAY);
            self.remove(&mut state, rendition, index);
            return;
        }
        let spilled = state.renditions.get_mut(rendition).and_then(|segments| {
            let entry = segments.entries.get_mut(&index).filter(|entry| entry.is_spilling)?;
            entry.is_spilling = false;
            entry.content = None;
            segments.memory_bytes -= len;
            Some(())
        });
        if spilled.is_none() {
            // Evicted or replaced while it was written.
            let _ = std::fs::remove_file(self.file_path(rendition, index));
            return;
        }
        state.memory_bytes -= len;
        state.disk_bytes += len;
        while state.disk_bytes > self.inner.budget.disk_bytes {
            let oldest = state
                .renditions
                .iter()
                .flat_map(|(name, segments)| segments.entries.iter().map(move |(index, entry)| (name, *index, entry)))
                .filter(|(_, _, entry)| entry.content.is_none())
                .min_by_key(|(_, _, entry)| entry.last_use)
                .map(|(name, index, _)| (name.clone(), index));
            let Some((name, index)) = oldest else { return };
            self.remove(&mut state, &name, index);
        }
    }

    fn remove(&self, state: &mut CacheState, rendition: &str, index: usize) {
        let Some(segments) = state.renditions.get_mut(rendition) else { return };
        let Some(entry) = segments.entries.remove(&index) else { return };
        if entry.content.is_some() {
            segments.memory_bytes -= entry.len;
            state.memory_bytes -= entry.len;
        } else {
            state.disk_bytes -= entry.len;
            let _ = std::fs::remove_file(self.file_path(rendition, index));
        }
    }

    /// Evicts the segments of renditions that have had no hold for `LINGER`.
    pub fn evict_expired(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        let is_due =
            |segments: &RenditionSegments| segments.hold_count == 0 && segments.expires_at.is_none_or(|at| at <= now);
        let names: Vec<Arc<str>> =
            state.renditions.iter().filter(|(_, segments)| is_due(segments)).map(|(name, _)| name.clone()).collect();
        for name in names {
            let indexes: Vec<usize> = state.renditions[&name].entries.keys().copied().collect();
            for index in indexes {
                self.remove(&mut state, &name, index);
            }
            state.renditions.remove(&name);
            let _ = std::fs::remove_dir(self.inner.folder.join(&*name));
        }
    }

    /// Empties the cache and removes every file.
    pub fn clear(&self) {
        *self.lock() = CacheState::default();
        let _ = remove_folder(&self.inner.folder);
    }
}

/// An entry that must leave memory: rendition, segment, and its bytes if they are to be spilled.
type Victim = (Arc<str>, usize, Option<Bytes>);

fn quoted_etag(digest: &blake3::Hash) -> Arc<str> {
    format!("\"{}\"", &digest.to_hex()[..32]).into()
}

/// Writes a temporary file and renames it, so that a file of this name is always complete.
fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().expect("a segment file is in its rendition's folder");
    std::fs::create_dir_all(folder)?;
    let temporary_path = file.with_extension("part");
    let result = std::fs::write(&temporary_path, bytes).and_then(|()| std::fs::rename(&temporary_path, file));
    if result.is_err() {
        let _ = std::fs::remove_file(&temporary_path);
    }
    result
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
        _ => Ok(()),
    }
}
