//! Times of audio frames, counted in samples.

use crate::domain::time::Ticks;

/// Counts samples from block to block, because a file's own times are rounded, and only the first frame of a laced block has
/// one.
///
/// The count starts on the grid of frames that begins with the file's first frame, so that consecutive segments agree. Where
/// a block is off by more than the rounding of the file's clock and a sample, e.g. after a gap, the count continues on the
/// grid, or else at the block's own time. It never steps back: a block that begins before the end of the frame before it, as
/// laced blocks may after a jump, follows that frame.
///
/// Which frames belong to a segment must be decided by the times of the file, because the count depends on where it starts.
#[derive(Clone, Copy, Debug)]
pub struct AudioClock {
    /// The timescale: samples per second.
    sample_rate: u32,
    /// Time of the file's first frame.
    origin: i64,
    tolerance: i64,
    end: Option<i64>,
}

impl AudioClock {
    /// `origin` is the time of the file's first frame, `rounding` the unit of the file's clock, e.g. 1 ms.
    pub fn new(sample_rate: u32, origin: Ticks, rounding: Ticks) -> Self {
        let tolerance = rounding.abs().to_units(sample_rate).saturating_add(1);
        Self { sample_rate, origin: origin.to_units(sample_rate), tolerance, end: None }
    }

    /// Returns the time of a block's first frame, samples, and counts the block's `frames`, each of `frame_samples`.
    pub fn advance(&mut self, block_time: Ticks, frame_samples: u32, frames: u32) -> i64 {
        let own = block_time.to_units(self.sample_rate);
        let is_near = |time: &i64| time.abs_diff(own) <= self.tolerance.unsigned_abs();
        let on_grid = Some(self.nearest_on_grid(own, frame_samples));
        let start = self.end.filter(is_near).or(on_grid.filter(is_near)).unwrap_or(own);
        let start = self.end.map_or(start, |end| start.max(end));
        let samples = i64::from(frame_samples).saturating_mul(i64::from(frames));
        self.end = Some(start.saturating_add(samples));
        start
    }

    /// End of the last block, samples; None before the first.
    pub fn end(&self) -> Option<i64> {
        self.end
    }

    fn nearest_on_grid(&self, time: i64, frame_samples: u32) -> i64 {
        let step = i64::from(frame_samples.max(1));
        let offset = time.saturating_sub(self.origin).saturating_add(step / 2).rem_euclid(step) - step / 2;
        time.saturating_sub(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Ticks = Ticks::from_ms(1);

    /// The start of frame `n` of AAC at 44.1 kHz, as Matroska rounds it.
    fn rounded(n: i64) -> Ticks {
        Ticks::from_ms(Ticks::from_units(n * 1024, 44_100).as_ms_rounded())
    }

    #[test]
    fn rounded_times_become_a_count_of_samples() {
        for first in [0, 1, 777, 1 << 20] {
            let mut clock = AudioClock::new(44_100, Ticks::ZERO, MS);
            assert!((first..first + 500).all(|n| clock.advance(rounded(n), 1024, 1) == n * 1024));
            assert_eq!(clock.end(), Some((first + 500) * 1024));
        }
    }

    #[test]
    fn laced_frames_are_counted() {
        let mut clock = AudioClock::new(44_100, Ticks::ZERO, MS);
        assert!((0..100).all(|n| clock.advance(rounded(n * 8), 1024, 8) == n * 8 * 1024));
    }

    #[test]
    fn a_gap_keeps_the_grid_or_the_files_own_time() {
        let mut clock = AudioClock::new(48_000, Ticks::ZERO, MS);
        assert_eq!(clock.advance(Ticks::ZERO, 1024, 1), 0);
        // Ten frames are missing: 213.3 ms.
        assert_eq!(clock.advance(Ticks::from_ms(235), 1024, 1), 11 * 1024);
        // A jump that is not a whole number of frames.
        assert_eq!(clock.advance(Ticks::from_ms(500), 1024, 1), 24_000);
        assert_eq!(clock.advance(Ticks::from_ms(521), 1024, 1), 24_000 + 1024);
    }

    #[test]
    fn a_block_that_steps_back_follows_the_frame_before_it() {
        let mut clock = AudioClock::new(48_000, Ticks::ZERO, MS);
        assert_eq!(clock.advance(Ticks::from_ms(500), 1024, 8), 24_000);
        // 8 frames end at 670.7 ms.
        assert_eq!(clock.advance(Ticks::from_ms(660), 1024, 1), 24_000 + 8 * 1024);
        assert_eq!(clock.advance(Ticks::from_ms(710), 1024, 1), 24_000 + 9 * 1024 + 864);
    }

    proptest! {
        #[test]
        fn a_count_never_steps_back_and_stays_near_the_file(
            rate in prop_oneof![Just(44_100u32), Just(48_000), Just(96_000)],
            origin in -1000i64..1000,
            steps in proptest::collection::vec((0i64..3000, 1u32..5000, 1u32..10), 1..50),
        ) {
            let mut clock = AudioClock::new(rate, Ticks::from_ms(origin), MS);
            let (mut time, mut last_end) = (origin, i64::MIN);
            for (gap, frame_samples, frames) in steps {
                time += gap;
                let own = Ticks::from_ms(time).to_units(rate);
                let start = clock.advance(Ticks::from_ms(time), frame_samples, frames);
                prop_assert!(start >= last_end);
                prop_assert!((start - own).abs() <= i64::from(rate) / 1000 + 1 || start == last_end);
                last_end = start + i64::from(frame_samples) * i64::from(frames);
                prop_assert_eq!(clock.end(), Some(last_end));
            }
        }

        #[test]
        fn no_time_overflows(
            rate in any::<u32>(), origin in any::<i64>(), unit in any::<i64>(), blocks in any::<[(i64, u32, u32); 4]>()
        ) {
            let mut clock = AudioClock::new(rate, Ticks(origin), Ticks(unit));
            for (time, frame_samples, frames) in blocks {
                clock.advance(Ticks(time), frame_samples, frames);
            }
        }
    }
}
