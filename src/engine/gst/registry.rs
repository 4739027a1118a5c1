//! Registry of this process's pipelines: the running ones, their recent messages, and failed ones. For diagnostics of a
//! running server; it has no effect on the pipelines. The server gets the same values from its workers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gstreamer as gst;
use gstreamer::prelude::*;
use serde::{Deserialize, Serialize};

use super::graph::PipelineGraph;

/// Messages kept of a pipeline, and their largest length in bytes.
const MAX_MESSAGES: usize = 100;
const MAX_MESSAGE_BYTES: usize = 300;

/// Number of failed pipelines kept.
const MAX_FAILED: usize = 16;

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { running: BTreeMap::new(), failed: VecDeque::new() });
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

struct Registry {
    running: BTreeMap<u64, RegisteredPipeline>,
    failed: VecDeque<FailedPipeline>,
}

struct RegisteredPipeline {
    pipeline: glib::WeakRef<gst::Pipeline>,
    started_at: Instant,
    log: MessageLog,
}

/// Messages of a pipeline, the newest last.
pub(super) type MessageLog = Arc<Mutex<VecDeque<String>>>;

/// A failed pipeline, with its graph at that moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FailedPipeline {
    pub number: u64,
    pub name: String,
    pub error: String,
    pub log: Vec<String>,
    pub graph: PipelineGraph,
}

/// A running pipeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PipelineStatus {
    pub number: u64,
    pub name: String,
    /// `null`, `ready`, `paused` or `playing`.
    pub state: String,
    pub age_seconds: f64,
    /// Its position, seconds of the item; None before the first output.
    pub position_seconds: Option<f64>,
    pub queues: Vec<QueueLevel>,
}

/// How full a queue is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QueueLevel {
    pub element: String,
    pub buffers: u64,
    pub bytes: u64,
}

/// The pipelines of a process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PipelineLists {
    /// The oldest first.
    pub running: Vec<PipelineStatus>,
    /// The newest first.
    pub failed: Vec<FailedPipeline>,
}

/// A pipeline's registration; dropping it removes the pipeline.
#[derive(Debug)]
pub(super) struct Registration {
    pub number: u64,
    pub log: MessageLog,
}

/// Numbers the pipelines of this process from `first` on. For workers, whose pipelines are listed beside those of other
/// processes; to be called before the first pipeline.
pub(super) fn start_numbers_at(first: u64) {
    NEXT_NUMBER.fetch_max(first, Ordering::Relaxed);
}

pub(super) fn register(pipeline: &gst::Pipeline) -> Registration {
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    let log = MessageLog::default();
    let entry = RegisteredPipeline { pipeline: pipeline.downgrade(), started_at: Instant::now(), log: log.clone() };
    lock(&REGISTRY).running.insert(number, entry);
    Registration { number, log }
}

impl Registration {
    pub(super) fn log_message(&self, mut line: String) {
        if line.len() > MAX_MESSAGE_BYTES {
            line.truncate(line.floor_char_boundary(MAX_MESSAGE_BYTES));
        }
        let mut log = lock(&self.log);
        if log.len() == MAX_MESSAGES {
            log.pop_front();
        }
        log.push_back(line);
    }

    /// Keeps the graph of a failed pipeline, and writes it to `GST_DEBUG_DUMP_DOT_DIR` if that is set.
    pub(super) fn record_failure(&self, pipeline: &gst::Pipeline, error: &str) {
        pipeline.debug_to_dot_file_with_ts(gst::DebugGraphDetails::ALL, format!("error-{}", pipeline.name()));
        let failed_pipeline = FailedPipeline {
            number: self.number,
            name: pipeline.name().to_string(),
            error: error.to_owned(),
            log: lock(&self.log).iter().cloned().collect(),
            graph: PipelineGraph::from_bin(pipeline.upcast_ref()),
        };
        let mut registry = lock(&REGISTRY);
        registry.failed.truncate(MAX_FAILED - 1);
        registry.failed.push_front(failed_pipeline);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&REGISTRY).running.remove(&self.number);
    }
}

/// All running pipelines, the oldest first. Queries elements and may block: not for async threads.
pub fn running_pipelines() -> Vec<PipelineStatus> {
    let upgrade = |(number, registered): (&u64, &RegisteredPipeline)| {
        Some((*number, registered.pipeline.upgrade()?, registered.started_at))
    };
    let running: Vec<(u64, gst::Pipeline, Instant)> = lock(&REGISTRY).running.iter().filter_map(upgrade).collect();
    running.into_iter().map(|(number, pipeline, started_at)| pipeline_status(number, &pipeline, started_at)).collect()
}

/// Failed pipelines, the newest first.
pub fn failed_pipelines() -> Vec<FailedPipeline> {
    lock(&REGISTRY).failed.iter().cloned().collect()
}

/// The messages of a pipeline, running or failed; None if there is no such pipeline.
pub fn pipeline_log(number: u64) -> Option<Vec<String>> {
    let registry = lock(&REGISTRY);
    let failed_log = || registry.failed.iter().find(|failed| failed.number == number).map(|failed| failed.log.clone());
    registry.running.get(&number).map(|registered| lock(&registered.log).iter().cloned().collect()).or_else(failed_log)
}

/// A pipeline's graph: the current one, or that at the time of failure; None if there is no such pipeline.
pub fn pipeline_graph(number: u64) -> Option<PipelineGraph> {
    match find_running(number) {
        Some(pipeline) => Some(PipelineGraph::from_bin(pipeline.upcast_ref())),
        None => failed_pipelines().into_iter().find(|failed| failed.number == number).map(|failed| failed.graph),
    }
}

/// GStreamer's own DOT graph of a running pipeline, with every pad.
pub fn pipeline_dot(number: u64) -> Option<String> {
    Some(find_running(number)?.debug_to_dot_data(gst::DebugGraphDetails::ALL).to_string())
}

fn find_running(number: u64) -> Option<gst::Pipeline> {
    lock(&REGISTRY).running.get(&number)?.pipeline.upgrade()
}

fn pipeline_status(number: u64, pipeline: &gst::Pipeline, started_at: Instant) -> PipelineStatus {
    let mut queues = Vec::new();
    for element in pipeline.iterate_recurse().into_iter().flatten() {
        let read_level = |name: &str| {
            let property = element.find_property(name)?;
            let value = element.property_value(property.name());
            value.get::<u64>().ok().or_else(|| value.get::<u32>().ok().map(u64::from))
        };
        if let (Some(buffers), Some(bytes)) = (read_level("current-level-buffers"), read_level("current-level-bytes")) {
            queues.push(QueueLevel { element: element.name().to_string(), buffers, bytes });
        }
    }
    let position = pipeline.query_position::<gst::ClockTime>();
    PipelineStatus {
        number,
        name: pipeline.name().to_string(),
        state: match pipeline.current_state() {
            gst::State::Playing => "playing",
            gst::State::Paused => "paused",
            gst::State::Ready => "ready",
            _ => "null",
        }
        .to_owned(),
        age_seconds: started_at.elapsed().as_secs_f64(),
        position_seconds: position.map(|position| position.nseconds() as f64 / 1e9),
        queues,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
