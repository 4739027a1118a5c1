//! The accept loop: connection limits, TCP_NODELAY, and graceful shutdown (draining).

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::lane::{Arrived, Lanes, Phase};
use super::places::{Full, Places};
use crate::error::{Error, Result};
use crate::service::Service;

/// How long answers under way may take once the server is told to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Serves until `stop` resolves; then lets answers under way finish, for 10 s at most.
///
/// # Errors
/// When the system gives no threads to serve with.
pub async fn serve(service: Arc<Service>, listener: TcpListener, stop: impl Future<Output = ()>) -> Result<()> {
    raise_file_limit();
    let places = Places::new(service.config.limits.connections, &service.config.trusted_proxies);
    let (phase, watching) = watch::channel(Phase::Serving);
    let lanes = Lanes::start(&super::routes(&service), &watching).map_err(Error::internal)?;
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
        let place = match places.take(remote.ip()) {
            Ok(place) => place,
            Err(full) => {
                turn_away(&socket, full);
                continue;
            }
        };
        let _ = socket.set_nodelay(true);
        match socket.into_std() {
            Ok(socket) => lanes.take(Arrived { socket, remote: remote.ip(), place }).await,
            Err(cause) => tracing::warn!(%cause, "a connection could not be handed on"),
        }
    }
    drop((listener, lanes));
    phase.send_replace(Phase::Draining);
    if tokio::time::timeout(DRAIN, places.drained()).await.is_err() {
        tracing::warn!(left = places.taken(), "answers under way were cut off");
        phase.send_replace(Phase::Over);
    }
    Ok(())
}

/// Says that there is no place, as far as one write gets, and closes.
fn turn_away(socket: &TcpStream, full: Full) {
    let error = match full {
        Full::Server => "the server has no free connection",
        Full::Address => "this address has too many connections open",
    };
    let body = format!(r#"{{"error":"{error}","code":"SERVER_BUSY","requestId":"-"}}"#);
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
