//! Supervision by the service manager: readiness, watchdog, and the configuration read again at SIGHUP.

use std::future::Future;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{health_check, systemd};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::service::Service;

/// Pause after a failed health check, until the server is ready.
const READINESS_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Loads the configuration as the start did; the error is a message for the operator, a line for each fault.
pub type ConfigLoader = Arc<dyn Fn() -> std::result::Result<Config, String> + Send + Sync>;

/// Reloads the configuration at SIGHUP.
pub struct Reloader {
    load: ConfigLoader,
    /// None in a terminal, where SIGHUP means that it was closed: it ends the program.
    hangups: Option<Signal>,
}

impl Reloader {
    /// From now on SIGHUP does not end the program, unless it runs in a terminal. Must be called inside the runtime.
    ///
    /// # Errors
    /// When the signal handler cannot be installed.
    pub fn new(load: ConfigLoader) -> Result<Self> {
        let in_terminal = std::io::stdin().is_terminal();
        let hangups = (!in_terminal).then(|| signal(SignalKind::hangup())).transpose().map_err(Error::internal)?;
        Ok(Self { load, hangups })
    }

    /// The next SIGHUP.
    async fn requested(&mut self) {
        if let Some(hangups) = &mut self.hangups
            && hangups.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}

/// Reports that the server is ready once `prepared` has resolved and a request is answered. Then feeds the watchdog, and reloads
/// the configuration at SIGHUP, until shutdown drops it.
pub async fn supervise(
    service: Arc<Service>,
    address: SocketAddr,
    prepared: impl Future<Output = ()>,
    mut reloader: Reloader,
) {
    prepared.await;
    while let Err(fault) = health_check::check(address).await {
        tracing::warn!(fault, "the server is not ready");
        tokio::time::sleep(READINESS_POLL_INTERVAL).await;
    }
    let status = format!("listening on http://{address}");
    systemd::notify_ready(&status);
    // The task proves that the runtime works, the check that the state does.
    let watchdog = systemd::feed_watchdog(|| service.store.wait_until_responsive());
    let reload = async {
        loop {
            reloader.requested().await;
            systemd::notify_reloading();
            let outcome = reload(&service, reloader.load.clone()).await;
            systemd::notify_ready(&format!("{status}; {outcome}"));
        }
    };
    tokio::join!(watchdog, reload);
}

/// Reads the configuration again and applies it; returns the outcome for the status line of the service manager.
async fn reload(service: &Service, load: ConfigLoader) -> String {
    let loaded = tokio::task::spawn_blocking(move || load()).await;
    let loaded = loaded.unwrap_or_else(|cause| Err(cause.to_string()));
    let applied = loaded.and_then(|config| service.apply_config(&config).map_err(|fault| fault.to_string()));
    match applied {
        Ok(change) => {
            let text = change.to_text();
            if change.needs_restart.is_empty() {
                tracing::info!("the configuration was read again: {text}");
            } else {
                tracing::warn!("the configuration was read again: {text}");
            }
            text
        }
        Err(faults) => {
            for fault in faults.lines() {
                tracing::error!("the configuration was not changed: {fault}");
            }
            "the configuration has errors and was not changed (see the log)".to_owned()
        }
    }
}
