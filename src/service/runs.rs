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

use crate::domain::encode_slots::cost;
use crate::domain::grid::Grid;
use crate::domain::media::{Media, StreamKind};
use crate::domain::plan::{Rendition, VideoPlan};
use crate::engine::packager::Package;
use crate::engine::picture::Picture;
use crate::engine::segments::{Hold, Segments, Stored};
use crate::engine::source::Source;
use crate::engine::{Job, RunError, Transcoder};
use crate::error::{Code, Error, Result};
use crate::service::encode_slots::{Admission, EncodeJob, EncodeSlots, Full, Viewer};

mod owner;
#[cfg(test)]
mod tests;

use owner::{Command, Owner};

/// What is to be made: a rendition of one item.
#[derive(Clone, Debug)]
pub struct Work {
    pub source: Arc<Source>,
    /// Content identity of the source.
    pub fingerprint: String,
    pub media: Arc<Media>,
    pub rendition: Arc<Rendition>,
    pub grid: Arc<Grid>,
    /// The open file of a `Burn::Sidecar`.
    pub sidecar: Option<Arc<Source>>,
    /// The picture of an `Emblem`.
    pub picture: Option<Arc<Picture>>,
    /// Set where the packager makes it.
    pub package: Option<Arc<Package>>,
}

impl Work {
    /// Pixels per second that it costs to encode; None where no video is encoded.
    fn cost(&self) -> Option<f64> {
        let Some(VideoPlan::Encode(plan)) = &self.rendition.video else { return None };
        let source = self.media.streams.iter().find(|stream| stream.index == plan.stream);
        let decoded = source.and_then(|stream| match &stream.kind {
            StreamKind::Video(video) => {
                Some((video.width, video.height, video.frame_rate.unwrap_or(plan.rate).as_f64()))
            }
            _ => None,
        });
        Some(cost((plan.width, plan.height, plan.rate.as_f64()), decoded))
    }

    fn job(&self, first: usize) -> Job {
        Job {
            source: self.source.clone(),
            media: self.media.clone(),
            rendition: self.rendition.clone(),
            grid: self.grid.clone(),
            first,
            mark: None,
            sidecar: self.sidecar.clone(),
            picture: self.picture.clone(),
            package: self.package.clone(),
        }
    }
}

/// What the runs of a rendition do at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// Nothing has been asked for yet, or nothing more is needed.
    #[default]
    Ahead,
    Working,
    AllMade,
}

/// A rendition as its readers see it.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    pub activity: Activity,
    pub segments_ready: usize,
    /// In memory and on disk.
    pub buffered_bytes: u64,
    pub produced_seconds: f64,
    /// Seconds of media made per second of work; None before the first segment.
    pub speed: Option<f64>,
    /// Producers started so far.
    pub runs_started: usize,
    /// The segment the last of them began at.
    pub run_from: Option<usize>,
    /// Who makes the segments; empty before anything was asked for.
    pub producer: &'static str,
    /// The encoder at work, by its own name, where it is not the one that was planned: of the video, else of the audio.
    pub encoder: Option<&'static str>,
    /// The failure for which another producer took over.
    pub fallen: Option<RunError>,
    /// Why the owner gave up.
    pub failure: Option<RunError>,
}

/// How the runs of the program fare, all together.
#[derive(Debug, Default)]
pub struct Standing {
    /// Requests that wait for their segment.
    waiting: AtomicUsize,
    /// The last producer that failed.
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

/// Counts a request for as long as it waits, dropped ones too.
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

/// All runs of the program.
pub struct Runs {
    segments: Segments,
    standing: Arc<Standing>,
    slots: Arc<EncodeSlots>,
    lines: Mutex<HashMap<Arc<str>, Weak<Line>>>,
    owners: Mutex<JoinSet<()>>,
    stop: watch::Sender<bool>,
}

/// The readers' end of an owner.
struct Line {
    #[cfg(test)]
    name: Arc<str>,
    commands: mpsc::Sender<Command>,
    progress: watch::Receiver<Progress>,
    standing: Arc<Standing>,
    /// None where nothing is encoded that needs an encode slot.
    job: Option<Arc<EncodeJob>>,
    _hold: Hold,
}

/// One reader's hold on a rendition.
pub struct Lease {
    line: Arc<Line>,
    reader: Arc<Reader>,
    /// None where no encode slot is needed, and when it was withdrawn.
    admission: Mutex<Option<Arc<Admission>>>,
}

/// Identity of a reader; the owner forgets it when its lease is gone.
#[derive(Debug)]
pub(super) struct Reader;

impl Runs {
    /// At most `max_jobs` encoding at once, segments kept in `segments`.
    pub fn new(segments: Segments, max_jobs: usize) -> Self {
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
        self.slots.in_use()
    }

    pub fn encode_slots(&self) -> &Arc<EncodeSlots> {
        &self.slots
    }

    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Joins the readers of a rendition, or begins it by `transcoder`. Copied video and audio alone need no encode slot.
    ///
    /// # Errors
    /// `TRANSCODER_BUSY` when the encode slots do not suffice for one more viewer.
    pub fn lease(&self, transcoder: Arc<dyn Transcoder>, work: Work, viewer: Viewer<'_>) -> Result<Lease> {
        let name = name(&*transcoder, &work);
        let mut lines = lock(&self.lines);
        let known = lines.get(&name).and_then(Weak::upgrade);
        if let Some(line) = known.filter(|line| line.progress.borrow().failure.is_none()) {
            let admission = line.job.as_ref().and_then(|job| job.join(viewer));
            if line.job.is_none() || admission.is_some() {
                return Ok(Lease { line, reader: Arc::new(Reader), admission: Mutex::new(admission) });
            }
        }
        let begun = work.cost().map(|cost| self.slots.begin(cost, viewer));
        let (turns, admission) = match begun.transpose().map_err(|Full| self.busy())? {
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

    /// A segment that is there already; makes nothing.
    pub async fn kept(&self, name: &Arc<str>, index: usize) -> Option<Stored> {
        self.segments.get(name, index).await
    }

    /// Whether a segment is there already.
    pub fn holds(&self, name: &str, index: usize) -> bool {
        self.segments.holds(name, index)
    }

    /// Ends every run and waits for the owners to be gone.
    pub async fn shutdown(&self) {
        self.stop.send_replace(true);
        let mut owners = std::mem::take(&mut *lock(&self.owners));
        let gone = async { while owners.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(5), gone).await.is_err() {
            tracing::error!("runs did not end within 5 s");
        }
        self.segments.clear();
    }

    /// What a viewer is told whose share of the encode slots does not fit.
    pub fn busy(&self) -> Error {
        Error::new(Code::TranscoderBusy, "all encode slots are in use, and their viewers need them")
            .with_retry_after(5)
            .with_details(serde_json::json!({"active": self.active_jobs(), "max": self.slots.count()}))
    }
}

impl Lease {
    /// A segment: kept, or made now. Waits without limit; dropping the future takes the wish back.
    ///
    /// # Errors
    /// Why the owner gave up.
    pub async fn segment(&self, index: usize) -> Result<Stored, RunError> {
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

    /// The rendition as it stands.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.line.progress.clone()
    }

    /// The promise that its viewer's encodes keep up; None where none is needed, and when it was withdrawn.
    pub fn admission(&self) -> Option<Arc<Admission>> {
        lock(&self.admission).clone()
    }

    /// Whether it gave its share of the encode slots back.
    pub fn was_withdrawn(&self) -> bool {
        self.line.job.is_some() && lock(&self.admission).is_none()
    }

    /// Gives the share of the encode slots back, whoever still waits for a segment: another viewer needs it. Requests of
    /// the lease fail when it was the last one. False where it had no share.
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
            job.leave(&admission);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The owner task needs a moment to end; the next session must not wait for its slot.
        if let Some(job) = &self.job {
            job.end();
        }
    }
}

/// What the segments of a work are kept under: the same for all that want the very same bytes of the same file. The
/// version is part of it, because a file repaired in place keeps its fingerprint.
pub fn name(transcoder: &dyn Transcoder, work: &Work) -> Arc<str> {
    let cut = data_encoding::HEXLOWER.encode(&work.grid.digest());
    let mut version = format!("{}/{}/{cut}/{}", transcoder.name(), transcoder.version(), work.source.version());
    if let Some(sidecar) = &work.sidecar {
        version += &sidecar.version();
    }
    format!("{}-{}", work.fingerprint, work.rendition.hash(&version)).into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while held")
}
