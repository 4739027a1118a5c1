//! Search: items, series, people, channels and guide entries by words.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::albums::ListedAlbum;
use super::books::ListedBook;
use super::item::{IndexedItem, ListedItem};
use super::series::{SeriesSummary, summarize};
use super::view::IndexView;
use crate::domain::access::Principal;
use crate::domain::catalogue::fold::words;
use crate::domain::catalogue::{AlbumId, ItemKind};
use crate::domain::channel::Channel;
use crate::domain::guide::Airing;
use crate::domain::time::WallMs;
use crate::error::{Error, Result};
use crate::service::Service;

/// Longest query, bytes.
pub const MAX_QUERY_BYTES: usize = 200;

/// Results of each kind at most.
pub const MAX_SEARCH_RESULTS: usize = 50;

/// How far into the future the guide is searched, ms.
const GUIDE_SPAN_MS: i64 = 24 * 3_600_000;

/// Guide entries that are compared, in all and of one channel.
const MAX_GUIDE_ENTRIES: usize = 20_000;
const MAX_CHANNEL_ENTRIES: usize = 200;

/// Most words of a query that channels and guide entries are compared with.
const MAX_QUERY_WORDS: usize = 8;

/// Everything that a query found, the best first.
pub struct SearchResults {
    pub items: Vec<ListedItem>,
    pub series: Vec<SeriesSummary>,
    /// Albums all of whose tracks were found.
    pub albums: Vec<ListedAlbum>,
    /// Books of which a file was found.
    pub books: Vec<ListedBook>,
    pub people: Vec<PersonResult>,
    pub channels: Vec<Arc<Channel>>,
    /// By start; of each channel, the next airing of a title.
    pub guide: Vec<(Arc<Channel>, Airing)>,
}

/// A person in the library.
pub struct PersonResult {
    pub name: String,
    pub item_count: u32,
}

impl Service {
    /// Searches the library, and the channels that the user may see, with at most `limit` results of each kind.
    ///
    /// # Errors
    /// `INTERNAL` for a record of progress that cannot be read.
    pub async fn search(
        self: &Arc<Self>,
        user: &Principal,
        query: &str,
        limit: usize,
        channels: Vec<Arc<Channel>>,
    ) -> Result<SearchResults> {
        let (service, user, query) = (self.clone(), user.clone(), query.to_owned());
        let search = tokio::task::spawn_blocking(move || service.search_blocking(&user, &query, limit, channels));
        search.await.map_err(Error::internal)?
    }

    fn search_blocking(
        &self,
        user: &Principal,
        query: &str,
        limit: usize,
        channels: Vec<Arc<Channel>>,
    ) -> Result<SearchResults> {
        let progress = self.progress_of_items(&user.user_id);
        let (mut items, series, people, albums, mut books) = {
            let (paths, index) = (self.library.visible_paths(&user.visibility), self.catalogue.read_index());
            let index = index.seen_in(&paths);
            let mut found = index.search_items(query);
            // Of equal matches, shorter titles match more of their words.
            found.sort_by_cached_key(|(points, item)| (Reverse(*points), item.title().len(), item.sort_key(), item.id));
            let albums = find_albums(index, &found, limit);
            let folders = book_folders(index, &found);
            let books = find_books(index, &found, &folders, limit);
            // A part of a book is not listed by itself.
            found.retain(|(_, item)| item.album_id().is_none_or(|id| !folders.contains_key(&id)));
            let items: Vec<ListedItem> = found.into_iter().take(limit).map(|(_, item)| index.to_listed(item)).collect();
            let mut found = index.search_series(query);
            found.sort_unstable_by_key(|(id, points)| (Reverse(*points), *id));
            let series = found.into_iter().take(limit);
            let series = series.filter_map(|(id, _)| Some(summarize(index, id, index.series(id)?, &progress)));
            let people = index.search_people(query, limit).into_iter();
            let people = people.map(|(name, item_count)| PersonResult { name: name.to_owned(), item_count });
            (items, series.collect(), people.collect(), albums, books)
        };
        self.add_progress(&user.user_id, &mut items)?;
        self.add_book_progress(&user.user_id, &mut books)?;
        let query: Vec<String> = words(query).take(MAX_QUERY_WORDS).collect();
        let guide = search_guide(&query, limit, &channels, self.clock.now_ms());
        let mut channels = channels;
        channels.retain(|channel| matches(&query, &channel.settings.name));
        channels.truncate(limit);
        Ok(SearchResults { items, series, albums, books, people, channels, guide })
    }
}

/// Found files with their points, the best first.
type Found<'a> = [(u32, &'a IndexedItem)];

/// The albums all of whose tracks were found: those have its title and artist in common.
fn find_albums(index: IndexView<'_>, found: &Found<'_>, limit: usize) -> Vec<ListedAlbum> {
    let albums = found_albums(found).into_iter().filter_map(|(id, track, count)| {
        let files = index.files_of_album(track);
        let is_whole = files.iter().filter(|item| index.stands(item)).count() == count;
        is_whole.then(|| index.album(id, files)).flatten()
    });
    albums.map(|(album, _)| album).take(limit).collect()
}

/// The albums of found tracks, the best first: each with its best track, and how many of its tracks were found.
fn found_albums<'a>(found: &Found<'a>) -> Vec<(AlbumId, &'a IndexedItem, usize)> {
    let (mut albums, mut places) = (Vec::new(), HashMap::new());
    for (_, track) in found.iter().filter(|(_, item)| item.kind == ItemKind::Music) {
        let Some(id) = track.album_id() else { continue };
        let place = *places.entry(id).or_insert(albums.len());
        match albums.get_mut(place) {
            Some((_, _, count)) => *count += 1,
            None => albums.push((id, *track, 1)),
        }
    }
    albums
}

/// The folders of the books of which a part was found.
fn book_folders(index: IndexView<'_>, found: &Found<'_>) -> HashMap<AlbumId, String> {
    let files = found.iter().filter(|(_, item)| item.kind == ItemKind::Audiobook);
    let parts: HashMap<AlbumId, &IndexedItem> = files.filter_map(|(_, item)| Some((item.album_id()?, *item))).collect();
    parts.into_iter().filter_map(|(id, part)| Some((id, index.book_folder(part)?))).collect()
}

/// The books of which a file was found.
fn find_books(
    index: IndexView<'_>,
    found: &Found<'_>,
    folders: &HashMap<AlbumId, String>,
    limit: usize,
) -> Vec<ListedBook> {
    let mut listed = HashSet::new();
    let files = found.iter().map(|(_, item)| *item).filter(|item| item.kind == ItemKind::Audiobook);
    let books = files.filter_map(|item| match item.album_id().and_then(|id| Some((id, folders.get(&id)?))) {
        None => index.file_book(item),
        Some((id, _)) if !listed.insert(id) => None,
        Some((_, folder)) => index.folder_book(folder, index.files_of_album(item)),
    });
    books.take(limit).collect()
}

/// Whether each word of a query is the beginning of a word of a text.
fn matches(query: &[String], text: &str) -> bool {
    let text: Vec<String> = words(text).collect();
    !query.is_empty() && query.iter().all(|word| text.iter().any(|other| other.starts_with(word.as_str())))
}

fn search_guide(
    query: &[String],
    limit: usize,
    channels: &[Arc<Channel>],
    now_ms: WallMs,
) -> Vec<(Arc<Channel>, Airing)> {
    let mut found = Vec::new();
    let mut compared = 0;
    for channel in channels {
        if compared >= MAX_GUIDE_ENTRIES || query.is_empty() {
            break;
        }
        let mut titles = HashSet::new();
        for airing in channel.guide_entries(now_ms, now_ms + GUIDE_SPAN_MS, now_ms).take(MAX_CHANNEL_ENTRIES) {
            compared += 1;
            let entry = channel.entry_of(airing.programme);
            let text = format!("{} {}", entry.name.title, entry.name.subtitle.unwrap_or_default());
            if !channel.is_slate(&airing.programme) && matches(query, &text) && titles.insert(text) {
                found.push((channel.clone(), airing));
            }
        }
    }
    found.sort_by_key(|(channel, airing)| (airing.start_ms, channel.id));
    found.truncate(limit);
    found
}
