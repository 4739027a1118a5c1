//! Programmes of guides from elsewhere, and which channel shows which.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::domain::channel::Channel;
use crate::domain::external::External;
use crate::domain::listing::{Listing, Listings};
use crate::domain::source::{Kind, Source};
use crate::error::Result;
use crate::service::Service;
use crate::store::{Store, Tree};

/// Records written at once.
const TOGETHER: usize = 256;

/// The programmes of one guide, by the id of the channel in it.
type Guide = BTreeMap<String, Arc<Listings>>;

/// All guides, by source: in memory, and on disk a record for each of their channels.
pub(super) struct Guides {
    store: Store,
    by_source: RwLock<BTreeMap<u32, Arc<Guide>>>,
}

/// What was uploaded cannot be fetched again.
fn tree(source: &Source) -> Tree {
    if source.url.is_some() { Tree::Programmes } else { Tree::UploadedProgrammes }
}

fn key(source: u32, id: &str) -> String {
    format!("{source:010}/{id}")
}

impl Guides {
    pub fn open(store: Store, sources: &BTreeMap<u32, Arc<Source>>) -> Result<Self> {
        let mut by_source: BTreeMap<u32, Guide> = BTreeMap::new();
        for tree in [Tree::Programmes, Tree::UploadedProgrammes] {
            store.each(tree, |key, all: Vec<Listing>| {
                let Some((source, id)) = key.split_once('/') else { return };
                let known = source.parse().ok().filter(|source| sources.contains_key(source));
                if let Some(source) = known {
                    let guide: &mut Guide = by_source.entry(source).or_default();
                    guide.insert(id.to_owned(), Arc::new(Listings::of(all, 0)));
                }
            })?;
        }
        let by_source = by_source.into_iter().map(|(source, guide)| (source, Arc::new(guide))).collect();
        Ok(Self { store, by_source: RwLock::new(by_source) })
    }

    fn all(&self) -> BTreeMap<u32, Arc<Guide>> {
        self.by_source.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the place of what a source said before.
    ///
    /// # Errors
    /// `STORAGE_FULL`: then what was known before is shown still.
    pub async fn put(&self, source: &Source, channels: BTreeMap<String, Vec<Listing>>) -> Result<()> {
        let (tree, was) = (tree(source), self.all().remove(&source.id).unwrap_or_default());
        let made = tokio::task::spawn_blocking(move || {
            channels.into_iter().map(|(id, all)| (id, Arc::new(Listings::of(all, 0)))).collect::<Guide>()
        });
        let guide = Arc::new(made.await.map_err(crate::error::Error::internal)?);
        let writes: Vec<_> = guide
            .iter()
            .filter(|(id, listings)| was.get(*id).is_none_or(|was| was.stamp != listings.stamp))
            .map(|(id, listings)| (key(source.id, id), listings.clone()))
            .collect();
        let writes =
            writes.into_iter().map(|(key, listings)| async move { self.store.put(tree, &key, &listings.all).await });
        let writes: Vec<_> = writes.collect();
        stream::iter(writes).buffer_unordered(TOGETHER).try_for_each(|()| async { Ok(()) }).await?;
        let kept: HashSet<String> = guide.keys().map(|id| key(source.id, id)).collect();
        self.by_source.write().unwrap_or_else(PoisonError::into_inner).insert(source.id, guide);
        for other in [Tree::Programmes, Tree::UploadedProgrammes] {
            self.clear(other, source.id, |key| other == tree && kept.contains(key)).await?;
        }
        Ok(())
    }

    /// Forgets a source.
    ///
    /// # Errors
    /// `STORAGE_FULL`.
    pub async fn forget(&self, source: u32) -> Result<()> {
        self.by_source.write().unwrap_or_else(PoisonError::into_inner).remove(&source);
        for tree in [Tree::Programmes, Tree::UploadedProgrammes] {
            self.clear(tree, source, |_| false).await?;
        }
        Ok(())
    }

    /// Removes the records of a source, but for those that are kept.
    async fn clear(&self, tree: Tree, source: u32, kept: impl Fn(&str) -> bool) -> Result<()> {
        let (prefix, mut gone) = (key(source, ""), Vec::new());
        self.store.each(tree, |key, _: serde::de::IgnoredAny| {
            if key.starts_with(&prefix) && !kept(key) {
                gone.push(key.to_owned());
            }
        })?;
        let removals = gone.into_iter().map(|key| async move { self.store.delete(tree, &key).await });
        let removals: Vec<_> = removals.collect();
        stream::iter(removals).buffer_unordered(TOGETHER).try_for_each(|_| async { Ok(()) }).await
    }
}

impl Service {
    /// Gives every channel from elsewhere the programmes that belong to it.
    pub(in crate::service) fn map_guides(&self) {
        let guides = self.standing_guides();
        self.channels.show(|channel| programmes(&guides, channel));
    }

    /// The same for one channel; gives it as it is then.
    pub(in crate::service) fn with_listings(&self, channel: Arc<Channel>) -> Arc<Channel> {
        if channel.external.is_none() {
            return channel;
        }
        self.map_guides();
        self.channels.get(channel.id).unwrap_or(channel)
    }

    /// Guides that may be used, by source.
    fn standing_guides(&self) -> Vec<(u32, Arc<Guide>)> {
        let mut guides = self.sources.guides.all();
        let sources = self.sources.all().into_iter();
        let standing = sources.filter(|source| source.kind == Kind::Xmltv && source.right.stands());
        standing.filter_map(|source| Some((source.id, guides.remove(&source.id)?))).collect()
    }
}

/// By hand, or by the id its list has for it.
fn programmes(guides: &[(u32, Arc<Guide>)], channel: &Channel) -> Option<Arc<Listings>> {
    let external: &External = channel.external.as_deref()?;
    let imported = external.imported();
    let (source, id) = match &external.guide {
        Some(guide) => (guide.source, guide.id.as_str()),
        None => (None, imported.map(|entry| entry.tvg_id.as_str()).filter(|id| !id.is_empty())?),
    };
    let mut fitting = guides.iter().filter(|(known, _)| source.is_none_or(|source| source == *known));
    let listings = fitting.find_map(|(_, guide)| guide.get(id))?;
    match imported.map_or(0, |entry| entry.shift_ms) {
        0 => Some(listings.clone()),
        shift_ms => Some(Arc::new(Listings::of(listings.all.clone(), shift_ms))),
    }
}
