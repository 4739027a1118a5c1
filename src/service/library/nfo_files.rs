//! NFO files beside media files: found by name, parsed where hostile files do no harm, and kept by file version.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use lru::LruCache;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::Library;
use crate::domain::library::{file_stem, kind_from_name};
use crate::domain::nfo::{MAX_BYTES, Nfo, NfoError, NfoKind};
use crate::domain::sniff::MediaKind;
use crate::engine::nfo_file::NfoFile;
use crate::engine::source::{Roots, SourceFile};
use crate::engine::worker::{FileFault, Isolation};
use crate::service::background_tasks::BackgroundTasks;

/// Memory of all kept records, bytes. The catalogue has what they say; they are kept for the items of a season, which share the file of
/// their show, and for films on screen.
const MAX_CACHE_BYTES: usize = 128 << 10;

/// Memory of an entry beside its path and its records, bytes.
const ENTRY_BYTES: usize = 200;

/// Files parsed at once, including those that wait for a worker. A worker parses one in milliseconds.
const MAX_IN_FLIGHT: usize = 8;

/// How long a request waits for a description. Parsing continues after it.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// The same for an item of a channel, which keeps what it gets.
const PATIENT_WAIT: Duration = Duration::from_secs(30);

/// Between two attempts, while all workers are busy.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The records of one file; None if it has none or is broken.
type Records = Option<Arc<[Nfo]>>;

/// The version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FileVersion {
    path: String,
    len: u64,
    modified: SystemTime,
    changed_at: (i64, i64),
    file_id: (u64, u64),
}

/// Parses NFO files, each version once. Clones share the records.
#[derive(Clone)]
pub(super) struct NfoFiles {
    isolation: Isolation,
    tasks: BackgroundTasks,
    state: Arc<Mutex<State>>,
}

struct State {
    records: LruCache<FileVersion, Records>,
    cached_bytes: usize,
    /// Files that are being parsed.
    in_flight: HashMap<FileVersion, watch::Receiver<Option<Records>>>,
}

/// The NFO files that may describe a media file.
struct Candidates {
    /// The nearest first.
    of_file: Vec<Arc<SourceFile>>,
    of_show: Option<Arc<SourceFile>>,
}

impl NfoFiles {
    pub(super) fn new(isolation: Isolation, tasks: BackgroundTasks) -> Self {
        let state = State { records: LruCache::unbounded(), cached_bytes: 0, in_flight: HashMap::new() };
        Self { isolation, tasks, state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The records of an open file; None as well if it was not parsed until `deadline`.
    async fn load(&self, library: &Library, file: &Arc<SourceFile>, deadline: Instant) -> Records {
        loop {
            match timeout_at(deadline, self.try_load(library, file)).await {
                Ok(Some(records)) => return records,
                Ok(None) => sleep(RETRY_INTERVAL).await,
                Err(_) => return None,
            }
        }
    }

    /// None if the file cannot be read or parsed now.
    async fn try_load(&self, library: &Library, file: &Arc<SourceFile>) -> Option<Records> {
        let version = FileVersion::of(file);
        if let Some(records) = self.lock().records.get(&version) {
            return Some(records.clone());
        }
        if file.len > MAX_BYTES as u64 {
            let reason = NfoError::TooLarge.to_string();
            return self.keep(version, &Err(FileFault::Broken(reason)));
        }
        let bytes = library.read(file, 0, MAX_BYTES).await.ok()?;
        let mut outcome = self.start(version, bytes)?;
        let records = outcome.wait_for(Option::is_some).await.ok()?;
        records.clone()
    }

    /// Starts to parse a file, unless that is under way; None if too many are.
    fn start(&self, version: FileVersion, bytes: Vec<u8>) -> Option<watch::Receiver<Option<Records>>> {
        let mut state = self.lock();
        if let Some(outcome) = state.in_flight.get(&version) {
            return Some(outcome.clone());
        }
        if state.in_flight.len() >= MAX_IN_FLIGHT {
            tracing::debug!(media.path = version.path, "an NFO file is not parsed: too many are");
            return None;
        }
        let (sender, outcome) = watch::channel(None);
        state.in_flight.insert(version.clone(), outcome.clone());
        drop(state);
        let nfo_files = self.clone();
        self.tasks.spawn(async move {
            let parsed = match NfoFile::from_bytes(&bytes) {
                Ok(nfo) => nfo_files.isolation.parse_nfo(&nfo, &version.path).await,
                Err(cause) => Err(FileFault::Unchecked(cause.to_string())),
            };
            // Without an outcome, those who wait try again.
            if let Some(records) = nfo_files.keep(version, &parsed) {
                sender.send_replace(Some(records));
            }
        });
        Some(outcome)
    }

    /// Ends the parsing of a file, and keeps its outcome; None if that is not final.
    fn keep(&self, version: FileVersion, parsed: &Result<Vec<Nfo>, FileFault>) -> Option<Records> {
        let records: Records = parsed.as_ref().ok().map(|records| Arc::from(records.as_slice()));
        let is_final = !matches!(parsed, Err(FileFault::Unchecked(_)));
        let mut state = self.lock();
        state.in_flight.remove(&version);
        let path = version.path.clone();
        if is_final {
            state.put(version, records.clone());
        }
        drop(state);
        if let Err(fault) = parsed {
            tracing::info!(media.path = path, reason = %fault, "an NFO file was not used");
        }
        is_final.then_some(records)
    }
}

impl State {
    fn put(&mut self, version: FileVersion, records: Records) {
        self.cached_bytes += weight_bytes(&version, &records);
        if let Some((version, records)) = self.records.push(version, records) {
            self.cached_bytes -= weight_bytes(&version, &records);
        }
        while self.cached_bytes > MAX_CACHE_BYTES
            && let Some((version, records)) = self.records.pop_lru()
        {
            self.cached_bytes -= weight_bytes(&version, &records);
        }
    }
}

fn weight_bytes(version: &FileVersion, records: &Records) -> usize {
    let records: usize = records.iter().flat_map(|records| records.iter()).map(Nfo::weight_bytes).sum();
    ENTRY_BYTES + version.path.len() + records
}

impl FileVersion {
    fn of(file: &SourceFile) -> Self {
        let SourceFile { len, modified, changed_at, file_id, .. } = *file;
        Self { path: file.path.clone(), len, modified, changed_at, file_id }
    }
}

impl Library {
    /// The description of a media file, from the first of these with a film or episodes: its own NFO file (`name.nfo`), or
    /// `movie.nfo` if it is the only video of its folder. Episodes get their show from `tvshow.nfo` in the folder or the one
    /// above. None as well if a file is broken, or was not parsed within 3 s.
    pub async fn describe(&self, media: &SourceFile) -> Option<Nfo> {
        self.describe_within(media, MAX_WAIT).await
    }

    /// Like [`Self::describe`], but waits up to 30 s for workers.
    pub async fn describe_patiently(&self, media: &SourceFile) -> Option<Nfo> {
        self.describe_within(media, PATIENT_WAIT).await
    }

    async fn describe_within(&self, media: &SourceFile, max_wait: Duration) -> Option<Nfo> {
        let deadline = Instant::now() + max_wait;
        let nfo_files = self.nfo_files.as_ref()?;
        let (roots, path) = (self.roots.clone(), media.path.clone());
        let found = self.run_with_deadline(media.root_index, move || Ok(Candidates::find(&roots, &path))).await;
        let Candidates { of_file, of_show } = found.ok()?;
        for file in &of_file {
            let Some(records) = nfo_files.load(self, file, deadline).await else { continue };
            let is_episode = records.iter().all(|record| record.kind == NfoKind::Episode);
            let show = match &of_show {
                Some(show) if is_episode => nfo_files.load(self, show, deadline).await,
                _ => None,
            };
            let show = show.as_ref().and_then(|records| records.first());
            if let Some(description) = Nfo::describe_file(&records, show) {
                return Some(description);
            }
        }
        None
    }
}

impl Candidates {
    fn find(roots: &Roots, media: &str) -> Self {
        let (folder, name) = media.rsplit_once('/').unwrap_or(("", media));
        let open = |path: &str| roots.open_file(path).ok().map(Arc::new);
        let mut of_file: Vec<_> = open(&format!("{folder}/{}.nfo", file_stem(name))).into_iter().collect();
        if let Some(file) = open(&format!("{folder}/movie.nfo")).filter(|_| is_only_video(roots, folder, name)) {
            of_file.push(file);
        }
        let of_show = || {
            let above = folder.rsplit_once('/').map(|(above, _)| above);
            [Some(folder), above].into_iter().flatten().find_map(|folder| open(&format!("{folder}/tvshow.nfo")))
        };
        let of_show = if of_file.is_empty() { None } else { of_show() };
        Self { of_file, of_show }
    }
}

fn is_only_video(roots: &Roots, folder: &str, name: &str) -> bool {
    let folder = if folder.is_empty() { "/" } else { folder };
    let Ok(entries) = roots.open_folder(folder).and_then(|folder| folder.list_entries()) else { return false };
    let is_other = |other: &str| other != name && kind_from_name(other) == Some(MediaKind::Video);
    !entries.iter().any(|(other, _)| is_other(other))
}

#[cfg(test)]
mod tests;
