//! The database as the committer uses it: it commits groups, reconnects, and ends the program when another server has
//! become the active one.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::connection::{CommitFailure, Session};
use crate::store::batch::Edit;
use crate::store::commit::CommitError;

/// How long a commit whose outcome is unknown is looked up, and the pause between two attempts to connect.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
const RECONNECT_INTERVAL: Duration = Duration::from_millis(250);

/// Interval at which an idle server checks its connection.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Exit status of a server whose memory is outdated, e.g. because another one has replaced it (`EX_TEMPFAIL`): a supervisor
/// starts it again.
const REPLACED_EXIT_STATUS: i32 = 75;

/// The session of the active server.
pub struct RemoteJournal {
    session: Session,
    epoch: i64,
    /// Whether the connection has the lock, as far as is known.
    is_connected: bool,
    reconnect_at: Instant,
    /// Why it could not connect again, as far as it was logged.
    logged_reason: String,
}

impl RemoteJournal {
    /// Takes a session that has the lock and has begun `epoch`.
    pub fn new(session: Session, epoch: i64) -> Self {
        Self { session, epoch, is_connected: true, reconnect_at: Instant::now(), logged_reason: String::new() }
    }

    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Waits for the next item of a queue, at most until the connection should be checked: then it is an error, also while
    /// items come all the time.
    pub fn next<T>(&mut self, receiver: &mut mpsc::Receiver<T>) -> Result<Option<T>, ()> {
        if !self.is_connected && Instant::now() >= self.reconnect_at {
            return Err(());
        }
        let wait = if self.is_connected { CHECK_INTERVAL } else { RECONNECT_INTERVAL };
        self.session.wait_for(wait, receiver.recv())
    }

    /// Commits changes that follow `last_number`.
    ///
    /// # Errors
    /// Why they are not acknowledged.
    pub fn commit(&mut self, last_number: u64, edits: &[&Edit]) -> Result<(), CommitError> {
        if !self.is_connected {
            return Err(CommitError::Unavailable("the database is not connected".to_owned()));
        }
        match self.session.commit(self.epoch, last_number, edits) {
            Ok(()) => Ok(()),
            Err(CommitFailure::Rejected(cause)) => {
                tracing::error!(cause, "the database refused a change");
                Err(CommitError::Refused(cause))
            }
            Err(CommitFailure::Fenced) => self.end_replaced(),
            Err(CommitFailure::ConnectionLost(cause)) => {
                tracing::error!(cause, "the connection to the database was lost during a commit");
                self.is_connected = false;
                self.resolve(last_number + edits.len() as u64, &cause)
            }
        }
    }

    /// Looks up a commit whose outcome is unknown. Only a connection that has the lock knows it: until then the lost one may
    /// still commit.
    fn resolve(&mut self, new_last: u64, cause: &str) -> Result<(), CommitError> {
        let deadline = Instant::now() + RESOLVE_TIMEOUT;
        loop {
            if let Some(last_number) = self.reconnect() {
                return match last_number == new_last {
                    true => Ok(()),
                    false => Err(CommitError::Unavailable(cause.to_owned())),
                };
            }
            if Instant::now() > deadline {
                return Err(CommitError::OutcomeUnknown(cause.to_owned()));
            }
            std::thread::sleep(RECONNECT_INTERVAL);
        }
    }

    /// Checks an idle connection, or reconnects a lost one; returns the database's last number after a reconnection.
    pub fn check(&mut self) -> Option<u64> {
        if self.is_connected {
            match self.session.head() {
                Ok(head) if head.epoch != self.epoch => self.end_replaced(),
                Ok(_) => return None,
                Err(cause) => {
                    tracing::error!(cause, "the connection to the database was lost: changes are refused");
                    self.is_connected = false;
                }
            }
        }
        if Instant::now() < self.reconnect_at {
            return None;
        }
        self.reconnect()
    }

    /// Connects again; returns the database's last number once the connection has the lock.
    fn reconnect(&mut self) -> Option<u64> {
        let last_number = self.try_reconnect();
        self.reconnect_at = Instant::now() + RECONNECT_INTERVAL;
        last_number
    }

    fn try_reconnect(&mut self) -> Option<u64> {
        if let Err(cause) = self.session.reconnect() {
            let cause = cause.to_string();
            if cause != self.logged_reason {
                tracing::error!(cause, "the database cannot be connected again");
                self.logged_reason = cause;
            }
            return None;
        }
        let head = self.session.head().ok()?;
        if head.epoch != self.epoch {
            self.end_replaced();
        }
        // Without the lock, the database has not noticed yet that the former connection is gone.
        if !self.session.try_lock().ok()? {
            return None;
        }
        // The last number may have changed until the lock was free.
        let head = self.session.head().ok()?;
        if head.epoch != self.epoch {
            self.end_replaced();
        }
        self.is_connected = true;
        self.logged_reason.clear();
        tracing::info!("the database is connected again");
        Some(head.last_number)
    }

    /// The changes after `number`; `None` when they are too many or no longer kept.
    pub fn changes_after(&mut self, number: u64) -> Result<Option<Vec<Edit>>, String> {
        self.session.changes_after(number)
    }

    /// Ends the program, because its memory lacks a change that was found committed after its outcome was answered as unknown.
    pub fn end_outdated(&self) -> ! {
        tracing::error!("this server ends, because its memory lacks a change that the database has: start it again");
        std::process::exit(REPLACED_EXIT_STATUS)
    }

    /// Ends the program: everything it answers from now on may be outdated, and it must not write. Nothing is left to be
    /// written, because changes are acknowledged only after their commit.
    fn end_replaced(&self) -> ! {
        tracing::error!(
            "another server has become the active one of this database: this one ends, start it as a standby"
        );
        std::process::exit(REPLACED_EXIT_STATUS)
    }
}
