//! Channels with rules follow the library: their items are found again after each change of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::change::{RETENTION_MS, check_cycle_length};
use super::items::ItemSearch;
use super::library_items::LibraryItems;
use crate::domain::channel::Channel;
use crate::domain::channel_clock::channel_ms_at;
use crate::domain::schedule::RevisionRequest;
use crate::error::Result;
use crate::service::Service;

/// How often rules are applied without a change of the library: what is watched changes as well, and a file that could not be
/// probed is tried again.
const INTERVAL: Duration = Duration::from_secs(600);

/// After rules were applied, this many times the time for it passes, at most [`MAX_PAUSE`]: while many files are copied, one
/// revision has many of them.
const PAUSE: u32 = 10;
const MAX_PAUSE: Duration = Duration::from_secs(20);

/// Between two looks at a library that is being read.
const READING_INTERVAL: Duration = Duration::from_millis(500);

/// Starts the task that makes channels follow the library.
pub fn start(service: &Arc<Service>) {
    service.tasks.spawn(run(service.clone()));
}

async fn run(service: Arc<Service>) {
    loop {
        if service.channels.all().iter().any(|channel| channel.rules().next().is_some()) {
            service.wait_for_library().await;
            let started = Instant::now();
            service.apply_rules().await;
            sleep((started.elapsed() * PAUSE).min(MAX_PAUSE)).await;
        }
        let _ = timeout(INTERVAL, service.channels.library_changed.notified()).await;
    }
}

impl Service {
    /// Waits until the library was read: with a part of it, rules would select a part of their items.
    async fn wait_for_library(&self) {
        let is_read = |items: &Arc<dyn LibraryItems>| items.is_current(self.library.roots().list().count());
        while self.channels.library_items.as_ref().is_some_and(|items| !is_read(items)) {
            sleep(READING_INTERVAL).await;
        }
    }

    async fn apply_rules(&self) {
        for channel in self.channels.all() {
            if channel.rules().next().is_none() {
                continue;
            }
            match self.follow_channel(channel.id).await {
                Ok(true) => tracing::info!(channel.id = channel.id, "a channel follows the library"),
                Ok(false) => {}
                Err(fault) => {
                    tracing::info!(channel.id = channel.id, %fault, "a channel keeps its items, because its rules cannot be applied");
                }
            }
        }
    }

    /// Finds the items of a channel's rules again. If they changed, a revision begins after the published part of the guide;
    /// false otherwise.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`; those of [`Self::channel_items`]; `STORAGE_FULL`.
    async fn follow_channel(&self, id: u32) -> Result<bool> {
        let _editing = self.channels.edit_lock.lock().await;
        let current = self.channels.get(id)?;
        let Some(request) = self.request_by_library(&current).await? else { return Ok(false) };
        let now = self.clock.now_ms();
        let projected_clock = current.clock.as_ref().map(|clock| clock.projected(now));
        let channel_ms_at = |at| channel_ms_at(projected_clock.as_ref(), at);
        let definition = current.follow_library(channel_ms_at(now), request);
        let definition = definition.without_revisions_before(channel_ms_at(now - RETENTION_MS));
        let changed = Channel { version: current.version + 1, definition, ..(*current).clone() };
        let channel = self.channels.store_channel(changed, Some(&current)).await?;
        self.precompute_schedule(&channel).await;
        self.channels.guide_changed.notify_one();
        Ok(true)
    }

    /// The content of a channel by the library as it is now; None if it is that of its last revision.
    async fn request_by_library(&self, channel: &Channel) -> Result<Option<RevisionRequest>> {
        let search = ItemSearch::for_library_change(channel);
        let filler = &channel.requested_filler;
        let (items, mid_roll_count, blocks) = match &channel.requested_blocks {
            Some(plan) => {
                let (items, blocks) = self.block_items(plan, filler, &channel.settings.timezone, &search).await?;
                (items, 0, Some(Arc::new(blocks)))
            }
            None => {
                let (items, mid_rolls) = self.cycle_items(&channel.requested_items, filler, &search).await?;
                (items, mid_rolls, None)
            }
        };
        let request = RevisionRequest { seed: channel.seed, mode: channel.mode, items, mid_roll_count, blocks };
        check_cycle_length(&request)?;
        Ok((!channel.definition.has_content(&request)).then_some(request))
    }
}
