//! The accept loop: connection limits, TCP_NODELAY, and graceful shutdown (draining).

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::connection_slots::{ConnectionRefusal, ConnectionSlots};
use super::request_context::RequestId;
use super::worker_thread::{AcceptedConnection, Routes, ShutdownPhase, WorkerThreads};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::service::accounts::random_bytes;

/// How long responses in flight may take to finish during shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(4);

/// How long the last accepted connection may wait for its thread.
const ASSIGN_TIMEOUT: Duration = Duration::from_millis(100);

/// Serves until `stop` resolves; responses in flight then have at most 4 s to finish.
pub async fn serve(routes: Routes, config: &Config, bound: TcpListener, stop: impl Future<Output = ()>) -> Result<()> {
    let server = Server::start(&routes, config)?;
    server.accept(bound, stop).await;
    server.drain().await;
    Ok(())
}

/// Serves like [`serve`] until `handover` resolves, when another server accepts on a duplicate of the same socket. Connections
/// then stay until their clients or `routes` close them, or `stop` resolves.
pub async fn serve_until_handover(
    routes: Routes,
    config: &Config,
    bound: TcpListener,
    handover: impl Future<Output = ()>,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let server = Server::start(&routes, config)?;
    let mut stop = pin!(stop);
    let is_stopped = async {
        tokio::select! {
            () = handover => false,
            () = &mut stop => true,
        }
    };
    if !server.accept(bound, is_stopped).await {
        tokio::select! {
            () = server.slots.wait_until_drained() => return Ok(()),
            () = &mut stop => {}
        }
    }
    server.drain().await;
    Ok(())
}

/// The threads of a server, and the slots of its connections.
struct Server {
    slots: Arc<ConnectionSlots>,
    phase: watch::Sender<ShutdownPhase>,
    threads: WorkerThreads,
}

impl Server {
    fn start(routes: &Routes, config: &Config) -> Result<Self> {
        raise_file_limit();
        let slots = ConnectionSlots::new(config.limits.connections, &config.trusted_proxies);
        let (phase, phase_receiver) = watch::channel(ShutdownPhase::Serving);
        let threads = WorkerThreads::start(routes, &phase_receiver).map_err(Error::internal)?;
        Ok(Self { slots, phase, threads })
    }

    /// Accepts connections until `stop` resolves; returns its value.
    async fn accept<T>(&self, bound: TcpListener, stop: impl Future<Output = T>) -> T {
        let mut stop = pin!(stop);
        loop {
            let (socket, remote) = tokio::select! {
                stopped = &mut stop => return stopped,
                accepted = bound.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(cause) => {
                        tracing::warn!(%cause, "accept failed");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
            };
            let slot = match self.slots.acquire(remote.ip()) {
                Ok(slot) => slot,
                Err(refusal) => {
                    reject_connection(&socket, refusal);
                    continue;
                }
            };
            let _ = socket.set_nodelay(true);
            match socket.into_std() {
                // A connection that was accepted gets its thread also at the stop, because it may be the last one before a handover.
                // A thread that waits for a disk, so that its queue is full, cannot delay the shutdown.
                Ok(socket) => {
                    let mut assigning =
                        pin!(self.threads.assign(AcceptedConnection { socket, remote: remote.ip(), slot }));
                    tokio::select! {
                        biased;
                        () = &mut assigning => {}
                        stopped = &mut stop => {
                            let _ = tokio::time::timeout(ASSIGN_TIMEOUT, assigning).await;
                            return stopped;
                        }
                    }
                }
                Err(cause) => tracing::warn!(%cause, "a connection could not be passed to its thread"),
            }
        }
    }

    /// Ends all connections after their present response, at the latest after 4 s.
    async fn drain(self) {
        let Self { slots, phase, threads } = self;
        drop(threads);
        phase.send_replace(ShutdownPhase::Draining);
        if tokio::time::timeout(DRAIN_TIMEOUT, slots.wait_until_drained()).await.is_err() {
            tracing::warn!(left = slots.open_connections(), "aborting responses still in flight");
            phase.send_replace(ShutdownPhase::Closed);
        }
    }
}

/// Sends a 503, as much of it as one write takes, and closes the connection.
fn reject_connection(socket: &TcpStream, refusal: ConnectionRefusal) {
    let message = match refusal {
        ConnectionRefusal::Server => "the server has reached its connection limit",
        ConnectionRefusal::Address => "too many open connections from this address",
    };
    let id = RequestId::new(random_bytes::<8>(), 0);
    let id = id.as_str();
    let body = format!(r#"{{"error":"{message}","code":"SERVER_BUSY","requestId":"{id}"}}"#);
    let response = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncache-control: no-store\r\n\
         x-request-id: {id}\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = socket.try_write(response.as_bytes());
}

/// Raises the limit of open files to the hard limit: every connection and every open media file needs one.
fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_err() {
        tracing::warn!(?current, "the limit of open files could not be raised");
    }
}
