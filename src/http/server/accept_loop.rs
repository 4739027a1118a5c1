//! The accept loop: connection limits, TCP_NODELAY, and graceful shutdown (draining).

use std::future::Future;
use std::pin::pin;
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

/// Serves until `stop` resolves; responses in flight then have at most 4 s to finish.
pub async fn serve(routes: Routes, config: &Config, bound: TcpListener, stop: impl Future<Output = ()>) -> Result<()> {
    raise_file_limit();
    let slots = ConnectionSlots::new(config.limits.connections, &config.trusted_proxies);
    let (phase, phase_receiver) = watch::channel(ShutdownPhase::Serving);
    let threads = WorkerThreads::start(&routes, &phase_receiver).map_err(Error::internal)?;
    let mut stop = pin!(stop);
    loop {
        let (socket, remote) = tokio::select! {
            () = &mut stop => break,
            accepted = bound.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(cause) => {
                    tracing::warn!(%cause, "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let slot = match slots.acquire(remote.ip()) {
            Ok(slot) => slot,
            Err(refusal) => {
                reject_connection(&socket, refusal);
                continue;
            }
        };
        let _ = socket.set_nodelay(true);
        match socket.into_std() {
            // Also while a thread's queue is full, so that a thread that waits for a disk cannot delay the shutdown.
            Ok(socket) => tokio::select! {
                () = &mut stop => break,
                () = threads.assign(AcceptedConnection { socket, remote: remote.ip(), slot }) => {}
            },
            Err(cause) => tracing::warn!(%cause, "a connection could not be passed to its thread"),
        }
    }
    drop((bound, threads));
    phase.send_replace(ShutdownPhase::Draining);
    if tokio::time::timeout(DRAIN_TIMEOUT, slots.wait_until_drained()).await.is_err() {
        tracing::warn!(left = slots.open_connections(), "aborting responses still in flight");
        phase.send_replace(ShutdownPhase::Closed);
    }
    Ok(())
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
