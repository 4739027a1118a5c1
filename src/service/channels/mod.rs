//! All channels: kept in memory, changed one at a time, and durable before a change is visible.
#![doc = include_str!("README.md")]

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::domain::channel::{
    Channel, ChannelSettings, OutputSettings, RequestedBlocks, RequestedFiller, RequestedItem,
};
use crate::domain::channel_clock::{ChannelClock, RunningInterval};
use crate::domain::external::ExternalChannel;
use crate::domain::live_window::CATCHUP_MS;
use crate::domain::schedule::{Programme, ScheduleDefinition, ScheduleItems, ScheduleMode, ScheduleRevision};
use crate::domain::time::WallMs;
use crate::domain::video_class::VideoClasses;
use crate::error::{Code, Error, Result};
use crate::service::clock::Clock;
use crate::store::{Store, Tree};

mod blocks;
mod change;
mod checkpoints;
mod clocks;
mod external;
pub mod follow;
mod import;
mod item_files;
mod item_store;
mod items;
mod library_items;
mod programme_cache;
mod renamed_files;
pub mod rights;
mod segment_bounds;
pub mod slates;
pub mod sources;
mod viewers;

pub use change::{ChangeTime, ChannelChange, OutputChange};
pub use external::{ExternalChange, SourceType};
pub use import::PlannedChannel;
use item_store::ItemStore;
pub use library_items::{LibraryFile, LibraryItems};
use programme_cache::ProgrammeCache;
use renamed_files::RenamedFiles;
pub use viewers::{NewView, START_OVER, ViewStart, Viewer, Viewers};

/// Channels at most.
const MAX_CHANNELS: usize = 10_000;

pub struct Channels {
    store: Store,
    clock: Clock,
    by_id: RwLock<BTreeMap<u32, Arc<Channel>>>,
    /// Time of the last change of any channel, unix ms; before the first change, the time they were loaded.
    changed_ms: AtomicI64,
    item_store: ItemStore,
    current_programmes: ProgrammeCache,
    /// The programmes at the oldest end of catch-up.
    oldest_programmes: ProgrammeCache,
    clock_locks: clocks::ClockLocks,
    /// None only in tests of this room.
    library_items: Option<Arc<dyn LibraryItems>>,
    renamed_files: RenamedFiles,
    /// Notifies the task that makes channels follow the library.
    library_changed: Notify,
    /// Notifies recordings after a change of a channel or a guide.
    pub(super) guide_changed: Arc<Notify>,
    /// Locked during a change. Contains the highest id ever used and the name of this lineup.
    edit_lock: tokio::sync::Mutex<LastIds>,
}

struct LastIds {
    last_id: u32,
    instance: Option<String>,
}

/// A channel's record. Its revisions have their own records, because they never change.
#[derive(Serialize, Deserialize)]
struct ChannelRecord {
    tvg_id: Box<str>,
    /// None for a deleted channel, whose id is never used again.
    channel: Option<StoredChannel>,
}

#[derive(Serialize, Deserialize)]
struct StoredChannel {
    #[serde(rename = "face")]
    settings: ChannelSettings,
    #[serde(rename = "asks")]
    requested_items: Arc<[RequestedItem]>,
    #[serde(default, skip_serializing_if = "is_default")]
    output: Arc<OutputSettings>,
    #[serde(rename = "plan", default, skip_serializing_if = "Option::is_none")]
    requested_blocks: Option<Box<RequestedBlocks>>,
    #[serde(rename = "filler", default, skip_serializing_if = "is_default")]
    requested_filler: Arc<RequestedFiller>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    external: Option<Box<ExternalChannel>>,
    seed: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    mode: ScheduleMode,
    #[serde(default = "first", skip_serializing_if = "is_first")]
    version: u32,
    /// Intervals of its clock that begin with a change of `onDemand`; those that viewers caused are separate records.
    #[serde(rename = "turns", default, skip_serializing_if = "Vec::is_empty")]
    mode_changes: Vec<RunningInterval>,
    /// Numbers of its revisions, ordered by start.
    #[serde(default = "only_first", skip_serializing_if = "is_only_first")]
    revisions: Vec<u32>,
}

/// A revision's record. Its items are stored separately, under the name of their list; records of older versions contain
/// them.
#[derive(Serialize, Deserialize)]
struct RevisionRecord {
    #[serde(flatten)]
    revision: ScheduleRevision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    list: Option<String>,
}

impl Channels {
    /// Reads all channels.
    pub fn open(store: Store, clock: Clock) -> Result<Self> {
        let mut last_ids = LastIds { last_id: 0, instance: None };
        let mut by_id = Vec::new();
        let item_store = ItemStore::default();
        let mut intervals = clocks::load_intervals(&store)?;
        // Shares equal requests while channels are loaded. A permanent table would cost memory for those that differ.
        let mut shared_requests: HashSet<Arc<[RequestedItem]>> = HashSet::new();
        // One record at a time: parsed values are shared at once, and the next record reuses the memory.
        let mut load_record = |key: &str, record: ChannelRecord| -> Result<()> {
            let id: u32 = key.parse().map_err(|_| Error::internal(format!("record channels/{key} has no id")))?;
            last_ids.last_id = last_ids.last_id.max(id);
            last_ids.instance = record.tvg_id.rsplit_once('.').map(|(_, instance)| instance.to_owned());
            if let Some(mut channel) = record.channel {
                match shared_requests.get(&channel.requested_items) {
                    Some(shared) => channel.requested_items = shared.clone(),
                    None => drop(shared_requests.insert(channel.requested_items.clone())),
                }
                let channel = load_channel(&store, &item_store, (id, record.tvg_id), channel, intervals.remove(&id))?;
                by_id.push((id, Arc::new(channel)));
            }
            Ok(())
        };
        let mut result = Ok(());
        store.for_each(Tree::Channels, |key, record| {
            if result.is_ok() {
                result = load_record(key, record);
            }
        })?;
        result?;
        let changed_ms = clock.now().as_millisecond().into();
        // Collecting all at once leaves no node of the tree half empty.
        let (by_id, edit_lock) = (RwLock::new(by_id.into_iter().collect()), tokio::sync::Mutex::new(last_ids));
        let (current_programmes, oldest_programmes, clock_locks) = Default::default();
        Ok(Self {
            store,
            clock,
            by_id,
            changed_ms,
            item_store,
            current_programmes,
            oldest_programmes,
            clock_locks,
            library_items: None,
            renamed_files: RenamedFiles::default(),
            library_changed: Notify::new(),
            guide_changed: Arc::default(),
            edit_lock,
        })
    }

    /// All channels, by number.
    pub fn all(&self) -> Vec<Arc<Channel>> {
        let mut all: Vec<_> = self.by_id.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        all.sort_by_key(|channel| channel.settings.number);
        all
    }

    /// The programme of a channel at an instant close to now; None before its first programme.
    pub fn current_programme(&self, channel: &Channel, now_ms: WallMs) -> Option<Programme> {
        self.current_programmes.programme_at(channel, channel.channel_ms_at(now_ms))
    }

    /// The oldest programme of a channel that catch-up still reaches.
    pub fn oldest_programme(&self, channel: &Channel, now_ms: WallMs) -> Option<Programme> {
        self.oldest_programmes.programme_at(channel, channel.channel_ms_at(now_ms - CATCHUP_MS))
    }

    /// Time of the last change of any channel, unix ms.
    pub fn changed_ms(&self) -> i64 {
        self.changed_ms.load(Ordering::Relaxed)
    }

    /// # Errors
    /// `CHANNEL_NOT_FOUND`.
    pub fn get(&self, id: u32) -> Result<Arc<Channel>> {
        let channel = self.by_id.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        channel.ok_or_else(|| Error::new(Code::ChannelNotFound, format!("there is no channel {id}")))
    }

    /// Removes a channel; its id is never used again.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`; `STORAGE_FULL`.
    pub async fn remove(&self, id: u32) -> Result<()> {
        let _editing = self.edit_lock.lock().await;
        let lock = self.clock_locks.lock(id).await;
        let channel = self.get(id)?;
        let deleted = ChannelRecord { tvg_id: channel.tvg_id.clone(), channel: None };
        self.store.put(Tree::Channels, &channel_key(id), &deleted).await?;
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.current_programmes.remove(id);
        self.oldest_programmes.remove(id);
        self.changed_ms.store(self.clock.now().as_millisecond(), Ordering::Relaxed);
        self.delete_clock(&channel).await;
        drop(lock);
        let dropped = revision_numbers(&channel.definition);
        drop(channel);
        self.delete_revisions(id, &dropped).await;
        Ok(())
    }

    /// Stores a channel: new revisions first, so that the channel's record never names a missing one.
    async fn store_channel(&self, mut channel: Channel, old: Option<&Channel>) -> Result<Arc<Channel>> {
        let stored_numbers: Vec<u32> = old.map_or_else(Vec::new, |old| revision_numbers(&old.definition));
        for revision in &mut channel.definition.revisions {
            if !stored_numbers.contains(&revision.number) {
                let (list, items) = self.item_store.store_list(&self.store, &revision.items).await?;
                let record = RevisionRecord {
                    revision: ScheduleRevision { items: ScheduleItems::default(), ..revision.clone() },
                    list: Some(list),
                };
                self.store.put(Tree::Revisions, &revision_key(channel.id, revision.number), &record).await?;
                revision.items = items;
            }
        }
        channel.output = self.item_store.share_output(channel.output);
        channel.requested_filler = self.item_store.share_filler(channel.requested_filler);
        self.item_store.share_time_zone(&mut channel.settings);
        let equal_requests = |other: &Arc<Channel>| {
            (other.requested_items == channel.requested_items).then(|| other.requested_items.clone())
        };
        let shared_items = self.by_id.read().unwrap_or_else(PoisonError::into_inner).values().find_map(equal_requests);
        channel.requested_items = shared_items.unwrap_or(channel.requested_items);
        // Viewers may change the clock meanwhile.
        let lock = if old.is_some() { Some(self.clock_locks.lock(channel.id).await) } else { None };
        let current = old.map(|before| self.get(before.id)).transpose()?;
        if current.is_some() {
            channel.clock = self.clock_after_edit(&channel)?;
        }
        let mode_changes = clocks::mode_changes(&channel);
        let revisions = revision_numbers(&channel.definition);
        let dropped: Vec<u32> = stored_numbers.into_iter().filter(|number| !revisions.contains(number)).collect();
        let stored = StoredChannel {
            settings: channel.settings.clone(),
            requested_items: channel.requested_items.clone(),
            output: channel.output.clone(),
            requested_blocks: channel.requested_blocks.clone(),
            requested_filler: channel.requested_filler.clone(),
            external: channel.external.clone(),
            seed: channel.seed,
            mode: channel.mode,
            version: channel.version,
            mode_changes,
            revisions,
        };
        let record = ChannelRecord { tvg_id: channel.tvg_id.clone(), channel: Some(stored) };
        self.store.put(Tree::Channels, &channel_key(channel.id), &record).await?;
        let channel = Arc::new(channel);
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).insert(channel.id, channel.clone());
        self.changed_ms.store(self.clock.now().as_millisecond(), Ordering::Relaxed);
        if let Some(old) = current.filter(|_| channel.clock.is_none()) {
            self.delete_clock(&old).await;
        }
        drop(lock);
        self.delete_revisions(channel.id, &dropped).await;
        Ok(channel)
    }

    /// Deletes unused revisions and the items that only they used. Leftovers do no harm.
    async fn delete_revisions(&self, id: u32, numbers: &[u32]) {
        for number in numbers {
            for tree in [Tree::Checkpoints, Tree::Revisions] {
                if let Err(fault) = self.store.delete(tree, &revision_key(id, *number)).await {
                    tracing::warn!(channel.id = id, %fault, "an old revision could not be removed");
                }
            }
        }
        if !numbers.is_empty()
            && let Err(fault) = self.item_store.prune(&self.store).await
        {
            tracing::warn!(%fault, "unused items could not be removed");
        }
    }
}

/// Builds a channel from its record and those of its revisions.
fn load_channel(
    store: &Store,
    item_store: &ItemStore,
    (id, tvg_id): (u32, Box<str>),
    mut stored: StoredChannel,
    intervals: Option<Vec<RunningInterval>>,
) -> Result<Channel> {
    item_store.share_time_zone(&mut stored.settings);
    let revision = |number: &u32| {
        let key = revision_key(id, *number);
        let record = store.get::<RevisionRecord>(Tree::Revisions, &key)?;
        let RevisionRecord { mut revision, list } =
            record.ok_or_else(|| Error::internal(format!("record revisions/{key} is missing")))?;
        match list {
            Some(list) => revision.items = item_store.load_list(store, &list)?,
            None => item_store.load_bounds(store, &mut revision.items)?,
        }
        checkpoints::restore_checkpoints(store, &key, &revision);
        Ok(revision)
    };
    let definition = ScheduleDefinition { revisions: stored.revisions.iter().map(revision).collect::<Result<_>>()? };
    Ok(Channel {
        id,
        tvg_id,
        settings: stored.settings,
        requested_items: stored.requested_items,
        output: item_store.share_output(stored.output),
        requested_blocks: stored.requested_blocks,
        requested_filler: item_store.share_filler(stored.requested_filler),
        external: stored.external,
        listings: None,
        clock: channel_clock(stored.mode_changes, intervals),
        seed: stored.seed,
        mode: stored.mode,
        version: stored.version,
        copies: VideoClasses::default(),
        definition,
    })
}

fn first() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_first(number: &u32) -> bool {
    *number == first()
}

fn only_first() -> Vec<u32> {
    vec![first()]
}

fn is_only_first(numbers: &Vec<u32>) -> bool {
    *numbers == only_first()
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A channel's clock, from the intervals in its own record and in others; None if it has none.
fn channel_clock(mode_changes: Vec<RunningInterval>, more: Option<Vec<RunningInterval>>) -> Option<Arc<ChannelClock>> {
    if mode_changes.is_empty() {
        return None;
    }
    ChannelClock::from_stored(mode_changes.into_iter().chain(more.unwrap_or_default()).collect()).map(Arc::new)
}

fn revision_numbers(definition: &ScheduleDefinition) -> Vec<u32> {
    definition.revisions.iter().map(|revision| revision.number).collect()
}

fn channel_key(id: u32) -> String {
    format!("{id:010}")
}

fn revision_key(id: u32, number: u32) -> String {
    format!("{id:010}/{number:010}")
}

#[cfg(test)]
mod tests;
