//! How far channels by the clock have come, kept beside their revisions: after a start nobody has to work out years again.
//! What is lost is only worked out again.

use super::{Channels, revision_key};
use crate::domain::schedule::Revision;
use crate::domain::schedule::blocks::Mark;
use crate::store::{Store, Tree};

/// Lets a revision go on from where its channel had come.
pub(super) fn resume(store: &Store, key: &str, revision: &Revision) {
    let Some(blocks) = &revision.blocks else { return };
    match store.get::<Vec<Mark>>(Tree::Marks, key) {
        Ok(marks) => blocks.resume(marks.unwrap_or_default()),
        Err(fault) => tracing::warn!(%fault, "how far a channel has come is worked out again"),
    }
}

impl Channels {
    /// Writes down how far channels have come, where that is news. Every few days it is.
    pub async fn keep_marks(&self) {
        for channel in self.all() {
            for revision in &channel.definition.revisions {
                let Some(marks) = revision.blocks.as_ref().and_then(|blocks| blocks.fresh_marks()) else { continue };
                let key = revision_key(channel.id, revision.number);
                if let Err(fault) = self.store.put(Tree::Marks, &key, &marks).await {
                    tracing::debug!(channel.id = channel.id, %fault, "how far a channel has come is not kept");
                }
            }
        }
    }
}
