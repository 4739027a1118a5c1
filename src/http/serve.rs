//! The accept loop: warp's routes behind hyper, with limits, TCP_NODELAY and a request id on every answer.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioTimer;
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::body::Outgoing;
use super::call::{Arrival, Context, RequestId};
use super::reply;
use super::wire::{Runs, Wire};
use crate::error::{Code, Error};
use crate::service::Service;
use crate::service::accounts::random;

/// How long a client may take to send the head of a request, and how long a connection may wait for the next one.
const HEAD_DEADLINE: Duration = Duration::from_secs(15);

/// How long answers under way may take once the server is told to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Longest request target, bytes: a path of 4,096 bytes may arrive with every byte percent-encoded.
const MAX_TARGET_BYTES: usize = 16 * 1024;

/// Header bytes of a request at most. (Lines: 100, by hyper.)
const MAX_HEADER_BYTES: usize = 16 * 1024;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What hyper reads of a head before it refuses it.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Where a server is in its life; connections watch it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Answers under way may finish; no further request is read.
    Draining,
    /// Whatever is left is dropped.
    Over,
}

/// Serves until `stop` resolves; then lets answers under way finish, for 10 s at most.
pub async fn serve(service: Arc<Service>, listener: TcpListener, stop: impl Future<Output = ()>) {
    raise_file_limit();
    let most = service.config.limits.connections;
    let places = Arc::new(Semaphore::new(most));
    let routes = TowerToHyperService::new(warp::service(super::routes(&service)));
    let (phase, watching) = watch::channel(Phase::Serving);
    let mut stop = pin!(stop);
    loop {
        let (socket, remote) = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(cause) => {
                    tracing::warn!(%cause, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            turn_away(&socket);
            continue;
        };
        let _ = socket.set_nodelay(true);
        let runs = Runs::default();
        let (routes, queue) = (routes.clone(), runs.clone());
        // One draw of random bytes a connection, and a count: a system call less for every range.
        let (connection_id, answered) = (random::<8>(), AtomicU32::new(0));
        let answer = service_fn(move |mut request: hyper::Request<Incoming>| {
            let request_id = RequestId::new(connection_id, answered.fetch_add(1, Ordering::Relaxed));
            let context = Context { request_id: request_id.clone(), remote: remote.ip() };
            let refused = too_large(&request).map(|error| reply::error(error, &context));
            let routed = refused.is_none().then(|| {
                let headers = Arc::new(std::mem::take(request.headers_mut()));
                request.extensions_mut().insert(Arrival { context, headers });
                routes.call(request)
            });
            let runs = queue.clone();
            async move {
                let mut response = match (refused, routed) {
                    (Some(refused), _) => refused,
                    (None, Some(routed)) => routed.await?,
                    (None, None) => unreachable!("a request is refused or routed"),
                };
                response.headers_mut().insert(X_REQUEST_ID, request_id.header().clone());
                Ok::<_, Infallible>(Outgoing::of(response, runs))
            }
        });
        let mut watching = watching.clone();
        tokio::spawn(async move {
            let _place = place;
            let mut connection = pin!(
                http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_DEADLINE)
                    .max_header_size(MAX_HEAD_BYTES)
                    .serve_connection(Wire::new(socket, runs), answer)
            );
            loop {
                tokio::select! {
                    ended = &mut connection => {
                        if let Err(cause) = ended {
                            tracing::debug!(%cause, "connection ended");
                        }
                        return;
                    }
                    changed = watching.changed() => match *watching.borrow() {
                        _ if changed.is_err() => return,
                        Phase::Serving => {}
                        Phase::Draining => connection.as_mut().graceful_shutdown(),
                        Phase::Over => return,
                    },
                }
            }
        });
    }
    drop(listener);
    phase.send_replace(Phase::Draining);
    let all = places.acquire_many(u32::try_from(most).unwrap_or(u32::MAX));
    if tokio::time::timeout(DRAIN, all).await.is_err() {
        tracing::warn!(left = most - places.available_permits(), "answers under way were cut off");
        phase.send_replace(Phase::Over);
    }
}

/// A head that hyper took but that is larger than any client of ours needs.
fn too_large(request: &hyper::Request<Incoming>) -> Option<Error> {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target > MAX_TARGET_BYTES {
        return Some(Error::new(Code::UriTooLong, format!("the target is longer than {MAX_TARGET_BYTES} bytes")));
    }
    let headers: &HeaderMap = request.headers();
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    (bytes > MAX_HEADER_BYTES)
        .then(|| Error::new(Code::HeadersTooLarge, format!("the headers are larger than {MAX_HEADER_BYTES} bytes")))
}

/// Says that the server is full, as far as one write gets, and closes.
fn turn_away(socket: &TcpStream) {
    let body = r#"{"error":"the server has no free connection","code":"SERVER_BUSY","requestId":"-"}"#;
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncache-control: no-store\r\n\
         retry-after: 5\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = socket.try_write(answer.as_bytes());
}

/// Allows as many open files as the system lets this process have: every connection and every open film is one.
fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_err() {
        tracing::warn!(?current, "the limit of open files could not be raised");
    }
}
