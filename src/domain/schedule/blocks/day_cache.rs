//! Cache of computed days: each day depends on the positions at the end of the day before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::day::{DayPlanner, DayState};
use super::{BlockSchedule, BroadcastDay, wall_clock};
use crate::domain::schedule::{ScheduleMode, ScheduleRevision};
use crate::domain::time::{ChannelMs, WallMs};

/// Distance in days between cached states.
const STATE_STRIDE_DAYS: i64 = 8;

/// This many cached states on each side of the requested day are kept; farther away, every `FAR_STRIDE`th.
const NEAR_STATES: i64 = 8;
const FAR_STRIDE: i64 = 16;

/// Number of checkpoints kept for the next start: guides reach back a week or two.
const MAX_CHECKPOINTS: usize = 6;

/// After this many days (eleven years) the schedule starts over, so no instant is too far away to compute.
const ERA_DAYS: i64 = 4096;

/// The cached days of one revision. They follow from the revision alone: another revision starts with an empty cache, and
/// all caches of one agree.
#[derive(Debug, Default)]
pub struct DayCache(Mutex<CachedDays>);

/// A checkpoint: the state before a day. It spares computing everything aired since the beginning. It follows from its
/// revision and is meaningless with another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Counted from 1970.
    day: i64,
    state: DayState,
}

#[derive(Debug, Default)]
struct CachedDays {
    last_day: Option<Arc<BroadcastDay>>,
    /// The state before each of these days.
    states: BTreeMap<i64, DayState>,
    /// The newest day handed out as a checkpoint, or read from one.
    newest_checkpoint: Option<i64>,
}

impl ScheduleRevision {
    /// The day that contains an instant.
    pub(in crate::domain::schedule) fn day_at(&self, blocks: &BlockSchedule, at_ms: ChannelMs) -> Arc<BroadcastDay> {
        let planner = DayPlanner::new(self, blocks);
        let number = planner.day_of(at_ms);
        self.compute_day(blocks, planner, number)
    }

    pub(in crate::domain::schedule) fn day_after(
        &self,
        blocks: &BlockSchedule,
        day: &BroadcastDay,
    ) -> Arc<BroadcastDay> {
        self.compute_day(blocks, DayPlanner::new(self, blocks), day.day_number + 1)
    }

    /// Positions at which the next revision's streams begin at an instant: a stream whose source has the same name
    /// continues.
    pub(in crate::domain::schedule) fn carried_positions(&self, at_ms: ChannelMs, next: &Self) -> Vec<u64> {
        let (Some(new), Some(old)) = (&next.blocks, &self.blocks) else {
            return next.blocks.as_ref().map(|blocks| vec![0; blocks.grid.streams().len()]).unwrap_or_default();
        };
        let day = self.day_at(old, at_ms - 1);
        let aired = day.positions_at(at_ms);
        let old_streams = old.grid.streams();
        let start_position = |(source, mode): &(u32, ScheduleMode)| {
            let source = &new.sources[*source as usize];
            let stream = old_streams
                .iter()
                .position(|(other, order)| order == mode && old.sources[*other as usize].name == source.name);
            let Some(stream) = stream else { return 0 };
            let Some(last) = aired[stream].checked_sub(1) else { return 0 };
            let item_ids = |revision: &Self, range: &std::ops::Range<u32>| -> Vec<u64> {
                revision.items[range.start as usize..range.end as usize].iter().map(|item| item.id).collect()
            };
            let (before, after) =
                (item_ids(self, &old.sources[old_streams[stream].0 as usize].items), item_ids(next, &source.items));
            if before == after && self.seed == next.seed {
                return last + 1;
            }
            if *mode != ScheduleMode::Sequential {
                return 0;
            }
            // After the last aired item that is still listed.
            let n = before.len() as u64;
            let found = (0..n).find_map(|back| {
                let id = before[((last + n - back % n) % n) as usize];
                after.iter().position(|other| *other == id)
            });
            found.map_or(0, |at| at as u64 + 1)
        };
        new.grid.streams().iter().map(start_position).collect()
    }

    fn compute_day(&self, blocks: &BlockSchedule, mut planner: DayPlanner<'_>, number: i64) -> Arc<BroadcastDay> {
        let mut cached = blocks.day_cache.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(day) = cached.last_day.as_ref().filter(|day| day.day_number == number) {
            return day.clone();
        }
        let first = planner.day_of(self.start_ms);
        let era = (number - first).div_euclid(ERA_DAYS).max(0);
        let begin = first + era * ERA_DAYS;
        let initial_state = || DayState {
            ordinal: self.first_ordinal + ((era as u64) << 32),
            sequence: self.first_sequence + ((era as u64) << 32),
            positions: blocks.start_positions.clone(),
            ..DayState::default()
        };
        let yesterday = cached.last_day.as_ref().filter(|day| day.day_number == number - 1 && number > begin);
        let (mut at, mut state) = match yesterday {
            Some(day) => (number, day.state_after.clone()),
            None => match cached.states.range(begin..=number).next_back() {
                Some((at, state)) => (*at, state.clone()),
                None => (begin, initial_state()),
            },
        };
        loop {
            if at > begin && (at - begin) % STATE_STRIDE_DAYS == 0 {
                cached.states.insert(at, state.clone());
            }
            let day = planner.compute_day(at, &state);
            if at >= number {
                let day = Arc::new(day);
                // Other eras than the first and this one are rarely requested.
                cached.states.retain(|day, _| {
                    let is_in_era = [first, begin].iter().any(|start| (*start..start + ERA_DAYS).contains(day));
                    is_in_era && (day - begin) % (FAR_STRIDE * STATE_STRIDE_DAYS) == 0
                        || (day - number).abs() <= NEAR_STATES * STATE_STRIDE_DAYS
                });
                cached.last_day = Some(day.clone());
                return day;
            }
            (at, state) = (at + 1, day.state_after);
        }
    }
}

impl BlockSchedule {
    /// The newest checkpoints up to an instant; None if they were returned before. Later ones would keep those that the next
    /// start needs from being stored.
    pub fn new_checkpoints(&self, until_ms: WallMs) -> Option<Vec<Checkpoint>> {
        let zone = TimeZone::get(&self.zone).unwrap_or(TimeZone::UTC);
        let today = wall_clock::broadcast_day(&zone, self.grid.day_start_minutes, until_ms);
        let mut cached = self.day_cache.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = *cached.states.range(..=today).next_back()?.0;
        if cached.newest_checkpoint.is_some_and(|marked| (newest..=today).contains(&marked)) {
            return None;
        }
        cached.newest_checkpoint = Some(newest);
        let states = cached.states.range(..=today).rev().take(MAX_CHECKPOINTS);
        Some(states.map(|(day, state)| Checkpoint { day: *day, state: state.clone() }).collect())
    }

    /// Continues from checkpoints of the same revision.
    pub fn resume_from(&self, checkpoints: Vec<Checkpoint>) {
        let mut cached = self.day_cache.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.newest_checkpoint =
            cached.newest_checkpoint.max(checkpoints.iter().map(|checkpoint| checkpoint.day).max());
        cached.states.extend(checkpoints.into_iter().map(|checkpoint| (checkpoint.day, checkpoint.state)));
    }

    #[cfg(test)]
    pub(in crate::domain::schedule) fn cached_state_count(&self) -> usize {
        self.day_cache.0.lock().unwrap_or_else(PoisonError::into_inner).states.len()
    }
}

impl Clone for DayCache {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Eq for DayCache {}

impl PartialEq for DayCache {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
