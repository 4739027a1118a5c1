//! The state in PostgreSQL, which several servers share: how one of them opens it, and what a standby learns of it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::commit::{Committer, StoreSizes};
use super::lock::StateLock;
use super::recover::RecoveredState;
use super::{COMPACT_FROM_BYTES, COPY_FILE, LOCK_TIMEOUT, RESERVE_BYTES, Store, Tree, database, permissions};
use crate::config::DatabaseSettings;
use crate::error::{Code, Error, Result};

/// The servers of a database, as one of them sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseStatus {
    /// Whether this server is the active one; it opens its state then.
    pub is_active: bool,
    /// Where another active server is reached, if it listens.
    pub active_address: Option<String>,
    /// The signing keys of all its servers, a line each.
    pub signing_keys: String,
}

/// A change of the copy of a standby.
pub enum CopyChange<'a> {
    /// It is open for readers. A copy that was closed is reported once more when it is opened.
    Opened(&'a Store),
    /// It has changes of these trees.
    Followed(&'a BTreeSet<Tree>),
    /// It has all changes that were acknowledged before this time.
    Current(Instant),
    /// It cannot be read.
    Closed,
}

/// How a server waits until it is the active one of a database.
pub struct Standby {
    pub listen: SocketAddr,
    /// Where other servers reach this one, unless it is found by itself.
    pub peer_address: Option<String>,
    /// Called several times a second while another server is active, and once when this one is.
    pub notify: Box<dyn Fn(DatabaseStatus) + Send + Sync>,
    /// Called with each change of the copy while another server is active. A slow call delays the takeover.
    pub follow: Box<dyn Fn(CopyChange) + Send + Sync>,
}

/// A folder that is a copy of a database, locked by this process.
pub struct CopyFolder {
    pub dir: PathBuf,
    lock: Arc<StateLock>,
}

impl CopyFolder {
    fn lock(dir: &Path, timeout: Duration) -> Result<Self> {
        permissions::secure_folder(dir)?;
        Ok(Self { dir: dir.to_owned(), lock: Arc::new(StateLock::acquire(dir, timeout)?) })
    }

    /// Opens for readers what was recovered in it.
    #[cfg_attr(not(feature = "cluster"), allow(dead_code, reason = "there is no database"))]
    pub fn open(&self, recovered: RecoveredState) -> (Store, Committer) {
        Store::new(&self.dir, standard_sizes(), self.lock.clone(), recovered)
    }
}

pub fn standard_sizes() -> StoreSizes {
    StoreSizes { reserve_bytes: RESERVE_BYTES, compact_from_bytes: COMPACT_FROM_BYTES }
}

impl Store {
    /// Opens the configured state: that of the folder, or with `database` that of PostgreSQL, whose copy the folder is. With
    /// `waits`, it waits at most 2 s for the lock of the folder.
    ///
    /// # Errors
    /// As [`Self::open`]; `CONFLICT` when another server is active, or when the folder belongs to another state.
    pub fn open_configured(dir: &Path, database: Option<DatabaseSettings>, waits: bool) -> Result<Self> {
        let lock_timeout = if waits { LOCK_TIMEOUT } else { Duration::ZERO };
        match database {
            Some(database) => Self::open_database(dir, database, lock_timeout, None),
            None => Self::open_with_timeout(dir, standard_sizes(), lock_timeout),
        }
    }

    /// Opens the state in PostgreSQL, whose copy the folder is, once no other server is active.
    ///
    /// # Errors
    /// As [`Self::open`]; `CONFLICT` when the folder belongs to another state.
    pub fn open_as_standby(dir: &Path, database: DatabaseSettings, standby: &Standby) -> Result<Self> {
        Self::open_database(dir, database, LOCK_TIMEOUT, Some(standby))
    }

    fn open_database(
        dir: &Path,
        database: DatabaseSettings,
        lock_timeout: Duration,
        standby: Option<&Standby>,
    ) -> Result<Self> {
        outside_of_runtime(|| database::open(&CopyFolder::lock(dir, lock_timeout)?, database, standby))
    }
}

/// Runs a function that waits for a database in a thread of its own, because a runtime's threads must not wait.
pub fn outside_of_runtime<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let outcome = std::thread::scope(|scope| scope.spawn(work).join());
    outcome.unwrap_or_else(|_| Err(Error::internal("opening the database panicked")))
}

/// Checks that a database can have the state.
///
/// # Errors
/// `INTERNAL` saying why it cannot.
pub fn check_database(database: DatabaseSettings) -> Result<()> {
    outside_of_runtime(|| database::check(database))
}

/// Makes the signing keys of the folder those of the database, after they were changed.
///
/// # Errors
/// `INTERNAL` when the database does not take them.
pub fn publish_signing_keys(dir: &Path, database: DatabaseSettings) -> Result<()> {
    outside_of_runtime(|| database::publish_signing_keys(dir, database))
}

/// Refuses a copy that is opened without its database, which would not get its changes.
pub fn refuse_copy(dir: &Path) -> Result<()> {
    if !dir.join(COPY_FILE).exists() {
        return Ok(());
    }
    let message = format!(
        "{} is the copy of a state in PostgreSQL: configure its address as state, or export the database and import it into \
         an empty folder",
        dir.display()
    );
    Err(Error::new(Code::Conflict, message))
}
