//! The library for requests: files opened by path and bytes read, all within a deadline.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::engine::source::{Roots, SourceFile};
use crate::error::{Code, Error, Result};

/// How long the file system may take to answer.
const STORAGE_DEADLINE: Duration = Duration::from_secs(15);

/// When the client should retry: a sleeping disk has started by then.
const RETRY_SECONDS: u32 = 5;

/// Threads that may wait for one root at a time, so that a dead disk cannot block more than these.
const LANES_PER_ROOT: usize = 16;

/// Files kept open between requests.
const OPEN_FILES: usize = 256;

/// How long a path is assumed to lead to the same file.
const TRUST: Duration = Duration::from_secs(1);

/// How long an unused file stays open: a deleted file keeps its disk space that long.
const LINGER: Duration = Duration::from_secs(10);

/// The roots and the files open beneath them.
pub struct Library {
    roots: Arc<Roots>,
    lanes: Vec<Arc<Semaphore>>,
    open: Arc<Mutex<HashMap<String, Opened>>>,
}

struct Opened {
    source: Arc<SourceFile>,
    checked: Instant,
    used: Instant,
}

impl Library {
    pub fn new(roots: Arc<Roots>) -> Self {
        let lanes = roots.list().iter().map(|_| Arc::new(Semaphore::new(LANES_PER_ROOT))).collect();
        Self { roots, lanes, open: Arc::default() }
    }

    pub fn roots(&self) -> &Arc<Roots> {
        &self.roots
    }

    /// Opens a media file by its request path, or returns the one that is already open.
    ///
    /// # Errors
    /// Those of [`Roots::open_media`]; `STORAGE_TIMEOUT` after 15 s.
    pub async fn open(&self, raw: &str) -> Result<Arc<SourceFile>> {
        if let Some(known) = self.known(raw) {
            return Ok(known);
        }
        let root = self.roots.locate(raw)?.root_index;
        let (roots, path) = (self.roots.clone(), raw.to_owned());
        let source = self.within_deadline(root, move || roots.open_media(&path)).await?;
        Ok(self.remember(raw, source))
    }

    /// Reads `len` bytes of a file, or fewer at its end. Waits for the disk off the async threads.
    ///
    /// # Errors
    /// `STORAGE_TIMEOUT`, `SOURCE_READ_FAILED`.
    pub async fn read(&self, source: &Arc<SourceFile>, offset: u64, len: usize) -> Result<Vec<u8>> {
        let source = source.clone();
        self.within_deadline(source.root_index, move || {
            let mut buffer = vec![0; len];
            let filled = source.read_blocking(&mut buffer, offset).map_err(|cause| unreadable(&source, &cause))?;
            buffer.truncate(filled);
            Ok(buffer)
        })
        .await
    }

    /// Reads a range into the page cache off the async threads; returns how much of it the file still has.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub async fn warm(&self, source: &Arc<SourceFile>, offset: u64, len: u64) -> Result<u64> {
        let source = source.clone();
        self.within_deadline(source.root_index, move || {
            source.warm_blocking(offset, len).map_err(|cause| unreadable(&source, &cause))
        })
        .await
    }

    /// Drops an open file that has changed, so that the next request opens it again.
    pub fn forget(&self, source: &Arc<SourceFile>) {
        self.opened().retain(|_, known| !Arc::ptr_eq(&known.source, source));
    }

    /// Closes a file that was kept open between requests, because its player has stopped.
    pub fn close(&self, source: &SourceFile) {
        self.opened().retain(|_, known| known.source.path != source.path);
    }

    /// Runs blocking file work for one root, off the async threads.
    ///
    /// # Errors
    /// Those of the work; `STORAGE_TIMEOUT` after 15 s, including the wait for a thread. Abandoned work occupies one of the
    /// root's threads until the file system responds.
    pub async fn within_deadline<T, W>(&self, root: usize, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T> + Send + 'static,
    {
        let lane = self.lanes[root].clone();
        let job = async {
            let place = lane.acquire_owned().await.map_err(Error::internal)?;
            let done = tokio::task::spawn_blocking(move || {
                let _place = place;
                work()
            });
            done.await.map_err(Error::internal)?
        };
        let slow = || Error::new(Code::StorageTimeout, "the file system did not answer within 15 s");
        tokio::time::timeout(STORAGE_DEADLINE, job)
            .await
            .unwrap_or_else(|_| Err(slow().with_retry_after(RETRY_SECONDS)))
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, HashMap<String, Opened>> {
        self.open.lock().expect("no panic while held")
    }

    fn known(&self, raw: &str) -> Option<Arc<SourceFile>> {
        let mut opened = self.opened();
        let known = opened.get_mut(raw)?;
        let now = Instant::now();
        if now.duration_since(known.checked) > TRUST {
            return None;
        }
        known.used = now;
        let source = known.source.clone();
        drop(opened);
        // This check is free on a local file system; on a network mount the time limit above must suffice.
        (!source.is_local || source.is_unchanged()).then_some(source)
    }

    /// Caches a newly opened file. If the cached one is the same file, keeps that one with its derived values.
    fn remember(&self, raw: &str, source: SourceFile) -> Arc<SourceFile> {
        let mut opened = self.opened();
        let now = Instant::now();
        let idle = opened.is_empty();
        let source = match opened.remove(raw) {
            Some(known) if known.source.is_same_version(&source) => known.source,
            _ => Arc::new(source),
        };
        if opened.len() >= OPEN_FILES
            && let Some(oldest) = opened.iter().min_by_key(|(_, known)| known.used).map(|(path, _)| path.clone())
        {
            opened.remove(&oldest);
        }
        opened.insert(raw.to_owned(), Opened { source: source.clone(), checked: now, used: now });
        if idle {
            tokio::spawn(sweep(Arc::downgrade(&self.open)));
        }
        source
    }
}

fn unreadable(source: &SourceFile, cause: &std::io::Error) -> Error {
    Error::new(Code::SourceReadFailed, "the file could not be read").with_cause(format!("{}: {cause}", source.path))
}

/// Closes unused files; ends with the last of them.
async fn sweep(open: Weak<Mutex<HashMap<String, Opened>>>) {
    loop {
        tokio::time::sleep(LINGER / 2).await;
        let Some(open) = open.upgrade() else { return };
        let mut opened = open.lock().expect("no panic while held");
        opened.retain(|_, known| known.used.elapsed() < LINGER);
        if opened.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::domain::library::Root;

    #[tokio::test(start_paused = true)]
    async fn a_dead_disk_is_told_within_the_deadline_and_holds_up_no_other() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let root = |(n, folder): (usize, &tempfile::TempDir)| Root { id: format!("r{n}"), path: folder.path().into() };
        let library = Library::new(Arc::new(Roots::open(folders.iter().enumerate().map(root).collect()).unwrap()));
        let mut disk = Vec::new();
        // One more than there are threads: the last one only waits for a thread.
        let stuck = (0..=LANES_PER_ROOT).map(|_| {
            let (let_go, held) = mpsc::channel::<()>();
            disk.push(let_go);
            library.within_deadline(0, move || Ok(held.recv().is_err()))
        });
        let stuck = futures_util::future::join_all(stuck.collect::<Vec<_>>());
        let passing = async {
            // Paused time does not advance while a thread works, so the test advances it.
            library.within_deadline(1, || Ok(())).await.expect("another root is not delayed");
            tokio::time::advance(STORAGE_DEADLINE + Duration::from_secs(1)).await;
        };
        let (answers, ()) = tokio::join!(stuck, passing);
        assert_eq!(answers.len(), LANES_PER_ROOT + 1);
        for answer in answers {
            let slow = answer.unwrap_err();
            assert_eq!((slow.code, slow.retry_after), (Code::StorageTimeout, Some(RETRY_SECONDS)));
        }
        // The threads are still in use: a new request waits for one until its deadline.
        let (late, ()) = tokio::join!(library.within_deadline(0, || Ok(())), async {
            tokio::time::advance(STORAGE_DEADLINE + Duration::from_secs(1)).await;
        });
        assert_eq!(late.unwrap_err().code, Code::StorageTimeout);
        drop(disk);
        library.within_deadline(0, || Ok(())).await.expect("the disk is back");
    }
}
