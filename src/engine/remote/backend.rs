//! The backend of a server with remote workers: each run is made by a worker or by the local backend, and by the local backend
//! when a worker is lost.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

use super::cluster::{OfferedRun, RunEvent};
use super::{Cluster, random_id};
use crate::domain::codec::TargetCodec;
use crate::domain::media::Container;
use crate::domain::plan::{AudioPlan, EncodeVideo, VideoPlan};
use crate::domain::trace::TraceContext;
use crate::engine::content::SegmentContent;
use crate::engine::{Backend, Job, RenditionSpec, Result, Run, RunError, Segment};

/// Segments of a run at a worker; then it is offered again. A start costs as much as one or two segments.
const STINT_SEGMENTS: usize = 8;

/// Time for a worker to claim a run.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(2);

/// Silence after which a worker is lost. It sends a heartbeat every 300 ms.
const MAX_SILENCE: Duration = Duration::from_secs(1);

/// A run that may make nothing for this long gives its worker back.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Workers that a run may lose before the local backend makes the rest.
const MAX_LOSSES: usize = 3;

/// The local backend of a rendition, and the workers.
pub struct RemoteBackend {
    local: Arc<dyn Backend>,
    cluster: Arc<Cluster>,
    version: String,
    remote_encoder: RemoteEncoder,
}

/// The encoder of the worker that made the latest segment; None if the local backend made it.
#[derive(Clone, Default)]
struct RemoteEncoder(Arc<Mutex<Option<&'static str>>>);

impl RemoteEncoder {
    fn get(&self) -> Option<&'static str> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, encoder: Option<&'static str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = encoder;
    }
}

impl RemoteBackend {
    pub fn new(local: Arc<dyn Backend>, cluster: Arc<Cluster>) -> Self {
        let version = format!("{} or remote", local.version());
        Self { local, cluster, version, remote_encoder: RemoteEncoder::default() }
    }

    /// Whether a worker can make this rendition from ranges of its file: H.264 with nothing burned in or overlaid, from a file
    /// that needs no repair and that ffmpeg seeks in exactly.
    pub fn is_suitable(spec: &RenditionSpec) -> bool {
        let Some(VideoPlan::Encode(plan)) = &spec.rendition.video else { return false };
        let is_plain = plan.codec == TargetCodec::H264 && plan.burn.is_none() && plan.watermark.is_none();
        let has_amr = match spec.rendition.audio {
            Some(AudioPlan::Encode { stream, .. }) => {
                spec.media.stream(stream).is_some_and(|stream| stream.codec.starts_with("amr"))
            }
            _ => false,
        };
        let is_seekable = matches!(spec.media.container, Container::Mp4 | Container::Matroska | Container::MpegTs);
        is_plain && is_seekable && !has_amr && spec.media.clock_pieces.is_empty() && spec.package.is_none()
    }
}

impl Backend for RemoteBackend {
    fn name(&self) -> &'static str {
        self.local.name()
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn video_encoder(&self, plan: &EncodeVideo) -> Option<&'static str> {
        self.local.video_encoder(plan)
    }

    fn audio_encoder(&self) -> &'static str {
        self.local.audio_encoder()
    }

    fn active_backend_name(&self) -> &'static str {
        self.local.active_backend_name()
    }

    fn handle_failure(&self, error: &RunError) -> bool {
        self.local.handle_failure(error)
    }

    fn hardware_decoder(&self) -> Option<&'static str> {
        self.local.hardware_decoder()
    }

    fn remote_encoder(&self) -> Option<&'static str> {
        self.remote_encoder.get()
    }

    fn fallback_cause(&self) -> Option<RunError> {
        self.local.fallback_cause()
    }

    fn start(&self, job: Job, last_allowed: usize) -> Result<Run> {
        if job.first >= job.spec.grid.len() || !self.cluster.has_offer() {
            let guard = self.cluster.count_local_run();
            self.remote_encoder.set(None);
            return Ok(self.local.start(job, last_allowed)?.with_guard(guard));
        }
        let (run, segments, gate) = Run::channel(last_allowed);
        let (local, cluster) = (self.local.clone(), self.cluster.clone());
        let Job { spec, first, trace } = job;
        let remote_encoder = self.remote_encoder.clone();
        let task = RemoteRun { local, cluster, spec, trace, next: first, remote_encoder, segments, gate };
        tokio::spawn(task.run());
        Ok(run)
    }
}

/// State of a run's task.
struct RemoteRun {
    local: Arc<dyn Backend>,
    cluster: Arc<Cluster>,
    spec: Arc<RenditionSpec>,
    trace: Option<TraceContext>,
    /// The next segment to deliver.
    next: usize,
    remote_encoder: RemoteEncoder,
    segments: mpsc::Sender<Result<Segment>>,
    gate: watch::Receiver<usize>,
}

/// How a stint at a worker ended.
enum StintEnd {
    /// All its segments are made, or it paused for too long.
    Complete,
    /// The run was dropped.
    Abandoned,
    SourceEnded,
    /// No worker claimed it, its worker is silent, or it failed there.
    Lost(String),
}

impl RemoteRun {
    /// Runs to the end of the grid or of the source, or until the run is dropped.
    async fn run(mut self) {
        let mut losses = 0;
        while self.next < self.spec.grid.len() {
            if !self.wait_for_gate().await {
                return;
            }
            if losses > 0 && (losses >= MAX_LOSSES || !self.cluster.has_offer()) {
                return self.run_locally().await;
            }
            match self.make_stint().await {
                StintEnd::Complete => losses = 0,
                StintEnd::Abandoned | StintEnd::SourceEnded => return,
                StintEnd::Lost(reason) => {
                    losses += 1;
                    tracing::warn!(segment = self.next, reason, "a remote worker did not make a run");
                }
            }
        }
    }

    /// Waits until the next segment may be made; false when the run was dropped.
    async fn wait_for_gate(&mut self) -> bool {
        while *self.gate.borrow_and_update() < self.next {
            tokio::select! {
                () = self.segments.closed() => return false,
                changed = self.gate.changed() => if changed.is_err() { return false },
            }
        }
        true
    }

    async fn make_stint(&mut self) -> StintEnd {
        let end = (self.next + STINT_SEGMENTS).min(self.spec.grid.len());
        let through = *self.gate.borrow_and_update();
        let Some(queue) = self.cluster.queue().cloned() else { return StintEnd::Lost("there is no queue".into()) };
        let mut run = self.cluster.open_run(random_id(), &self.spec, (self.next, end), through);
        let offered = tokio::select! {
            () = self.segments.closed() => return StintEnd::Abandoned,
            offered = timeout_at(Instant::now() + CLAIM_TIMEOUT, queue.offer(&run.id)) => offered,
        };
        match offered {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => return StintEnd::Lost(reason),
            Err(_) => return StintEnd::Lost("the queue does not answer".into()),
        }
        let (mut last_event_at, mut is_claimed, mut moved_at) = (Instant::now(), false, Instant::now());
        let mut encoder = None;
        while self.next < end {
            let is_paused = *self.gate.borrow() < self.next;
            if !is_paused {
                moved_at = Instant::now();
            } else if moved_at.elapsed() >= MAX_PAUSE {
                return StintEnd::Complete;
            }
            let deadline = last_event_at + if is_claimed { MAX_SILENCE } else { CLAIM_TIMEOUT };
            let event = tokio::select! {
                () = self.segments.closed() => return StintEnd::Abandoned,
                changed = self.gate.changed() => {
                    if changed.is_err() {
                        return StintEnd::Abandoned;
                    }
                    let through = *self.gate.borrow_and_update();
                    self.cluster.set_through(&run.id, through);
                    continue;
                }
                event = timeout_at(deadline, run.events.recv()) => event,
            };
            let Ok(event) = event else { return self.lose(&run, is_claimed) };
            (last_event_at, is_claimed) = (Instant::now(), true);
            match event {
                None | Some(RunEvent::Beat) => {}
                Some(RunEvent::Claimed { encoder: of_worker }) => encoder = Some(of_worker.name),
                Some(RunEvent::Segment { index, bytes }) => {
                    self.next = index + 1;
                    self.remote_encoder.set(encoder);
                    let segment = Segment { index, content: SegmentContent::InMemory(bytes) };
                    if self.segments.send(Ok(segment)).await.is_err() {
                        return StintEnd::Abandoned;
                    }
                    last_event_at = Instant::now();
                }
                Some(RunEvent::Ended(ended)) => {
                    return match ended.error {
                        None => StintEnd::SourceEnded,
                        Some(error) => StintEnd::Lost(error.to_string()),
                    };
                }
            }
        }
        StintEnd::Complete
    }

    fn lose(&self, run: &OfferedRun, is_claimed: bool) -> StintEnd {
        self.cluster.suspect_worker_of(&run.id);
        StintEnd::Lost(if is_claimed { "it is silent".into() } else { "none claimed it".into() })
    }

    /// The local backend makes the rest.
    async fn run_locally(mut self) {
        let _counted = self.cluster.count_local_run();
        self.remote_encoder.set(None);
        let through = *self.gate.borrow_and_update();
        let mut run = match self.local.start(Job::new(self.spec.clone(), self.next).traced(self.trace), through) {
            Ok(run) => run,
            Err(error) => {
                let _ = self.segments.send(Err(error)).await;
                return;
            }
        };
        loop {
            tokio::select! {
                () = self.segments.closed() => return,
                changed = self.gate.changed() => match changed {
                    Ok(()) => run.allow_through(*self.gate.borrow_and_update()),
                    Err(_) => return,
                },
                result = run.next() => {
                    let Some(result) = result else { return };
                    if self.segments.send(result).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}
