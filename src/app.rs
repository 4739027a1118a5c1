//! Creates the service, starts the background tasks, serves HTTP, and shuts everything down in order.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use crate::config::Config;
use crate::domain::ssdp;
use crate::error::{Error, Result};
use crate::http;
use crate::http::ssdp::announce_tuner;
use crate::service::channels::sources;
use crate::service::{
    Service, artwork, catalogue, channels, library_watcher, live, marks, recordings, server_status, workers,
};
use crate::store::Store;

pub mod health_check;
pub mod memory;
mod standby;
pub mod supervision;
mod systemd;
#[cfg(feature = "otlp")]
mod trace_export;

use standby::Forwarding;
use supervision::{Reloader, supervise};

/// Between two checks whether the catalogue has read everything.
const CATALOGUE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Between two returns of memory to the system.
const TRIM_INTERVAL: Duration = Duration::from_secs(60);

/// Time limits during shutdown: for background tasks to end, and for unwritten state. With those for responses in flight
/// (4 s, `http::serve`) and for the runtime (2 s, `cli::serve`) they stay below the 10 s after which a service manager kills
/// the process.
const TASK_TIMEOUT: Duration = Duration::from_secs(2);
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves until `stop` resolves. Prints one line to standard output when it is ready, and one when it is the standby of a database.
///
/// # Errors
/// When it cannot start: the port is in use, or a root or the state folder cannot be opened.
pub async fn run(config: Config, reloader: Reloader, stop: impl Future<Output = ()>) -> Result<()> {
    // The port comes first: a second server on it must fail before it touches any state.
    let listener = bind(config.listen).await?;
    let file = config.state.join("setup-code");
    let welcome = |_: &Arc<Service>, address: SocketAddr, code: Option<&str>| {
        // Standard output has only lines for programs; this is for people.
        if let Some(code) = code {
            eprintln!("set-up code: {code} (valid for 24 h, also in {})", file.display());
            eprintln!("set up at http://{address}/#/setup?code={code}");
        }
    };
    if config.database.is_none() {
        return serve_on(listener, config, None, welcome, Some(reloader), stop).await;
    }
    let mut stop = pin!(stop);
    let (forwarding, socket) = Forwarding::start(&config, listener)?;
    let opened = tokio::select! {
        opened = forwarding.open_store(&config) => opened?,
        () = &mut stop => {
            systemd::notify_stopping();
            return forwarding.finish().await;
        }
    };
    let listener = TcpListener::from_std(socket).map_err(Error::internal)?;
    serve_on(listener, config, Some((opened, forwarding)), welcome, Some(reloader), stop).await
}

/// Runs the server on a bound port. `welcome` receives the service, the address and, while there is no admin, the set-up
/// code. With a reloader the service manager is notified, and SIGHUP reloads the configuration.
///
/// # Errors
/// As [`run`].
pub async fn run_on(
    listener: TcpListener,
    config: Config,
    welcome: impl FnOnce(&Arc<Service>, SocketAddr, Option<&str>),
    reloader: Option<Reloader>,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    serve_on(listener, config, None, welcome, reloader, stop).await
}

/// As [`run_on`]; after a wait as standby over the state that was opened, and in place of the forwarding part.
async fn serve_on(
    listener: TcpListener,
    config: Config,
    standby: Option<(Store, Forwarding)>,
    welcome: impl FnOnce(&Arc<Service>, SocketAddr, Option<&str>),
    reloader: Option<Reloader>,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let address = listener.local_addr().map_err(Error::internal)?;
    systemd::notify_status("opening the state and the library");
    let (service, mut forwarding) = match standby {
        Some((store, forwarding)) => (Service::open_on(config, store)?, Some(forwarding)),
        None => (Service::open(config)?, None),
    };
    #[cfg(feature = "otlp")]
    trace_export::start(&service)?;
    let code = service.accounts.prepare().await?;
    let playback_ready = start_warming(&service);
    let measuring_service = service.clone();
    service.tasks.spawn(async move {
        let is_idle = || measuring_service.renditions.active_jobs() == 0;
        measuring_service.local_encoders.measure_after_preference(is_idle).await;
    });
    let following_service = service.clone();
    service.tasks.spawn(async move { following_service.follow_devices(Path::new("/dev")).await });
    catalogue::start(&service);
    marks::start(&service);
    artwork::start(&service);
    channels::follow::start(&service);
    library_watcher::start_watchers(&service);
    sources::start_refresh_task(&service);
    if service.channels.all().iter().any(|channel| channel.settings.always_on) {
        live::start_maintenance(&service);
    }
    recordings::start_maintenance(&service);
    workers::start(&service);
    server_status::start(&service);
    announce(&service, address);
    service.tasks.spawn(run_cleanup(service.clone()));
    service.tasks.spawn(trim_regularly(service.clone()));
    // The journal and the index were read completely, of which glibc would keep about 0.5 kB per channel (measured).
    memory::trim();
    println!("listening on http://{address}");
    welcome(&service, address, code.as_deref());
    if let Some(reloader) = reloader {
        service.tasks.spawn(supervise(service.clone(), address, playback_ready, reloader));
    }

    if let Some(forwarding) = &mut forwarding {
        forwarding.hand_over();
    }
    let closing_service = service.clone();
    let stop = async {
        stop.await;
        tracing::info!("stopping");
        systemd::notify_stopping();
        if let Some(forwarding) = &mut forwarding {
            forwarding.request_stop();
        }
        closing_service.events.close();
        closing_service.live_channels.close();
    };
    http::serve(service.clone(), listener, stop).await?;
    if let Some(forwarding) = forwarding {
        // Its connections were closed at the same time as the server's.
        let _ = tokio::time::timeout(TASK_TIMEOUT, forwarding.finish()).await;
    }
    if tokio::time::timeout(TASK_TIMEOUT, service.shutdown()).await.is_err() {
        tracing::warn!("background tasks did not end within {} s", TASK_TIMEOUT.as_secs());
    }
    match tokio::time::timeout(FLUSH_TIMEOUT, service.accounts.flush()).await {
        Ok(flushed) => flushed,
        Err(_) => Err(Error::internal(format!("the state could not be written within {} s", FLUSH_TIMEOUT.as_secs()))),
    }
}

/// Starts the workers and tests the encoders. The returned future resolves once sessions and channels can be converted.
fn start_warming(service: &Arc<Service>) -> impl Future<Output = ()> + use<> {
    let (sender, receiver) = oneshot::channel::<()>();
    let service = service.clone();
    service.clone().tasks.spawn(async move {
        // First what the first request waits for: the others would take its processor time.
        tokio::join!(service.isolation.warm(), service.local_encoders.can_transcode());
        let find_backends = async {
            service.renditions.find_backends().await;
            let _ = sender.send(());
        };
        tokio::join!(service.local_encoders.test_encoders(), find_backends);
    });
    async move {
        // An error means that the server stops.
        let _ = receiver.await;
    }
}

/// Returns free memory to the system once the catalogue has read all folders, and each minute from then on: records and names of
/// all files were in memory for a moment, and glibc would keep some kB for each file (measured).
async fn trim_regularly(service: Arc<Service>) {
    while !service.catalogue.is_current(service.library.roots().list().count()) {
        tokio::time::sleep(CATALOGUE_CHECK_INTERVAL).await;
    }
    while tokio::task::spawn_blocking(memory::trim).await.is_ok() {
        tokio::time::sleep(TRIM_INTERVAL).await;
    }
}

/// Announces the tuner of the stream token in `hdhomerun_token_file`.
#[allow(clippy::disallowed_methods, reason = "a file the operator named")]
fn announce(service: &Arc<Service>, address: SocketAddr) {
    let Some(file) = &service.config.hdhomerun_token_file else { return };
    let token = match std::fs::read_to_string(file) {
        Ok(token) => token.trim().to_owned(),
        Err(fault) => {
            tracing::error!(file = %file.display(), %fault, "the tuner is not announced: its token file cannot be read");
            return;
        }
    };
    if service.accounts.authenticate_stream(&token).is_err() {
        tracing::warn!(file = %file.display(), "the tuner is not announced until the file contains a valid stream token");
    }
    if let Err(fault) = announce_tuner(service, token, address, ssdp::PORT) {
        tracing::error!(%fault, "the tuner is not announced");
    }
}

/// Runs the cleanup of accounts, channel checkpoints, progress and quarantine once a minute.
async fn run_cleanup(service: Arc<Service>) {
    let mut interval = tokio::time::interval(Duration::from_secs(60));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if let Err(error) = service.accounts.cleanup().await {
            tracing::warn!(%error, "cleanup of accounts failed");
        }
        service.channels.store_checkpoints().await;
        if let Err(error) = service.clean_up_progress().await {
            tracing::warn!(%error, "cleanup of progress failed");
        }
        if let Err(error) = service.unite_part_progress().await {
            tracing::warn!(%error, "progress in parts of audiobooks was not joined");
        }
        if let Err(error) = service.quarantine.cleanup().await {
            tracing::warn!(%error, "cleanup of the quarantine failed");
        }
    }
}

/// Binds a port, with an error for people.
async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|cause| {
        Error::internal(match cause.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!("{address} is in use by another program: choose another port with --listen ADDR:PORT")
            }
            _ => format!("cannot listen on {address}: {cause}"),
        })
    })
}

/// Resolves at the first SIGTERM or SIGINT. Must be called inside the runtime.
///
/// # Errors
/// When the signal handlers cannot be installed.
pub fn shutdown_signal() -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::internal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::internal)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
