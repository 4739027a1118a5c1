//! A channel's own clock, where it has one: it runs while somebody watches, stands while nobody does, and is moved forward
//! when a programme is skipped. So it only ever goes forward.
//!
//! Schedule, segments and their numbers are functions of the channel's time, whether it has such a clock or not; here that
//! time and everybody's meet. The clock is a short list of stretches that never change once they are over. One that is
//! under way says beforehand when it ends, unless somebody is still there by then: what is stored is true without anything
//! that would have to be stored later, so a server that is killed goes on as if it had not been.
//!
//! All instants are ms since 1970.

use serde::{Deserialize, Serialize};

/// The end of a stretch that has none: the clock goes on whether somebody watches or not.
pub const ENDLESS: i64 = i64::MAX;

/// Stretches remembered at most.
const MOST: usize = 1024;

/// How long they are remembered, ms: a guide may look back a week, and one downloaded then another.
const KEPT_MS: i64 = 14 * 24 * 3_600_000;

/// How much of the channel's time the stretches remembered come to at least, however old they are, ms: a list names
/// segments of the last minute.
const LEAST_MS: i64 = 180_000;

/// What guides say of a clock that stands: it goes on at the next full minute. So they stay the same for so long, ms.
const STEP_MS: i64 = 60_000;

/// A stretch: from one instant to another the channel's time goes as fast as everybody's; then it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub from_ms: i64,
    pub to_ms: i64,
    /// The channel's time at the first.
    pub at_ms: i64,
    /// Segments of the schedule before it that were skipped, for others are numbered as if there were none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub passed: u64,
    /// The same of changes that players would have been told of.
    #[serde(default, skip_serializing_if = "is_none")]
    pub changes: u64,
    /// How much time that was on the line of the segments' own timestamps, ticks.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub ticks: i64,
    /// Made by a change of the channel: then it was given its clock, or that was let go on for good.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turn: bool,
}

/// A stretch of the channel's own time that was aired without a jump, or will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    pub from_ms: i64,
    /// `i64::MAX` for the last.
    pub to_ms: i64,
    pub passed: u64,
    pub changes: u64,
    pub ticks: i64,
}

/// Where a skip leads: an instant of the channel's time, and what is passed until there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    pub to_ms: i64,
    pub passed: u64,
    pub changes: u64,
    pub ticks: i64,
    /// Nothing of the last stretch was aired to the end of a segment: it is as if it had not been.
    pub unseen: bool,
}

/// A channel's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// By their instants; never empty.
    runs: Vec<Run>,
}

impl Run {
    /// The channel's time behind it.
    fn end(&self) -> i64 {
        self.at_ms.saturating_add(self.to_ms.saturating_sub(self.from_ms))
    }
}

impl Pace {
    /// A clock that stands at a channel's beginning.
    pub fn new(start_ms: i64) -> Self {
        Self::same(start_ms, start_ms)
    }

    /// The clock of a channel that had none of its own until an instant.
    pub fn same(start_ms: i64, until_ms: i64) -> Self {
        let to_ms = until_ms.max(start_ms);
        let first = Run { from_ms: start_ms, to_ms, at_ms: start_ms, passed: 0, changes: 0, ticks: 0, turn: true };
        Self { runs: vec![first] }
    }

    /// Stretches as they were kept, in any order; of two that begin together the later one counts. None without any.
    pub fn of(runs: Vec<Run>) -> Option<Self> {
        let mut sorted: Vec<Run> = Vec::with_capacity(runs.len());
        let mut runs = runs;
        runs.sort_by_key(|run| run.from_ms);
        for run in runs {
            match sorted.last_mut() {
                Some(last) if last.from_ms == run.from_ms => *last = run,
                _ => sorted.push(run),
            }
        }
        for n in 1..sorted.len() {
            let (next, last) = (sorted[n], &mut sorted[n - 1]);
            // It may have ended before it was known to.
            let most = next.from_ms.min(last.from_ms.saturating_add((next.at_ms - last.at_ms).max(0)));
            last.to_ms = last.to_ms.clamp(last.from_ms, most);
            let end = last.end();
            sorted[n].at_ms = sorted[n].at_ms.max(end);
        }
        let mut pace = Self { runs: sorted };
        let last = pace.runs.last_mut()?;
        last.to_ms = last.to_ms.max(last.from_ms);
        Some(pace)
    }

    /// The stretches, by their instants.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    fn last(&self) -> &Run {
        self.runs.last().expect("a clock has a stretch")
    }

    /// Since when it is known how the clock went.
    pub fn known_ms(&self) -> i64 {
        self.runs[0].from_ms
    }

    /// Whether it stands while nobody watches, from the last stretch on.
    pub fn waits(&self) -> bool {
        self.last().to_ms != ENDLESS
    }

    /// Whether it runs until an instant, as far as it is known.
    pub fn lasts(&self, until_ms: i64) -> bool {
        self.last().to_ms >= until_ms
    }

    /// Whether it stands at an instant behind the last change.
    pub fn stands(&self, now_ms: i64) -> bool {
        self.last().to_ms <= now_ms
    }

    /// The channel's time at an instant. What was before all that is known counts as aired without a break.
    pub fn at(&self, instant_ms: i64) -> i64 {
        match self.runs.partition_point(|run| run.from_ms <= instant_ms).checked_sub(1) {
            Some(n) => {
                let run = &self.runs[n];
                run.at_ms.saturating_add(instant_ms.min(run.to_ms) - run.from_ms)
            }
            None => self.before(instant_ms),
        }
    }

    fn before(&self, instant_ms: i64) -> i64 {
        let first = self.runs[0];
        first.at_ms.saturating_sub(first.from_ms.saturating_sub(instant_ms))
    }

    /// The first instant at which the clock is as far as that, as far as it is known: where something ends.
    pub fn reached(&self, time_ms: i64) -> i64 {
        match self.runs.partition_point(|run| run.end() < time_ms) {
            n if n == self.runs.len() => ENDLESS,
            n => {
                let run = &self.runs[n];
                match time_ms <= run.at_ms {
                    true if n == 0 => run.from_ms.saturating_sub(run.at_ms.saturating_sub(time_ms)),
                    true => run.from_ms,
                    false => run.from_ms.saturating_add(time_ms - run.at_ms),
                }
            }
        }
    }

    /// The last instant at which the clock is no further than that: where something that was aired begins.
    pub fn left(&self, time_ms: i64) -> i64 {
        match self.runs.partition_point(|run| run.at_ms <= time_ms).checked_sub(1) {
            None => self.reached(time_ms),
            Some(n) if time_ms < self.runs[n].end() => self.runs[n].from_ms + (time_ms - self.runs[n].at_ms),
            Some(n) => self.runs.get(n + 1).map_or(self.runs[n].to_ms, |next| next.from_ms),
        }
    }

    /// The channel's time as it was aired, without what was skipped.
    pub fn legs(&self) -> Vec<Leg> {
        let mut legs: Vec<Leg> = Vec::new();
        let mut end = i64::MIN;
        for run in &self.runs {
            match legs.last_mut() {
                Some(leg) if run.at_ms == end => leg.to_ms = run.end(),
                before => {
                    let from_ms = if before.is_some() { run.at_ms } else { i64::MIN };
                    let Run { passed, changes, ticks, .. } = *run;
                    legs.push(Leg { from_ms, to_ms: run.end(), passed, changes, ticks });
                }
            }
            end = run.end();
        }
        if let Some(last) = legs.last_mut() {
            last.to_ms = i64::MAX;
        }
        legs
    }

    /// What was passed before a programme that was aired; it may begin before all that is known.
    pub fn leg(&self, programme_ms: i64) -> Leg {
        let legs = self.legs();
        *legs.iter().rfind(|leg| leg.from_ms <= programme_ms).expect("the first has no beginning")
    }

    /// The clock as guides take it: what was, and from now on as if somebody watched.
    #[must_use]
    pub fn ahead(&self, now_ms: i64) -> Self {
        let mut ahead = self.clone();
        let last = *self.last();
        if last.to_ms > now_ms {
            ahead.runs.last_mut().expect("a clock has a stretch").to_ms = ENDLESS;
        } else {
            ahead.runs.push(Run { from_ms: next_step(now_ms), to_ms: ENDLESS, at_ms: last.end(), turn: false, ..last });
        }
        ahead
    }

    /// What guides depend on of it: another value where they say something else.
    pub fn stamp(&self, now_ms: i64) -> u64 {
        let last = self.last();
        let stands = if last.to_ms > now_ms { [0; 2] } else { [last.to_ms, next_step(now_ms)] };
        let mut hasher = blake3::Hasher::new();
        for number in [self.runs[0].from_ms, last.from_ms, last.at_ms].iter().chain(&stands) {
            hasher.update(&number.to_le_bytes());
        }
        u64::from_le_bytes(hasher.finalize().as_bytes()[..8].try_into().expect("eight of thirty-two"))
    }

    /// When guides came to say what they say.
    pub fn changed_ms(&self, now_ms: i64) -> i64 {
        let last = self.last();
        if last.to_ms > now_ms { last.from_ms } else { last.to_ms.max(next_step(now_ms) - STEP_MS) }
    }

    /// Somebody watches: it runs until then at least. None where it does anyway.
    pub fn running(&self, now_ms: i64, until_ms: i64) -> Option<Self> {
        let last = *self.last();
        if last.to_ms >= until_ms {
            return None;
        }
        match last.to_ms >= now_ms {
            true => Some(self.with(Run { to_ms: until_ms, ..last }, now_ms)),
            false => Some(
                self.with(Run { from_ms: now_ms, to_ms: until_ms, at_ms: last.end(), turn: false, ..last }, now_ms),
            ),
        }
    }

    /// Nobody watches any more: it stands from now on. None where it does, or goes on for good.
    pub fn halted(&self, now_ms: i64) -> Option<Self> {
        let last = *self.last();
        let to_ms = now_ms.max(last.from_ms);
        (last.to_ms > to_ms && self.waits()).then(|| self.with(Run { to_ms, ..last }, now_ms))
    }

    /// It is moved forward: for as long as it would have run it goes on from there.
    #[must_use]
    pub fn skipped(&self, now_ms: i64, jump: Jump) -> Self {
        let last = *self.last();
        let from_ms = now_ms.max(last.from_ms);
        let Jump { to_ms: at_ms, passed, changes, ticks, .. } = jump;
        let next = Run { from_ms, to_ms: last.to_ms.max(from_ms), at_ms, passed, changes, ticks, turn: false };
        let mut before = self.clone();
        let jumped = self.runs.len() > 1 && self.runs[self.runs.len() - 2].end() < last.at_ms;
        if jump.unseen && jumped && !last.turn {
            before.runs.pop();
        }
        before.with(next, now_ms)
    }

    /// From now on it stands while nobody watches, or goes on from where it is.
    #[must_use]
    pub fn turned(&self, now_ms: i64, waits: bool) -> Self {
        let last = *self.last();
        let from_ms = now_ms.max(last.from_ms + 1);
        let to_ms = if waits { from_ms } else { ENDLESS };
        self.with(Run { from_ms, to_ms, at_ms: self.at(from_ms), turn: true, ..last }, now_ms)
    }

    /// With another stretch at its end, and without what is too old or too many.
    fn with(&self, run: Run, now_ms: i64) -> Self {
        let mut runs = self.runs.clone();
        runs.push(run);
        let mut pace = Self::of(runs).expect("one was added");
        let runs = &mut pace.runs;
        let (mut old, mut left_ms) = (0, 0_i64);
        for (n, run) in runs.iter().enumerate().rev() {
            let is_old = n + 1 < runs.len() && run.to_ms < now_ms - KEPT_MS && left_ms >= LEAST_MS;
            if is_old || runs.len() - n > MOST {
                old = n + 1;
                break;
            }
            left_ms = left_ms.saturating_add(run.end() - run.at_ms);
        }
        runs.drain(..old);
        pace
    }
}

/// The next full minute.
fn next_step(now_ms: i64) -> i64 {
    (now_ms.div_euclid(STEP_MS) + 1) * STEP_MS
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(passed: &u64) -> bool {
    *passed == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_nothing(ticks: &i64) -> bool {
    *ticks == 0
}

#[cfg(test)]
mod tests;
