//! Boundaries of copied segments, stored once for all channels that air a file, in memory and on disk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::domain::schedule::segmentation::{KeyframeBounds, Segmentation};
use crate::domain::schedule::{ItemCopy, ScheduleItem};
use crate::domain::time::Ticks;
use crate::error::{Error, Result};
use crate::store::{Store, Tree};

/// Boundaries by name, as long as a channel uses them.
#[derive(Default)]
pub(super) struct SegmentBounds(Mutex<HashMap<String, Weak<[Ticks]>>>);

impl SegmentBounds {
    /// Loads the boundaries of an item that was read from disk. If they are lost, that is logged and the item counts as
    /// evenly cut.
    pub(super) fn load(&self, store: &Store, item: &mut ScheduleItem) -> Result<()> {
        for keyframes in bounds_of(&mut item.segmentation, &mut item.copy) {
            keyframes.bounds = match self.cached(&keyframes.name) {
                Some(bounds) => Some(bounds),
                None => read_bounds(store, keyframes)?.map(|bounds| self.insert(&keyframes.name, bounds)),
            };
            if keyframes.bounds.is_none() {
                tracing::warn!(
                    media.path = item.path,
                    "the segment boundaries of an item are lost; a slate is aired instead"
                );
            }
        }
        Ok(())
    }

    /// Stores the boundaries of a new item, or shares those in memory.
    pub(super) async fn store_bounds(&self, store: &Store, item: &mut ScheduleItem) -> Result<()> {
        for keyframes in bounds_of(&mut item.segmentation, &mut item.copy) {
            let KeyframeBounds { name, bounds: Some(bounds), .. } = keyframes else { continue };
            if let Some(cached) = self.cached(name) {
                *bounds = cached;
                continue;
            }
            let steps: Vec<Ticks> = bounds.windows(2).map(|pair| pair[1] - pair[0]).collect();
            store.put(Tree::Segmentations, name, &steps).await?;
            *bounds = self.insert(name, bounds.clone());
        }
        Ok(())
    }

    /// Deletes boundaries that no channel uses any more. The caller must hold the lock on changes of channels.
    pub(super) async fn prune(&self, store: &Store) -> Result<()> {
        delete_unused(store, Tree::Segmentations, |name| Ok(self.cached(name).is_some())).await
    }

    fn cached(&self, name: &str) -> Option<Arc<[Ticks]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name)?.upgrade()
    }

    fn insert(&self, name: &str, bounds: Arc<[Ticks]>) -> Arc<[Ticks]> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.retain(|_, bounds| bounds.strong_count() > 0);
        cache.insert(name.to_owned(), Arc::downgrade(&bounds));
        bounds
    }
}

/// The boundaries of an item that has copied segments, for all clients or for some.
fn bounds_of<'a>(
    segmentation: &'a mut Segmentation,
    copy: &'a mut Option<Box<ItemCopy>>,
) -> impl Iterator<Item = &'a mut KeyframeBounds> {
    let own = match segmentation {
        Segmentation::Keyframes(keyframes) => Some(keyframes),
        Segmentation::Frames(_) | Segmentation::Steps { .. } => None,
    };
    own.into_iter().chain(copy.as_mut().map(|copy| &mut copy.bounds))
}

/// Deletes the records of a tree that are not in use.
pub(super) async fn delete_unused(store: &Store, tree: Tree, is_used: impl Fn(&str) -> Result<bool>) -> Result<()> {
    let store_clone = store.clone();
    let names = tokio::task::spawn_blocking(move || {
        let mut names = Vec::new();
        store_clone.for_each(tree, |name, _: serde::de::IgnoredAny| names.push(name.to_owned())).map(|()| names)
    });
    for name in names.await.map_err(Error::internal)?? {
        if !is_used(&name)? {
            store.delete(tree, &name).await?;
        }
    }
    Ok(())
}

fn read_bounds(store: &Store, keyframes: &KeyframeBounds) -> Result<Option<Arc<[Ticks]>>> {
    let steps: Option<Vec<Ticks>> = store.get(Tree::Segmentations, &keyframes.name)?;
    let add = |position: &mut Ticks, step: Ticks| {
        *position += step;
        Some(*position)
    };
    let steps = steps.map(|steps| [Ticks::ZERO].into_iter().chain(steps));
    let bounds = steps.map(|steps| steps.scan(Ticks::ZERO, add).collect::<Arc<[Ticks]>>());
    let is_complete = |bounds: &Arc<[Ticks]>| {
        bounds.len() == keyframes.segment_count as usize + 1 && bounds.last() == Some(&keyframes.end)
    };
    Ok(bounds.filter(is_complete))
}
