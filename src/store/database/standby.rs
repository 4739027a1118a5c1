//! The wait of a standby for the lock of the active server. Meanwhile its copy follows the database.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::connection::{ConnectError, Session};
use super::follower::Follower;
use super::schema::Head;
use super::target::Target;
use super::unusable_error;
use crate::config::DatabaseSettings;
use crate::error::{Error, Result};
use crate::store::shared_state::CopyFolder;
use crate::store::{CopyChange, DatabaseStatus, Standby};

/// Longest pause between two attempts to become the active server. A notification of the database ends it.
const STANDBY_INTERVAL: Duration = Duration::from_millis(100);

/// Pause until a copy that cannot follow is opened again.
const REOPEN_INTERVAL: Duration = Duration::from_secs(30);

/// A server that waits.
pub struct WaitingServer<'a> {
    folder: &'a CopyFolder,
    standby: &'a Standby,
    follower: Option<Follower>,
    reopen_at: Instant,
    /// Why it waits, as far as it was logged.
    logged_reason: String,
}

impl<'a> WaitingServer<'a> {
    pub fn new(folder: &'a CopyFolder, standby: &'a Standby) -> Self {
        Self { folder, standby, follower: None, reopen_at: Instant::now(), logged_reason: String::new() }
    }

    /// Waits as long as another server is active or the database cannot be reached. Returns the session that has the lock, and
    /// the copy if it is open.
    ///
    /// # Errors
    /// `INTERNAL` when the database cannot be used.
    pub fn wait(mut self, database: DatabaseSettings) -> Result<(Session, Option<Follower>)> {
        let target = Target::new(database).map_err(unusable_error)?;
        loop {
            let reason = match Session::connect(target.clone()) {
                Ok(mut session) => match self.wait_for_lock(&mut session) {
                    Ok(()) => return Ok((session, self.follower)),
                    Err(cause) => cause,
                },
                Err(ConnectError::Unreachable(cause)) => cause,
                Err(cause) => return Err(unusable_error(cause.to_string())),
            };
            self.log_once(format!("waiting for the database: {reason}"));
            std::thread::sleep(STANDBY_INTERVAL);
        }
    }

    fn wait_for_lock(&mut self, session: &mut Session) -> std::result::Result<(), String> {
        session.listen()?;
        while !session.try_lock()? {
            self.log_once("standby: another server is the active one of this database".to_owned());
            let read_at = Instant::now();
            let head = session.head()?;
            (self.standby.notify)(DatabaseStatus {
                is_active: false,
                active_address: head.active_address.clone(),
                signing_keys: head.signing_keys.clone(),
            });
            self.follow(session, &head)?;
            if self.follower.is_some() {
                (self.standby.follow)(CopyChange::Current(read_at));
            }
            session.wait_for_notification(STANDBY_INTERVAL);
        }
        let signing_keys = session.head()?.signing_keys;
        (self.standby.notify)(DatabaseStatus { is_active: true, active_address: None, signing_keys });
        Ok(())
    }

    /// Opens the copy, or writes to it what the database has in addition. A copy that cannot take it is closed; without a copy,
    /// one is made when this server takes over.
    ///
    /// # Errors
    /// The database does not answer; the copy stays open.
    fn follow(&mut self, session: &mut Session, head: &Head) -> std::result::Result<(), String> {
        if self.follower.as_ref().is_some_and(|follower| !follower.is_copy_of(head)) {
            self.close_copy();
        }
        let Some(follower) = &mut self.follower else {
            if Instant::now() >= self.reopen_at {
                self.open_copy(session, head);
            }
            return Ok(());
        };
        if follower.last_number() == head.last_number {
            return Ok(());
        }
        let Some(missing) = session.changes_after(follower.last_number())? else {
            tracing::info!("the copy of the database is too old to follow it");
            self.close_copy();
            return Ok(());
        };
        match follower.follow(missing) {
            Ok(trees) => (self.standby.follow)(CopyChange::Followed(&trees)),
            Err(error) => self.give_up_copy(&error),
        }
        Ok(())
    }

    fn open_copy(&mut self, session: &mut Session, head: &Head) {
        match Follower::open(self.folder, session, head) {
            Ok(follower) => {
                (self.standby.follow)(CopyChange::Opened(follower.store()));
                self.follower = Some(follower);
            }
            Err(error) => self.give_up_copy(&error),
        }
    }

    fn give_up_copy(&mut self, error: &Error) {
        tracing::error!(%error, "the copy of the database does not follow it");
        self.close_copy();
        self.reopen_at = Instant::now() + REOPEN_INTERVAL;
    }

    fn close_copy(&mut self) {
        if let Some(follower) = self.follower.take() {
            (self.standby.follow)(CopyChange::Closed);
            follower.close();
        }
    }

    /// Logs why the server waits, unless it is the same reason as before.
    fn log_once(&mut self, reason: String) {
        if self.logged_reason != reason {
            tracing::info!("{reason}");
            self.logged_reason = reason;
        }
    }
}

/// Where the other servers of the database reach this one: as configured, otherwise the address it listens on, otherwise that of
/// its connection to the database.
pub fn own_address(session: &mut Session, standby: &Standby) -> std::result::Result<String, String> {
    if let Some(address) = &standby.peer_address {
        return Ok(address.trim_end_matches('/').to_owned());
    }
    let loopback = || match standby.listen.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    let ip = match standby.listen.ip() {
        any if any.is_unspecified() => session.client_ip()?.filter(|ip| !ip.is_loopback()).unwrap_or_else(loopback),
        one => one,
    };
    Ok(format!("http://{}", SocketAddr::new(ip, standby.listen.port())))
}
