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
            found.sort_unstable_by_key(|(points, item)| (Reverse(*points), item.title.len(), &item.sort_key, item.id));
            let albums = find_albums(index, &found, limit);
            let (books, parts) = find_books(index, &found, limit);
            // A part of a book is not listed by itself.
            found.retain(|(_, item)| item.album_id().is_none_or(|id| !parts.contains_key(&id)));
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
    let ids = found_albums(found);
    if ids.is_empty() {
        return Vec::new();
    }
    let mut groups = index.audio_groups(ItemKind::Music);
    let albums = ids.into_iter().filter_map(|(id, count)| {
        let files =
            groups.remove(&id).filter(|files| files.iter().filter(|item| index.stands(item)).count() == count)?;
        Some(index.album(id, files)?.0)
    });
    albums.take(limit).collect()
}

/// The albums of found tracks, the best first, with the number of tracks.
fn found_albums(found: &Found<'_>) -> Vec<(AlbumId, usize)> {
    let (mut order, mut counts) = (Vec::new(), HashMap::new());
    let tracks = found.iter().filter(|(_, item)| item.kind == ItemKind::Music);
    for id in tracks.filter_map(|(_, item)| item.album_id()) {
        let count: &mut usize = counts.entry(id).or_default();
        *count += 1;
        if *count == 1 {
            order.push(id);
        }
    }
    order.into_iter().map(|id| (id, counts[&id])).collect()
}

/// The books of which a file was found, and the folders of all books of several files.
fn find_books(index: IndexView<'_>, found: &Found<'_>, limit: usize) -> (Vec<ListedBook>, HashMap<AlbumId, String>) {
    let is_book = |(_, item): &&(u32, &IndexedItem)| item.kind == ItemKind::Audiobook;
    if !found.iter().any(|found| is_book(&found)) {
        return (Vec::new(), HashMap::new());
    }
    let folders = index.books_of_folders();
    let mut groups = index.audio_groups(ItemKind::Audiobook);
    let mut books = Vec::new();
    for (_, item) in found.iter().filter(is_book) {
        if books.len() >= limit {
            break;
        }
        books.extend(match item.album_id().and_then(|id| Some((id, folders.get(&id)?))) {
            None => index.file_book(item),
            Some((id, folder)) => groups.remove(&id).and_then(|files| index.folder_book(folder, files)),
        });
    }
    (books, folders)
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
