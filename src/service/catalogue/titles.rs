//! Titles that a user chose. They belong to the content, and survive renames and a catalogue that is built again.

use super::item::ItemId;
use super::record::{ChosenTitle, ItemRecord};
use super::{index::FilePlace, no_item_error, scan};
use crate::error::Result;
use crate::service::Service;
use crate::service::events::EventContent;
use crate::store::{Edit, Tree};

impl Service {
    /// Sets the title of an item, durably, or removes the one that was set.
    ///
    /// # Errors
    /// `NOT_FOUND`, `STORAGE_FULL`.
    pub async fn set_item_title(&self, id: ItemId, title: Option<String>) -> Result<()> {
        let catalogue = &self.catalogue;
        let paths = catalogue.read_index().paths(id);
        if paths.is_empty() {
            return Err(no_item_error());
        }
        let key = id.to_string();
        let edit = match &title {
            Some(title) => Edit::put(Tree::Titles, &key, &ChosenTitle { title: title.clone() })?,
            None => Edit::delete(Tree::Titles, &key),
        };
        catalogue.store.write(edit).await?;
        match title {
            Some(title) => catalogue.write_index().chosen_titles.insert(id, title.into()),
            None => catalogue.write_index().chosen_titles.remove(&id),
        };
        for path in paths {
            let Ok(Some(record)) = catalogue.store.get::<ItemRecord>(Tree::Catalogue, &path) else { continue };
            let (folder, name) = scan::split_path(&path);
            if let Some(names) = scan::parse_names(self.library.roots(), &path) {
                catalogue.write_index().put(FilePlace { folder, name, names: &names }, &record);
            }
        }
        self.events.publish(None, EventContent::Items { item_ids: Some(vec![key]) });
        Ok(())
    }
}
