//! The remote workers in `GET /api/stream/v2-workers`.

use jiff::Timestamp;

use crate::domain::time::format_timestamp;
use crate::engine::remote::WorkerStatus;
use crate::http::api::prelude::*;

/// A machine with a worker.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkerNode)]
pub struct NodeView {
    id: String,
    /// Name of the machine.
    name: String,
    /// Version of its program.
    version: String,
    /// `worker`.
    role: &'static str,
    #[schema(format = DateTime)]
    started_at: String,
    #[schema(format = DateTime)]
    last_seen_at: String,
}

/// A worker on another machine.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RemoteWorker)]
pub struct RemoteWorkerView {
    id: String,
    node_id: String,
    /// `busy` if it makes runs, otherwise `ready`.
    status: &'static str,
    /// H.264 encoders that passed a test encode, best first.
    supported_encoders: Vec<String>,
    max_concurrent_jobs: usize,
    active_job_count: usize,
    #[schema(format = DateTime)]
    last_seen_at: String,
}

impl From<&WorkerStatus> for NodeView {
    fn from(WorkerStatus { report, last_seen, .. }: &WorkerStatus) -> Self {
        Self {
            id: format!("n_{}", report.id),
            name: report.name.clone(),
            version: report.version.clone(),
            role: "worker",
            started_at: format_timestamp(
                Timestamp::from_millisecond(report.started_ms).unwrap_or(Timestamp::UNIX_EPOCH),
            ),
            last_seen_at: format_timestamp(*last_seen),
        }
    }
}

impl From<&WorkerStatus> for RemoteWorkerView {
    fn from(WorkerStatus { report, last_seen, active_runs }: &WorkerStatus) -> Self {
        Self {
            id: report.id.clone(),
            node_id: format!("n_{}", report.id),
            status: if *active_runs > 0 { "busy" } else { "ready" },
            supported_encoders: report.encoders.clone(),
            max_concurrent_jobs: report.slots,
            active_job_count: *active_runs,
            last_seen_at: format_timestamp(*last_seen),
        }
    }
}
