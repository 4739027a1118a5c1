//! Cache of computed days: each day depends on the positions at the end of the day before.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::day::{Planner, State};
use super::{Blocks, Day, wall};
use crate::domain::schedule::{Mode, Revision};

/// Distance in days between cached states.
const STRIDE: i64 = 8;

/// This many cached states on each side of the requested day are kept; farther away, every `FAR`th.
const NEAR: i64 = 8;
const FAR: i64 = 16;

/// Number of checkpoints kept for the next start: guides reach back a week or two.
const MARKS: usize = 6;

/// After this many days (eleven years) the schedule starts over, so no instant is too far away to compute.
const ERA_DAYS: i64 = 4096;

/// The cached days of one revision. They follow from the revision alone: another revision starts with an empty cache, and
/// all caches of one agree.
#[derive(Default)]
pub struct Days(Mutex<Known>);

/// A checkpoint: the state before a day. It spares computing everything aired since the beginning. It follows from its
/// revision and is meaningless with another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Counted from 1970.
    day: i64,
    state: State,
}

#[derive(Default)]
struct Known {
    day: Option<Arc<Day>>,
    /// The state before each of these days.
    before: BTreeMap<i64, State>,
    /// The newest day handed out as a checkpoint, or read from one.
    marked: Option<i64>,
}

impl Revision {
    /// The day that contains an instant.
    pub(in crate::domain::schedule) fn day_at(&self, blocks: &Blocks, at_ms: i64) -> Arc<Day> {
        let planner = Planner::new(self, blocks);
        let number = planner.day_of(at_ms);
        self.worked_out(blocks, planner, number)
    }

    pub(in crate::domain::schedule) fn day_after(&self, blocks: &Blocks, day: &Day) -> Arc<Day> {
        self.worked_out(blocks, Planner::new(self, blocks), day.number + 1)
    }

    /// Positions at which the next revision's streams begin at an instant: a stream whose source has the same name
    /// continues.
    pub(in crate::domain::schedule) fn carried(&self, at_ms: i64, next: &Self) -> Vec<u64> {
        let (Some(new), Some(old)) = (&next.blocks, &self.blocks) else {
            return next.blocks.as_ref().map(|blocks| vec![0; blocks.grid.streams().len()]).unwrap_or_default();
        };
        let day = self.day_at(old, at_ms - 1);
        let aired = day.positions_at(at_ms);
        let known = old.grid.streams();
        let place = |(source, mode): &(u32, Mode)| {
            let source = &new.sources[*source as usize];
            let stream = known
                .iter()
                .position(|(other, order)| order == mode && old.sources[*other as usize].name == source.name);
            let Some(stream) = stream else { return 0 };
            let Some(last) = aired[stream].checked_sub(1) else { return 0 };
            let listed = |of: &Self, range: &std::ops::Range<u32>| -> Vec<u64> {
                of.items[range.start as usize..range.end as usize].iter().map(|item| item.id).collect()
            };
            let (before, after) =
                (listed(self, &old.sources[known[stream].0 as usize].items), listed(next, &source.items));
            if before == after && self.seed == next.seed {
                return last + 1;
            }
            if *mode != Mode::Sequential {
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
        new.grid.streams().iter().map(place).collect()
    }

    fn worked_out(&self, blocks: &Blocks, mut planner: Planner<'_>, number: i64) -> Arc<Day> {
        let mut known = blocks.days.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(day) = known.day.as_ref().filter(|day| day.number == number) {
            return day.clone();
        }
        let first = planner.day_of(self.start_ms);
        let era = (number - first).div_euclid(ERA_DAYS).max(0);
        let begin = first + era * ERA_DAYS;
        let fresh = || State {
            ordinal: self.first_ordinal + ((era as u64) << 32),
            sequence: self.first_sequence + ((era as u64) << 32),
            positions: blocks.begin.clone(),
            led: false,
            last_on: Vec::new(),
        };
        let yesterday = known.day.as_ref().filter(|day| day.number == number - 1 && number > begin);
        let (mut at, mut state) = match yesterday {
            Some(day) => (number, day.after.clone()),
            None => match known.before.range(begin..=number).next_back() {
                Some((at, state)) => (*at, state.clone()),
                None => (begin, fresh()),
            },
        };
        loop {
            if at > begin && (at - begin) % STRIDE == 0 {
                known.before.insert(at, state.clone());
            }
            let day = planner.day(at, &state);
            if at >= number {
                let day = Arc::new(day);
                // Other eras than the first and this one are rarely requested.
                known.before.retain(|day, _| {
                    let is_in_era = [first, begin].iter().any(|start| (*start..start + ERA_DAYS).contains(day));
                    is_in_era && (day - begin) % (FAR * STRIDE) == 0 || (day - number).abs() <= NEAR * STRIDE
                });
                known.day = Some(day.clone());
                return day;
            }
            (at, state) = (at + 1, day.after);
        }
    }
}

impl Blocks {
    /// The newest checkpoints up to an instant; None if they were returned before. Later ones would keep those that the next
    /// start needs from being stored.
    pub fn fresh_marks(&self, until_ms: i64) -> Option<Vec<Mark>> {
        let zone = TimeZone::get(&self.zone).unwrap_or(TimeZone::UTC);
        let today = wall::day_of(&zone, self.grid.day_start, until_ms);
        let mut known = self.days.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = *known.before.range(..=today).next_back()?.0;
        if known.marked.is_some_and(|marked| (newest..=today).contains(&marked)) {
            return None;
        }
        known.marked = Some(newest);
        let marks = known.before.range(..=today).rev().take(MARKS);
        Some(marks.map(|(day, state)| Mark { day: *day, state: state.clone() }).collect())
    }

    /// Continues from checkpoints of the same revision.
    pub fn resume(&self, marks: Vec<Mark>) {
        let mut known = self.days.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.marked = known.marked.max(marks.iter().map(|mark| mark.day).max());
        known.before.extend(marks.into_iter().map(|mark| (mark.day, mark.state)));
    }

    /// Number of cached states.
    #[cfg(test)]
    pub(in crate::domain::schedule) fn known_days(&self) -> usize {
        self.days.0.lock().unwrap_or_else(PoisonError::into_inner).before.len()
    }
}

impl Clone for Days {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Eq for Days {}

impl PartialEq for Days {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Days {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Days")
    }
}
