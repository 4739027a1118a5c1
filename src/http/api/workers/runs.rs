//! `/api/workers/runs`: what a worker does for the run it has claimed. No route reaches another run.

use super::remote_workers;
use crate::engine::remote::RunRefusal;
use crate::engine::remote::message::{ClaimRequest, RunEnd};
use crate::engine::video_encoders::VideoEncoder;
use crate::http::api::file::{FileRequest, answer};
use crate::http::api::prelude::*;

/// Largest segment of a worker, bytes: 10 s at 50 Mbit/s.
pub const MAX_SEGMENT_BYTES: u64 = 64 << 20;

/// Claim an offered run
#[utoipa::path(post, path = "/api/workers/runs/{run}/claim", params(("run" = String, Path, description = "Id of the run, from the queue")),
    request_body(content = Object, description = "`encoder`: the name of the video encoder that the worker will use"), responses(
    (status = 200, description = "Rendition, grid and source of the run", body = Object),
    (status = 404, description = "`NOT_FOUND`: it is over, or another worker has it")))]
pub async fn claim(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let workers = remote_workers(&service)?;
    let claim: ClaimRequest = call.json().await?;
    let encoder = VideoEncoder::of_name(&claim.encoder)
        .ok_or_else(|| Error::new(Code::BadRequest, "this encoder is not in the server's table of encoders"))?;
    let order = workers.cluster.claim(&call.params[0], &call.user()?.user_id, encoder).await;
    Ok(reply::json(&order.ok_or_else(|| refused(RunRefusal::NotYours))?))
}

/// The source file of a run, with ranges
#[utoipa::path(get, path = "/api/workers/runs/{run}/source", params(
    ("run" = String, Path, description = "Id of a run that this worker has claimed"),
    ("Range" = Option<String>, Header, description = "`bytes=first-last`"),
    ("If-Match" = Option<String>, Header, description = "The version of the file in the order")), responses(
    (status = 200, description = "The whole file", content_type = "*/*", body = [u8]),
    (status = 206, description = "The requested bytes", content_type = "*/*", body = [u8]),
    (status = 404, description = "`NOT_FOUND`: it is over, or another worker has it"),
    (status = 412, description = "`PRECONDITION_FAILED`: the file has changed"),
    (status = 416, description = "`RANGE_NOT_SATISFIABLE`, with `Content-Range: bytes */size`")))]
pub async fn source(service: Arc<Service>, call: Call) -> Result<Response> {
    let source = remote_workers(&service)?.cluster.source(&call.params[0], &call.user()?.user_id);
    let source = source.ok_or_else(|| refused(RunRefusal::NotYours))?;
    if source.holds_the_same_at_once() == Some(false) {
        return Err(Error::new(Code::PreconditionFailed, "precondition failed: the file has changed"));
    }
    let request = FileRequest { method: &call.method, headers: &call.headers };
    let response = answer(&service.library, request, source).await?;
    response.ok_or_else(|| Error::new(Code::SourceChanged, "the file changed while it was being read"))
}

/// Deliver the next segment of a run
#[utoipa::path(put, path = "/api/workers/runs/{run}/segments/{index}", params(
    ("run" = String, Path, description = "Id of a run that this worker has claimed"),
    ("index" = usize, Path, description = "Number of the segment")),
    request_body(content = [u8], content_type = "video/mp2t"), responses(
    (status = 204, description = "Taken, or there before"),
    (status = 404, description = "`NOT_FOUND`: it is over, or another worker has it"),
    (status = 409, description = "`CONFLICT`: the run may not make this segment now")))]
pub async fn put_segment(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let workers = remote_workers(&service)?;
    let index = call.params[1].parse();
    let index = index.map_err(|_| Error::new(Code::BadRequest, "the number of the segment must be an integer"))?;
    let (run, worker) = (call.params[0].clone(), call.user()?.user_id.clone());
    // Before the body, so that only the worker of a run can send one.
    workers.cluster.source(&run, &worker).ok_or_else(|| refused(RunRefusal::NotYours))?;
    let bytes = call.body().await?;
    workers.cluster.accept_segment(&run, &worker, index, bytes).await.map_err(refused)?;
    Ok(reply::empty())
}

/// End a run
#[utoipa::path(post, path = "/api/workers/runs/{run}/end", params(("run" = String, Path, description = "Id of a run that this worker has claimed")),
    request_body = Object, responses(
    (status = 204, description = "Ended"),
    (status = 404, description = "`NOT_FOUND`: it is over, or another worker has it")))]
pub async fn end(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let workers = remote_workers(&service)?;
    let end: RunEnd = call.json().await?;
    workers.cluster.end(&call.params[0], &call.user()?.user_id, end).await.map_err(refused)?;
    Ok(reply::empty())
}

fn refused(refusal: RunRefusal) -> Error {
    let code = match refusal {
        RunRefusal::NotYours => Code::NotFound,
        RunRefusal::OutOfTurn => Code::Conflict,
        RunRefusal::NotTransportStream => Code::BadRequest,
    };
    Error::new(code, refusal.to_string())
}
