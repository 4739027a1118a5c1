//! Registry of this process's pipelines: the running ones, their recent messages, and failed ones. For diagnostics of a
//! running server; it has no effect on the pipelines.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gstreamer as gst;
use gstreamer::prelude::*;

use super::graph::Graph;

/// Messages kept of a pipeline, and their largest length in bytes.
const LINES: usize = 100;
const LINE: usize = 300;

/// Number of failed pipelines kept.
const FAILED: usize = 16;

static BOARD: Mutex<Board> = Mutex::new(Board { live: BTreeMap::new(), failed: VecDeque::new() });
static NUMBER: AtomicU64 = AtomicU64::new(1);

struct Board {
    live: BTreeMap<u64, Pinned>,
    failed: VecDeque<Failed>,
}

struct Pinned {
    pipeline: glib::WeakRef<gst::Pipeline>,
    since: Instant,
    log: Log,
}

/// Messages of a pipeline, the newest last.
pub(super) type Log = Arc<Mutex<VecDeque<String>>>;

/// A failed pipeline, with its graph at that moment.
#[derive(Clone, Debug)]
pub struct Failed {
    pub number: u64,
    pub name: String,
    pub error: String,
    pub log: Vec<String>,
    pub graph: Graph,
}

/// A running pipeline.
#[derive(Clone, Debug)]
pub struct Seen {
    pub number: u64,
    pub name: String,
    pub state: &'static str,
    pub age_seconds: f64,
    /// Its position, seconds of the item; None before the first output.
    pub position_seconds: Option<f64>,
    pub queues: Vec<Level>,
}

/// How full a queue is.
#[derive(Clone, Debug)]
pub struct Level {
    pub element: String,
    pub buffers: u64,
    pub bytes: u64,
}

/// A pipeline's registration; dropping it removes the pipeline.
#[derive(Debug)]
pub(super) struct Pin {
    pub number: u64,
    pub log: Log,
}

pub(super) fn pin(pipeline: &gst::Pipeline) -> Pin {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let log = Log::default();
    let pinned = Pinned { pipeline: pipeline.downgrade(), since: Instant::now(), log: log.clone() };
    lock(&BOARD).live.insert(number, pinned);
    Pin { number, log }
}

impl Pin {
    pub(super) fn note(&self, mut line: String) {
        if line.len() > LINE {
            line.truncate(line.floor_char_boundary(LINE));
        }
        let mut log = lock(&self.log);
        if log.len() == LINES {
            log.pop_front();
        }
        log.push_back(line);
    }

    /// Keeps the graph of a failed pipeline, and writes it to `GST_DEBUG_DUMP_DOT_DIR` if that is set.
    pub(super) fn failed(&self, pipeline: &gst::Pipeline, error: &str) {
        pipeline.debug_to_dot_file_with_ts(gst::DebugGraphDetails::ALL, format!("error-{}", pipeline.name()));
        let failed = Failed {
            number: self.number,
            name: pipeline.name().to_string(),
            error: error.to_owned(),
            log: lock(&self.log).iter().cloned().collect(),
            graph: Graph::of(pipeline.upcast_ref()),
        };
        let mut board = lock(&BOARD);
        board.failed.truncate(FAILED - 1);
        board.failed.push_front(failed);
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        lock(&BOARD).live.remove(&self.number);
    }
}

/// All running pipelines, the oldest first. Queries elements and may block: not for async threads.
pub fn live() -> Vec<Seen> {
    let live: Vec<(u64, gst::Pipeline, Instant)> = {
        let board = lock(&BOARD);
        board.live.iter().filter_map(|(number, pin)| Some((*number, pin.pipeline.upgrade()?, pin.since))).collect()
    };
    live.into_iter().map(|(number, pipeline, since)| seen(number, &pipeline, since)).collect()
}

/// Failed pipelines, the newest first.
pub fn failed() -> Vec<Failed> {
    lock(&BOARD).failed.iter().cloned().collect()
}

/// The messages of a pipeline, running or failed; None if there is no such pipeline.
pub fn log(number: u64) -> Option<Vec<String>> {
    let board = lock(&BOARD);
    let failed = || board.failed.iter().find(|failed| failed.number == number).map(|failed| failed.log.clone());
    board.live.get(&number).map(|pin| lock(&pin.log).iter().cloned().collect()).or_else(failed)
}

/// A pipeline's graph: the current one, or that at the time of failure; None if there is no such pipeline.
pub fn graph(number: u64) -> Option<Graph> {
    match pipeline(number) {
        Some(pipeline) => Some(Graph::of(pipeline.upcast_ref())),
        None => failed().into_iter().find(|failed| failed.number == number).map(|failed| failed.graph),
    }
}

/// GStreamer's own DOT graph of a running pipeline, with every pad.
pub fn dot(number: u64) -> Option<String> {
    Some(pipeline(number)?.debug_to_dot_data(gst::DebugGraphDetails::ALL).to_string())
}

fn pipeline(number: u64) -> Option<gst::Pipeline> {
    lock(&BOARD).live.get(&number)?.pipeline.upgrade()
}

fn seen(number: u64, pipeline: &gst::Pipeline, since: Instant) -> Seen {
    let mut queues = Vec::new();
    for element in pipeline.iterate_recurse().into_iter().flatten() {
        let level = |name: &str| {
            let property = element.find_property(name)?;
            let value = element.property_value(property.name());
            value.get::<u64>().ok().or_else(|| value.get::<u32>().ok().map(u64::from))
        };
        if let (Some(buffers), Some(bytes)) = (level("current-level-buffers"), level("current-level-bytes")) {
            queues.push(Level { element: element.name().to_string(), buffers, bytes });
        }
    }
    let position = pipeline.query_position::<gst::ClockTime>();
    Seen {
        number,
        name: pipeline.name().to_string(),
        state: match pipeline.current_state() {
            gst::State::Playing => "playing",
            gst::State::Paused => "paused",
            gst::State::Ready => "ready",
            _ => "null",
        },
        age_seconds: since.elapsed().as_secs_f64(),
        position_seconds: position.map(|position| position.nseconds() as f64 / 1e9),
        queues,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
