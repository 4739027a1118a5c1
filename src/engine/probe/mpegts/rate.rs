//! The frame rate, measured by decode timestamps.

use super::super::outline::{Unsure, usual_rate};
use super::FEWEST;
use crate::domain::time::{FrameRate, TICKS_PER_SECOND};

/// Maximum deviation from even steps by clocks rounded to 1 ms, ticks.
const STRAY: f64 = 100.0;

/// Maximum relative error of an accepted rate; 24 and 24000/1001 differ by five times as much.
const SURE: f64 = 0.0002;

/// The frame rate, and the frame duration in ticks. `stated` is the rate in the video's own headers. It is used if the
/// clock is too coarse to measure a rate and does not contradict it.
pub(super) fn of(times: impl Iterator<Item = i64>, stated: Option<f64>) -> Result<(FrameRate, i64), Unsure> {
    let times: Vec<i64> = times.collect();
    let (&[first, ..], &[.., last]) = (&times[..], &times[..]) else { return Err(Unsure("no frames")) };
    let span = (last - first) as f64;
    let mean = span / (times.len() - 1).max(1) as f64;
    let strays = times.windows(2).map(|pair| ((pair[1] - pair[0]) as f64 - mean).abs());
    let most = strays.fold(0.0, f64::max);
    if times.len() < FEWEST || mean <= 0.0 || most > STRAY.min(mean / 4.0) {
        return Err(Unsure("no constant frame rate"));
    }
    let measured = TICKS_PER_SECOND as f64 / mean;
    let doubt = 2.0 * most / span;
    let near = |rate: &f64| (rate / measured - 1.0).abs() <= doubt.max(SURE);
    let meant = if doubt <= SURE { Some(measured) } else { stated.filter(near) };
    let rate = meant.and_then(usual_rate).ok_or(Unsure("an unusual frame rate"))?;
    Ok((rate, mean.round() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_coarse_clock_needs_the_headers() {
        let film = FrameRate { num: 24_000, den: 1001 };
        let exact = (0..12).map(|n| film.frame_start_ticks(n));
        assert_eq!(of(exact, None), Ok((film, 3754)));
        let coarse = |count| (0..count).map(move |n| (film.frame_start_ticks(n) + 45) / 90 * 90);
        assert!(of(coarse(24), None).is_err());
        assert_eq!(of(coarse(24), Some(24_000.0 / 1001.0)).unwrap().0, film);
        assert!(of(coarse(24), Some(25.0)).is_err(), "the clock contradicts the header");
    }

    proptest! {
        #[test]
        fn a_gap_or_a_jump_gives_no_rate(at in 1usize..23, gap in prop_oneof![-1_000_000i64..-1000, 1000i64..1_000_000]) {
            let times = (0..24).map(|n| 3600 * n as i64 + if n >= at { gap } else { 0 });
            prop_assert!(of(times, Some(25.0)).is_err());
        }
    }
}
