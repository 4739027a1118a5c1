//! Inspection of the running GStreamer pipelines: off the async threads, and with a timeout, because an element may hang.

use std::time::Duration;

use crate::engine::gst::registry::{self, FailedPipeline, PipelineStatus};
use crate::error::{Code, Error, Result};

/// Longest wait for the elements to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Output format of a pipeline graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    /// GStreamer's own dump with every pad; only for a running pipeline.
    Dot,
    Mermaid,
    Svg,
    Text,
}

/// All running pipelines, and those that failed lately.
///
/// # Errors
/// `INTERNAL` when a pipeline does not answer.
pub async fn all() -> Result<(Vec<PipelineStatus>, Vec<FailedPipeline>)> {
    within(|| (registry::running_pipelines(), registry::failed_pipelines())).await
}

/// The graph of one pipeline.
///
/// # Errors
/// `NOT_FOUND`.
pub async fn draw(number: u64, drawing: Drawing) -> Result<String> {
    let drawn = within(move || match drawing {
        Drawing::Dot => registry::pipeline_dot(number),
        Drawing::Mermaid => registry::pipeline_graph(number).map(|graph| graph.to_mermaid()),
        Drawing::Svg => registry::pipeline_graph(number).map(|graph| graph.to_svg()),
        Drawing::Text => registry::pipeline_graph(number).map(|graph| graph.to_text()),
    });
    drawn.await?.ok_or_else(gone)
}

/// The bus messages of one pipeline, one per line.
///
/// # Errors
/// `NOT_FOUND`.
pub async fn log(number: u64) -> Result<Vec<String>> {
    within(move || registry::pipeline_log(number)).await?.ok_or_else(gone)
}

fn gone() -> Error {
    Error::new(Code::NotFound, "there is no such pipeline any more")
}

async fn within<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let looked = tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(look)).await;
    looked.map_err(|_| Error::internal("a pipeline does not answer"))?.map_err(Error::internal)
}
