#![doc = include_str!("README.md")]

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::marks::{Mark, chapter_names, strongest};
use crate::domain::media::Media;
use crate::engine::source::SourceFile;
use crate::error::Result;
use crate::service::Service;
use crate::service::catalogue::ItemId;
use crate::store::{Store, Tree};

mod analysis;
mod recaps;
mod record;
mod scene_breaks;
mod season;

pub use analysis::{analyse_library, start};
pub use scene_breaks::search_library;

use record::{MARKS_VERSION, MarksRecord};

/// Marks found in audio and video, by item.
pub struct Marks {
    store: Store,
    /// The analyses that are done, by item; about 40 bytes each.
    done: Mutex<HashMap<ItemId, Done>>,
}

/// The analyses of an item that are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    /// Its audio was compared with another episode of its season.
    is_compared: bool,
    /// Its end was examined for credits.
    is_examined: bool,
    /// It was searched for scene breaks.
    is_searched: bool,
    /// Its opening was searched for a recap.
    is_recap_searched: bool,
}

impl Marks {
    pub fn new(store: Store) -> Self {
        Self { store, done: Mutex::default() }
    }

    fn done(&self, id: ItemId) -> Done {
        self.lock_done().get(&id).copied().unwrap_or_default()
    }

    fn lock_done(&self) -> MutexGuard<'_, HashMap<ItemId, Done>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An item's record; an empty one if it is missing or of another version.
    fn record(&self, id: ItemId) -> MarksRecord {
        let stored = self.store.get::<MarksRecord>(Tree::SkipMarks, &id.to_string());
        // A record that cannot be read is made again.
        stored.ok().flatten().filter(|record| record.version == MARKS_VERSION).unwrap_or_default()
    }

    async fn put(&self, id: ItemId, record: &MarksRecord) -> Result<()> {
        self.store.put(Tree::SkipMarks, &id.to_string(), record).await?;
        self.lock_done().insert(id, record.done());
        Ok(())
    }
}

impl Service {
    /// The parts of an item that viewers may skip: by the names of its chapters, and those found so far in its audio and video.
    pub fn marks_of(&self, source: &SourceFile, media: &Media) -> Vec<Mark> {
        let id = source.cached_fingerprint().and_then(ItemId::parse);
        let found = id.map(|id| self.marks.record(id).marks).unwrap_or_default();
        strongest(chapter_names::find_marks(&media.chapters).into_iter().chain(found))
    }
}
