//! The wait for the state in PostgreSQL: meanwhile requests are passed on to the active server, or held. Once this server is active,
//! it takes over the socket without closing it.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::systemd;
use crate::config::Config;
use crate::domain::signing::parse_keys;
use crate::engine::hardware_devices::DeviceWatch;
use crate::error::{Error, Result};
use crate::http::forward::{self, ActiveServer};
use crate::service::read_replica::CurrentReplica;
use crate::service::renditions::local_encoders::LocalEncoders;
use crate::store::{self, DatabaseStatus, Store};

/// The part of the server that passes requests on. Dropping it ends it.
pub struct Forwarding {
    active: watch::Sender<ActiveServer>,
    replica: CurrentReplica,
    /// Dropped at the handover, and at the stop.
    handover: Option<oneshot::Sender<()>>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<()>>,
    address: SocketAddr,
}

impl Forwarding {
    /// Starts to serve on a duplicate of the socket; returns it with the socket.
    ///
    /// # Errors
    /// `INTERNAL` when the socket cannot be duplicated.
    pub fn start(config: &Config, listener: TcpListener) -> Result<(Self, std::net::TcpListener)> {
        let address = listener.local_addr().map_err(Error::internal)?;
        let socket = listener.into_std().map_err(Error::internal)?;
        let duplicate = socket.try_clone().and_then(TcpListener::from_std).map_err(Error::internal)?;
        let (active, receiver) = watch::channel(ActiveServer::default());
        let (handover, handed_over) = oneshot::channel::<()>();
        let (stop, stopped) = oneshot::channel::<()>();
        let replica = CurrentReplica::new(config.clone());
        let (config, served_replica) = (config.clone(), replica.clone());
        let task = tokio::spawn(async move {
            // An error means that the sender was dropped, which ends it as well.
            let (handed_over, stopped) = (async { drop(handed_over.await) }, async { drop(stopped.await) });
            forward::serve(&config, duplicate, receiver, served_replica, handed_over, stopped).await
        });
        let (handover, stop) = (Some(handover), Some(stop));
        Ok((Self { active, replica, handover, stop, task, address }, socket))
    }

    /// Opens the state once no other server is active.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn open_store(&self, config: &Config) -> Result<Store> {
        let (active, address, is_announced) = (self.active.clone(), self.address, AtomicBool::new(false));
        let own_address = reachable_address(address).to_string();
        let notify = move |status: DatabaseStatus| {
            if !status.is_active && !is_announced.swap(true, Ordering::Relaxed) {
                // For programs, as the line of the active server is.
                println!("standby on http://{address}");
            }
            let server = to_active_server(&status);
            active.send_if_modified(|known| {
                let is_changed = *known != server;
                if is_changed {
                    log_change(&status, server.address.as_deref() == Some(&own_address));
                    *known = server;
                }
                is_changed
            });
        };
        let replica = self.replica.clone();
        let standby = store::Standby {
            listen: self.address,
            peer_address: config.peer_address.clone(),
            notify: Box::new(notify),
            follow: Box::new(move |change| replica.follow(change)),
        };
        let own_config = config.clone();
        // The service manager must not end a standby because it takes long to start.
        systemd::notify_ready("standby, unless no other server is active");
        let opening = tokio::task::spawn_blocking(move || {
            let database = own_config.database_settings();
            let database = database.ok_or_else(|| Error::internal("no database is configured"))?;
            Store::open_as_standby(&own_config.state, database, &standby)
        });
        tokio::select! {
            opened = opening => opened.map_err(Error::internal)?,
            () = systemd::feed_watchdog(|| std::future::ready(())) => Err(Error::internal("the watchdog has ended")),
            never = test_encoders_as_standby(config, self.active.subscribe()) => match never {},
        }
    }

    /// Ends the acceptance of connections, and passes the requests that are held on to the server itself, which accepts on the
    /// same socket from now on.
    pub fn hand_over(&mut self) {
        self.handover = None;
        let address = reachable_address(self.address).to_string();
        self.active.send_modify(|active| active.address = Some(address));
    }

    /// Begins the stop: responses in flight have at most 4 s to finish.
    pub fn request_stop(&mut self) {
        self.stop = None;
    }

    /// Stops, and waits until all connections are closed.
    ///
    /// # Errors
    /// When it could not start.
    pub async fn finish(mut self) -> Result<()> {
        self.request_stop();
        (&mut self.task).await.map_err(Error::internal)?
    }
}

/// Tests the encoders while another server is active, so that encoded sessions do not wait for that after the takeover.
async fn test_encoders_as_standby(config: &Config, mut active: watch::Receiver<ActiveServer>) -> Infallible {
    if active.wait_for(|server| server.address.is_some() && !server.is_this).await.is_ok() {
        let encoders = LocalEncoders::new(config);
        encoders.can_transcode().await;
        encoders.test_encoders().await;
        let mut devices = DeviceWatch::new(Path::new("/dev"));
        loop {
            devices.changed().await;
            encoders.retest().await;
        }
    }
    std::future::pending().await
}

fn to_active_server(status: &DatabaseStatus) -> ActiveServer {
    let address = status.active_address.as_deref().and_then(forward::host_and_port);
    let keys = Arc::new(parse_keys(&status.signing_keys).unwrap_or_default());
    ActiveServer { address, is_this: status.is_active, keys }
}

fn log_change(status: &DatabaseStatus, is_own_address: bool) {
    if is_own_address && !status.is_active {
        tracing::warn!(
            "the active server has the address of this one: set its `listen` or `peer_address` to one of its own"
        );
    }
    let text = match (&status.active_address, status.is_active) {
        (_, true) => "this server becomes the active one".to_owned(),
        (Some(address), false) => format!("standby: requests are passed on to {address}"),
        (None, false) => "standby: the active server has no address, so requests wait".to_owned(),
    };
    tracing::info!("{text}");
    systemd::notify_status(&text);
}

/// Where this machine reaches a server that listens on `listen`: on loopback, if it listens on all addresses.
pub fn reachable_address(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}
