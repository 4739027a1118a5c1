//! Runs: one owner task for each rendition of an item, which starts, moves, paces and restarts its runs.
//!
//! Each reader of a rendition holds a [`Lease`]; five leases of one rendition cost one encode. When the last lease is
//! dropped the owner ends, and its runs with it.
#![doc = include_str!("runs/README.md")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};

use crate::engine::segment_cache::{SegmentCache, SegmentHold, StoredSegment};
use crate::engine::shared_segments::{SharedKey, SharedSegments};
use crate::engine::{Backend, RenditionSpec, RunError};
use crate::error::{Code, Error, Result};
use crate::service::background_tasks::BackgroundTasks;
use crate::service::renditions::backend_counts::BackendCounts;
use crate::service::renditions::encode_slots::{Admission, AdmissionRequest, EncodeJob, EncodeSlots, SlotsExhausted};
use crate::telemetry::traces::{self, ActiveSpan};

mod owner;
#[cfg(test)]
mod tests;

use owner::{Owner, SegmentRequest};

/// Current activity of a rendition's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunActivity {
    /// Nothing was requested yet, or the runs are far enough ahead of their readers.
    #[default]
    Idle,
    Working,
    Complete,
}

/// The progress of a rendition, published to its readers.
#[derive(Clone, Debug, Default)]
pub struct RenditionProgress {
    pub activity: RunActivity,
    pub segments_ready: usize,
    /// In memory and on disk.
    pub buffered_bytes: u64,
    pub produced_seconds: f64,
    /// Seconds of media per second of encoding time; None before the first segment.
    pub speed: Option<f64>,
    /// Runs started so far.
    pub runs_started: usize,
    /// First segment of the latest run.
    pub last_run_start: Option<usize>,
    /// The active backend; empty before the first request.
    pub backend: &'static str,
    /// The backend's own name for the encoder in use, if it differs from the planned one: the video encoder, or the audio
    /// encoder if only audio is encoded.
    pub encoder: Option<&'static str>,
    /// The video encoder of the remote worker that made the latest segment; None if this server made it.
    pub remote_encoder: Option<&'static str>,
    /// The hardware that decodes video to encode; None if software does.
    pub hardware_decoder: Option<&'static str>,
    /// The failure that made another backend take over.
    pub fallback_cause: Option<RunError>,
    /// Set when the owner gave up.
    pub failure: Option<RunError>,
}

/// Health of all runs of the server.
#[derive(Debug, Default)]
pub struct RunHealth {
    /// Requests waiting for their segment.
    waiting_requests: AtomicUsize,
    /// The last failure of a run.
    last_fault: Mutex<Option<(Timestamp, RunError)>>,
    run_counts: BackendCounts,
}

impl RunHealth {
    pub fn waiting_requests(&self) -> usize {
        self.waiting_requests.load(Ordering::Relaxed)
    }

    pub fn last_fault(&self) -> Option<(Timestamp, RunError)> {
        lock(&self.last_fault).clone()
    }

    /// Runs started and failed since the server started.
    pub fn run_counts(&self) -> &BackendCounts {
        &self.run_counts
    }

    fn record_failure(&self, backend: &'static str, error: &RunError) {
        self.run_counts.count_failure(backend);
        *lock(&self.last_fault) = Some((Timestamp::now(), error.clone()));
    }
}

/// Counts a waiting request until it is answered or dropped.
struct WaitingGuard<'a>(&'a AtomicUsize);

impl<'a> WaitingGuard<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All runs of the server.
pub struct Runs {
    segments: SegmentCache,
    /// The store that servers share; None without `segments`.
    shared: Option<SharedSegments>,
    health: Arc<RunHealth>,
    slots: Arc<EncodeSlots>,
    owner_handles: Mutex<HashMap<Arc<str>, Weak<OwnerHandle>>>,
    tasks: BackgroundTasks,
}

/// The handle through which readers reach an owner task.
struct OwnerHandle {
    #[cfg(test)]
    rendition_key: Arc<str>,
    requests: mpsc::Sender<SegmentRequest>,
    progress: watch::Receiver<RenditionProgress>,
    health: Arc<RunHealth>,
    /// None if the rendition needs no encode slot.
    encode_job: Option<Arc<EncodeJob>>,
    _segment_hold: SegmentHold,
}

/// One reader's hold on a rendition.
pub struct Lease {
    owner: Arc<OwnerHandle>,
    reader_identity: Arc<ReaderIdentity>,
    /// None if no encode slot is needed, or after the admission was withdrawn.
    admission: Mutex<Option<Arc<Admission>>>,
}

/// Identity of a reader; the owner drops its position when the lease is gone.
#[derive(Debug)]
pub(super) struct ReaderIdentity;

impl Runs {
    /// Runs at most `max_jobs` encodes at once and keeps segments in `segments`.
    pub fn new(segments: SegmentCache, max_jobs: usize, tasks: BackgroundTasks) -> Self {
        Self {
            segments,
            shared: None,
            health: Arc::default(),
            slots: EncodeSlots::new(max_jobs),
            owner_handles: Mutex::default(),
            tasks,
        }
    }

    /// Also looks for segments in `shared`, and uploads those that were made.
    #[must_use]
    pub fn with_shared(self, shared: Option<SharedSegments>) -> Self {
        Self { shared, ..self }
    }

    /// Encode slots in use.
    pub fn active_jobs(&self) -> usize {
        self.slots.used_slots()
    }

    pub fn encode_slots(&self) -> &Arc<EncodeSlots> {
        &self.slots
    }

    pub fn health(&self) -> &RunHealth {
        &self.health
    }

    /// Joins the readers of a rendition, or starts it with `backend`. Copied video and audio alone need no encode slot.
    ///
    /// # Errors
    /// `TRANSCODER_BUSY` if the encode slots cannot carry one more viewer.
    pub fn lease(
        &self,
        backend: Arc<dyn Backend>,
        spec: Arc<RenditionSpec>,
        viewer: AdmissionRequest<'_>,
    ) -> Result<Lease> {
        let key = rendition_key(&*backend, &spec);
        let mut handles = lock(&self.owner_handles);
        let existing = handles.get(&key).and_then(Weak::upgrade);
        if let Some(handle) = existing.filter(|handle| handle.progress.borrow().failure.is_none()) {
            let admission = handle.encode_job.as_ref().and_then(|job| job.add_viewer(viewer));
            if handle.encode_job.is_none() || admission.is_some() {
                return Ok(Lease {
                    owner: handle,
                    reader_identity: Arc::new(ReaderIdentity),
                    admission: Mutex::new(admission),
                });
            }
        }
        let started_job = spec.pixel_rate().map(|cost| self.slots.start_job(cost, viewer));
        let (job_and_turns, admission) = match started_job.transpose().map_err(|SlotsExhausted| self.busy_error())? {
            Some((job, admission, allowed)) => (Some((job, allowed)), Some(admission)),
            None => (None, None),
        };
        let job = job_and_turns.as_ref().map(|(job, _)| job.clone());
        let (requests, request_receiver) = mpsc::channel(64);
        let shared = self.shared.clone().and_then(|shared| Some((shared, SharedKey::of_rendition(&*backend, &spec)?)));
        let (segments, health) = (self.segments.clone(), self.health.clone());
        let (owner, progress) = Owner::new(backend, segments, shared, key.clone(), spec, job_and_turns, health);
        self.tasks.spawn(owner.run(request_receiver));
        let handle = Arc::new(OwnerHandle {
            #[cfg(test)]
            rendition_key: key.clone(),
            requests,
            progress,
            health: self.health.clone(),
            encode_job: job,
            _segment_hold: self.segments.hold(&key),
        });
        handles.retain(|_, handle| handle.strong_count() > 0);
        handles.insert(key, Arc::downgrade(&handle));
        Ok(Lease { owner: handle, reader_identity: Arc::new(ReaderIdentity), admission: Mutex::new(admission) })
    }

    /// Returns a stored segment; starts no run.
    pub async fn stored_segment(&self, rendition_key: &Arc<str>, index: usize) -> Option<StoredSegment> {
        self.segments.get(rendition_key, index).await
    }

    /// Whether a segment is stored.
    pub fn has_segment(&self, rendition_key: &str, index: usize) -> bool {
        self.segments.contains(rendition_key, index)
    }

    /// The error for a viewer whose share of the encode slots does not fit.
    pub fn busy_error(&self) -> Error {
        Error::new(Code::TranscoderBusy, "all encode slots are in use, and their viewers need them")
            .with_retry_after(5)
            .with_details(serde_json::json!({"active": self.active_jobs(), "max": self.slots.slot_count()}))
    }
}

impl Lease {
    /// Returns a segment, stored or newly produced. Waits without limit; dropping the future cancels the request.
    ///
    /// # Errors
    /// The failure that made the owner give up.
    pub async fn segment(&self, index: usize) -> Result<StoredSegment, RunError> {
        let run_error = || {
            let failure = self.owner.progress.borrow().failure.clone();
            failure.unwrap_or_else(|| RunError::Internal("the run was ended".into()))
        };
        let _waiting = WaitingGuard::new(&self.owner.health.waiting_requests);
        let (reply, reply_receiver) = oneshot::channel();
        let mut span = ActiveSpan::child_of(traces::current(), "wait for a segment");
        span.set("segment", index);
        let reader_identity = Arc::downgrade(&self.reader_identity);
        let request = SegmentRequest { index, reader_identity, reply, trace: span.context() };
        self.owner.requests.send(request).await.map_err(|_| run_error())?;
        let outcome = reply_receiver.await.unwrap_or_else(|_| Err(run_error()));
        if outcome.is_err() {
            span.set_failed();
        }
        outcome
    }

    /// Subscribes to the rendition's progress.
    pub fn progress(&self) -> watch::Receiver<RenditionProgress> {
        self.owner.progress.clone()
    }

    /// The viewer's admission to the encode slots; None if none is needed or it was withdrawn.
    pub fn admission(&self) -> Option<Arc<Admission>> {
        lock(&self.admission).clone()
    }

    /// Whether [`Lease::withdraw`] gave the share of the encode slots back.
    pub fn was_withdrawn(&self) -> bool {
        self.owner.encode_job.is_some() && lock(&self.admission).is_none()
    }

    /// Gives the share of the encode slots to another viewer, even while requests are waiting. If this was the last
    /// lease, its requests fail. False if it had no share.
    pub fn withdraw(&self) -> bool {
        let admission = lock(&self.admission).take();
        if let (Some(job), Some(admission)) = (&self.owner.encode_job, &admission) {
            job.withdraw(admission);
        }
        admission.is_some()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let (Some(job), Some(admission)) = (&self.owner.encode_job, self.admission()) {
            job.remove_viewer(&admission);
        }
    }
}

impl Drop for OwnerHandle {
    fn drop(&mut self) {
        // The owner task takes a moment to end; the next session must not wait for its slot.
        if let Some(job) = &self.encode_job {
            job.end();
        }
    }
}

/// The key under which the segments of a rendition are stored; renditions with identical bytes share it. It contains the
/// file version, because a file repaired in place keeps its fingerprint.
pub fn rendition_key(backend: &dyn Backend, spec: &RenditionSpec) -> Arc<str> {
    let grid_digest = data_encoding::HEXLOWER.encode(&spec.grid.content_digest());
    let mut version = format!("{}/{}/{grid_digest}/{}", backend.name(), backend.version(), spec.source.version());
    if let Some(sidecar) = &spec.sidecar {
        version += &sidecar.version();
    }
    format!("{}-{}", spec.fingerprint, spec.rendition.content_hash(&version)).into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while held")
}
