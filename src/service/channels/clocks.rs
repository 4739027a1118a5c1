//! Clocks of `onDemand` channels: extended while there are viewers, paused without, moved by a skip. A clock is changed by
//! one task at a time, and each change is durable before any answer depends on it. Only a pause takes effect before it is
//! stored, because a list must not name segments after it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use tokio::sync::{Mutex, MutexGuard};

use super::Channels;
use crate::domain::channel::Channel;
use crate::domain::channel_clock::{ChannelClock, RunningInterval};
use crate::domain::live_window;
use crate::domain::time::WallMs;
use crate::error::{Code, Error, Result};
use crate::store::{Batch, Store, Tree};

/// How long a clock runs after a viewer's last request, ms: as long as a viewer counts.
const LEASE_MS: i64 = 30_000;

/// A clock is extended when it has less than this left, ms. So one record is written every ten seconds.
const RENEW_BELOW_MS: i64 = 20_000;

/// Changes of `onDemand` kept at most, of the last fortnight.
const MAX_MODE_CHANGES: usize = 16;

/// Number of locks; more clocks cannot be changed concurrently.
const LOCK_COUNT: usize = 64;

/// Locks that serialise changes of one channel's clock.
pub(super) struct ClockLocks([Mutex<()>; LOCK_COUNT]);

impl Default for ClockLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

impl ClockLocks {
    pub(super) async fn lock(&self, id: u32) -> MutexGuard<'_, ()> {
        self.0[id as usize % LOCK_COUNT].lock().await
    }
}

/// Loads the intervals of all clocks, by channel.
pub(super) fn load_intervals(store: &Store) -> Result<HashMap<u32, Vec<RunningInterval>>> {
    let mut intervals: HashMap<u32, Vec<RunningInterval>> = HashMap::new();
    for (key, interval) in store.scan::<RunningInterval>(Tree::ClockIntervals)? {
        let id = key.split_once('/').and_then(|(id, _)| id.parse().ok());
        let id = id.ok_or_else(|| Error::internal(format!("the key of record paces/{key} has no channel id")))?;
        intervals.entry(id).or_default().push(interval);
    }
    Ok(intervals)
}

/// The intervals kept in the channel's own record: those that begin with a change of `onDemand`.
pub(super) fn mode_changes(channel: &Channel) -> Vec<RunningInterval> {
    let intervals = channel.clock.as_deref().map(ChannelClock::intervals).unwrap_or_default();
    let changes: Vec<RunningInterval> = intervals.iter().filter(|interval| interval.is_mode_change).copied().collect();
    changes[changes.len().saturating_sub(MAX_MODE_CHANGES)..].to_vec()
}

/// The clock of a channel that is created or changed.
pub(super) fn clock_after_change(
    previous: Option<&Channel>,
    changed: &Channel,
    is_on_demand: bool,
    now_ms: WallMs,
) -> Option<Arc<ChannelClock>> {
    match previous {
        // The first viewer starts at the first programme, with as many segments listed as on any channel.
        None => is_on_demand.then(|| {
            let start_ms = first_start_ms(changed, now_ms);
            Arc::new(ChannelClock::from_wall_clock(start_ms, start_ms + 3000 * changed.output.target_seconds as i64))
        }),
        Some(previous) => with_mode(previous.clock.as_ref(), changed, is_on_demand, now_ms),
    }
}

/// The start of a channel that has no clock of its own yet.
fn first_start_ms(channel: &Channel, now_ms: WallMs) -> WallMs {
    channel.definition.revisions.first().map_or(now_ms, |first| WallMs::without_clock(first.start_ms))
}

fn with_mode(
    old: Option<&Arc<ChannelClock>>,
    changed: &Channel,
    pauses: bool,
    now_ms: WallMs,
) -> Option<Arc<ChannelClock>> {
    match old {
        Some(clock) if clock.is_on_demand() != pauses => Some(Arc::new(clock.with_on_demand(now_ms, pauses))),
        Some(clock) => Some(clock.clone()),
        None => pauses.then(|| Arc::new(ChannelClock::from_wall_clock(first_start_ms(changed, now_ms), now_ms))),
    }
}

fn interval_key(id: u32, interval: &RunningInterval) -> String {
    format!("{id:010}/{:014}", interval.from_ms.0)
}

impl Channels {
    /// Extends the clock of a watched channel, if it has one that pauses without viewers. Returns the channel after that.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`; `STORAGE_FULL` for a paused clock.
    pub async fn extend_clock(&self, channel: &Arc<Channel>) -> Result<Arc<Channel>> {
        let extended = |channel: &Channel| {
            let now_ms = self.clock.now_ms();
            let clock = channel.clock.as_ref().filter(|clock| !clock.runs_until(now_ms + RENEW_BELOW_MS))?;
            clock.extended(now_ms, now_ms + LEASE_MS)
        };
        // Read again, now that the viewer is counted: a task that pauses the clock from here has seen this viewer.
        let channel = self.get(channel.id)?;
        if extended(&channel).is_none() {
            return Ok(channel);
        }
        let _lock = self.clock_locks.lock(channel.id).await;
        let channel = self.get(channel.id)?;
        let Some(next) = extended(&channel) else { return Ok(channel) };
        match self.store_clock(&channel, &next).await {
            Ok(()) => self.set_clock(channel.id, |_| Some(next)),
            // The clock runs until its stored end.
            Err(_) if channel.clock.as_ref().is_some_and(|clock| !clock.is_paused_at(self.clock.now_ms())) => {
                Ok(channel)
            }
            Err(full) => Err(full),
        }
    }

    /// Pauses the clock of an `onDemand` channel after its last viewer left, unless a new one has come.
    pub async fn pause_clock(&self, id: u32, is_watched: impl Fn() -> bool) {
        let _lock = self.clock_locks.lock(id).await;
        let Ok(previous) = self.get(id) else { return };
        let paused = self.set_clock(id, |channel| match is_watched() {
            true => None,
            false => channel.clock.as_ref()?.paused(self.clock.now_ms()),
        });
        if let Ok(paused) = paused
            && let Some(clock) = &paused.clock
            && previous.clock.as_ref() != Some(clock)
            // Without the record it would pause a little later by itself.
            && let Err(fault) = self.store_clock(&previous, clock).await
        {
            tracing::debug!(channel.id = id, %fault, "the paused clock of a channel could not be stored");
        }
    }

    /// Moves a channel's clock to the end of the current programme; it then runs as long as it would have.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`; `CONFLICT` for a channel without a clock of its own, and before its first programme;
    /// `STORAGE_FULL`.
    pub async fn skip_programme(&self, id: u32) -> Result<Arc<Channel>> {
        // The schedule must not change while the skip is computed.
        let _editing = self.edit_lock.lock().await;
        let _lock = self.clock_locks.lock(id).await;
        let channel = self.get(id)?;
        let clock = channel.clock.as_ref().filter(|_| channel.is_on_demand()).ok_or_else(|| {
            Error::new(
                Code::Conflict,
                format!("{} is not onDemand, so its programmes cannot be skipped", channel.settings.name),
            )
        })?;
        let now_ms = self.clock.now_ms();
        let target = live_window::skip_target(&channel, now_ms)
            .ok_or_else(|| Error::new(Code::Conflict, format!("{} has not started yet", channel.settings.name)))?;
        let next = clock.with_skip(now_ms, target);
        self.store_clock(&channel, &next).await?;
        self.set_clock(id, |_| Some(next))
    }

    /// The clock of a changed channel: the current one with the change applied. The caller must hold its lock.
    pub(super) fn clock_after_edit(&self, changed: &Channel) -> Result<Option<Arc<ChannelClock>>> {
        if changed.external.is_some() {
            return Ok(None);
        }
        let (current, now_ms) = (self.get(changed.id)?, self.clock.now_ms());
        Ok(with_mode(current.clock.as_ref(), changed, changed.is_on_demand(), now_ms))
    }

    /// Deletes the intervals of a removed channel.
    pub(super) async fn delete_clock(&self, channel: &Channel) {
        for interval in channel.clock.as_deref().map(ChannelClock::intervals).unwrap_or_default() {
            if let Err(fault) = self.store.delete(Tree::ClockIntervals, &interval_key(channel.id, interval)).await {
                tracing::warn!(channel.id = channel.id, %fault, "an old interval of a clock could not be removed");
            }
        }
    }

    /// Stores the new intervals of a clock and deletes its old ones, all in one batch or not at all.
    async fn store_clock(&self, channel: &Channel, next: &ChannelClock) -> Result<()> {
        let stored = channel.clock.as_deref().map(ChannelClock::intervals).unwrap_or_default();
        let intervals = next.intervals();
        let mut batch = Batch::default();
        for added in intervals.iter().filter(|interval| !stored.contains(interval)) {
            batch.put(Tree::ClockIntervals, &interval_key(channel.id, added), added)?;
        }
        for removed in stored.iter().filter(|gone| !intervals.iter().any(|interval| interval.from_ms == gone.from_ms)) {
            batch.delete(Tree::ClockIntervals, &interval_key(channel.id, removed))?;
        }
        self.store.write(batch).await.map(drop)
    }

    /// Sets a channel's clock to the one that `make_clock` returns for its current state, if any.
    fn set_clock(&self, id: u32, make_clock: impl FnOnce(&Channel) -> Option<ChannelClock>) -> Result<Arc<Channel>> {
        let mut channels = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        let not_found = || Error::new(Code::ChannelNotFound, format!("there is no channel {id}"));
        let channel = channels.get_mut(&id).ok_or_else(not_found)?;
        if let Some(clock) = make_clock(channel) {
            *channel = Arc::new(Channel { clock: Some(Arc::new(clock)), ..(**channel).clone() });
        }
        Ok(channel.clone())
    }
}
