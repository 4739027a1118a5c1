//! A channel's own clock, for channels that air on demand: it runs while a viewer watches, pauses without viewers, and
//! jumps forward when a programme is skipped. It never goes back.
//!
//! Schedule, segments and their numbers are functions of channel time, with or without such a clock. This module converts
//! between channel time and wall-clock time. The clock is a short list of running intervals. A finished interval never
//! changes. The current one is stored with its end in advance, and that end is extended while viewers remain. So the stored
//! clock is correct without a write at the end, even after the server was killed.
//!
//! No other code converts between the two, except for channels without a clock.

use serde::{Deserialize, Serialize};

use super::time::{ChannelMs, Ticks, WallMs};

/// The end of an interval without end: the clock runs whether there are viewers or not.
const ENDLESS: WallMs = WallMs::MAX;

/// Maximum number of stored intervals.
const MAX_INTERVALS: usize = 1024;

/// How long intervals are kept, ms: a guide may reach back a week, and a downloaded guide may be a week old.
const RETENTION_MS: i64 = 14 * 24 * 3_600_000;

/// The kept intervals cover at least this much channel time, however old they are, ms: a playlist lists the last minute.
const MIN_COVERED_MS: i64 = 180_000;

/// Guides assume that a paused clock resumes at the next full minute, so their content stays the same for this long, ms.
const GUIDE_STEP_MS: i64 = 60_000;

/// A wall-clock interval in which channel time advances at normal speed. The clock is paused after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningInterval {
    pub from_ms: WallMs,
    pub to_ms: WallMs,
    /// Channel time at `from_ms`.
    #[serde(rename = "at_ms")]
    pub channel_from_ms: ChannelMs,
    /// Scheduled segments skipped before this interval. Later segments are numbered as if the skipped ones did not exist.
    #[serde(rename = "passed", default, skip_serializing_if = "crate::domain::is_default")]
    pub skipped_segments: u64,
    /// Skipped discontinuities, counted likewise.
    #[serde(rename = "changes", default, skip_serializing_if = "crate::domain::is_default")]
    pub skipped_discontinuities: u64,
    /// Skipped time on the timeline of the segments' timestamps.
    #[serde(rename = "ticks", default, skip_serializing_if = "crate::domain::is_default")]
    pub skipped_time: Ticks,
    /// Created when `onDemand` was switched on or off.
    #[serde(rename = "turn", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_mode_change: bool,
}

/// An interval of channel time that was, or will be, aired without a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockInterval {
    pub from_ms: ChannelMs,
    /// `ChannelMs::MAX` for the last.
    pub to_ms: ChannelMs,
    pub skipped_segments: u64,
    pub skipped_discontinuities: u64,
    pub skipped_time: Ticks,
}

/// The target of a skip: an instant of channel time, and the skipped totals up to there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipTarget {
    pub to_ms: ChannelMs,
    pub skipped_segments: u64,
    pub skipped_discontinuities: u64,
    pub skipped_time: Ticks,
    /// No segment of the last interval was aired to its end, so that interval is dropped.
    pub drops_last_interval: bool,
}

/// A channel's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelClock {
    /// Sorted by wall-clock time; never empty.
    intervals: Vec<RunningInterval>,
}

impl RunningInterval {
    /// Channel time at its end.
    fn channel_to_ms(&self) -> ChannelMs {
        self.channel_from_ms.saturating_add(self.to_ms.saturating_since(self.from_ms))
    }
}

impl ChannelClock {
    /// A clock paused at the channel's start.
    pub fn new(start_ms: WallMs) -> Self {
        Self::from_wall_clock(start_ms, start_ms)
    }

    /// The clock of a channel that followed wall-clock time up to an instant.
    pub fn from_wall_clock(start_ms: WallMs, until_ms: WallMs) -> Self {
        let to_ms = until_ms.max(start_ms);
        let first = RunningInterval {
            from_ms: start_ms,
            to_ms,
            channel_from_ms: ChannelMs::without_clock(start_ms),
            skipped_segments: 0,
            skipped_discontinuities: 0,
            skipped_time: Ticks::ZERO,
            is_mode_change: true,
        };
        Self { intervals: vec![first] }
    }

    /// Rebuilds a clock from stored intervals in any order. Of two that begin together the later one wins. None if there are
    /// none.
    pub fn from_stored(mut runs: Vec<RunningInterval>) -> Option<Self> {
        let mut sorted: Vec<RunningInterval> = Vec::with_capacity(runs.len());
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
            let latest_end =
                next.from_ms.min(last.from_ms.saturating_add((next.channel_from_ms - last.channel_from_ms).max(0)));
            last.to_ms = last.to_ms.clamp(last.from_ms, latest_end);
            let end = last.channel_to_ms();
            sorted[n].channel_from_ms = sorted[n].channel_from_ms.max(end);
        }
        let mut clock = Self { intervals: sorted };
        let last = clock.intervals.last_mut()?;
        last.to_ms = last.to_ms.max(last.from_ms);
        Some(clock)
    }

    /// The intervals, sorted by wall-clock time.
    pub fn intervals(&self) -> &[RunningInterval] {
        &self.intervals
    }

    fn last_interval(&self) -> &RunningInterval {
        self.intervals.last().expect("a clock has an interval")
    }

    /// The earliest wall-clock instant the clock still has records of.
    pub fn recorded_since_ms(&self) -> WallMs {
        self.intervals[0].from_ms
    }

    /// Whether the clock pauses without viewers (on demand), as of the last interval.
    pub fn is_on_demand(&self) -> bool {
        self.last_interval().to_ms != ENDLESS
    }

    /// Whether the clock is already set to run until an instant.
    pub fn runs_until(&self, until_ms: WallMs) -> bool {
        self.last_interval().to_ms >= until_ms
    }

    /// Whether the clock is paused at an instant after the last change.
    pub fn is_paused_at(&self, now_ms: WallMs) -> bool {
        self.last_interval().to_ms <= now_ms
    }

    /// Channel time at a wall-clock instant. Time before the first record counts as aired without a pause.
    pub fn channel_ms_at(&self, wall_ms: WallMs) -> ChannelMs {
        match self.intervals.partition_point(|run| run.from_ms <= wall_ms).checked_sub(1) {
            Some(n) => {
                let run = &self.intervals[n];
                run.channel_from_ms.saturating_add(wall_ms.min(run.to_ms) - run.from_ms)
            }
            None => self.before_first_interval(wall_ms),
        }
    }

    fn before_first_interval(&self, wall_ms: WallMs) -> ChannelMs {
        let first = self.intervals[0];
        first.channel_from_ms.saturating_sub(first.from_ms.saturating_since(wall_ms))
    }

    /// The first wall-clock instant at which channel time reaches `channel_ms`: when something ends. `ENDLESS` if it is
    /// not reached within the known intervals.
    pub fn first_wall_ms(&self, channel_ms: ChannelMs) -> WallMs {
        match self.intervals.partition_point(|run| run.channel_to_ms() < channel_ms) {
            n if n == self.intervals.len() => ENDLESS,
            n => {
                let run = &self.intervals[n];
                match channel_ms <= run.channel_from_ms {
                    true if n == 0 => run.from_ms.saturating_sub(run.channel_from_ms.saturating_since(channel_ms)),
                    true => run.from_ms,
                    false => run.from_ms.saturating_add(channel_ms - run.channel_from_ms),
                }
            }
        }
    }

    /// The last wall-clock instant at which channel time is at most `channel_ms`: when something that was aired begins.
    pub fn last_wall_ms(&self, channel_ms: ChannelMs) -> WallMs {
        match self.intervals.partition_point(|run| run.channel_from_ms <= channel_ms).checked_sub(1) {
            None => self.first_wall_ms(channel_ms),
            Some(n) if channel_ms < self.intervals[n].channel_to_ms() => {
                self.intervals[n].from_ms + (channel_ms - self.intervals[n].channel_from_ms)
            }
            Some(n) => self.intervals.get(n + 1).map_or(self.intervals[n].to_ms, |next| next.from_ms),
        }
    }

    /// The intervals of channel time that were aired, without the skipped ones.
    pub fn aired_intervals(&self) -> Vec<ClockInterval> {
        let mut intervals: Vec<ClockInterval> = Vec::new();
        let mut end = ChannelMs::MIN;
        for run in &self.intervals {
            match intervals.last_mut() {
                Some(interval) if run.channel_from_ms == end => interval.to_ms = run.channel_to_ms(),
                before => {
                    let from_ms = if before.is_some() { run.channel_from_ms } else { ChannelMs::MIN };
                    intervals.push(ClockInterval {
                        from_ms,
                        to_ms: run.channel_to_ms(),
                        skipped_segments: run.skipped_segments,
                        skipped_discontinuities: run.skipped_discontinuities,
                        skipped_time: run.skipped_time,
                    });
                }
            }
            end = run.channel_to_ms();
        }
        if let Some(last) = intervals.last_mut() {
            last.to_ms = ChannelMs::MAX;
        }
        intervals
    }

    /// The interval a programme was aired in, with the totals skipped before it. It may begin before the first record.
    pub fn interval_of(&self, programme_ms: ChannelMs) -> ClockInterval {
        let intervals = self.aired_intervals();
        *intervals.iter().rfind(|interval| interval.from_ms <= programme_ms).expect("the first has no beginning")
    }

    /// The clock that guides use: the past as it was, and from now on as if there were a viewer.
    #[must_use]
    pub fn projected(&self, now_ms: WallMs) -> Self {
        let mut projected = self.clone();
        let last = *self.last_interval();
        if last.to_ms > now_ms {
            projected.intervals.last_mut().expect("a clock has an interval").to_ms = ENDLESS;
        } else {
            projected.intervals.push(RunningInterval {
                from_ms: next_full_minute(now_ms),
                to_ms: ENDLESS,
                channel_from_ms: last.channel_to_ms(),
                is_mode_change: false,
                ..last
            });
        }
        projected
    }

    /// A hash of everything guides depend on: it differs where the guide would differ.
    pub fn guide_hash(&self, now_ms: WallMs) -> u64 {
        let last = self.last_interval();
        let pause = if last.to_ms > now_ms { [0; 2] } else { [last.to_ms.0, next_full_minute(now_ms).0] };
        let mut hasher = blake3::Hasher::new();
        for number in [self.intervals[0].from_ms.0, last.from_ms.0, last.channel_from_ms.0].iter().chain(&pause) {
            hasher.update(&number.to_le_bytes());
        }
        super::hash_to_u64(hasher.finalize())
    }

    /// When the guide's content last changed (for `Last-Modified`).
    pub fn guide_changed_ms(&self, now_ms: WallMs) -> WallMs {
        let last = self.last_interval();
        if last.to_ms > now_ms { last.from_ms } else { last.to_ms.max(next_full_minute(now_ms) - GUIDE_STEP_MS) }
    }

    /// A viewer is present: the clock runs at least until `until_ms`. None if it already does.
    pub fn extended(&self, now_ms: WallMs, until_ms: WallMs) -> Option<Self> {
        let last = *self.last_interval();
        if last.to_ms >= until_ms {
            return None;
        }
        let (mut next, channel_from_ms) = (RunningInterval { to_ms: until_ms, ..last }, last.channel_to_ms());
        if last.to_ms < now_ms {
            next = RunningInterval { from_ms: now_ms, channel_from_ms, is_mode_change: false, ..next };
        }
        Some(self.with_interval(next, now_ms))
    }

    /// The last viewer has left: the clock pauses now. None if it is paused, or runs without end.
    pub fn paused(&self, now_ms: WallMs) -> Option<Self> {
        let last = *self.last_interval();
        let to_ms = now_ms.max(last.from_ms);
        (last.to_ms > to_ms && self.is_on_demand())
            .then(|| self.with_interval(RunningInterval { to_ms, ..last }, now_ms))
    }

    /// Jumps forward and keeps the end up to which the clock was set to run.
    #[must_use]
    pub fn with_skip(&self, now_ms: WallMs, target: SkipTarget) -> Self {
        let last = *self.last_interval();
        let from_ms = now_ms.max(last.from_ms);
        let next = RunningInterval {
            from_ms,
            to_ms: last.to_ms.max(from_ms),
            channel_from_ms: target.to_ms,
            skipped_segments: target.skipped_segments,
            skipped_discontinuities: target.skipped_discontinuities,
            skipped_time: target.skipped_time,
            is_mode_change: false,
        };
        let mut before = self.clone();
        let has_skip_before =
            self.intervals.len() > 1 && self.intervals[self.intervals.len() - 2].channel_to_ms() < last.channel_from_ms;
        if target.drops_last_interval && has_skip_before && !last.is_mode_change {
            before.intervals.pop();
        }
        before.with_interval(next, now_ms)
    }

    /// Switches on-demand mode on (`is_on_demand`: pause without viewers) or off (continue from the current channel time).
    #[must_use]
    pub fn with_on_demand(&self, now_ms: WallMs, is_on_demand: bool) -> Self {
        let last = *self.last_interval();
        let from_ms = now_ms.max(last.from_ms + 1);
        let to_ms = if is_on_demand { from_ms } else { ENDLESS };
        let channel_from_ms = self.channel_ms_at(from_ms);
        self.with_interval(RunningInterval { from_ms, to_ms, channel_from_ms, is_mode_change: true, ..last }, now_ms)
    }

    /// Appends an interval and drops those that are too old or too many.
    fn with_interval(&self, interval: RunningInterval, now_ms: WallMs) -> Self {
        let mut runs = self.intervals.clone();
        runs.push(interval);
        let mut clock = Self::from_stored(runs).expect("one was added");
        let runs = &mut clock.intervals;
        let (mut drop_count, mut kept_ms) = (0, 0_i64);
        for (n, run) in runs.iter().enumerate().rev() {
            let is_old = n + 1 < runs.len() && run.to_ms < now_ms - RETENTION_MS && kept_ms >= MIN_COVERED_MS;
            if is_old || runs.len() - n > MAX_INTERVALS {
                drop_count = n + 1;
                break;
            }
            kept_ms = kept_ms.saturating_add(run.channel_to_ms() - run.channel_from_ms);
        }
        runs.drain(..drop_count);
        clock
    }
}

/// Channel time at a wall-clock instant: the instant itself for a channel without a clock of its own.
pub fn channel_ms_at(clock: Option<&ChannelClock>, wall_ms: WallMs) -> ChannelMs {
    clock.map_or(ChannelMs::without_clock(wall_ms), |clock| clock.channel_ms_at(wall_ms))
}

/// The next full minute.
fn next_full_minute(now_ms: WallMs) -> WallMs {
    WallMs((now_ms.0.div_euclid(GUIDE_STEP_MS) + 1) * GUIDE_STEP_MS)
}

#[cfg(test)]
mod tests;
