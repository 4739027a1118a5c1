//! A channel's own clock, for channels that air on demand: it runs while a viewer watches, pauses while there is none, and
//! jumps forward when a programme is skipped. It never goes back.
//!
//! Schedule, segments and their numbers are functions of channel time, with or without such a clock. This module converts
//! between channel time and wall-clock time. The clock is a short list of running intervals. A finished interval never
//! changes. The current one is stored with its end in advance, and that end is extended while viewers remain. So the stored
//! clock is correct without a write at the end, even after the server was killed.
//!
//! All instants are ms since 1970.

use serde::{Deserialize, Serialize};

/// The end of an interval without end: the clock runs whether there are viewers or not.
pub const ENDLESS: i64 = i64::MAX;

/// Maximum number of stored intervals.
const MOST: usize = 1024;

/// How long intervals are kept, ms: a guide may reach back a week, and a downloaded guide may be a week old.
const KEPT_MS: i64 = 14 * 24 * 3_600_000;

/// The kept intervals cover at least this much channel time, however old they are, ms: a playlist lists the last minute.
const LEAST_MS: i64 = 180_000;

/// Guides assume that a paused clock resumes at the next full minute, so their content stays the same for this long, ms.
const STEP_MS: i64 = 60_000;

/// A wall-clock interval in which channel time advances at normal speed. The clock is paused after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub from_ms: i64,
    pub to_ms: i64,
    /// Channel time at `from_ms`.
    #[serde(rename = "at_ms")]
    pub at_ms: i64,
    /// Scheduled segments skipped before this interval. Later segments are numbered as if the skipped ones did not exist.
    #[serde(rename = "passed", default, skip_serializing_if = "is_none")]
    pub passed: u64,
    /// Skipped discontinuities, counted likewise.
    #[serde(rename = "changes", default, skip_serializing_if = "is_none")]
    pub changes: u64,
    /// Skipped time on the timeline of the segments' timestamps, ticks.
    #[serde(rename = "ticks", default, skip_serializing_if = "is_nothing")]
    pub ticks: i64,
    /// Created when `onDemand` was switched on or off.
    #[serde(rename = "turn", default, skip_serializing_if = "std::ops::Not::not")]
    pub turn: bool,
}

/// An interval of channel time that was, or will be, aired without a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    pub from_ms: i64,
    /// `i64::MAX` for the last.
    pub to_ms: i64,
    pub passed: u64,
    pub changes: u64,
    pub ticks: i64,
}

/// The target of a skip: an instant of channel time, and the skipped totals up to there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    pub to_ms: i64,
    pub passed: u64,
    pub changes: u64,
    pub ticks: i64,
    /// No segment of the last interval was aired to its end, so that interval is dropped.
    pub unseen: bool,
}

/// A channel's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Sorted by wall-clock time; never empty.
    runs: Vec<Run>,
}

impl Run {
    /// Channel time at its end.
    fn end(&self) -> i64 {
        self.at_ms.saturating_add(self.to_ms.saturating_sub(self.from_ms))
    }
}

impl Pace {
    /// A clock paused at the channel's start.
    pub fn new(start_ms: i64) -> Self {
        Self::same(start_ms, start_ms)
    }

    /// The clock of a channel that followed wall-clock time up to an instant.
    pub fn same(start_ms: i64, until_ms: i64) -> Self {
        let to_ms = until_ms.max(start_ms);
        let first = Run { from_ms: start_ms, to_ms, at_ms: start_ms, passed: 0, changes: 0, ticks: 0, turn: true };
        Self { runs: vec![first] }
    }

    /// Rebuilds a clock from stored intervals in any order. Of two that begin together the later one wins. None if there are
    /// none.
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
            // The interval may have ended earlier than its stored end.
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

    /// The intervals, sorted by wall-clock time.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    fn last(&self) -> &Run {
        self.runs.last().expect("a clock has an interval")
    }

    /// The earliest wall-clock instant the clock still has records of.
    pub fn known_ms(&self) -> i64 {
        self.runs[0].from_ms
    }

    /// Whether the clock pauses without viewers (on demand), as of the last interval.
    pub fn waits(&self) -> bool {
        self.last().to_ms != ENDLESS
    }

    /// Whether the clock is already set to run until an instant.
    pub fn lasts(&self, until_ms: i64) -> bool {
        self.last().to_ms >= until_ms
    }

    /// Whether the clock is paused at an instant after the last change.
    pub fn stands(&self, now_ms: i64) -> bool {
        self.last().to_ms <= now_ms
    }

    /// Channel time at a wall-clock instant. Time before the first record counts as aired without a pause.
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

    /// The first wall-clock instant at which channel time reaches `time_ms`: when something ends. [`ENDLESS`] if it is not
    /// reached within the known intervals.
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

    /// The last wall-clock instant at which channel time is at most `time_ms`: when something that was aired begins.
    pub fn left(&self, time_ms: i64) -> i64 {
        match self.runs.partition_point(|run| run.at_ms <= time_ms).checked_sub(1) {
            None => self.reached(time_ms),
            Some(n) if time_ms < self.runs[n].end() => self.runs[n].from_ms + (time_ms - self.runs[n].at_ms),
            Some(n) => self.runs.get(n + 1).map_or(self.runs[n].to_ms, |next| next.from_ms),
        }
    }

    /// The intervals of channel time that were aired, without the skipped ones.
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

    /// The interval a programme was aired in, with the totals skipped before it. It may begin before the first record.
    pub fn leg(&self, programme_ms: i64) -> Leg {
        let legs = self.legs();
        *legs.iter().rfind(|leg| leg.from_ms <= programme_ms).expect("the first has no beginning")
    }

    /// The clock that guides use: the past as it was, and from now on as if there were a viewer.
    #[must_use]
    pub fn ahead(&self, now_ms: i64) -> Self {
        let mut ahead = self.clone();
        let last = *self.last();
        if last.to_ms > now_ms {
            ahead.runs.last_mut().expect("a clock has an interval").to_ms = ENDLESS;
        } else {
            ahead.runs.push(Run { from_ms: next_step(now_ms), to_ms: ENDLESS, at_ms: last.end(), turn: false, ..last });
        }
        ahead
    }

    /// A hash of everything guides depend on: it differs where the guide would differ.
    pub fn stamp(&self, now_ms: i64) -> u64 {
        let last = self.last();
        let stands = if last.to_ms > now_ms { [0; 2] } else { [last.to_ms, next_step(now_ms)] };
        let mut hasher = blake3::Hasher::new();
        for number in [self.runs[0].from_ms, last.from_ms, last.at_ms].iter().chain(&stands) {
            hasher.update(&number.to_le_bytes());
        }
        u64::from_le_bytes(hasher.finalize().as_bytes()[..8].try_into().expect("eight of thirty-two"))
    }

    /// When the guide's content last changed (for `Last-Modified`).
    pub fn changed_ms(&self, now_ms: i64) -> i64 {
        let last = self.last();
        if last.to_ms > now_ms { last.from_ms } else { last.to_ms.max(next_step(now_ms) - STEP_MS) }
    }

    /// A viewer is present: the clock runs at least until `until_ms`. None if it already does.
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

    /// The last viewer has left: the clock pauses now. None if it is paused, or runs without end.
    pub fn halted(&self, now_ms: i64) -> Option<Self> {
        let last = *self.last();
        let to_ms = now_ms.max(last.from_ms);
        (last.to_ms > to_ms && self.waits()).then(|| self.with(Run { to_ms, ..last }, now_ms))
    }

    /// Jumps forward and keeps the end up to which the clock was set to run.
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

    /// Switches on-demand mode on (`waits`: pause without viewers) or off (continue from the current channel time).
    #[must_use]
    pub fn turned(&self, now_ms: i64, waits: bool) -> Self {
        let last = *self.last();
        let from_ms = now_ms.max(last.from_ms + 1);
        let to_ms = if waits { from_ms } else { ENDLESS };
        self.with(Run { from_ms, to_ms, at_ms: self.at(from_ms), turn: true, ..last }, now_ms)
    }

    /// Appends an interval and drops those that are too old or too many.
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

#[allow(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_none(passed: &u64) -> bool {
    *passed == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_nothing(ticks: &i64) -> bool {
    *ticks == 0
}

#[cfg(test)]
mod tests;
