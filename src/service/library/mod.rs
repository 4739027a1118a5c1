//! The library for requests: files opened by path and bytes read, all within a deadline.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use lru::LruCache;
use tokio::sync::{Semaphore, watch};

use crate::domain::library::{LocatedPath, Root, not_media_error};
use crate::domain::media_folder::FolderKind;
use crate::domain::visibility::{Visibility, VisiblePaths};
use crate::engine::folder::EntryTarget;
use crate::engine::source::{Roots, SourceFile, TooManyRoots};
use crate::engine::worker::Isolation;
use crate::error::{Code, Error, Result};
use crate::service::background_tasks::BackgroundTasks;

mod images;
pub mod listing;
mod nfo_files;
pub mod sidecars;

use images::ImageChecks;
use nfo_files::NfoFiles;

/// How long the file system may take to answer.
const STORAGE_DEADLINE: Duration = Duration::from_secs(15);

/// When the client should retry: a sleeping disk has started by then.
const RETRY_SECONDS: u32 = 5;

/// Threads that may wait for one root at a time, so that a dead disk cannot block more than these.
const THREADS_PER_ROOT: usize = 16;

/// Threads that may wait for folders that are no root.
const OTHER_FOLDER_THREADS: usize = 4;

/// Files kept open between requests.
const MAX_OPEN_FILES: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// How long a path is assumed to lead to the same file.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

/// How long an unused file stays open: a deleted file keeps its disk space that long.
const CLOSE_AFTER: Duration = Duration::from_secs(10);

/// The roots and the files open beneath them.
pub struct Library {
    roots: Arc<Roots>,
    root_threads: Mutex<BTreeMap<usize, Arc<Semaphore>>>,
    other_folder_threads: Arc<Semaphore>,
    /// Marked as changed after a root was added or removed.
    root_changes: watch::Sender<()>,
    open_files: Arc<Mutex<OpenFiles>>,
    tasks: BackgroundTasks,
    /// None: images are checked by their first bytes only.
    image_checks: Option<ImageChecks>,
    /// None: NFO files are not read.
    nfo_files: Option<NfoFiles>,
}

/// By request path.
type OpenFiles = LruCache<String, CachedFile>;

struct CachedFile {
    source: Arc<SourceFile>,
    last_check: Instant,
    last_use: Instant,
}

impl Library {
    pub fn new(roots: Arc<Roots>, tasks: BackgroundTasks) -> Self {
        Self {
            roots,
            root_threads: Mutex::default(),
            other_folder_threads: Arc::new(Semaphore::new(OTHER_FOLDER_THREADS)),
            root_changes: watch::Sender::default(),
            open_files: Arc::new(Mutex::new(LruCache::sparse(MAX_OPEN_FILES))),
            tasks,
            image_checks: None,
            nfo_files: None,
        }
    }

    /// Lets `isolation` decode images before channels show them, and parse NFO files.
    #[must_use]
    pub fn with_workers(mut self, isolation: Isolation) -> Self {
        self.nfo_files = Some(NfoFiles::new(isolation.clone(), self.tasks.clone()));
        self.image_checks = Some(ImageChecks::new(isolation));
        self
    }

    pub fn roots(&self) -> &Arc<Roots> {
        &self.roots
    }

    /// Adds a root, whose folder may be missing.
    ///
    /// # Errors
    /// `CONFLICT` when too many were added since the start; `STORAGE_TIMEOUT`.
    pub async fn add_root(&self, root: Root, kind: Option<FolderKind>) -> Result<usize> {
        let roots = self.roots.clone();
        let too_many = |fault: TooManyRoots| Error::new(Code::Conflict, fault.to_string());
        let index = self.run_beside_roots(move || roots.add(root, kind).map_err(too_many)).await?;
        self.root_changes.send_replace(());
        Ok(index)
    }

    /// Removes a root. Files that something plays stay open; requests no longer find them.
    pub fn remove_root(&self, index: usize) {
        self.roots.remove(index);
        self.lock_open_files().retain(|_, file| file.source.root_index != index);
        self.root_changes.send_replace(());
    }

    /// Marked as changed after a root was added or removed.
    pub fn root_changes(&self) -> watch::Receiver<()> {
        self.root_changes.subscribe()
    }

    /// Resolves the path of a user's request, without touching the file system. This is the gate for paths: whatever a request
    /// names passes through it.
    ///
    /// # Errors
    /// `INVALID_PATH`; `FORBIDDEN` outside of the library and for folders that the user does not see.
    pub fn locate_seen(&self, visibility: &Visibility, request_path: &str) -> Result<LocatedPath> {
        let located = self.roots.locate(request_path)?;
        let root = self.roots.get(located.root_index);
        root.map_or(Ok(()), |root| visibility.check_root(&root.path))?;
        Ok(located)
    }

    /// The paths that a user sees.
    pub fn visible_paths(&self, visibility: &Visibility) -> VisiblePaths {
        VisiblePaths::new(visibility, self.roots.list().map(|(_, root)| root.path.as_path()))
    }

    /// Opens a media file for a user, as [`Self::open`].
    ///
    /// # Errors
    /// Those of [`Self::locate_seen`] and [`Self::open`].
    pub async fn open_seen(&self, visibility: &Visibility, request_path: &str) -> Result<Arc<SourceFile>> {
        self.locate_seen(visibility, request_path)?;
        self.open(request_path).await
    }

    /// Opens a media file by its request path, or returns the one that is already open.
    ///
    /// # Errors
    /// Those of [`Roots::open_file`]; `UNSUPPORTED_MEDIA_TYPE` if its bytes are not media; `STORAGE_TIMEOUT` after 15 s.
    pub async fn open(&self, request_path: &str) -> Result<Arc<SourceFile>> {
        let recently_checked = {
            let mut open_files = self.lock_open_files();
            let file = open_files.get_mut(request_path).filter(|file| file.last_check.elapsed() <= RECHECK_AFTER);
            file.map(|file| {
                file.last_use = Instant::now();
                file.source.clone()
            })
        };
        let root = self.roots.locate(request_path)?.root_index;
        // This check is free on a local file system; on a network mount the time limit above must suffice.
        if let Some(source) = recently_checked.filter(|source| !source.is_local || source.is_unchanged()) {
            return Ok(source);
        }
        let (roots, path) = (self.roots.clone(), request_path.to_owned());
        let source = self.run_with_deadline(root, move || roots.open_file(&path)).await?;
        if source.format.is_none() {
            return Err(not_media_error());
        }
        let mut open_files = self.lock_open_files();
        let now = Instant::now();
        let was_empty = open_files.is_empty();
        // If the file is the same as before, that one is kept with its derived values.
        let source = match open_files.pop(request_path) {
            Some(file) if file.source.is_same_version(&source) => file.source,
            _ => Arc::new(source),
        };
        open_files.put(request_path.to_owned(), CachedFile { source: source.clone(), last_check: now, last_use: now });
        if was_empty {
            self.tasks.spawn(close_idle_files(Arc::downgrade(&self.open_files)));
        }
        Ok(source)
    }

    /// Opens any file by its request path, and does not keep it open: only files that are kept open count as played.
    ///
    /// # Errors
    /// Those of [`Roots::open_file`]; `STORAGE_TIMEOUT` after 15 s.
    pub async fn open_uncached(&self, request_path: &str) -> Result<Arc<SourceFile>> {
        let root = self.roots.locate(request_path)?.root_index;
        let (roots, path) = (self.roots.clone(), request_path.to_owned());
        self.run_with_deadline(root, move || roots.open_file(&path)).await.map(Arc::new)
    }

    /// Reads `len` bytes of a file, or fewer at its end. Waits for the disk off the async threads.
    ///
    /// # Errors
    /// `STORAGE_TIMEOUT`, `SOURCE_READ_FAILED`.
    pub async fn read(&self, source: &Arc<SourceFile>, offset: u64, len: usize) -> Result<Vec<u8>> {
        let source = source.clone();
        self.run_with_deadline(source.root_index, move || {
            let mut buffer = vec![0; len];
            let byte_count = source.read_blocking(&mut buffer, offset).map_err(|cause| read_error(&source, &cause))?;
            buffer.truncate(byte_count);
            Ok(buffer)
        })
        .await
    }

    /// Reads a range into the page cache off the async threads; returns how much of it the file still has.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub async fn read_ahead(&self, source: &Arc<SourceFile>, offset: u64, len: u64) -> Result<u64> {
        let source = source.clone();
        self.run_with_deadline(source.root_index, move || {
            source.warm_blocking(offset, len).map_err(|cause| read_error(&source, &cause))
        })
        .await
    }

    /// Which of these paths exist now. Paths on a disk that does not respond count as missing.
    pub async fn check_available(&self, paths: Vec<String>) -> Vec<bool> {
        let mut available = vec![false; paths.len()];
        let mut by_root: BTreeMap<usize, Vec<(usize, String)>> = BTreeMap::new();
        for (index, path) in paths.into_iter().enumerate() {
            if let Ok(located) = self.roots.locate(&path) {
                by_root.entry(located.root_index).or_default().push((index, path));
            }
        }
        let checks = by_root.into_iter().map(|(root, paths)| {
            let roots = self.roots.clone();
            let check_paths = move || {
                let exists = |path: &str| {
                    matches!(roots.resolve_target(path), Some(EntryTarget::File { .. } | EntryTarget::Folder))
                };
                Ok(paths.into_iter().filter(|(_, path)| exists(path)).map(|(index, _)| index).collect::<Vec<_>>())
            };
            self.run_with_deadline(root, check_paths)
        });
        for found in futures_util::future::join_all(checks).await {
            for index in found.unwrap_or_default() {
                available[index] = true;
            }
        }
        available
    }

    /// Drops an open file that has changed, so that the next request opens it again.
    pub fn evict(&self, source: &Arc<SourceFile>) {
        self.lock_open_files().retain(|_, file| !Arc::ptr_eq(&file.source, source));
    }

    /// Whether a request has read or checked a file within the last seconds.
    pub fn has_open_files(&self) -> bool {
        !self.lock_open_files().is_empty()
    }

    /// Closes a file that was kept open between requests, because its player has stopped.
    pub fn close(&self, source: &SourceFile) {
        self.lock_open_files().retain(|_, file| file.source.path != source.path);
    }

    /// Runs blocking file work for one root, off the async threads.
    ///
    /// # Errors
    /// Those of the work; `STORAGE_TIMEOUT` after 15 s, including the wait for a thread. Abandoned work occupies one of the
    /// root's threads until the file system responds.
    pub async fn run_with_deadline<T, W>(&self, root: usize, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T> + Send + 'static,
    {
        let threads = {
            let mut root_threads = self.root_threads.lock().unwrap_or_else(PoisonError::into_inner);
            root_threads.entry(root).or_insert_with(|| Arc::new(Semaphore::new(THREADS_PER_ROOT))).clone()
        };
        run_on(threads, work).await
    }

    /// Runs blocking work for folders that are no root, off the async threads.
    ///
    /// # Errors
    /// As [`Self::run_with_deadline`].
    pub async fn run_beside_roots<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T> + Send + 'static,
    {
        run_on(self.other_folder_threads.clone(), work).await
    }

    fn lock_open_files(&self) -> std::sync::MutexGuard<'_, OpenFiles> {
        self.open_files.lock().expect("no panic while held")
    }
}

/// Runs blocking work with one of a few threads, within the deadline.
async fn run_on<T, W>(threads: Arc<Semaphore>, work: W) -> Result<T>
where
    T: Send + 'static,
    W: FnOnce() -> Result<T> + Send + 'static,
{
    let job = async {
        let slot = threads.acquire_owned().await.map_err(Error::internal)?;
        let result = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            work()
        });
        result.await.map_err(Error::internal)?
    };
    let timeout_error = || Error::new(Code::StorageTimeout, "the file system did not answer within 15 s");
    tokio::time::timeout(STORAGE_DEADLINE, job)
        .await
        .unwrap_or_else(|_| Err(timeout_error().with_retry_after(RETRY_SECONDS)))
}

fn read_error(source: &SourceFile, cause: &std::io::Error) -> Error {
    Error::new(Code::SourceReadFailed, "the file could not be read").with_cause(format!("{}: {cause}", source.path))
}

/// Closes unused files; ends with the last of them.
async fn close_idle_files(weak_files: Weak<Mutex<OpenFiles>>) {
    loop {
        tokio::time::sleep(CLOSE_AFTER / 2).await;
        let Some(shared_files) = weak_files.upgrade() else { return };
        let mut open_files = shared_files.lock().expect("no panic while held");
        open_files.retain(|_, file| file.last_use.elapsed() < CLOSE_AFTER);
        if open_files.is_empty() {
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
    async fn a_disk_that_takes_twelve_seconds_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::open(vec![Root { id: "r".into(), path: folder.path().into() }]).unwrap();
        let library = Library::new(Arc::new(roots), BackgroundTasks::default());
        let (spin_up, is_up) = mpsc::channel::<()>();
        let read = library.run_with_deadline(0, move || Ok(is_up.recv().is_ok()));
        let disk = async {
            tokio::time::advance(Duration::from_secs(12)).await;
            spin_up.send(()).unwrap();
        };
        let (answer, ()) = tokio::join!(read, disk);
        assert!(answer.expect("the disk is waited for"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_disk_times_out_and_delays_no_other_root() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let root = |(n, folder): (usize, &tempfile::TempDir)| Root { id: format!("r{n}"), path: folder.path().into() };
        let roots = Roots::open(folders.iter().enumerate().map(root).collect()).unwrap();
        let library = Library::new(Arc::new(roots), BackgroundTasks::default());
        let mut disk = Vec::new();
        // One more than there are threads: the last one only waits for a thread.
        let blocked = (0..=THREADS_PER_ROOT).map(|_| {
            let (release, released) = mpsc::channel::<()>();
            disk.push(release);
            library.run_with_deadline(0, move || Ok(released.recv().is_err()))
        });
        let blocked = futures_util::future::join_all(blocked.collect::<Vec<_>>());
        let other_root = async {
            // Paused time does not advance while a thread works, so the test advances it.
            library.run_with_deadline(1, || Ok(())).await.expect("another root is not delayed");
            tokio::time::advance(STORAGE_DEADLINE + Duration::from_secs(1)).await;
        };
        let (answers, ()) = tokio::join!(blocked, other_root);
        assert_eq!(answers.len(), THREADS_PER_ROOT + 1);
        for answer in answers {
            let slow = answer.unwrap_err();
            assert_eq!((slow.code, slow.retry_after), (Code::StorageTimeout, Some(RETRY_SECONDS)));
        }
        // The threads are still in use: a new request waits for one until its deadline.
        let (late, ()) = tokio::join!(library.run_with_deadline(0, || Ok(())), async {
            tokio::time::advance(STORAGE_DEADLINE + Duration::from_secs(1)).await;
        });
        assert_eq!(late.unwrap_err().code, Code::StorageTimeout);
        drop(disk);
        library.run_with_deadline(0, || Ok(())).await.expect("the disk is back");
    }
}
