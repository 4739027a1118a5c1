//! Series: their seasons and episodes, and what to watch next.

use std::collections::HashMap;
use std::sync::Arc;

use super::artwork::ArtworkVersions;
use super::item::{IndexedItem, ListedItem, SeriesId};
use super::page::{Page, parse_cursor};
use super::series_index::SeriesItems;
use super::view::IndexView;
use crate::domain::access::Principal;
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
    pub artwork: ArtworkVersions,
}

/// A season with its episodes.
pub struct SeasonDetails {
    /// 0 for specials; None for episodes that are numbered without seasons.
    pub season: Option<u32>,
    pub artwork: ArtworkVersions,
    pub episodes: Vec<ListedItem>,
}

/// A series with all its episodes.
pub struct SeriesDetails {
    pub summary: SeriesSummary,
    /// By number, specials (0) last, then episodes without a season.
    pub seasons: Vec<SeasonDetails>,
    /// The episode to watch next.
    pub next: Option<ListedItem>,
}

pub(super) type Progress = HashMap<Arc<str>, ItemProgress>;

impl Service {
    /// A page of all series by title.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid cursor.
    pub fn list_series(&self, user: &Principal, cursor: Option<&str>, limit: usize) -> Result<Page<SeriesSummary>> {
        let after = cursor.map(|cursor| parse_cursor(cursor, SeriesId::parse)).transpose()?;
        let progress = self.progress_of_items(&user.user_id);
        let (paths, index) = (self.library.visible_paths(&user.visibility), self.catalogue.read_index());
        let index = index.seen_in(&paths);
        let series = index.all_series().map(|(id, items)| ((fold(sort_title(items.name())), id), (id, items)));
        let page = Page::cut(series.collect(), after.as_ref(), limit);
        Ok(page.map(|(id, items)| summarize(index, id, items, &progress)))
    }

    /// A series with its seasons, and the user's next episode.
    ///
    /// # Errors
    /// `NOT_FOUND`; `INTERNAL` for a record of progress that cannot be read.
    pub fn series_details(&self, user: &Principal, id: SeriesId) -> Result<SeriesDetails> {
        let progress = self.progress_of_items(&user.user_id);
        let paths = self.library.visible_paths(&user.visibility);
        let (summary, mut episodes, next) = {
            let index = self.catalogue.read_index();
            let index = index.seen_in(&paths);
            let missing = || Error::new(Code::NotFound, "there is no such series in the library");
            let items = index.series(id).ok_or_else(missing)?;
            let episodes = in_order(index, items);
            let states: Vec<EpisodeProgress> = episodes.iter().map(|item| state(item, &progress)).collect();
            let listed: Vec<ListedItem> = episodes.iter().map(|item| index.to_listed(item)).collect();
            (summarize(index, id, items, &progress), listed, next_episode(&states))
        };
        self.add_progress(&user.user_id, &mut episodes)?;
        let next = next.map(|at| episodes[at].clone());
        let mut seasons: Vec<SeasonDetails> = Vec::new();
        for episode in episodes {
            match seasons.last_mut() {
                Some(last) if last.season == episode.season => last.episodes.push(episode),
                _ => {
                    let number = episode.season;
                    let artwork =
                        |season| self.catalogue.read_index().seen_in(&paths).series_artwork_versions(id, Some(season));
                    let artwork = number.map(artwork).unwrap_or_default();
                    seasons.push(SeasonDetails { season: number, artwork, episodes: vec![episode] });
                }
            }
        }
        Ok(SeriesDetails { summary, seasons, next })
    }
}

/// The episodes of a series in the order in which they are watched: specials after the regular ones.
pub(super) fn in_order<'a>(index: IndexView<'a>, items: &SeriesItems) -> Vec<&'a IndexedItem> {
    let mut episodes: Vec<&IndexedItem> = items.slots.iter().filter_map(|slot| index.at(*slot)).collect();
    episodes.sort_by(|a, b| {
        let key = |item: &IndexedItem| (number_order(item.season(), item.episode()), item.released_on);
        key(a).cmp(&key(b)).then_with(|| a.sort_key().cmp(b.sort_key())).then_with(|| a.id.cmp(&b.id))
    });
    episodes
}

/// The order of an episode by its numbers.
pub(super) fn number_order(season: Option<u32>, episode: Option<u32>) -> (u64, bool, Option<u32>) {
    let season_rank = match season {
        Some(0) => u64::from(u32::MAX) + 1,
        Some(season) => season.into(),
        None => u64::from(u32::MAX) + 2,
    };
    (season_rank, episode.is_none(), episode)
}

pub(super) fn state(item: &IndexedItem, progress: &Progress) -> EpisodeProgress {
    let found = progress.get(&*item.id.to_string());
    EpisodeProgress {
        is_special: item.season() == Some(0),
        status: found.map_or(ProgressStatus::Untouched, |found| found.status),
        watched_ms: found.map(|found| found.watched_ms),
    }
}

pub(super) fn summarize(index: IndexView<'_>, id: SeriesId, items: &SeriesItems, progress: &Progress) -> SeriesSummary {
    let episodes: Vec<&IndexedItem> = items.slots.iter().filter_map(|slot| index.at(*slot)).collect();
    let mut seasons: Vec<Option<u32>> = episodes.iter().map(|item| item.season()).collect();
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
        artwork: index.series_artwork_versions(id, None),
    }
}
