//! Items that share people and genres with another one.

use super::item::{IndexedItem, ItemId, ListedItem};
use super::no_item_error;
use super::view::IndexView;
use crate::domain::access::Principal;
use crate::domain::catalogue::ItemKind;
use crate::error::Result;
use crate::service::Service;

/// A person in common says more than a genre.
const PERSON_POINTS: usize = 3;
const GENRE_POINTS: usize = 1;

/// The least in common: one person, or two genres.
const MIN_POINTS: usize = 2;

impl Service {
    /// The items of the same kind with most people and genres in common, at most `limit`, the most similar first. Episodes have those
    /// of other series, one of each.
    ///
    /// # Errors
    /// `NOT_FOUND`; `INTERNAL` for a record of progress that cannot be read.
    pub fn similar_items(&self, user: &Principal, id: ItemId, limit: usize) -> Result<Vec<ListedItem>> {
        let mut items: Vec<ListedItem> = {
            let (paths, index) = (self.library.visible_paths(&user.visibility), self.catalogue.read_index());
            let index = index.seen_in(&paths);
            let item = index.by_id(id).ok_or_else(no_item_error)?;
            find_similar(index, item, limit).into_iter().map(|found| index.to_listed(found)).collect()
        };
        self.add_progress(&user.user_id, &mut items)?;
        Ok(items)
    }
}

fn find_similar<'a>(index: IndexView<'a>, item: &IndexedItem, limit: usize) -> Vec<&'a IndexedItem> {
    let series_of = |item: &IndexedItem| item.series().map(|(series, _)| *series);
    let is_candidate = |other: &IndexedItem| {
        let is_same_series = item.kind == ItemKind::Episode && series_of(other) == series_of(item);
        other.kind == item.kind && other.id != item.id && !is_same_series
    };
    let years_apart = |other: &IndexedItem| match (item.year, other.year) {
        (Some(own), Some(year)) => own.abs_diff(year),
        _ => u32::MAX,
    };
    let candidates = index.items().map(|(_, other)| other).filter(|other| is_candidate(other));
    let scored = candidates.map(|other| (points(item, other), other)).filter(|(points, _)| *points >= MIN_POINTS);
    let mut scored: Vec<(usize, &IndexedItem)> = scored.collect();
    scored.sort_by(|(a, first), (b, second)| {
        let key = |item: &'a IndexedItem| (years_apart(item), item.sort_key(), item.id);
        b.cmp(a).then_with(|| key(first).cmp(&key(second)))
    });
    let mut found: Vec<&IndexedItem> = Vec::new();
    for (_, other) in scored {
        if found.len() >= limit {
            break;
        }
        let series = series_of(other).filter(|_| other.kind == ItemKind::Episode);
        if series.is_none() || found.iter().all(|item| series_of(item) != series) {
            found.push(other);
        }
    }
    found
}

/// Genres and people are numbers of pooled texts.
fn points(item: &IndexedItem, other: &IndexedItem) -> usize {
    let shared = |own: &[u32], others: &[u32]| own.iter().filter(|number| others.contains(number)).count();
    PERSON_POINTS * shared(item.people(), other.people()) + GENRE_POINTS * shared(item.genres(), other.genres())
}
