//! The state in PostgreSQL: the database has the changes and records of one active server, and its state folder a full
//! copy of them, from which it reads.
//!
//! A change is first committed in the database, then written to the files of the copy as without a database, then
//! acknowledged. So the copy is never ahead of the database; it catches up when it is opened.

use std::path::Path;

use super::batch::Edit;
use super::commit::follow::RemoteState;
use super::draft::Draft;
use super::recover::{self, RecoveredState};
use super::shared_state::CopyFolder;
use super::tree::Tree;
use super::{COPY_FILE, Standby, Store, computed, journal, open_error, quarantine, secret, tail};
use crate::config::DatabaseSettings;
use crate::error::{Code, Error, Result};

mod connection;
mod follower;
mod remote_journal;
mod schema;
mod standby;
mod target;
mod tls;

pub use connection::Session;
use follower::{Follower, write_keys};
pub use remote_journal::RemoteJournal;
use standby::{WaitingServer, own_address};
use target::Target;

/// File of the signing keys, which all servers of a database share.
const KEYS_FILE: &str = "signing-keys";

/// Opens the state as its active server. Must be called outside of a runtime. With `standby` it waits as long as another server is
/// active or the database cannot be reached.
///
/// # Errors
/// `CONFLICT` when another server is active, or when the folder has a state of its own; `INTERNAL` when the database cannot be
/// used, or naming what cannot be read or written.
pub fn open(folder: &CopyFolder, database: DatabaseSettings, standby: Option<&Standby>) -> Result<Store> {
    let Some(standby) = standby else { return open_as_active(folder, become_active(database)?, None, None) };
    let (mut session, follower) = WaitingServer::new(folder, standby).wait(database)?;
    let address = own_address(&mut session, standby).map_err(|cause| open_error(&folder.dir, cause))?;
    open_as_active(folder, session, follower, Some(&address))
}

/// Connects to the database and takes the lock of its active server.
///
/// # Errors
/// `CONFLICT` when another server is active; `INTERNAL` when the database cannot be used.
fn become_active(database: DatabaseSettings) -> Result<Session> {
    let target = Target::new(database).map_err(unusable_error)?;
    let mut session = Session::connect(target).map_err(|cause| unusable_error(cause.to_string()))?;
    match session.try_lock().map_err(unusable_error)? {
        true => Ok(session),
        false => Err(Error::new(Code::Conflict, "the database is in use by a running server")),
    }
}

/// Opens the copy with a session that has the lock, and the copy that is open already, if there is one. A copy that is of another
/// state, damaged or too old is set aside and made again. `address` is where other servers reach this one.
fn open_as_active(
    folder: &CopyFolder,
    mut session: Session,
    follower: Option<Follower>,
    address: Option<&str>,
) -> Result<Store> {
    let dir = &folder.dir;
    let to_error = |cause: String| open_error(dir, cause);
    check_folder(dir)?;
    // The epoch begins first: from then on the former active server commits nothing.
    let epoch = session.begin_epoch(address).map_err(to_error)?;
    let head = session.head().map_err(to_error)?;
    write_keys(dir, &head)?;
    let last_number = head.last_number;
    if let Some(follower) = follower {
        if follower.is_copy_of(&head)
            && let Some(missing) = session.changes_after(follower.last_number()).map_err(to_error)?
        {
            let journal = RemoteJournal::new(session, epoch);
            return follower.become_active(RemoteState { journal, missing, last_number });
        }
        follower.close();
    }
    let follower = Follower::open(folder, &mut session, &head)?;
    let journal = RemoteJournal::new(session, epoch);
    follower.become_active(RemoteState { journal, missing: Vec::new(), last_number })
}

/// The id of the state that the folder is a copy of; `None` if it is empty.
///
/// # Errors
/// `CONFLICT` when the folder has a state of its own.
fn check_folder(dir: &Path) -> Result<Option<String>> {
    let copied_state = secret::read(&dir.join(COPY_FILE)).map_err(|cause| open_error(dir, cause))?;
    match copied_state.is_none() && has_state(dir) {
        true => Err(own_state_error(dir)),
        false => Ok(copied_state),
    }
}

fn unusable_error(cause: String) -> Error {
    Error::internal(format!("the state in PostgreSQL cannot be opened: {cause}"))
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
    for name in ["journal", "db", computed::FOLDER, tail::FILE_NAME] {
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
    let mut session = become_active(database)?;
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
