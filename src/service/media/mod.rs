//! Probe results: each file version is probed once (single flight) and cached by content and version.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use lru::LruCache;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use crate::domain::media::{Media, PROBE_VERSION};
use crate::engine::index;
use crate::engine::probe::{self, ProbeError, ProbeTools};
use crate::engine::source::SourceFile;
use crate::engine::worker::Isolation;
use crate::error::{Code, Error, Result};
use crate::service::quarantine::Quarantine;
use crate::store::{Store, Tree};

pub mod loudness;
pub mod scene_breaks;
pub mod subtitles;
mod versioned;

use versioned::Versioned;

/// Probes that run at once; each may be a process of its own.
const CONCURRENT_PROBES: usize = 4;
/// Most probes in flight, including those that wait for a disk.
const MAX_IN_FLIGHT: usize = 32;
/// Most results in memory; one is about 8 KiB (measured). The others are read from the store.
const MAX_CACHED: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// The longest probe, in deadlines, after its requests have timed out.
const MAX_DEADLINES: u32 = 24;
/// How long [`Probes::probe_patiently`] waits, in deadlines.
const PATIENT_DEADLINES: u32 = 7;
/// When a client may retry, seconds.
const RETRY_SECONDS: u32 = 5;

/// The cache of probe results. Clones share it.
#[derive(Clone)]
pub struct Probes {
    tools: ProbeTools,
    deadline: Duration,
    /// How long a request waits for a result: a deadline, or several.
    max_wait: Duration,
    /// Makes results survive a restart; None on the command line.
    store: Option<Store>,
    isolation: Isolation,
    /// None on the command line.
    quarantine: Option<Quarantine>,
    probe_slots: Arc<Semaphore>,
    in_flight_slots: Arc<Semaphore>,
    results: Arc<Mutex<ProbeResults>>,
}

struct ProbeResults {
    /// By fingerprint and version.
    finished: LruCache<String, ProbeOutcome>,
    /// Probes in flight, by version.
    in_flight: HashMap<String, watch::Receiver<Option<ProbeOutcome>>>,
}

/// A probe result, and when it was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeResult {
    pub media: Arc<Media>,
    pub at: Timestamp,
}

type ProbeOutcome = Result<ProbeResult, ProbeError>;

impl Probes {
    /// `ffmpeg` is the configured program; its ffprobe is searched for beside it. GStreamer's Discoverer runs in `isolation`.
    pub fn new(ffmpeg: &Path, deadline: Duration, isolation: Isolation) -> Self {
        let results = ProbeResults { finished: LruCache::sparse(MAX_CACHED), in_flight: HashMap::new() };
        Self {
            tools: ProbeTools::for_ffmpeg(ffmpeg),
            deadline,
            max_wait: deadline,
            store: None,
            isolation,
            quarantine: None,
            probe_slots: Arc::new(Semaphore::new(CONCURRENT_PROBES)),
            in_flight_slots: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            results: Arc::new(Mutex::new(results)),
        }
    }

    /// Stores results in `store`, and leaves files in quarantine to ffprobe. Inside a runtime it also lists ffmpeg's decoders in the background.
    pub fn with_store(self, store: Store, quarantine: Quarantine) -> Self {
        if let Ok(runtime) = Handle::try_current() {
            let tools = self.tools.clone();
            runtime.spawn(async move { probe::warm(&tools).await });
        }
        Self { store: Some(store), quarantine: Some(quarantine), ..self }
    }

    /// Does the one-time work of the first probe now.
    pub async fn warm(&self) {
        tokio::join!(probe::warm(&self.tools), self.isolation.warm());
    }

    /// Probes a file: container, streams, tags. Returns the cached result, or that of the probe in flight, or starts one. A
    /// probe continues after its requests have left, so that a disk that was asleep is awake for the next request.
    ///
    /// # Errors
    /// `UNPLAYABLE_MEDIA` with `details.reasons` if nothing in it can be read; `PROBE_TIMED_OUT` if it takes longer than
    /// the deadline (default 5 s): the probe continues, and a later request gets its result;
    /// `SOURCE_READ_FAILED` when the file cannot be read; `INTERNAL` when the probe itself cannot run.
    pub async fn probe(&self, source: &Arc<SourceFile>) -> Result<ProbeResult> {
        let outcome = async {
            let version = source.version();
            let mut in_flight_slot = None;
            let mut outcome_receiver = loop {
                {
                    let mut results = self.lock_results();
                    let key = source.cached_fingerprint().map(|name| format!("{name}/{version}"));
                    if let Some(outcome) = key.and_then(|key| results.finished.get(&key).cloned()) {
                        return outcome;
                    }
                    if let Some(awaited) = results.in_flight.get(&version) {
                        break awaited.clone();
                    }
                    if let Some(in_flight_slot) = in_flight_slot.take() {
                        let (sender, awaited) = watch::channel(None);
                        results.in_flight.insert(version.clone(), awaited.clone());
                        drop(results);
                        let (probes, source) = (self.clone(), source.clone());
                        let in_flight = InFlightGuard { results: self.results.clone(), version };
                        tokio::spawn(async move {
                            let _in_flight_slot = in_flight_slot;
                            let outcome = probes.probe_uncached(&source, &in_flight.version).await;
                            drop(in_flight);
                            sender.send_replace(Some(outcome));
                        });
                        break awaited;
                    }
                }
                let slots = self.in_flight_slots.clone();
                in_flight_slot = Some(slots.acquire_owned().await.expect("the semaphore is never closed"));
            };
            // Not used if another request has started the probe meanwhile.
            drop(in_flight_slot);
            match outcome_receiver.wait_for(Option::is_some).await {
                Ok(outcome) => outcome.clone().expect("waited for"),
                Err(_) => Err(ProbeError::Unavailable("the probe ended without an answer".into())),
            }
        };
        let outcome = tokio::time::timeout(self.max_wait, outcome).await.unwrap_or(Err(ProbeError::TimedOut));
        outcome.map_err(probe_error)
    }

    /// Like [`Self::probe`], but waits for several deadlines.
    ///
    /// # Errors
    /// Those of [`Self::probe`].
    pub async fn probe_patiently(&self, source: &Arc<SourceFile>) -> Result<ProbeResult> {
        Self { max_wait: self.deadline * PATIENT_DEADLINES, ..self.clone() }.probe(source).await
    }

    /// The stored result, or that of a new probe, which is then stored.
    async fn probe_uncached(&self, source: &Arc<SourceFile>, version: &str) -> ProbeOutcome {
        let (file, store) = (source.clone(), self.store.clone());
        let read = move || {
            let name = file.fingerprint()?.to_owned();
            let id = record_id(&name);
            // An unreadable record is treated as missing: the file is probed again.
            let stored = store.and_then(|store| store.get::<Versioned<ProbeResult>>(Tree::Probes, &id).ok().flatten());
            std::io::Result::Ok((name, stored))
        };
        let (name, stored) = match tokio::task::spawn_blocking(read).await {
            Ok(Ok(read)) => read,
            Ok(Err(cause)) => return Err(ProbeError::Read(cause.to_string())),
            Err(cause) => return Err(ProbeError::Unavailable(cause.to_string())),
        };
        let key = format!("{name}/{version}");
        let finished = self.lock_results().finished.get(&key).cloned();
        if let Some(outcome) = finished {
            return outcome;
        }
        let outcome = match stored.as_ref().and_then(|record| record.for_version(version)) {
            Some(probed) => Ok(probed.clone()),
            None => {
                let outcome = self.run_probe(&name, source).await;
                if let (Some(store), Ok(probed)) = (self.store.clone(), &outcome) {
                    let record = Versioned::with_version(stored, probed.clone(), version, |a, b| a.media == b.media);
                    // Stored in the background: a lost record only costs another probe.
                    tokio::spawn(async move {
                        if let Err(fault) = store.put(Tree::Probes, &record_id(&name), &record).await {
                            tracing::warn!(%fault, "a probe result could not be stored");
                        }
                    });
                }
                outcome
            }
        };
        // Cache only results that depend on the bytes alone; a missing tool or a busy machine is temporary.
        if matches!(outcome, Ok(_) | Err(ProbeError::Unreadable(_) | ProbeError::ReportTooLarge)) {
            self.lock_results().finished.put(key, outcome.clone());
        }
        outcome
    }

    /// Probes with our readers and the Discoverer; uses ffprobe if they refuse the file or it is in quarantine.
    async fn run_probe(&self, name: &str, source: &Arc<SourceFile>) -> ProbeOutcome {
        let probing = async {
            let why = match &self.quarantine {
                Some(quarantine) if quarantine.refuses_probe(name) => "it is in quarantine".to_owned(),
                _ => match probe::probe_with_readers(&self.tools, source, &self.isolation).await {
                    Ok(media) => return Ok(media),
                    Err(why) => why,
                },
            };
            tracing::debug!(media.path = %source.path, why, "falling back to ffprobe");
            probe::probe_with_ffprobe(&self.tools, source).await
        };
        let probe_slot = self.probe_slots.acquire().await.expect("the semaphore is never closed");
        let mut probing = std::pin::pin!(probing);
        let mut media = match tokio::time::timeout(self.deadline, &mut probing).await {
            Ok(media) => media?,
            Err(_) => {
                // A probe this slow waits for a disk; other files need not wait with it.
                drop(probe_slot);
                tracing::info!(media.path = %source.path, "a probe takes longer than the deadline; it continues");
                let outcome = tokio::time::timeout(self.deadline * (MAX_DEADLINES - 1), probing).await;
                outcome.unwrap_or(Err(ProbeError::TimedOut))?
            }
        };
        media.limit_duration();
        if media.keyframe_interval_seconds.is_none() {
            // The result is valid without the interval.
            media.keyframe_interval_seconds = index::keyframe_interval(source, &media).await;
        }
        Ok(ProbeResult { media: Arc::new(media), at: Timestamp::now() })
    }

    /// Identity of a file by its content, independent of its name.
    ///
    /// # Errors
    /// `SOURCE_READ_FAILED`.
    pub async fn fingerprint(&self, source: &Arc<SourceFile>) -> Result<String> {
        let source_handle = source.clone();
        let fingerprint_task = tokio::task::spawn_blocking(move || source_handle.fingerprint().map(str::to_owned));
        let read = fingerprint_task.await.map_err(Error::internal)?;
        read.map_err(|cause| Error::new(Code::SourceReadFailed, "the file could not be read").with_cause(cause))
    }

    fn lock_results(&self) -> MutexGuard<'_, ProbeResults> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of a probe in flight; removed on drop.
struct InFlightGuard {
    results: Arc<Mutex<ProbeResults>>,
    version: String,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).in_flight.remove(&self.version);
    }
}

fn record_id(fingerprint: &str) -> String {
    format!("{PROBE_VERSION}/{fingerprint}")
}

fn probe_error(fault: ProbeError) -> Error {
    match fault {
        ProbeError::Unreadable(why) => Error::new(Code::UnplayableMedia, "nothing in this file can be played")
            .with_details(json!({"reasons": ["UNREADABLE"]}))
            .with_cause(why),
        ProbeError::TimedOut => {
            let text = "the file is still being examined: its disk is slow, or the server is busy";
            Error::new(Code::ProbeTimedOut, text).with_retry_after(RETRY_SECONDS)
        }
        ProbeError::Read(cause) => Error::new(Code::SourceReadFailed, "the file could not be read").with_cause(cause),
        ProbeError::Unavailable(cause) => Error::internal(cause),
        fault @ ProbeError::ReportTooLarge => Error::internal(fault),
    }
}

#[cfg(test)]
mod tests;
