//! Traces: spans of requests and of the work they start, kept until the exporter takes them.
//!
//! Spans are of their own, not those of `tracing`: a span of `tracing` ends only after its children, and a run outlives the
//! request that started it.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::domain::trace::{AttributeValue, FinishedSpan, SpanKind, SpanProcess, TraceContext};

/// Finished spans kept at most; further ones are counted and dropped.
const MAX_SPANS: usize = 4096;

/// Attributes of a span at most.
const MAX_ATTRIBUTES: usize = 8;

static FINISHED: OnceLock<Mutex<FinishedSpans>> = OnceLock::new();

#[derive(Default)]
struct FinishedSpans {
    spans: Vec<FinishedSpan>,
    dropped: u64,
}

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// Begins to record spans. Without it no span has a context, and nothing is kept.
pub fn start_recording() {
    FINISHED.get_or_init(Mutex::default);
}

/// Whether spans are recorded.
pub fn is_recording() -> bool {
    FINISHED.get().is_some()
}

/// The finished spans since the last call, and how many were dropped.
pub fn take_finished() -> (Vec<FinishedSpan>, u64) {
    let Some(finished) = FINISHED.get() else { return (Vec::new(), 0) };
    let FinishedSpans { spans, dropped } =
        std::mem::take(&mut *finished.lock().unwrap_or_else(PoisonError::into_inner));
    (spans, dropped)
}

/// Keeps a span that has ended, possibly in another process.
pub fn keep(span: FinishedSpan) {
    let Some(finished) = FINISHED.get() else { return };
    let mut finished = finished.lock().unwrap_or_else(PoisonError::into_inner);
    if finished.spans.len() < MAX_SPANS {
        finished.spans.push(span);
    } else {
        finished.dropped += 1;
    }
}

/// The span in which the current task works; None outside [`in_context`].
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(|context| *context).ok()
}

/// Runs a future with a span as its current one. Tasks that it spawns do not inherit it.
pub async fn in_context<F: Future>(context: Option<TraceContext>, work: F) -> F::Output {
    match context {
        Some(context) => CURRENT.scope(context, work).await,
        None => work.await,
    }
}

/// A random number that is not 0, of a span or of half a trace.
pub fn random_id() -> u64 {
    // Each `RandomState` has other keys, which the system made random for this thread.
    RandomState::new().hash_one(0u8).max(1)
}

fn random_trace_id() -> u128 {
    (u128::from(random_id()) << 64) | u128::from(random_id())
}

/// Nanoseconds since 1970.
pub fn now_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A span of this process that has not ended. It ends when it is dropped.
#[derive(Debug, Default)]
pub struct ActiveSpan(Option<Box<FinishedSpan>>);

impl ActiveSpan {
    /// Begins the span of a request; `parent` is that of a caller who takes part in the trace.
    pub fn of_request(parent: Option<TraceContext>, name: impl FnOnce() -> String) -> Self {
        if !is_recording() {
            return Self::default();
        }
        let trace_id = parent.map_or_else(random_trace_id, |parent| parent.trace_id);
        Self::begin(trace_id, parent, SpanKind::Server, name())
    }

    /// Begins a part of the work of a span; nothing without a parent.
    pub fn child_of(parent: Option<TraceContext>, name: &str) -> Self {
        match parent {
            Some(context) if is_recording() => {
                Self::begin(context.trace_id, parent, SpanKind::Internal, name.to_owned())
            }
            _ => Self::default(),
        }
    }

    fn begin(trace_id: u128, parent: Option<TraceContext>, kind: SpanKind, name: String) -> Self {
        let started_at = now_nanos();
        Self(Some(Box::new(FinishedSpan {
            context: TraceContext { trace_id, span_id: random_id() },
            parent_span_id: parent.map(|parent| parent.span_id),
            kind,
            process: SpanProcess::Server,
            name,
            started_at,
            ended_at: started_at,
            has_failed: false,
            attributes: Vec::new(),
        })))
    }

    /// Its context, for its children; None if nothing is recorded.
    pub fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|span| span.context)
    }

    /// Adds an attribute, at most `MAX_ATTRIBUTES`.
    pub fn set(&mut self, name: &'static str, value: impl Into<AttributeValue>) {
        if let Some(span) = self.0.as_mut().filter(|span| span.attributes.len() < MAX_ATTRIBUTES) {
            span.attributes.push((name, value.into()));
        }
    }

    /// Marks it as failed.
    pub fn set_failed(&mut self) {
        if let Some(span) = &mut self.0 {
            span.has_failed = true;
        }
    }

    /// Gives it another name, once it is known.
    pub fn rename(&mut self, name: impl FnOnce() -> String) {
        if let Some(span) = &mut self.0 {
            span.name = name();
        }
    }
}

impl Drop for ActiveSpan {
    fn drop(&mut self) {
        if let Some(mut span) = self.0.take() {
            span.ended_at = now_nanos().max(span.started_at);
            keep(*span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn spans_are_children_of_the_current_one_and_bounded() {
        assert_eq!(ActiveSpan::child_of(current(), "outside").context(), None);
        start_recording();
        assert_eq!(ActiveSpan::child_of(None, "without a request").context(), None);
        let mut request = ActiveSpan::of_request(None, || "GET".to_owned());
        let context = request.context().expect("it is recorded");
        let child = in_context(request.context(), async { ActiveSpan::child_of(current(), "wait").context() }).await;
        assert_eq!((child.map(|child| child.trace_id), current()), (Some(context.trace_id), None));
        (0..MAX_ATTRIBUTES + 3).for_each(|number| request.set("number", number));
        request.rename(|| "GET /own".to_owned());
        request.set_failed();
        drop(request);
        // Other tests may record as well.
        let of_trace = |spans: Vec<FinishedSpan>| {
            spans.into_iter().filter(|span| span.context.trace_id == context.trace_id).collect::<Vec<_>>()
        };
        let [wait, request] = of_trace(take_finished().0).try_into().unwrap();
        assert_eq!((wait.name.as_str(), wait.parent_span_id), ("wait", Some(context.span_id)));
        assert_eq!((request.name.as_str(), request.parent_span_id, request.has_failed), ("GET /own", None, true));
        assert_eq!(request.attributes.len(), MAX_ATTRIBUTES);
        assert!(wait.started_at >= request.started_at && wait.ended_at <= request.ended_at);
        (0..=MAX_SPANS).for_each(|_| keep(request.clone()));
        let (spans, dropped) = take_finished();
        assert!(spans.len() == MAX_SPANS && dropped >= 1, "{} kept, {dropped} dropped", spans.len());
    }
}
