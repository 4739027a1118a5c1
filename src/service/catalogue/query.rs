//! Items listed: filtered, sorted, page by page.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;

use super::Catalogue;
use super::item::{IndexedItem, ItemId, ListedItem, SeriesId};
use super::page::Page;
use super::view::IndexView;
use crate::domain::access::Principal;
use crate::domain::catalogue::fold::fold;
use crate::domain::catalogue::{ItemKind, SortKey, WatchedFilter};
use crate::domain::progress::ProgressStatus;
use crate::domain::visibility::VisiblePaths;
use crate::error::{Error, Result};
use crate::service::Service;
use crate::service::progress::ItemProgress;

/// Items of one page by default.
pub const DEFAULT_LIMIT: usize = 50;

/// Items of one page at most.
pub const MAX_LIMIT: usize = 200;

/// Which items a list has. All conditions apply.
#[derive(Clone, Debug, Default)]
pub struct ItemFilter {
    /// One of these; any kind if empty.
    pub kinds: Vec<ItemKind>,
    pub genre: Option<String>,
    /// First and last year.
    pub years: Option<(u32, u32)>,
    pub person: Option<String>,
    pub series: Option<SeriesId>,
    /// In this folder or below it.
    pub folder: Option<String>,
    /// Added at or after this time, ms since 1970.
    pub added_since_ms: Option<i64>,
    pub watched: Option<WatchedFilter>,
}

/// The order of a list.
#[derive(Clone, Copy, Debug)]
pub struct SortOrder {
    pub key: SortKey,
    pub is_descending: bool,
}

/// The value by which an item is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SortValue<'a> {
    Number(i64),
    Text(&'a str),
}

/// The place of an item in the order. Items with the same value are in the order of their ids.
type OrderedPlace<'a> = (SortValue<'a>, ItemId);

impl Service {
    /// A page of the items that match, with the user's progress.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid cursor; `INTERNAL` for a record of progress that cannot be read.
    pub fn list_items(
        &self,
        user: &Principal,
        filter: &ItemFilter,
        order: SortOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<ListedItem>> {
        let progress = if filter.watched.is_some() { self.progress_of_items(&user.user_id) } else { HashMap::new() };
        let paths = self.library.visible_paths(&user.visibility);
        let mut page = self.catalogue.page(&paths, filter, &progress, order, cursor, limit)?;
        self.add_progress(&user.user_id, &mut page.entries)?;
        Ok(page)
    }

    /// The user's progress in all items, as media and as audiobooks.
    pub(super) fn progress_of_items(&self, user_id: &str) -> HashMap<Arc<str>, ItemProgress> {
        let mut progress = self.books.item_progress(user_id);
        progress.extend(self.progress.item_progress(user_id));
        progress.extend(self.progress_of_parts(user_id));
        progress
    }

    /// Adds the user's progress to listed items.
    ///
    /// # Errors
    /// `INTERNAL` for a record that cannot be read.
    pub(super) fn add_progress(&self, user_id: &str, items: &mut [ListedItem]) -> Result<()> {
        for item in items.iter_mut() {
            let id = item.id.to_string();
            let record = match self.progress.record(user_id, &id)? {
                None if item.kind == ItemKind::Audiobook => self.books.record(user_id, &id)?,
                record => record,
            };
            item.progress = record;
        }
        self.add_part_progress(user_id, items)
    }
}

impl Catalogue {
    /// The genres of items of these kinds, or of all, with the number of items, by name.
    pub fn genres(&self, paths: &VisiblePaths, kinds: &[ItemKind]) -> Vec<(String, usize)> {
        let index = self.read_index();
        let index = index.seen_in(paths);
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for (_, item) in index.items().filter(|(_, item)| kinds.is_empty() || kinds.contains(&item.kind)) {
            for genre in item.genres() {
                *counts.entry(*genre).or_default() += 1;
            }
        }
        let mut genres: Vec<_> =
            counts.into_iter().map(|(genre, count)| (index.genres().get(genre).to_owned(), count)).collect();
        genres.sort_by_cached_key(|(name, _)| fold(name));
        genres
    }

    pub(super) fn page(
        &self,
        paths: &VisiblePaths,
        filter: &ItemFilter,
        progress: &HashMap<Arc<str>, ItemProgress>,
        order: SortOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<ListedItem>> {
        let cursor = cursor.map(Cursor::parse).transpose()?;
        let index = self.read_index();
        let index = index.seen_in(paths);
        let matcher = Matcher::new(index, filter, progress);
        let (mut total, mut rest) = (0, Vec::new());
        let compare = |a: &OrderedPlace<'_>, b: &OrderedPlace<'_>| {
            if order.is_descending { b.cmp(a) } else { a.cmp(b) }
        };
        let after = cursor.as_ref().map(Cursor::place);
        for (slot, item) in index.items().filter(|(_, item)| matcher.matches(item)) {
            total += 1;
            let place = (sort_value(item, order.key), item.id);
            if after.as_ref().is_none_or(|after| compare(&place, after) == Ordering::Greater) {
                rest.push((place, slot));
            }
        }
        let has_more = rest.len() > limit;
        if has_more {
            rest.select_nth_unstable_by(limit, |a, b| compare(&a.0, &b.0));
            rest.truncate(limit);
        }
        rest.sort_unstable_by(|a, b| compare(&a.0, &b.0));
        let next_cursor = rest.last().filter(|_| has_more).map(|(place, _)| Cursor::format(place));
        let entries = rest.iter().filter_map(|(_, slot)| Some(index.to_listed(index.at(*slot)?))).collect();
        Ok(Page { entries, total, next_cursor })
    }
}

fn sort_value(item: &IndexedItem, key: SortKey) -> SortValue<'_> {
    match key {
        SortKey::Title => SortValue::Text(item.sort_key()),
        SortKey::Added => SortValue::Number(item.added_ms),
        SortKey::Year => SortValue::Number(item.year.unwrap_or(0).into()),
    }
}

/// A filter with its texts found.
pub(super) struct Matcher<'a> {
    filter: &'a ItemFilter,
    genres: Option<Vec<u32>>,
    people: Option<Vec<u32>>,
    progress: &'a HashMap<Arc<str>, ItemProgress>,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(
        index: IndexView<'_>,
        filter: &'a ItemFilter,
        progress: &'a HashMap<Arc<str>, ItemProgress>,
    ) -> Self {
        let genres = filter.genre.as_ref().map(|genre| index.genres().find_folded(genre));
        let people = filter.person.as_ref().map(|person| index.people().find_folded(person));
        Self { filter, genres, people, progress }
    }

    pub(super) fn matches(&self, item: &IndexedItem) -> bool {
        let filter = self.filter;
        let has_any = |found: &Option<Vec<u32>>, own: &[u32]| {
            found.as_ref().is_none_or(|found| own.iter().any(|number| found.contains(number)))
        };
        let is_of_series = |series: SeriesId| item.series().is_some_and(|(own, _)| *own == series);
        let is_of_years = |(first, last): (u32, u32)| item.year.is_some_and(|year| (first..=last).contains(&year));
        (filter.kinds.is_empty() || filter.kinds.contains(&item.kind))
            && filter.years.is_none_or(is_of_years)
            && filter.series.is_none_or(is_of_series)
            && filter.folder.as_ref().is_none_or(|folder| is_below(&item.folder, folder))
            && filter.added_since_ms.is_none_or(|since| item.added_ms >= since)
            && has_any(&self.genres, item.genres())
            && has_any(&self.people, item.people())
            && filter.watched.is_none_or(|watched| self.is_watched(item.id, watched))
    }

    fn is_watched(&self, id: ItemId, watched: WatchedFilter) -> bool {
        let status = self.progress.get(&*id.to_string()).map(|progress| progress.status);
        match watched {
            WatchedFilter::Unwatched => matches!(status, None | Some(ProgressStatus::Untouched)),
            WatchedFilter::InProgress => status == Some(ProgressStatus::InProgress),
            WatchedFilter::Watched => status == Some(ProgressStatus::Completed),
        }
    }
}

/// Whether `folder` is `top` or below it.
pub(super) fn is_below(folder: &str, top: &str) -> bool {
    folder.strip_prefix(top.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The last item of a page.
struct Cursor {
    text: Option<String>,
    number: i64,
    id: ItemId,
}

impl Cursor {
    fn format((value, id): &OrderedPlace<'_>) -> String {
        let value = match value {
            SortValue::Number(number) => format!("n{number}"),
            SortValue::Text(text) => format!("t{text}"),
        };
        BASE64URL_NOPAD.encode(format!("{id} {value}").as_bytes())
    }

    fn parse(cursor: &str) -> Result<Self> {
        let parsed = || {
            let text = String::from_utf8(BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?).ok()?;
            let (id, value) = text.split_once(' ')?;
            let id = ItemId::parse(id)?;
            match value.strip_prefix('t') {
                Some(text) => Some(Self { text: Some(text.to_owned()), number: 0, id }),
                None => Some(Self { text: None, number: value.strip_prefix('n')?.parse().ok()?, id }),
            }
        };
        let message = "is not a cursor of this server: pass the `nextCursor` of the previous page";
        parsed().ok_or_else(|| Error::invalid_field("cursor", message))
    }

    fn place(&self) -> OrderedPlace<'_> {
        (self.text.as_deref().map_or(SortValue::Number(self.number), SortValue::Text), self.id)
    }
}
