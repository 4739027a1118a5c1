//! Connections to the active server: one request at a time on each, kept open for the next one.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::Stream;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use tokio::net::TcpStream;

use crate::error::Error;
use crate::http::server::{BodyError, RequestBody};

/// Time to connect to the active server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long after a failure no other connection to the same address is tried.
const FAILURE_MEMORY: Duration = Duration::from_millis(20);

/// Most bytes of a response that are read before they are passed on.
const MAX_BUFFER_BYTES: usize = 128 * 1024;

/// Most idle connections, and how long one is used again: shorter than the server keeps it.
const MAX_IDLE: usize = 64;
const MAX_IDLE_TIME: Duration = Duration::from_secs(5);

/// Time after which a connection to a machine that is gone is closed: without bytes to send 2 s and three probes, with them 5 s.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(2);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_PROBES: u32 = 3;
const USER_TIMEOUT_MS: u32 = 5_000;

/// The body of a request that is passed on.
pub struct ClientBody(pub RequestBody);

impl Body for ClientBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let chunk = ready!(Pin::new(&mut self.0).poll_next(context));
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data).map_err(Error::internal)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.declared_bytes().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Why there is no response.
pub enum SendFailure {
    /// The server got nothing of the request; the body is untouched.
    NotSent(ClientBody),
    /// The server may have got the request.
    Unknown(String),
}

/// A connection that can send a request.
pub struct ActiveConnection {
    address: String,
    sender: SendRequest<ClientBody>,
}

impl ActiveConnection {
    async fn open(address: &str) -> io::Result<Self> {
        let connect = async {
            let socket = TcpStream::connect(address).await?;
            socket.set_nodelay(true)?;
            sockopt::set_socket_keepalive(&socket, true)?;
            sockopt::set_tcp_keepidle(&socket, KEEPALIVE_IDLE)?;
            sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
            sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
            sockopt::set_tcp_user_timeout(&socket, USER_TIMEOUT_MS)?;
            let mut builder = http1::Builder::new();
            let builder = builder.max_buf_size(MAX_BUFFER_BYTES);
            let (sender, connection) = builder.handshake(TokioIo::new(socket)).await.map_err(io::Error::other)?;
            // It ends with the socket, and when the sender and the present response are dropped.
            tokio::spawn(async move {
                if let Err(cause) = connection.await {
                    tracing::debug!(%cause, "a connection to the active server ended");
                }
            });
            Ok(Self { address: address.to_owned(), sender })
        };
        tokio::time::timeout(CONNECT_TIMEOUT, connect).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Idle connections, and the last failure to open one. Cheap to clone.
#[derive(Clone, Default)]
pub struct ConnectionPool(Arc<Mutex<PoolState>>);

#[derive(Default)]
struct PoolState {
    idle: Vec<(Instant, ActiveConnection)>,
    /// The address that could not be reached, and when.
    failed: Option<(String, Instant)>,
}

impl ConnectionPool {
    /// An idle connection to `address`. Its server may be about to close it, so it is for requests that may be repeated only.
    pub fn take(&self, address: &str) -> Option<ActiveConnection> {
        let idle = &mut self.lock().idle;
        idle.retain(|(since, connection)| {
            since.elapsed() < MAX_IDLE_TIME && connection.address == address && !connection.sender.is_closed()
        });
        let newest = idle.iter().rposition(|(_, connection)| connection.sender.is_ready())?;
        Some(idle.swap_remove(newest).1)
    }

    /// Opens a connection. After a failure, the many requests that are held do not all try again at once.
    ///
    /// # Errors
    /// The system's error, at the latest after a second.
    pub async fn open(&self, address: &str) -> io::Result<ActiveConnection> {
        let failed = self.lock().failed.clone();
        if failed.is_some_and(|(failed, at)| failed == address && at.elapsed() < FAILURE_MEMORY) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let opened = ActiveConnection::open(address).await;
        self.lock().failed = opened.is_err().then(|| (address.to_owned(), Instant::now()));
        opened
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request; the response has the body that is being received.
    pub async fn send(
        &self,
        mut connection: ActiveConnection,
        request: Request<ClientBody>,
    ) -> Result<Response<ActiveBody>, SendFailure> {
        match connection.sender.try_send_request(request).await {
            Ok(response) => {
                let connection = Some((self.clone(), connection));
                Ok(response.map(|incoming| ActiveBody { incoming, connection }))
            }
            Err(mut failure) => Err(match failure.take_message() {
                Some(request) => SendFailure::NotSent(request.into_body()),
                None => SendFailure::Unknown(failure.error().to_string()),
            }),
        }
    }

    fn keep(&self, connection: ActiveConnection) {
        let idle = &mut self.lock().idle;
        if idle.len() >= MAX_IDLE {
            idle.remove(0);
        }
        idle.push((Instant::now(), connection));
    }
}

/// The body of the active server's response. Its connection is kept if the body was received completely.
pub struct ActiveBody {
    incoming: Incoming,
    connection: Option<(ConnectionPool, ActiveConnection)>,
}

impl Body for ActiveBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.incoming).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for ActiveBody {
    fn drop(&mut self) {
        if self.incoming.is_end_stream()
            && let Some((pool, connection)) = self.connection.take()
        {
            pool.keep(connection);
        }
    }
}
