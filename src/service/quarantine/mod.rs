//! Files that made a worker crash twice: no worker reads them with the same pipeline again, ffmpeg does.
//!
//! An entry is made by the pool of workers, after a replay crashed like the first run. It ends after 30 days, with another
//! version of this program or of GStreamer, or when an admin lifts it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::domain::worker::{ProvenFault, QuarantineKey, Stage};
use crate::engine::worker::{FaultRecorder, PROBE_PIPELINE, pipeline_name};
use crate::engine::{RenditionSpec, versions};
use crate::error::{Code, Error, Result};
use crate::store::{Store, Tree};

pub mod old_marks;

/// Entries at most; the oldest are removed.
const MAX_ENTRIES: usize = 10_000;
/// After this long a file gets another try.
const QUARANTINE_TIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Largest text of a cause, bytes.
const MAX_CAUSE_BYTES: usize = 500;

/// The quarantine of one server. Clones share it.
#[derive(Clone)]
pub struct Quarantine {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    /// That of the workers of this process.
    version: String,
    entries: Mutex<Entries>,
    /// Held while the store is changed, so that it ends up like the memory.
    change_lock: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Entries {
    faults: HashMap<String, ProvenFault>,
    /// Ids of stored entries that no longer count.
    obsolete: Vec<String>,
}

/// A file in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantineEntry {
    /// Hash of the fault's key.
    pub id: String,
    pub fault: ProvenFault,
    pub expires_at: Timestamp,
}

impl std::fmt::Debug for Quarantine {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.debug_struct("Quarantine").field("entries", &self.len()).finish_non_exhaustive()
    }
}

/// 32 hexadecimal digits.
fn entry_id(key: &QuarantineKey) -> String {
    let parts = [key.fingerprint.as_str(), key.stage.as_str(), key.pipeline.as_str(), key.version.as_str()];
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

fn is_current(fault: &ProvenFault, version: &str, now: Timestamp) -> bool {
    // A time in the future is that of a clock which was wrong.
    let age = now.duration_since(fault.at).unsigned_abs();
    fault.key.version == version && age < QUARANTINE_TIME
}

fn expires_at(fault: &ProvenFault) -> Timestamp {
    let duration = SignedDuration::try_from(QUARANTINE_TIME).unwrap_or(SignedDuration::MAX);
    fault.at.checked_add(duration).unwrap_or(Timestamp::MAX)
}

impl Quarantine {
    /// Reads the entries of this version from the store.
    pub fn open(store: Store) -> Self {
        Self::open_as(store, &versions::worker_version(), Timestamp::now())
    }

    fn open_as(store: Store, version: &str, now: Timestamp) -> Self {
        let mut entries = Entries::default();
        let read = store.for_each::<ProvenFault>(Tree::Quarantine, |id, fault| {
            if is_current(&fault, version, now) && entries.faults.len() < MAX_ENTRIES {
                entries.faults.insert(id.to_owned(), fault);
            } else {
                entries.obsolete.push(id.to_owned());
            }
        });
        if let Err(error) = read {
            // The worst that follows is another crash of a worker.
            tracing::warn!(%error, "the quarantine could not be read completely");
        }
        let (version, entries) = (version.to_owned(), Mutex::new(entries));
        Self { inner: Arc::new(Inner { store, version, entries, change_lock: tokio::sync::Mutex::default() }) }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries().faults.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether GStreamer must not make this rendition.
    pub fn refuses_run(&self, spec: &RenditionSpec) -> bool {
        self.is_quarantined(&self.key(&spec.fingerprint, Stage::Run, pipeline_name(&spec.rendition)))
    }

    /// Whether GStreamer must not examine the file with this fingerprint.
    pub fn refuses_probe(&self, fingerprint: &str) -> bool {
        self.is_quarantined(&self.key(fingerprint, Stage::Probe, PROBE_PIPELINE))
    }

    fn key(&self, fingerprint: &str, stage: Stage, pipeline: &str) -> QuarantineKey {
        let (fingerprint, pipeline) = (fingerprint.to_owned(), pipeline.to_owned());
        QuarantineKey { fingerprint, stage, pipeline, version: self.inner.version.clone() }
    }

    /// All entries, the newest first.
    pub fn list(&self) -> Vec<QuarantineEntry> {
        let mut all: Vec<QuarantineEntry> = {
            let entries = self.entries();
            let entry = |(id, fault): (&String, &ProvenFault)| QuarantineEntry {
                id: id.clone(),
                fault: fault.clone(),
                expires_at: expires_at(fault),
            };
            entries.faults.iter().map(entry).collect()
        };
        all.sort_by(|a, b| b.fault.at.cmp(&a.fault.at).then_with(|| a.id.cmp(&b.id)));
        all
    }

    /// Removes an entry, so that workers read the file again.
    ///
    /// # Errors
    /// `NOT_FOUND`; `STORAGE_FULL`, and then the entry stays.
    pub async fn lift(&self, id: &str) -> Result<()> {
        let _change = self.inner.change_lock.lock().await;
        if !self.entries().faults.contains_key(id) {
            return Err(Error::new(Code::NotFound, "there is no such entry in the quarantine"));
        }
        self.inner.store.delete(Tree::Quarantine, id).await?;
        if let Some(fault) = self.entries().faults.remove(id) {
            tracing::info!(
                media.path = fault.path,
                pipeline = fault.key.pipeline,
                "the quarantine of a file was lifted"
            );
        }
        Ok(())
    }

    /// Removes entries that have expired or belong to another version.
    ///
    /// # Errors
    /// `STORAGE_FULL`: the rest is removed by the next call.
    pub async fn cleanup(&self) -> Result<()> {
        self.cleanup_at(Timestamp::now()).await
    }

    async fn cleanup_at(&self, now: Timestamp) -> Result<()> {
        let _change = self.inner.change_lock.lock().await;
        let obsolete = {
            let mut entries = self.entries();
            let Entries { faults, obsolete } = &mut *entries;
            faults.retain(|id, fault| {
                let is_kept = is_current(fault, &fault.key.version, now);
                if !is_kept {
                    obsolete.push(id.clone());
                }
                is_kept
            });
            obsolete.clone()
        };
        for id in obsolete {
            // Recorded again meanwhile: the new entry counts.
            if !self.entries().faults.contains_key(&id) {
                self.inner.store.delete(Tree::Quarantine, &id).await?;
            }
            self.entries().obsolete.retain(|other| *other != id);
        }
        Ok(())
    }

    /// Stores what the memory has for `id`.
    async fn store_entry(&self, id: &str) -> Result<()> {
        let _change = self.inner.change_lock.lock().await;
        let fault = self.entries().faults.get(id).cloned();
        match fault {
            Some(fault) => self.inner.store.put(Tree::Quarantine, id, &fault).await,
            None => self.inner.store.delete(Tree::Quarantine, id).await.map(drop),
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.inner.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultRecorder for Quarantine {
    fn is_quarantined(&self, key: &QuarantineKey) -> bool {
        let entries = self.entries();
        let fault = entries.faults.get(&entry_id(key));
        fault.is_some_and(|fault| is_current(fault, &key.version, Timestamp::now()))
    }

    fn count(&self) -> usize {
        self.len()
    }

    /// Takes effect at once; a task stores it. Must be called inside the runtime.
    fn record(&self, mut fault: ProvenFault) {
        fault.cause.truncate(fault.cause.floor_char_boundary(MAX_CAUSE_BYTES));
        tracing::warn!(
            media.path = fault.path,
            pipeline = fault.key.pipeline,
            cause = fault.cause,
            "this file made a worker crash twice; it is left to ffmpeg"
        );
        let id = entry_id(&fault.key);
        let mut changed_ids = vec![id.clone()];
        {
            let mut entries = self.entries();
            entries.faults.insert(id, fault);
            if entries.faults.len() > MAX_ENTRIES {
                let oldest = entries.faults.iter().min_by_key(|(_, fault)| fault.at).map(|(id, _)| id.clone());
                if let Some(oldest) = oldest {
                    entries.faults.remove(&oldest);
                    changed_ids.push(oldest);
                }
            }
        }
        let quarantine = self.clone();
        tokio::spawn(async move {
            for id in changed_ids {
                if let Err(error) = quarantine.store_entry(&id).await {
                    tracing::warn!(%error, "a file in quarantine could not be stored; a restart ends its quarantine");
                }
            }
        });
    }
}

/// The quarantine of a command, which has no state: it knows no file and stores none.
#[derive(Clone, Copy, Debug)]
pub struct NoQuarantine;

impl FaultRecorder for NoQuarantine {
    fn is_quarantined(&self, _: &QuarantineKey) -> bool {
        false
    }

    fn count(&self) -> usize {
        0
    }

    fn record(&self, fault: ProvenFault) {
        tracing::warn!(media.path = fault.path, cause = fault.cause, "this file made a worker crash twice");
    }
}

#[cfg(test)]
mod tests;
