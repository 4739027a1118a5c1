//! All items in memory: by folder, by id, by series, and by word.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;

use super::artwork::FolderImages;
use super::item::{
    AlbumFields, IndexedItem, ItemId, ItemTexts, MAX_GENRES, MAX_NAME_BYTES, MAX_PEOPLE, PooledTexts, SeriesFields,
    SeriesId, sort_key,
};
use super::playlists::Playlists;
use super::pool::TextPool;
use super::record::ItemRecord;
use super::series_index::SeriesIndex;
use crate::domain::catalogue::names::Names;
use crate::domain::catalogue::search_index::{Field, SearchIndex};
use crate::domain::catalogue::{AlbumId, Facts, Sources, sort_title};
use crate::domain::compact_map;

/// Files after which the index is compacted for the first time; then it is after each growth by a quarter and as many files.
const MIN_GROWTH: usize = 1000;

/// The items of the library. A file is in a slot; slots of removed files are used again.
#[derive(Default)]
pub(super) struct CatalogueIndex {
    slots: Vec<Option<Box<IndexedItem>>>,
    free: Vec<u32>,
    folders: BTreeMap<Arc<str>, FolderItems>,
    /// The slot that stands for an item.
    by_id: BTreeMap<ItemId, u32>,
    /// Further files with the same content.
    copies: HashMap<ItemId, Vec<u32>>,
    pub(super) series: SeriesIndex,
    pub(super) chosen_titles: HashMap<ItemId, Box<str>>,
    pub(super) genres: TextPool,
    pub(super) people: TextPool,
    search: SearchIndex,
    pub(super) playlists: Playlists,
    /// The sum of the hashes of all items and of the images in folders.
    artwork_stamp: u64,
    /// Slots at the last [`Self::compact`].
    compacted_slots: usize,
}

/// Length and time of files by name.
type RejectedFiles = BTreeMap<Box<str>, (u64, i64)>;

/// The files of one folder.
#[derive(Default)]
struct FolderItems {
    /// In the order of their names. Those of a film need no memory of their own.
    slots: SmallVec<[u32; 4]>,
    /// Files that are no media by their bytes.
    rejected: Option<Box<RejectedFiles>>,
    nfo_stamp: u64,
    images: Option<Box<FolderImages>>,
}

/// Changes in a folder beside those of its media files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FolderChange {
    pub has_other_nfo: bool,
    pub has_other_images: bool,
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
        let id = ItemId::parse(&record.id).filter(|_| place.name.len() <= MAX_NAME_BYTES);
        let Some(id) = id else { return };
        self.remove(place.folder, place.name);
        let chosen_title = self.chosen_titles.get(&id).cloned();
        let facts = Facts::merge(&Sources {
            chosen_title: chosen_title.as_deref(),
            nfo: record.nfo.as_ref(),
            tags: record.technical.as_ref().map(|technical| &technical.tags),
            names: place.names,
        });
        let folder = self.folder_path(place.folder);
        let item = self.build_item(id, &folder, place, record, facts);
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        let items = self.folders.entry(folder).or_default();
        items.keep_rejected(|name| name != place.name);
        if let Err(at) = items.find(&self.slots, place.name) {
            items.slots.insert(at, slot);
        }
        self.artwork_stamp = self.artwork_stamp.wrapping_add(item.artwork_hash());
        self.slots[slot as usize] = Some(Box::new(item));
        // Early, so that the items that follow take the memory that it gives back.
        if self.slots.len() > MIN_GROWTH + self.compacted_slots * 5 / 4 {
            self.compact();
        }
        match self.by_id.get(&id).copied() {
            // The file with the first path stands for all.
            Some(current) if self.place_of(current) < self.place_of(slot) => self.add_copy(id, slot),
            Some(current) => {
                self.unlink(current);
                self.add_copy(id, current);
                self.by_id.insert(id, slot);
                self.link(slot);
            }
            None => {
                self.by_id.insert(id, slot);
                self.link(slot);
            }
        }
    }

    /// Begins to read a folder, whose items share this text of its path.
    pub(super) fn begin_folder(&mut self, folder: Arc<str>) {
        self.folders.entry(folder).or_default();
    }

    /// The path of a folder, shared with the items in it.
    pub(super) fn folder_path(&self, folder: &str) -> Arc<str> {
        self.folders.get_key_value(folder).map_or_else(|| folder.into(), |(path, _)| path.clone())
    }

    /// Gives back memory that many insertions left unused.
    pub(super) fn compact(&mut self) {
        compact_map(&mut self.folders);
        compact_map(&mut self.by_id);
        self.compacted_slots = self.slots.len();
        self.search.compact();
        self.genres.compact();
        self.people.compact();
    }

    fn place_of(&self, slot: u32) -> Option<(&str, &str)> {
        self.at(slot).map(|item| (&*item.folder, item.name()))
    }

    fn add_copy(&mut self, id: ItemId, slot: u32) {
        self.copies.entry(id).or_default().push(slot);
        if let Some(item) = &mut self.slots[slot as usize] {
            item.is_copy = true;
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
        let title = facts.series.as_ref().or(names.series.as_ref());
        let near = self.nearest(folder);
        let share = |text: &String, known: Option<&Arc<str>>| match known {
            Some(known) if **known == **text => known.clone(),
            _ => Arc::from(text.as_str()),
        };
        let title = title.map(|title| share(title, near.and_then(|item| Some(&item.series()?.1))));
        let of_series = SeriesFields {
            series_year: names.series_year,
            series: series.zip(title).filter(|_| facts.series.is_some()),
            season: facts.season,
            episode: facts.episode,
            last_episode: facts.last_episode,
        };
        let of_album = AlbumFields {
            artist: facts.artist.as_ref().map(|artist| share(artist, near.and_then(IndexedItem::artist))),
            album: facts.album.as_ref().map(|album| share(album, near.and_then(IndexedItem::album))),
            album_id: AlbumId::of_file(folder, name, &facts),
            disc: facts.disc,
            track: facts.track,
        };
        let is_stated = facts.sort_title != sort_title(&facts.title);
        let stated_sort_title = if is_stated { &*facts.sort_title } else { "" };
        let genres: Vec<u32> = facts.genres.iter().take(MAX_GENRES).map(|genre| self.genres.acquire(genre)).collect();
        let people: Vec<u32> = facts.people.iter().take(MAX_PEOPLE).map(|person| self.people.acquire(person)).collect();
        let pooled = PooledTexts::new(&genres, &people);
        let item = IndexedItem {
            id,
            folder: folder.clone(),
            texts: ItemTexts::new(name, &facts.title, &sort_key(&facts), stated_sort_title),
            size_bytes: record.size_bytes,
            modified_ns: record.modified_ns,
            added_ms: record.added_ms,
            nfo_stamp: record.nfo_stamp,
            is_probed: record.technical.is_some(),
            duration_seconds: record.technical.as_ref().and_then(|technical| technical.duration_seconds),
            has_cover: record.technical.as_ref().and_then(|technical| technical.has_cover),
            kind: facts.kind,
            year: facts.year,
            of_series: None,
            of_album: None,
            released_on: facts.released_on,
            pooled,
            is_copy: false,
        };
        item.with_fields(of_series, of_album)
    }

    /// Another item in a folder, or in the one before it, which probably has the same texts.
    fn nearest(&self, folder: &str) -> Option<&IndexedItem> {
        let (_, items) = self.folders.range::<str, _>((Bound::Unbounded, Bound::Included(folder))).next_back()?;
        self.at(*items.slots.last()?)
    }

    /// Removes a file; returns its item.
    pub(super) fn remove(&mut self, folder: &str, name: &str) -> Option<ItemId> {
        let items = self.folders.get_mut(folder)?;
        let slot = items.slots.remove(items.find(&self.slots, name).ok()?);
        let id = self.slots[slot as usize].as_ref()?.id;
        if self.by_id.get(&id) == Some(&slot) {
            self.unlink(slot);
            self.by_id.remove(&id);
            let copies = self.copies.get(&id).into_iter().flatten().copied();
            if let Some(next) = copies.min_by_key(|copy| self.place_of(*copy)) {
                self.remove_copy(id, next);
                self.by_id.insert(id, next);
                if let Some(item) = &mut self.slots[next as usize] {
                    item.is_copy = false;
                }
                self.link(next);
            }
        } else {
            self.remove_copy(id, slot);
        }
        let item = self.slots[slot as usize].take()?;
        self.artwork_stamp = self.artwork_stamp.wrapping_sub(item.artwork_hash());
        for genre in item.genres() {
            self.genres.release(*genre);
        }
        for person in item.people() {
            self.people.release(*person);
        }
        self.free.push(slot);
        Some(id)
    }

    fn remove_copy(&mut self, id: ItemId, slot: u32) {
        let Some(copies) = self.copies.get_mut(&id) else { return };
        copies.retain(|copy| *copy != slot);
        if copies.is_empty() {
            self.copies.remove(&id);
        }
    }

    /// Lets an item be found by words, and in its series.
    fn link(&mut self, slot: u32) {
        let Some(item) = &self.slots[slot as usize] else { return };
        self.search.insert(slot, Field::Title, item.title());
        self.search.insert(slot, Field::Context, &item.context());
        for person in item.people() {
            self.search.insert(slot, Field::People, self.people.get(*person));
        }
        if let Some((series, name)) = item.series() {
            self.series.insert(*series, name, item.series_year(), slot);
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Some(item) = &self.slots[slot as usize] else { return };
        let people = item.people().iter().map(|person| self.people.get(*person));
        let text = [item.title(), &item.context()].into_iter().chain(people).collect::<Vec<_>>().join(" ");
        self.search.remove(slot, &text);
        if let Some((series, name)) = item.series() {
            self.series.remove(*series, name, slot);
        }
    }

    /// All files with their slots, with those that are copies.
    pub(super) fn slots(&self) -> impl Iterator<Item = (u32, &IndexedItem)> {
        self.slots.iter().enumerate().filter_map(|(slot, item)| Some((slot as u32, item.as_deref()?)))
    }

    /// The slots of all files with the content of an item, the one that stands for it first.
    pub(super) fn slots_of(&self, id: ItemId) -> impl Iterator<Item = u32> {
        self.by_id.get(&id).into_iter().chain(self.copies.get(&id).into_iter().flatten()).copied()
    }

    pub(super) fn by_id(&self, id: ItemId) -> Option<&IndexedItem> {
        self.at(*self.by_id.get(&id)?)
    }

    pub(super) fn at(&self, slot: u32) -> Option<&IndexedItem> {
        self.slots.get(slot as usize)?.as_deref()
    }

    /// The paths of all files with the content of an item.
    pub(super) fn paths(&self, id: ItemId) -> Vec<String> {
        self.slots_of(id).filter_map(|slot| Some(self.at(slot)?.path())).collect()
    }

    /// The file of that name in a folder.
    pub(super) fn file(&self, folder: &str, name: &str) -> Option<&IndexedItem> {
        let items = self.folders.get(folder)?;
        self.at(items.slots[items.find(&self.slots, name).ok()?])
    }

    /// The names of all files in a folder.
    pub(super) fn names_in(&self, folder: &str) -> Vec<String> {
        self.files_in(folder).map(|item| item.name().to_owned()).collect()
    }

    /// The folders with files at or below a path.
    pub(super) fn folders_below(&self, path: &str) -> Vec<String> {
        let folders = self.folders.iter().filter(|(_, items)| !items.slots.is_empty()).map(|(folder, _)| &**folder);
        folders.filter(is_at_or_below(path)).map(str::to_owned).collect()
    }

    /// The folders at or below a path that have items, images, NFO files or playlists.
    pub(super) fn all_folders_below(&self, path: &str) -> Vec<String> {
        let folders = self.folders.keys().map(|folder| &**folder).chain(self.playlists.folders());
        folders.filter(is_at_or_below(path)).map(str::to_owned).collect()
    }

    /// Whether a file was found not to be media, in this version.
    pub(super) fn is_rejected(&self, folder: &str, name: &str, version: (u64, i64)) -> bool {
        self.folders
            .get(folder)
            .is_some_and(|items| items.rejected.as_ref().and_then(|rejected| rejected.get(name)) == Some(&version))
    }

    pub(super) fn reject(&mut self, folder: &str, name: &str, version: (u64, i64)) {
        self.folders.entry(folder.into()).or_default().rejected.get_or_insert_default().insert(name.into(), version);
    }

    /// Stores the state of a folder's NFO files and its images, and forgets what is gone.
    pub(super) fn finish_folder(
        &mut self,
        folder: &str,
        nfo_stamp: u64,
        images: FolderImages,
        exists: impl Fn(&str) -> bool,
    ) -> FolderChange {
        let is_empty = nfo_stamp == 0 && images.is_empty();
        if is_empty && !self.folders.contains_key(folder) {
            return FolderChange::default();
        }
        let items = self.folders.entry(folder.into()).or_default();
        items.keep_rejected(exists);
        let has_other_nfo = std::mem::replace(&mut items.nfo_stamp, nfo_stamp) != nfo_stamp;
        let images = (!images.is_empty()).then(|| Box::new(images));
        let stamp = |images: &Option<Box<FolderImages>>| images.as_ref().map_or(0, |images| images.stamp());
        let (former, current) = (stamp(&items.images), stamp(&images));
        let has_other_images = former != current;
        items.images = images;
        self.artwork_stamp = self.artwork_stamp.wrapping_sub(former).wrapping_add(current);
        if items.slots.is_empty() && items.rejected.is_none() && is_empty {
            self.folders.remove(folder);
        }
        FolderChange { has_other_nfo, has_other_images }
    }

    /// Another one whenever the artwork of an item may be another one.
    pub(super) fn artwork_stamp(&self) -> u64 {
        self.artwork_stamp
    }

    /// The images in a folder.
    pub(super) fn images(&self, folder: &str) -> Option<&FolderImages> {
        self.folders.get(folder)?.images.as_deref()
    }

    /// The files in a folder.
    pub(super) fn files_in(&self, folder: &str) -> impl Iterator<Item = &IndexedItem> {
        let slots = self.folders.get(folder).into_iter().flat_map(|items| &items.slots);
        slots.filter_map(|slot| self.at(*slot))
    }

    /// Slots of items found by a query, with their points.
    pub(super) fn search_items(&self, query: &str) -> Vec<(u32, u32)> {
        self.search.find(query)
    }

    /// The folder of an album and the folders in it, as far as they have files.
    pub(super) fn folders_of_album(&self, folder: &str) -> impl Iterator<Item = &str> {
        let is_in =
            move |other: &str| other == folder || other.rsplit_once('/').is_some_and(|(above, _)| above == folder);
        self.at_or_below(folder).map(|(other, _)| other).filter(move |other| is_in(other))
    }

    /// Whether there are files at or below a folder.
    pub(super) fn has_files_below(&self, folder: &str) -> bool {
        self.at_or_below(folder).any(|(_, items)| !items.slots.is_empty())
    }

    fn at_or_below(&self, folder: &str) -> impl Iterator<Item = (&str, &FolderItems)> {
        // The character after `/` is `0`.
        let (first, end) = (format!("{folder}/"), format!("{folder}0"));
        let below = self.folders.range::<str, _>((Bound::Included(&*first), Bound::Excluded(&*end)));
        self.folders.get_key_value(folder).into_iter().chain(below).map(|(folder, items)| (&**folder, items))
    }

    /// The first item that was not probed, at or after a slot.
    pub(super) fn next_unprobed(&self, from: u32) -> Option<(u32, String)> {
        let mut rest = self.slots.iter().enumerate().skip(from as usize);
        rest.find_map(|(slot, item)| {
            let item = item.as_ref().filter(|item| !item.is_probed && !item.is_copy)?;
            Some((slot as u32, item.path()))
        })
    }
}

fn is_at_or_below(path: &str) -> impl Fn(&&str) -> bool {
    let prefix = format!("{}/", path.trim_end_matches('/'));
    move |folder| format!("{folder}/").starts_with(&prefix)
}

impl FolderItems {
    fn keep_rejected(&mut self, keep: impl Fn(&str) -> bool) {
        let Some(rejected) = &mut self.rejected else { return };
        rejected.retain(|name, _| keep(name));
        if rejected.is_empty() {
            self.rejected = None;
        }
    }

    /// The place of a file's slot, or where it would be.
    fn find(&self, items: &[Option<Box<IndexedItem>>], name: &str) -> Result<usize, usize> {
        self.slots.binary_search_by(|slot| items[*slot as usize].as_ref().map_or("", |item| item.name()).cmp(name))
    }
}
