//! The task that owns the runs of a rendition.
//!
//! The rules (without them, two readers of one item livelocked): a run is not moved before it has delivered the segment
//! it was moved for; waiting requests are served nearest first; a second viewer at another position gets a second run
//! if an encode slot is available; a run is idle only while no request waits in its range.
//!
//! Encodes take turns: the owner reports when its readers will run dry, and its runs work on as many segments at once as
//! it has encode slots. A run that loses its slot pauses at the end of its segment and continues at its next turn.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::{ReaderIdentity, RenditionProgress, RunActivity, RunHealth};
use crate::domain::encode_slots::PlaybackClock;
use crate::domain::plan::VideoPlan;
use crate::domain::trace::TraceContext;
use crate::engine::content::SegmentContent;
use crate::engine::segment_cache::{SegmentCache, StoredSegment};
use crate::engine::shared_segments::{SharedKey, SharedSegments};
use crate::engine::source::SourceFile;
use crate::engine::{Backend, Job, RenditionSpec, Run, RunError, Segment};
use crate::service::renditions::encode_slots::EncodeJob;
use crate::telemetry::traces::ActiveSpan;

mod assignment;
mod fault_handling;
mod read_ahead;
mod shared_lookups;
mod slot_turns;

use shared_lookups::SharedLookups;

/// Most runs of one rendition at once.
const MAX_RUNS: usize = 2;

/// A working run that delivers nothing for this long has failed.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Milliseconds after which a waiting request is due, even if its reader's buffer should still be full.
const MAX_WAIT_MS: i64 = 2_000;

/// A run that has paused this long without an encode slot is stopped, because it occupies memory and a process.
const MAX_PARKED: Duration = Duration::from_secs(15);

/// A request for one segment.
pub(super) struct SegmentRequest {
    pub index: usize,
    pub reader_identity: Weak<ReaderIdentity>,
    pub reply: oneshot::Sender<Result<StoredSegment, RunError>>,
    /// The span that waits for it, if it is traced.
    pub trace: Option<TraceContext>,
}

struct WaitingRequest {
    request: SegmentRequest,
    requested_at: Instant,
}

/// The position of a reader.
struct ReaderPosition {
    reader: Weak<ReaderIdentity>,
    segment: usize,
    playback_clock: PlaybackClock,
}

struct ActiveRun {
    run: Run,
    /// Segments delivered since the start.
    delivered: usize,
    next_segment: usize,
    allowed_through: usize,
    /// When the last segment arrived, or the run was allowed to work.
    progressed_at: Instant,
    /// Ends with the run.
    _span: ActiveSpan,
}

impl ActiveRun {
    fn is_working(&self) -> bool {
        self.next_segment <= self.allowed_through
    }
}

pub(super) struct Owner {
    backend: Arc<dyn Backend>,
    segments: SegmentCache,
    lookups: SharedLookups,
    rendition_key: Arc<str>,
    spec: Arc<RenditionSpec>,
    /// The encode job and the number of slots it has; None if it needs none.
    job_and_turns: Option<(Arc<EncodeJob>, watch::Receiver<usize>)>,
    /// How many runs may work.
    allowed_runs: usize,
    /// Since when all runs have been paused, waiting for a turn.
    parked_since: Option<Instant>,
    health: Arc<RunHealth>,
    progress: watch::Sender<RenditionProgress>,
    runs: Vec<ActiveRun>,
    /// The last position of each reader, by the address of its identity.
    reader_positions: HashMap<usize, ReaderPosition>,
    waiting_requests: Vec<WaitingRequest>,
    /// Failures since the last segment.
    consecutive_faults: u32,
    /// Workers lost for external reasons since the last segment.
    external_losses: u32,
    speed: Option<f64>,
    /// One past the last segment: the end of the grid, or of the source if that is shorter.
    end_segment: usize,
}

impl Owner {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        segments: SegmentCache,
        shared: Option<(SharedSegments, SharedKey)>,
        rendition_key: Arc<str>,
        spec: Arc<RenditionSpec>,
        job_and_turns: Option<(Arc<EncodeJob>, watch::Receiver<usize>)>,
        health: Arc<RunHealth>,
    ) -> (Self, watch::Receiver<RenditionProgress>) {
        let (progress, progress_receiver) = watch::channel(RenditionProgress::default());
        let end = spec.grid.len();
        let owner = Self {
            backend,
            segments,
            lookups: SharedLookups::new(shared),
            rendition_key,
            spec,
            allowed_runs: if job_and_turns.is_some() { 0 } else { MAX_RUNS },
            job_and_turns,
            parked_since: None,
            health,
            progress,
            runs: Vec::new(),
            reader_positions: HashMap::new(),
            waiting_requests: Vec::new(),
            consecutive_faults: 0,
            external_losses: 0,
            speed: None,
            end_segment: end,
        };
        (owner, progress_receiver)
    }

    /// Runs until the last lease is gone or runs failed twice in a row.
    pub(super) async fn run(mut self, mut requests: mpsc::Receiver<SegmentRequest>) {
        let mut turn_changes = self.job_and_turns.as_ref().map(|(_, allowed)| allowed.clone());
        while self.progress.borrow().failure.is_none() {
            let stall_deadline =
                self.runs.iter().filter(|run| run.is_working()).map(|run| run.progressed_at + STALL_TIMEOUT).min();
            let retry_at = (!self.waiting_requests.is_empty()).then(|| Instant::now() + Duration::from_millis(500));
            let parked_deadline = self.parked_since.filter(|_| !self.runs.is_empty()).map(|parked| parked + MAX_PARKED);
            let wake_at = stall_deadline.into_iter().chain(retry_at).chain(parked_deadline).min();
            tokio::select! {
                // Segments first: a request that is handled before a segment that has arrived moves runs for nothing.
                biased;
                (run_index, outcome) = next_outcome(&mut self.runs) => self.handle_outcome(run_index, outcome).await,
                (index, found) = self.lookups.next() => self.handle_answer(index, found).await,
                request = requests.recv() => match request {
                    Some(request) => self.handle_request(request).await,
                    None => return,
                },
                is_open = next_turn_change(&mut turn_changes) => if !is_open {
                    turn_changes = None;
                    self.handle_job_end();
                },
                () = tokio::time::sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => self.fail_stalled_runs(),
            }
            self.schedule_runs();
            self.publish_progress();
        }
        let failure = self.progress.borrow().failure.clone().unwrap_or(RunError::Internal("the run was ended".into()));
        self.runs.clear();
        if let Some((job, _)) = &self.job_and_turns {
            job.end();
        }
        for waiting in self.waiting_requests.drain(..) {
            let _ = waiting.request.reply.send(Err(failure.clone()));
        }
    }

    async fn handle_request(&mut self, request: SegmentRequest) {
        let (segment, start_ms, now_ms) = (request.index, self.start_ms(request.index), self.now_ms());
        match self.reader_positions.entry(request.reader_identity.as_ptr() as usize) {
            Entry::Occupied(mut known) if known.get().reader.ptr_eq(&request.reader_identity) => {
                known.get_mut().segment = segment;
                known.get_mut().playback_clock.note_request(segment, start_ms, now_ms);
            }
            entry => {
                let clock = PlaybackClock::starting_at(segment, start_ms, now_ms);
                entry.insert_entry(ReaderPosition {
                    reader: request.reader_identity.clone(),
                    segment,
                    playback_clock: clock,
                });
            }
        }
        let stored = self.segments.get(&self.rendition_key, request.index).await;
        if let Some(stored) = stored
            && can_be_read(&stored, &self.spec.source).await
        {
            let _ = request.reply.send(Ok(stored));
        } else {
            self.waiting_requests.push(WaitingRequest { request, requested_at: Instant::now() });
        }
    }

    async fn handle_outcome(&mut self, run_index: usize, outcome: Option<Result<Segment, RunError>>) {
        let active = &mut self.runs[run_index];
        match outcome {
            Some(Ok(segment)) => {
                let spent_seconds = active.progressed_at.elapsed().as_secs_f64();
                active.progressed_at = Instant::now();
                active.next_segment = segment.index + 1;
                active.delivered += 1;
                (self.consecutive_faults, self.external_losses) = (0, 0);
                let is_first = active.delivered == 1;
                self.update_speed(segment.index, spent_seconds, is_first);
                let is_reproducible =
                    self.backend.has_instant_start() || matches!(segment.content, SegmentContent::Lazy(_));
                let inputs = is_reproducible.then(|| self.spec.source.version());
                let stored = match self.kept_segment(segment.index).await {
                    Some(kept) => kept,
                    None => {
                        self.lookups.offer(segment.index, &segment.content);
                        let (key, content) = (&self.rendition_key, segment.content);
                        self.segments.put(key, segment.index, content, inputs.as_deref()).await
                    }
                };
                self.deliver(segment.index, &stored);
            }
            Some(Err(error)) => self.handle_fault(run_index, error),
            None => {
                // The run ended in good order: the file is shorter than its header states.
                let next = active.next_segment;
                self.health.run_counts().count_finish(self.backend.active_backend_name());
                self.runs.remove(run_index);
                if next < self.end_segment {
                    tracing::info!(rendition = &*self.rendition_key, segment = next, "the source ended early");
                    self.end_segment = next;
                }
            }
        }
    }

    /// Answers all requests that wait for a segment.
    fn deliver(&mut self, index: usize, stored: &StoredSegment) {
        let (start_ms, now_ms) = (self.start_ms(index), self.now_ms());
        for waiting in self.waiting_requests.extract_if(.., |waiting| waiting.request.index == index) {
            if let Some(reader_position) =
                self.reader_positions.get_mut(&(waiting.request.reader_identity.as_ptr() as usize))
            {
                reader_position.playback_clock.note_delivery(index, start_ms, now_ms);
            }
            let _ = waiting.request.reply.send(Ok(stored.clone()));
        }
    }

    /// Updates the speed, a running mean over about ten segments.
    fn update_speed(&mut self, index: usize, spent_seconds: f64, is_first: bool) {
        let media_seconds = self.spec.grid.segment_length(index).as_seconds();
        if let Some((job, _)) = &self.job_and_turns {
            // The first segment of a run includes the start-up time; short segments cost more than their length.
            let is_whole = self.spec.grid.segment_length(index) * 10
                >= self.spec.grid.segment_length(self.spec.grid.len() / 2) * 9;
            job.record_segment(media_seconds, (is_whole && !is_first).then_some(spent_seconds));
            let (length, spent) = (Duration::from_secs_f64(media_seconds), Duration::from_secs_f64(spent_seconds));
            let maker = self.backend.remote_encoder().map_or(self.backend.active_backend_name(), |_| "remote");
            self.health.run_counts().count_encode(maker, length, spent);
        }
        let speed = media_seconds / spent_seconds.max(0.001);
        self.speed = Some(self.speed.map_or(speed, |mean| mean * 0.9 + speed * 0.1));
    }

    /// Moves runs to where they are needed and allows them to work that far.
    fn schedule_runs(&mut self) {
        self.waiting_requests.retain(|waiting| !waiting.request.reply.is_closed());
        self.reader_positions.retain(|_, reader_position| reader_position.reader.strong_count() > 0);
        for waiting in self.waiting_requests.extract_if(.., |waiting| waiting.request.index >= self.end_segment) {
            let _ = waiting.request.reply.send(Err(RunError::SourceEnded));
        }
        self.start_lookups();
        self.update_turn();
        if self.allowed_runs == 0 || self.progress.borrow().failure.is_some() {
            return;
        }
        while self.progress.borrow().failure.is_none() {
            let uncovered = self.uncovered_requests();
            if uncovered.is_empty() || !self.assign_run(&uncovered) {
                break;
            }
        }
        self.schedule_read_ahead();
        self.allow_progress();
    }

    /// Starts a run at `first`; false if no encode slot is available or the start failed.
    fn start_run(&mut self, first: usize) -> bool {
        if self.runs.len() >= self.allowed_runs {
            return false;
        }
        // If a disk or a network has to be waited for, the run itself detects the change.
        if self.spec.source.holds_the_same_at_once() == Some(false) {
            self.give_up(RunError::SourceChanged);
            return false;
        }
        let mut span = ActiveSpan::child_of(self.trace_of_request(first), "run");
        let started = self.backend.start(Job::new(self.spec.clone(), first).traced(span.context()), first);
        let backend_name = self.backend.active_backend_name();
        span.set("backend", backend_name);
        span.set("segment", first);
        self.health.run_counts().count_start(backend_name);
        match started {
            Ok(run) => {
                tracing::debug!(rendition = &*self.rendition_key, first, "run started");
                self.progress.send_modify(|progress| {
                    progress.runs_started += 1;
                    progress.last_run_start = Some(first);
                });
                let since = Instant::now();
                self.runs.push(ActiveRun {
                    run,
                    delivered: 0,
                    next_segment: first,
                    allowed_through: first,
                    progressed_at: since,
                    _span: span,
                });
                true
            }
            Err(error) => {
                span.set_failed();
                self.health.record_failure(backend_name, &error);
                self.give_up(error);
                false
            }
        }
    }

    /// The span of the request that a run from `first` serves.
    fn trace_of_request(&self, first: usize) -> Option<TraceContext> {
        let waiting = self.waiting_requests.iter().find(|waiting| waiting.request.index == first);
        waiting.and_then(|waiting| waiting.request.trace)
    }

    fn publish_progress(&self) {
        let usage = self.segments.rendition_usage(&self.rendition_key);
        let activity = if usage.segments >= self.end_segment {
            RunActivity::Complete
        } else if self.runs.iter().any(ActiveRun::is_working) || self.parked_since.is_some() {
            RunActivity::Working
        } else {
            RunActivity::Idle
        };
        self.progress.send_modify(|progress| {
            progress.activity = activity;
            progress.segments_ready = usage.segments;
            progress.buffered_bytes = usage.bytes;
            progress.produced_seconds =
                self.spec.grid.end().as_seconds() * usage.segments as f64 / self.spec.grid.len() as f64;
            progress.speed = self.speed;
            progress.backend = self.backend.active_backend_name();
            progress.encoder = match &self.spec.rendition.video {
                Some(VideoPlan::Encode(plan)) => self.backend.video_encoder(plan),
                _ if self.spec.rendition.encodes_audio() => Some(self.backend.audio_encoder()),
                _ => None,
            };
            progress.remote_encoder = self.backend.remote_encoder();
            progress.hardware_decoder = match &self.spec.rendition.video {
                Some(VideoPlan::Encode(_)) => self.backend.hardware_decoder(),
                _ => None,
            };
            progress.fallback_cause = self.backend.fallback_cause();
        });
    }
}

/// Bytes in memory always can; a lazy segment can while the file is unchanged. If a disk or a network has to be waited for,
/// only this rendition waits, with one thread.
async fn can_be_read(stored: &StoredSegment, source: &Arc<SourceFile>) -> bool {
    if matches!(stored.content, SegmentContent::InMemory(_)) {
        return true;
    }
    if let Some(is_same) = source.holds_the_same_at_once() {
        return is_same;
    }
    let source = source.clone();
    tokio::task::spawn_blocking(move || source.has_same_content()).await.unwrap_or(false)
}

/// Waits for a change of the allowed runs; false when the job has ended. Pending forever if no slot is needed.
async fn next_turn_change(turn_changes: &mut Option<watch::Receiver<usize>>) -> bool {
    match turn_changes {
        Some(allowed) => allowed.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

/// The next outcome of any run; pending forever without runs.
async fn next_outcome(runs: &mut [ActiveRun]) -> (usize, Option<Result<Segment, RunError>>) {
    poll_fn(|context| {
        for (run_index, active) in runs.iter_mut().enumerate() {
            if let Poll::Ready(outcome) = pin!(active.run.next()).poll(context) {
                return Poll::Ready((run_index, outcome));
            }
        }
        Poll::Pending
    })
    .await
}
