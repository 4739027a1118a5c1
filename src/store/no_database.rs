//! In builds without the feature `cluster` there is no database; the configuration refuses its address.

use std::path::Path;

use tokio::sync::mpsc;

use super::batch::Edit;
use super::commit::CommitError;
use super::shared_state::CopyFolder;
use super::tree::Tree;
use super::{Standby, Store};
use crate::config::DatabaseSettings;
use crate::error::{Error, Result};

/// No value of this type exists.
pub enum RemoteJournal {}

impl RemoteJournal {
    pub fn is_connected(&self) -> bool {
        match *self {}
    }

    pub fn next<T>(&mut self, _receiver: &mut mpsc::Receiver<T>) -> std::result::Result<Option<T>, ()> {
        match *self {}
    }

    pub fn commit(&mut self, _last_number: u64, _edits: &[&Edit]) -> std::result::Result<(), CommitError> {
        match *self {}
    }

    pub fn check(&mut self) -> Option<u64> {
        match *self {}
    }

    pub fn end_outdated(&self) -> ! {
        match *self {}
    }

    pub fn changes_after(&mut self, _number: u64) -> std::result::Result<Option<Vec<Edit>>, String> {
        match *self {}
    }
}

pub fn open(_folder: &CopyFolder, _database: DatabaseSettings, _standby: Option<&Standby>) -> Result<Store> {
    Err(unsupported_error())
}

pub fn settings_error(_database: DatabaseSettings) -> Option<String> {
    Some(unsupported_error().message)
}

pub fn machine_error(_database: DatabaseSettings) -> Option<String> {
    Some(unsupported_error().message)
}

pub fn check(_database: DatabaseSettings) -> Result<()> {
    Err(unsupported_error())
}

pub fn publish_signing_keys(_dir: &Path, _database: DatabaseSettings) -> Result<()> {
    Err(unsupported_error())
}

pub fn read_all(_database: DatabaseSettings, _visit: impl FnMut(Edit) -> Result<()>) -> Result<String> {
    Err(unsupported_error())
}

pub fn replace_all(
    _database: DatabaseSettings,
    _replace: bool,
    _keys: Option<&str>,
    _records: impl Iterator<Item = std::result::Result<(Tree, String, Vec<u8>), String>>,
) -> Result<u64> {
    Err(unsupported_error())
}

fn unsupported_error() -> Error {
    Error::internal("this program was built without PostgreSQL")
}
