//! The conversation of one run: segments in, gate and questions out.

use std::collections::HashMap;

use bytes::BytesMut;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use super::inspection::{InspectedWorker, PendingQuestion};
use super::message::{Answer, Gate, SegmentHeader, SegmentSpan};
use super::process::{WorkerEvent, WorkerProcess};
use super::wire::{ConnectionError, Frame};
use crate::domain::trace::{FinishedSpan, SpanKind, SpanProcess, TraceContext};
use crate::domain::worker::frame::FrameKind;
use crate::engine::content::SegmentContent;
use crate::engine::{MAX_SEGMENT_BYTES, RunError, Segment};
use crate::telemetry::traces;

/// Bytes reserved for a segment before its pieces arrive. A worker's word is not enough for more.
const MAX_RESERVED_BYTES: usize = 4 << 20;

/// Unanswered questions at most. Those whose callers have given up do not count.
const MAX_OPEN_QUESTIONS: usize = 8;

/// Longest text of an error, bytes.
const MAX_ERROR_BYTES: usize = 2_000;

/// How a run of a worker ended.
#[derive(Debug)]
pub enum RunOutcome {
    /// The last segment was delivered, or the source has ended.
    Complete,
    /// The worker reported this error.
    Failed(RunError),
    /// The owner dropped the run.
    Abandoned,
    /// The worker has ended.
    Lost,
}

/// Assembles segments from their frames, in order.
#[derive(Debug)]
pub struct SegmentAssembly {
    /// Index of the segment that is due.
    next: usize,
    /// One past the last segment of the grid.
    end: usize,
    /// Length of the segment under way, and its bytes so far.
    current: Option<(usize, BytesMut)>,
}

impl SegmentAssembly {
    pub fn new(first: usize, end: usize) -> Self {
        Self { next: first, end, current: None }
    }

    /// The segment that is due.
    pub fn next(&self) -> usize {
        self.next
    }

    /// Begins a segment, which the gate must allow.
    ///
    /// # Errors
    /// The fault of its header.
    pub fn begin(&mut self, header: SegmentHeader, allowed_through: usize) -> Result<(), String> {
        let SegmentHeader { index, bytes, span: _ } = header;
        if self.current.is_some() {
            return Err(format!("segment {index} begins before the end of another one"));
        }
        if index != self.next || index >= self.end || index > allowed_through {
            return Err(format!("segment {index} was not due, but {}", self.next));
        }
        if bytes == 0 || bytes > MAX_SEGMENT_BYTES {
            return Err(format!("segment {index} has {bytes} bytes"));
        }
        self.current = Some((bytes, BytesMut::with_capacity(bytes.min(MAX_RESERVED_BYTES))));
        Ok(())
    }

    /// Adds a piece. Some when it completes the segment.
    ///
    /// # Errors
    /// The fault of the piece.
    pub fn push(&mut self, piece: &[u8]) -> Result<Option<Segment>, String> {
        let (length, bytes) = self.current.as_mut().ok_or("a piece of no segment")?;
        if piece.is_empty() || piece.len() > *length - bytes.len() {
            return Err(format!("a piece of {} bytes in segment {}", piece.len(), self.next));
        }
        bytes.extend_from_slice(piece);
        if bytes.len() < *length {
            return Ok(None);
        }
        let content = SegmentContent::InMemory(std::mem::take(bytes).freeze());
        let segment = Segment { index: self.next, content };
        self.current = None;
        self.next += 1;
        Ok(Some(segment))
    }

    fn is_between_segments(&self) -> bool {
        self.current.is_none()
    }
}

/// The connections of a run.
#[derive(Debug)]
pub struct RunExchange<'a> {
    pub worker: &'a mut WorkerProcess,
    pub assembly: &'a mut SegmentAssembly,
    pub segments: &'a mpsc::Sender<Result<Segment, RunError>>,
    pub gate: &'a mut watch::Receiver<usize>,
    pub inspected: &'a mut InspectedWorker,
    /// The span of the run, if it is traced.
    pub trace: Option<TraceContext>,
}

impl RunExchange<'_> {
    /// Runs until the job ends, the worker is lost, or the run is dropped.
    pub async fn run(mut self) -> RunOutcome {
        let mut open_questions: HashMap<u32, oneshot::Sender<Value>> = HashMap::new();
        loop {
            tokio::select! {
                () = self.segments.closed() => return RunOutcome::Abandoned,
                changed = self.gate.changed() => match changed {
                    Ok(()) => {
                        let through = *self.gate.borrow_and_update();
                        self.worker.send(FrameKind::Gate, &Gate { through }).await;
                    }
                    Err(_) => return RunOutcome::Abandoned,
                },
                Some(PendingQuestion { question, reply }) = self.inspected.questions.recv() => {
                    open_questions.retain(|_, reply| !reply.is_closed());
                    if open_questions.len() < MAX_OPEN_QUESTIONS {
                        open_questions.insert(question.number(), reply);
                        self.worker.send(FrameKind::Ask, &question).await;
                    }
                }
                event = self.worker.next() => match event {
                    WorkerEvent::Lost => return RunOutcome::Lost,
                    WorkerEvent::Frame(frame) => match self.handle(&frame, &mut open_questions).await {
                        Ok(None) => {}
                        Ok(Some(outcome)) => return outcome,
                        // The next event is its end.
                        Err(fault) => self.worker.end_for_protocol(fault),
                    },
                },
            }
        }
    }

    /// Handles a frame. Some when the job has ended; the error is what is wrong with the frame.
    async fn handle(
        &mut self,
        frame: &Frame,
        open_questions: &mut HashMap<u32, oneshot::Sender<Value>>,
    ) -> Result<Option<RunOutcome>, String> {
        let parse_fault = |fault: ConnectionError| fault.to_string();
        match frame.kind {
            FrameKind::Segment => {
                let header = frame.parse().map_err(parse_fault)?;
                let allowed_through = *self.gate.borrow();
                self.assembly.begin(header, allowed_through)?;
                self.keep_span(header);
            }
            FrameKind::Piece => {
                if let Some(segment) = self.assembly.push(&frame.body)? {
                    // With two finished segments unread, the worker has to wait, and so do its heartbeats.
                    if self.segments.send(Ok(segment)).await.is_err() {
                        return Ok(Some(RunOutcome::Abandoned));
                    }
                    self.worker.resume();
                }
            }
            FrameKind::Answer => {
                let Answer { question, value } = frame.parse().map_err(parse_fault)?;
                if question == 0 {
                    // Null if they were too long for a frame.
                    self.inspected.record_failed(serde_json::from_value(value).unwrap_or_default());
                } else if let Some(reply) = open_questions.remove(&question) {
                    let _ = reply.send(value);
                }
            }
            FrameKind::Failed => {
                let error = frame.parse().map_err(parse_fault)?;
                return Ok(Some(RunOutcome::Failed(bounded_error(error))));
            }
            FrameKind::Done if self.assembly.is_between_segments() => return Ok(Some(RunOutcome::Complete)),
            kind => return Err(format!("a frame {kind:?} at segment {}", self.assembly.next())),
        }
        Ok(None)
    }

    /// Keeps the span of a segment that is due: the worker is confined, and cannot send it to a collector.
    fn keep_span(&self, header: SegmentHeader) {
        let (Some(run), Some(span)) = (self.trace, header.span.filter(|span| span.span_id != 0)) else { return };
        let SegmentSpan { span_id, started_at, ended_at } = span;
        traces::keep(FinishedSpan {
            context: TraceContext { span_id, ..run },
            parent_span_id: Some(run.span_id),
            kind: SpanKind::Internal,
            process: SpanProcess::Worker { pid: self.worker.pid() },
            name: "make segment".to_owned(),
            started_at,
            ended_at: ended_at.max(started_at),
            has_failed: false,
            attributes: vec![("segment", header.index.into()), ("bytes", header.bytes.into())],
        });
    }
}

/// A worker's error with a bounded text. Only the server says that a worker was lost.
fn bounded_error(error: RunError) -> RunError {
    let bounded = |mut text: String| {
        text.truncate(text.floor_char_boundary(MAX_ERROR_BYTES));
        text
    };
    match error {
        RunError::Decode(text) | RunError::WorkerLost { text, .. } => RunError::Decode(bounded(text)),
        RunError::Encoder(text) => RunError::Encoder(bounded(text)),
        RunError::SourceRead(text) => RunError::SourceRead(bounded(text)),
        RunError::Internal(text) => RunError::Internal(bounded(text)),
        RunError::SourceChanged | RunError::SourceEnded | RunError::Stalled(_) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::worker::blame::Blame;

    fn header(index: usize, bytes: usize) -> SegmentHeader {
        SegmentHeader { index, bytes, span: None }
    }

    #[test]
    fn pieces_become_segments_in_order() {
        let mut assembly = SegmentAssembly::new(3, 10);
        for index in [3, 4] {
            assembly.begin(header(index, 5), 9).unwrap();
            assert!(assembly.push(b"ab").unwrap().is_none());
            let segment = assembly.push(b"cde").unwrap().expect("complete");
            assert_eq!(segment.index, index);
            assert!(matches!(segment.content, SegmentContent::InMemory(bytes) if bytes == "abcde"));
        }
        assert_eq!(assembly.next(), 5);
    }

    #[test]
    fn segments_and_pieces_that_are_not_due_are_refused() {
        let begin = |index, bytes, through| SegmentAssembly::new(3, 6).begin(header(index, bytes), through);
        assert_eq!(begin(3, 1, 3), Ok(()));
        for (index, bytes, through) in
            [(2, 1, 9), (4, 1, 9), (3, 1, 2), (3, 0, 9), (3, MAX_SEGMENT_BYTES + 1, 9), (3, usize::MAX, 9)]
        {
            assert!(begin(index, bytes, through).is_err(), "{index}, {bytes} bytes, gate {through}");
        }
        assert!(SegmentAssembly::new(6, 6).begin(header(6, 1), 9).is_err(), "past the grid");
        let mut assembly = SegmentAssembly::new(3, 6);
        assert!(assembly.push(b"a").is_err(), "a piece without a segment");
        assembly.begin(header(3, 2), 9).unwrap();
        assert!(assembly.begin(header(4, 2), 9).is_err(), "the first is incomplete");
        assert!(assembly.push(b"").is_err() && assembly.push(b"abc").is_err());
    }

    #[test]
    fn a_stated_length_reserves_little() {
        let mut assembly = SegmentAssembly::new(0, 1);
        assembly.begin(header(0, MAX_SEGMENT_BYTES), 0).unwrap();
        assert!(assembly.current.unwrap().1.capacity() <= MAX_RESERVED_BYTES * 2);
    }

    #[test]
    fn errors_of_workers_are_bounded_and_cannot_excuse_themselves() {
        let error = RunError::WorkerLost { blame: Blame::Outside, text: "x".repeat(1 << 20) };
        assert_eq!(bounded_error(error), RunError::Decode("x".repeat(MAX_ERROR_BYTES)));
        assert_eq!(bounded_error(RunError::SourceChanged), RunError::SourceChanged);
    }
}
