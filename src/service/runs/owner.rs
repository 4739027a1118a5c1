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

use super::{Activity, Progress, Reader, Standing, Work};
use crate::domain::encode_slots::PlaybackClock;
use crate::domain::plan::VideoPlan;
use crate::domain::time::to_seconds;
use crate::engine::content::SegmentContent;
use crate::engine::segment_cache::{SegmentCache, StoredSegment};
use crate::engine::source::SourceFile;
use crate::engine::{Run, RunError, Segment, Backend};
use crate::service::encode_slots::EncodeJob;

mod ahead;
mod faults;
mod turns;

/// A request at most this many segments ahead of a run waits for that run; starting another one costs about as much.
const REACH_ENCODE: usize = 3;
const REACH_COPY: usize = 12;

/// Most runs of one rendition at once.
const RUNS: usize = 2;

/// Segments a run delivers before it leaves a reader who follows it. A start costs as much as one or two segments.
const STINT: usize = 3;

/// A request that no run covers may take over a busy run after waiting this long.
const PATIENCE: Duration = Duration::from_secs(3);

/// A working run that delivers nothing for this long has failed.
const STALL: Duration = Duration::from_secs(30);

/// Milliseconds after which a waiting request is due, even if its reader's buffer should still be full.
const DUE_MS: i64 = 2_000;

/// A run that has paused this long without an encode slot is stopped, because it occupies memory and a process.
const PARKED: Duration = Duration::from_secs(15);

/// A request for one segment.
pub(super) struct Command {
    pub index: usize,
    pub reader: Weak<Reader>,
    pub reply: oneshot::Sender<Result<StoredSegment, RunError>>,
}

struct Waiting {
    command: Command,
    since: Instant,
}

/// The position of a reader.
struct Reading {
    reader: Weak<Reader>,
    at: usize,
    clock: PlaybackClock,
}

struct Active {
    run: Run,
    /// Segments delivered since the start.
    delivered: usize,
    next: usize,
    gate: usize,
    /// When the last segment arrived, or the run was allowed to work.
    since: Instant,
}

impl Active {
    fn works(&self) -> bool {
        self.next <= self.gate
    }
}

pub(super) struct Owner {
    transcoder: Arc<dyn Backend>,
    segments: SegmentCache,
    name: Arc<str>,
    work: Work,
    /// The encode job and the number of slots it has; None if it needs none.
    turns: Option<(Arc<EncodeJob>, watch::Receiver<usize>)>,
    /// How many runs may work.
    allowed: usize,
    /// Since when all runs have been paused, waiting for a turn.
    parked: Option<Instant>,
    standing: Arc<Standing>,
    progress: watch::Sender<Progress>,
    runs: Vec<Active>,
    /// The last position of each reader, by the address of its identity.
    readers: HashMap<usize, Reading>,
    waiting: Vec<Waiting>,
    /// Failures since the last segment.
    faults: u32,
    speed: Option<f64>,
    /// One past the last segment: the end of the grid, or of the source if that is shorter.
    end: usize,
}

impl Owner {
    pub(super) fn new(
        transcoder: Arc<dyn Backend>,
        segments: SegmentCache,
        name: Arc<str>,
        work: Work,
        turns: Option<(Arc<EncodeJob>, watch::Receiver<usize>)>,
        standing: Arc<Standing>,
    ) -> (Self, watch::Receiver<Progress>) {
        let (progress, seen) = watch::channel(Progress::default());
        let end = work.grid.len();
        let owner = Self {
            transcoder,
            segments,
            name,
            work,
            allowed: if turns.is_some() { 0 } else { RUNS },
            turns,
            parked: None,
            standing,
            progress,
            runs: Vec::new(),
            readers: HashMap::new(),
            waiting: Vec::new(),
            faults: 0,
            speed: None,
            end,
        };
        (owner, seen)
    }

    /// Runs until the last lease is gone or runs failed twice in a row.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut allowed = self.turns.as_ref().map(|(_, allowed)| allowed.clone());
        while self.progress.borrow().failure.is_none() {
            let stalled = self.runs.iter().filter(|run| run.works()).map(|run| run.since + STALL).min();
            let retry = (!self.waiting.is_empty()).then(|| Instant::now() + Duration::from_millis(500));
            let parked = self.parked.filter(|_| !self.runs.is_empty()).map(|parked| parked + PARKED);
            let wake = stalled.into_iter().chain(retry).chain(parked).min();
            tokio::select! {
                command = inbox.recv() => match command {
                    Some(command) => self.ask(command).await,
                    None => return,
                },
                (at, outcome) = next_of(&mut self.runs) => self.outcome(at, outcome).await,
                is_open = changed(&mut allowed) => if !is_open {
                    allowed = None;
                    self.ended();
                },
                () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => self.stalls(),
            }
            self.schedule();
            self.report();
        }
        let failure = self.progress.borrow().failure.clone().unwrap_or(RunError::Internal("the run was ended".into()));
        self.runs.clear();
        if let Some((job, _)) = &self.turns {
            job.end();
        }
        for waiting in self.waiting.drain(..) {
            let _ = waiting.command.reply.send(Err(failure.clone()));
        }
    }

    async fn ask(&mut self, command: Command) {
        let (at, start_ms, now_ms) = (command.index, self.start_ms(command.index), self.now_ms());
        match self.readers.entry(command.reader.as_ptr() as usize) {
            Entry::Occupied(mut known) if known.get().reader.ptr_eq(&command.reader) => {
                known.get_mut().at = at;
                known.get_mut().clock.note_request(at, start_ms, now_ms);
            }
            entry => {
                let clock = PlaybackClock::starting_at(at, start_ms, now_ms);
                entry.insert_entry(Reading { reader: command.reader.clone(), at, clock });
            }
        }
        let stored = self.segments.get(&self.name, command.index).await;
        if let Some(stored) = stored
            && can_be_read(&stored, &self.work.source).await
        {
            let _ = command.reply.send(Ok(stored));
        } else {
            self.waiting.push(Waiting { command, since: Instant::now() });
        }
    }

    async fn outcome(&mut self, at: usize, outcome: Option<Result<Segment, RunError>>) {
        let active = &mut self.runs[at];
        match outcome {
            Some(Ok(segment)) => {
                let spent = active.since.elapsed().as_secs_f64();
                active.since = Instant::now();
                active.next = segment.index + 1;
                active.delivered += 1;
                self.faults = 0;
                let is_first = active.delivered == 1;
                self.measure(segment.index, spent, is_first);
                let stored = match segment.content {
                    SegmentContent::InMemory(bytes) if !self.transcoder.has_instant_start() => {
                        self.segments.put(&self.name, segment.index, bytes).await
                    }
                    content => {
                        let made_of = self.work.source.version();
                        self.segments.put_reproducible(&self.name, segment.index, content, &made_of).await
                    }
                };
                let (start_ms, now_ms) = (self.start_ms(segment.index), self.now_ms());
                for waiting in self.waiting.extract_if(.., |waiting| waiting.command.index == segment.index) {
                    if let Some(reading) = self.readers.get_mut(&(waiting.command.reader.as_ptr() as usize)) {
                        reading.clock.note_delivery(segment.index, start_ms, now_ms);
                    }
                    let _ = waiting.command.reply.send(Ok(stored.clone()));
                }
            }
            Some(Err(error)) => self.fault(at, error),
            None => {
                // The run ended in good order: the file is shorter than its header states.
                let next = active.next;
                self.runs.remove(at);
                if next < self.end {
                    tracing::info!(rendition = &*self.name, segment = next, "the source ended early");
                    self.end = next;
                }
            }
        }
    }

    /// Updates the speed, a running mean over about ten segments.
    fn measure(&mut self, index: usize, spent: f64, is_first: bool) {
        let media = to_seconds(self.work.grid.segment_length(index));
        if let Some((job, _)) = &self.turns {
            // The first segment of a run includes the start-up time; short segments cost more than their length.
            let is_whole = self.work.grid.segment_length(index) * 10 >= self.work.grid.segment_length(self.work.grid.len() / 2) * 9;
            job.record_segment(media, (is_whole && !is_first).then_some(spent));
        }
        let speed = media / spent.max(0.001);
        self.speed = Some(self.speed.map_or(speed, |mean| mean * 0.9 + speed * 0.1));
    }

    /// Moves runs to where they are needed and allows them to work that far.
    fn schedule(&mut self) {
        self.waiting.retain(|waiting| !waiting.command.reply.is_closed());
        self.readers.retain(|_, reading| reading.reader.strong_count() > 0);
        for waiting in self.waiting.extract_if(.., |waiting| waiting.command.index >= self.end) {
            let _ = waiting.command.reply.send(Err(RunError::SourceEnded));
        }
        self.take_turn();
        if self.allowed == 0 {
            return;
        }
        while self.progress.borrow().failure.is_none() {
            let uncovered = self.uncovered();
            if uncovered.is_empty() || !self.serve(&uncovered) {
                break;
            }
        }
        self.read_ahead();
        self.raise_gates();
    }

    /// Requests (indices into `waiting`) that no run covers.
    fn uncovered(&self) -> Vec<usize> {
        let is_uncovered = |n: &usize| {
            let index = self.waiting[*n].command.index;
            !self.runs.iter().any(|run| self.covers(run, index))
        };
        (0..self.waiting.len()).filter(is_uncovered).collect()
    }

    fn covers(&self, run: &Active, index: usize) -> bool {
        (run.next..=run.next + self.reach()).contains(&index)
    }

    fn reach(&self) -> usize {
        if self.transcoder.has_instant_start() {
            0
        } else if self.work.rendition.encodes_video() {
            REACH_ENCODE
        } else {
            REACH_COPY
        }
    }

    fn is_asked(&self, run: &Active) -> bool {
        self.waiting.iter().any(|waiting| self.covers(run, waiting.command.index))
    }

    /// Gives a run to one of the uncovered requests. False if all of them must wait.
    fn serve(&mut self, uncovered: &[usize]) -> bool {
        let oldest = *uncovered.iter().min_by_key(|&&n| self.waiting[n].since).expect("never called without any");
        if self.runs.is_empty() {
            return self.start(self.waiting[oldest].command.index);
        }
        let index = self.waiting[oldest].command.index;
        if self.runs.len() < RUNS && self.is_read_by_others(oldest) && self.start(index) {
            return true;
        }
        // An idle run moves to the nearest request; a run with a reader first delivers `STINT` segments.
        let needed = self.missing();
        let free = |run: &Active| {
            let followed = needed.iter().any(|&index| self.covers(run, index));
            !self.is_asked(run) && (!followed || run.delivered >= STINT)
        };
        let idle = (0..self.runs.len()).filter(|&at| free(&self.runs[at]));
        let nearest = idle
            .flat_map(|at| uncovered.iter().map(move |&n| (at, n)))
            .min_by_key(|&(at, n)| self.waiting[n].command.index.abs_diff(self.runs[at].next));
        if let Some((at, n)) = nearest {
            return self.replace(at, self.waiting[n].command.index);
        }
        // All runs have requests: after `PATIENCE`, the oldest request takes a run that has delivered something.
        let taken = self.runs.iter().position(|run| run.delivered > 0);
        match taken {
            Some(at) if self.waiting[oldest].since.elapsed() >= PATIENCE => self.replace(at, index),
            _ => false,
        }
    }

    /// Whether every run has a reader other than the waiting one, which then is a second viewer and not a seek.
    fn is_read_by_others(&self, waiting: usize) -> bool {
        let asker = &self.waiting[waiting].command.reader;
        let others = self.readers.values().filter(|reading| !reading.reader.ptr_eq(asker));
        self.runs.iter().all(|run| others.clone().any(|reading| self.window(reading.at).contains(&run.next)))
    }

    fn replace(&mut self, at: usize, first: usize) -> bool {
        self.runs.remove(at);
        self.start(first)
    }

    /// Starts a run at `first`; false if no encode slot is available or the start failed.
    fn start(&mut self, first: usize) -> bool {
        if self.runs.len() >= self.allowed {
            return false;
        }
        // If a disk or a network has to be waited for, the run itself detects the change.
        if self.work.source.holds_the_same_at_once() == Some(false) {
            self.fail(RunError::SourceChanged);
            return false;
        }
        match self.transcoder.start(self.work.job(first), first) {
            Ok(run) => {
                tracing::debug!(rendition = &*self.name, first, "run started");
                self.progress.send_modify(|progress| {
                    progress.runs_started += 1;
                    progress.run_from = Some(first);
                });
                let since = Instant::now();
                self.runs.push(Active { run, delivered: 0, next: first, gate: first, since });
                true
            }
            Err(error) => {
                self.standing.failed(&error);
                self.fail(error);
                false
            }
        }
    }

    fn report(&self) {
        let tally = self.segments.rendition_usage(&self.name);
        let activity = if tally.segments >= self.end {
            Activity::AllMade
        } else if self.runs.iter().any(Active::works) || self.parked.is_some() {
            Activity::Working
        } else {
            Activity::Ahead
        };
        self.progress.send_modify(|progress| {
            progress.activity = activity;
            progress.segments_ready = tally.segments;
            progress.buffered_bytes = tally.bytes;
            progress.produced_seconds =
                to_seconds(self.work.grid.end_ticks()) * tally.segments as f64 / self.work.grid.len() as f64;
            progress.speed = self.speed;
            progress.producer = self.transcoder.active_backend_name();
            progress.encoder = match &self.work.rendition.video {
                Some(VideoPlan::Encode(plan)) => self.transcoder.video_encoder(&plan.encoder),
                _ if self.work.rendition.encodes_audio() => Some(self.transcoder.audio_encoder()),
                _ => None,
            };
            progress.fallen = self.transcoder.fallback_cause();
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
async fn changed(allowed: &mut Option<watch::Receiver<usize>>) -> bool {
    match allowed {
        Some(allowed) => allowed.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

/// The next outcome of any run; pending forever without runs.
async fn next_of(runs: &mut [Active]) -> (usize, Option<Result<Segment, RunError>>) {
    poll_fn(|context| {
        for (at, active) in runs.iter_mut().enumerate() {
            if let Poll::Ready(outcome) = pin!(active.run.next()).poll(context) {
                return Poll::Ready((at, outcome));
            }
        }
        Poll::Pending
    })
    .await
}
