//! Audiobooks: a file, or a folder of files on one timeline.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};

use crate::domain::access::Principal;
use crate::domain::catalogue::album::is_whole_book;
use crate::domain::library::{compare_natural, file_stem, kind_from_name};
use crate::domain::media::Media;
use crate::domain::progress::{
    BookPart, BookPosition, FilePosition, MediaType, ProgressItem, ProgressRecord, ProgressSave, SaveResult, percentage,
};
use crate::domain::sniff::MediaKind;
use crate::engine::folder::{EntryHint, EntryTarget, Folder};
use crate::error::{Code, Error, Result};
use crate::service::Service;

use super::{FOLDER_ID_PREFIX, is_folder_id};

/// Most files of one book.
const MAX_FILES: usize = 1000;

/// Files of a book probed at once.
const CONCURRENT_READS: usize = 4;

/// Most folders whose identity is cached.
const MAX_CACHED_FOLDERS: usize = 128;

/// A book with its files and chapters.
#[derive(Clone, Debug)]
pub struct Audiobook {
    pub item: ProgressItem,
    pub duration_seconds: f64,
    pub parts: Vec<AudiobookPart>,
    pub chapters: Vec<AudiobookChapter>,
}

/// One file of a book.
#[derive(Clone, Debug)]
pub struct AudiobookPart {
    pub path: String,
    pub mime_type: String,
    pub start_seconds: f64,
    pub duration_seconds: f64,
}

#[derive(Clone, Debug)]
pub struct AudiobookChapter {
    pub title: Option<String>,
    /// On the book's timeline.
    pub start_seconds: f64,
    pub end_seconds: f64,
    /// Index of its file.
    pub part_index: usize,
}

/// A position in a book as sent by a device; omitted fields are computed.
#[derive(Clone, Debug, Default)]
pub struct BookPositionUpdate {
    pub chapter_index: Option<u32>,
    pub chapter_position_seconds: Option<f64>,
    pub playback_rate: Option<f64>,
    pub percentage: Option<f64>,
}

/// A file of a folder, identified without reading it.
#[derive(Clone, Debug, PartialEq)]
struct FileSnapshot {
    path: String,
    size_bytes: u64,
    modified: SystemTime,
}

/// Cached identities of folders, valid until something in them changes. Computing one reads a sample of every file.
#[derive(Default)]
pub struct FolderIdentities {
    identities: Mutex<HashMap<String, (Vec<FileSnapshot>, String)>>,
}

impl FolderIdentities {
    fn get(&self, path: &str, files: &[FileSnapshot]) -> Option<String> {
        let identities = self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        identities.get(path).filter(|(cached_files, _)| cached_files == files).map(|(_, id)| id.clone())
    }

    fn put(&self, path: &str, files: Vec<FileSnapshot>, id: String) {
        let mut identities = self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        if identities.len() >= MAX_CACHED_FOLDERS
            && let Some(evicted_path) = identities.keys().next().cloned()
        {
            identities.remove(&evicted_path);
        }
        identities.insert(path.to_owned(), (files, id));
    }
}

impl Audiobook {
    /// The chapter at a position, and how far into it that is.
    fn chapter_at(&self, position_seconds: f64) -> (u32, f64) {
        let started_chapters = self.chapters.partition_point(|chapter| chapter.start_seconds <= position_seconds);
        let index = started_chapters.saturating_sub(1);
        let start = self.chapters.get(index).map_or(0.0, |chapter| chapter.start_seconds);
        (index as u32, (position_seconds - start).max(0.0))
    }

    /// The file at a position of a book of several, and how far into it that is.
    fn file_at(&self, position_seconds: f64) -> Option<FilePosition> {
        let begun = self.parts.partition_point(|part| part.start_seconds <= position_seconds);
        let part = self.parts.get(begun.saturating_sub(1)).filter(|_| self.parts.len() > 1)?;
        let name = self.name_of(part)?.to_owned();
        Some(FilePosition { name, position_seconds: (position_seconds - part.start_seconds).max(0.0) })
    }

    /// The path of a file in the folder of the book.
    fn name_of<'a>(&self, part: &'a AudiobookPart) -> Option<&'a str> {
        part.path.strip_prefix(&*self.item.path)?.strip_prefix('/')
    }

    /// The file at a path, as a part of the book; None unless the book has several.
    pub fn part_at(&self, path: &str) -> Option<BookPart> {
        let at = self.parts.iter().position(|part| part.path == path)?;
        let part = &self.parts[at];
        Some(BookPart {
            name: self.name_of(part)?.to_owned(),
            start_seconds: part.start_seconds,
            duration_seconds: part.duration_seconds,
            is_last: at + 1 == self.parts.len(),
        })
    }
}

/// The length of a book by a save or by its stored progress, seconds; None if neither states it.
fn stated_duration(save: &ProgressSave, stored_record: Option<&ProgressRecord>) -> Option<f64> {
    let stated = [save.duration_seconds, stored_record.map(|record| record.duration_seconds)];
    stated.into_iter().flatten().find(|duration| *duration > 0.0)
}

/// The identity of a book of several files, by their fingerprints in order.
pub fn folder_media_id(fingerprints: &[String]) -> String {
    format!("{FOLDER_ID_PREFIX}{}", &blake3::hash(fingerprints.join("\n").as_bytes()).to_hex()[..32])
}

impl Service {
    /// A book's files and chapters on one timeline. The first request for a book of many files takes a moment.
    ///
    /// # Errors
    /// Those of opening and probing its files; `UNSUPPORTED_MEDIA_TYPE` for a folder without audio files.
    pub async fn load_book(&self, user: &Principal, path: &str) -> Result<Audiobook> {
        self.library.locate_seen(&user.visibility, path)?;
        let (mut item, files) = self.book_item(path).await?;
        let reads: Vec<_> = files.into_iter().map(|path| self.load_part(path).boxed()).collect();
        let found: Vec<(AudiobookPart, _)> = stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?;
        let (parts, media_of_parts): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let mut book = Audiobook { item: item.clone(), duration_seconds: 0.0, parts, chapters: Vec::new() };
        let is_split = book.parts.len() > 1;
        for (part_index, (part, media)) in book.parts.iter_mut().zip(media_of_parts).enumerate() {
            part.start_seconds = book.duration_seconds;
            let (start_seconds, end_seconds) = (part.start_seconds, part.start_seconds + part.duration_seconds);
            if media.chapters.is_empty() {
                let title = media.tags.title.clone().or_else(|| is_split.then(|| file_stem(&part.path).to_owned()));
                book.chapters.push(AudiobookChapter { title, start_seconds, end_seconds, part_index });
            }
            book.chapters.extend(media.chapters.iter().map(|chapter| AudiobookChapter {
                title: chapter.title.clone(),
                start_seconds: start_seconds + chapter.start_seconds,
                end_seconds: (start_seconds + chapter.end_seconds).min(end_seconds),
                part_index,
            }));
            if !is_split && let Some(title) = &media.tags.album {
                item.title.clone_from(title);
            }
            book.duration_seconds = end_seconds;
        }
        item.duration_seconds = Some(book.duration_seconds);
        book.item = item;
        Ok(book)
    }

    async fn load_part(&self, path: String) -> Result<(AudiobookPart, Arc<Media>)> {
        let source = self.library.open(&path).await?;
        let media = self.media.probe(&source).await?.media;
        let (mime_type, duration_seconds) = (media.mime_type.clone(), media.duration_seconds.unwrap_or(0.0));
        Ok((AudiobookPart { path, mime_type, start_seconds: 0.0, duration_seconds }, media))
    }

    /// Saves a user's progress in a book.
    ///
    /// # Errors
    /// Those of opening its files; `UNAUTHORIZED` if the user was removed meanwhile; `STORAGE_FULL`.
    pub async fn save_book_progress(
        &self,
        user: &Principal,
        path: &str,
        save: ProgressSave,
        book_position: BookPositionUpdate,
    ) -> Result<SaveResult> {
        self.library.locate_seen(&user.visibility, path)?;
        let (item, _) = self.book_item(path).await?;
        let stored_record = self.book_record(&user.user_id, &item).await?;
        let is_complete = book_position.chapter_index.is_some()
            && book_position.chapter_position_seconds.is_some()
            && stated_duration(&save, stored_record.as_ref()).is_some()
            && !is_folder_id(&item.media_id);
        // Progress in a book that cannot be probed is saved all the same.
        let book = if is_complete { None } else { self.load_book(user, path).await.ok() };
        let item = book.as_ref().map_or(item, |book| book.item.clone());
        self.save_position(user, item, book.as_ref(), stored_record.as_ref(), save, book_position).await
    }

    /// Saves a user's progress in a book that was loaded for this request.
    ///
    /// # Errors
    /// `UNAUTHORIZED` if the user was removed meanwhile; `STORAGE_FULL`.
    pub async fn save_loaded_book_progress(
        &self,
        user: &Principal,
        book: &Audiobook,
        save: ProgressSave,
        book_position: BookPositionUpdate,
    ) -> Result<SaveResult> {
        let stored_record = self.book_record(&user.user_id, &book.item).await?;
        self.save_position(user, book.item.clone(), Some(book), stored_record.as_ref(), save, book_position).await
    }

    /// `book` is missing if the save is complete without it, or if it cannot be probed.
    async fn save_position(
        &self,
        user: &Principal,
        item: ProgressItem,
        book: Option<&Audiobook>,
        stored_record: Option<&ProgressRecord>,
        mut save: ProgressSave,
        book_position: BookPositionUpdate,
    ) -> Result<SaveResult> {
        let known_duration = stated_duration(&save, stored_record);
        let duration = known_duration.or_else(|| book.map(|book| book.duration_seconds)).unwrap_or(0.0);
        let position = save.position_seconds.unwrap_or(duration);
        let position = if duration > 0.0 { position.min(duration) } else { position };
        let (chapter_index, chapter_position) = book.map_or((0, position), |book| book.chapter_at(position));
        let chapter_position = match (book_position.chapter_index, book) {
            (Some(sent_index), Some(book)) if sent_index != chapter_index => {
                let start = book.chapters.get(sent_index as usize).map_or(position, |chapter| chapter.start_seconds);
                (position - start).max(0.0)
            }
            _ => chapter_position,
        };
        let computed = percentage(position, duration);
        let stored_rate = stored_record.and_then(|old| Some(old.book.as_ref()?.playback_rate)).unwrap_or(1.0);
        save.media_type = MediaType::Audiobook;
        save.duration_seconds = Some(duration);
        save.book = Some(BookPosition {
            chapter_index: book_position.chapter_index.unwrap_or(chapter_index),
            chapter_position_seconds: book_position.chapter_position_seconds.unwrap_or(chapter_position),
            playback_rate: book_position.playback_rate.unwrap_or(stored_rate),
            percentage: match book_position.percentage {
                Some(sent) if duration <= 0.0 || (sent - computed).abs() <= 1.0 => sent,
                _ => computed,
            },
            file: book.and_then(|book| book.file_at(position)),
        });
        self.books.save(&user.user_id, item, save, |id| self.accounts.is_user(id)).await
    }

    /// A user's progress in a book, also after the book is gone.
    ///
    /// # Errors
    /// Those of opening its files, unless there is a record of its path.
    pub async fn book_progress(&self, user: &Principal, path: &str) -> Result<Option<ProgressRecord>> {
        let (user_id, located) = (&user.user_id, self.library.locate_seen(&user.visibility, path)?);
        match self.book_item(path).await {
            Ok((item, _)) => {
                let record = self.book_record(user_id, &item).await?;
                Ok(record.map(|record| ProgressRecord { path: item.path, ..record }))
            }
            Err(fault) if fault.code == Code::NotFound => {
                self.books.record_at_path(user_id, &located.path)?.map_or(Err(fault), |record| Ok(Some(record)))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Resets a user's progress in a book; returns its canonical path, and whether there was a record.
    ///
    /// # Errors
    /// Those of opening its files, but a missing book is no error; `STORAGE_FULL`.
    pub async fn reset_book_progress(&self, user: &Principal, path: &str) -> Result<(String, bool)> {
        let user_id = &user.user_id;
        let canonical_path = self.library.locate_seen(&user.visibility, path)?.path;
        let record = match self.book_item(path).await {
            Ok((item, _)) => self.book_record(user_id, &item).await?,
            Err(fault) if fault.code == Code::NotFound => self.books.record_at_path(user_id, &canonical_path)?,
            Err(fault) => return Err(fault),
        };
        let deleted = match record {
            Some(record) => self.books.reset(user_id, &record.media_id, &canonical_path).await?,
            None => false,
        };
        Ok((canonical_path, deleted))
    }

    /// A user's record of a book, as it is stored: by its identity, otherwise by the path of its folder, which may have gained or lost
    /// a file.
    ///
    /// # Errors
    /// `INTERNAL` for a record that cannot be read.
    pub fn stored_book_progress(&self, user_id: &str, media_id: &str, path: &str) -> Result<Option<ProgressRecord>> {
        let record = match self.books.record(user_id, media_id)? {
            None if is_folder_id(media_id) => self.books.record_at_path(user_id, path)?,
            None => self.progress.record(user_id, media_id)?,
            record => record,
        };
        Ok(record.map(|record| ProgressRecord { path: path.to_owned(), ..record }))
    }

    /// A user's record of a book. A folder that has gained or lost a file is still the same book.
    async fn book_record(&self, user_id: &str, item: &ProgressItem) -> Result<Option<ProgressRecord>> {
        if is_whole_book(&item.path) {
            self.unite_book_progress(user_id, &item.media_id).await?;
        }
        if is_folder_id(&item.media_id)
            && self.books.record(user_id, &item.media_id)?.is_none()
            && let Some(former) = self.books.record_at_path(user_id, &item.path)?
        {
            self.books.move_record(user_id, &former.media_id, &item.media_id).await?;
        }
        self.books.record(user_id, &item.media_id)
    }

    /// The book at a path, and its files in playing order.
    pub(in crate::service) async fn book_item(&self, path: &str) -> Result<(ProgressItem, Vec<String>)> {
        match self.library.open(path).await {
            Ok(source) => {
                let media_id = self.media.fingerprint(&source).await?;
                Ok((ProgressItem::new_file(media_id, &source.path, source.len), vec![source.path.clone()]))
            }
            Err(fault) if fault.code == Code::NotFound => self.folder_item(path, fault).await,
            Err(fault) => Err(fault),
        }
    }

    async fn folder_item(&self, path: &str, absent: Error) -> Result<(ProgressItem, Vec<String>)> {
        let roots = self.library.roots().clone();
        let located = roots.locate(path)?;
        let folder = located.path.clone();
        let listing = self.library.run_with_deadline(located.root_index, move || match roots.resolve_target(&folder) {
            Some(EntryTarget::Folder) => {
                list_audio_files(&roots.open_folder(&folder)?, |sub| roots.open_folder(sub)).map(Some)
            }
            _ => Ok(None),
        });
        let Some(files) = listing.await? else { return Err(absent) };
        if files.is_empty() {
            return Err(Error::new(Code::UnsupportedMediaType, "this folder contains no audio files"));
        }
        let media_id = match self.folder_books.get(&located.path, &files) {
            Some(known) => known,
            None => {
                let id = self.folder_identity(&files).await?;
                self.folder_books.put(&located.path, files.clone(), id.clone());
                id
            }
        };
        let name = located.path.rsplit('/').next().unwrap_or(&located.path).to_owned();
        let item = ProgressItem { media_id, path: located.path, title: name, size_bytes: 0, duration_seconds: None };
        Ok((item, files.into_iter().map(|file| file.path).collect()))
    }

    async fn fingerprint_at_path(&self, path: String) -> Result<String> {
        self.media.fingerprint(&self.library.open(&path).await?).await
    }

    /// Identity of a book of several files: a hash of their fingerprints in order.
    async fn folder_identity(&self, files: &[FileSnapshot]) -> Result<String> {
        let reads: Vec<_> = files.iter().map(|file| self.fingerprint_at_path(file.path.clone()).boxed()).collect();
        let ids: Vec<String> = stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?;
        Ok(folder_media_id(&ids))
    }
}

/// The audio files of a folder and of its subfolders (discs), in natural order of their paths. Blocks.
fn list_audio_files<'a>(folder: &Folder<'a>, open: impl Fn(&str) -> Result<Folder<'a>>) -> Result<Vec<FileSnapshot>> {
    let mut found = Vec::new();
    let mut discs = Vec::new();
    collect_files(folder, &mut found, Some(&mut discs))?;
    for disc in discs {
        collect_files(&open(&disc)?, &mut found, None)?;
    }
    found.sort_by(|a, b| compare_natural(&a.path, &b.path));
    if found.len() > MAX_FILES {
        let message = format!("this folder contains more than {MAX_FILES} audio files");
        return Err(Error::new(Code::UnsupportedMediaType, message));
    }
    Ok(found)
}

fn collect_files(folder: &Folder<'_>, found: &mut Vec<FileSnapshot>, discs: Option<&mut Vec<String>>) -> Result<()> {
    let base = folder.located.path.trim_end_matches('/').to_owned();
    let mut subfolders = Vec::new();
    for (name, hint) in folder.list_entries()? {
        let is_audio = kind_from_name(&name) == Some(MediaKind::Audio);
        if hint == EntryHint::File && !is_audio || found.len() > MAX_FILES {
            continue;
        }
        match folder.resolve_entry(&name) {
            Some(EntryTarget::File { size_bytes, modified }) if is_audio => {
                found.push(FileSnapshot { path: format!("{base}/{name}"), size_bytes, modified });
            }
            Some(EntryTarget::Folder) => subfolders.push(format!("{base}/{name}")),
            _ => {}
        }
    }
    if let Some(discs) = discs {
        discs.extend(subfolders.into_iter().take(MAX_FILES));
    }
    Ok(())
}
