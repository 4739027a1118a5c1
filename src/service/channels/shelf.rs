//! Items of channels: each item and each list of items is stored once for all revisions of all channels, in memory and on
//! disk. A folder on three hundred channels costs as much as on one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use data_encoding::BASE64URL_NOPAD;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use super::cuts::Cuts;
use crate::domain::channel::{ChannelSettings, OutputSettings};
use crate::domain::schedule::{ScheduleItem, ScheduleItems};
use crate::error::{Error, Result};
use crate::store::{Store, Tree};

/// Records written concurrently.
const AT_ONCE: usize = 256;

/// A name by content: equal values have equal names.
type Name = [u8; 16];

/// Items and lists by name, as long as a channel uses them. All of them are also on disk.
#[derive(Default)]
pub(super) struct Shelf {
    known: Mutex<Known>,
    cuts: Cuts,
}

#[derive(Default)]
struct Known {
    items: HashMap<Name, Weak<ScheduleItem>>,
    lists: HashMap<Name, Weak<[Arc<ScheduleItem>]>>,
    /// Output settings and time zones, most of which are equal.
    outputs: HashMap<Name, Weak<OutputSettings>>,
    zones: HashSet<Arc<str>>,
}

impl Shelf {
    /// A list by its name.
    ///
    /// # Errors
    /// `INTERNAL` when it, or one of its items, is missing or cannot be read.
    pub(super) fn find(&self, store: &Store, list: &str) -> Result<ScheduleItems> {
        let name = decode(Tree::Lists, list)?;
        if let Some(known) = self.known().lists.get(&name).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let names: Vec<String> = read(store, Tree::Lists, list)?;
        let items = names.iter().map(|name| self.item(store, name)).collect::<Result<ScheduleItems>>()?;
        self.known().lists.insert(name, Arc::downgrade(&items));
        Ok(items)
    }

    /// Loads the segment boundaries of items inside a revision's record, as older versions wrote them.
    pub(super) fn complete(&self, store: &Store, items: &mut ScheduleItems) -> Result<()> {
        Arc::make_mut(items).iter_mut().try_for_each(|item| self.cuts.find(store, Arc::make_mut(item)))
    }

    /// Replaces equal output settings by one shared value.
    pub(super) fn share_output(&self, output: Arc<OutputSettings>) -> Arc<OutputSettings> {
        let Ok(name) = name(&*output) else { return output };
        let mut known = self.known();
        if let Some(known) = known.outputs.get(&name).and_then(Weak::upgrade) {
            return known;
        }
        known.outputs.insert(name, Arc::downgrade(&output));
        output
    }

    /// Shares the time zone among channels. There are some hundred zones.
    pub(super) fn share_face(&self, face: &mut ChannelSettings) {
        let mut known = self.known();
        match known.zones.get(&face.timezone) {
            Some(zone) => face.timezone = zone.clone(),
            None => {
                known.zones.insert(face.timezone.clone());
            }
        }
    }

    /// Stores a list and its new items; returns its name and the shared list.
    ///
    /// # Errors
    /// `STORAGE_FULL`.
    pub(super) async fn keep(&self, store: &Store, items: &ScheduleItems) -> Result<(String, ScheduleItems)> {
        let keep = |item: &Arc<ScheduleItem>| self.keep_item(store, item.clone());
        let futures: Vec<_> = items.iter().map(keep).collect();
        let kept: Vec<(Name, Arc<ScheduleItem>)> = stream::iter(futures).buffered(AT_ONCE).try_collect().await?;
        let names: Vec<String> = kept.iter().map(|(name, _)| encode(name)).collect();
        let (name, json) = (name(&names)?, names);
        let known = self.known().lists.get(&name).and_then(Weak::upgrade);
        let list = match known {
            Some(known) => known,
            None => {
                store.put(Tree::Lists, &encode(&name), &json).await?;
                let list: ScheduleItems = kept.into_iter().map(|(_, item)| item).collect();
                self.known().lists.insert(name, Arc::downgrade(&list));
                list
            }
        };
        Ok((encode(&name), list))
    }

    /// Deletes records that no channel uses any more. The caller must hold the lock on changes of channels.
    pub(super) async fn sweep(&self, store: &Store) -> Result<()> {
        {
            let mut known = self.known();
            known.lists.retain(|_, list| list.strong_count() > 0);
            known.items.retain(|_, item| item.strong_count() > 0);
            known.outputs.retain(|_, output| output.strong_count() > 0);
        }
        // Lists first, because they name items.
        remove(store, Tree::Lists, |name| self.known().lists.contains_key(name)).await?;
        remove(store, Tree::Items, |name| self.known().items.contains_key(name)).await?;
        self.cuts.sweep(store).await
    }

    fn item(&self, store: &Store, text: &str) -> Result<Arc<ScheduleItem>> {
        let name = decode(Tree::Items, text)?;
        if let Some(known) = self.known().items.get(&name).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let mut item: ScheduleItem = read(store, Tree::Items, text)?;
        self.cuts.find(store, &mut item)?;
        Ok(self.put(name, Arc::new(item)))
    }

    async fn keep_item(&self, store: &Store, mut item: Arc<ScheduleItem>) -> Result<(Name, Arc<ScheduleItem>)> {
        let name = name(&*item)?;
        let known = self.known().items.get(&name).and_then(Weak::upgrade);
        // An item whose boundaries were lost gets them back with the next revision.
        if let Some(known) = known.filter(|known| !known.segmentation.has_lost_bounds()) {
            return Ok((name, known));
        }
        if !item.segmentation.has_lost_bounds() {
            self.cuts.keep(store, Arc::make_mut(&mut item)).await?;
        }
        store.put(Tree::Items, &encode(&name), &*item).await?;
        Ok((name, self.put(name, item)))
    }

    fn put(&self, name: Name, item: Arc<ScheduleItem>) -> Arc<ScheduleItem> {
        self.known().items.insert(name, Arc::downgrade(&item));
        item
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Deletes records whose names are unknown.
async fn remove(store: &Store, tree: Tree, known: impl Fn(&Name) -> bool) -> Result<()> {
    let reading = store.clone();
    let names = tokio::task::spawn_blocking(move || {
        let mut names = Vec::new();
        reading.each(tree, |name, _: serde::de::IgnoredAny| names.push(name.to_owned())).map(|()| names)
    });
    for name in names.await.map_err(Error::internal)?? {
        if !known(&decode(tree, &name)?) {
            store.delete(tree, &name).await?;
        }
    }
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(store: &Store, tree: Tree, name: &str) -> Result<T> {
    store.get(tree, name)?.ok_or_else(|| Error::internal(format!("record {tree:?}/{name} is missing")))
}

fn name<T: Serialize + ?Sized>(value: &T) -> Result<Name> {
    let json = serde_json::to_vec(value).map_err(Error::internal)?;
    Ok(blake3::hash(&json).as_bytes()[..16].try_into().expect("sixteen of thirty-two"))
}

fn encode(name: &Name) -> String {
    BASE64URL_NOPAD.encode(name)
}

fn decode(tree: Tree, text: &str) -> Result<Name> {
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| Error::internal(format!("the key of record {tree:?}/{text} is not a valid name")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schedule::segmentation::{Segmentation, VideoFormat};
    use crate::domain::schedule::assign_ids;

    fn items(titles: &[&str]) -> ScheduleItems {
        let item = |title: &&str| ScheduleItem {
            id: 0,
            path: format!("/lib/{title}.mkv"),
            title: (*title).to_owned(),
            duration_ms: 4000,
            weight: 1,
            segmentation: Segmentation::from_keyframes(&[0, 180_000, 360_000], 0),
            video_format: VideoFormat::default(),
            breaks: Box::default(),
        };
        assign_ids(titles.iter().map(item).collect())
    }

    fn count(store: &Store, tree: Tree) -> usize {
        store.scan::<serde::de::IgnoredAny>(tree).unwrap().len()
    }

    #[tokio::test]
    async fn what_is_the_same_is_held_once_and_stays_so() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_waiting(folder.path()).unwrap();
        let shelf = Shelf::default();
        let (ab, first) = shelf.keep(&store, &items(&["a", "b"])).await.unwrap();
        let (again, second) = shelf.keep(&store, &items(&["a", "b"])).await.unwrap();
        let (bc, third) = shelf.keep(&store, &items(&["b", "c"])).await.unwrap();
        assert!(ab == again && ab != bc && Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&first[1], &third[0]));
        assert_eq!([Tree::Lists, Tree::Items, Tree::Cuts].map(|tree| count(&store, tree)), [2, 3, 1]);

        // The state after a restart.
        let fresh = Shelf::default();
        let (one, other) = (fresh.find(&store, &ab).unwrap(), fresh.find(&store, &bc).unwrap());
        assert_eq!((&one, &other), (&first, &third));
        assert!(Arc::ptr_eq(&one[1], &other[0]) && Arc::ptr_eq(&one, &fresh.find(&store, &ab).unwrap()));
        let (known, _) = fresh.keep(&store, &items(&["a", "b"])).await.unwrap();
        assert_eq!(known, ab);

        drop((one, first, second));
        fresh.sweep(&store).await.unwrap();
        assert_eq!([Tree::Lists, Tree::Items, Tree::Cuts].map(|tree| count(&store, tree)), [1, 2, 1]);
        drop(other);
        fresh.sweep(&store).await.unwrap();
        assert_eq!([Tree::Lists, Tree::Items, Tree::Cuts].map(|tree| count(&store, tree)), [0, 0, 0]);
        assert!(fresh.find(&store, &ab).is_err());
    }
}
