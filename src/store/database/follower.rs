//! The copy of a standby, open for readers. It gets each change of the database soon after its commit.

use std::collections::BTreeSet;
use std::path::Path;

use super::connection::Session;
use super::schema::Head;
use super::{KEYS_FILE, check_folder, make_copy, try_copy};
use crate::error::{Error, Result};
use crate::store::batch::Edit;
use crate::store::commit::Committer;
use crate::store::commit::follow::RemoteState;
use crate::store::disk_space::free_bytes;
use crate::store::shared_state::CopyFolder;
use crate::store::{RESERVE_BYTES, Store, Tree, open_error, recover, secret};

/// An open copy, and what writes to it.
pub struct Follower {
    store: Store,
    committer: Committer,
    state_id: String,
}

impl Follower {
    /// Opens the copy with all changes up to `head`. It is made again if it is of another state, damaged or too old.
    ///
    /// # Errors
    /// `CONFLICT` when the folder has a state of its own; `INTERNAL` naming what cannot be read or written.
    pub fn open(folder: &CopyFolder, session: &mut Session, head: &Head) -> Result<Self> {
        let dir = &folder.dir;
        let is_same = check_folder(dir)?.is_some_and(|id| id.trim() == head.state_id);
        let copy = if is_same { try_copy(dir, session, head.last_number)? } else { None };
        let (recovered, missing) = match copy {
            Some(copy) => copy,
            None => {
                make_copy(dir, session, &head.state_id)?;
                (recover::open(dir)?, Vec::new())
            }
        };
        write_keys(dir, head)?;
        let (store, mut committer) = folder.open(recovered);
        committer.follow(missing).map_err(|cause| open_error(dir, cause))?;
        committer.skip_to(head.last_number);
        Ok(Self { store, committer, state_id: head.state_id.clone() })
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whether it is a copy of the state of `head`, and not ahead of it.
    pub fn is_copy_of(&self, head: &Head) -> bool {
        self.state_id == head.state_id && self.committer.last_number() <= head.last_number
    }

    /// Writes the changes that follow its last one; returns their trees.
    ///
    /// # Errors
    /// `INTERNAL` when it cannot: it must be opened again.
    pub fn follow(&mut self, missing: Vec<Edit>) -> Result<BTreeSet<Tree>> {
        let dir = &self.store.inner.dir;
        if free_bytes(dir) < RESERVE_BYTES {
            return Err(open_error(dir, "the disk is nearly full"));
        }
        let trees = missing.iter().map(|edit| edit.tree).collect();
        self.committer.follow(missing).map_err(|cause| self.error(&cause))?;
        Ok(trees)
    }

    /// The number of its last change.
    pub fn last_number(&self) -> u64 {
        self.committer.last_number()
    }

    /// Makes it the state of the active server, with the changes that only the database has.
    ///
    /// # Errors
    /// `INTERNAL` when they cannot be written.
    pub fn become_active(mut self, remote: RemoteState) -> Result<Store> {
        self.committer.catch_up(remote).map_err(|cause| self.error(&cause))?;
        self.store.begin_writing(self.committer)?;
        Ok(self.store)
    }

    /// Closes it, so that it can be opened again. Reads of [`Self::store`] fail from then on.
    pub fn close(self) {
        self.committer.close();
    }

    fn error(&self, cause: &std::io::Error) -> Error {
        open_error(&self.store.inner.dir, cause)
    }
}

/// Writes the signing keys of the database to the folder.
pub fn write_keys(dir: &Path, head: &Head) -> Result<()> {
    secret::write(&dir.join(KEYS_FILE), &head.signing_keys).map_err(|cause| open_error(dir, cause))
}
