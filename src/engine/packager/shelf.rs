//! The package cache: a viewer who returns to a film, or watches the same film as another viewer, does not wait for its
//! tables.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::{Package, open};
use crate::domain::media::Media;
use crate::engine::source::Source;

/// Maximum memory of the cached packages, bytes; a film of two hours takes about three MiB.
const MOST_BYTES: usize = 32 << 20;

/// Packages in order of use, the most recent last.
#[derive(Debug)]
pub struct Shelf {
    most: usize,
    kept: Mutex<VecDeque<(Key, Arc<Package>)>>,
}

/// A file in one state, and two of its streams.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    inode: (u64, u64),
    len: u64,
    modified: SystemTime,
    changed: (i64, i64),
    video: Option<u32>,
    audio: Option<u32>,
}

impl Default for Shelf {
    fn default() -> Self {
        Self { most: MOST_BYTES, kept: Mutex::default() }
    }
}

impl Shelf {
    /// The package of stream `video` and stream `audio`, cached or read by [`open`].
    ///
    /// # Errors
    /// Those of [`open`]. Errors are not cached, because the cause may have been the timeout.
    pub async fn open(
        &self,
        source: &Arc<Source>,
        media: &Media,
        video: Option<u32>,
        audio: Option<u32>,
    ) -> Result<Arc<Package>, String> {
        let key = Key {
            inode: source.inode,
            len: source.len,
            modified: source.modified,
            changed: source.changed,
            video,
            audio,
        };
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        let package = Arc::new(open(source, media, video, audio).await?);
        self.keep(key, package.clone());
        Ok(package)
    }

    fn known(&self, key: &Key) -> Option<Arc<Package>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(known, _)| known == key)?;
        let found = kept.remove(at)?;
        let package = found.1.clone();
        kept.push_back(found);
        Some(package)
    }

    fn keep(&self, key: Key, package: Arc<Package>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| *known != key);
        kept.push_back((key, package));
        let weigh = |kept: &VecDeque<(Key, Arc<Package>)>| kept.iter().map(|(_, one)| one.weight()).sum::<usize>();
        while weigh(&kept) > self.most {
            kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::damaged_films::make_film;

    #[test]
    fn what_was_used_last_is_kept_and_another_state_of_a_file_is_another_film() {
        let bytes = make_film("a.mp4", "-f lavfi -i sine=r=48000:d=3", "-c:a aac");
        let package = || Arc::new(Package::mp4(&bytes[..], Some(0), Some(1), 0.0).unwrap());
        let weight = package().weight();
        assert!(weight > 500, "{weight} bytes for some hundred samples");
        let shelf = Shelf { most: weight * 2, ..Shelf::default() };
        let key = |node: u64| Key {
            inode: (1, node),
            len: 7,
            modified: SystemTime::UNIX_EPOCH,
            changed: (0, 0),
            video: Some(0),
            audio: Some(1),
        };
        let first = package();
        shelf.keep(key(1), first.clone());
        shelf.keep(key(2), package());
        assert!(shelf.known(&key(1)).is_some_and(|known| Arc::ptr_eq(&known, &first)));
        shelf.keep(key(3), package());
        assert!(shelf.known(&key(2)).is_none(), "the least recently used package is evicted");
        assert!(shelf.known(&key(1)).is_some() && shelf.known(&key(3)).is_some());
        let later = SystemTime::UNIX_EPOCH + Duration::from_nanos(1);
        assert!(shelf.known(&Key { modified: later, ..key(1) }).is_none());
        assert!(shelf.known(&Key { changed: (0, 1), ..key(1) }).is_none(), "the modification time was restored");
        assert!(shelf.known(&Key { audio: None, ..key(1) }).is_none());
        let narrow = Shelf { most: weight - 1, ..Shelf::default() };
        narrow.keep(key(1), package());
        assert!(narrow.known(&key(1)).is_none(), "too large to be cached");
    }
}
