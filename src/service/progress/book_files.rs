//! Files that are whole audiobooks: one progress, whether they are opened as books or as media files.

use super::{ProgressStore, is_folder_id};
use crate::domain::catalogue::album::is_whole_book;
use crate::domain::progress::{BookPosition, MediaType, ProgressRecord};
use crate::error::Result;
use crate::service::Service;
use crate::store::Edit;

impl ProgressStore {
    /// The records of all users whose last known path matches: user and item.
    pub fn records_at_paths(&self, matches: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        let users = self.read_index();
        let records = users.iter().flat_map(|(user, index)| {
            let matching = index.known_items().filter(|(_, path, _)| matches(path));
            matching.map(|(id, _, _)| (user.clone(), id.to_string()))
        });
        records.collect()
    }

    /// A user's records of books that are folders.
    ///
    /// # Errors
    /// `INTERNAL` for a record that cannot be read.
    pub fn folder_records(&self, user_id: &str) -> Result<Vec<ProgressRecord>> {
        let ids: Vec<_> = match self.read_index().get(user_id) {
            Some(index) => index.known_items().map(|(id, _, _)| id.clone()).filter(|id| is_folder_id(id)).collect(),
            None => Vec::new(),
        };
        let records = ids.iter().map(|id| self.record(user_id, id)).collect::<Result<Vec<_>>>()?;
        Ok(records.into_iter().flatten().collect())
    }

    /// Stores a record of another store as that of a book, unless the book was played later.
    async fn adopt(&self, user_id: &str, former: ProgressRecord) -> Result<()> {
        let _item_lock = self.item_lock(user_id, &former.media_id).lock().await;
        let own = self.record(user_id, &former.media_id)?;
        if own.as_ref().is_some_and(|own| own.last_watched_at >= former.last_watched_at) {
            return Ok(());
        }
        let version = own.as_ref().map_or(0, |own| own.version).max(former.version) + 1;
        let book = BookPosition {
            chapter_index: 0,
            chapter_position_seconds: former.position_seconds,
            playback_rate: own.and_then(|own| own.book).map_or(1.0, |book| book.playback_rate),
            percentage: former.percentage(),
            file: None,
        };
        let record = ProgressRecord { media_type: MediaType::Audiobook, book: Some(book), version, ..former };
        self.replace(user_id, &record.media_id.clone(), record).await
    }

    /// Deletes a record that another store has adopted.
    pub async fn discard(&self, user_id: &str, media_id: &str) -> Result<()> {
        let _item_lock = self.item_lock(user_id, media_id).lock().await;
        self.store.write(Edit::delete(self.tree, &super::record_key(user_id, media_id))).await?;
        if let Some(index) = self.write_index().get_mut(user_id) {
            index.remove(media_id);
        }
        Ok(())
    }
}

impl Service {
    /// Makes progress in the file of a whole book progress in the book. Versions before 0.3.0 stored both.
    ///
    /// # Errors
    /// `STORAGE_FULL`; `INTERNAL` for a record that cannot be read.
    pub(super) async fn unite_book_progress(&self, user_id: &str, media_id: &str) -> Result<()> {
        let Some(former) = self.progress.record(user_id, media_id)? else { return Ok(()) };
        self.books.adopt(user_id, former).await?;
        self.progress.discard(user_id, media_id).await
    }

    /// Does so for all users and books.
    pub(super) async fn unite_all_book_progress(&self) -> Result<()> {
        for (user_id, media_id) in self.progress.records_at_paths(is_whole_book) {
            self.unite_book_progress(&user_id, &media_id).await?;
        }
        Ok(())
    }
}
