//! Programmes of imported guides, and their mapping to channels.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::pieces;
use crate::domain::channel::Channel;
use crate::domain::external::ExternalChannel;
use crate::domain::listing::{Listing, Listings};
use crate::domain::source::{SourceKind, ImportSource};
use crate::error::Result;
use crate::service::Service;
use crate::store::{Store, Tree};

/// The programmes of one guide, by the id of the channel in it.
type Guide = BTreeMap<String, Arc<Listings>>;

/// All guides, by source: in memory, and on disk in pieces.
pub(super) struct Guides {
    store: Store,
    by_source: RwLock<BTreeMap<u32, Arc<Guide>>>,
    /// Locked while guides are mapped to channels, so that no older mapping replaces a newer one.
    mapping: tokio::sync::Mutex<()>,
}

/// The tree of a source's guide. Uploads are kept apart because they cannot be fetched again.
fn tree(source: &ImportSource) -> Tree {
    if source.url.is_some() { Tree::Programmes } else { Tree::UploadedProgrammes }
}

/// The other tree, which has the guide if the source changed between upload and address.
fn other_tree(source: &ImportSource) -> Tree {
    if source.url.is_some() { Tree::UploadedProgrammes } else { Tree::Programmes }
}

impl Guides {
    pub fn open(store: Store, sources: &BTreeMap<u32, Arc<ImportSource>>) -> Result<Self> {
        let mut by_source = BTreeMap::new();
        for (id, source) in sources {
            let stored = match pieces::read(&store, tree(source), *id)? {
                None => pieces::read(&store, other_tree(source), *id)?,
                stored => stored,
            };
            let Some(stored) = stored else { continue };
            let mut channels: BTreeMap<String, Vec<Listing>> = BTreeMap::new();
            for (channel, listings) in stored {
                channels.entry(channel).or_default().extend(listings);
            }
            by_source.insert(*id, Arc::new(guide(channels)));
        }
        Ok(Self { store, by_source: RwLock::new(by_source), mapping: tokio::sync::Mutex::default() })
    }

    fn all(&self) -> BTreeMap<u32, Arc<Guide>> {
        self.by_source.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the guide of a source.
    ///
    /// # Errors
    /// `STORAGE_FULL`; then the former guide stays in use.
    pub async fn put(&self, source: &ImportSource, channels: BTreeMap<String, Vec<Listing>>) -> Result<()> {
        let tree = tree(source);
        let was = self.all().remove(&source.id).unwrap_or_default();
        let made = tokio::task::spawn_blocking(move || guide(channels));
        let guide = Arc::new(made.await.map_err(crate::error::Error::internal)?);
        if !is_same(&was, &guide) || !pieces::is_stored(&self.store, tree, source.id)? {
            let channels = guide.iter().map(|(id, listings)| (id.as_str(), listings.all.as_slice()));
            pieces::write(&self.store, tree, source.id, channels).await?;
        }
        self.by_source.write().unwrap_or_else(PoisonError::into_inner).insert(source.id, guide);
        // The new guide is stored. A former one left in the other tree is not read, and is removed next time.
        if let Err(fault) = pieces::forget(&self.store, other_tree(source), source.id).await {
            tracing::warn!(source.id, %fault, "a former guide could not be removed");
        }
        Ok(())
    }

    /// Removes the guide of a source.
    ///
    /// # Errors
    /// `STORAGE_FULL`.
    pub async fn forget(&self, source: u32) -> Result<()> {
        self.by_source.write().unwrap_or_else(PoisonError::into_inner).remove(&source);
        for tree in [Tree::Programmes, Tree::UploadedProgrammes] {
            pieces::forget(&self.store, tree, source).await?;
        }
        Ok(())
    }
}

fn guide(channels: BTreeMap<String, Vec<Listing>>) -> Guide {
    channels.into_iter().map(|(id, all)| (id, Arc::new(Listings::from_unsorted(all, 0)))).collect()
}

fn is_same(was: &Guide, is: &Guide) -> bool {
    was.len() == is.len() && was.iter().zip(is).all(|((a, before), (b, after))| a == b && before.content_hash == after.content_hash)
}

impl Service {
    /// Maps the imported guides to all external channels, in a blocking thread: shifted guides are copied and sorted.
    pub(in crate::service) async fn map_guides(&self) {
        let _mapping = self.sources.guides.mapping.lock().await;
        let (guides, channels) = (self.standing_guides(), self.channels.all());
        match tokio::task::spawn_blocking(move || map(&guides, channels)).await {
            Ok(mapped) => self.channels.set_listings(mapped),
            Err(fault) => tracing::error!(%fault, "the guides could not be mapped to channels"),
        }
        self.recordings.look_again();
    }

    /// Maps the imported guides while the server starts.
    pub(in crate::service) fn map_first_guides(&self) {
        self.channels.set_listings(map(&self.standing_guides(), self.channels.all()));
    }

    /// Maps guides after a change of `channel`; returns the channel with its programmes.
    pub(in crate::service) async fn with_listings(&self, channel: Arc<Channel>) -> Arc<Channel> {
        if channel.external.is_none() {
            return channel;
        }
        self.map_guides().await;
        self.channels.get(channel.id).unwrap_or(channel)
    }

    /// Guides whose rights have not been withdrawn, by source.
    fn standing_guides(&self) -> Vec<(u32, Arc<Guide>)> {
        let mut guides = self.sources.guides.all();
        let sources = self.sources.all().into_iter();
        let standing = sources.filter(|source| source.kind == SourceKind::Xmltv && source.rights.is_usable());
        standing.filter_map(|source| Some((source.id, guides.remove(&source.id)?))).collect()
    }
}

/// The external channels and their programmes.
fn map(guides: &[(u32, Arc<Guide>)], channels: Vec<Arc<Channel>>) -> Vec<(Arc<Channel>, Option<Arc<Listings>>)> {
    let external = channels.into_iter().filter(|channel| channel.external.is_some());
    let mapped = external.map(|channel| {
        let listings = programmes(guides, &channel);
        (channel, listings)
    });
    mapped.collect()
}

/// The programmes for a channel: by its configured guide, or by the `tvg-id` in its list.
fn programmes(guides: &[(u32, Arc<Guide>)], channel: &Channel) -> Option<Arc<Listings>> {
    let external: &ExternalChannel = channel.external.as_deref()?;
    let imported = external.imported_entry();
    let (source, id) = match &external.guide_channel {
        Some(guide) => (guide.source, guide.id.as_str()),
        None => (None, imported.map(|entry| entry.tvg_id.as_str()).filter(|id| !id.is_empty())?),
    };
    let mut fitting = guides.iter().filter(|(known, _)| source.is_none_or(|source| source == *known));
    let listings = fitting.find_map(|(_, guide)| guide.get(id))?;
    match imported.map_or(0, |entry| entry.shift_ms) {
        0 => Some(listings.clone()),
        shift_ms => Some(Arc::new(Listings::from_unsorted(listings.all.clone(), shift_ms))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::rights::Provenance;
    use crate::domain::source::{ReadCounts, SourceRights, ChannelFilter, ReadState};

    fn uploaded() -> ImportSource {
        let provenance = Provenance { source_name: "Own".into(), source_url: String::new(), imported_at_ms: 0 };
        ImportSource {
            id: 7,
            kind: SourceKind::Xmltv,
            name: "Guide".into(),
            url: None,
            refresh_hours: None,
            rights: SourceRights::Provenance(provenance),
            filter: ChannelFilter::default(),
            number_from: None,
            state: ReadState::Ready,
            last_read_ms: None,
            counts: ReadCounts::default(),
            skipped: Vec::new(),
        }
    }

    fn programmes(count: i64, description: &str) -> Vec<Listing> {
        let one = |n: i64| Listing {
            start_ms: n * 3_600_000,
            end_ms: (n + 1) * 3_600_000,
            title: format!("Programme {n}"),
            description: description.to_owned(),
            ..Listing::default()
        };
        (0..count).map(one).collect()
    }

    fn known() -> BTreeMap<u32, Arc<ImportSource>> {
        BTreeMap::from([(7, Arc::new(uploaded()))])
    }

    #[tokio::test]
    async fn a_channel_of_12000_programmes_survives_a_restart_and_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_waiting(dir.path()).unwrap();
        let guides = Guides::open(store.clone(), &known()).unwrap();
        // Control characters would take six bytes each in JSON; a quote takes two.
        let long = "\"".repeat(2000);
        let channels =
            BTreeMap::from([("one".to_owned(), programmes(12_000, &long)), ("two".to_owned(), programmes(3, "short"))]);
        guides.put(&uploaded(), channels.clone()).await.unwrap();
        let stored = store.keys(Tree::UploadedProgrammes, "").unwrap();
        guides.put(&uploaded(), channels).await.unwrap();
        assert_eq!(store.keys(Tree::UploadedProgrammes, "").unwrap(), stored, "the same guide is not written again");
        drop((guides, store));

        let store = Store::open_waiting(dir.path()).unwrap();
        let guides = Guides::open(store.clone(), &known()).unwrap();
        let guide = guides.all().remove(&7).unwrap();
        assert_eq!((guide["one"].all.len(), guide["two"].all.len()), (12_000, 3));
        assert!(guide["one"].all.iter().all(|listing| listing.description == long));
        guides.put(&uploaded(), BTreeMap::from([("two".to_owned(), programmes(4, "new"))])).await.unwrap();
        assert_eq!(store.keys(Tree::UploadedProgrammes, "").unwrap().len(), 2, "a head and a piece");
        drop((guides, store));

        let store = Store::open_waiting(dir.path()).unwrap();
        let guides = Guides::open(store.clone(), &known()).unwrap();
        let guide = guides.all().remove(&7).unwrap();
        assert_eq!((guide.len(), guide["two"].all.len()), (1, 4));
        guides.forget(7).await.unwrap();
        assert_eq!(store.keys(Tree::UploadedProgrammes, "").unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn a_guide_that_is_not_stored_leaves_the_former_one_of_an_older_version() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_waiting(dir.path()).unwrap();
        store.put(Tree::UploadedProgrammes, "0000000007/a/b", &programmes(5, "old")).await.unwrap();
        drop(store);
        let store = Store::open_with(dir.path(), u64::MAX).unwrap();
        let guides = Guides::open(store.clone(), &known()).unwrap();
        assert_eq!(guides.all()[&7]["a/b"].all.len(), 5);
        let other = || BTreeMap::from([("c".to_owned(), programmes(1, "new"))]);
        assert!(guides.put(&uploaded(), other()).await.is_err(), "the disk is full");
        assert_eq!(guides.all()[&7]["a/b"].all.len(), 5);
        drop((guides, store));

        let store = Store::open_waiting(dir.path()).unwrap();
        let guides = Guides::open(store.clone(), &known()).unwrap();
        assert_eq!(guides.all()[&7]["a/b"].all.len(), 5, "also after a restart");
        guides.put(&uploaded(), other()).await.unwrap();
        assert!(store.keys(Tree::UploadedProgrammes, "0000000007/").unwrap().is_empty(), "now stored in pieces");
        let guides = Guides::open(store, &known()).unwrap();
        assert_eq!(guides.all()[&7].keys().collect::<Vec<_>>(), ["c"]);
    }
}
