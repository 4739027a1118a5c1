//! The committer of a copy: what it gets from the database that has the state.

use tokio::sync::oneshot;

use super::super::batch::Edit;
use super::super::open_error;
use super::super::recover::{self, RecoveredState};
use super::{Committer, MAX_GROUP_CALLERS, PendingChange};
use crate::error::Result;

impl Committer {
    /// Opens the files, and writes to a copy what only the database has.
    pub(super) fn reopen(&mut self) -> Result<RecoveredState> {
        let opened = recover::open(&self.dir)?;
        let Some(remote) = self.remote.as_mut() else { return Ok(opened) };
        let unavailable = |cause: String| open_error(&self.dir, cause);
        if !remote.is_connected() && remote.check().is_none() {
            return Err(open_error(&self.dir, "the database is not connected"));
        }
        let missing = remote.changes_after(opened.last_number).map_err(unavailable)?;
        let missing = missing.ok_or_else(|| unavailable("the copy is too old: start again".to_owned()))?;
        if missing.is_empty() {
            return Ok(opened);
        }
        opened.append_changes(&missing).map_err(|cause| unavailable(cause.to_string()))?;
        // Opening again applies the lines to the index.
        recover::open(&self.dir)
    }

    /// Writes to the files changes that only the database has.
    pub(super) fn write_missing(&mut self, missing: Vec<Edit>) -> std::io::Result<()> {
        let mut missing = missing.into_iter().peekable();
        while missing.peek().is_some() {
            let edits = missing.by_ref().take(MAX_GROUP_CALLERS);
            let group = edits.map(|edit| PendingChange { edits: vec![edit], reply: oneshot::channel().0 });
            let group = group.collect();
            self.commit_group(group, true);
        }
        if self.files.is_none() {
            return Err(std::io::Error::other("the copy of the database cannot be written"));
        }
        Ok(())
    }

    /// Checks the connection to the database; after a reconnection, gets a commit whose outcome was unknown.
    pub(super) fn check_database(&mut self) {
        let Some(remote) = self.remote.as_mut() else { return };
        if remote.check().is_none_or(|last_number| last_number == self.last_number) || self.files.is_none() {
            return;
        }
        tracing::warn!("a change whose outcome was unknown is in the database");
        match remote.changes_after(self.last_number) {
            // Services got the answer that it is unknown, so they have the former record in memory.
            Ok(Some(missing)) if missing.iter().any(|edit| !edit.tree.is_read_from_store()) => remote.end_outdated(),
            Ok(Some(missing)) => {
                if let Err(cause) = self.write_missing(missing) {
                    tracing::error!(%cause, "the copy lacks the change until it is reopened");
                }
            }
            Ok(None) | Err(_) => self.enter_failed_state(),
        }
    }
}
