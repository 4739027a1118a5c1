//! Progress by request path: finds the item and saves, reads or resets its record.

use std::sync::Arc;

use super::ProgressStore;
use crate::domain::progress::{ProgressItem, ProgressRecord, ProgressSave, SaveResult};
use crate::engine::source::SourceFile;
use crate::error::{Code, Result};
use crate::service::Service;

impl Service {
    /// Saves a user's progress in a file.
    ///
    /// # Errors
    /// Those of opening the file; `UNAUTHORIZED` if the user was removed meanwhile; `STORAGE_FULL`.
    pub async fn save_progress(&self, user_id: &str, path: &str, save: ProgressSave) -> Result<SaveResult> {
        let source = self.library.open(path).await?;
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
    pub async fn progress_at_path(&self, user_id: &str, path: &str) -> Result<Option<ProgressRecord>> {
        match self.library.open(path).await {
            Ok(source) => self.progress_of_source(user_id, &source).await,
            Err(fault) if fault.code == Code::NotFound => self
                .progress
                .record_at_path(user_id, &self.library.roots().locate(path)?.path)?
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
        let record = self.progress.record(user_id, &media_id)?;
        Ok(record.map(|record| ProgressRecord { path: source.path.clone(), ..record }))
    }

    /// Resets a user's progress in a file; returns its canonical path, and whether there was a record.
    ///
    /// # Errors
    /// Those of opening the file, but a missing file is no error; `STORAGE_FULL`.
    pub async fn reset_progress(&self, user_id: &str, path: &str) -> Result<(String, bool)> {
        let canonical_path = self.library.roots().locate(path)?.path;
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

    /// Deletes records of deleted users, and old resets.
    ///
    /// # Errors
    /// `STORAGE_FULL`.
    pub async fn clean_up_progress(self: &Arc<Self>) -> Result<()> {
        let stores: [&ProgressStore; 2] = [&self.progress, &self.books];
        for progress_store in stores {
            let service = self.clone();
            progress_store.clean_up(move |id| service.accounts.is_user(id)).await?;
        }
        Ok(())
    }
}
