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

use super::connection::{Connection, FileRangeQueue, ReceiveRate};
use super::connection_slots::ConnectionSlot;
use super::header_timer::HeaderTimer;
use super::request_context::{RequestContext, RequestId, RequestInfo};
use super::response_body::ResponseBody;
use crate::error::{Code, Error};
use crate::http::reply;
use crate::service::accounts::random_bytes;

/// Timeout for the head of a request, and for the next request on an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// Longest request target, bytes: enough for a path of 4,096 bytes with every byte percent-encoded.
const MAX_TARGET_BYTES: usize = 16 * 1024;

/// Most header bytes of a request. (hyper limits the lines to 100.)
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Most bytes of a head that hyper reads before it rejects the request.
const MAX_HEAD_BYTES: usize = 64 * 1024;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Accepted sockets queued for a thread; further ones wait in the accept loop.
const ACCEPT_QUEUE: usize = 64;

/// Most threads: two cores saturate a 10 Gbit/s link.
const MAX_THREADS: usize = 8;

/// The server's shutdown phase, watched by connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ShutdownPhase {
    Serving,
    /// Responses in flight may finish; no further request is read.
    Draining,
    /// Remaining connections are dropped.
    Closed,
}

/// All routes, as one filter.
pub type Routes = BoxedFilter<(Response,)>;

pub struct AcceptedConnection {
    pub socket: std::net::TcpStream,
    pub remote: IpAddr,
    pub slot: ConnectionSlot,
}

pub struct WorkerThreads(Vec<WorkerThread>);

struct WorkerThread {
    queue: mpsc::Sender<AcceptedConnection>,
    open_connections: Arc<AtomicUsize>,
}

impl WorkerThreads {
    /// Starts one thread per core. They end after this is dropped and their connections are closed.
    pub fn start(routes: &Routes, phase: &watch::Receiver<ShutdownPhase>) -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        (0..cores).map(|n| WorkerThread::start(n, routes.clone(), phase.clone())).collect::<Result<_, _>>().map(Self)
    }

    /// Hands a connection to the thread with the fewest connections.
    pub async fn assign(&self, accepted: AcceptedConnection) {
        let connection_count = |thread: &&WorkerThread| thread.open_connections.load(Ordering::Relaxed);
        let thread = self.0.iter().min_by_key(connection_count).expect("there is at least one thread");
        thread.open_connections.fetch_add(1, Ordering::Relaxed);
        if thread.queue.send(accepted).await.is_err() {
            tracing::error!("a connection thread has ended");
        }
    }
}

impl WorkerThread {
    fn start(number: usize, routes: Routes, phase: watch::Receiver<ShutdownPhase>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (queue, accepted) = mpsc::channel(ACCEPT_QUEUE);
        let open_connections = Arc::new(AtomicUsize::new(0));
        let thread_connections = open_connections.clone();
        thread::Builder::new()
            .name(format!("connections-{number}"))
            .spawn(move || run_thread(runtime, accepted, &routes, &phase, &thread_connections))?;
        Ok(Self { queue, open_connections })
    }
}

/// Serves connections until the channel is closed and all of them have ended.
fn run_thread(
    runtime: Runtime,
    mut accepted: mpsc::Receiver<AcceptedConnection>,
    routes: &Routes,
    phase: &watch::Receiver<ShutdownPhase>,
    open_count: &Arc<AtomicUsize>,
) {
    runtime.block_on(async {
        let mut connections = JoinSet::new();
        while let Some(AcceptedConnection { socket, remote, slot }) = accepted.recv().await {
            let (routes, phase, guard) = (routes.clone(), phase.clone(), ConnectionCountGuard(open_count.clone()));
            connections.spawn(async move {
                let (slot, _count_guard) = (Arc::new(slot), guard);
                match TcpStream::from_std(socket) {
                    Ok(socket) => serve_connection(socket, remote, slot, routes, phase).await,
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
struct ConnectionCountGuard(Arc<AtomicUsize>);

impl Drop for ConnectionCountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves the requests of one connection.
async fn serve_connection(
    socket: TcpStream,
    remote: IpAddr,
    slot: Arc<ConnectionSlot>,
    routes: Routes,
    mut phase: watch::Receiver<ShutdownPhase>,
) {
    let routes = warp::service(routes);
    let evictable_slot = slot.clone();
    let file_ranges = FileRangeQueue::default();
    let range_queue = file_ranges.clone();
    let transport = Connection::new(socket, file_ranges, ReceiveRate::new(slot.clone()));
    // Request IDs are random bytes drawn once per connection plus a counter: this saves a system call per request.
    let (connection_id, request_count) = (random_bytes::<8>(), AtomicU32::new(0));
    let handler = service_fn(move |mut request: hyper::Request<Incoming>| {
        let request_id = RequestId::new(connection_id, request_count.fetch_add(1, Ordering::Relaxed));
        let info = RequestInfo { request_id: request_id.clone(), remote, is_forwarded: false };
        let rejection = check_head_size(&request).map(|error| reply::error(error, &info));
        let pending_response = rejection.is_none().then(|| {
            let headers = Arc::new(std::mem::take(request.headers_mut()));
            request.extensions_mut().insert(RequestContext { info, headers, slot: slot.clone() });
            routes.clone().call(request)
        });
        let file_ranges = range_queue.clone();
        async move {
            let mut response = match (rejection, pending_response) {
                (Some(response), _) => response,
                (None, Some(pending)) => pending.await?,
                (None, None) => unreachable!("a request is either rejected or routed"),
            };
            // A response of the active server has its own.
            response.headers_mut().entry(X_REQUEST_ID).or_insert_with(|| request_id.header().clone());
            Ok::<_, Infallible>(ResponseBody::from_response(response, file_ranges))
        }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(HeaderTimer::default())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_header_size(MAX_HEAD_BYTES)
            .serve_connection(transport, handler)
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
            () = evictable_slot.wait_until_evicted() => {
                tracing::debug!("closed a slow connection without credentials to free its slot");
                return;
            }
            changed = phase.changed() => match *phase.borrow() {
                _ if changed.is_err() => return,
                ShutdownPhase::Serving => {}
                ShutdownPhase::Draining => connection.as_mut().graceful_shutdown(),
                ShutdownPhase::Closed => return,
            },
        }
    }
}

/// The error for a head that hyper accepts but that exceeds our limits.
fn check_head_size(request: &hyper::Request<Incoming>) -> Option<Error> {
    let target_bytes = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target_bytes > MAX_TARGET_BYTES {
        return Some(Error::new(Code::UriTooLong, format!("the target is longer than {MAX_TARGET_BYTES} bytes")));
    }
    let headers: &HeaderMap = request.headers();
    let header_bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    (header_bytes > MAX_HEADER_BYTES)
        .then(|| Error::new(Code::HeadersTooLarge, format!("the headers are larger than {MAX_HEADER_BYTES} bytes")))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use warp::Filter;

    use super::super::connection_slots::ConnectionSlots;
    use super::super::lazy_segment::LazySegmentBody;
    use super::*;
    use crate::domain::grid::Grid;
    use crate::domain::library::Root;
    use crate::domain::media::{Container, Media, Stream, StreamKind, Video};
    use crate::domain::plan::{Rendition, VideoPlan};
    use crate::domain::range::ByteRange;
    use crate::domain::segment_format::SegmentFormat;
    use crate::engine::content::SegmentContent;
    use crate::engine::damaged_films::make_film;
    use crate::engine::packager::{self, LazySegment, Packager};
    use crate::engine::source::{Roots, SourceFile};
    use crate::engine::{Backend as _, Job, RenditionSpec};
    use crate::service::background_tasks::BackgroundTasks;
    use crate::service::library::Library;

    #[tokio::test]
    async fn an_evicted_connection_is_closed() {
        let routes: Routes = warp::any().map(|| Response::new("answer".into())).boxed();
        let (_phase, phase_receiver) = watch::channel(ShutdownPhase::Serving);
        let threads = WorkerThreads::start(&routes, &phase_receiver).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, peer) = listener.accept().await.unwrap();
        let slots = ConnectionSlots::new(1, &[]);
        let accepted = AcceptedConnection {
            socket: socket.into_std().unwrap(),
            remote: peer.ip(),
            slot: slots.acquire(peer.ip()).unwrap(),
        };
        threads.assign(accepted).await;
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut head = [0; 12];
        client.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        let _newcomer = slots.acquire_at([192, 0, 2, 1].into(), Instant::now() + Duration::from_secs(10)).unwrap();
        let mut rest = Vec::new();
        // The read ends because the server closed the connection, which would otherwise stay open for 15 s more.
        let started = Instant::now();
        let _ = client.read_to_end(&mut rest).await;
        assert!(started.elapsed() < HEAD_TIMEOUT, "{:?}", started.elapsed());
    }

    /// The only segment of the video of a film, as CMAF.
    async fn cmaf_segment(source: &Arc<SourceFile>, container: Container) -> Arc<LazySegment> {
        let stream = Stream::new(0, "h264", StreamKind::Video(Video::new(64, 48)));
        let media = Media::new(container, vec![stream]);
        let track = packager::open_cmaf_track(source, &media, 0).await.unwrap();
        let rendition = Rendition {
            video: Some(VideoPlan::Copy { stream: 0 }),
            format: SegmentFormat::Fmp4,
            ..Rendition::default()
        };
        let spec = RenditionSpec {
            source: source.clone(),
            fingerprint: "f_0".into(),
            media: Arc::new(media),
            rendition: Arc::new(rendition),
            grid: Arc::new(Grid::from_keyframes(&[], 2.0, 3.0)),
            sidecar: None,
            watermark: None,
            package: Some(Arc::new(track.into())),
        };
        let mut run = Packager.start(Job::new(Arc::new(spec), 0), 0).unwrap();
        match run.next().await.unwrap().unwrap().content {
            SegmentContent::Lazy(segment) => segment,
            SegmentContent::InMemory(_) => panic!("the packager makes lazy segments"),
        }
    }

    #[tokio::test]
    async fn a_cmaf_segment_is_sent_as_bytes_and_as_ranges_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root { id: "films".into(), path: folder.path().to_owned() };
        let library = Arc::new(Library::new(Arc::new(Roots::open(vec![root]).unwrap()), BackgroundTasks::default()));
        // One chunk of all frames, and a block for each frame.
        for (name, container) in [("a.mp4", Container::Mp4), ("a.mkv", Container::Matroska)] {
            let path = folder.path().join(name);
            std::fs::write(&path, make_film(name, "", "-crf 1")).unwrap();
            let source = library.open(path.to_str().unwrap()).await.unwrap();
            let segment = cmaf_segment(&source, container).await;
            let expected = segment.read_all(&source).unwrap();
            assert!(expected.len() > 20_000, "{name}: {} bytes", expected.len());
            // Twice the whole and a range between, which begins in the head and ends within a frame.
            let range = ByteRange { first: 5, last: expected.len() as u64 - 9_000 };
            let part = expected[5..=expected.len() - 9_000].to_vec();
            let whole = segment.clone().reader(source.clone());
            let readers = [whole.clone(), segment.range_reader(source, range).unwrap(), whole];
            let requests = Arc::new(AtomicUsize::new(0));
            let library = library.clone();
            let routes: Routes = warp::any()
                .map(move || {
                    let reader = readers[requests.fetch_add(1, Ordering::Relaxed)].clone();
                    let mut response = Response::new("".into());
                    response.extensions_mut().insert(LazySegmentBody::new(library.clone(), reader));
                    response
                })
                .boxed();
            let (_phase, phase_receiver) = watch::channel(ShutdownPhase::Serving);
            let threads = WorkerThreads::start(&routes, &phase_receiver).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (socket, peer) = listener.accept().await.unwrap();
            let slot = ConnectionSlots::new(1, &[]).acquire(peer.ip()).unwrap();
            threads.assign(AcceptedConnection { socket: socket.into_std().unwrap(), remote: peer.ip(), slot }).await;
            // On one connection.
            for expected in [&expected, &part, &expected] {
                client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(client.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                assert!(head.contains(&format!("content-length: {}\r\n", expected.len())), "{name}: {head}");
                let mut received = vec![0; expected.len()];
                client.read_exact(&mut received).await.unwrap();
                assert!(received == *expected, "{name}: other bytes");
            }
        }
    }
}
