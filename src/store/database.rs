//! The state in PostgreSQL: the database has the changes and records of one active server, and its state folder a full
//! copy of them, from which it reads.
//!
//! A change is first committed in the database, then written to the files of the copy as without a database, then
//! acknowledged. So the copy is never ahead of the database; it catches up when it is opened.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use super::batch::Edit;
use super::draft::Draft;
use super::recover::{self, RecoveredState};
use super::tree::Tree;
use super::{COPY_FILE, DatabaseStatus, Standby, journal, open_error, quarantine, secret, tail};
use crate::config::DatabaseSettings;
use crate::error::{Code, Error, Result};

mod connection;
mod remote_journal;
mod schema;
mod target;
mod tls;

use connection::ConnectError;
pub use connection::Session;
pub use remote_journal::RemoteJournal;
use schema::Head;
use target::Target;

/// Pause between two attempts of a standby to become the active server.
const STANDBY_INTERVAL: Duration = Duration::from_millis(100);

/// Interval at which a standby refreshes its copy, and the changes for which that is not worth the work.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);
const MIN_REFRESHED_CHANGES: u64 = 1000;

/// Length of the tail of a standby's copy from which it is made again, because only an active server shortens it; its journal may
/// have this and four times its content.
const MAX_STANDBY_BYTES: u64 = 64 << 20;

/// File of the signing keys, which all servers of a database share.
const KEYS_FILE: &str = "signing-keys";

/// A copy that is open, and the changes that only the database has.
pub struct OpenedCopy {
    pub recovered: RecoveredState,
    pub missing: Vec<Edit>,
    pub last_number: u64,
    pub remote: RemoteJournal,
}

/// Connects to the database and becomes its active server. Must be called outside of a runtime. With `standby` it waits as
/// long as another server is active or the database cannot be reached; `dir` has the copy.
///
/// # Errors
/// `CONFLICT` when another server is active; `INTERNAL` when the database cannot be used.
pub fn become_active(dir: &Path, database: DatabaseSettings, standby: Option<&Standby>) -> Result<Session> {
    let unusable = |cause: String| Error::internal(format!("the state in PostgreSQL cannot be opened: {cause}"));
    let target = Target::new(database).map_err(unusable)?;
    let mut last_reason = String::new();
    loop {
        let reason = match Session::connect(target.clone()) {
            Ok(mut session) => match wait_for_lock(dir, &mut session, standby, &mut last_reason) {
                Ok(true) => return Ok(session),
                Ok(false) => {
                    let message = "the database is in use by a running server";
                    return Err(Error::new(Code::Conflict, message));
                }
                Err(cause) => cause,
            },
            Err(ConnectError::Unreachable(cause)) if standby.is_some() => cause,
            Err(cause) => return Err(unusable(cause.to_string())),
        };
        log_once(&mut last_reason, format!("waiting for the database: {reason}"));
        std::thread::sleep(STANDBY_INTERVAL);
    }
}

/// Takes the lock; returns whether it was free.
fn wait_for_lock(
    dir: &Path,
    session: &mut Session,
    standby: Option<&Standby>,
    last_reason: &mut String,
) -> std::result::Result<bool, String> {
    let mut refreshed_at: Option<Instant> = None;
    while !session.try_lock()? {
        let Some(standby) = standby else { return Ok(false) };
        log_once(last_reason, "standby: another server is the active one of this database".to_owned());
        let mut head = session.head()?;
        (standby.notify)(DatabaseStatus {
            is_active: false,
            active_address: head.active_address.take(),
            signing_keys: head.signing_keys.clone(),
        });
        if refreshed_at.is_none_or(|at| at.elapsed() >= REFRESH_INTERVAL) {
            // Without it, the copy is made when this server takes over.
            if let Err(error) = refresh_copy(dir, session, &head) {
                tracing::error!(%error, "the copy of the database could not be made");
            }
            refreshed_at = Some(Instant::now());
        }
        std::thread::sleep(STANDBY_INTERVAL);
    }
    if let Some(standby) = standby {
        let head = session.head()?;
        (standby.notify)(DatabaseStatus { is_active: true, active_address: None, signing_keys: head.signing_keys });
    }
    Ok(true)
}

/// Keeps the copy of a standby so new that it soon has the rest when this server takes over. It only reads from the database.
fn refresh_copy(dir: &Path, session: &mut Session, head: &Head) -> Result<()> {
    let to_error = |cause: std::io::Error| open_error(dir, cause);
    let copied_state = secret::read(&dir.join(COPY_FILE)).map_err(to_error)?;
    if copied_state.is_none() && has_state(dir) {
        return Err(own_state_error(dir));
    }
    if copied_state.is_some_and(|id| id.trim() == head.state_id) {
        let journal = journal::read(&dir.join("journal"));
        let last_number = journal.map_or(0, |found| found.map_or(0, |found| found.last_number));
        if (last_number..last_number + MIN_REFRESHED_CHANGES).contains(&head.last_number) {
            return Ok(());
        }
        if let Some((recovered, missing)) = try_copy(dir, session, head.last_number)?
            && recovered.journal.len < MAX_STANDBY_BYTES + 4 * recovered.live_bytes
            && recovered.tail.file.len < MAX_STANDBY_BYTES
        {
            return recovered.append_changes(&missing).map_err(to_error);
        }
    }
    make_copy(dir, session, &head.state_id)
}

/// Logs why a server waits, unless it is the same reason as before.
fn log_once(last_reason: &mut String, reason: String) {
    if *last_reason != reason {
        tracing::info!("{reason}");
        *last_reason = reason;
    }
}

/// Opens the copy in `dir`. A copy that is of another state, damaged or too old is set aside and made again.
///
/// # Errors
/// `CONFLICT` when the folder has a state of its own; `INTERNAL` naming what cannot be read or written.
pub fn open_copy(dir: &Path, mut session: Session, standby: Option<&Standby>) -> Result<OpenedCopy> {
    let to_error = |cause: std::io::Error| open_error(dir, cause);
    let copy_file = dir.join(COPY_FILE);
    let copied_state = secret::read(&copy_file).map_err(to_error)?;
    if copied_state.is_none() && has_state(dir) {
        return Err(own_state_error(dir));
    }
    let address = standby.map(|standby| own_address(&mut session, standby)).transpose();
    let address = address.map_err(|cause| open_error(dir, cause))?;
    // The epoch begins first: from then on the former active server commits nothing.
    let epoch = session.begin_epoch(address.as_deref()).map_err(|cause| open_error(dir, cause))?;
    let head = session.head().map_err(|cause| open_error(dir, cause))?;
    secret::write(&dir.join(KEYS_FILE), &head.signing_keys).map_err(to_error)?;
    let is_same = copied_state.is_some_and(|id| id.trim() == head.state_id);
    if is_same && let Some((recovered, missing)) = try_copy(dir, &mut session, head.last_number)? {
        let remote = RemoteJournal::new(session, epoch);
        return Ok(OpenedCopy { recovered, missing, last_number: head.last_number, remote });
    }
    make_copy(dir, &mut session, &head.state_id)?;
    let recovered = recover::open(dir)?;
    let remote = RemoteJournal::new(session, epoch);
    Ok(OpenedCopy { recovered, missing: Vec::new(), last_number: head.last_number, remote })
}

/// Where the other servers of the database reach this one: as configured, otherwise the address it listens on, otherwise that of
/// its connection to the database.
fn own_address(session: &mut Session, standby: &Standby) -> std::result::Result<String, String> {
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

fn own_state_error(dir: &Path) -> Error {
    let message = format!(
        "{} has a state of its own: `hearthcast export` it without the database, then `hearthcast import` it into the \
         database with another, empty folder",
        dir.display()
    );
    Error::new(Code::Conflict, message)
}

/// Makes the copy again from the records of the database.
fn make_copy(dir: &Path, session: &mut Session, state_id: &str) -> Result<()> {
    let to_error = |cause: std::io::Error| open_error(dir, cause);
    let copy_file = dir.join(COPY_FILE);
    tracing::info!(state = %dir.display(), "the copy of the database is made again");
    // Until the copy is complete, the file names no state.
    secret::write(&copy_file, "incomplete\n").map_err(to_error)?;
    rebuild(dir, session)?;
    secret::write(&copy_file, &format!("{state_id}\n")).map_err(to_error)
}

/// Opens the copy with the changes that it lacks; `None` when it cannot catch up.
fn try_copy(dir: &Path, session: &mut Session, last_number: u64) -> Result<Option<(RecoveredState, Vec<Edit>)>> {
    let recovered = match recover::open(dir) {
        Ok(recovered) => recovered,
        Err(error) => {
            tracing::error!(%error, "the copy of the database cannot be opened");
            return Ok(None);
        }
    };
    if !recovered.lost_records.is_empty() || recovered.last_number > last_number {
        return Ok(None);
    }
    let missing = session.changes_after(recovered.last_number).map_err(|cause| open_error(dir, cause))?;
    Ok(missing.map(|missing| (recovered, missing)))
}

/// Makes the copy anew from the records of the database.
fn rebuild(dir: &Path, session: &mut Session) -> Result<()> {
    let to_error = |cause: std::io::Error| open_error(dir, cause);
    let mut draft = Draft::begin(dir).map_err(to_error)?;
    let read = session.for_each_record(|number, edit| {
        let added = draft.add_record(edit.tree, &edit.key, number, edit.json.as_deref());
        added.map_err(|cause| cause.to_string())
    });
    read.map_err(|cause| open_error(dir, cause))?;
    for name in ["journal", "db", tail::FILE_NAME] {
        if dir.join(name).exists() {
            quarantine::move_away(dir, name).map_err(to_error)?;
        }
    }
    draft.complete_and_replace(dir).map_err(to_error)
}

fn has_state(dir: &Path) -> bool {
    match journal::read(&dir.join("journal")) {
        Ok(found) => found.map_or(dir.join("db").exists(), |found| !found.positions.is_empty()),
        Err(_) => true,
    }
}

/// Why the settings cannot be used, whatever this machine has.
pub fn settings_error(database: DatabaseSettings) -> Option<String> {
    target::parse(database).err()
}

/// Why the settings or the certificates of this machine cannot be used, without a connection.
pub fn machine_error(database: DatabaseSettings) -> Option<String> {
    Target::new(database).err()
}

/// Checks that the database can be used. Must be called outside of a runtime.
///
/// # Errors
/// `INTERNAL` saying why it cannot.
pub fn check(database: DatabaseSettings) -> Result<()> {
    connect(database).map(drop)
}

/// Replaces the signing keys in the database. Must be called outside of a runtime.
///
/// # Errors
/// `INTERNAL` when the database does not take them.
pub fn publish_signing_keys(dir: &Path, database: DatabaseSettings) -> Result<()> {
    let keys = secret::read(&dir.join(KEYS_FILE)).map_err(|cause| open_error(dir, cause))?.unwrap_or_default();
    let mut session = connect(database)?;
    session.set_signing_keys(&keys).map_err(database_error)
}

/// The signing keys, and all records as they were at one moment. Must be called outside of a runtime.
///
/// # Errors
/// `INTERNAL` when they cannot be read, and what `visit` returns.
pub fn read_all(database: DatabaseSettings, mut visit: impl FnMut(Edit) -> Result<()>) -> Result<String> {
    let mut session = connect(database)?;
    let mut failed = None;
    let read = session.for_each_record(|_, edit| {
        visit(edit).map_err(|error| {
            let text = error.to_string();
            failed = Some(error);
            text
        })
    });
    match (failed, read) {
        (Some(error), _) => Err(error),
        (None, read) => {
            read.map_err(database_error).and_then(|()| Ok(session.head().map_err(database_error)?.signing_keys))
        }
    }
}

/// Replaces the state in the database by records and signing keys; returns the number of records.
///
/// # Errors
/// `CONFLICT` when a server is active, or when there are records and `replace` is false; `INTERNAL` when the database fails,
/// which leaves it as it was.
pub fn replace_all(
    database: DatabaseSettings,
    replace: bool,
    keys: Option<&str>,
    records: impl Iterator<Item = std::result::Result<(Tree, String, Vec<u8>), String>>,
) -> Result<u64> {
    let mut session = become_active(Path::new(""), database, None)?;
    if !replace && session.has_records().map_err(database_error)? {
        let message = "the database already contains a state: use --replace to replace it";
        return Err(Error::new(Code::Conflict, message));
    }
    session.replace_all(keys, records).map_err(database_error)
}

fn connect(database: DatabaseSettings) -> Result<Session> {
    let target = Target::new(database).map_err(database_error)?;
    Session::connect(target).map_err(|cause| database_error(cause.to_string()))
}

fn database_error(cause: String) -> Error {
    Error::internal(format!("the state in PostgreSQL: {cause}"))
}
