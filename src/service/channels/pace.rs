//! Clocks of channels that air only while somebody watches: run, stopped, moved on. One change of a clock at a time, and
//! every change is on disk before anything is answered by it; but that one stops is known at once, for a list must not
//! name what lies behind.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use tokio::sync::{Mutex, MutexGuard};

use super::Channels;
use crate::domain::channel::Channel;
use crate::domain::live;
use crate::domain::pace::{Pace, Run};
use crate::error::{Code, Error, Result};
use crate::store::{Batch, Store, Tree};

/// How long a clock runs behind the last sign of somebody who watches, ms: as long as a viewer counts.
const LEASE_MS: i64 = 30_000;

/// With how much of that left it is told to run on, ms. So one is written every ten seconds.
const LEFT_MS: i64 = 20_000;

/// Turns remembered at most, of the last fortnight.
const MOST_TURNS: usize = 16;

/// Changes of clocks under way at once at most.
const LOCKS: usize = 64;

/// One change of a channel's clock at a time.
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

/// Every clock's stretches, by channel.
pub(super) fn read(store: &Store) -> Result<HashMap<u32, Vec<Run>>> {
    let mut all: HashMap<u32, Vec<Run>> = HashMap::new();
    for (key, run) in store.scan::<Run>(Tree::Paces)? {
        let id = key.split_once('/').and_then(|(id, _)| id.parse().ok());
        let id = id.ok_or_else(|| Error::internal(format!("record paces/{key} is no channel's")))?;
        all.entry(id).or_default().push(run);
    }
    Ok(all)
}

/// Those that a channel's own record holds: where it was given its clock, and where that was let go on for good.
pub(super) fn turns(channel: &Channel) -> Vec<Run> {
    let runs = channel.pace.as_deref().map(Pace::runs).unwrap_or_default();
    let turns: Vec<Run> = runs.iter().filter(|run| run.turn).copied().collect();
    turns[turns.len().saturating_sub(MOST_TURNS)..].to_vec()
}

/// The clock a channel is to have that is made or changed.
pub(super) fn drafted(before: Option<&Channel>, after: &Channel, waits: bool, now_ms: i64) -> Option<Arc<Pace>> {
    let start_ms = start(after, now_ms);
    match before {
        // Whoever comes first begins at the beginning, with as much of it listed as on any channel.
        None => waits.then(|| Arc::new(Pace::same(start_ms, start_ms + 3000 * after.output.target as i64))),
        Some(before) => turned(before.pace.as_ref(), waits, start_ms, now_ms),
    }
}

fn start(channel: &Channel, now_ms: i64) -> i64 {
    channel.definition.revisions.first().map_or(now_ms, |first| first.start_ms)
}

fn turned(before: Option<&Arc<Pace>>, waits: bool, start_ms: i64, now_ms: i64) -> Option<Arc<Pace>> {
    match before {
        Some(pace) if pace.waits() != waits => Some(Arc::new(pace.turned(now_ms, waits))),
        Some(pace) => Some(pace.clone()),
        None => waits.then(|| Arc::new(Pace::same(start_ms, now_ms))),
    }
}

fn key(id: u32, run: &Run) -> String {
    format!("{id:010}/{:014}", run.from_ms)
}

impl Channels {
    /// Somebody watches a channel: its clock runs, where it has one that stands else. The channel as it is then.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`; `STORAGE_FULL` for one that stands.
    pub async fn run(&self, channel: &Arc<Channel>) -> Result<Arc<Channel>> {
        let asked = |channel: &Channel| {
            let now_ms = self.clock.now().as_millisecond();
            let pace = channel.pace.as_ref().filter(|pace| !pace.lasts(now_ms + LEFT_MS))?;
            pace.running(now_ms, now_ms + LEASE_MS)
        };
        if channel.pace.is_none() {
            return Ok(channel.clone());
        }
        // As it is now that the viewer counts: then nobody stops it who has not seen them.
        let channel = self.get(channel.id)?;
        if asked(&channel).is_none() {
            return Ok(channel);
        }
        let _lock = self.paces.lock(channel.id).await;
        let channel = self.get(channel.id)?;
        let Some(next) = asked(&channel) else { return Ok(channel) };
        match self.write_pace(&channel, &next).await {
            Ok(()) => self.set_pace(channel.id, |_| Some(next)),
            // It goes on for as long as it was said to.
            Err(_) if channel.pace.as_ref().is_some_and(|pace| !pace.stands(self.clock.now().as_millisecond())) => {
                Ok(channel)
            }
            Err(full) => Err(full),
        }
    }

    /// The last viewer left: a clock that runs for viewers stops, unless one is there again.
    pub async fn halt(&self, id: u32, is_watched: impl Fn() -> bool) {
        let _lock = self.paces.lock(id).await;
        let Ok(before) = self.get(id) else { return };
        let halted = self.set_pace(id, |channel| match is_watched() {
            true => None,
            false => channel.pace.as_ref()?.halted(self.clock.now().as_millisecond()),
        });
        if let Ok(halted) = halted
            && let Some(pace) = &halted.pace
            && before.pace.as_ref() != Some(pace)
            // It would stop a little later by itself.
            && let Err(fault) = self.write_pace(&before, pace).await
        {
            tracing::debug!(channel.id = id, %fault, "where a channel stopped is not kept");
        }
    }

    /// Moves a channel's clock to the end of what is on; for as long as it would have run it goes on from there.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`; `CONFLICT` for a channel without a clock of its own, and before its first programme;
    /// `STORAGE_FULL`.
    pub async fn skip(&self, id: u32) -> Result<Arc<Channel>> {
        // What comes must not be changed while the way there is worked out.
        let _editing = self.editing.lock().await;
        let _lock = self.paces.lock(id).await;
        let channel = self.get(id)?;
        let pace = channel.pace.as_ref().filter(|_| channel.on_demand()).ok_or_else(|| {
            Error::new(Code::Conflict, format!("{} is not onDemand: nothing of it can be skipped", channel.face.name))
        })?;
        let now_ms = self.clock.now().as_millisecond();
        let jump = live::jump(&channel, now_ms)
            .ok_or_else(|| Error::new(Code::Conflict, format!("{} has not begun", channel.face.name)))?;
        let next = pace.skipped(now_ms, jump);
        self.write_pace(&channel, &next).await?;
        self.set_pace(id, |_| Some(next))
    }

    /// The clock a changed channel is to have: what it is by now, and what the change makes of it. To be called with its lock.
    pub(super) fn pace_of(&self, after: &Channel) -> Result<Option<Arc<Pace>>> {
        if after.external.is_some() {
            return Ok(None);
        }
        let (current, now_ms) = (self.get(after.id)?, self.clock.now().as_millisecond());
        Ok(turned(current.pace.as_ref(), after.on_demand(), start(after, now_ms), now_ms))
    }

    /// Removes the stretches of a channel that is gone.
    pub(super) async fn forget_pace(&self, channel: &Channel) {
        for run in channel.pace.as_deref().map(Pace::runs).unwrap_or_default() {
            if let Err(fault) = self.store.delete(Tree::Paces, &key(channel.id, run)).await {
                tracing::warn!(channel.id = channel.id, %fault, "an old stretch of a clock could not be removed");
            }
        }
    }

    /// Writes what is new of a clock and removes what it no longer has: all of it, or nothing.
    async fn write_pace(&self, channel: &Channel, next: &Pace) -> Result<()> {
        let before = channel.pace.as_deref().map(Pace::runs).unwrap_or_default();
        let runs = next.runs();
        let mut batch = Batch::default();
        for run in runs.iter().filter(|run| !before.contains(run)) {
            batch.put(Tree::Paces, &key(channel.id, run), run)?;
        }
        for gone in before.iter().filter(|gone| !runs.iter().any(|run| run.from_ms == gone.from_ms)) {
            batch.delete(Tree::Paces, &key(channel.id, gone))?;
        }
        self.store.write(batch).await
    }

    /// Gives a channel another clock, where `of` has one for it as it is now.
    fn set_pace(&self, id: u32, of: impl FnOnce(&Channel) -> Option<Pace>) -> Result<Arc<Channel>> {
        let mut all = self.by_id.write().unwrap_or_else(PoisonError::into_inner);
        let none = || Error::new(Code::ChannelNotFound, format!("there is no channel {id}"));
        let channel = all.get_mut(&id).ok_or_else(none)?;
        if let Some(pace) = of(channel) {
            *channel = Arc::new(Channel { pace: Some(Arc::new(pace)), ..(**channel).clone() });
        }
        Ok(channel.clone())
    }
}
