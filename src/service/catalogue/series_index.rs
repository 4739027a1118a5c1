//! The series of the index: their episodes, and the names by which they are shown and found.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::item::SeriesId;
use crate::domain::catalogue::search_index::{Field, SearchIndex};

/// Series by id. A series without episodes is removed.
#[derive(Default)]
pub(super) struct SeriesIndex {
    by_id: BTreeMap<SeriesId, SeriesItems>,
    numbers: Vec<Option<SeriesId>>,
    free_numbers: Vec<u32>,
    search: SearchIndex,
}

/// The episodes of one series.
pub(super) struct SeriesItems {
    number: u32,
    /// The names that its episodes have for it, with the number of episodes.
    names: BTreeMap<Box<str>, u32>,
    pub slots: Vec<u32>,
    pub year: Option<u32>,
}

impl SeriesItems {
    /// The name that most episodes have for it.
    pub(super) fn name(&self) -> &str {
        let most = self.names.iter().max_by_key(|(name, count)| (**count, Reverse(*name)));
        most.map_or("", |(name, _)| name)
    }
}

impl SeriesIndex {
    /// Adds an episode.
    pub(super) fn insert(&mut self, id: SeriesId, name: &str, year: Option<u32>, slot: u32) {
        if !self.by_id.contains_key(&id) {
            let number = self.free_numbers.pop().unwrap_or_else(|| {
                self.numbers.push(None);
                (self.numbers.len() - 1) as u32
            });
            self.numbers[number as usize] = Some(id);
            self.by_id.insert(id, SeriesItems { number, names: BTreeMap::new(), slots: Vec::new(), year });
        }
        self.change(id, |items| {
            items.slots.push(slot);
            *items.names.entry(name.into()).or_default() += 1;
        });
    }

    /// Removes an episode, with the name that it was added with.
    pub(super) fn remove(&mut self, id: SeriesId, name: &str, slot: u32) {
        self.change(id, |items| {
            items.slots.retain(|other| *other != slot);
            if let Some(count) = items.names.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    items.names.remove(name);
                }
            }
        });
        if self.by_id.get(&id).is_some_and(|items| items.slots.is_empty())
            && let Some(items) = self.by_id.remove(&id)
        {
            self.numbers[items.number as usize] = None;
            self.free_numbers.push(items.number);
        }
    }

    /// Changes a series, so that it is found by the name that it then has.
    fn change(&mut self, id: SeriesId, change: impl FnOnce(&mut SeriesItems)) {
        let Some(items) = self.by_id.get_mut(&id) else { return };
        let former = items.name().to_owned();
        change(items);
        if items.name() != former {
            self.search.remove(items.number, &former);
            self.search.insert(items.number, Field::Title, items.name());
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&SeriesId, &SeriesItems)> {
        self.by_id.iter()
    }

    pub(super) fn get(&self, id: SeriesId) -> Option<&SeriesItems> {
        self.by_id.get(&id)
    }

    /// Series found by a query, with their points.
    pub(super) fn find(&self, query: &str) -> Vec<(SeriesId, u32)> {
        let found = self.search.find(query).into_iter();
        found.filter_map(|(number, points)| Some(((*self.numbers.get(number as usize)?)?, points))).collect()
    }
}
