//! Requests that a standby receives. It sends the bytes of media files itself; each other request is passed on to the active
//! server, whose answer it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CONNECTION, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use warp::Filter;
use warp::path::FullPath;
use warp::reply::Response;

use super::api::health::Health;
use super::cors::Cors;
use super::dispatch::{RequestParts, add_common_headers};
use super::server::{self, ConnectionSlot, ForwardedBody, RequestBody, RequestContext, Routes};
use super::urls::ResourceUrls;
use super::{client, reply, urls};
use crate::config::Config;
use crate::domain::forwarded_client::{SignedRequest, verify};
use crate::domain::signing::SigningKey;
use crate::error::{Code, Error, Result};
use crate::service::read_replica::CurrentReplica;

mod connections;
mod headers;
mod local_read;

use connections::{ActiveBody, ClientBody, ConnectionPool, SendFailure};

/// The header of requests with the client's address and its signature (`domain::forwarded_client`), and of answers to them.
pub const CLIENT_HEADER: HeaderName = HeaderName::from_static("x-hearthcast-client");

/// Its value in answers to requests with valid credentials: the standby protects their connection as the active server does.
pub const AUTHENTICATED_CLIENT: HeaderValue = HeaderValue::from_static("authenticated");

/// Its value in the answer of a server that is not the active one and has done nothing with the request.
const STANDBY_ANSWER: HeaderValue = HeaderValue::from_static("standby");

/// How long a request is held until there is an active server.
const HOLD_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// Most requests held at once.
const MAX_HELD: usize = 1024;

/// Pause between two attempts to reach an active server that does not answer.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Longest time until the response begins, a little longer than the active server lets it take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(65);

/// `Retry-After` of requests that were not passed on, seconds.
const RETRY_AFTER: u32 = 2;

/// The active server, as a standby knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActiveServer {
    /// Its host and port; None as long as none is known to answer.
    pub address: Option<String>,
    /// Whether it is this server, which may still be opening its state.
    pub is_this: bool,
    /// The signing keys of all servers; the first one signs.
    pub keys: Arc<Vec<SigningKey>>,
}

/// Host and port of an address such as `http://10.0.0.2:8470`.
pub fn host_and_port(address: &str) -> Option<String> {
    let uri: Uri = address.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    (scheme == "http").then(|| format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80)))
}

/// Passes requests on, and answers some from `replica`, until `handover` resolves: then this server itself accepts on a duplicate
/// of the same socket, open connections end with their next response, and requests on them are passed on to it. Ends when all are
/// closed, or 4 s after `stop`.
///
/// # Errors
/// `INTERNAL` when threads cannot be started.
pub async fn serve(
    config: &Config,
    listener: TcpListener,
    active: watch::Receiver<ActiveServer>,
    replica: CurrentReplica,
    handover: impl Future<Output = ()>,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let forwarder = Arc::new(Forwarder::new(config, active, replica));
    server::serve_until_handover(routes(&forwarder), config, listener, handover, stop).await
}

fn routes(forwarder: &Arc<Forwarder>) -> Routes {
    let forwarder = forwarder.clone();
    warp::method()
        .and(warp::path::full())
        .and(warp::query::raw().or(warp::any().map(String::new)).unify())
        .and(warp::ext::get::<RequestContext>())
        .and(warp::body::stream())
        .then(move |method, path: FullPath, query, context: RequestContext, body| {
            let RequestContext { info, headers, slot } = context;
            let (path, body) = (path.as_str().to_owned(), RequestBody::new(&headers, body));
            let forwarder = forwarder.clone();
            async move { forwarder.respond(RequestParts { method, path, query, headers, info, body, slot }).await }
        })
        .boxed()
}

/// Passes requests on.
struct Forwarder {
    config: Config,
    active: watch::Receiver<ActiveServer>,
    replica: CurrentReplica,
    connections: ConnectionPool,
    held_requests: Semaphore,
}

/// A request without its body: it can be sent more than once.
struct RequestHead {
    method: Method,
    path: String,
    query: String,
    headers: HeaderMap,
    client: std::net::IpAddr,
}

impl RequestHead {
    fn signed(&self) -> SignedRequest<'_> {
        SignedRequest { method: self.method.as_str(), path: &self.path, query: &self.query }
    }

    fn target(&self) -> String {
        match self.query.as_str() {
            "" => self.path.clone(),
            query => format!("{}?{query}", self.path),
        }
    }
}

/// A response of the active server, or one of this server.
enum Answer {
    Forwarded(Response),
    Own(Response),
}

/// The outcome of one attempt.
enum Attempt {
    Answered(http::Response<ActiveBody>),
    /// The server got nothing of the request, or may get it once more. Without a pause it was a connection that had become
    /// invalid.
    Repeatable {
        body: ClientBody,
        needs_pause: bool,
    },
    Failed(Error),
}

impl Forwarder {
    fn new(config: &Config, active: watch::Receiver<ActiveServer>, replica: CurrentReplica) -> Self {
        let (config, held_requests) = (config.clone(), Semaphore::new(MAX_HELD));
        Self { config, active, replica, connections: ConnectionPool::default(), held_requests }
    }

    async fn respond(&self, request: RequestParts) -> Response {
        let info = request.info.clone();
        let cors = Cors::new(&self.config.allowed_origins);
        let origin = cors.allowed_origin(&request.headers);
        let own_response = |mut response: Response| {
            add_common_headers(cors, origin, response.headers_mut());
            response
        };
        let mut response = match self.forward(request).await {
            Ok(Answer::Forwarded(response)) => response,
            Ok(Answer::Own(response)) => own_response(response),
            Err(error) => own_response(reply::error(error, &info)),
        };
        if self.active.borrow().is_this {
            // The next request is for the server itself.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn forward(&self, request: RequestParts) -> Result<Answer> {
        let mut active = self.active.clone();
        let current = active.borrow().clone();
        let prefix = ResourceUrls::from_config(&self.config).prefix();
        let path = urls::without_prefix(&request.path, prefix);
        // From then on this server changes the state, and its copy is not followed any more.
        let is_handed_over = current.is_this && current.address.is_some();
        let is_health = path == "/api/health";
        if !is_handed_over
            && local_read::is_local(&request.method, path)
            && let Some(replica) = self.replica.get()
        {
            let answered = match local_read::admit(&replica, &request) {
                Ok(call) => local_read::answer(&replica, call).await,
                Err(error) => Err(error),
            };
            match answered {
                Ok(response) => return Ok(Answer::Own(response)),
                Err(error) => tracing::debug!(%error, "a request for a file is passed on"),
            }
        }
        let RequestParts { method, path, query, headers, info, body, slot } = request;
        if is_health && headers::is_safe(&method) && !is_handed_over {
            return Ok(Answer::Own(reply::json(&Health::STANDBY)));
        }
        if method == Method::CONNECT {
            return Err(Error::new(Code::MethodNotAllowed, "this server is no proxy for other servers"));
        }
        let signed = SignedRequest { method: method.as_str(), path: &path, query: &query };
        let header = headers.get(CLIENT_HEADER).and_then(|header| header.to_str().ok());
        let forwarded_client =
            header.and_then(|header| verify(&current.keys, header, signed, Timestamp::now().as_second()));
        if forwarded_client.is_some() && !current.is_this {
            // The other standby has an old address, or this server's own.
            let mut response = reply::error(unavailable_error(), &info);
            response.headers_mut().insert(CLIENT_HEADER, STANDBY_ANSWER);
            return Ok(Answer::Own(response));
        }
        let trusted = &self.config.trusted_proxies;
        let client = forwarded_client.unwrap_or_else(|| client::address(&headers, info.remote, trusted));
        let headers = headers::of_request(&headers, info.remote);
        let head = RequestHead { method, path, query, headers, client };
        let response = self.send_until_answered(&head, body, &mut active).await?;
        Ok(Answer::Forwarded(to_response(response, &slot)))
    }

    /// Sends a request, again if the server got nothing of it or may get it once more, and holds it while no server is active.
    async fn send_until_answered(
        &self,
        head: &RequestHead,
        body: RequestBody,
        active: &mut watch::Receiver<ActiveServer>,
    ) -> Result<http::Response<ActiveBody>> {
        let mut held_request: Option<(SemaphorePermit, Instant)> = None;
        let mut body = ClientBody(body);
        loop {
            let server = active.borrow_and_update().clone();
            if let Some(address) = server.address.as_deref() {
                match self.attempt(head, body, address, &server, active).await {
                    Attempt::Answered(response) => return Ok(response),
                    Attempt::Failed(error) => return Err(error),
                    Attempt::Repeatable { body: unsent, needs_pause } => {
                        body = unsent;
                        if !needs_pause {
                            continue;
                        }
                    }
                }
            }
            let now = Instant::now();
            let deadline = match &held_request {
                Some((_, deadline)) => *deadline,
                None => {
                    let permit = self.held_requests.try_acquire().map_err(|_| unavailable_error())?;
                    held_request.insert((permit, now + HOLD_TIMEOUT)).1
                }
            };
            if now >= deadline {
                return Err(unavailable_error());
            }
            let pause = tokio::time::sleep(RETRY_INTERVAL.min(deadline - now));
            tokio::select! {
                () = pause => {}
                Ok(()) = active.changed() => {}
            }
        }
    }

    async fn attempt(
        &self,
        head: &RequestHead,
        body: ClientBody,
        address: &str,
        server: &ActiveServer,
        active: &mut watch::Receiver<ActiveServer>,
    ) -> Attempt {
        let is_safe = headers::is_safe(&head.method) && body.0.is_empty();
        let idle = if is_safe { self.connections.take(address) } else { None };
        let is_new = idle.is_none();
        let connection = match idle {
            Some(connection) => connection,
            None => match self.connections.open(address).await {
                Ok(connection) => connection,
                Err(cause) => {
                    tracing::debug!(%cause, address, "the active server cannot be reached");
                    return Attempt::Repeatable { body, needs_pause: true };
                }
            },
        };
        let mut headers = head.headers.clone();
        headers::sign_client(
            &mut headers,
            server.keys.first(),
            head.client,
            head.signed(),
            Timestamp::now().as_second(),
        );
        let is_empty = body.0.is_empty();
        let mut request = Request::new(body);
        (*request.method_mut(), *request.headers_mut()) = (head.method.clone(), headers);
        match head.target().parse() {
            Ok(target) => *request.uri_mut() = target,
            Err(cause) => return Attempt::Failed(Error::new(Code::BadRequest, format!("invalid target: {cause}"))),
        }
        let repeat = |needs_pause| Attempt::Repeatable { body: ClientBody(RequestBody::empty()), needs_pause };
        let sent = tokio::select! {
            sent = self.connections.send(connection, request) => sent,
            () = tokio::time::sleep(RESPONSE_TIMEOUT) => Err(SendFailure::Unknown("no response in time".to_owned())),
            // The former active server is gone, although its connection may still look open.
            () = wait_for_another(active, address), if is_safe => return repeat(false),
        };
        match sent {
            Ok(response) if response.headers().get(CLIENT_HEADER) == Some(&STANDBY_ANSWER) => {
                if is_empty {
                    repeat(true)
                } else {
                    Attempt::Failed(unavailable_error())
                }
            }
            Ok(response) => Attempt::Answered(response),
            Err(SendFailure::NotSent(body)) => Attempt::Repeatable { body, needs_pause: is_new },
            Err(SendFailure::Unknown(cause)) if is_safe => {
                tracing::debug!(cause, "the active server closed a connection before its response");
                repeat(is_new)
            }
            Err(SendFailure::Unknown(cause)) => Attempt::Failed(unknown_outcome_error(cause)),
        }
    }
}

/// Resolves when the active server has another address.
async fn wait_for_another(active: &mut watch::Receiver<ActiveServer>, address: &str) {
    let is_another = |server: &ActiveServer| server.address.as_deref().is_some_and(|other| other != address);
    if active.wait_for(is_another).await.is_err() {
        std::future::pending().await
    }
}

/// The response as the client gets it; a connection with valid credentials is protected from eviction.
fn to_response(received: http::Response<ActiveBody>, slot: &ConnectionSlot) -> Response {
    let (head, body) = received.into_parts();
    let mut headers = headers::without_hop_by_hop(&head.headers);
    if headers.remove(CLIENT_HEADER).is_some_and(|value| value == AUTHENTICATED_CLIENT) {
        slot.mark_authenticated();
    }
    let mut response = reply::empty();
    (*response.status_mut(), *response.headers_mut()) = (head.status, headers);
    if head.status != StatusCode::NO_CONTENT && head.status != StatusCode::NOT_MODIFIED {
        response.extensions_mut().insert(ForwardedBody::new(body));
    }
    response
}

fn unavailable_error() -> Error {
    Error::new(Code::ServerBusy, "no server is active at the moment").with_retry_after(RETRY_AFTER)
}

fn unknown_outcome_error(cause: String) -> Error {
    let message =
        "the active server has ended, and whether the change was stored is unknown: check before you repeat it";
    Error::new(Code::Internal, message).with_cause(cause)
}

#[cfg(test)]
mod tests;
