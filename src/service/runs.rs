//! Runs: one owner task for each rendition of an item, which starts, moves, paces and restarts its runs.
//!
//! Each reader of a rendition holds a [`Lease`]; five leases of one rendition cost one encode. When the last lease is
//! dropped the owner ends, and its runs with it.
#![doc = include_str!("runs/README.md")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::domain::encode_slots::pixel_cost;
use crate::domain::grid::Grid;
use crate::domain::media::{Media, StreamKind};
use crate::domain::plan::{Rendition, VideoPlan};
use crate::engine::packager::Package;
use crate::engine::image::Image;
use crate::engine::segment_cache::{SegmentHold, SegmentCache, StoredSegment};
use crate::engine::source::SourceFile;
use crate::engine::{Job, RunError, Backend};
use crate::error::{Code, Error, Result};
use crate::service::encode_slots::{Admission, EncodeJob, EncodeSlots, SlotsExhausted, AdmissionRequest};

mod owner;
#[cfg(test)]
mod tests;

use owner::{Command, Owner};

/// A rendition of one item, with everything needed to produce it.
#[derive(Clone, Debug)]
pub struct Work {
    pub source: Arc<SourceFile>,
    /// Content identity of the source.
    pub fingerprint: String,
    pub media: Arc<Media>,
    pub rendition: Arc<Rendition>,
    pub grid: Arc<Grid>,
    /// The open file of a `Burn::Sidecar`.
    pub sidecar: Option<Arc<SourceFile>>,
    /// The image of an `Emblem` (watermark).
    pub picture: Option<Arc<Image>>,
    /// Set when the packager produces the segments.
    pub package: Option<Arc<Package>>,
}

impl Work {
    /// Encoding cost in pixels per second; None if no video is encoded.
    fn cost(&self) -> Option<f64> {
        let Some(VideoPlan::Encode(plan)) = &self.rendition.video else { return None };
        let source = self.media.streams.iter().find(|stream| stream.index == plan.stream);
        let decoded = source.and_then(|stream| match &stream.kind {
            StreamKind::Video(video) => {
                Some((video.width, video.height, video.frame_rate.unwrap_or(plan.frame_rate).as_f64()))
            }
            _ => None,
        });
        Some(pixel_cost((plan.width, plan.height, plan.frame_rate.as_f64()), decoded))
    }

    fn job(&self, first: usize) -> Job {
        Job {
            source: self.source.clone(),
            media: self.media.clone(),
            rendition: self.rendition.clone(),
            grid: self.grid.clone(),
            first,
            quarantine_mark: None,
            sidecar: self.sidecar.clone(),
            watermark: self.picture.clone(),
            package: self.package.clone(),
        }
    }
}

/// Current activity of a rendition's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// Nothing was requested yet, or the runs are far enough ahead of their readers.
    #[default]
    Ahead,
    Working,
    AllMade,
}

/// The progress of a rendition, published to its readers.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    pub activity: Activity,
    pub segments_ready: usize,
    /// In memory and on disk.
    pub buffered_bytes: u64,
    pub produced_seconds: f64,
    /// Seconds of media per second of encoding time; None before the first segment.
    pub speed: Option<f64>,
    /// Runs started so far.
    pub runs_started: usize,
    /// First segment of the latest run.
    pub run_from: Option<usize>,
    /// The active backend; empty before the first request.
    pub producer: &'static str,
    /// The backend's own name for the encoder in use, if it differs from the planned one: the video encoder, or the audio
    /// encoder if only audio is encoded.
    pub encoder: Option<&'static str>,
    /// The failure that made another backend take over.
    pub fallen: Option<RunError>,
    /// Set when the owner gave up.
    pub failure: Option<RunError>,
}

/// Health of all runs of the server.
#[derive(Debug, Default)]
pub struct Standing {
    /// Requests waiting for their segment.
    waiting: AtomicUsize,
    /// The last failure of a run.
    fault: Mutex<Option<(Timestamp, RunError)>>,
}

impl Standing {
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    pub fn last_fault(&self) -> Option<(Timestamp, RunError)> {
        lock(&self.fault).clone()
    }

    fn failed(&self, error: &RunError) {
        *lock(&self.fault) = Some((Timestamp::now(), error.clone()));
    }
}

/// Counts a waiting request until it is answered or dropped.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All runs of the server.
pub struct Runs {
    segments: SegmentCache,
    standing: Arc<Standing>,
    slots: Arc<EncodeSlots>,
    lines: Mutex<HashMap<Arc<str>, Weak<Line>>>,
    owners: Mutex<JoinSet<()>>,
    stop: watch::Sender<bool>,
}

/// The handle through which readers reach an owner task.
struct Line {
    #[cfg(test)]
    name: Arc<str>,
    commands: mpsc::Sender<Command>,
    progress: watch::Receiver<Progress>,
    standing: Arc<Standing>,
    /// None if the rendition needs no encode slot.
    job: Option<Arc<EncodeJob>>,
    _hold: SegmentHold,
}

/// One reader's hold on a rendition.
pub struct Lease {
    line: Arc<Line>,
    reader: Arc<Reader>,
    /// None if no encode slot is needed, or after the admission was withdrawn.
    admission: Mutex<Option<Arc<Admission>>>,
}

/// Identity of a reader; the owner drops its position when the lease is gone.
#[derive(Debug)]
pub(super) struct Reader;

impl Runs {
    /// Runs at most `max_jobs` encodes at once and keeps segments in `segments`.
    pub fn new(segments: SegmentCache, max_jobs: usize) -> Self {
        Self {
            segments,
            standing: Arc::default(),
            slots: EncodeSlots::new(max_jobs),
            lines: Mutex::default(),
            owners: Mutex::default(),
            stop: watch::Sender::new(false),
        }
    }

    /// Encode slots in use.
    pub fn active_jobs(&self) -> usize {
        self.slots.used_slots()
    }

    pub fn encode_slots(&self) -> &Arc<EncodeSlots> {
        &self.slots
    }

    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Joins the readers of a rendition, or starts it with `transcoder`. Copied video and audio alone need no encode slot.
    ///
    /// # Errors
    /// `TRANSCODER_BUSY` if the encode slots cannot carry one more viewer.
    pub fn lease(&self, transcoder: Arc<dyn Backend>, work: Work, viewer: AdmissionRequest<'_>) -> Result<Lease> {
        let name = name(&*transcoder, &work);
        let mut lines = lock(&self.lines);
        let known = lines.get(&name).and_then(Weak::upgrade);
        if let Some(line) = known.filter(|line| line.progress.borrow().failure.is_none()) {
            let admission = line.job.as_ref().and_then(|job| job.add_viewer(viewer));
            if line.job.is_none() || admission.is_some() {
                return Ok(Lease { line, reader: Arc::new(Reader), admission: Mutex::new(admission) });
            }
        }
        let begun = work.cost().map(|cost| self.slots.start_job(cost, viewer));
        let (turns, admission) = match begun.transpose().map_err(|SlotsExhausted| self.busy())? {
            Some((job, admission, allowed)) => (Some((job, allowed)), Some(admission)),
            None => (None, None),
        };
        let job = turns.as_ref().map(|(job, _)| job.clone());
        let (commands, inbox) = mpsc::channel(64);
        let (owner, progress) =
            Owner::new(transcoder, self.segments.clone(), name.clone(), work, turns, self.standing.clone());
        let mut stop = self.stop.subscribe();
        let mut owners = lock(&self.owners);
        while owners.try_join_next().is_some() {}
        owners.spawn(async move {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => {}
                () = owner.run(inbox) => {}
            }
        });
        let line = Arc::new(Line {
            #[cfg(test)]
            name: name.clone(),
            commands,
            progress,
            standing: self.standing.clone(),
            job,
            _hold: self.segments.hold(&name),
        });
        lines.retain(|_, line| line.strong_count() > 0);
        lines.insert(name, Arc::downgrade(&line));
        Ok(Lease { line, reader: Arc::new(Reader), admission: Mutex::new(admission) })
    }

    /// Returns a stored segment; starts no run.
    pub async fn kept(&self, name: &Arc<str>, index: usize) -> Option<StoredSegment> {
        self.segments.get(name, index).await
    }

    /// Whether a segment is stored.
    pub fn holds(&self, name: &str, index: usize) -> bool {
        self.segments.contains(name, index)
    }

    /// Ends every run and waits until the owner tasks have ended.
    pub async fn shutdown(&self) {
        self.stop.send_replace(true);
        let mut owners = std::mem::take(&mut *lock(&self.owners));
        let gone = async { while owners.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(5), gone).await.is_err() {
            tracing::error!("runs did not end within 5 s");
        }
        self.segments.clear();
    }

    /// The error for a viewer whose share of the encode slots does not fit.
    pub fn busy(&self) -> Error {
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
        let gone = || {
            let failure = self.line.progress.borrow().failure.clone();
            failure.unwrap_or_else(|| RunError::Internal("the run was ended".into()))
        };
        let _waits = Waits::new(&self.line.standing.waiting);
        let (reply, answer) = oneshot::channel();
        let command = Command { index, reader: Arc::downgrade(&self.reader), reply };
        self.line.commands.send(command).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Subscribes to the rendition's progress.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.line.progress.clone()
    }

    /// The viewer's admission to the encode slots; None if none is needed or it was withdrawn.
    pub fn admission(&self) -> Option<Arc<Admission>> {
        lock(&self.admission).clone()
    }

    /// Whether [`Lease::withdraw`] gave the share of the encode slots back.
    pub fn was_withdrawn(&self) -> bool {
        self.line.job.is_some() && lock(&self.admission).is_none()
    }

    /// Gives the share of the encode slots to another viewer, even while requests are waiting. If this was the last
    /// lease, its requests fail. False if it had no share.
    pub fn withdraw(&self) -> bool {
        let admission = lock(&self.admission).take();
        if let (Some(job), Some(admission)) = (&self.line.job, &admission) {
            job.withdraw(admission);
        }
        admission.is_some()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let (Some(job), Some(admission)) = (&self.line.job, self.admission()) {
            job.remove_viewer(&admission);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The owner task takes a moment to end; the next session must not wait for its slot.
        if let Some(job) = &self.job {
            job.end();
        }
    }
}

/// The key under which the segments of a rendition are stored; renditions with identical bytes share it. It contains the
/// file version, because a file repaired in place keeps its fingerprint.
pub fn name(transcoder: &dyn Backend, work: &Work) -> Arc<str> {
    let cut = data_encoding::HEXLOWER.encode(&work.grid.content_digest());
    let mut version = format!("{}/{}/{cut}/{}", transcoder.name(), transcoder.version(), work.source.version());
    if let Some(sidecar) = &work.sidecar {
        version += &sidecar.version();
    }
    format!("{}-{}", work.fingerprint, work.rendition.content_hash(&version)).into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while held")
}
