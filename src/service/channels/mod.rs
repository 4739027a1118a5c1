//! All channels: kept in memory, changed one at a time, and durable before a change is visible.
#![doc = include_str!("README.md")]

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::domain::channel::{RequestedItem, Channel, ChannelSettings, RequestedFiller, MAX_NUMBER, OutputSettings, RequestedBlocks};
use crate::domain::external::ExternalChannel;
use crate::domain::live::CATCHUP_MS;
use crate::domain::channel_clock::{ChannelClock, RunningInterval};
use crate::domain::schedule::{ScheduleDefinition, ScheduleItems, ScheduleMode, Programme, ScheduleRevision};
use crate::error::{Code, Error, Result};
use crate::service::clock::Clock;
use crate::store::{Store, Tree};

mod blocks;
mod change;
mod cuts;
mod external;
mod import;
mod items;
mod marks;
mod pace;
mod present;
mod shelf;

pub use change::{Apply, Change, OutputChange};
pub use external::{ExternalChange, SourceType};
pub use import::Planned;
use present::Present;
use shelf::Shelf;

/// Channels at most.
const MAX_CHANNELS: usize = 10_000;

/// All channels.
pub struct Channels {
    store: Store,
    clock: Clock,
    by_id: RwLock<BTreeMap<u32, Arc<Channel>>>,
    /// Time of the last change of any channel, unix ms; before the first change, the time they were loaded.
    changed_ms: AtomicI64,
    shelf: Shelf,
    present: Present,
    /// The programmes at the oldest end of catch-up.
    past: Present,
    paces: pace::Locks,
    /// Locked during a change. Contains the highest id ever used and the name of this lineup.
    editing: tokio::sync::Mutex<Given>,
}

struct Given {
    id: u32,
    instance: Option<String>,
}

/// A channel's record. Its revisions have their own records, because they never change.
#[derive(Serialize, Deserialize)]
struct Kept {
    tvg_id: Box<str>,
    /// None for a deleted channel, whose id is never used again.
    channel: Option<KeptChannel>,
}

#[derive(Serialize, Deserialize)]
struct KeptChannel {
    #[serde(rename = "face")]
    face: ChannelSettings,
    #[serde(rename = "asks")]
    asks: Arc<[RequestedItem]>,
    #[serde(default, skip_serializing_if = "is_default")]
    output: Arc<OutputSettings>,
    #[serde(rename = "plan", default, skip_serializing_if = "Option::is_none")]
    plan: Option<Box<RequestedBlocks>>,
    #[serde(rename = "filler", default = "FillerAsk::none", skip_serializing_if = "is_default")]
    filler: Arc<RequestedFiller>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    external: Option<Box<ExternalChannel>>,
    seed: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    mode: ScheduleMode,
    #[serde(default = "first", skip_serializing_if = "is_first")]
    version: u32,
    /// Intervals of its clock that begin with a change of `onDemand`; those that viewers caused are separate records.
    #[serde(rename = "turns", default, skip_serializing_if = "Vec::is_empty")]
    turns: Vec<RunningInterval>,
    /// Numbers of its revisions, ordered by start.
    #[serde(default = "only_first", skip_serializing_if = "is_only_first")]
    revisions: Vec<u32>,
}

/// A revision's record. Its items are stored separately, under the name of their list; records of older versions contain
/// them.
#[derive(Serialize, Deserialize)]
struct KeptRevision {
    #[serde(flatten)]
    revision: ScheduleRevision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    list: Option<String>,
}

impl Channels {
    /// Reads all channels.
    ///
    /// # Errors
    /// `INTERNAL` for a record that cannot be read.
    pub fn open(store: Store, clock: Clock) -> Result<Self> {
        let mut given = Given { id: 0, instance: None };
        let mut by_id = Vec::new();
        let shelf = Shelf::default();
        let mut runs = pace::read(&store)?;
        // Shares equal requests while channels are loaded. A permanent table would cost memory for those that differ.
        let mut asked: HashSet<Arc<[RequestedItem]>> = HashSet::new();
        // One record at a time: parsed values are shared at once, and the next record reuses the memory.
        let mut take = |key: &str, kept: Kept| -> Result<()> {
            let id: u32 = key.parse().map_err(|_| Error::internal(format!("record channels/{key} has no id")))?;
            given.id = given.id.max(id);
            given.instance = kept.tvg_id.rsplit_once('.').map(|(_, instance)| instance.to_owned());
            if let Some(mut channel) = kept.channel {
                match asked.get(&channel.asks) {
                    Some(asks) => channel.asks = asks.clone(),
                    None => drop(asked.insert(channel.asks.clone())),
                }
                let channel = read(&store, &shelf, (id, kept.tvg_id), channel, runs.remove(&id))?;
                by_id.push((id, Arc::new(channel)));
            }
            Ok(())
        };
        let mut taken = Ok(());
        store.each(Tree::Channels, |key, kept| {
            if taken.is_ok() {
                taken = take(key, kept);
            }
        })?;
        taken?;
        let changed_ms = clock.now().as_millisecond().into();
        // Collecting all at once leaves no node of the tree half empty.
        let (by_id, editing) = (RwLock::new(by_id.into_iter().collect()), tokio::sync::Mutex::new(given));
        let (present, past, paces) = Default::default();
        Ok(Self { store, clock, by_id, changed_ms, shelf, present, past, paces, editing })
    }

    /// All channels, by number.
    pub fn all(&self) -> Vec<Arc<Channel>> {
        let mut all: Vec<_> = self.by_id.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        all.sort_by_key(|channel| channel.settings.number);
        all
    }

    /// The programme of a channel at an instant close to now, unix ms; None before its first programme.
    pub fn on_air(&self, channel: &Channel, now_ms: i64) -> Option<Programme> {
        self.present.on(channel, channel.channel_ms_at(now_ms))
    }

    /// The oldest programme of a channel that catch-up still reaches.
    pub fn kept(&self, channel: &Channel, now_ms: i64) -> Option<Programme> {
        self.past.on(channel, channel.channel_ms_at(now_ms - CATCHUP_MS))
    }

    /// Time of the last change of any channel, unix ms.
    pub fn changed_ms(&self) -> i64 {
        self.changed_ms.load(Ordering::Relaxed)
    }

    /// # Errors
    /// `CHANNEL_NOT_FOUND`.
    pub fn get(&self, id: u32) -> Result<Arc<Channel>> {
        let found = self.by_id.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        found.ok_or_else(|| Error::new(Code::ChannelNotFound, format!("there is no channel {id}")))
    }

    /// Removes a channel; its id is never used again.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`; `STORAGE_FULL`.
    pub async fn remove(&self, id: u32) -> Result<()> {
        let _editing = self.editing.lock().await;
        let lock = self.paces.lock(id).await;
        let channel = self.get(id)?;
        let gone = Kept { tvg_id: channel.tvg_id.clone(), channel: None };
        self.store.put(Tree::Channels, &channel_key(id), &gone).await?;
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.present.forget(id);
        self.past.forget(id);
        self.changed_ms.store(self.clock.now().as_millisecond(), Ordering::Relaxed);
        self.forget_pace(&channel).await;
        drop(lock);
        let gone = numbers(&channel.definition);
        drop(channel);
        self.forget(id, &gone).await;
        Ok(())
    }

    fn free_number(&self, wanted: Option<u32>, own: Option<u32>) -> Result<u32> {
        let all = self.all();
        let taken = |number: u32| all.iter().find(|other| other.settings.number == number && Some(other.id) != own);
        match wanted {
            Some(number) => match taken(number) {
                None => Ok(number),
                Some(other) => {
                    Err(Error::new(Code::Conflict, format!("number {number} is used by {}", other.settings.name))
                        .with_details(json!({"field": "number", "channelId": other.id})))
                }
            },
            None => (1..=MAX_NUMBER)
                .find(|number| taken(*number).is_none())
                .ok_or_else(|| Error::new(Code::Conflict, "all channel numbers are in use")),
        }
    }

    /// Stores a channel: new revisions first, so that the channel's record never names a missing one.
    async fn keep(&self, mut channel: Channel, before: Option<&Channel>) -> Result<Arc<Channel>> {
        let known: Vec<u32> = before.map_or_else(Vec::new, |before| numbers(&before.definition));
        for revision in &mut channel.definition.revisions {
            if !known.contains(&revision.number) {
                let (list, items) = self.shelf.keep(&self.store, &revision.items).await?;
                let kept = KeptRevision {
                    revision: ScheduleRevision { items: ScheduleItems::default(), ..revision.clone() },
                    list: Some(list),
                };
                self.store.put(Tree::Revisions, &revision_key(channel.id, revision.number), &kept).await?;
                revision.items = items;
            }
        }
        channel.output = self.shelf.share_output(channel.output);
        self.shelf.share_face(&mut channel.settings);
        let alike = |other: &Arc<Channel>| (other.requested_items == channel.requested_items).then(|| other.requested_items.clone());
        let shared = self.by_id.read().unwrap_or_else(PoisonError::into_inner).values().find_map(alike);
        channel.requested_items = shared.unwrap_or(channel.requested_items);
        // Viewers may change the clock meanwhile.
        let lock = match before {
            Some(_) => Some(self.paces.lock(channel.id).await),
            None => None,
        };
        let current = before.map(|before| self.get(before.id)).transpose()?;
        if current.is_some() {
            channel.clock = self.pace_of(&channel)?;
        }
        let turns = pace::turns(&channel);
        let Channel { settings, requested_items, output, requested_blocks: plan, requested_filler: filler, external, seed, mode, version, .. } = channel.clone();
        let revisions = numbers(&channel.definition);
        let dropped: Vec<u32> = known.into_iter().filter(|number| !revisions.contains(number)).collect();
        let kept = KeptChannel { face, asks, output, plan, filler, external, seed, mode, version, turns, revisions };
        let kept = Kept { tvg_id: channel.tvg_id.clone(), channel: Some(kept) };
        self.store.put(Tree::Channels, &channel_key(channel.id), &kept).await?;
        let channel = Arc::new(channel);
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).insert(channel.id, channel.clone());
        self.changed_ms.store(self.clock.now().as_millisecond(), Ordering::Relaxed);
        if let Some(before) = current.filter(|_| channel.clock.is_none()) {
            self.forget_pace(&before).await;
        }
        drop(lock);
        self.forget(channel.id, &dropped).await;
        Ok(channel)
    }

    /// Deletes unused revisions and the items that only they used. Leftovers do no harm.
    async fn forget(&self, id: u32, numbers: &[u32]) {
        for number in numbers {
            for tree in [Tree::Marks, Tree::Revisions] {
                if let Err(fault) = self.store.delete(tree, &revision_key(id, *number)).await {
                    tracing::warn!(channel.id = id, %fault, "an old revision could not be removed");
                }
            }
        }
        if !numbers.is_empty()
            && let Err(fault) = self.shelf.sweep(&self.store).await
        {
            tracing::warn!(%fault, "unused items could not be removed");
        }
    }
}

/// Builds a channel from its record and those of its revisions.
fn read(
    store: &Store,
    shelf: &Shelf,
    (id, tvg_id): (u32, Box<str>),
    kept: KeptChannel,
    runs: Option<Vec<RunningInterval>>,
) -> Result<Channel> {
    let KeptChannel { mut face, asks, output, plan, filler, external, seed, mode, version, turns, revisions } = kept;
    shelf.share_face(&mut face);
    let revision = |number: &u32| {
        let key = revision_key(id, *number);
        let kept = store.get::<KeptRevision>(Tree::Revisions, &key)?;
        let KeptRevision { mut revision, list } =
            kept.ok_or_else(|| Error::internal(format!("record revisions/{key} is missing")))?;
        match list {
            Some(list) => revision.items = shelf.find(store, &list)?,
            None => shelf.complete(store, &mut revision.items)?,
        }
        marks::resume(store, &key, &revision);
        Ok(revision)
    };
    let definition = ScheduleDefinition { revisions: revisions.iter().map(revision).collect::<Result<_>>()? };
    Ok(Channel {
        id,
        tvg_id,
        settings,
        requested_items,
        output: shelf.share_output(output),
        requested_blocks: plan,
        requested_filler: if *filler == RequestedFiller::default() { RequestedFiller::shared_empty() } else { filler },
        external,
        listings: None,
        clock: clock_of(turns, runs),
        seed,
        mode,
        version,
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
fn clock_of(turns: Vec<RunningInterval>, others: Option<Vec<RunningInterval>>) -> Option<Arc<ChannelClock>> {
    if turns.is_empty() {
        return None;
    }
    ChannelClock::from_stored(turns.into_iter().chain(others.unwrap_or_default()).collect()).map(Arc::new)
}

fn numbers(definition: &ScheduleDefinition) -> Vec<u32> {
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
