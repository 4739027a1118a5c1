//! Clocks of `onDemand` channels: extended while there are viewers, paused without, moved by a skip. A clock is changed by
//! one task at a time, and each change is durable before any answer depends on it. Only a pause takes effect before it is
//! stored, because a list must not name segments after it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use tokio::sync::{Mutex, MutexGuard};

use super::Channels;
use crate::domain::channel::Channel;
use crate::domain::live;
use crate::domain::channel_clock::{ChannelClock, RunningInterval};
use crate::error::{Code, Error, Result};
use crate::store::{Batch, Store, Tree};

/// How long a clock runs after a viewer's last request, ms: as long as a viewer counts.
const LEASE_MS: i64 = 30_000;

/// A clock is extended when it has less than this left, ms. So one record is written every ten seconds.
const LEFT_MS: i64 = 20_000;

/// Changes of `onDemand` kept at most, of the last fortnight.
const MOST_TURNS: usize = 16;

/// Number of locks; more clocks cannot be changed concurrently.
const LOCKS: usize = 64;

/// Locks that serialise changes of one channel's clock.
pub(super) struct Locks([Mutex<()>; LOCKS]);

impl Default for Locks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Locks {
    pub(super) async fn lock(&self, id: u32) -> MutexGuard<'_, ()> {
        self.0[id as usize % LOCKS].lock().await
    }
}

/// Loads the intervals of all clocks, by channel.
pub(super) fn read(store: &Store) -> Result<HashMap<u32, Vec<RunningInterval>>> {
    let mut all: HashMap<u32, Vec<RunningInterval>> = HashMap::new();
    for (key, run) in store.scan::<RunningInterval>(Tree::Paces)? {
        let id = key.split_once('/').and_then(|(id, _)| id.parse().ok());
        let id = id.ok_or_else(|| Error::internal(format!("the key of record paces/{key} has no channel id")))?;
        all.entry(id).or_default().push(run);
    }
    Ok(all)
}

/// The intervals kept in the channel's own record: those that begin with a change of `onDemand`.
pub(super) fn turns(channel: &Channel) -> Vec<RunningInterval> {
    let runs = channel.clock.as_deref().map(ChannelClock::intervals).unwrap_or_default();
    let turns: Vec<RunningInterval> = runs.iter().filter(|run| run.is_mode_change).copied().collect();
    turns[turns.len().saturating_sub(MOST_TURNS)..].to_vec()
}

/// The clock of a channel that is created or changed.
pub(super) fn drafted(before: Option<&Channel>, after: &Channel, waits: bool, now_ms: i64) -> Option<Arc<ChannelClock>> {
    let start_ms = start(after, now_ms);
    match before {
        // The first viewer starts at the first programme, with as many segments listed as on any channel.
        None => waits.then(|| Arc::new(ChannelClock::from_wall_clock(start_ms, start_ms + 3000 * after.output.target_seconds as i64))),
        Some(before) => turned(before.clock.as_ref(), waits, start_ms, now_ms),
    }
}

fn start(channel: &Channel, now_ms: i64) -> i64 {
    channel.definition.revisions.first().map_or(now_ms, |first| first.start_ms)
}

fn turned(before: Option<&Arc<ChannelClock>>, waits: bool, start_ms: i64, now_ms: i64) -> Option<Arc<ChannelClock>> {
    match before {
        Some(pace) if pace.is_on_demand() != waits => Some(Arc::new(pace.with_on_demand(now_ms, waits))),
        Some(pace) => Some(pace.clone()),
        None => waits.then(|| Arc::new(ChannelClock::from_wall_clock(start_ms, now_ms))),
    }
}

fn key(id: u32, run: &RunningInterval) -> String {
    format!("{id:010}/{:014}", run.from_ms)
}

impl Channels {
    /// Extends the clock of a watched channel, if it has one that pauses without viewers. Returns the channel after that.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`; `STORAGE_FULL` for a paused clock.
    pub async fn run(&self, channel: &Arc<Channel>) -> Result<Arc<Channel>> {
        let asked = |channel: &Channel| {
            let now_ms = self.clock.now().as_millisecond();
            let pace = channel.clock.as_ref().filter(|pace| !pace.runs_until(now_ms + LEFT_MS))?;
            pace.extended(now_ms, now_ms + LEASE_MS)
        };
        if channel.clock.is_none() {
            return Ok(channel.clone());
        }
        // Read again, now that the viewer is counted: a task that pauses the clock from here has seen this viewer.
        let channel = self.get(channel.id)?;
        if asked(&channel).is_none() {
            return Ok(channel);
        }
        let _lock = self.paces.lock(channel.id).await;
        let channel = self.get(channel.id)?;
        let Some(next) = asked(&channel) else { return Ok(channel) };
        match self.write_pace(&channel, &next).await {
            Ok(()) => self.set_pace(channel.id, |_| Some(next)),
            // The clock runs until its stored end.
            Err(_) if channel.clock.as_ref().is_some_and(|pace| !pace.is_paused_at(self.clock.now().as_millisecond())) => {
                Ok(channel)
            }
            Err(full) => Err(full),
        }
    }

    /// Pauses the clock of an `onDemand` channel after its last viewer left, unless a new one has come.
    pub async fn halt(&self, id: u32, is_watched: impl Fn() -> bool) {
        let _lock = self.paces.lock(id).await;
        let Ok(before) = self.get(id) else { return };
        let halted = self.set_pace(id, |channel| match is_watched() {
            true => None,
            false => channel.clock.as_ref()?.paused(self.clock.now().as_millisecond()),
        });
        if let Ok(halted) = halted
            && let Some(pace) = &halted.clock
            && before.clock.as_ref() != Some(pace)
            // Without the record it would pause a little later by itself.
            && let Err(fault) = self.write_pace(&before, pace).await
        {
            tracing::debug!(channel.id = id, %fault, "the paused clock of a channel could not be stored");
        }
    }

    /// Moves a channel's clock to the end of the current programme; it then runs as long as it would have.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`; `CONFLICT` for a channel without a clock of its own, and before its first programme;
    /// `STORAGE_FULL`.
    pub async fn skip(&self, id: u32) -> Result<Arc<Channel>> {
        // The schedule must not change while the skip is computed.
        let _editing = self.editing.lock().await;
        let _lock = self.paces.lock(id).await;
        let channel = self.get(id)?;
        let pace = channel.clock.as_ref().filter(|_| channel.is_on_demand()).ok_or_else(|| {
            Error::new(
                Code::Conflict,
                format!("{} is not onDemand, so its programmes cannot be skipped", channel.settings.name),
            )
        })?;
        let now_ms = self.clock.now().as_millisecond();
        let jump = live::skip_target(&channel, now_ms)
            .ok_or_else(|| Error::new(Code::Conflict, format!("{} has not started yet", channel.settings.name)))?;
        let next = pace.with_skip(now_ms, jump);
        self.write_pace(&channel, &next).await?;
        self.set_pace(id, |_| Some(next))
    }

    /// The clock of a changed channel: the current one with the change applied. The caller must hold its lock.
    pub(super) fn pace_of(&self, after: &Channel) -> Result<Option<Arc<ChannelClock>>> {
        if after.external.is_some() {
            return Ok(None);
        }
        let (current, now_ms) = (self.get(after.id)?, self.clock.now().as_millisecond());
        Ok(turned(current.clock.as_ref(), after.is_on_demand(), start(after, now_ms), now_ms))
    }

    /// Deletes the intervals of a removed channel.
    pub(super) async fn forget_pace(&self, channel: &Channel) {
        for run in channel.clock.as_deref().map(ChannelClock::intervals).unwrap_or_default() {
            if let Err(fault) = self.store.delete(Tree::Paces, &key(channel.id, run)).await {
                tracing::warn!(channel.id = channel.id, %fault, "an old interval of a clock could not be removed");
            }
        }
    }

    /// Stores the new intervals of a clock and deletes its old ones, all in one batch or not at all.
    async fn write_pace(&self, channel: &Channel, next: &ChannelClock) -> Result<()> {
        let before = channel.clock.as_deref().map(ChannelClock::intervals).unwrap_or_default();
        let runs = next.intervals();
        let mut batch = Batch::default();
        for run in runs.iter().filter(|run| !before.contains(run)) {
            batch.put(Tree::Paces, &key(channel.id, run), run)?;
        }
        for gone in before.iter().filter(|gone| !runs.iter().any(|run| run.from_ms == gone.from_ms)) {
            batch.delete(Tree::Paces, &key(channel.id, gone))?;
        }
        self.store.write(batch).await
    }

    /// Sets a channel's clock to the one that `of` returns for its current state, if any.
    fn set_pace(&self, id: u32, of: impl FnOnce(&Channel) -> Option<ChannelClock>) -> Result<Arc<Channel>> {
        let mut all = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        let none = || Error::new(Code::ChannelNotFound, format!("there is no channel {id}"));
        let channel = all.get_mut(&id).ok_or_else(none)?;
        if let Some(pace) = of(channel) {
            *channel = Arc::new(Channel { clock: Some(Arc::new(pace)), ..(**channel).clone() });
        }
        Ok(channel.clone())
    }
}
