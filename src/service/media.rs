//! Probe results: each file version is probed once (single flight) and cached by content and version.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::domain::media::{Media, PROBE_VERSION};
use crate::engine::index;
use crate::engine::probe::{self, ProbeError, ProbeTools};
use crate::engine::source::SourceFile;
use crate::error::{Code, Error, Result};
use crate::service::quarantine::Quarantine;
use crate::service::versioned::Versioned;
use crate::store::{Store, Tree};

/// Probes that run at once; each may be a process of its own.
const CONCURRENT: usize = 4;
/// Most probes in flight, including those that wait for a disk.
const MOST_UNDER_WAY: usize = 32;
/// Most results in memory; one is a few KiB.
const REMEMBERED: usize = 2048;

/// The longest probe, in deadlines, after its requests have timed out.
const LONGEST: u32 = 24;
/// How long [`Probes::probe_patiently`] waits, in deadlines.
const PATIENCE: u32 = 7;
/// When a client may retry, seconds.
const RETRY_SECONDS: u32 = 5;

/// The cache of probe results. Clones share it.
#[derive(Clone)]
pub struct Probes {
    tools: ProbeTools,
    deadline: Duration,
    /// Makes results survive a restart; None on the command line.
    store: Option<Store>,
    quarantine: Option<Arc<Quarantine>>,
    places: Arc<Semaphore>,
    under_way: Arc<Semaphore>,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    /// By fingerprint and version.
    finished: HashMap<String, Entry>,
    /// Probes in flight, by version.
    under_way: HashMap<String, watch::Receiver<Option<Outcome>>>,
    clock: u64,
}

struct Entry {
    outcome: Outcome,
    used: u64,
}

/// A probe result, and when it was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    pub media: Arc<Media>,
    pub at: Timestamp,
}

type Outcome = Result<Probed, ProbeError>;

impl Probes {
    /// `ffmpeg` is the configured program; its ffprobe is searched for beside it.
    pub fn new(ffmpeg: &Path, deadline: Duration) -> Self {
        Self {
            tools: ProbeTools::for_ffmpeg(ffmpeg),
            deadline,
            store: None,
            quarantine: None,
            places: Arc::new(Semaphore::new(CONCURRENT)),
            under_way: Arc::new(Semaphore::new(MOST_UNDER_WAY)),
            known: Arc::default(),
        }
    }

    /// Stores results in `store`, and probes quarantined files outside this process. Inside a runtime it also starts
    /// [`Self::warm`] in the background.
    pub fn remembering(self, store: Store, quarantine: Arc<Quarantine>) -> Self {
        if let Ok(runtime) = Handle::try_current() {
            let tools = self.tools.clone();
            runtime.spawn(async move { probe::warm(&tools).await });
        }
        Self { store: Some(store), quarantine: Some(quarantine), ..self }
    }

    /// Does the one-time work of the first probe now.
    pub async fn warm(&self) {
        probe::warm(&self.tools).await;
    }

    /// Probes a file: container, streams, tags.
    ///
    /// # Errors
    /// `UNPLAYABLE_MEDIA` with `details.reasons` if nothing in it can be read; `PROBE_TIMED_OUT` if it takes longer than
    /// the deadline (default 5 s): the probe continues, and a later request gets its result;
    /// `SOURCE_READ_FAILED` when the file cannot be read; `INTERNAL` when the probe itself cannot run.
    pub async fn probe(&self, source: &Arc<SourceFile>) -> Result<Arc<Media>> {
        Ok(self.probed(source).await?.media)
    }

    /// Like [`Self::probe`], with the time of the probe.
    ///
    /// # Errors
    /// Those of [`Self::probe`].
    pub async fn probed(&self, source: &Arc<SourceFile>) -> Result<Probed> {
        self.probed_within(source, self.deadline).await
    }

    /// Like [`Self::probe`], but waits for several deadlines.
    ///
    /// # Errors
    /// Those of [`Self::probe`].
    pub async fn probe_patiently(&self, source: &Arc<SourceFile>) -> Result<Arc<Media>> {
        Ok(self.probed_within(source, self.deadline * PATIENCE).await?.media)
    }

    async fn probed_within(&self, source: &Arc<SourceFile>, wait: Duration) -> Result<Probed> {
        let outcome = tokio::time::timeout(wait, self.outcome(source)).await.unwrap_or(Err(ProbeError::TimedOut));
        outcome.map_err(|fault| match fault {
            ProbeError::Unreadable(why) => unplayable("UNREADABLE").with_cause(why),
            ProbeError::TimedOut => {
                let text = "the file is still being examined: its disk is slow, or the server is busy";
                Error::new(Code::ProbeTimedOut, text).with_retry_after(RETRY_SECONDS)
            }
            ProbeError::Read(cause) => {
                Error::new(Code::SourceReadFailed, "the file could not be read").with_cause(cause)
            }
            ProbeError::Unavailable(cause) => Error::internal(cause),
            fault @ ProbeError::ReportTooLarge => Error::internal(fault),
        })
    }

    /// The cached result, or that of the probe in flight; starts one if there is none. A probe continues after its
    /// requests have left, so that a disk that was asleep is awake for the next request.
    async fn outcome(&self, source: &Arc<SourceFile>) -> Outcome {
        let version = source.version();
        let mut awaited = match self.found(source, &version) {
            Found::Finished(outcome) => return outcome,
            Found::UnderWay(awaited) => awaited,
            Found::Nothing => {
                let place = self.under_way.clone().acquire_owned().await.expect("the semaphore is never closed");
                self.begin(source, version, place)
            }
        };
        match awaited.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().expect("waited for"),
            Err(_) => Err(ProbeError::Unavailable("the probe ended without an answer".into())),
        }
    }

    fn found(&self, source: &SourceFile, version: &str) -> Found {
        let mut known = self.known();
        known.clock += 1;
        let now = known.clock;
        let key = source.cached_fingerprint().map(|name| format!("{name}/{version}"));
        if let Some(entry) = key.and_then(|key| known.finished.get_mut(&key)) {
            entry.used = now;
            return Found::Finished(entry.outcome.clone());
        }
        known.under_way.get(version).cloned().map_or(Found::Nothing, Found::UnderWay)
    }

    fn begin(
        &self,
        source: &Arc<SourceFile>,
        version: String,
        place: OwnedSemaphorePermit,
    ) -> watch::Receiver<Option<Outcome>> {
        let mut known = self.known();
        if let Some(awaited) = known.under_way.get(&version) {
            return awaited.clone();
        }
        let (sender, awaited) = watch::channel(None);
        known.under_way.insert(version.clone(), awaited.clone());
        drop(known);
        let (probes, source) = (self.clone(), source.clone());
        let entry = UnderWay { known: self.known.clone(), version };
        tokio::spawn(async move {
            let _place = place;
            let outcome = probes.examine(&source, &entry.version).await;
            drop(entry);
            sender.send_replace(Some(outcome));
        });
        awaited
    }

    async fn examine(&self, source: &Arc<SourceFile>, version: &str) -> Outcome {
        let held = source.clone();
        let reading = tokio::task::spawn_blocking(move || held.fingerprint().map(str::to_owned));
        let name = match reading.await {
            Ok(Ok(name)) => name,
            Ok(Err(cause)) => return Err(ProbeError::Read(cause.to_string())),
            Err(cause) => return Err(ProbeError::Unavailable(cause.to_string())),
        };
        let key = format!("{name}/{version}");
        let finished = self.known().finished.get(&key).map(|entry| entry.outcome.clone());
        if let Some(outcome) = finished {
            return outcome;
        }
        let outcome = self.remembered_or_run(&name, version, source).await;
        // Cache only results that depend on the bytes alone; a missing tool or a busy machine is temporary.
        if matches!(outcome, Ok(_) | Err(ProbeError::Unreadable(_) | ProbeError::ReportTooLarge)) {
            self.known().keep(key, outcome.clone());
        }
        outcome
    }

    async fn remembered_or_run(&self, name: &str, version: &str, source: &Arc<SourceFile>) -> Outcome {
        let Some(store) = self.store.clone() else { return self.run(name, source).await };
        let key = format!("{PROBE_VERSION}/{name}");
        let (reading, wanted) = (store.clone(), key.clone());
        let kept = tokio::task::spawn_blocking(move || reading.get::<Versioned<Probed>>(Tree::Probes, &wanted)).await;
        // An unreadable record is treated as missing: the file is probed again.
        let kept = kept.ok().and_then(Result::ok).flatten();
        if let Some(probed) = kept.as_ref().and_then(|kept| kept.for_version(version)) {
            return Ok(probed.clone());
        }
        let probed = self.run(name, source).await?;
        let record = Versioned::renewed(kept, probed.clone(), version, |a, b| a.media == b.media);
        // Stored in the background: a lost record only costs another probe.
        tokio::spawn(async move {
            if let Err(fault) = store.put(Tree::Probes, &key, &record).await {
                tracing::warn!(%fault, "a probe result could not be stored");
            }
        });
        Ok(probed)
    }

    async fn run(&self, name: &str, source: &Arc<SourceFile>) -> Outcome {
        let place = self.places.acquire().await.expect("the semaphore is never closed");
        let mut look = std::pin::pin!(self.look(name, source));
        let mut media = match tokio::time::timeout(self.deadline, &mut look).await {
            Ok(media) => media?,
            Err(_) => {
                // A probe this slow waits for a disk; other files need not wait with it.
                drop(place);
                tracing::info!(media.path = %source.path, "a probe takes longer than the deadline; it continues");
                let rest = tokio::time::timeout(self.deadline * (LONGEST - 1), look).await;
                rest.unwrap_or(Err(ProbeError::TimedOut))?
            }
        };
        media.limit_duration();
        // The result is valid without the interval.
        media.keyframe_interval_seconds = index::keyframe_interval(source, &media).await;
        Ok(Probed { media: Arc::new(media), at: Timestamp::now() })
    }

    /// Probes in this process; uses ffprobe if that fails or the file is in quarantine.
    async fn look(&self, name: &str, source: &Arc<SourceFile>) -> Result<Media, ProbeError> {
        let mark = self.quarantine.as_ref().map(|quarantine| quarantine.mark_reading(name, &source.path));
        let why = match mark {
            Some(None) => "it is in quarantine",
            mark => match probe::probe_in_process(&self.tools, source, Box::new(mark)).await {
                Ok(media) => return Ok(media),
                Err(why) => why,
            },
        };
        tracing::debug!(media.path = %source.path, why, "falling back to ffprobe");
        probe::probe_with_ffprobe(&self.tools, source).await
    }

    /// Identity of a file by its content, independent of its name.
    ///
    /// # Errors
    /// `SOURCE_READ_FAILED`.
    pub async fn fingerprint(&self, source: &Arc<SourceFile>) -> Result<String> {
        let held = source.clone();
        let reading = tokio::task::spawn_blocking(move || held.fingerprint().map(str::to_owned));
        reading
            .await
            .map_err(Error::internal)?
            .map_err(|cause| Error::new(Code::SourceReadFailed, "the file could not be read").with_cause(cause))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Found {
    Finished(Outcome),
    UnderWay(watch::Receiver<Option<Outcome>>),
    Nothing,
}

/// The entry of a probe in flight; removed on drop.
struct UnderWay {
    known: Arc<Mutex<Known>>,
    version: String,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).under_way.remove(&self.version);
    }
}

impl Known {
    /// Caches a result, evicting the least recently used one if the cache is full.
    fn keep(&mut self, key: String, outcome: Outcome) {
        self.clock += 1;
        if self.finished.len() >= REMEMBERED {
            let oldest = self.finished.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            oldest.map(|key| self.finished.remove(&key));
        }
        self.finished.insert(key, Entry { outcome, used: self.clock });
    }
}

fn unplayable(reason: &str) -> Error {
    Error::new(Code::UnplayableMedia, "nothing in this file can be played").with_details(json!({"reasons": [reason]}))
}

#[cfg(test)]
mod tests;
