//! The requests of a worker to its server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use reqwest::header::{IF_MATCH, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::credential_file::{CredentialFile, StoredCredential};
use crate::engine::remote::identity::WorkerIdentity;
use crate::engine::remote::message::{
    ClaimRequest, Credential, EnrolRequest, RenewRequest, RunEnd, WorkOrder, renewal_text,
};
use crate::engine::remote::nats::QueueLogin;
use crate::engine::video_encoders::VideoEncoder;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest answer with JSON, bytes: the media info of a file with many streams and chapters.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Time before its expiry at which a credential is renewed, seconds.
const RENEW_BEFORE_SECONDS: i64 = 12 * 3600;

/// The server of this worker.
#[derive(Debug)]
pub struct ServerClient {
    http: Client,
    server: Url,
    identity: WorkerIdentity,
    credential: Mutex<Credential>,
    worker_id: String,
}

impl ServerClient {
    /// Enrols this machine with a one-time code.
    ///
    /// # Errors
    /// Why it is refused, for people.
    pub async fn enrol(server: &str, code: &str, name: &str) -> Result<(Self, StoredCredential), String> {
        let identity = WorkerIdentity::generate()?;
        let request = EnrolRequest { code: code.to_owned(), name: name.to_owned(), public_key: identity.public_key() };
        let (http, url) = (http_client()?, parse_server(server)?);
        let answer = with_json(http.post(resource(&url, "enrol")?), &request)?.send().await;
        let credential: Credential = read_json(answer).await?;
        let stored = StoredCredential { credential, private_key: identity.to_text() };
        Ok((Self::with_credential(server, stored.clone())?, stored))
    }

    /// A worker that was enrolled before.
    ///
    /// # Errors
    /// When the address or the private key is malformed.
    pub fn with_credential(server: &str, stored: StoredCredential) -> Result<Self, String> {
        let identity = WorkerIdentity::from_text(&stored.private_key)?;
        let worker_id = stored.credential.worker_id.clone();
        let (http, server) = (http_client()?, parse_server(server)?);
        Ok(Self { http, server, identity, credential: Mutex::new(stored.credential), worker_id })
    }

    pub fn worker_id(&self) -> &str {
        &self.worker_id
    }

    /// Address of the queue. If it is on the server's own machine, the server's host takes its place.
    pub fn queue_address(&self) -> String {
        let queue = self.credential().queue;
        let Ok(mut address) = Url::parse(&queue) else { return queue };
        let is_loopback = matches!(address.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if is_loopback && address.set_host(self.server.host_str()).is_ok() { address.to_string() } else { queue }
    }

    /// Renews the credential if it expires soon, and stores it.
    ///
    /// # Errors
    /// When the server refuses or does not answer.
    pub async fn renew(&self, file: &CredentialFile) -> Result<(), String> {
        let time = Timestamp::now().as_second();
        if self.credential().expires_at - time > RENEW_BEFORE_SECONDS {
            return Ok(());
        }
        let signature = self.identity.sign(&renewal_text(&self.worker_id, time));
        let request = RenewRequest { worker_id: self.worker_id.clone(), time, signature };
        let answer = with_json(self.http.post(resource(&self.server, "renew")?), &request)?.send().await;
        let credential: Credential = read_json(answer).await?;
        file.write(&StoredCredential { credential: credential.clone(), private_key: self.identity.to_text() })?;
        *self.credential.lock().unwrap_or_else(PoisonError::into_inner) = credential;
        Ok(())
    }

    /// Claims an offered run, whose video this encoder will encode.
    ///
    /// # Errors
    /// When another worker has it, or it is over.
    pub async fn claim(&self, run: &str, encoder: &VideoEncoder) -> Result<WorkOrder, String> {
        let request = self.authorized(self.http.post(resource(&self.server, &format!("runs/{run}/claim"))?));
        let claim = ClaimRequest { encoder: encoder.name.to_owned() };
        read_json(with_json(request, &claim)?.send().await).await
    }

    /// A range of the source of a run: `len` bytes at `offset`.
    ///
    /// # Errors
    /// When the run is over, the file has changed, or the server does not answer.
    pub async fn read_source(&self, order: &WorkOrder, offset: u64, len: u64) -> Result<Bytes, String> {
        let address = resource(&self.server, &format!("runs/{}/source", order.run))?;
        let range = format!("bytes={offset}-{}", offset + len - 1);
        let request = self.authorized(self.http.get(address)).header(RANGE, range).header(IF_MATCH, &order.etag);
        let response = succeeded(request.send().await).await?;
        if response.status() != StatusCode::PARTIAL_CONTENT {
            return Err(format!("the server answered {} to a range", response.status()));
        }
        let bytes = read_limited(response, usize::try_from(len).unwrap_or(usize::MAX)).await?;
        if bytes.len() as u64 == len { Ok(bytes) } else { Err("a range is incomplete".to_owned()) }
    }

    /// Sends a finished segment.
    ///
    /// # Errors
    /// When the run is over, or the server does not answer.
    pub async fn put_segment(&self, run: &str, index: usize, bytes: Bytes) -> Result<(), String> {
        let address = resource(&self.server, &format!("runs/{run}/segments/{index}"))?;
        let request = self.authorized(self.http.put(address)).header("content-type", "video/mp2t").body(bytes);
        succeeded(request.send().await).await.map(drop)
    }

    /// Reports how a run ended.
    ///
    /// # Errors
    /// When the run is over at the server, or the server does not answer.
    pub async fn end_run(&self, run: &str, end: &RunEnd) -> Result<(), String> {
        let address = resource(&self.server, &format!("runs/{run}/end"))?;
        succeeded(with_json(self.authorized(self.http.post(address)), end)?.send().await).await.map(drop)
    }

    fn credential(&self) -> Credential {
        self.credential.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        request.bearer_auth(self.credential().token)
    }
}

impl QueueLogin for ServerClient {
    fn login(&self, nonce: &[u8]) -> (String, Vec<u8>) {
        (self.credential().queue_jwt, self.identity.sign_bytes(nonce))
    }
}

fn with_json(request: RequestBuilder, body: &impl Serialize) -> Result<RequestBuilder, String> {
    let text = serde_json::to_vec(body).map_err(|cause| cause.to_string())?;
    Ok(request.header("content-type", "application/json").body(text))
}

fn http_client() -> Result<Client, String> {
    let builder = Client::builder().connect_timeout(CONNECT_TIMEOUT).timeout(REQUEST_TIMEOUT).redirect(Policy::none());
    builder.no_proxy().build().map_err(|cause| cause.to_string())
}

fn parse_server(server: &str) -> Result<Url, String> {
    let url = Url::parse(server).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| format!("--server is {server:?}; it must be an address such as https://tv.example"))
}

/// A resource below `/api/workers/` of a server, which may be served below a path.
fn resource(server: &Url, path: &str) -> Result<Url, String> {
    let base = server.as_str().trim_end_matches('/');
    Url::parse(&format!("{base}/api/workers/{path}")).map_err(|cause| cause.to_string())
}

/// The response of a request that succeeded; the error is that of the server, without addresses.
async fn succeeded(sent: reqwest::Result<Response>) -> Result<Response, String> {
    let response = sent.map_err(|cause| format!("the server does not answer: {}", cause.without_url()))?;
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status();
    let text = read_limited(response, MAX_ANSWER_BYTES).await.unwrap_or_default();
    let body: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    let message = body.and_then(|body| Some(body.get("error")?.as_str()?.to_owned()));
    Err(format!("the server answered {status}: {}", message.unwrap_or_default()))
}

async fn read_json<T: DeserializeOwned>(sent: reqwest::Result<Response>) -> Result<T, String> {
    let body = read_limited(succeeded(sent).await?, MAX_ANSWER_BYTES).await?;
    serde_json::from_slice(&body).map_err(|cause| format!("the server's answer is malformed: {cause}"))
}

async fn read_limited(mut response: Response, max_bytes: usize) -> Result<Bytes, String> {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|cause| cause.without_url().to_string())? {
        if bytes.len() + chunk.len() > max_bytes {
            return Err("the server's answer is too long".to_owned());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}
