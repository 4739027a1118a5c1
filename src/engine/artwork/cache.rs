//! Images that were made, on disk: by key, within a bound of bytes, the least recently used ones are dropped.
//!
//! Every image can be made again. So a full or broken disk only means that fewer are kept, and a file that does not read back as
//! written counts as absent. Files outlive the process.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use lru::LruCache;

/// Most images kept: each takes some 100 bytes of memory.
const MAX_ENTRIES: usize = 100_000;

/// Bytes of the hash before the image.
const DIGEST_BYTES: usize = 32;

/// Longest file that is read, bytes.
const MAX_FILE_BYTES: u64 = (super::MAX_IMAGE_BYTES + DIGEST_BYTES) as u64;

/// The cache. Clones share it.
#[derive(Clone, Debug)]
pub struct ArtworkCache {
    inner: Arc<CacheInner>,
}

#[derive(Debug)]
struct CacheInner {
    folder: PathBuf,
    max_bytes: u64,
    state: Mutex<CacheState>,
}

#[derive(Debug)]
struct CacheState {
    /// Lengths of the files, by name.
    files: LruCache<String, u64>,
    bytes: u64,
}

impl ArtworkCache {
    /// A cache in `folder`, with what an earlier process left there.
    ///
    /// # Errors
    /// When the folder cannot be created or listed.
    pub fn open(folder: &Path, max_bytes: u64) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut found: Vec<(SystemTime, String, u64)> = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let (name, metadata) = (entry.file_name().into_string(), entry.metadata()?);
            match name {
                Ok(name) if is_file_name(&name) => {
                    found.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), name, metadata.len()));
                }
                // Begun, but not written to its end.
                _ => drop(std::fs::remove_file(entry.path())),
            }
        }
        found.sort_unstable();
        let mut state = CacheState { files: LruCache::unbounded(), bytes: 0 };
        for (_, name, len) in found {
            state.bytes += len;
            state.files.put(name, len);
        }
        let inner = CacheInner { folder: folder.to_owned(), max_bytes, state: Mutex::new(state) };
        let cache = Self { inner: Arc::new(inner) };
        cache.remove_oldest();
        Ok(cache)
    }

    /// The bytes stored under a key; None if they must be made.
    pub async fn get(&self, key: &str) -> Option<Bytes> {
        let name = file_name(key);
        self.lock().files.get(&name)?;
        let cache = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let read = read_checked(&cache.inner.folder.join(&name));
            if read.is_none() {
                tracing::warn!(file = name, "a cached image did not read back as written");
                cache.remove(&name);
            }
            read
        });
        read.await.ok().flatten()
    }

    /// Whether bytes are stored under a key. This is no use of them.
    pub fn contains(&self, key: &str) -> bool {
        self.lock().files.contains(&file_name(key))
    }

    /// Whether half of the bound is reached, in bytes or in number.
    pub fn is_half_full(&self) -> bool {
        let state = self.lock();
        state.bytes >= self.inner.max_bytes / 2 || state.files.len() >= MAX_ENTRIES / 2
    }

    /// Stores bytes, which may be empty, and drops the least recently used ones to make room.
    pub async fn put(&self, key: &str, bytes: Bytes) {
        let (name, cache) = (file_name(key), self.clone());
        let write = tokio::task::spawn_blocking(move || {
            let content = [blake3::hash(&bytes).as_bytes(), &*bytes].concat();
            if content.len() as u64 > cache.inner.max_bytes.min(MAX_FILE_BYTES) {
                return;
            }
            if let Err(cause) = cache.write(&name, &content) {
                tracing::warn!(%cause, "an image was not kept");
                return;
            }
            let mut state = cache.lock();
            let former = state.files.put(name, content.len() as u64);
            state.bytes = state.bytes + content.len() as u64 - former.unwrap_or(0);
            drop(state);
            cache.remove_oldest();
        });
        let _ = write.await;
    }

    fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let (path, part) = (self.inner.folder.join(name), self.inner.folder.join(format!("{name}.part")));
        // The folder may be emptied at any time.
        std::fs::create_dir_all(&self.inner.folder)?;
        let written = std::fs::write(&part, content).and_then(|()| std::fs::rename(&part, path));
        written.inspect_err(|_| drop(std::fs::remove_file(part)))
    }

    fn remove(&self, name: &str) {
        let mut state = self.lock();
        if let Some(len) = state.files.pop(name) {
            state.bytes -= len;
        }
        let _ = std::fs::remove_file(self.inner.folder.join(name));
    }

    fn remove_oldest(&self) {
        let mut state = self.lock();
        while state.bytes > self.inner.max_bytes || state.files.len() > MAX_ENTRIES {
            let Some((name, len)) = state.files.pop_lru() else { return };
            state.bytes -= len;
            let _ = std::fs::remove_file(self.inner.folder.join(name));
        }
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_name(key: &str) -> String {
    blake3::hash(key.as_bytes()).to_hex()[..32].to_owned()
}

fn is_file_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The bytes of a file whose hash is right, and notes its use for the next start.
fn read_checked(path: &Path) -> Option<Bytes> {
    #[allow(clippy::disallowed_methods, reason = "the cache's own file")]
    let mut file = File::open(path).ok()?;
    let mut content = Vec::new();
    Read::take(&mut file, MAX_FILE_BYTES + 1).read_to_end(&mut content).ok()?;
    let _ = file.set_modified(SystemTime::now());
    let (digest, bytes) = content.split_at_checked(DIGEST_BYTES)?;
    let is_whole = blake3::hash(bytes).as_bytes() == digest;
    is_whole.then(|| Bytes::from(content).slice(DIGEST_BYTES..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[tokio::test]
    async fn images_survive_a_restart_and_the_oldest_use_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let max_bytes = 3 * (100 + DIGEST_BYTES as u64);
        let image = |byte: u8| Bytes::from(vec![byte; 100]);
        let cache = ArtworkCache::open(folder.path(), max_bytes).unwrap();
        for (key, byte) in [("a", 1), ("b", 2), ("c", 3)] {
            cache.put(key, image(byte)).await;
        }
        assert_eq!(cache.get("a").await, Some(image(1)));
        assert!(cache.contains("a") && !cache.contains("d") && cache.is_half_full());
        std::fs::write(folder.path().join("x.part"), "begun").unwrap();
        let cache = ArtworkCache::open(folder.path(), max_bytes).unwrap();
        assert_eq!(files(folder.path()), 3);
        // By times of the file system, `a` was used last; an order finer than those is not required.
        assert_eq!(cache.get("a").await, Some(image(1)));
        cache.put("d", image(4)).await;
        assert_eq!(files(folder.path()), 3, "within its bound");
        assert_eq!((cache.get("a").await, cache.get("d").await), (Some(image(1)), Some(image(4))));
        cache.put("none", Bytes::new()).await;
        assert_eq!(cache.get("none").await, Some(Bytes::new()));
        cache.put("huge", vec![0; max_bytes as usize].into()).await;
        assert_eq!(cache.get("huge").await, None);
    }

    #[tokio::test]
    async fn a_damaged_file_counts_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ArtworkCache::open(folder.path(), 1000).unwrap();
        cache.put("a", "image".into()).await;
        let path = folder.path().join(file_name("a"));
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(cache.get("a").await, None);
        assert!(!path.exists());
    }
}
