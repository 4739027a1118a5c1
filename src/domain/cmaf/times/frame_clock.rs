//! Presentation times of video that a file rounded to its own clock, e.g. Matroska to milliseconds.

use crate::domain::time::{FrameRate, Ticks, rescale};

/// The highest frame rate that is recognized, frames per second.
const MAX_RATE: i128 = 240;

/// Puts rounded times back on the frame rate they were rounded from.
///
/// A time moves by at most 1.1 ms. A time further from the grid of frames stays as the file has it, so a variable frame rate
/// or a wrong stated frame duration does no harm. The result depends on the time alone: a segment's end and the next
/// segment's first frame are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameClock {
    rate: Option<FrameRate>,
    /// A frame's time, from which the grid of frames extends both ways.
    origin: Ticks,
}

impl FrameClock {
    /// `frame_nanos` is the stated duration of a frame (Matroska `DefaultDuration`, RFC 9559 section 5.1.4.1.13), `origin`
    /// the time of the file's first frame.
    pub fn new(frame_nanos: Option<u64>, origin: Ticks) -> Self {
        Self { rate: frame_nanos.and_then(recognize_rate), origin }
    }

    /// Units per second of the track: 1000 per frame, or 1001 for rates like 23.976; 90,000 without a known rate.
    pub fn timescale(&self) -> u32 {
        self.rate.map_or(Ticks::PER_SECOND as u32, |rate| rate.num)
    }

    /// Duration of a frame, in units of the timescale; None without a known rate.
    pub fn frame_duration(&self) -> Option<u32> {
        self.rate.map(|rate| rate.den)
    }

    /// Converts a time to units of the timescale, on the grid of frames if that is near.
    pub fn to_units(&self, time: Ticks) -> i64 {
        let Some(FrameRate { num, den }) = self.rate else { return time.0 };
        let own = time.to_units(num);
        let origin = self.origin.to_units(num);
        let frames = rescale(i128::from(own) - i128::from(origin), 1, den);
        let on_grid = i128::from(origin) + i128::from(frames) * i128::from(den);
        let is_near = (on_grid - i128::from(own)).abs() * 10_000 <= i128::from(num) * 11;
        if is_near { on_grid as i64 } else { own }
    }
}

/// The rate that a frame duration was rounded from: a whole number, or 1000/1001 of one. Within 0.02 %.
fn recognize_rate(frame_nanos: u64) -> Option<FrameRate> {
    let frame_nanos = i128::from(frame_nanos);
    [1000, 1001].into_iter().find_map(|den: u32| {
        // Frames per 1000 s or 1001 s, in thousands.
        let period = i128::from(den) * 1_000_000;
        let rate = i128::from(rescale(period, 1, frame_nanos.max(1)));
        let is_near = (rate * frame_nanos - period).abs() * 5000 <= period;
        let is_known = is_near && (1..=MAX_RATE).contains(&rate);
        is_known.then(|| FrameRate { num: rate as u32 * 1000, den })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILM: u64 = 41_708_333;

    fn milliseconds(units: i64, timescale: u32) -> i64 {
        rescale(i128::from(units) * 1000, 1, timescale)
    }

    #[test]
    fn rates_are_recognized_from_rounded_durations() {
        let rate = |nanos| recognize_rate(nanos).map(|rate| (rate.num, rate.den));
        assert_eq!(rate(FILM), Some((24_000, 1001)));
        assert_eq!(rate(41_666_666), Some((24_000, 1000)));
        assert_eq!(rate(40_000_000), Some((25_000, 1000)));
        assert_eq!(rate(33_366_667), Some((30_000, 1001)));
        assert_eq!(rate(33_333_333), Some((30_000, 1000)));
        assert_eq!(rate(16_683_333), Some((60_000, 1001)));
        assert_eq!(rate(200_000_000), Some((5000, 1000)));
        assert_eq!(rate(8_333_333), Some((120_000, 1000)));
        // Rounded to milliseconds, absent or absurd.
        for nanos in [42_000_000, 33_000_000, 0, 1, 1000, u64::MAX, 3_000_000_000] {
            assert_eq!(rate(nanos), None, "{nanos}");
        }
    }

    #[test]
    fn rounded_times_return_to_the_grid_of_frames() {
        for origin in [0, 83, -42] {
            let clock = FrameClock::new(Some(FILM), Ticks::from_ms(origin));
            let first = clock.to_units(Ticks::from_ms(origin));
            for n in 0..200_000 {
                let time = Ticks::from_ms(origin + milliseconds(n * 1001, 24_000));
                assert_eq!(clock.to_units(time), first + n * 1001, "frame {n}");
            }
        }
    }

    #[test]
    fn a_wrong_frame_duration_moves_no_time_by_more_than_it_may() {
        // A file of 24 frames per second that states 23.976.
        let clock = FrameClock::new(Some(FILM), Ticks::ZERO);
        let times: Vec<i64> =
            (0..5000).map(|n| clock.to_units(Ticks::from_ms(milliseconds(n * 1000, 24_000)))).collect();
        assert!(times.iter().zip(0..).all(|(&time, n)| (time - n * 1000).abs() <= 40));
        assert!(times.is_sorted_by(|a, b| b - a > 900 && b - a < 1100));
    }

    proptest! {
        #[test]
        fn no_time_moves_by_more_than_it_may(
            nanos in proptest::option::of(1u64..1 << 33), origin in any::<i32>(), time in -1i64 << 50..1 << 50
        ) {
            let clock = FrameClock::new(nanos, Ticks(origin.into()));
            let moved = i128::from(clock.to_units(Ticks(time))) * 90_000 - i128::from(time) * i128::from(clock.timescale());
            let half_unit = 45_000;
            prop_assert!(moved.abs() <= 99 * i128::from(clock.timescale()) + half_unit);
        }

        #[test]
        fn no_time_overflows(nanos in any::<Option<u64>>(), origin in any::<i64>(), time in any::<i64>()) {
            FrameClock::new(nanos, Ticks(origin)).to_units(Ticks(time));
        }
    }
}
