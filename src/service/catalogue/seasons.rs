//! Films and seasons by id, for work over all of them.

use tokio::sync::watch;

use super::Catalogue;
use super::item::ItemId;
use super::series::in_order;
use crate::domain::catalogue::ItemKind;
use crate::domain::library::kind_from_name;
use crate::domain::sniff::MediaKind;
use crate::domain::visibility::VisiblePaths;

impl Catalogue {
    /// Notifies of items that are added, removed or changed from now on.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.items_changed.subscribe()
    }

    /// Films, episodes and other videos by id, those that were added last first.
    pub fn newest_videos(&self) -> Vec<ItemId> {
        let index = self.read_index();
        let videos = index.all().items().filter(|(_, item)| kind_from_name(item.name()) == Some(MediaKind::Video));
        let mut videos: Vec<(i64, ItemId)> = videos.map(|(_, item)| (item.added_ms, item.id)).collect();
        videos.sort_unstable_by(|a, b| b.cmp(a));
        let mut ids: Vec<ItemId> = videos.into_iter().map(|(_, id)| id).collect();
        // It is read for hours, and has the allocation of the times too.
        ids.shrink_to_fit();
        ids
    }

    /// A path of an item; None if it is gone.
    pub fn path_of(&self, id: ItemId) -> Option<String> {
        self.seen_path_of(VisiblePaths::ALL, id)
    }

    /// A path of an item that a user sees.
    pub fn seen_path_of(&self, paths: &VisiblePaths, id: ItemId) -> Option<String> {
        self.read_index().seen_in(paths).by_id(id).map(super::item::IndexedItem::path)
    }

    /// All films.
    pub fn films(&self) -> Vec<ItemId> {
        let index = self.read_index();
        let films = index.all().items().filter(|(_, item)| item.kind == ItemKind::Film);
        films.map(|(_, item)| item.id).collect()
    }

    /// The episodes of each season in order.
    pub fn seasons(&self) -> Vec<Vec<ItemId>> {
        let index = self.read_index();
        let index = index.all();
        let seasons_of = |items| {
            let episodes = in_order(index, items);
            let seasons = episodes.chunk_by(|a, b| a.season() == b.season());
            seasons.map(|season| season.iter().map(|item| item.id).collect()).collect::<Vec<_>>()
        };
        index.all_series().flat_map(|(_, items)| seasons_of(items)).collect()
    }
}
