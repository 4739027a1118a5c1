//! The library as channels need it: which files a rule selects, what an item is called, and where a file is now.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::domain::catalogue::ItemId;
use crate::domain::channel_rule::ItemRule;
use crate::domain::schedule::{ItemNames, ScheduleItem};
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

    /// Whether an item that is due waits for the catalogue to find its renamed file.
    pub fn waits_for_renamed_file(&self) -> bool {
        Arc::strong_count(&self.rename_waits) > 1
    }

    /// Notifies the task that applies the rules of channels.
    pub fn notify_library_change(&self) {
        self.library_changed.notify_one();
    }
}

/// How long an item waits for the catalogue to find its renamed file.
const MAX_RENAME_WAIT: Duration = Duration::from_secs(5);

/// Between two looks at the catalogue.
const RENAME_INTERVAL: Duration = Duration::from_millis(200);

impl Service {
    /// The path at which an item's content is now: its own, otherwise that of another file with the same content. Its own as
    /// well if no file has the content any more.
    pub async fn find_item_file(&self, item: &ScheduleItem) -> String {
        let Some(content) = item.content else { return item.path.clone() };
        if self.has_content(&item.path, content).await {
            return item.path.clone();
        }
        let _wait = self.channels.rename_waits.clone();
        let deadline = Instant::now() + MAX_RENAME_WAIT;
        loop {
            if let Some(path) = self.find_content(&item.path, content).await {
                return path;
            }
            let Some(library) = &self.channels.library_items else { return item.path.clone() };
            // A rename of many files is noticed bit by bit.
            let is_unnoticed = || library.paths_of(content).contains(&item.path);
            let may_be_found = !library.is_current(self.library.roots().list().count()) || is_unnoticed();
            if !may_be_found || Instant::now() >= deadline {
                return item.path.clone();
            }
            sleep(RENAME_INTERVAL).await;
        }
    }

    /// Another path than `former` at which a content is now.
    pub(super) async fn find_content(&self, former: &str, content: ItemId) -> Option<String> {
        for path in self.channels.library_items.as_ref()?.paths_of(content) {
            if *path != *former && self.has_content(&path, content).await {
                return Some(path);
            }
        }
        None
    }

    async fn has_content(&self, path: &str, content: ItemId) -> bool {
        let Ok(source) = self.library.open(path).await else { return false };
        let fingerprint = self.media.fingerprint(&source).await;
        fingerprint.is_ok_and(|id| ItemId::parse(&id) == Some(content))
    }
}
