//! Addresses of the images of programmes, for many entries of a guide.

use std::collections::HashMap;

use crate::domain::access::Principal;
use crate::domain::catalogue::ItemId;
use crate::domain::visibility::VisiblePaths;
use crate::http::api::library::artwork::{ArtworkGrant, ArtworkLinks, ArtworkUrls};
use crate::service::Service;
use crate::service::catalogue::ArtworkVersions;

/// Items whose artwork is kept while a guide is written; some 100 bytes each.
const MAX_KNOWN_ITEMS: usize = 8192;

/// Finds the artwork of the items in a guide, each once.
pub struct GuideArtwork {
    grant: ArtworkGrant,
    /// The user has no artwork of items in other folders.
    paths: VisiblePaths,
    versions: HashMap<ItemId, ArtworkVersions>,
}

impl GuideArtwork {
    pub fn new(service: &Service, principal: &Principal) -> Self {
        let paths = service.library.visible_paths(&principal.visibility);
        Self { grant: ArtworkGrant::new(service, principal), paths, versions: HashMap::new() }
    }

    /// The grant in all addresses.
    pub fn grant(&self) -> &str {
        self.grant.as_str()
    }

    /// The addresses of an item's images; None without any.
    pub(super) fn urls_of(&mut self, service: &Service, id: ItemId) -> Option<ArtworkUrls> {
        if self.versions.len() >= MAX_KNOWN_ITEMS {
            self.versions.clear();
        }
        let find = || service.catalogue.item_artwork_versions(&self.paths, id);
        let versions = self.versions.entry(id).or_insert_with(find);
        let links = || ArtworkLinks::with_grant(service, self.grant.clone());
        (!versions.is_empty()).then(|| links().of_item(id, versions))
    }
}
