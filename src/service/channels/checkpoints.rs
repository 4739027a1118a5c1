//! Checkpoints of `blocks` channels, stored beside their revisions, so that a start does not compute years of schedule
//! again. Lost checkpoints are computed again.

use super::{Channels, revision_key};
use crate::domain::schedule::ScheduleRevision;
use crate::domain::schedule::blocks::Checkpoint;
use crate::store::{Store, Tree};

pub(super) fn restore_checkpoints(store: &Store, key: &str, revision: &ScheduleRevision) {
    let Some(blocks) = &revision.blocks else { return };
    match store.get::<Vec<Checkpoint>>(Tree::Checkpoints, key) {
        Ok(checkpoints) => blocks.resume_from(checkpoints.unwrap_or_default()),
        Err(fault) => tracing::warn!(%fault, "unreadable checkpoints; a channel's schedule is computed again"),
    }
}

impl Channels {
    /// Stores new checkpoints of all channels. There is one every few days.
    pub async fn store_checkpoints(&self) {
        let now_ms = self.clock.now_ms();
        for channel in self.all() {
            for revision in &channel.definition.revisions {
                let checkpoints = revision.blocks.as_ref().and_then(|blocks| blocks.new_checkpoints(now_ms));
                let Some(checkpoints) = checkpoints else { continue };
                let key = revision_key(channel.id, revision.number);
                if let Err(fault) = self.store.put(Tree::Checkpoints, &key, &checkpoints).await {
                    tracing::debug!(channel.id = channel.id, %fault, "the checkpoints of a channel could not be stored");
                }
            }
        }
    }
}
