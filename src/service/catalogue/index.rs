//! All items in memory: by folder, by id, by series, and by word.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::item::{IndexedItem, ItemId, ListedItem, MAX_GENRES, MAX_PEOPLE, SeriesId, sort_key};
use super::pool::TextPool;
use super::record::ItemRecord;
use crate::domain::catalogue::names::Names;
use crate::domain::catalogue::search_index::{Field, SearchIndex};
use crate::domain::catalogue::{Facts, Sources};

/// The items of the library. A file is in a slot; slots of removed files are used again.
#[derive(Default)]
pub(super) struct CatalogueIndex {
    slots: Vec<Option<IndexedItem>>,
    free: Vec<u32>,
    folders: HashMap<Arc<str>, FolderItems>,
    /// The slot that stands for an item.
    by_id: HashMap<ItemId, u32>,
    /// Further files with the same content.
    copies: HashMap<ItemId, Vec<u32>>,
    series: BTreeMap<SeriesId, SeriesItems>,
    series_numbers: Vec<Option<SeriesId>>,
    pub(super) chosen_titles: HashMap<ItemId, Box<str>>,
    pub(super) genres: TextPool,
    pub(super) people: TextPool,
    search: SearchIndex,
    series_search: SearchIndex,
}

/// The files of one folder.
#[derive(Default)]
struct FolderItems {
    slots: HashMap<Box<str>, u32>,
    /// Files that are no media by their bytes, with length and time.
    rejected: HashMap<Box<str>, (u64, i64)>,
    nfo_stamp: u64,
}

/// The episodes of one series.
pub(super) struct SeriesItems {
    number: u32,
    name: Box<str>,
    pub slots: Vec<u32>,
    pub year: Option<u32>,
}

/// The place of a file.
#[derive(Clone, Copy)]
pub(super) struct FilePlace<'a> {
    pub folder: &'a str,
    pub name: &'a str,
    pub names: &'a Names,
}

impl CatalogueIndex {
    /// Puts a file in place of the one of that name.
    pub(super) fn put(&mut self, place: FilePlace<'_>, record: &ItemRecord) {
        let Some(id) = ItemId::parse(&record.id) else { return };
        self.remove(place.folder, place.name);
        let chosen_title = self.chosen_titles.get(&id).cloned();
        let facts = Facts::merge(&Sources {
            chosen_title: chosen_title.as_deref(),
            nfo: record.nfo.as_ref(),
            tags: record.technical.as_ref().map(|technical| &technical.tags),
            names: place.names,
        });
        let folder = match self.folders.get_key_value(place.folder) {
            Some((folder, _)) => folder.clone(),
            None => Arc::from(place.folder),
        };
        let item = self.build_item(id, &folder, place, record, facts);
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[slot as usize] = Some(item);
        let items = self.folders.entry(folder).or_default();
        items.rejected.remove(place.name);
        items.slots.insert(place.name.into(), slot);
        match self.by_id.get(&id) {
            Some(_) => {
                self.copies.entry(id).or_default().push(slot);
                if let Some(item) = &mut self.slots[slot as usize] {
                    item.is_copy = true;
                }
            }
            None => {
                self.by_id.insert(id, slot);
                self.link(slot, place.names.series_year);
            }
        }
    }

    fn build_item(
        &mut self,
        id: ItemId,
        folder: &Arc<str>,
        place: FilePlace<'_>,
        record: &ItemRecord,
        facts: Facts,
    ) -> IndexedItem {
        let FilePlace { name, names, .. } = place;
        // The name by the files, not by NFO files, so that episodes with and without one are of one series.
        let named = names.series.as_ref().or(facts.series.as_ref());
        let series = named.map(|named| SeriesId::new(named, names.series_year));
        let title = facts.series.as_ref().or(names.series.as_ref()).map(|series| series.as_str().into());
        let boxed = |text: &Option<String>| text.as_deref().map(Box::from);
        IndexedItem {
            id,
            folder: folder.clone(),
            name: name.into(),
            size_bytes: record.size_bytes,
            modified_ns: record.modified_ns,
            added_ms: record.added_ms,
            nfo_stamp: record.nfo_stamp,
            is_probed: record.technical.is_some(),
            duration_seconds: record.technical.as_ref().and_then(|technical| technical.duration_seconds),
            kind: facts.kind,
            sort_key: sort_key(&facts),
            title: facts.title.as_str().into(),
            sort_title: facts.sort_title.as_str().into(),
            year: facts.year,
            series: series.zip(title).filter(|_| facts.series.is_some()),
            season: facts.season,
            episode: facts.episode,
            last_episode: facts.last_episode,
            artist: boxed(&facts.artist),
            album: boxed(&facts.album),
            disc: facts.disc,
            track: facts.track,
            released_on: facts.released_on,
            genres: facts.genres.iter().take(MAX_GENRES).map(|genre| self.genres.acquire(genre)).collect(),
            people: facts.people.iter().take(MAX_PEOPLE).map(|person| self.people.acquire(person)).collect(),
            is_copy: false,
        }
    }

    /// Removes a file; returns its item.
    pub(super) fn remove(&mut self, folder: &str, name: &str) -> Option<ItemId> {
        let slot = self.folders.get_mut(folder)?.slots.remove(name)?;
        let id = self.slots[slot as usize].as_ref()?.id;
        if self.by_id.get(&id) == Some(&slot) {
            self.unlink(slot);
            self.by_id.remove(&id);
            if let Some(next) = self.take_copy(id, None) {
                self.by_id.insert(id, next);
                if let Some(item) = &mut self.slots[next as usize] {
                    item.is_copy = false;
                }
                self.link(next, None);
            }
        } else {
            self.take_copy(id, Some(slot));
        }
        let item = self.slots[slot as usize].take()?;
        for genre in &item.genres {
            self.genres.release(*genre);
        }
        for person in &item.people {
            self.people.release(*person);
        }
        self.free.push(slot);
        Some(id)
    }

    /// Takes a copy from the list: this one, or any.
    fn take_copy(&mut self, id: ItemId, slot: Option<u32>) -> Option<u32> {
        let copies = self.copies.get_mut(&id)?;
        let at =
            slot.map_or(Some(copies.len().checked_sub(1)?), |slot| copies.iter().position(|copy| *copy == slot))?;
        let taken = copies.swap_remove(at);
        if copies.is_empty() {
            self.copies.remove(&id);
        }
        Some(taken)
    }

    /// Lets an item be found by words, and in its series.
    fn link(&mut self, slot: u32, series_year: Option<u32>) {
        let Some(item) = &self.slots[slot as usize] else { return };
        self.search.insert(slot, Field::Title, &item.title);
        self.search.insert(slot, Field::Context, &item.context());
        for person in &item.people {
            self.search.insert(slot, Field::People, self.people.get(*person));
        }
        let Some((series, name)) = &item.series else { return };
        let numbers = &mut self.series_numbers;
        let search = &mut self.series_search;
        let items = self.series.entry(*series).or_insert_with(|| {
            let number = numbers.iter().position(Option::is_none).unwrap_or_else(|| {
                numbers.push(None);
                numbers.len() - 1
            });
            numbers[number] = Some(*series);
            search.insert(number as u32, Field::Title, name);
            SeriesItems { number: number as u32, name: name.clone(), slots: Vec::new(), year: series_year }
        });
        items.slots.push(slot);
    }

    fn unlink(&mut self, slot: u32) {
        let Some(item) = &self.slots[slot as usize] else { return };
        let people = item.people.iter().map(|person| self.people.get(*person));
        let text = [&*item.title, &item.context()].into_iter().chain(people).collect::<Vec<_>>().join(" ");
        self.search.remove(slot, &text);
        let Some((series, _)) = &item.series else { return };
        let Some(items) = self.series.get_mut(series) else { return };
        items.slots.retain(|other| *other != slot);
        if items.slots.is_empty() {
            self.series_search.remove(items.number, &items.name);
            self.series_numbers[items.number as usize] = None;
            self.series.remove(series);
        }
    }

    /// All items, each once, with their slots.
    pub(super) fn items(&self) -> impl Iterator<Item = (u32, &IndexedItem)> {
        let items = self.slots.iter().enumerate();
        items.filter_map(|(slot, item)| Some((slot as u32, item.as_ref().filter(|item| !item.is_copy)?)))
    }

    pub(super) fn by_id(&self, id: ItemId) -> Option<&IndexedItem> {
        self.at(*self.by_id.get(&id)?)
    }

    pub(super) fn at(&self, slot: u32) -> Option<&IndexedItem> {
        self.slots.get(slot as usize)?.as_ref()
    }

    /// The paths of all files with the content of an item.
    pub(super) fn paths(&self, id: ItemId) -> Vec<String> {
        let copies = self.copies.get(&id).into_iter().flatten();
        let slots = self.by_id.get(&id).into_iter().chain(copies);
        slots.filter_map(|slot| Some(self.at(*slot)?.path())).collect()
    }

    /// The file of that name in a folder.
    pub(super) fn file(&self, folder: &str, name: &str) -> Option<&IndexedItem> {
        self.at(*self.folders.get(folder)?.slots.get(name)?)
    }

    /// The names of all files in a folder.
    pub(super) fn names_in(&self, folder: &str) -> Vec<String> {
        let items = self.folders.get(folder);
        items.map(|items| items.slots.keys().map(|name| name.to_string()).collect()).unwrap_or_default()
    }

    /// The folders with files at or below a path.
    pub(super) fn folders_below(&self, path: &str) -> Vec<String> {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let folders = self.folders.iter().filter(|(_, items)| !items.slots.is_empty()).map(|(folder, _)| folder);
        folders
            .filter(|folder| ***folder == *path || folder.starts_with(&prefix))
            .map(|folder| folder.to_string())
            .collect()
    }

    /// Whether a file was found not to be media, in this version.
    pub(super) fn is_rejected(&self, folder: &str, name: &str, version: (u64, i64)) -> bool {
        self.folders.get(folder).is_some_and(|items| items.rejected.get(name) == Some(&version))
    }

    pub(super) fn reject(&mut self, folder: &str, name: &str, version: (u64, i64)) {
        self.folders.entry(folder.into()).or_default().rejected.insert(name.into(), version);
    }

    /// Stores the state of a folder's NFO files, and forgets what is gone; returns whether the state is another one.
    pub(super) fn finish_folder(&mut self, folder: &str, nfo_stamp: u64, exists: impl Fn(&str) -> bool) -> bool {
        let Some(items) = self.folders.get_mut(folder) else {
            if nfo_stamp == 0 {
                return false;
            }
            self.folders.insert(folder.into(), FolderItems { nfo_stamp, ..FolderItems::default() });
            return true;
        };
        items.rejected.retain(|name, _| exists(name));
        let is_changed = std::mem::replace(&mut items.nfo_stamp, nfo_stamp) != nfo_stamp;
        if items.slots.is_empty() && items.rejected.is_empty() && nfo_stamp == 0 {
            self.folders.remove(folder);
        }
        is_changed
    }

    pub(super) fn series(&self) -> impl Iterator<Item = (&SeriesId, &SeriesItems)> {
        self.series.iter()
    }

    pub(super) fn series_by_id(&self, id: SeriesId) -> Option<&SeriesItems> {
        self.series.get(&id)
    }

    /// Slots of items found by a query, with their points.
    pub(super) fn search_items(&self, query: &str) -> Vec<(u32, u32)> {
        self.search.find(query)
    }

    /// Series found by a query, with their points.
    pub(super) fn search_series(&self, query: &str) -> Vec<(SeriesId, u32)> {
        let found = self.series_search.find(query).into_iter();
        found.filter_map(|(number, points)| Some(((*self.series_numbers.get(number as usize)?)?, points))).collect()
    }

    /// The first item that was not probed, at or after a slot.
    pub(super) fn next_unprobed(&self, from: u32) -> Option<(u32, String)> {
        let mut rest = self.slots.iter().enumerate().skip(from as usize);
        rest.find_map(|(slot, item)| {
            let item = item.as_ref().filter(|item| !item.is_probed && !item.is_copy)?;
            Some((slot as u32, item.path()))
        })
    }

    /// The form of an item in a list, without progress.
    pub(super) fn to_listed(&self, item: &IndexedItem) -> ListedItem {
        let owned = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        ListedItem {
            id: item.id,
            kind: item.kind,
            path: item.path(),
            title: item.title.to_string(),
            sort_title: item.sort_title.to_string(),
            year: item.year,
            series: item.series.as_ref().map(|(id, name)| (*id, name.to_string())),
            season: item.season,
            episode: item.episode,
            last_episode: item.last_episode,
            artist: owned(&item.artist),
            album: owned(&item.album),
            disc: item.disc,
            track: item.track,
            released_on: item.released_on,
            genres: item.genres.iter().map(|genre| self.genres.get(*genre).to_owned()).collect(),
            duration_seconds: item.duration_seconds,
            size_bytes: item.size_bytes,
            added_ms: item.added_ms,
            progress: None,
        }
    }
}

impl SeriesItems {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}
