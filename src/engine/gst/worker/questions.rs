//! Answers questions about the pipelines of this process, on a thread of their own: an element may hang.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use serde::Serialize;
use serde_json::Value;

use super::connection::Connection;
use crate::domain::worker::frame::{FrameKind, MAX_BODY_BYTES};
use crate::engine::gst::registry::{self, PipelineLists};
use crate::engine::worker::message::{Answer, Question};

/// Most questions that wait while an element hangs.
const MAX_QUEUED: usize = 8;

/// Room for the number of the question around a value, bytes.
const ENVELOPE_BYTES: usize = 64;

pub(super) struct QuestionThread {
    queue: SyncSender<Question>,
    connection: Arc<Connection>,
}

impl QuestionThread {
    pub(super) fn start(connection: Arc<Connection>) -> io::Result<Self> {
        let (queue, questions) = sync_channel::<Question>(MAX_QUEUED);
        let thread_connection = connection.clone();
        let answer_all = move || {
            for question in questions {
                let answer = Answer { question: question.number(), value: value_of(&question) };
                thread_connection.send_json(FrameKind::Answer, 0, &answer);
            }
        };
        std::thread::Builder::new().name("questions".to_owned()).spawn(answer_all)?;
        Ok(Self { queue, connection })
    }

    /// Answers a question: with null if too many wait.
    pub(super) fn answer(&self, question: Question) {
        let number = question.number();
        if self.queue.try_send(question).is_err() {
            let answer = Answer { question: number, value: Value::Null };
            self.connection.send_json(FrameKind::Answer, 0, &answer);
        }
    }
}

/// The failed pipelines of this process, as an answer that no question requested.
pub(super) fn failure_report() -> Answer {
    let lists = PipelineLists { running: Vec::new(), failed: registry::failed_pipelines() };
    Answer { question: 0, value: lists_value(lists) }
}

fn value_of(question: &Question) -> Value {
    match question {
        Question::Pipelines { .. } => {
            lists_value(PipelineLists { running: registry::running_pipelines(), failed: registry::failed_pipelines() })
        }
        Question::Dot { pipeline, .. } => bounded_value(&registry::pipeline_dot(*pipeline)),
        Question::Graph { pipeline, .. } => bounded_value(&registry::pipeline_graph(*pipeline)),
        Question::Messages { pipeline, .. } => bounded_value(&registry::pipeline_log(*pipeline)),
    }
}

/// The lists, without the oldest failed pipelines if all are too long for a frame.
fn lists_value(mut lists: PipelineLists) -> Value {
    loop {
        let value = bounded_value(&lists);
        if !value.is_null() || lists.failed.pop().is_none() {
            return value;
        }
    }
}

/// A value as JSON; null if it is too long for a frame.
fn bounded_value(value: &impl Serialize) -> Value {
    let value = serde_json::to_value(value).unwrap_or_default();
    let is_short = serde_json::to_vec(&value).is_ok_and(|text| text.len() <= MAX_BODY_BYTES - ENVELOPE_BYTES);
    if is_short { value } else { Value::Null }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::gst::gallery;
    use crate::engine::gst::registry::FailedPipeline;

    #[test]
    fn answers_fit_into_a_frame() {
        gstreamer::init().unwrap();
        let graph = gallery::pipeline_graph("segment", gallery::default_encoder()).unwrap().unwrap();
        let failed = |number, bytes: usize| FailedPipeline {
            number,
            name: "segment-1".into(),
            error: "e".repeat(bytes),
            log: Vec::new(),
            graph: graph.clone(),
        };
        let lists = |bytes| PipelineLists { running: Vec::new(), failed: (1..=4).map(|n| failed(n, bytes)).collect() };
        let numbers = |value: Value| -> Vec<u64> {
            let lists: PipelineLists = serde_json::from_value(value).unwrap();
            assert!(lists.failed.iter().all(|failed| failed.graph == graph), "graphs survive");
            lists.failed.iter().map(|failed| failed.number).collect()
        };
        assert_eq!(numbers(lists_value(lists(10))), [1, 2, 3, 4]);
        assert_eq!(numbers(lists_value(lists(400_000))), [1, 2], "the oldest are left out");
        assert_eq!(bounded_value(&"x".repeat(MAX_BODY_BYTES)), Value::Null);
    }
}
