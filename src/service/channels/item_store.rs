//! Items of channels: each item and each list of items is stored once for all revisions of all channels, in memory and on
//! disk. A folder on three hundred channels costs as much as on one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use data_encoding::BASE64URL_NOPAD;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use super::segment_bounds::{SegmentBounds, delete_unused};
use crate::domain::channel::{ChannelSettings, OutputSettings, RequestedFiller};
use crate::domain::schedule::{ScheduleItem, ScheduleItems};
use crate::error::{Error, Result};
use crate::store::{Store, Tree};

/// Records written concurrently.
const MAX_CONCURRENT_WRITES: usize = 256;

/// A name by content: equal values have equal names.
type ContentName = [u8; 16];

/// Items and lists by name, as long as a channel uses them. All of them are also on disk.
#[derive(Default)]
pub(super) struct ItemStore {
    cache: Mutex<ItemCache>,
    segment_bounds: SegmentBounds,
    /// The filler of the channels without one, which are most.
    no_filler: Arc<RequestedFiller>,
}

#[derive(Default)]
struct ItemCache {
    items: HashMap<ContentName, Weak<ScheduleItem>>,
    lists: HashMap<ContentName, Weak<[Arc<ScheduleItem>]>>,
    /// Output settings and time zones, most of which are equal.
    outputs: HashMap<ContentName, Weak<OutputSettings>>,
    zones: HashSet<Arc<str>>,
}

impl ItemStore {
    /// A list by its name.
    ///
    /// # Errors
    /// `INTERNAL` when it, or one of its items, is missing or cannot be read.
    pub(super) fn load_list(&self, store: &Store, list: &str) -> Result<ScheduleItems> {
        let name = decode_name(Tree::ItemLists, list)?;
        if let Some(cached) = self.lock_cache().lists.get(&name).and_then(Weak::upgrade) {
            return Ok(cached);
        }
        let names: Vec<String> = read_record(store, Tree::ItemLists, list)?;
        let items = names.iter().map(|name| self.load_item(store, name)).collect::<Result<ScheduleItems>>()?;
        self.lock_cache().lists.insert(name, Arc::downgrade(&items));
        Ok(items)
    }

    /// Loads the segment boundaries of items inside a revision's record, as older versions wrote them.
    pub(super) fn load_bounds(&self, store: &Store, items: &mut ScheduleItems) -> Result<()> {
        Arc::make_mut(items).iter_mut().try_for_each(|item| self.segment_bounds.load(store, Arc::make_mut(item)))
    }

    /// Replaces equal output settings by one shared value.
    pub(super) fn share_output(&self, output: Arc<OutputSettings>) -> Arc<OutputSettings> {
        let Ok(name) = content_name(&*output) else { return output };
        let mut cache = self.lock_cache();
        if let Some(cached) = cache.outputs.get(&name).and_then(Weak::upgrade) {
            return cached;
        }
        cache.outputs.insert(name, Arc::downgrade(&output));
        output
    }

    /// Shares one value among the channels without filler.
    pub(super) fn share_filler(&self, filler: Arc<RequestedFiller>) -> Arc<RequestedFiller> {
        if filler == self.no_filler { self.no_filler.clone() } else { filler }
    }

    /// Shares the time zone among channels. There are some hundred zones.
    pub(super) fn share_time_zone(&self, settings: &mut ChannelSettings) {
        let mut cache = self.lock_cache();
        match cache.zones.get(&settings.timezone) {
            Some(zone) => settings.timezone = zone.clone(),
            None => {
                cache.zones.insert(settings.timezone.clone());
            }
        }
    }

    /// Stores a list and its new items; returns its name and the shared list.
    ///
    /// # Errors
    /// `STORAGE_FULL`.
    pub(super) async fn store_list(&self, store: &Store, items: &ScheduleItems) -> Result<(String, ScheduleItems)> {
        let store_item = |item: &Arc<ScheduleItem>| self.store_item(store, item.clone());
        let futures: Vec<_> = items.iter().map(store_item).collect();
        let stored: Vec<(ContentName, _)> = stream::iter(futures).buffered(MAX_CONCURRENT_WRITES).try_collect().await?;
        let names: Vec<String> = stored.iter().map(|(name, _)| encode_name(name)).collect();
        let name = content_name(&names)?;
        let cached = self.lock_cache().lists.get(&name).and_then(Weak::upgrade);
        let list = match cached {
            Some(cached) => cached,
            None => {
                store.put(Tree::ItemLists, &encode_name(&name), &names).await?;
                let list: ScheduleItems = stored.into_iter().map(|(_, item)| item).collect();
                self.lock_cache().lists.insert(name, Arc::downgrade(&list));
                list
            }
        };
        Ok((encode_name(&name), list))
    }

    /// Deletes records that no channel uses any more. The caller must hold the lock on changes of channels.
    pub(super) async fn prune(&self, store: &Store) -> Result<()> {
        {
            let mut cache = self.lock_cache();
            cache.lists.retain(|_, list| list.strong_count() > 0);
            cache.items.retain(|_, item| item.strong_count() > 0);
            cache.outputs.retain(|_, output| output.strong_count() > 0);
        }
        // Lists first, because they name items.
        let is_list = |key: &str| decode_name(Tree::ItemLists, key).map(|id| self.lock_cache().lists.contains_key(&id));
        delete_unused(store, Tree::ItemLists, is_list).await?;
        let used = |key: &str| decode_name(Tree::ChannelItems, key).map(|id| self.lock_cache().items.contains_key(&id));
        delete_unused(store, Tree::ChannelItems, used).await?;
        self.segment_bounds.prune(store).await
    }

    fn load_item(&self, store: &Store, text: &str) -> Result<Arc<ScheduleItem>> {
        let name = decode_name(Tree::ChannelItems, text)?;
        if let Some(cached) = self.lock_cache().items.get(&name).and_then(Weak::upgrade) {
            return Ok(cached);
        }
        let mut item: ScheduleItem = read_record(store, Tree::ChannelItems, text)?;
        self.segment_bounds.load(store, &mut item)?;
        Ok(self.insert_item(name, Arc::new(item)))
    }

    async fn store_item(&self, store: &Store, mut item: Arc<ScheduleItem>) -> Result<(ContentName, Arc<ScheduleItem>)> {
        let name = content_name(&*item)?;
        let cached = self.lock_cache().items.get(&name).and_then(Weak::upgrade);
        // An item whose boundaries were lost gets them back with the next revision.
        if let Some(cached) = cached.filter(|cached| !cached.has_lost_bounds()) {
            return Ok((name, cached));
        }
        if !item.has_lost_bounds() {
            self.segment_bounds.store_bounds(store, Arc::make_mut(&mut item)).await?;
        }
        store.put(Tree::ChannelItems, &encode_name(&name), &*item).await?;
        Ok((name, self.insert_item(name, item)))
    }

    fn insert_item(&self, name: ContentName, item: Arc<ScheduleItem>) -> Arc<ScheduleItem> {
        self.lock_cache().items.insert(name, Arc::downgrade(&item));
        item
    }

    fn lock_cache(&self) -> std::sync::MutexGuard<'_, ItemCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_record<T: serde::de::DeserializeOwned>(store: &Store, tree: Tree, name: &str) -> Result<T> {
    store.get(tree, name)?.ok_or_else(|| Error::internal(format!("record {tree:?}/{name} is missing")))
}

fn content_name<T: Serialize + ?Sized>(value: &T) -> Result<ContentName> {
    let json = serde_json::to_vec(value).map_err(Error::internal)?;
    Ok(blake3::hash(&json).as_bytes()[..16].try_into().expect("sixteen of thirty-two"))
}

fn encode_name(name: &ContentName) -> String {
    BASE64URL_NOPAD.encode(name)
}

fn decode_name(tree: Tree, text: &str) -> Result<ContentName> {
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| Error::internal(format!("the key of record {tree:?}/{text} is not a valid name")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schedule::assign_ids;
    use crate::domain::schedule::segmentation::Segmentation;
    use crate::domain::time::Ticks;

    fn sample_items(titles: &[&str]) -> ScheduleItems {
        let item = |title: &&str| ScheduleItem {
            path: format!("/lib/{title}.mkv"),
            title: (*title).to_owned(),
            duration_ms: 4000,
            weight: 1,
            segmentation: Segmentation::from_keyframes(&[0, 180_000, 360_000].map(Ticks), Ticks::ZERO),
            ..ScheduleItem::default()
        };
        assign_ids(titles.iter().map(item).collect())
    }

    fn record_counts(store: &Store) -> [usize; 3] {
        let count = |tree| store.scan::<serde::de::IgnoredAny>(tree).unwrap().len();
        [Tree::ItemLists, Tree::ChannelItems, Tree::Segmentations].map(count)
    }

    #[tokio::test]
    async fn equal_items_and_lists_are_stored_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_waiting(folder.path()).unwrap();
        let item_store = ItemStore::default();
        let (ab, first) = item_store.store_list(&store, &sample_items(&["a", "b"])).await.unwrap();
        let (again, second) = item_store.store_list(&store, &sample_items(&["a", "b"])).await.unwrap();
        let (bc, third) = item_store.store_list(&store, &sample_items(&["b", "c"])).await.unwrap();
        assert!(ab == again && ab != bc && Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&first[1], &third[0]));
        assert_eq!(record_counts(&store), [2, 3, 1]);

        // The state after a restart.
        let reopened = ItemStore::default();
        let (one, other) = (reopened.load_list(&store, &ab).unwrap(), reopened.load_list(&store, &bc).unwrap());
        assert_eq!((&one, &other), (&first, &third));
        assert!(Arc::ptr_eq(&one[1], &other[0]) && Arc::ptr_eq(&one, &reopened.load_list(&store, &ab).unwrap()));
        let (stored_name, _) = reopened.store_list(&store, &sample_items(&["a", "b"])).await.unwrap();
        assert_eq!(stored_name, ab);

        drop((one, first, second));
        reopened.prune(&store).await.unwrap();
        assert_eq!(record_counts(&store), [1, 2, 1]);
        drop(other);
        reopened.prune(&store).await.unwrap();
        assert_eq!(record_counts(&store), [0, 0, 0]);
        assert!(reopened.load_list(&store, &ab).is_err());
    }
}
