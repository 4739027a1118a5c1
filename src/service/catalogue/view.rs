//! The index as a user sees it. Whatever the catalogue lists for a user is read through a view.

use std::collections::HashMap;

use super::artwork::FolderImages;
use super::index::CatalogueIndex;
use super::item::{IndexedItem, ItemId, SeriesId};
use super::pool::TextPool;
use super::series_index::SeriesItems;
use crate::domain::catalogue::album::album_folder;
use crate::domain::visibility::VisiblePaths;

/// The items of the index in the folders that a user sees. An item with files in several folders is shown at one that is
/// seen.
#[derive(Clone, Copy)]
pub(super) struct IndexView<'a> {
    index: &'a CatalogueIndex,
    paths: &'a VisiblePaths,
}

impl CatalogueIndex {
    /// The items that a user sees.
    pub(super) fn seen_in<'a>(&'a self, paths: &'a VisiblePaths) -> IndexView<'a> {
        IndexView { index: self, paths }
    }

    /// All items, for work that is not for a user.
    pub(super) fn all(&self) -> IndexView<'_> {
        self.seen_in(VisiblePaths::ALL)
    }
}

impl<'a> IndexView<'a> {
    fn sees(&self, item: &IndexedItem) -> bool {
        self.paths.is_all() || self.paths.contains(&item.folder)
    }

    /// All items, each once, with their slots.
    pub(super) fn items(self) -> impl Iterator<Item = (u32, &'a IndexedItem)> {
        self.index.slots().filter(move |(_, item)| self.sees(item) && self.stands(item))
    }

    /// Whether a file that is seen stands for its item.
    pub(super) fn stands(&self, item: &IndexedItem) -> bool {
        match item.is_copy {
            false => true,
            true if self.paths.is_all() => false,
            true => self.by_id(item.id).is_some_and(|first| std::ptr::eq(first, item)),
        }
    }

    /// All files, with those that are copies.
    pub(super) fn files(self) -> impl Iterator<Item = &'a IndexedItem> {
        self.index.slots().map(|(_, item)| item).filter(move |item| self.sees(item))
    }

    /// The file that stands for an item.
    pub(super) fn by_id(&self, id: ItemId) -> Option<&'a IndexedItem> {
        self.files_of(id).next()
    }

    fn files_of(self, id: ItemId) -> impl Iterator<Item = &'a IndexedItem> {
        self.index.slots_of(id).filter_map(move |slot| self.at(slot))
    }

    pub(super) fn at(&self, slot: u32) -> Option<&'a IndexedItem> {
        self.index.at(slot).filter(|item| self.sees(item))
    }

    /// The paths of all files with the content of an item, its own first.
    pub(super) fn paths(&self, id: ItemId) -> Vec<String> {
        self.files_of(id).map(IndexedItem::path).collect()
    }

    /// The file of that name in a folder.
    pub(super) fn file(&self, folder: &str, name: &str) -> Option<&'a IndexedItem> {
        self.index.file(folder, name).filter(|item| self.sees(item))
    }

    /// The files in a folder.
    pub(super) fn files_in(self, folder: &str) -> impl Iterator<Item = &'a IndexedItem> {
        self.index.files_in(folder).filter(move |item| self.sees(item))
    }

    /// The files of the album or book of a file, in no order.
    pub(super) fn files_of_album(self, item: &IndexedItem) -> Vec<&'a IndexedItem> {
        let folders = self.index.folders_of_album(album_folder(&item.folder));
        let files = folders.flat_map(|folder| self.files_in(folder));
        files.filter(|file| file.album_id() == item.album_id()).collect()
    }

    /// The images in a folder.
    pub(super) fn images(&self, folder: &str) -> Option<&'a FolderImages> {
        self.index.images(folder).filter(|_| self.paths.contains(folder))
    }

    /// A series with an episode that is seen.
    pub(super) fn series(&self, id: SeriesId) -> Option<&'a SeriesItems> {
        self.index.series.get(id).filter(|items| self.has_episode(items))
    }

    /// All series with an episode that is seen.
    pub(super) fn all_series(self) -> impl Iterator<Item = (SeriesId, &'a SeriesItems)> {
        let series = self.index.series.iter().map(|(id, items)| (*id, items));
        series.filter(move |(_, items)| self.has_episode(items))
    }

    fn has_episode(&self, items: &SeriesItems) -> bool {
        items.slots.iter().any(|slot| self.at(*slot).is_some())
    }

    /// Items and series found by a query, with their points.
    pub(super) fn search_items(&self, query: &str) -> Vec<(u32, &'a IndexedItem)> {
        let found = self.index.search_items(query).into_iter();
        found.filter_map(|(slot, points)| Some((points, self.at(slot)?))).collect()
    }

    pub(super) fn search_series(&self, query: &str) -> Vec<(SeriesId, u32)> {
        let mut found = self.index.series.find(query);
        found.retain(|(id, _)| self.series(*id).is_some());
        found
    }

    /// People found by a query, with the number of their items, at most `limit`.
    pub(super) fn search_people(&self, query: &str, limit: usize) -> Vec<(&'a str, u32)> {
        if self.paths.is_all() {
            let found = self.index.people.search(query, limit).into_iter();
            return found.map(|(person, count)| (self.index.people.get(person), count)).collect();
        }
        let mut counts: HashMap<u32, u32> = HashMap::new();
        for (_, item) in self.items() {
            item.people().iter().for_each(|person| *counts.entry(*person).or_default() += 1);
        }
        let found = self.index.people.search(query, usize::MAX).into_iter();
        let seen = found.filter_map(|(person, _)| Some((self.index.people.get(person), *counts.get(&person)?)));
        seen.take(limit).collect()
    }

    /// The folder of the book of which a file is a part; None for any other file.
    pub(super) fn book_folder(&self, item: &IndexedItem) -> Option<String> {
        self.index.book_folder(item)
    }

    pub(super) fn genres(&self) -> &'a TextPool {
        &self.index.genres
    }

    pub(super) fn people(&self) -> &'a TextPool {
        &self.index.people
    }

    /// Whether a user chose the title of an item.
    pub(super) fn has_chosen_title(&self, id: ItemId) -> bool {
        self.index.chosen_titles.contains_key(&id)
    }

    /// The paths that a playlist lists; none of one that is not seen.
    pub(super) fn playlist_paths(&self, path: &str) -> &'a [Box<str>] {
        if self.paths.contains(path) { self.index.playlists.paths(path) } else { &[] }
    }

    /// The folder and name of each playlist, with the number of files that it lists.
    pub(super) fn all_playlists(self) -> impl Iterator<Item = (&'a str, &'a str, usize)> {
        self.index.playlists.all().filter(move |(folder, ..)| self.paths.contains(folder))
    }
}
