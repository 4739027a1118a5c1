//! `/api/debug`: GStreamer pipelines of this server and the recent log; admins only.

use crate::domain::time::{format_timestamp, round_to_ms};
use crate::engine::gst::registry::{FailedPipeline, PipelineStatus, QueueLevel};
use crate::http::api::prelude::*;
use crate::service::renditions::pipelines::{self, GraphFormat};
use crate::telemetry::{self, LogLine};

/// Running pipelines and failed ones.
#[derive(Serialize, ToSchema)]
pub struct Pipelines {
    /// Oldest first.
    pipelines: Vec<PipelineView>,
    /// Newest first, at most 16.
    failed: Vec<FailedView>,
}

/// A running pipeline.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineView {
    id: String,
    name: String,
    /// `null`, `ready`, `paused` or `playing`.
    state: String,
    age_seconds: f64,
    /// Position in the item, or running time of an encoder.
    position_seconds: Option<f64>,
    queues: Vec<QueueView>,
}

/// Fill level of a queue.
#[derive(Serialize, ToSchema)]
pub struct QueueView {
    element: String,
    buffers: u64,
    bytes: u64,
}

/// A failed pipeline; its graph and log are kept.
#[derive(Serialize, ToSchema)]
pub struct FailedView {
    id: String,
    name: String,
    error: String,
}

/// Bus messages of a pipeline.
#[derive(Serialize, ToSchema)]
pub struct PipelineLog {
    /// Newest last, at most 100.
    lines: Vec<String>,
}

/// The end of the server log.
#[derive(Serialize, ToSchema)]
pub struct LogTail {
    lines: Vec<LineView>,
}

/// A line of the log.
#[derive(Serialize, ToSchema)]
#[schema(as = LogLine)]
pub struct LineView {
    /// Line number, starting at 1 when the server starts.
    number: u64,
    #[schema(format = DateTime)]
    at: String,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    level: &'static str,
    /// The module that logged it.
    target: &'static str,
    text: String,
}

/// GStreamer pipelines of this server
#[utoipa::path(get, path = "/api/debug/pipelines", responses(
    (status = 200, description = "Running pipelines and failed ones", body = Pipelines)))]
pub async fn all(service: Arc<Service>, _: Call) -> Result<Response> {
    let (running, failed) = pipelines::list_pipelines(&service.isolation).await?;
    let pipelines = running.into_iter().map(PipelineView::from).collect();
    Ok(reply::json(&Pipelines { pipelines, failed: failed.into_iter().map(FailedView::from).collect() }))
}

/// Graph of a pipeline
#[utoipa::path(get, path = "/api/debug/pipelines/{drawing}", params(
    ("drawing" = String, Path, description = "Pipeline id with `.dot` (Graphviz, with all pads), `.mmd` (Mermaid), `.svg` or `.txt`")), responses(
    (status = 200, description = "The graph", body = String, content_type = "text/plain")))]
pub async fn draw(service: Arc<Service>, call: Call) -> Result<Response> {
    let unknown = || Error::new(Code::NotFound, "a pipeline graph is available as .dot, .mmd, .svg or .txt");
    let (id, extension) = call.params[0].rsplit_once('.').ok_or_else(unknown)?;
    let (format, content_type) = match extension {
        "dot" => (GraphFormat::Dot, "text/vnd.graphviz; charset=utf-8"),
        "mmd" => (GraphFormat::Mermaid, "text/plain; charset=utf-8"),
        "svg" => (GraphFormat::Svg, "image/svg+xml"),
        "txt" => (GraphFormat::Text, "text/plain; charset=utf-8"),
        _ => return Err(unknown()),
    };
    let graph = pipelines::render_graph(&service.isolation, parse_pipeline_id(id)?, format).await?;
    Ok(reply::bytes(content_type, graph.into()))
}

/// Log of a pipeline
#[utoipa::path(get, path = "/api/debug/pipelines/{id}/log", params(
    ("id" = String, Path, description = "Id of a running or failed pipeline")), responses(
    (status = 200, description = "Its bus messages", body = PipelineLog)))]
pub async fn log(service: Arc<Service>, call: Call) -> Result<Response> {
    let lines = pipelines::read_log(&service.isolation, parse_pipeline_id(&call.params[0])?).await?;
    Ok(reply::json(&PipelineLog { lines }))
}

/// Recent lines of the server log
#[utoipa::path(get, path = "/api/debug/log", params(
    ("after" = Option<u64>, Query, description = "Only lines after the one with this number")), responses(
    (status = 200, description = "Newest last, at most 1000", body = LogTail),
    (status = 400, description = "`VALIDATION_ERROR`")))]
pub async fn tail(_: Arc<Service>, call: Call) -> Result<Response> {
    let after = call.query("after").unwrap_or("0").parse();
    let after = after.map_err(|_| Error::invalid_field("after", "must be the number of a line"))?;
    Ok(reply::json(&LogTail { lines: telemetry::lines_after(after).into_iter().map(LineView::from).collect() }))
}

fn parse_pipeline_id(id: &str) -> Result<u64> {
    id.parse().map_err(|_| Error::new(Code::NotFound, "the pipeline id must be a number"))
}

impl From<PipelineStatus> for PipelineView {
    fn from(pipeline: PipelineStatus) -> Self {
        let queue = |from: QueueLevel| QueueView { element: from.element, buffers: from.buffers, bytes: from.bytes };
        Self {
            id: pipeline.number.to_string(),
            name: pipeline.name,
            state: pipeline.state,
            age_seconds: round_to_ms(pipeline.age_seconds),
            position_seconds: pipeline.position_seconds.map(round_to_ms),
            queues: pipeline.queues.into_iter().map(queue).collect(),
        }
    }
}

impl From<LogLine> for LineView {
    fn from(LogLine { number, time: at, level, target, text }: LogLine) -> Self {
        Self { number, at: format_timestamp(at), level, target, text }
    }
}

impl From<FailedPipeline> for FailedView {
    fn from(pipeline: FailedPipeline) -> Self {
        Self { id: pipeline.number.to_string(), name: pipeline.name, error: pipeline.error }
    }
}
