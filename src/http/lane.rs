//! A thread that serves connections (keep-alive HTTP/1): one per core, each with a runtime of its own.
//!
//! A connection stays on its thread, so that a range of a file is answered from first to last byte without a hand-over
//! between threads (measured: see the bench's README). A request that cannot be answered at once runs on the program's own
//! runtime.

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
use super::call::{Admitted, Arrival, Context, RequestId};
use super::places::Place;
use super::reply;
use super::wire::{Pace, Runs, Wire};
use crate::error::{Code, Error};
use crate::service::accounts::random;

/// How long a client may take to send the head of a request, and how long a connection may wait for the next one.
const HEAD_DEADLINE: Duration = Duration::from_secs(15);

/// Longest request target, bytes: a path of 4,096 bytes may arrive with every byte percent-encoded.
const MAX_TARGET_BYTES: usize = 16 * 1024;

/// Header bytes of a request at most. (Lines: 100, by hyper.)
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// What hyper reads of a head before it refuses it.
const MAX_HEAD_BYTES: usize = 64 * 1024;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Sockets on their way to a lane; more wait with the accept loop.
const ARRIVING: usize = 64;

/// Lanes at most: two cores fill a wire of 10 Gbit/s.
const MOST_LANES: usize = 8;

/// Where a server is in its life; connections watch it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Serving,
    /// Answers under way may finish; no further request is read.
    Draining,
    /// Whatever is left is dropped.
    Over,
}

type Routes = BoxedFilter<(Response,)>;

/// An accepted connection.
pub struct Arrived {
    pub socket: std::net::TcpStream,
    pub remote: IpAddr,
    /// Its place among the connections that may be open.
    pub place: Place,
}

/// All lanes.
pub struct Lanes(Vec<Lane>);

struct Lane {
    arriving: mpsc::Sender<Arrived>,
    connections: Arc<AtomicUsize>,
}

impl Lanes {
    /// Starts a thread a core. They end when this is dropped and their connections are over.
    ///
    /// # Errors
    /// When the system gives no thread or no poller.
    pub fn start(routes: &Routes, phase: &watch::Receiver<Phase>) -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from).min(MOST_LANES);
        (0..cores).map(|number| Lane::start(number, routes.clone(), phase.clone())).collect::<Result<_, _>>().map(Self)
    }

    /// Hands a connection to the lane that has the fewest.
    pub async fn take(&self, arrived: Arrived) {
        let open = |lane: &&Lane| lane.connections.load(Ordering::Relaxed);
        let lane = self.0.iter().min_by_key(open).expect("there is a lane");
        lane.connections.fetch_add(1, Ordering::Relaxed);
        if lane.arriving.send(arrived).await.is_err() {
            tracing::error!("a thread of connections has ended");
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

/// Until no more arrive and all are over.
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
    // Whatever still blocks must not keep the thread.
    runtime.shutdown_background();
}

/// Counts a connection out.
struct Leaving(Arc<AtomicUsize>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers what comes over one connection.
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
    // One draw of random bytes a connection, and a count: a system call less for every range.
    let (connection_id, answered) = (random::<8>(), AtomicU32::new(0));
    let answer = service_fn(move |mut request: hyper::Request<Incoming>| {
        let request_id = RequestId::new(connection_id, answered.fetch_add(1, Ordering::Relaxed));
        let context = Context { request_id: request_id.clone(), remote };
        let refused = too_large(&request).map(|error| reply::error(error, &context));
        let routed = refused.is_none().then(|| {
            let headers = Arc::new(std::mem::take(request.headers_mut()));
            request.extensions_mut().insert(Arrival { context, headers });
            routes.clone().call(request)
        });
        let (runs, place) = (queue.clone(), place.clone());
        async move {
            let mut response = match (refused, routed) {
                (Some(refused), _) => refused,
                (None, Some(routed)) => routed.await?,
                (None, None) => unreachable!("a request is refused or routed"),
            };
            if response.extensions().get::<Admitted>().is_some() {
                place.admit();
            }
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
                tracing::debug!("a slow connection without credentials was closed for another one");
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
        // The end comes because it was closed: it would be kept open for 15 s more.
        let before = Instant::now();
        let _ = client.read_to_end(&mut rest).await;
        assert!(before.elapsed() < HEAD_DEADLINE, "{:?}", before.elapsed());
    }
}
