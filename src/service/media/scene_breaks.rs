//! Scene breaks of films and episodes, kept by content and version. They are found while nothing is played (`marks`), and used where a
//! file has no chapters.

use std::sync::Arc;

use super::versioned::Versioned;
use crate::domain::time::Ticks;
use crate::engine::source::SourceFile;
use crate::error::Result;
use crate::service::Service;
use crate::store::Tree;

/// Most scene breaks of an item.
const MAX_SCENE_BREAKS: usize = 100;

/// Milliseconds from the beginning of the file.
type StoredBreaks = Versioned<Vec<u32>>;

impl Service {
    /// The scene breaks that were found in a file so far, in order; none if it was not searched.
    pub async fn scene_breaks(&self, source: &Arc<SourceFile>) -> Vec<Ticks> {
        let record = self.stored_scene_breaks(source).await;
        let found = record.as_ref().and_then(|record| record.for_version(&source.version()));
        found.into_iter().flatten().map(|ms| Ticks::from_ms(i64::from(*ms))).collect()
    }

    /// Stores the scene breaks of a file, milliseconds in order; at most 100, the rest is left out.
    ///
    /// # Errors
    /// Those of the store, and of reading the file.
    pub async fn put_scene_breaks(&self, source: &Arc<SourceFile>, mut breaks_ms: Vec<u32>) -> Result<()> {
        breaks_ms.truncate(MAX_SCENE_BREAKS);
        let old = self.stored_scene_breaks(source).await;
        let record = StoredBreaks::with_version(old, breaks_ms, &source.version(), |a, b| a == b);
        self.store.put(Tree::SceneBreaks, &self.media.fingerprint(source).await?, &record).await
    }

    async fn stored_scene_breaks(&self, source: &Arc<SourceFile>) -> Option<StoredBreaks> {
        let key = self.media.fingerprint(source).await.ok()?;
        let store = self.store.clone();
        let read = tokio::task::spawn_blocking(move || store.get::<StoredBreaks>(Tree::SceneBreaks, &key));
        // An unreadable record is treated as missing.
        read.await.ok().and_then(Result::ok).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::records::assert_golden;

    #[test]
    fn records_keep_their_bytes() {
        assert_golden::<StoredBreaks>("scene-breaks");
    }
}
