//! The frame rate, measured by decode timestamps.

use super::super::outline::{Result, nearest_usual_rate, refuse_if};
use super::MIN_RATE_FRAMES;
use crate::domain::time::{FrameRate, Ticks};

/// Maximum deviation from even steps by clocks rounded to 1 ms, ticks.
const MAX_DEVIATION_TICKS: f64 = 100.0;

/// Maximum relative error of an accepted rate; 24 and 24000/1001 differ by five times as much.
const MAX_RATE_ERROR: f64 = 0.0002;

/// The frame rate, and the frame duration. `stated` is the rate in the video's own headers. It is used if the
/// clock is too coarse to measure a rate and does not contradict it.
pub(super) fn estimate_frame_rate(
    times: impl Iterator<Item = Ticks>,
    stated: Option<f64>,
) -> Result<(FrameRate, Ticks)> {
    let times: Vec<Ticks> = times.collect();
    let (&[first, ..], &[.., last]) = (&times[..], &times[..]) else { return Err("no frames") };
    let span_ticks = (last - first).0 as f64;
    let mean_ticks = span_ticks / (times.len() - 1).max(1) as f64;
    let deviations = times.windows(2).map(|pair| ((pair[1] - pair[0]).0 as f64 - mean_ticks).abs());
    let max_deviation = deviations.fold(0.0, f64::max);
    let is_even = max_deviation <= MAX_DEVIATION_TICKS.min(mean_ticks / 4.0);
    refuse_if(times.len() < MIN_RATE_FRAMES || mean_ticks <= 0.0 || !is_even, "no constant frame rate")?;
    let measured = Ticks::PER_SECOND as f64 / mean_ticks;
    let rate_error = 2.0 * max_deviation / span_ticks;
    let is_near = |rate: &f64| (rate / measured - 1.0).abs() <= rate_error.max(MAX_RATE_ERROR);
    let accepted = if rate_error <= MAX_RATE_ERROR { Some(measured) } else { stated.filter(is_near) };
    let rate = accepted.and_then(nearest_usual_rate).ok_or("an unusual frame rate")?;
    Ok((rate, Ticks(mean_ticks.round() as i64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_coarse_clock_needs_the_headers() {
        let film = FrameRate { num: 24_000, den: 1001 };
        let exact = (0..12).map(|n| film.frame_start(n));
        assert_eq!(estimate_frame_rate(exact, None), Ok((film, Ticks(3754))));
        let coarse_times = |count| (0..count).map(move |n| Ticks::from_ms(film.frame_start(n).as_ms_rounded()));
        assert!(estimate_frame_rate(coarse_times(24), None).is_err());
        assert_eq!(estimate_frame_rate(coarse_times(24), Some(24_000.0 / 1001.0)).unwrap().0, film);
        assert!(estimate_frame_rate(coarse_times(24), Some(25.0)).is_err(), "the clock contradicts the header");
    }

    proptest! {
        #[test]
        fn a_gap_or_a_jump_gives_no_rate(at in 1usize..23, gap in prop_oneof![-1_000_000i64..-1000, 1000i64..1_000_000]) {
            let times = (0..24).map(|n| Ticks(3600 * n as i64 + if n >= at { gap } else { 0 }));
            prop_assert!(estimate_frame_rate(times, Some(25.0)).is_err());
        }
    }
}
