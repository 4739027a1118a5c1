//! `/api/quarantine`: files that made a media worker crash twice; admins only.

use crate::domain::time::format_timestamp;
use crate::http::api::prelude::*;
use crate::service::quarantine::QuarantineEntry;

/// Files in quarantine.
#[derive(Serialize, ToSchema)]
pub struct QuarantineAnswer {
    /// Newest first, at most 10000.
    entries: Vec<QuarantineEntryView>,
}

/// A file that no worker reads with this pipeline; ffmpeg reads it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QuarantineEntry)]
pub struct QuarantineEntryView {
    id: String,
    /// The path of the file when it was read.
    path: String,
    /// Content identity of the file.
    fingerprint: String,
    /// `probe`, `run`, `image` or `nfo`.
    stage: &'static str,
    /// Name of the work, e.g. `segment-with-text`.
    pipeline: String,
    /// How the worker ended.
    cause: String,
    /// Version of this program and of GStreamer; other versions try the file again.
    version: String,
    #[schema(format = DateTime)]
    at: String,
    /// When workers try the file again by themselves.
    #[schema(format = DateTime)]
    expires_at: String,
}

/// Files that made a media worker crash twice
#[utoipa::path(get, path = "/api/quarantine", responses(
    (status = 200, description = "Only ffmpeg reads these files", body = QuarantineAnswer)))]
pub async fn list(service: Arc<Service>, _: Call) -> Result<Response> {
    let entries = service.quarantine.list().into_iter().map(QuarantineEntryView::from).collect();
    Ok(reply::json(&QuarantineAnswer { entries }))
}

/// Lift a quarantine: workers read the file again
#[utoipa::path(delete, path = "/api/quarantine/{id}", params(("id" = String, Path, description = "Id of an entry")), responses(
    (status = 204, description = "Lifted"),
    (status = 404, description = "`NOT_FOUND`: there is no such entry")))]
pub async fn lift(service: Arc<Service>, call: Call) -> Result<Response> {
    service.quarantine.lift(&call.params[0]).await?;
    Ok(reply::empty())
}

impl From<QuarantineEntry> for QuarantineEntryView {
    fn from(QuarantineEntry { id, fault, expires_at }: QuarantineEntry) -> Self {
        Self {
            id,
            path: fault.path,
            fingerprint: fault.key.fingerprint,
            stage: fault.key.stage.as_str(),
            pipeline: fault.key.pipeline,
            cause: fault.cause,
            version: fault.key.version,
            at: format_timestamp(fault.at),
            expires_at: format_timestamp(expires_at),
        }
    }
}
