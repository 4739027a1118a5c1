//! Builds the rooms and runs them.

use std::future::Future;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::http;
use crate::service::Service;

/// Serves until `stop` resolves. Prints one line to standard output when it answers requests.
///
/// # Errors
/// What keeps it from starting: a busy port, a root or a state folder that cannot be opened.
pub async fn run(config: Config, stop: impl Future<Output = ()>) -> Result<()> {
    let address = config.listen;
    // The port first: a second server must fail before it touches anything.
    let listener = TcpListener::bind(address).await.map_err(|cause| refused(address, &cause))?;
    let address = listener.local_addr().map_err(Error::internal)?;
    let service = Service::open(config)?;
    if let Some(code) = service.accounts.prepare().await? {
        // Standard error is the console; the line on standard output stays the only one.
        let file = service.config.state.join("setup-code");
        eprintln!("set-up code: {code} (valid for 24 h, also in {})", file.display());
    }
    let transcoder = service.clone();
    tokio::spawn(async move { transcoder.transcoder.warm().await });
    println!("listening on http://{address}");
    http::serve::serve(service.clone(), listener, stop).await;
    service.sessions.shutdown().await;
    Ok(())
}

fn refused(address: std::net::SocketAddr, cause: &std::io::Error) -> Error {
    Error::internal(match cause.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("{address} is in use by another program: choose another port with --listen ADDR:PORT")
        }
        _ => format!("cannot listen on {address}: {cause}"),
    })
}

/// Resolves at the first SIGTERM or SIGINT. Must be called inside the runtime.
///
/// # Errors
/// When the system refuses to tell about signals.
pub fn signalled() -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::internal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::internal)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
