//! Several changes that are made together or not at all: one line of the journal, with one checksum.

use serde::Serialize;

use super::journal::MAX_RECORD;
use super::record;
use super::tree::Tree;
use crate::error::{Code, Error, Result};

/// Changes in one batch at most: all channels of a source, or all that a user can have.
pub const MAX_CHANGES: usize = 16_384;

/// A change of one record.
pub struct Edit {
    pub tree: Tree,
    pub key: String,
    /// None to remove.
    pub json: Option<Vec<u8>>,
}

/// Changes of several records, in order. [`super::Store::write`] makes them.
#[derive(Default)]
pub struct Batch {
    pub(super) edits: Vec<Edit>,
    bytes: usize,
}

impl Batch {
    /// Adds a record to be written.
    ///
    /// # Errors
    /// `PAYLOAD_TOO_LARGE` for more than [`MAX_RECORD`] bytes of keys and JSON or [`MAX_CHANGES`] changes in all;
    /// `INTERNAL` for a tree that is not journaled.
    pub fn put<T: Serialize>(&mut self, tree: Tree, key: &str, value: &T) -> Result<()> {
        let json = record::json(value).map_err(Error::internal)?;
        self.add(Edit { tree, key: key.to_owned(), json: Some(json) })
    }

    /// Adds a record to be removed; one that is not there is passed over.
    ///
    /// # Errors
    /// As of [`Self::put`].
    pub fn delete(&mut self, tree: Tree, key: &str) -> Result<()> {
        self.add(Edit { tree, key: key.to_owned(), json: None })
    }

    fn add(&mut self, edit: Edit) -> Result<()> {
        if !edit.tree.journaled() {
            return Err(Error::internal(format!("{} is not journaled, so it cannot be in a batch", edit.tree.name())));
        }
        self.bytes += edit.key.len() + edit.json.as_ref().map_or(0, Vec::len);
        if self.bytes > MAX_RECORD || self.edits.len() >= MAX_CHANGES {
            let message = format!(
                "this would change {} records of {} bytes at once, at most {MAX_CHANGES} and {MAX_RECORD} bytes can be",
                self.edits.len() + 1,
                self.bytes
            );
            return Err(Error::new(Code::PayloadTooLarge, message));
        }
        self.edits.push(edit);
        Ok(())
    }
}
