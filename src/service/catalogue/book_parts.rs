//! Files that are parts of an audiobook: the book has one progress, whichever of its files is played or reported.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::Catalogue;
use super::index::CatalogueIndex;
use super::item::{IndexedItem, ListedItem};
use crate::domain::access::Principal;
use crate::domain::catalogue::album::album_folder;
use crate::domain::catalogue::{AlbumId, ItemKind};
use crate::domain::library::kind_from_name;
use crate::domain::progress::{BookPart, ProgressItem, ProgressRecord, ProgressSave, ProgressStatus, SaveResult};
use crate::domain::sniff::MediaKind;
use crate::engine::source::SourceFile;
use crate::error::{Code, Result};
use crate::service::Service;
use crate::service::progress::ItemProgress;
use crate::service::progress::audiobook::{Audiobook, BookPositionUpdate};

impl CatalogueIndex {
    /// The folder of the book of which a file is a part; None for any other file.
    pub(super) fn book_folder(&self, item: &IndexedItem) -> Option<String> {
        let id = item.album_id().filter(|_| item.kind == ItemKind::Audiobook)?;
        let folder = album_folder(&item.folder);
        let mut parts = 0;
        for file in self.folders_of_album(folder).flat_map(|folder| self.files_in(folder)) {
            match file.album_id() == Some(id) {
                true => parts += 1,
                false if kind_from_name(file.name()) == Some(MediaKind::Audio) => return None,
                false => {}
            }
        }
        (parts > 1).then(|| folder.to_owned())
    }
}

impl Catalogue {
    /// The folder of the book of which the file at a canonical path is a part.
    fn book_folder(&self, path: &str) -> Option<String> {
        let (folder, name) = path.rsplit_once('/')?;
        let index = self.read_index();
        index.book_folder(index.file(folder, name)?)
    }

    /// Length of the file at a canonical path, seconds; None until it was probed.
    fn duration_at(&self, path: &str) -> Option<f64> {
        let (folder, name) = path.rsplit_once('/')?;
        self.read_index().file(folder, name)?.duration_seconds
    }
}

impl Service {
    /// A book with its files and chapters; the whole one, if the path is that of a part.
    ///
    /// # Errors
    /// Those of [`Service::load_book`].
    pub async fn load_whole_book(&self, user: &Principal, path: &str) -> Result<Audiobook> {
        match self.whole_book(user, path) {
            Some((_, folder)) => self.load_book(user, &folder).await,
            None => self.load_book(user, path).await,
        }
    }

    /// Saves a user's progress in a file. That in a part of a book is progress in the book.
    ///
    /// # Errors
    /// Those of [`Service::save_progress`].
    pub async fn save_file_progress(&self, user: &Principal, path: &str, save: ProgressSave) -> Result<SaveResult> {
        match self.save_part(user, path, &save, None).await? {
            Some(result) => Ok(result),
            None => self.save_progress(user, path, save).await,
        }
    }

    /// Saves a user's progress in a book, or in a part of one.
    ///
    /// # Errors
    /// Those of [`Service::save_book_progress`].
    pub async fn save_audiobook_progress(
        &self,
        user: &Principal,
        path: &str,
        save: ProgressSave,
        position: BookPositionUpdate,
    ) -> Result<SaveResult> {
        match self.save_part(user, path, &save, position.playback_rate).await? {
            Some(result) => Ok(result),
            None => self.save_book_progress(user, path, save, position).await,
        }
    }

    /// A user's progress in a file, also after the file is gone.
    ///
    /// # Errors
    /// Those of [`Service::progress_at_path`].
    pub async fn file_progress(&self, user: &Principal, path: &str) -> Result<Option<ProgressRecord>> {
        match self.whole_book(user, path) {
            Some((path, folder)) => self.part_progress(user, &path, &folder).await,
            None => self.progress_at_path(user, path).await,
        }
    }

    /// A user's progress in an open file.
    ///
    /// # Errors
    /// Those of [`Service::progress_of_source`].
    pub async fn open_file_progress(
        &self,
        user: &Principal,
        source: &Arc<SourceFile>,
    ) -> Result<Option<ProgressRecord>> {
        match self.whole_book(user, &source.path) {
            Some((path, folder)) => self.part_progress(user, &path, &folder).await,
            None => self.progress_of_source(&user.user_id, source).await,
        }
    }

    /// A user's progress in a book or in a part of one, also after it is gone.
    ///
    /// # Errors
    /// Those of [`Service::book_progress`].
    pub async fn audiobook_progress(&self, user: &Principal, path: &str) -> Result<Option<ProgressRecord>> {
        match self.whole_book(user, path) {
            Some((path, folder)) => self.part_progress(user, &path, &folder).await,
            None => self.book_progress(user, path).await,
        }
    }

    /// Resets a user's progress in a file, or in the whole book of which it is a part; returns the canonical path of the file, and
    /// whether there was a record.
    ///
    /// # Errors
    /// Those of [`Service::reset_progress`].
    pub async fn reset_file_progress(&self, user: &Principal, path: &str) -> Result<(String, bool)> {
        match self.whole_book(user, path) {
            Some((path, folder)) => Ok((path, self.reset_book_progress(user, &folder).await?.1)),
            None => self.reset_progress(user, path).await,
        }
    }

    /// Resets a user's progress in a book, which may be stated by the path of a part; returns that canonical path, and whether
    /// there was a record.
    ///
    /// # Errors
    /// Those of [`Service::reset_book_progress`].
    pub async fn reset_audiobook_progress(&self, user: &Principal, path: &str) -> Result<(String, bool)> {
        match self.whole_book(user, path) {
            Some((path, folder)) => Ok((path, self.reset_book_progress(user, &folder).await?.1)),
            None => self.reset_book_progress(user, path).await,
        }
    }

    /// The canonical path of a part of a book that the user sees, and the folder of the book; None for any other path.
    fn whole_book(&self, user: &Principal, path: &str) -> Option<(String, String)> {
        // The error is that of the caller's next step.
        let path = self.library.locate_seen(&user.visibility, path).ok()?.path;
        let folder = self.catalogue.book_folder(&path)?;
        Some((path, folder))
    }

    /// Saves progress in a part of a book; None if the path is no such part, or the book cannot be read.
    async fn save_part(
        &self,
        user: &Principal,
        path: &str,
        save: &ProgressSave,
        playback_rate: Option<f64>,
    ) -> Result<Option<SaveResult>> {
        let Some((path, folder)) = self.whole_book(user, path) else { return Ok(None) };
        let Ok(book) = self.load_book(user, &folder).await else { return Ok(None) };
        let Some(part) = book.part_at(&path) else { return Ok(None) };
        let save = part.to_book_save(save.clone(), book.duration_seconds);
        let position = BookPositionUpdate { playback_rate, ..BookPositionUpdate::default() };
        let result = self.save_loaded_book_progress(user, &book, save, position).await?;
        let source = self.library.open(&path).await?;
        let item = ProgressItem::new_file(self.media.fingerprint(&source).await?, &path, source.len);
        let in_part = |record: ProgressRecord| part.progress(&item, &record).unwrap_or(record);
        Ok(Some(match result {
            SaveResult::Applied(record) => SaveResult::Applied(in_part(record)),
            SaveResult::Stale(record) => SaveResult::Stale(in_part(record)),
        }))
    }

    /// A user's progress in a part of the book in a folder.
    async fn part_progress(&self, user: &Principal, path: &str, folder: &str) -> Result<Option<ProgressRecord>> {
        let source = match self.library.open(path).await {
            Ok(source) => source,
            Err(fault) if fault.code == Code::NotFound => return self.progress_at_path(user, path).await,
            Err(fault) => return Err(fault),
        };
        let Some(record) = self.book_progress(user, folder).await? else { return Ok(None) };
        let duration = match self.catalogue.duration_at(path) {
            Some(known) => Some(known),
            None => self.media.probe(&source).await.ok().and_then(|probed| probed.media.duration_seconds),
        };
        let item = ProgressItem::new_file(self.media.fingerprint(&source).await?, path, source.len);
        Ok(new_part(folder, path, duration).progress(&item, &record))
    }

    /// Adds a user's progress in books to their listed parts.
    ///
    /// # Errors
    /// `INTERNAL` for a record that cannot be read.
    pub(super) fn add_part_progress(&self, user_id: &str, items: &mut [ListedItem]) -> Result<()> {
        let mut books: HashMap<AlbumId, Option<(String, Option<ProgressRecord>)>> = HashMap::new();
        for item in items.iter_mut().filter(|item| item.kind == ItemKind::Audiobook) {
            let Some(id) = item.album_id else { continue };
            let book = match books.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let folder = self.catalogue.book_folder(&item.path);
                    let with_record =
                        |folder: String| Ok((folder.clone(), self.books.record_at_path(user_id, &folder)?));
                    new.insert(folder.map(with_record).transpose()?)
                }
            };
            let Some((folder, record)) = book else { continue };
            let part = new_part(folder, &item.path, item.duration_seconds);
            let file = ProgressItem::new_file(item.id.to_string(), &item.path, item.size_bytes);
            let progress = record.as_ref().and_then(|record| part.progress(&file, record));
            item.progress = progress.filter(|progress| progress.status() != ProgressStatus::Untouched);
        }
        Ok(())
    }

    /// A user's progress in the parts of all books, by the ids of the parts.
    pub(super) fn progress_of_parts(&self, user_id: &str) -> HashMap<Arc<str>, ItemProgress> {
        let mut progress = HashMap::new();
        // A record that cannot be read is missing here, and an error where it is shown.
        let records = self.books.folder_records(user_id).unwrap_or_default();
        let index = self.catalogue.read_index();
        for record in records {
            for item in index.folders_of_album(&record.path).flat_map(|folder| index.files_in(folder)) {
                if item.kind != ItemKind::Audiobook || item.album_id().is_none() {
                    continue;
                }
                let file = ProgressItem::new_file(item.id.to_string(), &item.path(), item.size_bytes);
                let part = new_part(&record.path, &file.path, item.duration_seconds);
                if let Some(found) = part.progress(&file, &record) {
                    let watched_ms = found.last_watched_at.as_millisecond();
                    progress.insert(Arc::from(file.media_id), ItemProgress { status: found.status(), watched_ms });
                }
            }
        }
        progress
    }

    /// Makes progress in parts of books progress in the books: that of versions before 0.3.0, and of parts that were played before
    /// the catalogue had read their folder. The part that was played last counts.
    ///
    /// # Errors
    /// `STORAGE_FULL`; `INTERNAL` for a record that cannot be read.
    pub async fn unite_part_progress(&self) -> Result<()> {
        let found = self.progress.records_at_paths(|path| self.catalogue.book_folder(path).is_some());
        let mut records = Vec::new();
        for (user_id, id) in found {
            records.extend(self.progress.record(&user_id, &id)?.map(|record| (user_id, record)));
        }
        records.sort_by_key(|(_, record)| record.last_watched_at);
        for (user_id, record) in records {
            let save = ProgressSave {
                position_seconds: Some(record.position_seconds),
                completed: Some(record.completed),
                player: Some(record.player.clone()),
                device_id: record.device_id.clone(),
                client_updated_at: Some(record.updated_at),
                ..ProgressSave::default()
            };
            let user = Principal::without_login(user_id);
            match self.save_part(&user, &record.path, &save, None).await {
                Ok(Some(_)) => self.progress.discard(&user.user_id, &record.media_id).await?,
                Err(fault) if fault.code == Code::StorageFull => return Err(fault),
                Ok(None) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// A part by its path; where it begins and whether it is the last one does not matter to progress in it.
fn new_part(folder: &str, path: &str, duration_seconds: Option<f64>) -> BookPart {
    BookPart {
        name: path.strip_prefix(folder).unwrap_or(path).trim_start_matches('/').to_owned(),
        start_seconds: 0.0,
        duration_seconds: duration_seconds.unwrap_or(0.0),
        is_last: false,
    }
}
