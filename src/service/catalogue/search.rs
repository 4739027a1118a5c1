//! Search: items, series, people, channels and guide entries by words.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use super::item::ListedItem;
use super::series::{SeriesSummary, summarize};
use crate::domain::catalogue::fold::words;
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
        user_id: &str,
        query: &str,
        limit: usize,
        channels: Vec<Arc<Channel>>,
    ) -> Result<SearchResults> {
        let (service, user_id, query) = (self.clone(), user_id.to_owned(), query.to_owned());
        let search = tokio::task::spawn_blocking(move || service.search_blocking(&user_id, &query, limit, channels));
        search.await.map_err(Error::internal)?
    }

    fn search_blocking(
        &self,
        user_id: &str,
        query: &str,
        limit: usize,
        channels: Vec<Arc<Channel>>,
    ) -> Result<SearchResults> {
        let progress = self.progress_of_items(user_id);
        let (mut items, series, people) = {
            let index = self.catalogue.read_index();
            let mut found: Vec<_> = index
                .search_items(query)
                .into_iter()
                .filter_map(|(slot, points)| Some((points, index.at(slot)?)))
                .collect();
            // Of equal matches, shorter titles match more of their words.
            found.sort_unstable_by_key(|(points, item)| (Reverse(*points), item.title.len(), &item.sort_key, item.id));
            let items: Vec<ListedItem> = found.into_iter().take(limit).map(|(_, item)| index.to_listed(item)).collect();
            let mut found = index.search_series(query);
            found.sort_unstable_by_key(|(id, points)| (Reverse(*points), *id));
            let series = found.into_iter().take(limit);
            let series = series.filter_map(|(id, _)| Some(summarize(&index, id, index.series_by_id(id)?, &progress)));
            let people = index
                .people
                .search(query, limit)
                .into_iter()
                .map(|(number, item_count)| PersonResult { name: index.people.get(number).to_owned(), item_count });
            (items, series.collect(), people.collect())
        };
        self.add_progress(user_id, &mut items)?;
        let query: Vec<String> = words(query).take(MAX_QUERY_WORDS).collect();
        let guide = search_guide(&query, limit, &channels, self.clock.now_ms());
        let mut channels = channels;
        channels.retain(|channel| matches(&query, &channel.settings.name));
        channels.truncate(limit);
        Ok(SearchResults { items, series, people, channels, guide })
    }
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
