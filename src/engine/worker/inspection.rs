//! The pipelines of the running workers, for diagnostics: questions to them, and the pipelines that failed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::message::Question;
use crate::engine::gst::graph::PipelineGraph;
use crate::engine::gst::registry::{FailedPipeline, PipelineLists, PipelineStatus};

/// How long a worker may take for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Failed pipelines kept.
const MAX_FAILED: usize = 16;

/// Questions that may wait for one worker.
const MAX_QUESTIONS: usize = 4;

/// Numbers of a worker's pipelines: its own number times this, and on.
const NUMBERS_PER_WORKER: u64 = 10_000;

/// Output format of a pipeline graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphFormat {
    /// GStreamer's own dump with every pad; only for a running pipeline.
    Dot,
    Mermaid,
    Svg,
    Text,
}

impl GraphFormat {
    /// A graph in this format; None for `Dot`, which only GStreamer writes.
    pub fn render(self, graph: &PipelineGraph) -> Option<String> {
        match self {
            Self::Dot => None,
            Self::Mermaid => Some(graph.to_mermaid()),
            Self::Svg => Some(graph.to_svg()),
            Self::Text => Some(graph.to_text()),
        }
    }
}

/// A question, and where its answer goes.
#[derive(Debug)]
pub struct PendingQuestion {
    pub question: Question,
    pub reply: oneshot::Sender<Value>,
}

/// The workers that can be questioned, and what failed in earlier ones.
#[derive(Debug, Default)]
pub struct Inspection {
    next_question: AtomicU32,
    running: Mutex<BTreeMap<u32, mpsc::Sender<PendingQuestion>>>,
    /// The newest first.
    failed: Mutex<VecDeque<FailedPipeline>>,
}

/// A running worker's place in the list. Dropping it removes the worker.
#[derive(Debug)]
pub struct InspectedWorker {
    inspection: Arc<Inspection>,
    number: u32,
    /// Questions to pass on.
    pub questions: mpsc::Receiver<PendingQuestion>,
}

impl Drop for InspectedWorker {
    fn drop(&mut self) {
        lock(&self.inspection.running).remove(&self.number);
    }
}

impl InspectedWorker {
    /// Keeps the failed pipelines that a worker reports by itself. Those with the number of another worker are dropped.
    pub fn record_failed(&self, lists: PipelineLists) {
        let mut failed = lock(&self.inspection.failed);
        let own = lists.failed.into_iter().filter(|pipeline| worker_of(pipeline.number) == Some(self.number));
        for pipeline in own.take(MAX_FAILED) {
            failed.truncate(MAX_FAILED - 1);
            failed.push_front(pipeline);
        }
    }
}

impl Inspection {
    /// Lists a worker.
    pub fn register(self: &Arc<Self>, number: u32) -> InspectedWorker {
        let (sender, questions) = mpsc::channel(MAX_QUESTIONS);
        lock(&self.running).insert(number, sender);
        InspectedWorker { inspection: self.clone(), number, questions }
    }

    /// All running pipelines, and those that failed lately. A worker that does not answer is left out.
    pub async fn pipelines(&self) -> (Vec<PipelineStatus>, Vec<FailedPipeline>) {
        let workers: Vec<u32> = lock(&self.running).keys().copied().collect();
        let lists = workers.into_iter().map(|worker| async move {
            let lists: Option<PipelineLists> = self.query(worker, |question| Question::Pipelines { question }).await;
            let mut running = lists.unwrap_or_default().running;
            running.retain(|pipeline| worker_of(pipeline.number) == Some(worker));
            running
        });
        let running = join_all(lists).await.into_iter().flatten().collect();
        (running, lock(&self.failed).iter().cloned().collect())
    }

    /// The graph of a pipeline, running or failed; None if there is no such pipeline.
    pub async fn graph(&self, pipeline: u64, format: GraphFormat) -> Option<String> {
        let failed = self.failed_pipeline(pipeline);
        if let Some(failed) = failed {
            return format.render(&failed.graph);
        }
        let worker = worker_of(pipeline)?;
        if format == GraphFormat::Dot {
            return self.query(worker, |question| Question::Dot { question, pipeline }).await?;
        }
        let graph: Option<PipelineGraph> =
            self.query(worker, |question| Question::Graph { question, pipeline }).await?;
        format.render(&graph?)
    }

    /// The bus messages of a pipeline, running or failed; None if there is no such pipeline.
    pub async fn messages(&self, pipeline: u64) -> Option<Vec<String>> {
        if let Some(failed) = self.failed_pipeline(pipeline) {
            return Some(failed.log);
        }
        self.query(worker_of(pipeline)?, |question| Question::Messages { question, pipeline }).await?
    }

    fn failed_pipeline(&self, number: u64) -> Option<FailedPipeline> {
        lock(&self.failed).iter().find(|failed| failed.number == number).cloned()
    }

    /// A worker's answer; None without such a worker, after a second, and for an answer of another type.
    async fn query<T: DeserializeOwned>(&self, worker: u32, question: impl FnOnce(u32) -> Question) -> Option<T> {
        let sender = lock(&self.running).get(&worker)?.clone();
        // 0 is the number of what a worker reports by itself.
        let number = self.next_question.fetch_add(1, Ordering::Relaxed).checked_add(1).unwrap_or(1);
        let (reply, answer) = oneshot::channel();
        sender.try_send(PendingQuestion { question: question(number), reply }).ok()?;
        let answer = timeout(ANSWER_TIMEOUT, answer).await.ok()?.ok()?;
        serde_json::from_value(answer).ok()
    }
}

/// The worker of a pipeline.
fn worker_of(pipeline: u64) -> Option<u32> {
    u32::try_from(pipeline / NUMBERS_PER_WORKER).ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that answers each question with this value.
    fn answering(inspection: &Arc<Inspection>, number: u32, value: Value) -> tokio::task::JoinHandle<()> {
        let mut worker = inspection.register(number);
        tokio::spawn(async move {
            while let Some(pending) = worker.questions.recv().await {
                assert_ne!(pending.question.number(), 0);
                let _ = pending.reply.send(value.clone());
            }
        })
    }

    fn status(number: u64) -> Value {
        serde_json::json!({
            "number": number, "name": "segment", "state": "playing", "age_seconds": 1.0, "position_seconds": null,
            "queues": [],
        })
    }

    #[tokio::test(start_paused = true)]
    async fn pipelines_of_all_workers_are_merged_without_those_that_are_silent_or_lie() {
        let inspection = Arc::new(Inspection::default());
        let first = serde_json::json!({"running": [status(20_001), status(20_002)], "failed": []});
        let liar = serde_json::json!({"running": [status(20_003), status(50_001)], "failed": []});
        let _tasks = [answering(&inspection, 2, first), answering(&inspection, 5, liar)];
        let _silent = inspection.register(3);
        let _nonsense = answering(&inspection, 4, Value::Bool(true));
        let began = tokio::time::Instant::now();
        let (running, failed) = inspection.pipelines().await;
        let numbers: Vec<u64> = running.iter().map(|pipeline| pipeline.number).collect();
        assert_eq!((numbers, failed.len()), (vec![20_001, 20_002, 50_001], 0));
        assert_eq!(began.elapsed().as_secs(), 1, "all are questioned at once");
    }

    #[tokio::test(start_paused = true)]
    async fn questions_reach_the_worker_of_the_pipeline_and_only_while_it_runs() {
        let inspection = Arc::new(Inspection::default());
        let task = answering(&inspection, 7, serde_json::json!(["a", "b"]));
        assert_eq!(inspection.messages(70_001).await, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(inspection.messages(80_001).await, None);
        assert_eq!(inspection.graph(70_001, GraphFormat::Dot).await, None, "the answer is no text");
        task.abort();
        let _ = task.await;
        assert_eq!(inspection.messages(70_001).await, None);
        assert!(lock(&inspection.running).is_empty());
    }

    #[test]
    fn failed_pipelines_are_kept_in_bounds_and_only_those_of_the_worker() {
        let inspection = Arc::new(Inspection::default());
        let worker = inspection.register(7);
        let failed = |number: u64| -> FailedPipeline {
            let value = serde_json::json!({
                "number": number, "name": "segment", "error": "e", "log": ["l"], "graph": {"nodes": [], "edges": []},
            });
            serde_json::from_value(value).unwrap()
        };
        let numbers = (70_001..70_040).chain([80_001]);
        for number in numbers {
            worker.record_failed(PipelineLists { failed: vec![failed(number)], ..PipelineLists::default() });
        }
        let kept = lock(&inspection.failed);
        assert_eq!((kept.len(), kept[0].number), (MAX_FAILED, 70_039));
    }
}
