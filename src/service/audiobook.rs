//! Audiobooks: a file, or a folder of files on one timeline.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};

use crate::domain::library::{kind_from_name, compare_natural};
use crate::domain::media::Media;
use crate::domain::progress::{MediaType, BookPosition, ProgressRecord, SaveResult, percentage};
use crate::domain::sniff::MediaKind;
use crate::engine::folder::{Folder, EntryHint, EntryTarget};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::progress::{Item, Wish, stem};

/// Most files of one book.
const MAX_FILES: usize = 1000;

/// Files of a book probed at once.
const LOOKS: usize = 4;

/// Most folders whose identity is cached.
const REMEMBERED: usize = 128;

/// A book with its files and chapters.
#[derive(Clone, Debug)]
pub struct Book {
    pub item: Item,
    pub duration_seconds: f64,
    pub parts: Vec<Part>,
    pub chapters: Vec<Chapter>,
}

/// One file of a book.
#[derive(Clone, Debug)]
pub struct Part {
    pub path: String,
    pub mime_type: String,
    pub start_seconds: f64,
    pub duration_seconds: f64,
}

#[derive(Clone, Debug)]
pub struct Chapter {
    pub title: Option<String>,
    /// On the book's timeline.
    pub start_seconds: f64,
    pub end_seconds: f64,
    /// Index of its file.
    pub part: usize,
}

/// A position in a book as sent by a device; omitted fields are computed.
#[derive(Clone, Debug, Default)]
pub struct BookPlace {
    pub chapter_index: Option<u32>,
    pub chapter_position_seconds: Option<f64>,
    pub playback_rate: Option<f64>,
    pub percentage: Option<f64>,
}

/// A file of a folder, identified without reading it.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    path: String,
    size_bytes: u64,
    modified: SystemTime,
}

/// Cached identities of folders, valid until something in them changes. Computing one reads a sample of every file.
#[derive(Default)]
pub struct FolderBooks {
    known: Mutex<HashMap<String, (Vec<Seen>, String)>>,
}

impl FolderBooks {
    fn get(&self, path: &str, files: &[Seen]) -> Option<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(path).filter(|(seen, _)| seen == files).map(|(_, id)| id.clone())
    }

    fn put(&self, path: &str, files: Vec<Seen>, id: String) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED
            && let Some(some) = known.keys().next().cloned()
        {
            known.remove(&some);
        }
        known.insert(path.to_owned(), (files, id));
    }
}

impl Book {
    /// The chapter at a position, and how far into it that is.
    pub fn place(&self, position_seconds: f64) -> (u32, f64) {
        let behind = self.chapters.partition_point(|chapter| chapter.start_seconds <= position_seconds);
        let index = behind.saturating_sub(1);
        let start = self.chapters.get(index).map_or(0.0, |chapter| chapter.start_seconds);
        (index as u32, (position_seconds - start).max(0.0))
    }
}

impl Service {
    /// A book's files and chapters on one timeline. The first request for a book of many files takes a moment.
    ///
    /// # Errors
    /// Those of opening and probing its files; `UNSUPPORTED_MEDIA_TYPE` for a folder without audio files.
    pub async fn book(&self, path: &str) -> Result<Book> {
        let (mut item, files) = self.book_item(path).await?;
        let looks: Vec<_> = files.into_iter().map(|path| self.part(path).boxed()).collect();
        let looked: Vec<(Part, Arc<Media>)> = stream::iter(looks).buffered(LOOKS).try_collect().await?;
        let (parts, heads): (Vec<_>, Vec<_>) = looked.into_iter().unzip();
        let mut book = Book { item: item.clone(), duration_seconds: 0.0, parts, chapters: Vec::new() };
        let many = book.parts.len() > 1;
        for (index, (part, media)) in book.parts.iter_mut().zip(heads).enumerate() {
            part.start_seconds = book.duration_seconds;
            let (start, end) = (part.start_seconds, part.start_seconds + part.duration_seconds);
            if media.chapters.is_empty() {
                let title = media.tags.title.clone().or_else(|| many.then(|| stem(&part.path).to_owned()));
                book.chapters.push(Chapter { title, start_seconds: start, end_seconds: end, part: index });
            }
            book.chapters.extend(media.chapters.iter().map(|chapter| Chapter {
                title: chapter.title.clone(),
                start_seconds: start + chapter.start_seconds,
                end_seconds: (start + chapter.end_seconds).min(end),
                part: index,
            }));
            if !many && let Some(title) = &media.tags.album {
                item.title.clone_from(title);
            }
            book.duration_seconds = end;
        }
        item.duration_seconds = Some(book.duration_seconds);
        book.item = item;
        Ok(book)
    }

    async fn part(&self, path: String) -> Result<(Part, Arc<Media>)> {
        let source = self.library.open(&path).await?;
        let media = self.media.probe(&source).await?;
        let (mime_type, duration_seconds) = (media.mime_type.clone(), media.duration_seconds.unwrap_or(0.0));
        Ok((Part { path, mime_type, start_seconds: 0.0, duration_seconds }, media))
    }

    /// Saves a user's progress in a book.
    ///
    /// # Errors
    /// Those of opening its files; `STORAGE_FULL`.
    pub async fn save_book(&self, user_id: &str, path: &str, mut wish: Wish, place: BookPlace) -> Result<SaveResult> {
        let (mut item, _) = self.book_item(path).await?;
        let known = self.book_record(user_id, &item).await?;
        let told = wish.duration_seconds.filter(|duration| *duration > 0.0);
        let told = told.or_else(|| known.as_ref().map(|record| record.duration_seconds).filter(|d| *d > 0.0));
        let whole = place.chapter_index.is_some() && place.chapter_position_seconds.is_some() && told.is_some();
        // Progress in a book that cannot be probed is saved all the same.
        let book = if whole { None } else { self.book(path).await.ok() };
        if let Some(book) = &book {
            item = book.item.clone();
        }
        let duration = told.or_else(|| book.as_ref().map(|book| book.duration_seconds)).unwrap_or(0.0);
        let position = wish.position_seconds.unwrap_or(duration);
        let position = if duration > 0.0 { position.min(duration) } else { position };
        let (index, within) = book.as_ref().map_or((0, position), |book| book.place(position));
        let within = match (place.chapter_index, &book) {
            (Some(said), Some(book)) if said != index => {
                let start = book.chapters.get(said as usize).map_or(position, |chapter| chapter.start_seconds);
                (position - start).max(0.0)
            }
            _ => within,
        };
        let computed = percentage(position, duration);
        let rate = known.as_ref().and_then(|record| Some(record.book.as_ref()?.playback_rate)).unwrap_or(1.0);
        wish.media_type = MediaType::Audiobook;
        wish.duration_seconds = Some(duration);
        wish.book = Some(BookPosition {
            chapter_index: place.chapter_index.unwrap_or(index),
            chapter_position_seconds: place.chapter_position_seconds.unwrap_or(within),
            playback_rate: place.playback_rate.unwrap_or(rate),
            percentage: match place.percentage {
                Some(said) if duration <= 0.0 || (said - computed).abs() <= 1.0 => said,
                _ => computed,
            },
        });
        self.books.save(user_id, &item.media_id.clone(), |stored| wish.save(&item, stored)).await
    }

    /// A user's progress in a book, also after the book is gone.
    ///
    /// # Errors
    /// Those of opening its files, unless there is a record of its path.
    pub async fn book_progress(&self, user_id: &str, path: &str) -> Result<Option<ProgressRecord>> {
        match self.book_item(path).await {
            Ok((item, _)) => {
                let record = self.book_record(user_id, &item).await?;
                Ok(record.map(|record| ProgressRecord { path: item.path, ..record }))
            }
            Err(fault) if fault.code == Code::NotFound => {
                self.books.at(user_id, &self.spelled(path)?.path)?.map_or(Err(fault), |record| Ok(Some(record)))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Resets a user's progress in a book; returns its canonical path, and whether there was a record.
    ///
    /// # Errors
    /// Those of opening its files, but a missing book is no error; `STORAGE_FULL`.
    pub async fn reset_book(&self, user_id: &str, path: &str) -> Result<(String, bool)> {
        let spelled = self.spelled(path)?.path;
        let record = match self.book_item(path).await {
            Ok((item, _)) => self.book_record(user_id, &item).await?,
            Err(fault) if fault.code == Code::NotFound => self.books.at(user_id, &spelled)?,
            Err(fault) => return Err(fault),
        };
        let deleted = match record {
            Some(record) => self.books.reset(user_id, &record.media_id).await?,
            None => false,
        };
        Ok((spelled, deleted))
    }

    /// A user's record of a book. A folder that has gained or lost a file is still the same book.
    async fn book_record(&self, user_id: &str, item: &Item) -> Result<Option<ProgressRecord>> {
        if item.media_id.starts_with("b_")
            && self.books.of(user_id, &item.media_id)?.is_none()
            && let Some(before) = self.books.at(user_id, &item.path)?
        {
            self.books.carry(user_id, &before.media_id, &item.media_id).await?;
        }
        self.books.of(user_id, &item.media_id)
    }

    /// The book at a path, and its files in playing order.
    pub(super) async fn book_item(&self, path: &str) -> Result<(Item, Vec<String>)> {
        match self.library.open(path).await {
            Ok(source) => Ok((self.item(&source).await?, vec![source.path.clone()])),
            Err(fault) if fault.code == Code::NotFound => self.folder_item(path, fault).await,
            Err(fault) => Err(fault),
        }
    }

    async fn folder_item(&self, path: &str, absent: Error) -> Result<(Item, Vec<String>)> {
        let located = self.spelled(path)?;
        let (roots, folder) = (self.roots.clone(), located.path.clone());
        let looking = self.library.run_with_deadline(located.root_index, move || match roots.resolve_target(&folder) {
            Some(EntryTarget::Folder) => files(&roots.open_folder(&folder)?, |sub| roots.open_folder(sub)).map(Some),
            _ => Ok(None),
        });
        let Some(files) = looking.await? else { return Err(absent) };
        if files.is_empty() {
            return Err(Error::new(Code::UnsupportedMediaType, "this folder contains no audio files"));
        }
        let media_id = match self.folder_books.get(&located.path, &files) {
            Some(known) => known,
            None => {
                let id = self.identity(&files).await?;
                self.folder_books.put(&located.path, files.clone(), id.clone());
                id
            }
        };
        let name = located.path.rsplit('/').next().unwrap_or(&located.path).to_owned();
        let item = Item { media_id, path: located.path, title: name, size_bytes: 0, duration_seconds: None };
        Ok((item, files.into_iter().map(|file| file.path).collect()))
    }

    async fn fingerprint(&self, path: String) -> Result<String> {
        self.media.fingerprint(&self.library.open(&path).await?).await
    }

    /// Identity of a book of several files: a hash of their fingerprints in order.
    async fn identity(&self, files: &[Seen]) -> Result<String> {
        let looks: Vec<_> = files.iter().map(|file| self.fingerprint(file.path.clone()).boxed()).collect();
        let ids: Vec<String> = stream::iter(looks).buffered(LOOKS).try_collect().await?;
        Ok(format!("b_{}", &blake3::hash(ids.join("\n").as_bytes()).to_hex()[..32]))
    }
}

/// The audio files of a folder and of its subfolders (discs), in natural order of their paths. Blocks.
fn files<'a>(folder: &Folder<'a>, open: impl Fn(&str) -> Result<Folder<'a>>) -> Result<Vec<Seen>> {
    let mut found = Vec::new();
    let mut discs = Vec::new();
    within(folder, &mut found, Some(&mut discs))?;
    for disc in discs {
        within(&open(&disc)?, &mut found, None)?;
    }
    found.sort_by(|a, b| compare_natural(&a.path, &b.path));
    if found.len() > MAX_FILES {
        return Err(Error::new(
            Code::UnsupportedMediaType,
            format!("this folder contains more than {MAX_FILES} audio files"),
        ));
    }
    Ok(found)
}

fn within(folder: &Folder<'_>, found: &mut Vec<Seen>, discs: Option<&mut Vec<String>>) -> Result<()> {
    let base = folder.located.path.trim_end_matches('/').to_owned();
    let mut below = Vec::new();
    for (name, hint) in folder.list_entries()? {
        let sound = kind_from_name(&name) == Some(MediaKind::Audio);
        if hint == EntryHint::File && !sound || found.len() > MAX_FILES {
            continue;
        }
        match folder.resolve_entry(&name) {
            Some(EntryTarget::File { size_bytes, modified }) if sound => {
                found.push(Seen { path: format!("{base}/{name}"), size_bytes, modified });
            }
            Some(EntryTarget::Folder) => below.push(format!("{base}/{name}")),
            _ => {}
        }
    }
    if let Some(discs) = discs {
        discs.extend(below.into_iter().take(MAX_FILES));
    }
    Ok(())
}
