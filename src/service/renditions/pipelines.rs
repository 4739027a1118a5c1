//! Inspection of the running GStreamer pipelines: off the async threads, and with a timeout, because an element may hang.

use std::time::Duration;

use crate::engine::gst::registry::{self, FailedPipeline, PipelineStatus};
use crate::error::{Code, Error, Result};

/// Longest wait for the elements to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Output format of a pipeline graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphFormat {
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
pub async fn list_pipelines() -> Result<(Vec<PipelineStatus>, Vec<FailedPipeline>)> {
    run_with_timeout(|| (registry::running_pipelines(), registry::failed_pipelines())).await
}

/// The graph of one pipeline.
///
/// # Errors
/// `NOT_FOUND`.
pub async fn render_graph(number: u64, format: GraphFormat) -> Result<String> {
    let graph = run_with_timeout(move || match format {
        GraphFormat::Dot => registry::pipeline_dot(number),
        GraphFormat::Mermaid => registry::pipeline_graph(number).map(|graph| graph.to_mermaid()),
        GraphFormat::Svg => registry::pipeline_graph(number).map(|graph| graph.to_svg()),
        GraphFormat::Text => registry::pipeline_graph(number).map(|graph| graph.to_text()),
    });
    graph.await?.ok_or_else(not_found)
}

/// The bus messages of one pipeline, one per line.
///
/// # Errors
/// `NOT_FOUND`.
pub async fn read_log(number: u64) -> Result<Vec<String>> {
    run_with_timeout(move || registry::pipeline_log(number)).await?.ok_or_else(not_found)
}

fn not_found() -> Error {
    Error::new(Code::NotFound, "there is no such pipeline any more")
}

async fn run_with_timeout<T: Send + 'static>(inspect: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let result = tokio::time::timeout(ANSWER_TIMEOUT, tokio::task::spawn_blocking(inspect)).await;
    result.map_err(|_| Error::internal("a pipeline does not answer"))?.map_err(Error::internal)
}
