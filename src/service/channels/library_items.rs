//! The library as channels need it: which files a rule selects, what an item is called, and where a file is now.

use std::sync::Arc;

use crate::domain::catalogue::ItemId;
use crate::domain::channel_rule::ItemRule;
use crate::domain::schedule::ItemNames;
use crate::engine::folder::EntryTarget;
use crate::service::Service;

use super::Channels;

/// A file of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFile {
    pub path: String,
    pub content: ItemId,
}

/// The items of the library. The catalogue implements it, because it is a room above this one.
pub trait LibraryItems: Send + Sync {
    /// The files that a rule selects, in the order in which they are listed.
    fn select(&self, service: &Service, rule: &ItemRule) -> Vec<LibraryFile>;

    /// The title and numbers of the file at a path, if it has this content.
    fn names_of(&self, path: &str, content: ItemId) -> Option<ItemNames>;

    /// The paths of all files with this content.
    fn paths_of(&self, content: ItemId) -> Vec<String>;

    /// The length and time of a content's file; also of one that is gone, until all changes are read.
    fn version_of(&self, content: ItemId) -> Option<EntryTarget>;

    /// Whether files at or below a folder are listed.
    fn has_files_below(&self, folder: &str) -> bool;

    /// Folders whose changes are not read yet, `limit` at most: those whose path begins most like `near`, in that order.
    fn unread_folders(&self, near: &str, limit: usize) -> Vec<String>;

    /// Whether every file was found since the start, and no change waits.
    fn is_current(&self, root_count: usize) -> bool;
}

impl Channels {
    /// Adds the items of the library, without which rules select nothing.
    #[must_use]
    pub fn with_library(mut self, items: Arc<dyn LibraryItems>) -> Self {
        self.library_items = Some(items);
        self
    }

    /// Notifies the task that applies the rules of channels.
    pub fn notify_library_change(&self) {
        self.library_changed.notify_one();
    }
}
