//! Progress by request path: finds the item and saves, reads or resets its record.

use std::sync::Arc;

use super::audiobook::BookPositionUpdate;
use super::{HistoryFilter, HistoryPage, ProgressStore};
use crate::domain::access::Principal;
use crate::domain::catalogue::album::is_whole_book;
use crate::domain::progress::{ProgressItem, ProgressRecord, ProgressSave, SaveResult};
use crate::engine::source::SourceFile;
use crate::error::{Code, Result};
use crate::service::Service;

impl Service {
    /// Saves a user's progress in a file. That of a whole book is progress in the book.
    ///
    /// # Errors
    /// Those of opening the file; `UNAUTHORIZED` if the user was removed meanwhile; `STORAGE_FULL`.
    pub async fn save_progress(&self, user: &Principal, path: &str, save: ProgressSave) -> Result<SaveResult> {
        if is_whole_book(path) {
            return self.save_book_progress(user, path, save, BookPositionUpdate::default()).await;
        }
        let user_id = &user.user_id;
        let source = self.library.open_seen(&user.visibility, path).await?;
        let mut item = ProgressItem::new_file(self.media.fingerprint(&source).await?, &source.path, source.len);
        if save.duration_seconds.is_none_or(|duration| duration == 0.0)
            && self.progress.record(user_id, &item.media_id)?.is_none_or(|old| old.duration_seconds == 0.0)
        {
            // Progress in a file that cannot be probed is saved all the same.
            item.duration_seconds =
                self.media.probe(&source).await.ok().and_then(|probed| probed.media.duration_seconds);
        }
        self.progress.save(user_id, item, save, |id| self.accounts.is_user(id)).await
    }

    /// A user's progress in a file, also after the file is gone.
    ///
    /// # Errors
    /// Those of opening the file, unless there is a record of its path.
    pub async fn progress_at_path(&self, user: &Principal, path: &str) -> Result<Option<ProgressRecord>> {
        let located = self.library.locate_seen(&user.visibility, path)?;
        match self.library.open(path).await {
            Ok(source) => self.progress_of_source(&user.user_id, &source).await,
            Err(fault) if fault.code == Code::NotFound => self
                .store_of(path)
                .record_at_path(&user.user_id, &located.path)?
                .map_or(Err(fault), |record| Ok(Some(record))),
            Err(fault) => Err(fault),
        }
    }

    /// A user's progress in an open file.
    ///
    /// # Errors
    /// `SOURCE_READ_FAILED`.
    pub async fn progress_of_source(&self, user_id: &str, source: &Arc<SourceFile>) -> Result<Option<ProgressRecord>> {
        let media_id = self.media.fingerprint(source).await?;
        if is_whole_book(&source.path) {
            self.unite_book_progress(user_id, &media_id).await?;
        }
        let record = self.store_of(&source.path).record(user_id, &media_id)?;
        Ok(record.map(|record| ProgressRecord { path: source.path.clone(), ..record }))
    }

    /// Resets a user's progress in a file; returns its canonical path, and whether there was a record.
    ///
    /// # Errors
    /// Those of opening the file, but a missing file is no error; `STORAGE_FULL`.
    pub async fn reset_progress(&self, user: &Principal, path: &str) -> Result<(String, bool)> {
        if is_whole_book(path) {
            return self.reset_book_progress(user, path).await;
        }
        let user_id = &user.user_id;
        let canonical_path = self.library.locate_seen(&user.visibility, path)?.path;
        let id = match self.library.open(path).await {
            Ok(source) => Some(self.media.fingerprint(&source).await?),
            Err(fault) if fault.code == Code::NotFound => {
                self.progress.record_at_path(user_id, &canonical_path)?.map(|record| record.media_id)
            }
            Err(fault) => return Err(fault),
        };
        let deleted = match id {
            Some(id) => self.progress.reset(user_id, &id, &canonical_path).await?,
            None => false,
        };
        Ok((canonical_path, deleted))
    }

    /// A page of a user's started items, as [`ProgressStore::history`], without those that the user does not see.
    ///
    /// # Errors
    /// Those of [`ProgressStore::history`].
    pub fn history(
        &self,
        user: &Principal,
        filter: HistoryFilter,
        cursor: Option<&str>,
        max: usize,
    ) -> Result<HistoryPage<ProgressRecord>> {
        self.progress.history(&user.user_id, self.with_seen_paths(user, filter), cursor, max)
    }

    /// A page of a user's started audiobooks, as [`Self::history`].
    ///
    /// # Errors
    /// Those of [`ProgressStore::history`].
    pub fn book_history(
        &self,
        user: &Principal,
        filter: HistoryFilter,
        cursor: Option<&str>,
        max: usize,
    ) -> Result<HistoryPage<ProgressRecord>> {
        self.books.history(&user.user_id, self.with_seen_paths(user, filter), cursor, max)
    }

    fn with_seen_paths(&self, user: &Principal, filter: HistoryFilter) -> HistoryFilter {
        HistoryFilter { paths: self.library.visible_paths(&user.visibility), ..filter }
    }

    /// The store of the progress in a file.
    fn store_of(&self, path: &str) -> &Arc<ProgressStore> {
        if is_whole_book(path) { &self.books } else { &self.progress }
    }

    /// Deletes records of deleted users, and old resets.
    ///
    /// # Errors
    /// `STORAGE_FULL`.
    pub async fn clean_up_progress(self: &Arc<Self>) -> Result<()> {
        self.unite_all_book_progress().await?;
        let stores: [&ProgressStore; 2] = [&self.progress, &self.books];
        for progress_store in stores {
            let service = self.clone();
            progress_store.clean_up(move |id| service.accounts.is_user(id)).await?;
        }
        Ok(())
    }
}
