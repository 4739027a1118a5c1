//! Batches: several changes made together or not at all. A batch is one line of the journal, with one checksum.

use serde::Serialize;

use super::record::MAX_RECORD_BYTES;
use super::tree::Tree;
use crate::error::{Code, Error, Result};

/// Maximum changes in one batch: enough for all channels of a source, and for all logins and stream tokens of a user.
pub const MAX_BATCH_CHANGES: usize = 16_384;

/// One record to write or to remove.
pub struct Edit {
    pub tree: Tree,
    pub key: String,
    /// `None` removes the record.
    pub json: Option<Vec<u8>>,
}

impl Edit {
    /// Writes a record.
    ///
    /// # Errors
    /// `PAYLOAD_TOO_LARGE` for more than [`MAX_RECORD_BYTES`] bytes of key and JSON.
    pub fn put<T: Serialize>(tree: Tree, key: &str, value: &T) -> Result<Self> {
        let json = serde_json::to_vec(value).map_err(Error::internal)?;
        let bytes = key.len() + json.len();
        if bytes > MAX_RECORD_BYTES {
            let message = format!("the record has {bytes} bytes, the limit is {MAX_RECORD_BYTES}");
            return Err(Error::new(Code::PayloadTooLarge, message));
        }
        Ok(Self { tree, key: key.to_owned(), json: Some(json) })
    }

    /// Removes a record; if it does not exist, nothing happens.
    pub fn delete(tree: Tree, key: &str) -> Self {
        Self { tree, key: key.to_owned(), json: None }
    }
}

/// Changes of several records, in order. [`super::Store::write`] applies them.
#[derive(Default)]
pub struct Batch {
    pub(super) edits: Vec<Edit>,
    bytes: usize,
}

impl Batch {
    /// Adds a record to write.
    ///
    /// # Errors
    /// `PAYLOAD_TOO_LARGE` for more than [`MAX_RECORD_BYTES`] bytes of keys and JSON, or [`MAX_BATCH_CHANGES`] changes, in the batch;
    /// `INTERNAL` for a tree that is not journaled.
    pub fn put<T: Serialize>(&mut self, tree: Tree, key: &str, value: &T) -> Result<()> {
        self.add(Edit::put(tree, key, value)?)
    }

    /// Adds a record to remove; if it does not exist, nothing happens.
    ///
    /// # Errors
    /// As for [`Self::put`].
    pub fn delete(&mut self, tree: Tree, key: &str) -> Result<()> {
        self.add(Edit::delete(tree, key))
    }

    fn add(&mut self, edit: Edit) -> Result<()> {
        if !edit.tree.journaled() {
            return Err(Error::internal(format!("{} is not journaled, so it cannot be in a batch", edit.tree.name())));
        }
        self.bytes += edit.key.len() + edit.json.as_ref().map_or(0, Vec::len);
        if self.bytes > MAX_RECORD_BYTES || self.edits.len() >= MAX_BATCH_CHANGES {
            let message = format!(
                "the batch changes {} records of {} bytes, the limits are {MAX_BATCH_CHANGES} records and {MAX_RECORD_BYTES} bytes",
                self.edits.len() + 1,
                self.bytes
            );
            return Err(Error::new(Code::PayloadTooLarge, message));
        }
        self.edits.push(edit);
        Ok(())
    }
}

impl From<Edit> for Batch {
    fn from(edit: Edit) -> Self {
        Self { edits: vec![edit], ..Self::default() }
    }
}
