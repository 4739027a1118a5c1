//! Builds the rooms and runs them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::http;
use crate::service::Service;

/// How long, once the server was told to stop, answers under way may take to end, sessions to stop, and what is left to be
/// written. Together with the runtime's own end (2 s, `cli::serve`) below the 10 s of contract section 17.
const DRAIN: Duration = Duration::from_secs(4);
const END: Duration = Duration::from_secs(2);
const FLUSH: Duration = Duration::from_secs(1);

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
    tokio::spawn(async move { tokio::join!(transcoder.transcoder.warm(), transcoder.sessions.warm()) });
    let tidy = tokio::spawn(tidy(service.clone()));
    println!("listening on http://{address}");

    let (told, stopping) = oneshot::channel();
    let stop = async move {
        stop.await;
        tracing::info!("stopping");
        let _ = told.send(());
    };
    let overdue = async move {
        let _ = stopping.await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        () = http::serve::serve(service.clone(), listener, stop) => {}
        () = overdue => tracing::info!("answers that did not end in time are cut"),
    }
    if tokio::time::timeout(END, service.sessions.shutdown()).await.is_err() {
        tracing::warn!("sessions did not stop within {} s", END.as_secs());
    }
    tidy.abort();
    match tokio::time::timeout(FLUSH, service.accounts.flush()).await {
        Ok(flushed) => flushed,
        Err(_) => Err(Error::internal(format!("the state could not be written within {} s", FLUSH.as_secs()))),
    }
}

/// Writes down and throws away what may wait a minute.
async fn tidy(service: Arc<Service>) {
    let mut minutes = tokio::time::interval(Duration::from_secs(60));
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        minutes.tick().await;
        if let Err(error) = service.accounts.tidy().await {
            tracing::warn!(%error, "accounts could not be tidied");
        }
    }
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
