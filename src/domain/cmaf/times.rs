//! The times of a segment's samples: decode times from presentation times, and the clocks that repair rounded times.
//!
//! Only the samples of one segment are needed. All times are in units of the track's timescale.

mod audio_clock;
mod frame_clock;

pub use audio_clock::AudioClock;
pub use frame_clock::FrameClock;

use super::Sample;

/// Timescales of video, units per second. Below the least, frames that share an interval of a frame's length would have no
/// room for different decode times; above the greatest, a duration of 32 bits ends after an hour.
const MIN_TIMESCALE: u32 = 10_000;
const MAX_TIMESCALE: u32 = 1_000_000;

/// The timescale for video from a container that counts `source` units per second: the least multiple that is fine enough,
/// so that [`rescale`](crate::domain::time::rescale) converts every time exactly. Above 1,000,000 it is 90,000, with times
/// rounded.
pub fn video_timescale(source: u32) -> u32 {
    match source {
        1..MIN_TIMESCALE => source * MIN_TIMESCALE.div_ceil(source),
        MIN_TIMESCALE..=MAX_TIMESCALE => source,
        _ => 90_000,
    }
}

/// Sets the decode times of a segment's samples, which are in decoding order, from their presentation times. `end` is the
/// decode time of the next segment's first sample.
///
/// A sample is decoded at the earliest presentation time from its own to the end of the segment. Samples that share such a
/// time are spread evenly over the interval since the sample before them. Decode times rise by at least one unit, up to
/// `end`, and none is later than its presentation time: composition offsets are never negative, and the first decode time
/// is the earliest presentation time. Only where a segment begins with leading pictures (open GOP), or where presentation
/// times are equal, is it earlier, by one unit for each sample that would have to wait: see [`first_decode_time`].
pub fn squeeze_decode_times(samples: &mut [Sample], end: i64) {
    let mut next = end;
    for sample in samples.iter_mut().rev() {
        next = sample.pts.min(next);
        sample.dts = next;
    }
    spread_equal_times(samples, end);
    let mut next = end;
    for sample in samples.iter_mut().rev() {
        sample.dts = sample.dts.min(next.saturating_sub(1));
        next = sample.dts;
    }
}

/// Spreads decode times that are equal over the interval from the sample before them. The last one keeps its time. A sample
/// after the last has the decode time `end`.
fn spread_equal_times(samples: &mut [Sample], end: i64) {
    let mut first = 0;
    let mut before = None;
    while let Some(&Sample { dts: time, .. }) = samples.get(first) {
        let count = samples[first..].iter().take_while(|sample| sample.dts == time).count();
        let is_shared_with_end = first + count == samples.len() && time == end;
        let parts = count as i128 + i128::from(is_shared_with_end);
        if let Some(before) = before {
            let interval = i128::from(time) - i128::from(before);
            for (n, sample) in (1..).zip(&mut samples[first..first + count]) {
                sample.dts = (i128::from(before) + interval * n / parts) as i64;
            }
        }
        before = Some(time);
        first += count;
    }
}

/// The decode time that [`squeeze_decode_times`] gives the first sample, from the segment's presentation times in decoding
/// order; None without samples. The segment before ends there.
///
/// A segment that begins with a keyframe which no frame precedes in presentation (closed GOP) begins at its presentation
/// time. Otherwise the times up to the earliest one must be known.
pub fn first_decode_time(presentation_times: impl IntoIterator<Item = i64>) -> Option<i64> {
    (0..).zip(presentation_times).map(|(n, time): (i64, i64)| time.saturating_sub(n)).min()
}

#[cfg(test)]
pub mod tests;
