//! Audiobooks: a folder of parts is one book, as a single file is.

use std::collections::HashMap;

use super::audio_groups::{AudioSummary, path_order};
use super::item::IndexedItem;
use super::page::{Page, parse_cursor};
use super::view::IndexView;
use crate::domain::access::Principal;
use crate::domain::catalogue::album::album_folder;
use crate::domain::catalogue::fold::fold;
use crate::domain::catalogue::{AlbumId, AlbumSortKey, ItemKind};
use crate::domain::library::kind_from_name;
use crate::domain::progress::ProgressRecord;
use crate::domain::sniff::MediaKind;
use crate::error::Result;
use crate::service::Service;
use crate::service::progress::audiobook::folder_media_id;

/// A book in a list.
#[derive(Clone, Debug)]
pub struct ListedBook {
    /// The identity of its content, as progress has it.
    pub media_id: String,
    /// Its file, or the folder of its files.
    pub path: String,
    pub summary: AudioSummary,
    pub progress: Option<ProgressRecord>,
}

impl Service {
    /// A page of books, of one author or of all, with the user's progress.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid cursor; `INTERNAL` for a record of progress that cannot be read.
    pub fn list_books(
        &self,
        user: &Principal,
        author: Option<&str>,
        key: AlbumSortKey,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<ListedBook>> {
        let after = cursor.map(|cursor| parse_cursor(cursor, |id| Some(id.to_owned()))).transpose()?;
        let author = author.map(fold);
        let is_by_author = |book: &ListedBook| author.is_none() || book.summary.artist.as_deref().map(fold) == author;
        let paths = self.library.visible_paths(&user.visibility);
        let books = self.catalogue.read_index().seen_in(&paths).books().into_iter().filter(is_by_author);
        let books = books.map(|book| ((book.summary.sort_text(key), book.media_id.clone()), book));
        let mut page = Page::cut(books.collect(), after.as_ref(), limit);
        self.add_book_progress(&user.user_id, &mut page.entries)?;
        Ok(page)
    }

    /// Adds the user's progress to listed books.
    ///
    /// # Errors
    /// `INTERNAL` for a record that cannot be read.
    pub(super) fn add_book_progress(&self, user_id: &str, books: &mut [ListedBook]) -> Result<()> {
        for book in books {
            book.progress = self.stored_book_progress(user_id, &book.media_id, &book.path)?;
        }
        Ok(())
    }
}

impl IndexView<'_> {
    /// All books, in no order and without progress.
    pub(super) fn books(&self) -> Vec<ListedBook> {
        let (mut books, mut single) = (Vec::new(), Vec::new());
        let files = self.files().filter(|item| item.kind == ItemKind::Audiobook && self.stands(item));
        single.extend(files.filter(|item| item.album_id().is_none()));
        let folders = self.books_of_folders();
        for (id, files) in self.audio_groups(ItemKind::Audiobook) {
            match folders.get(&id) {
                Some(folder) => books.extend(self.folder_book(folder, files)),
                None => single.extend(files.into_iter().filter(|item| self.stands(item))),
            }
        }
        books.extend(single.into_iter().filter_map(|item| self.file_book(item)));
        books
    }

    /// The book of a single file.
    pub(super) fn file_book(&self, item: &IndexedItem) -> Option<ListedBook> {
        let summary = self.summarize_audio(item.title(), &[item])?;
        Some(ListedBook { media_id: item.id.to_string(), path: item.path(), summary, progress: None })
    }

    /// The books of several files, with their folders. A folder is one book if all its audio is of it; otherwise each file is a book.
    pub(super) fn books_of_folders(&self) -> HashMap<AlbumId, String> {
        let groups = self.audio_groups(ItemKind::Audiobook);
        if groups.is_empty() {
            return HashMap::new();
        }
        let mut audio_counts: HashMap<&str, usize> = HashMap::new();
        for item in self.files().filter(|item| kind_from_name(item.name()) == Some(MediaKind::Audio)) {
            *audio_counts.entry(&item.folder).or_default() += 1;
            // A folder is played with the folders in it.
            if let Some((above, _)) = item.folder.rsplit_once('/') {
                *audio_counts.entry(above).or_default() += 1;
            }
        }
        let books = groups.into_iter().filter_map(|(id, files)| {
            let folder = album_folder(&files.first()?.folder);
            (files.len() > 1 && audio_counts.get(folder) == Some(&files.len())).then(|| (id, folder.to_owned()))
        });
        books.collect()
    }

    /// The book of the files in a folder; None without any.
    pub(super) fn folder_book(&self, folder: &str, mut files: Vec<&IndexedItem>) -> Option<ListedBook> {
        files.sort_by(|a, b| path_order(a, b));
        let ids: Vec<String> = files.iter().map(|item| item.id.to_string()).collect();
        let title = files.first()?.album().map_or("", |album| album);
        Some(ListedBook {
            media_id: folder_media_id(&ids),
            path: folder.to_owned(),
            summary: self.summarize_audio(title, &files)?,
            progress: None,
        })
    }
}
