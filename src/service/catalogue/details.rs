//! One item with everything that is known of it.

use super::item::{ItemId, ListedItem};
use super::no_item_error;
use super::record::{ItemRecord, Technical};
use crate::domain::access::Principal;
use crate::domain::nfo::Nfo;
use crate::error::Result;
use crate::service::Service;
use crate::store::Tree;

/// An item, its description and its technical summary.
pub struct ItemDetails {
    pub item: ListedItem,
    pub description: Option<Nfo>,
    pub technical: Option<Technical>,
    /// The paths of all files with its content, its own first.
    pub paths: Vec<String>,
    /// Whether a user chose its title.
    pub has_chosen_title: bool,
}

impl Service {
    /// An item by its id.
    ///
    /// # Errors
    /// `NOT_FOUND`; `INTERNAL` for a record of progress that cannot be read.
    pub fn item_details(&self, user: &Principal, id: ItemId) -> Result<ItemDetails> {
        let (mut item, paths, has_chosen_title) = {
            let (paths, index) = (self.library.visible_paths(&user.visibility), self.catalogue.read_index());
            let index = index.seen_in(&paths);
            let item = index.to_listed(index.by_id(id).ok_or_else(no_item_error)?);
            (item, index.paths(id), index.has_chosen_title(id))
        };
        self.add_progress(&user.user_id, std::slice::from_mut(&mut item))?;
        // A record that was not stored, or cannot be read, is found again by the next scan.
        let record = self.catalogue.store.get::<ItemRecord>(Tree::Catalogue, &item.path).ok().flatten();
        let (description, technical) = record.map_or((None, None), |record| (record.nfo, record.technical));
        Ok(ItemDetails { item, description, technical, paths, has_chosen_title })
    }
}
