//! A thread that serves connections (keep-alive HTTP/1): one per core, each with a runtime of its own.
//!
//! A connection stays on its thread, so a byte range of a file is sent without switching threads (measured: see the
//! bench's README). A request that cannot be answered immediately runs on the main runtime.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tower_service::Service as _;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use super::alarm::Alarm;
use super::body::Outgoing;
use super::call::{Arrival, Context, RequestId};
use super::places::Place;
use super::reply;
use super::wire::{Pace, Runs, Wire};
use crate::error::{Code, Error};
use crate::service::accounts::random_bytes;

/// Timeout for the head of a request, and for the next request on an idle connection.
const HEAD_DEADLINE: Duration = Duration::from_secs(15);

/// Longest request target, bytes: enough for a path of 4,096 bytes with every byte percent-encoded.
const MAX_TARGET_BYTES: usize = 16 * 1024;

/// Most header bytes of a request. (hyper limits the lines to 100.)
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Most bytes of a head that hyper reads before it rejects the request.
const MAX_HEAD_BYTES: usize = 64 * 1024;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Accepted sockets queued for a thread; further ones wait in the accept loop.
const ARRIVING: usize = 64;

/// Most threads: two cores saturate a 10 Gbit/s link.
const MOST_LANES: usize = 8;

/// The server's shutdown phase, watched by connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Serving,
    /// Responses in flight may finish; no further request is read.
    Draining,
    /// Remaining connections are dropped.
    Over,
}

type Routes = BoxedFilter<(Response,)>;

/// An accepted connection.
pub struct Arrived {
    pub socket: std::net::TcpStream,
    pub remote: IpAddr,
    /// Its connection slot.
    pub place: Place,
}

/// All connection threads.
pub struct Lanes(Vec<Lane>);

struct Lane {
    arriving: mpsc::Sender<Arrived>,
    connections: Arc<AtomicUsize>,
}

impl Lanes {
    /// Starts one thread per core. They end after this is dropped and their connections are closed.
    ///
    /// # Errors
    /// When the system cannot create a thread or an event queue.
    pub fn start(routes: &Routes, phase: &watch::Receiver<Phase>) -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from).min(MOST_LANES);
        (0..cores).map(|number| Lane::start(number, routes.clone(), phase.clone())).collect::<Result<_, _>>().map(Self)
    }

    /// Hands a connection to the thread with the fewest connections.
    pub async fn take(&self, arrived: Arrived) {
        let open = |lane: &&Lane| lane.connections.load(Ordering::Relaxed);
        let lane = self.0.iter().min_by_key(open).expect("there is at least one thread");
        lane.connections.fetch_add(1, Ordering::Relaxed);
        if lane.arriving.send(arrived).await.is_err() {
            tracing::error!("a connection thread has ended");
        }
    }
}

impl Lane {
    fn start(number: usize, routes: Routes, phase: watch::Receiver<Phase>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (arriving, arrivals) = mpsc::channel(ARRIVING);
        let connections = Arc::new(AtomicUsize::new(0));
        let open = connections.clone();
        thread::Builder::new()
            .name(format!("connections-{number}"))
            .spawn(move || serve(runtime, arrivals, &routes, &phase, &open))?;
        Ok(Self { arriving, connections })
    }
}

/// Serves connections until the channel is closed and all of them have ended.
fn serve(
    runtime: Runtime,
    mut arrivals: mpsc::Receiver<Arrived>,
    routes: &Routes,
    phase: &watch::Receiver<Phase>,
    open: &Arc<AtomicUsize>,
) {
    runtime.block_on(async {
        let mut connections = JoinSet::new();
        while let Some(Arrived { socket, remote, place }) = arrivals.recv().await {
            let (routes, phase, leaving) = (routes.clone(), phase.clone(), Leaving(open.clone()));
            connections.spawn(async move {
                let (place, _leaving) = (Arc::new(place), leaving);
                match TcpStream::from_std(socket) {
                    Ok(socket) => connection(socket, remote, place, routes, phase).await,
                    Err(cause) => tracing::warn!(%cause, "a connection could not be served"),
                }
            });
            while connections.try_join_next().is_some() {}
        }
        while connections.join_next().await.is_some() {}
    });
    // A blocking task that is still running must not keep the thread alive.
    runtime.shutdown_background();
}

/// Decrements the thread's connection count on drop.
struct Leaving(Arc<AtomicUsize>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves the requests of one connection.
async fn connection(
    socket: TcpStream,
    remote: IpAddr,
    place: Arc<Place>,
    routes: Routes,
    mut phase: watch::Receiver<Phase>,
) {
    let routes = warp::service(routes);
    let eviction = place.clone();
    let runs = Runs::default();
    let queue = runs.clone();
    let wire = Wire::new(socket, runs, Pace::new(place.clone()));
    // Request IDs are random bytes drawn once per connection plus a counter: this saves a system call per request.
    let (connection_id, answered) = (random_bytes::<8>(), AtomicU32::new(0));
    let answer = service_fn(move |mut request: hyper::Request<Incoming>| {
        let request_id = RequestId::new(connection_id, answered.fetch_add(1, Ordering::Relaxed));
        let context = Context { request_id: request_id.clone(), remote };
        let refused = too_large(&request).map(|error| reply::error(error, &context));
        let routed = refused.is_none().then(|| {
            let headers = Arc::new(std::mem::take(request.headers_mut()));
            request.extensions_mut().insert(Arrival { context, headers, place: place.clone() });
            routes.clone().call(request)
        });
        let runs = queue.clone();
        async move {
            let mut response = match (refused, routed) {
                (Some(refused), _) => refused,
                (None, Some(routed)) => routed.await?,
                (None, None) => unreachable!("a request is either rejected or routed"),
            };
            response.headers_mut().insert(X_REQUEST_ID, request_id.header().clone());
            Ok::<_, Infallible>(Outgoing::of(response, runs))
        }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(Alarm::default())
            .header_read_timeout(HEAD_DEADLINE)
            .max_header_size(MAX_HEAD_BYTES)
            .serve_connection(wire, answer)
    );
    loop {
        tokio::select! {
            biased;
            ended = &mut connection => {
                if let Err(cause) = ended {
                    tracing::debug!(%cause, "connection ended");
                }
                return;
            }
            () = eviction.evicted() => {
                tracing::debug!("closed a slow connection without credentials to free its slot");
                return;
            }
            changed = phase.changed() => match *phase.borrow() {
                _ if changed.is_err() => return,
                Phase::Serving => {}
                Phase::Draining => connection.as_mut().graceful_shutdown(),
                Phase::Over => return,
            },
        }
    }
}

/// The error for a head that hyper accepts but that exceeds our limits.
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use warp::Filter;

    use super::super::places::Places;
    use super::*;

    #[tokio::test]
    async fn a_connection_that_gives_way_is_closed() {
        let routes: Routes = warp::any().map(|| Response::new("answer".into())).boxed();
        let (_phase, watching) = watch::channel(Phase::Serving);
        let lanes = Lanes::start(&routes, &watching).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, peer) = listener.accept().await.unwrap();
        let places = Places::new(1, &[]);
        let arrived =
            Arrived { socket: socket.into_std().unwrap(), remote: peer.ip(), place: places.take(peer.ip()).unwrap() };
        lanes.take(arrived).await;
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut head = [0; 12];
        client.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        let _newcomer = places.take_at([192, 0, 2, 1].into(), Instant::now() + Duration::from_secs(10)).unwrap();
        let mut rest = Vec::new();
        // The read ends because the server closed the connection, which would otherwise stay open for 15 s more.
        let before = Instant::now();
        let _ = client.read_to_end(&mut rest).await;
        assert!(before.elapsed() < HEAD_DEADLINE, "{:?}", before.elapsed());
    }
}
