//! `/api/workers`: workers on other machines, enrolled by a one-time code.

use http::StatusCode;

use super::remote_workers;
use crate::domain::time::format_timestamp;
use crate::engine::remote::message::Credential;
use crate::http::api::prelude::*;

/// A one-time code.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerCodeAnswer {
    /// Eight letters and digits.
    #[schema(example = "K7PQ2XWD")]
    code: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

/// A worker that enrols itself.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerEnrolment {
    code: String,
    /// Name of its machine.
    name: String,
    /// Its Ed25519 public key, base64url without padding.
    public_key: String,
}

/// A worker that renews its token.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerRenewal {
    worker_id: String,
    /// Its time, unix seconds.
    time: i64,
    /// Its signature of `hearthcast-worker-renewal`, its id and the time, a line each; base64url without padding.
    signature: String,
}

/// The credential of a worker.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerCredential {
    worker_id: String,
    /// Bearer token for its runs.
    token: String,
    /// When the token expires, unix seconds.
    expires_at: i64,
    /// Address of the queue.
    queue: String,
    /// JWT for the queue, where it checks credentials; it expires with the token.
    queue_jwt: String,
}

/// All enrolled workers.
#[derive(Serialize, ToSchema)]
pub struct EnrolledWorkers {
    workers: Vec<EnrolledWorkerView>,
}

/// An enrolled worker.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EnrolledWorker)]
pub struct EnrolledWorkerView {
    id: String,
    /// Name of its machine.
    name: String,
    #[schema(format = DateTime)]
    enrolled_at: String,
}

/// Make a one-time code for a worker
///
/// It is valid for ten minutes and replaces the one before. Five wrong codes make it void.
#[utoipa::path(post, path = "/api/workers/codes", responses(
    (status = 201, description = "The code", body = WorkerCodeAnswer),
    (status = 404, description = "`NOT_FOUND`: this server has no queue")))]
pub async fn make_code(service: Arc<Service>, _: Call) -> Result<Response> {
    let (code, expires_at) = remote_workers(&service)?.create_code();
    let answer = WorkerCodeAnswer { code, expires_at: format_timestamp(expires_at) };
    Ok(reply::json_with(StatusCode::CREATED, &answer))
}

/// Enrol a worker with a one-time code
#[utoipa::path(post, path = "/api/workers/enrol", request_body = WorkerEnrolment, responses(
    (status = 201, description = "Enrolled", body = WorkerCredential),
    (status = 401, description = "`INVALID_CREDENTIALS`: the code is wrong, used or expired"),
    (status = 404, description = "`NOT_FOUND`: this server has no queue"),
    (status = 409, description = "`CONFLICT`: too many workers are enrolled")))]
pub async fn enrol(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let workers = remote_workers(&service)?;
    let WorkerEnrolment { code, name, public_key } = call.json().await?;
    let credential = workers.enrol(&code, &name, &public_key).await?;
    Ok(reply::json_with(StatusCode::CREATED, &WorkerCredential::from(credential)))
}

/// Renew the token of a worker
#[utoipa::path(post, path = "/api/workers/renew", request_body = WorkerRenewal, responses(
    (status = 200, description = "A new token, valid for a day", body = WorkerCredential),
    (status = 401, description = "`INVALID_CREDENTIALS`: not enrolled, or the signature is wrong"),
    (status = 404, description = "`NOT_FOUND`: this server has no queue")))]
pub async fn renew(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let workers = remote_workers(&service)?;
    let WorkerRenewal { worker_id, time, signature } = call.json().await?;
    Ok(reply::json(&WorkerCredential::from(workers.renew(&worker_id, time, &signature).await?)))
}

/// Configuration for nats-server that lets in this server and its workers only
///
/// It has no secret. It is for nats-server 2.9 or newer, on the port of `queue`.
#[utoipa::path(get, path = "/api/workers/queue-configuration", responses(
    (status = 200, description = "The content of a file for `nats-server -c`", content_type = "text/plain", body = String),
    (status = 404, description = "`NOT_FOUND`: this server has no queue")))]
pub async fn queue_configuration(service: Arc<Service>, _: Call) -> Result<Response> {
    let text = remote_workers(&service)?.queue_configuration().await?;
    Ok(reply::bytes("text/plain; charset=utf-8", text.into()))
}

/// Enrolled workers
#[utoipa::path(get, path = "/api/workers", responses(
    (status = 200, description = "All enrolled workers, connected or not", body = EnrolledWorkers)))]
pub async fn list(service: Arc<Service>, _: Call) -> Result<Response> {
    let enrolled = service.remote_workers.as_ref().map(|workers| workers.enrolled()).unwrap_or_default();
    let view = |(id, worker): (String, crate::service::workers::EnrolledWorker)| EnrolledWorkerView {
        id,
        name: worker.name,
        enrolled_at: format_timestamp(worker.enrolled_at),
    };
    Ok(reply::json(&EnrolledWorkers { workers: enrolled.into_iter().map(view).collect() }))
}

/// Remove a worker: its token is refused
#[utoipa::path(delete, path = "/api/workers/{id}", params(("id" = String, Path, description = "Id of an enrolled worker")), responses(
    (status = 204, description = "Removed"),
    (status = 404, description = "`NOT_FOUND`: there is no such worker")))]
pub async fn remove(service: Arc<Service>, call: Call) -> Result<Response> {
    remote_workers(&service)?.remove(&call.params[0]).await?;
    Ok(reply::empty())
}

impl From<Credential> for WorkerCredential {
    fn from(Credential { worker_id, token, expires_at, queue, queue_jwt }: Credential) -> Self {
        Self { worker_id, token, expires_at, queue, queue_jwt }
    }
}
