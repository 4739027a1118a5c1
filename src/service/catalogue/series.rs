//! Series: their seasons and episodes, and what to watch next.

use std::collections::HashMap;
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;

use super::index::{CatalogueIndex, SeriesItems};
use super::item::{IndexedItem, ListedItem, SeriesId};
use crate::domain::catalogue::fold::fold;
use crate::domain::catalogue::{EpisodeProgress, next_episode, sort_title};
use crate::domain::progress::ProgressStatus;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::progress::ItemProgress;

/// A series in a list.
#[derive(Clone, Debug)]
pub struct SeriesSummary {
    pub id: SeriesId,
    pub title: String,
    /// The year in its name, which tells it from another one.
    pub year: Option<u32>,
    pub season_count: usize,
    pub episode_count: usize,
    pub watched_count: usize,
    /// When the newest episode was added, ms since 1970.
    pub added_ms: i64,
}

/// One page of series.
pub struct SeriesPage {
    pub series: Vec<SeriesSummary>,
    pub total: usize,
    pub next_cursor: Option<String>,
}

/// A series with all its episodes.
pub struct SeriesDetails {
    pub summary: SeriesSummary,
    /// By number, specials (0) last, then episodes without a season.
    pub seasons: Vec<(Option<u32>, Vec<ListedItem>)>,
    /// The episode to watch next.
    pub next: Option<ListedItem>,
}

type Progress = HashMap<Arc<str>, ItemProgress>;

impl Service {
    /// A page of all series by title.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid cursor.
    pub fn list_series(&self, user_id: &str, cursor: Option<&str>, limit: usize) -> Result<SeriesPage> {
        let after = cursor.map(parse_cursor).transpose()?;
        let progress = self.progress_of_items(user_id);
        let index = self.catalogue.read_index();
        let mut order: Vec<(String, SeriesId)> =
            index.series().map(|(id, items)| (fold(sort_title(items.name())), *id)).collect();
        order.sort_unstable();
        let total = order.len();
        let start = after.map_or(0, |after| order.partition_point(|place| *place <= after));
        let end = (start + limit).min(total);
        let page = order.get(start..end).unwrap_or(&[]);
        let summaries =
            page.iter().filter_map(|(_, id)| Some(summarize(&index, *id, index.series_by_id(*id)?, &progress)));
        let next_cursor = page.last().filter(|_| end < total).map(format_cursor);
        Ok(SeriesPage { series: summaries.collect(), total, next_cursor })
    }

    /// A series with its seasons, and the user's next episode.
    ///
    /// # Errors
    /// `NOT_FOUND`; `INTERNAL` for a record of progress that cannot be read.
    pub fn series_details(&self, user_id: &str, id: SeriesId) -> Result<SeriesDetails> {
        let progress = self.progress_of_items(user_id);
        let (summary, mut episodes, next) = {
            let index = self.catalogue.read_index();
            let missing = || Error::new(Code::NotFound, "there is no such series in the library");
            let items = index.series_by_id(id).ok_or_else(missing)?;
            let episodes = in_order(&index, items);
            let states: Vec<EpisodeProgress> = episodes.iter().map(|item| state(item, &progress)).collect();
            let listed: Vec<ListedItem> = episodes.iter().map(|item| index.to_listed(item)).collect();
            (summarize(&index, id, items, &progress), listed, next_episode(&states))
        };
        self.add_progress(user_id, &mut episodes)?;
        let next = next.map(|at| episodes[at].clone());
        let mut seasons: Vec<(Option<u32>, Vec<ListedItem>)> = Vec::new();
        for episode in episodes {
            match seasons.last_mut() {
                Some((season, items)) if *season == episode.season => items.push(episode),
                _ => seasons.push((episode.season, vec![episode])),
            }
        }
        Ok(SeriesDetails { summary, seasons, next })
    }
}

/// The episodes of a series in the order in which they are watched: specials after the regular ones.
fn in_order<'a>(index: &'a CatalogueIndex, items: &SeriesItems) -> Vec<&'a IndexedItem> {
    let mut episodes: Vec<&IndexedItem> = items.slots.iter().filter_map(|slot| index.at(*slot)).collect();
    let season_rank = |season: Option<u32>| match season {
        Some(0) => u64::from(u32::MAX) + 1,
        Some(season) => season.into(),
        None => u64::from(u32::MAX) + 2,
    };
    episodes.sort_by(|a, b| {
        let key =
            |item: &IndexedItem| (season_rank(item.season), item.episode.is_none(), item.episode, item.released_on);
        key(a).cmp(&key(b)).then_with(|| a.sort_key.cmp(&b.sort_key)).then_with(|| a.id.cmp(&b.id))
    });
    episodes
}

fn state(item: &IndexedItem, progress: &Progress) -> EpisodeProgress {
    let found = progress.get(&*item.id.to_string());
    EpisodeProgress {
        is_special: item.season == Some(0),
        status: found.map_or(ProgressStatus::Untouched, |found| found.status),
        watched_ms: found.map(|found| found.watched_ms),
    }
}

pub(super) fn summarize(
    index: &CatalogueIndex,
    id: SeriesId,
    items: &SeriesItems,
    progress: &Progress,
) -> SeriesSummary {
    let episodes: Vec<&IndexedItem> = items.slots.iter().filter_map(|slot| index.at(*slot)).collect();
    let mut seasons: Vec<Option<u32>> = episodes.iter().map(|item| item.season).collect();
    seasons.sort_unstable();
    seasons.dedup();
    let is_watched = |item: &&&IndexedItem| state(item, progress).status == ProgressStatus::Completed;
    SeriesSummary {
        id,
        title: items.name().to_owned(),
        year: items.year,
        season_count: seasons.len(),
        episode_count: episodes.len(),
        watched_count: episodes.iter().filter(is_watched).count(),
        added_ms: episodes.iter().map(|item| item.added_ms).max().unwrap_or(0),
    }
}

fn format_cursor((title, id): &(String, SeriesId)) -> String {
    BASE64URL_NOPAD.encode(format!("{id} {title}").as_bytes())
}

fn parse_cursor(cursor: &str) -> Result<(String, SeriesId)> {
    let parsed = || {
        let text = String::from_utf8(BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?).ok()?;
        let (id, title) = text.split_once(' ')?;
        Some((title.to_owned(), SeriesId::parse(id)?))
    };
    let message = "is not a cursor of this server: pass the `nextCursor` of the previous page";
    parsed().ok_or_else(|| Error::invalid_field("cursor", message))
}
