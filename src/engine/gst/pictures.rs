//! Picks one source frame for every frame of the grid.
//!
//! Grid frame *n* shows the last source frame that starts at or before it, rounded to the nearest grid frame, as ffmpeg's
//! `fps` filter does. Variable rates, gaps, a late first frame and an early last one all become repeats or drops.

use crate::domain::time::FrameRate;

/// Picks source frames of type `T` (anything cheap to clone).
#[derive(Debug)]
pub(super) struct Pictures<T> {
    rate: FrameRate,
    /// The grid frame returned next.
    next: u64,
    /// The grid frame after the last one.
    end: u64,
    /// The current source frame.
    held: Option<T>,
    /// `held` is known to be shown in all grid frames before this one.
    until: u64,
    /// The source frame shown starting at grid frame `until`.
    waiting: Option<T>,
    ended: bool,
}

impl<T: Clone> Pictures<T> {
    pub(super) fn new(rate: FrameRate, first: u64, end: u64) -> Self {
        Self { rate, next: first, end, held: None, until: first, waiting: None, ended: false }
    }

    /// The next grid frame with its source frame, if that is known already.
    pub(super) fn take(&mut self) -> Option<(u64, T)> {
        if self.next >= self.end {
            return None;
        }
        if self.next >= self.until {
            if let Some(picture) = self.waiting.take() {
                self.held = Some(picture);
            } else if !self.ended {
                return None;
            }
        }
        if self.next >= self.until && !self.ended {
            return None;
        }
        let picture = self.held.clone()?;
        self.next += 1;
        Some((self.next - 1, picture))
    }

    /// Adds the next source frame, at `nanoseconds` of the item. Call only when `take` returned None.
    pub(super) fn offer(&mut self, picture: T, nanoseconds: i64) {
        let at = frame_at(self.rate, nanoseconds);
        self.until = self.until.max(at);
        if at <= self.next || self.held.is_none() {
            // Shown at the next grid frame already; or the first frame of the source, which also fills those before it.
            self.held = Some(picture);
        } else {
            self.waiting = Some(picture);
        }
    }

    /// Marks the end of the source: its last frame is repeated. False if there was none.
    pub(super) fn finish(&mut self) -> bool {
        self.ended = true;
        self.held.is_some()
    }
}

/// The grid frame nearest to a time; 0 for times before the item.
fn frame_at(rate: FrameRate, nanoseconds: i64) -> u64 {
    let numerator = i128::from(nanoseconds.max(0)) * i128::from(rate.num) * 2;
    let step = i128::from(rate.den) * 1_000_000_000;
    ((numerator + step) / (step * 2)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: FrameRate = FrameRate { num: 25, den: 1 };

    fn chosen(first: u64, end: u64, times_ms: &[i64]) -> Vec<i64> {
        let mut pictures = Pictures::new(RATE, first, end);
        let mut out = Vec::new();
        for &ms in times_ms {
            out.extend(std::iter::from_fn(|| pictures.take()));
            pictures.offer(ms, ms * 1_000_000);
        }
        out.extend(std::iter::from_fn(|| pictures.take()));
        if pictures.finish() {
            out.extend(std::iter::from_fn(|| pictures.take()));
        }
        assert!(out.iter().map(|(frame, _)| *frame).eq(first..first + out.len() as u64));
        out.into_iter().map(|(_, ms)| ms).collect()
    }

    #[test]
    fn a_constant_rate_goes_through_and_rounded_times_do_not_matter() {
        assert_eq!(chosen(0, 4, &[0, 40, 80, 120]), [0, 40, 80, 120]);
        assert_eq!(chosen(0, 4, &[1, 39, 81, 119]), [1, 39, 81, 119]);
        assert_eq!(chosen(2, 4, &[0, 40, 80, 120, 160]), [80, 120]);
    }

    #[test]
    fn gaps_repeat_late_starts_and_early_ends_too() {
        assert_eq!(chosen(0, 6, &[0, 160]), [0, 0, 0, 0, 160, 160]);
        assert_eq!(chosen(0, 4, &[80, 120]), [80, 80, 80, 120]);
        assert_eq!(chosen(5, 8, &[0, 40]), [40, 40, 40]);
        assert_eq!(chosen(0, 3, &[]), [] as [i64; 0]);
    }

    #[test]
    fn too_many_pictures_are_dropped() {
        assert_eq!(chosen(0, 3, &[0, 10, 20, 30, 40, 50, 60, 70, 80]), [10, 50, 80]);
    }

    proptest! {
        #[test]
        fn every_frame_shows_the_last_picture_that_began_before_it(
            steps in proptest::collection::vec(0i64..300, 1..60), first in 0u64..40, length in 1u64..60,
        ) {
            let times: Vec<i64> = steps.iter().scan(0, |at, step| { *at += step; Some(*at) }).collect();
            let out = chosen(first, first + length, &times);
            prop_assert_eq!(out.len() as u64, length);
            for (frame, shown) in (first..).zip(out) {
                let begun = |ms: &&i64| frame_at(RATE, **ms * 1_000_000) <= frame;
                let expected = times.iter().rfind(begun).unwrap_or(&times[0]);
                // Several source frames may start at one grid frame: any of them is right.
                prop_assert_eq!(frame_at(RATE, shown * 1_000_000), frame_at(RATE, *expected * 1_000_000));
            }
        }
    }
}
