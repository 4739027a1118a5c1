//! Inspection of the running GStreamer pipelines, with a timeout, because an element may hang.

use std::time::Duration;

use crate::engine::gst::registry::{FailedPipeline, PipelineStatus};
pub use crate::engine::worker::GraphFormat;
use crate::engine::worker::Isolation;
use crate::error::{Code, Error, Result};

/// Longest wait for the elements to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// All running pipelines, and those that failed lately.
///
/// # Errors
/// `INTERNAL` when a pipeline does not answer.
pub async fn list_pipelines(isolation: &Isolation) -> Result<(Vec<PipelineStatus>, Vec<FailedPipeline>)> {
    wait_for_answer(isolation.pipelines()).await
}

/// The graph of one pipeline.
///
/// # Errors
/// `NOT_FOUND`; `INTERNAL` when the pipeline does not answer.
pub async fn render_graph(isolation: &Isolation, number: u64, format: GraphFormat) -> Result<String> {
    wait_for_answer(isolation.graph(number, format)).await?.ok_or_else(not_found)
}

/// The bus messages of one pipeline, one per line.
///
/// # Errors
/// `NOT_FOUND`; `INTERNAL` when the pipeline does not answer.
pub async fn read_log(isolation: &Isolation, number: u64) -> Result<Vec<String>> {
    wait_for_answer(isolation.messages(number)).await?.ok_or_else(not_found)
}

fn not_found() -> Error {
    Error::new(Code::NotFound, "there is no such pipeline any more")
}

async fn wait_for_answer<T>(answer: impl Future<Output = std::result::Result<T, String>>) -> Result<T> {
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
    answer.map_err(|_| Error::internal("a pipeline does not answer"))?.map_err(Error::internal)
}
