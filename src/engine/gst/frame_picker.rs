//! Picks one source frame for every frame of the grid.
//!
//! Grid frame *n* shows the last source frame that starts at or before it, rounded to the nearest grid frame, as ffmpeg's
//! `fps` filter does. Variable rates, gaps, a late first frame and an early last one all become repeats or drops.

use crate::domain::time::{FrameRate, rescale};

/// Picks source frames of type `T` (anything cheap to clone).
#[derive(Debug)]
pub(super) struct FramePicker<T> {
    rate: FrameRate,
    /// The grid frame returned next.
    next_frame: u64,
    /// The grid frame after the last one.
    end_frame: u64,
    /// The current source frame.
    current: Option<T>,
    /// `current` is known to be shown in all grid frames before this one.
    current_until: u64,
    /// The source frame shown starting at grid frame `current_until`.
    upcoming: Option<T>,
    has_ended: bool,
}

impl<T: Clone> FramePicker<T> {
    pub(super) fn new(rate: FrameRate, first: u64, end_frame: u64) -> Self {
        let (next_frame, current_until) = (first, first);
        Self { rate, next_frame, end_frame, current: None, current_until, upcoming: None, has_ended: false }
    }

    /// The next grid frame with its source frame, if that is known already.
    pub(super) fn take_frame(&mut self) -> Option<(u64, T)> {
        if self.next_frame >= self.end_frame {
            return None;
        }
        if self.next_frame >= self.current_until {
            self.current = self.upcoming.take().or(self.current.take());
            if !self.has_ended {
                return None;
            }
        }
        let source_frame = self.current.clone()?;
        self.next_frame += 1;
        Some((self.next_frame - 1, source_frame))
    }

    /// Adds the next source frame, at `nanoseconds` of the item. Call only when `take_frame` returned None.
    pub(super) fn push_frame(&mut self, source_frame: T, nanoseconds: i64) {
        let grid_frame = nearest_frame(self.rate, nanoseconds);
        self.current_until = self.current_until.max(grid_frame);
        if grid_frame <= self.next_frame || self.current.is_none() {
            // Shown at the next grid frame already; or the first frame of the source, which also fills those before it.
            self.current = Some(source_frame);
        } else {
            self.upcoming = Some(source_frame);
        }
    }

    /// Marks the end of the source: its last frame is repeated. False if there was none.
    pub(super) fn finish(&mut self) -> bool {
        self.has_ended = true;
        self.current.is_some()
    }
}

/// The grid frame nearest to a time; 0 for times before the item.
fn nearest_frame(rate: FrameRate, nanoseconds: i64) -> u64 {
    rescale(nanoseconds.max(0), rate.num, i64::from(rate.den) * 1_000_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: FrameRate = FrameRate { num: 25, den: 1 };

    fn pick_frames(first: u64, end: u64, times_ms: &[i64]) -> Vec<i64> {
        let mut picker = FramePicker::new(RATE, first, end);
        let mut out = Vec::new();
        for &ms in times_ms {
            out.extend(std::iter::from_fn(|| picker.take_frame()));
            picker.push_frame(ms, ms * 1_000_000);
        }
        out.extend(std::iter::from_fn(|| picker.take_frame()));
        if picker.finish() {
            out.extend(std::iter::from_fn(|| picker.take_frame()));
        }
        assert!(out.iter().map(|(frame, _)| *frame).eq(first..first + out.len() as u64));
        out.into_iter().map(|(_, ms)| ms).collect()
    }

    #[test]
    fn a_constant_rate_is_unchanged_by_rounded_timestamps() {
        assert_eq!(pick_frames(0, 4, &[0, 40, 80, 120]), [0, 40, 80, 120]);
        assert_eq!(pick_frames(0, 4, &[1, 39, 81, 119]), [1, 39, 81, 119]);
        assert_eq!(pick_frames(2, 4, &[0, 40, 80, 120, 160]), [80, 120]);
    }

    #[test]
    fn gaps_late_starts_and_early_ends_repeat_frames() {
        assert_eq!(pick_frames(0, 6, &[0, 160]), [0, 0, 0, 0, 160, 160]);
        assert_eq!(pick_frames(0, 4, &[80, 120]), [80, 80, 80, 120]);
        assert_eq!(pick_frames(5, 8, &[0, 40]), [40, 40, 40]);
        assert_eq!(pick_frames(0, 3, &[]), [] as [i64; 0]);
    }

    #[test]
    fn surplus_frames_are_dropped() {
        assert_eq!(pick_frames(0, 3, &[0, 10, 20, 30, 40, 50, 60, 70, 80]), [10, 50, 80]);
    }

    proptest! {
        #[test]
        fn every_frame_shows_the_last_picture_that_began_before_it(
            steps in proptest::collection::vec(0i64..300, 1..60), first in 0u64..40, length in 1u64..60,
        ) {
            let times: Vec<i64> = steps.iter().scan(0, |at, step| { *at += step; Some(*at) }).collect();
            let out = pick_frames(first, first + length, &times);
            prop_assert_eq!(out.len() as u64, length);
            for (frame, shown) in (first..).zip(out) {
                let has_started = |ms: &&i64| nearest_frame(RATE, **ms * 1_000_000) <= frame;
                let expected = times.iter().rfind(has_started).unwrap_or(&times[0]);
                // Several source frames may start at one grid frame: any of them is right.
                prop_assert_eq!(nearest_frame(RATE, shown * 1_000_000), nearest_frame(RATE, *expected * 1_000_000));
            }
        }
    }
}
