//! Programmes of imported guides, and their mapping to channels.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::guide_storage::{self, ChannelIcons};
use crate::domain::channel::Channel;
use crate::domain::external::ExternalChannel;
use crate::domain::listing::{Listing, Listings};
use crate::domain::source::{ImportSource, SourceKind};
use crate::error::Result;
use crate::service::Service;
use crate::store::{Store, Tree};

/// The programmes of one guide, by the id of the channel in it.
type GuideListings = BTreeMap<String, Arc<Listings>>;

/// All guides, by source: in memory, and on disk in pieces.
pub(super) struct GuideCache {
    store: Store,
    by_source: RwLock<BTreeMap<u32, Arc<GuideListings>>>,
    /// Locked while guides are mapped to channels, so that no older mapping replaces a newer one.
    mapping: tokio::sync::Mutex<()>,
}

/// The tree of a source's guide. Uploads are kept apart because they cannot be fetched again.
fn guide_tree(source: &ImportSource) -> Tree {
    if source.url.is_some() { Tree::Programmes } else { Tree::UploadedProgrammes }
}

/// The other tree, which has the guide if the source changed between upload and address.
fn other_tree(source: &ImportSource) -> Tree {
    if source.url.is_some() { Tree::UploadedProgrammes } else { Tree::Programmes }
}

impl GuideCache {
    pub fn open(store: Store, sources: &BTreeMap<u32, Arc<ImportSource>>) -> Result<Self> {
        let mut by_source = BTreeMap::new();
        for (id, source) in sources {
            let stored = match guide_storage::read_guide(&store, guide_tree(source), *id)? {
                None => guide_storage::read_guide(&store, other_tree(source), *id)?,
                stored => stored,
            };
            let Some(stored) = stored else { continue };
            let mut channels: BTreeMap<String, Vec<Listing>> = BTreeMap::new();
            for (channel, listings) in stored.channels {
                channels.entry(channel).or_default().extend(listings);
            }
            by_source.insert(*id, Arc::new(build_guide(channels, &stored.icons)));
        }
        Ok(Self { store, by_source: RwLock::new(by_source), mapping: tokio::sync::Mutex::default() })
    }

    fn all(&self) -> BTreeMap<u32, Arc<GuideListings>> {
        self.by_source.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the guide of a source.
    ///
    /// # Errors
    /// `STORAGE_FULL`; then the former guide stays in use.
    pub async fn put(
        &self,
        source: &ImportSource,
        channels: BTreeMap<String, Vec<Listing>>,
        mut icons: ChannelIcons,
    ) -> Result<()> {
        let tree = guide_tree(source);
        let former = self.all().remove(&source.id).unwrap_or_default();
        icons.retain(|id, _| channels.contains_key(id));
        let build_task = tokio::task::spawn_blocking(move || (build_guide(channels, &icons), icons));
        let (guide, icons) = build_task.await.map_err(crate::error::Error::internal)?;
        let guide = Arc::new(guide);
        if !is_same_guide(&former, &guide) || !guide_storage::is_stored(&self.store, tree, source.id)? {
            let channels = guide.iter().map(|(id, listings)| (id.as_str(), listings.all.as_slice()));
            guide_storage::write_guide(&self.store, tree, source.id, channels, icons).await?;
        }
        self.by_source.write().unwrap_or_else(PoisonError::into_inner).insert(source.id, guide);
        // The new guide is stored. A former one left in the other tree is not read, and is removed next time.
        if let Err(fault) = guide_storage::delete_guide(&self.store, other_tree(source), source.id).await {
            tracing::warn!(source.id, %fault, "a former guide could not be removed");
        }
        Ok(())
    }

    /// Removes the guide of a source.
    ///
    /// # Errors
    /// `STORAGE_FULL`.
    pub async fn remove(&self, source: u32) -> Result<()> {
        self.by_source.write().unwrap_or_else(PoisonError::into_inner).remove(&source);
        for tree in [Tree::Programmes, Tree::UploadedProgrammes] {
            guide_storage::delete_guide(&self.store, tree, source).await?;
        }
        Ok(())
    }
}

fn build_guide(channels: BTreeMap<String, Vec<Listing>>, icons: &ChannelIcons) -> GuideListings {
    let build = |(id, all)| {
        let listings = Listings::from_unsorted(all, 0).with_icon(icons.get(&id).map(String::as_str));
        (id, Arc::new(listings))
    };
    channels.into_iter().map(build).collect()
}

fn is_same_guide(former: &GuideListings, current: &GuideListings) -> bool {
    former.len() == current.len()
        && former
            .iter()
            .zip(current)
            .all(|((a, former_listings), (b, after))| a == b && former_listings.content_hash == after.content_hash)
}

impl Service {
    /// Maps the imported guides to all external channels, in a blocking thread: shifted guides are copied and sorted.
    pub(in crate::service) async fn map_guides(&self) {
        let _mapping = self.sources.guides.mapping.lock().await;
        let (guides, channels) = (self.permitted_guides(), self.channels.all());
        match tokio::task::spawn_blocking(move || map(&guides, channels)).await {
            Ok(mapped) => self.channels.set_listings(mapped),
            Err(fault) => tracing::error!(%fault, "the guides could not be mapped to channels"),
        }
        self.channels.guide_changed.notify_one();
    }

    /// Maps the imported guides while the server starts.
    pub(in crate::service) fn map_first_guides(&self) {
        self.channels.set_listings(map(&self.permitted_guides(), self.channels.all()));
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
    fn permitted_guides(&self) -> Vec<(u32, Arc<GuideListings>)> {
        let mut guides = self.sources.guides.all();
        let sources = self.sources.all().into_iter();
        let permitted = sources.filter(|source| source.kind == SourceKind::Xmltv && source.rights.is_usable());
        permitted.filter_map(|source| Some((source.id, guides.remove(&source.id)?))).collect()
    }
}

/// The external channels and their programmes.
fn map(guides: &[(u32, Arc<GuideListings>)], all: Vec<Arc<Channel>>) -> Vec<(Arc<Channel>, Option<Arc<Listings>>)> {
    let external = all.into_iter().filter(|channel| channel.external.is_some());
    let mapped = external.map(|channel| {
        let listings = find_listings(guides, &channel);
        (channel, listings)
    });
    mapped.collect()
}

/// The programmes for a channel: by its configured guide, or by the `tvg-id` in its list.
fn find_listings(guides: &[(u32, Arc<GuideListings>)], channel: &Channel) -> Option<Arc<Listings>> {
    let external: &ExternalChannel = channel.external.as_deref()?;
    let imported = external.imported_entry();
    let (source, id) = match &external.guide_channel {
        Some(guide) => (guide.source, guide.id.as_str()),
        None => (None, imported.map(|entry| entry.tvg_id.as_str()).filter(|id| !id.is_empty())?),
    };
    let mut candidates = guides.iter().filter(|(guide_source, _)| source.is_none_or(|source| source == *guide_source));
    let listings = candidates.find_map(|(_, guide)| guide.get(id))?;
    match imported.map_or(0, |entry| entry.shift_ms) {
        0 => Some(listings.clone()),
        shift_ms => {
            let shifted = Listings::from_unsorted(listings.all.clone(), shift_ms);
            Some(Arc::new(shifted.with_icon(listings.icon_url.as_deref())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::rights::Provenance;
    use crate::domain::source::{ChannelFilter, ReadCounts, ReadState, SourceRights};
    use crate::service::channels::sources::SourceRecord;
    use crate::store::tests::records::assert_golden;

    #[test]
    fn records_keep_their_bytes() {
        assert_golden::<SourceRecord>("sources");
        for tree in ["programmes", "uploaded-programmes"] {
            assert_golden::<guide_storage::GuideHead>(&format!("{tree}/head"));
            assert_golden::<guide_storage::GuidePiece>(&format!("{tree}/piece"));
        }
    }

    fn uploaded_source() -> ImportSource {
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

    fn sample_listings(count: i64, description: &str) -> Vec<Listing> {
        let listing = |n: i64| Listing {
            start_ms: n * 3_600_000,
            end_ms: (n + 1) * 3_600_000,
            title: format!("Programme {n}"),
            description: description.to_owned(),
            ..Listing::default()
        };
        (0..count).map(listing).collect()
    }

    fn known_sources() -> BTreeMap<u32, Arc<ImportSource>> {
        BTreeMap::from([(7, Arc::new(uploaded_source()))])
    }

    #[tokio::test]
    async fn a_channel_of_12000_programmes_survives_a_restart_and_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_waiting(dir.path()).unwrap();
        let guides = GuideCache::open(store.clone(), &known_sources()).unwrap();
        // Control characters would take six bytes each in JSON; a quote takes two.
        let long = "\"".repeat(2000);
        let channels = BTreeMap::from([
            ("one".to_owned(), sample_listings(12_000, &long)),
            ("two".to_owned(), sample_listings(3, "short")),
        ]);
        let icons = ChannelIcons::from(["two", "gone"].map(|id| (id.to_owned(), format!("https://i.example/{id}"))));
        guides.put(&uploaded_source(), channels.clone(), icons.clone()).await.unwrap();
        let stored = store.keys(Tree::UploadedProgrammes, "").unwrap();
        guides.put(&uploaded_source(), channels, icons).await.unwrap();
        assert_eq!(store.keys(Tree::UploadedProgrammes, "").unwrap(), stored, "the same guide is not written again");
        drop((guides, store));

        let store = Store::open_waiting(dir.path()).unwrap();
        let guides = GuideCache::open(store.clone(), &known_sources()).unwrap();
        let guide = guides.all().remove(&7).unwrap();
        assert_eq!((guide["one"].all.len(), guide["two"].all.len()), (12_000, 3));
        assert!(guide["one"].all.iter().all(|listing| listing.description == long));
        assert_eq!((&guide["one"].icon_url, guide["two"].icon_url.as_deref()), (&None, Some("https://i.example/two")));
        let two = BTreeMap::from([("two".to_owned(), sample_listings(4, "new"))]);
        guides.put(&uploaded_source(), two, ChannelIcons::new()).await.unwrap();
        assert_eq!(store.keys(Tree::UploadedProgrammes, "").unwrap().len(), 2, "a head and a piece");
        drop((guides, store));

        let store = Store::open_waiting(dir.path()).unwrap();
        let guides = GuideCache::open(store.clone(), &known_sources()).unwrap();
        let guide = guides.all().remove(&7).unwrap();
        assert_eq!((guide.len(), guide["two"].all.len(), &guide["two"].icon_url), (1, 4, &None));
        guides.remove(7).await.unwrap();
        assert_eq!(store.keys(Tree::UploadedProgrammes, "").unwrap(), [""; 0]);
    }

    #[tokio::test]
    async fn a_failed_write_keeps_the_former_guide_of_an_older_version() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_waiting(dir.path()).unwrap();
        store.put(Tree::UploadedProgrammes, "0000000007/a/b", &sample_listings(5, "old")).await.unwrap();
        drop(store);
        let store = Store::open_with(dir.path(), u64::MAX).unwrap();
        let guides = GuideCache::open(store.clone(), &known_sources()).unwrap();
        assert_eq!(guides.all()[&7]["a/b"].all.len(), 5);
        let new_guide = || BTreeMap::from([("c".to_owned(), sample_listings(1, "new"))]);
        let no_icons = ChannelIcons::new;
        assert!(guides.put(&uploaded_source(), new_guide(), no_icons()).await.is_err(), "the disk is full");
        assert_eq!(guides.all()[&7]["a/b"].all.len(), 5);
        drop((guides, store));

        let store = Store::open_waiting(dir.path()).unwrap();
        let guides = GuideCache::open(store.clone(), &known_sources()).unwrap();
        assert_eq!(guides.all()[&7]["a/b"].all.len(), 5, "also after a restart");
        guides.put(&uploaded_source(), new_guide(), no_icons()).await.unwrap();
        assert!(store.keys(Tree::UploadedProgrammes, "0000000007/").unwrap().is_empty(), "now stored in pieces");
        let guides = GuideCache::open(store, &known_sources()).unwrap();
        assert_eq!(guides.all()[&7].keys().collect::<Vec<_>>(), ["c"]);
    }
}
