//! The package cache: a viewer who returns to a film, or watches the same film as another viewer, does not wait for its
//! tables.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use lru::LruCache;

use super::{Package, open_package, open_scanned_track};
use crate::domain::media::Media;
use crate::domain::playback::{SessionTracks, TrackAction};
use crate::engine::container::matroska::SharedScan;
use crate::engine::source::SourceFile;

/// Maximum memory of the cached packages, bytes; a film of two hours takes about three MiB.
const MAX_BYTES: usize = 32 << 20;

/// Files whose scan is kept: a request opens all tracks of one file, one after the other. A scan has some MB at most, and
/// files with cues have none.
const MAX_SCANS: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// The most recently used packages.
#[derive(Debug)]
pub struct PackageCache {
    max_bytes: usize,
    packages: Mutex<LruCache<PackageKey, Arc<Package>>>,
    scans: Mutex<LruCache<FileState, Arc<SharedScan>>>,
}

/// A file in one state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FileState {
    file_id: (u64, u64),
    len: u64,
    modified: SystemTime,
    changed_at: (i64, i64),
}

/// A file in one state, and some of its streams.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PackageKey {
    file: FileState,
    tracks: PackagedTracks,
}

/// ffmpeg's numbers of the packaged streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PackagedTracks {
    Muxed { video: Option<u32>, audio: Option<u32> },
    Cmaf { stream: u32 },
}

impl PackageKey {
    fn new(source: &SourceFile, tracks: PackagedTracks) -> Self {
        let SourceFile { file_id, len, modified, changed_at, .. } = *source;
        Self { file: FileState { file_id, len, modified, changed_at }, tracks }
    }
}

impl Default for PackageCache {
    fn default() -> Self {
        let (packages, scans) = (Mutex::new(LruCache::unbounded()), Mutex::new(LruCache::new(MAX_SCANS)));
        Self { max_bytes: MAX_BYTES, packages, scans }
    }
}

impl PackageCache {
    /// The muxed package of these tracks, cached or read by [`open_package`]. None if one of them is encoded or the packager cannot
    /// make them; that is not cached, because the cause may have been the timeout.
    pub async fn open(&self, source: &Arc<SourceFile>, media: &Media, tracks: &SessionTracks) -> Option<Arc<Package>> {
        let copied_stream = |track: Option<(u32, TrackAction)>| match track {
            Some((_, TrackAction::Encode)) => None,
            Some((stream, TrackAction::Copy)) => Some(Some(stream)),
            None => Some(None),
        };
        let (video, audio) = (copied_stream(tracks.video)?, copied_stream(tracks.audio)?);
        let key = PackageKey::new(source, PackagedTracks::Muxed { video, audio });
        if let Some(cached) = self.get(&key) {
            return Some(cached);
        }
        match open_package(source, media, video, audio).await {
            Ok(package) => {
                let package: Arc<Package> = Arc::new(package.into());
                self.insert(key, package.clone());
                Some(package)
            }
            Err(why) => {
                tracing::info!(
                    media.path = source.path,
                    why,
                    "ffmpeg remuxes this file, because it cannot be packaged"
                );
                None
            }
        }
    }

    /// The package of one stream (ffmpeg's number) as CMAF, cached or read by [`open_cmaf_track`](super::open_cmaf_track).
    ///
    /// # Errors
    /// Why the packager cannot handle this stream; that is not cached.
    pub async fn open_cmaf(
        &self,
        source: &Arc<SourceFile>,
        media: &Media,
        stream: u32,
    ) -> Result<Arc<Package>, String> {
        let key = PackageKey::new(source, PackagedTracks::Cmaf { stream });
        if let Some(cached) = self.get(&key) {
            return Ok(cached);
        }
        let scan = self.scan_of(&key.file);
        let package: Arc<Package> = Arc::new(open_scanned_track(source, media, stream, scan).await?.into());
        self.insert(key, package.clone());
        Ok(package)
    }

    fn scan_of(&self, file: &FileState) -> Arc<SharedScan> {
        let mut scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        scans.get_or_insert(file.clone(), Arc::default).clone()
    }

    fn get(&self, key: &PackageKey) -> Option<Arc<Package>> {
        self.packages.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn insert(&self, key: PackageKey, package: Arc<Package>) {
        let mut packages = self.packages.lock().unwrap_or_else(PoisonError::into_inner);
        packages.put(key, package);
        while packages.iter().map(|(_, package)| package.memory_bytes()).sum::<usize>() > self.max_bytes {
            packages.pop_lru();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::damaged_films::make_film;
    use crate::engine::packager::MuxedTracks;

    #[test]
    fn recent_packages_are_kept_and_another_state_of_a_file_is_another_key() {
        let bytes = make_film("a.mp4", "-f lavfi -i sine=r=48000:d=3", "-c:a aac");
        let package = || Arc::new(MuxedTracks::open_mp4(&bytes[..], Some(0), Some(1), 0.0).unwrap().into());
        let package_bytes = Package::memory_bytes(&package());
        assert!(package_bytes > 500, "{package_bytes} bytes for some hundred samples");
        let cache = PackageCache { max_bytes: package_bytes * 2, ..PackageCache::default() };
        let file = |inode: u64| FileState {
            file_id: (1, inode),
            len: 7,
            modified: SystemTime::UNIX_EPOCH,
            changed_at: (0, 0),
        };
        let key = |inode: u64| PackageKey {
            file: file(inode),
            tracks: PackagedTracks::Muxed { video: Some(0), audio: Some(1) },
        };
        let first = package();
        cache.insert(key(1), first.clone());
        cache.insert(key(2), package());
        assert!(cache.get(&key(1)).is_some_and(|known| Arc::ptr_eq(&known, &first)));
        cache.insert(key(3), package());
        assert!(cache.get(&key(2)).is_none(), "the least recently used package is evicted");
        assert!(cache.get(&key(1)).is_some() && cache.get(&key(3)).is_some());
        let later = SystemTime::UNIX_EPOCH + Duration::from_nanos(1);
        assert!(cache.get(&PackageKey { file: FileState { modified: later, ..file(1) }, ..key(1) }).is_none());
        let changed = PackageKey { file: FileState { changed_at: (0, 1), ..file(1) }, ..key(1) };
        assert!(cache.get(&changed).is_none(), "the modification time was restored");
        let silent = PackagedTracks::Muxed { video: Some(0), audio: None };
        assert!(cache.get(&PackageKey { tracks: silent, ..key(1) }).is_none());
        assert!(cache.get(&PackageKey { tracks: PackagedTracks::Cmaf { stream: 0 }, ..key(1) }).is_none());
        let small_cache = PackageCache { max_bytes: package_bytes - 1, ..PackageCache::default() };
        small_cache.insert(key(1), package());
        assert!(small_cache.get(&key(1)).is_none(), "too large to be cached");
        let scan = cache.scan_of(&file(1));
        assert!(Arc::ptr_eq(&scan, &cache.scan_of(&file(1))) && !Arc::ptr_eq(&scan, &cache.scan_of(&file(2))));
        (3..=5).for_each(|inode| drop(cache.scan_of(&file(inode))));
        assert!(!Arc::ptr_eq(&scan, &cache.scan_of(&file(1))), "a bounded number of scans is kept");
    }
}
