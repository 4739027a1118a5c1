//! Recordings (DVR): kept in memory, stored durably before a change is announced, started by one task that sleeps until
//! the next start.
#![doc = include_str!("README.md")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::domain::recording::{self, Recording, RecordingEvent, RecordingFailure, RecordingState, SeriesRule};
use crate::engine::recording_file::RecordingsFolder;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::clock::Clock;
use crate::service::events::{EventContent, Events};
use crate::store::{Batch, Store, Tree};

mod airings;
mod follow_guide;
mod maintenance;
mod recorded_segments;
mod recorder;
mod scheduling;

pub use maintenance::start_maintenance;
pub use scheduling::{NewRecording, RecordingTarget, ScheduledRecording};

/// Most recordings on record, in any state.
const MAX_RECORDINGS: usize = 10_000;

/// Most series rules.
const MAX_RULES: usize = 500;

/// How long stopping a recording may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

pub struct Recordings {
    store: Store,
    events: Arc<Events>,
    clock: Clock,
    folder: Option<Arc<RecordingsFolder>>,
    all: Mutex<BTreeMap<String, Recording>>,
    rules: Mutex<BTreeMap<String, SeriesRule>>,
    /// Recordings whose latest state could not be stored because the disk was full.
    unsaved: Mutex<HashSet<String>>,
    running_tasks: Mutex<HashMap<String, RunningRecording>>,
    /// Locked while a recording is changed.
    edit_lock: tokio::sync::Mutex<()>,
    /// Locked while a file is named and created.
    naming_lock: tokio::sync::Mutex<()>,
    /// Whether the maintenance task runs, and its wake-up signal.
    is_maintained: AtomicBool,
    wake_signal: Arc<Notify>,
}

struct RunningRecording {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Whether to keep a recording's file when the recording is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileAction {
    #[default]
    Keep,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedRecording {
    /// The state the recording is left in; None if its record is gone too.
    pub state: Option<RecordingState>,
    pub file_deleted: bool,
}

impl Recordings {
    /// Reads all recordings and opens their folder.
    pub fn open(store: Store, config: &Config, events: Arc<Events>, clock: Clock) -> Result<Self> {
        let all = store.scan::<Recording>(Tree::Recordings)?.into_iter().collect();
        let rules = store.scan::<SeriesRule>(Tree::RecordingRules)?.into_iter().collect();
        let folder = config.recordings.as_deref().map(RecordingsFolder::open).transpose().map_err(Error::internal)?;
        Ok(Self {
            store,
            events,
            clock,
            folder: folder.map(Arc::new),
            all: Mutex::new(all),
            rules: Mutex::new(rules),
            unsaved: Mutex::default(),
            running_tasks: Mutex::default(),
            edit_lock: tokio::sync::Mutex::default(),
            naming_lock: tokio::sync::Mutex::default(),
            is_maintained: AtomicBool::new(false),
            wake_signal: Arc::default(),
        })
    }

    /// The folder of recordings.
    ///
    /// # Errors
    /// `CONFLICT` when none is configured.
    pub fn folder(&self) -> Result<&Arc<RecordingsFolder>> {
        self.folder.as_ref().ok_or_else(|| {
            Error::new(Code::Conflict, "no folder for recordings is configured: set `recordings` in the configuration")
        })
    }

    /// All recordings, latest start first.
    pub fn all(&self) -> Vec<Recording> {
        let mut all: Vec<Recording> = lock(&self.all).values().cloned().collect();
        all.sort_by(|a, b| (b.start_ms, &b.id).cmp(&(a.start_ms, &a.id)));
        all
    }

    /// Number of recordings in a state.
    pub fn count_in(&self, state: RecordingState) -> usize {
        lock(&self.all).values().filter(|one| one.state == state).count()
    }

    /// # Errors
    /// `NOT_FOUND`.
    pub fn get(&self, id: &str) -> Result<Recording> {
        lock(&self.all).get(id).cloned().ok_or_else(|| Error::new(Code::NotFound, "no such recording"))
    }

    /// All series rules, by title.
    pub fn rules(&self) -> Vec<SeriesRule> {
        let mut rules: Vec<SeriesRule> = lock(&self.rules).values().cloned().collect();
        rules.sort_by(|a, b| (&a.title, &a.id).cmp(&(&b.title, &b.id)));
        rules
    }

    /// # Errors
    /// `NOT_FOUND`.
    pub fn rule(&self, id: &str) -> Result<SeriesRule> {
        lock(&self.rules).get(id).cloned().ok_or_else(|| Error::new(Code::NotFound, "no such series rule"))
    }

    pub fn is_running(&self, id: &str) -> bool {
        lock(&self.running_tasks).contains_key(id)
    }

    /// Removes a recording. One that has not ended is cancelled and stays on record as cancelled.
    ///
    /// # Errors
    /// `NOT_FOUND`; `STORAGE_FULL`; `INTERNAL` if its file cannot be removed.
    pub async fn remove(&self, id: &str, file_action: FileAction) -> Result<RemovedRecording> {
        // Cancelled first, so that the maintenance task does not start it again once it has stopped.
        let mut cancelled = false;
        self.edit(id, |recording| cancelled = recording.apply(RecordingEvent::Cancel, self.now_ms())).await?;
        self.stop(id).await;
        let _editing = self.edit_lock.lock().await;
        let mut recording = self.get(id)?;
        let mut file_deleted = false;
        if file_action == FileAction::Delete
            && let Some(path) = recording.path.take()
        {
            file_deleted = self.delete_file(&path).await?;
            recording.written_range.bytes = 0;
        }
        if cancelled {
            self.store_recording(recording).await?;
            return Ok(RemovedRecording { state: Some(RecordingState::Cancelled), file_deleted });
        }
        self.store.delete(Tree::Recordings, id).await?;
        lock(&self.all).remove(id);
        lock(&self.unsaved).remove(id);
        Ok(RemovedRecording { state: None, file_deleted })
    }

    /// Removes a series rule and cancels its recordings that have not begun, in one transaction.
    ///
    /// # Errors
    /// `NOT_FOUND`; `STORAGE_FULL`.
    pub async fn remove_rule(&self, id: &str) -> Result<()> {
        let _editing = self.edit_lock.lock().await;
        self.rule(id)?;
        let mut scheduled = self.all();
        scheduled.retain_mut(|recording| {
            recording.rule_id.as_deref() == Some(id)
                && recording.state == RecordingState::Scheduled
                && recording.apply(RecordingEvent::Cancel, self.now_ms())
        });
        let mut batch = Batch::default();
        batch.delete(Tree::RecordingRules, id)?;
        scheduled.iter().try_for_each(|recording| batch.put(Tree::Recordings, &recording.id, recording))?;
        self.store.write(batch).await?;
        lock(&self.rules).remove(id);
        scheduled.into_iter().for_each(|recording| self.update_memory(recording));
        Ok(())
    }

    fn now_ms(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    /// Stops a running recording and waits for its end.
    async fn stop(&self, id: &str) {
        let running = lock(&self.running_tasks).remove(id);
        if let Some(RunningRecording { stop, mut task }) = running {
            stop.cancel();
            if tokio::time::timeout(STOP_TIMEOUT, &mut task).await.is_err() {
                task.abort();
            }
        }
    }

    async fn delete_file(&self, path: &str) -> Result<bool> {
        let (folder, path) = (self.folder()?.clone(), path.to_owned());
        let removed = tokio::task::spawn_blocking(move || folder.remove(Path::new(&path)));
        removed.await.map_err(Error::internal)?.map_err(Error::internal)
    }

    /// Changes a recording, and stores it if `change` did anything.
    async fn edit(&self, id: &str, change: impl FnOnce(&mut Recording)) -> Result<Recording> {
        let _editing = self.edit_lock.lock().await;
        let before = self.get(id)?;
        let mut recording = before.clone();
        change(&mut recording);
        if recording != before {
            self.store_recording(recording.clone()).await?;
        }
        Ok(recording)
    }

    async fn store_recording(&self, recording: Recording) -> Result<()> {
        self.store.put(Tree::Recordings, &recording.id, &recording).await?;
        self.update_memory(recording);
        Ok(())
    }

    /// Stores a rule and its recordings and removes others, in one transaction. The caller holds `edit_lock`.
    async fn store_together(&self, rule: Option<SeriesRule>, new: Vec<Recording>, removed: &[Recording]) -> Result<()> {
        let mut batch = Batch::default();
        removed.iter().try_for_each(|recording| batch.delete(Tree::Recordings, &recording.id))?;
        new.iter().try_for_each(|recording| batch.put(Tree::Recordings, &recording.id, recording))?;
        if let Some(rule) = &rule {
            batch.put(Tree::RecordingRules, &rule.id, rule)?;
        }
        self.store.write(batch).await?;
        for recording in removed {
            lock(&self.all).remove(&recording.id);
        }
        new.into_iter().for_each(|recording| self.update_memory(recording));
        if let Some(rule) = rule {
            lock(&self.rules).insert(rule.id.clone(), rule);
        }
        Ok(())
    }

    fn update_memory(&self, recording: Recording) {
        let mut all = lock(&self.all);
        let previous_state = all.get(&recording.id).map(|before| before.state);
        if previous_state != Some(recording.state) {
            let (id, title, state) = (recording.id.clone(), recording.title.clone(), recording.state);
            self.events.publish(Some(&recording.user_id), EventContent::Recording { id, title, state });
        }
        lock(&self.unsaved).remove(&recording.id);
        all.insert(recording.id.clone(), recording);
    }

    /// Sets the final state of a recording. If it cannot be stored, it is kept in memory and stored later.
    async fn finish(&self, id: &str, event: RecordingEvent, fault: Option<&Error>) {
        let _editing = self.edit_lock.lock().await;
        let (Ok(mut recording), now_ms) = (self.get(id), self.now_ms()) else { return };
        if !recording.apply(event, now_ms) {
            return;
        }
        recording.failure = fault.map(|fault| RecordingFailure {
            code: fault.code.as_str().to_owned(),
            message: fault.message.clone(),
            at_ms: now_ms,
        });
        match fault {
            Some(fault) => tracing::warn!(recording.id = id, %fault, "recording failed"),
            None => tracing::info!(recording.id = id, bytes = recording.written_range.bytes, "recording complete"),
        }
        if let Err(full) = self.store_recording(recording.clone()).await {
            tracing::warn!(recording.id = id, %full, "the end of a recording could not be stored; will retry");
            self.update_memory(recording);
            lock(&self.unsaved).insert(id.to_owned());
        }
    }

    /// Retries to store states that could not be stored before.
    async fn retry_unsaved(&self) {
        let unsaved_ids: Vec<String> = lock(&self.unsaved).iter().cloned().collect();
        for id in unsaved_ids {
            let _editing = self.edit_lock.lock().await;
            let Ok(recording) = self.get(&id) else { continue };
            if self.store_recording(recording).await.is_err() {
                return;
            }
        }
    }
}

impl Service {
    /// Ids of the recordings that conflict with this one: together they need more encode slots than there are.
    pub fn recording_conflicts(&self, new: &Recording) -> Vec<String> {
        let (from_ms, to_ms) = new.padded_range_ms();
        let all = lock(&self.recordings.all);
        let needs_encoding = |id: u32| {
            let Ok(channel) = self.channels.get(id) else { return false };
            airings::needs_encoding(&channel, from_ms, to_ms)
        };
        let ids = recording::conflicting_ids(new, all.values(), self.config.limits.concurrent_jobs, needs_encoding);
        ids.into_iter().map(str::to_owned).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
