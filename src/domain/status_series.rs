//! How busy the server was in the last half hour: a sample every few seconds, in memory.

use std::collections::VecDeque;
use std::time::Duration;

/// Between two samples.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// Samples kept: half an hour.
pub const MAX_SAMPLES: usize = 360;

/// Durations that were measured: how many, and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredTotal {
    pub count: u64,
    pub sum_seconds: f64,
}

/// Counts since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StatusTotals {
    pub requests: u64,
    pub sent_bytes: u64,
    /// Runs by backend; the packager copies streams.
    pub packager_runs: u64,
    pub ffmpeg_runs: u64,
    pub gstreamer_runs: u64,
    pub failed_runs: u64,
    /// Segments requested from the cache.
    pub cache_hits: u64,
    pub cache_misses: u64,
    pub first_segments: MeasuredTotal,
    pub zaps: MeasuredTotal,
    pub commits: MeasuredTotal,
    pub library_changes: MeasuredTotal,
}

/// The state at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusGauges {
    pub sessions: usize,
    pub encode_slots_used: usize,
    /// Renditions that wait for an encode slot.
    pub encode_slots_waiting: usize,
    pub workers_ready: usize,
    pub workers_busy: usize,
    /// Recordings in progress.
    pub recordings: usize,
    /// Memory of the server's process; None if the kernel does not state it.
    pub memory_bytes: Option<u64>,
    pub open_descriptors: Option<u64>,
}

/// A sample: what grew since the sample before, and what is so now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StatusSample {
    pub requests_per_second: f64,
    pub sent_bytes_per_second: f64,
    /// Runs started since the sample before.
    pub packager_runs: u64,
    pub ffmpeg_runs: u64,
    pub gstreamer_runs: u64,
    pub failed_runs: u64,
    /// Of the segments requested since the sample before, 0 to 1; None if there were none.
    pub cache_hit_ratio: Option<f64>,
    /// Means since the sample before, seconds; None if nothing was measured.
    pub first_segment_seconds: Option<f64>,
    pub zap_seconds: Option<f64>,
    pub commit_seconds: Option<f64>,
    pub library_change_seconds: Option<f64>,
    pub gauges: StatusGauges,
}

/// The kept samples. They are numbered from 1, without a gap.
#[derive(Debug)]
pub struct StatusSeries {
    samples: VecDeque<StatusSample>,
    last_number: u64,
    /// The totals of the last sample, and when it was taken.
    before: (StatusTotals, Duration),
}

impl StatusSeries {
    /// Without samples; the first one compares with these totals, at a time of any origin.
    pub fn new(totals: StatusTotals, at: Duration) -> Self {
        Self { samples: VecDeque::with_capacity(MAX_SAMPLES), last_number: 0, before: (totals, at) }
    }

    /// Adds a sample, in place of the oldest one if there are [`MAX_SAMPLES`].
    pub fn add(&mut self, totals: StatusTotals, gauges: StatusGauges, at: Duration) {
        let (before, earlier) = std::mem::replace(&mut self.before, (totals, at));
        let elapsed = at.saturating_sub(earlier).max(Duration::from_millis(1));
        if self.samples.len() == MAX_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample_between(&before, &totals, elapsed.as_secs_f64(), gauges));
        self.last_number += 1;
    }

    /// The number of the newest sample; 0 without one.
    pub fn last_number(&self) -> u64 {
        self.last_number
    }

    /// The kept samples after the one with this number, oldest first. All of them if the number is of the future: it is from
    /// before a restart.
    pub fn samples_after(&self, number: u64) -> impl Iterator<Item = &StatusSample> {
        let kept = self.samples.len();
        let new = match self.last_number.checked_sub(number) {
            Some(new) => usize::try_from(new).map_or(kept, |new| new.min(kept)),
            None => kept,
        };
        self.samples.iter().skip(kept - new)
    }
}

fn sample_between(
    before: &StatusTotals,
    after: &StatusTotals,
    elapsed_seconds: f64,
    gauges: StatusGauges,
) -> StatusSample {
    let grown = |of: fn(&StatusTotals) -> u64| of(after).saturating_sub(of(before));
    let mean = |of: fn(&StatusTotals) -> MeasuredTotal| {
        let (old, new) = (of(before), of(after));
        let count = new.count.saturating_sub(old.count);
        // Count and sum are not read at the same instant.
        (count > 0).then(|| (new.sum_seconds - old.sum_seconds).max(0.0) / count as f64)
    };
    let (hits, misses) = (grown(|totals| totals.cache_hits), grown(|totals| totals.cache_misses));
    StatusSample {
        requests_per_second: grown(|totals| totals.requests) as f64 / elapsed_seconds,
        sent_bytes_per_second: grown(|totals| totals.sent_bytes) as f64 / elapsed_seconds,
        packager_runs: grown(|totals| totals.packager_runs),
        ffmpeg_runs: grown(|totals| totals.ffmpeg_runs),
        gstreamer_runs: grown(|totals| totals.gstreamer_runs),
        failed_runs: grown(|totals| totals.failed_runs),
        cache_hit_ratio: (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64),
        first_segment_seconds: mean(|totals| totals.first_segments),
        zap_seconds: mean(|totals| totals.zaps),
        commit_seconds: mean(|totals| totals.commits),
        library_change_seconds: mean(|totals| totals.library_changes),
        gauges,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series_of(count: u64) -> StatusSeries {
        let mut series = StatusSeries::new(StatusTotals::default(), Duration::ZERO);
        for number in 1..=count {
            let totals = StatusTotals { ffmpeg_runs: number * (number + 1) / 2, ..StatusTotals::default() };
            series.add(totals, StatusGauges::default(), SAMPLE_INTERVAL * u32::try_from(number).unwrap());
        }
        series
    }

    fn numbers(series: &StatusSeries, after: u64) -> Vec<u64> {
        series.samples_after(after).map(|sample| sample.ffmpeg_runs).collect()
    }

    #[test]
    fn a_sample_states_what_grew_since_the_one_before() {
        let zaps = |count, sum_seconds| MeasuredTotal { count, sum_seconds };
        let before = StatusTotals { requests: 10, cache_hits: 5, zaps: zaps(2, 1.0), ..StatusTotals::default() };
        let mut series = StatusSeries::new(before, Duration::from_secs(100));
        let gauges = StatusGauges { sessions: 3, memory_bytes: Some(7), ..StatusGauges::default() };
        let totals = StatusTotals {
            requests: 30,
            sent_bytes: 4_000,
            gstreamer_runs: 2,
            cache_hits: 8,
            cache_misses: 1,
            zaps: zaps(4, 2.5),
            ..before
        };
        series.add(totals, gauges, Duration::from_secs(104));
        series.add(totals, gauges, Duration::from_secs(104));
        let [first, second] = series.samples_after(0).copied().collect::<Vec<_>>().try_into().unwrap();
        let expected = StatusSample {
            requests_per_second: 5.0,
            sent_bytes_per_second: 1_000.0,
            gstreamer_runs: 2,
            cache_hit_ratio: Some(0.75),
            zap_seconds: Some(0.75),
            gauges,
            ..StatusSample::default()
        };
        assert_eq!(first, expected);
        assert_eq!(second, StatusSample { gauges, ..StatusSample::default() }, "nothing grew in no time");
    }

    #[test]
    fn the_newest_samples_are_kept_and_numbered() {
        assert_eq!((series_of(0).last_number(), numbers(&series_of(0), 0)), (0, vec![]));
        let series = series_of(3);
        assert_eq!((numbers(&series, 0), numbers(&series, 2), numbers(&series, 3)), (vec![1, 2, 3], vec![3], vec![]));
        assert_eq!(numbers(&series, 4), [1, 2, 3], "a number from before a restart");
        let series = series_of(MAX_SAMPLES as u64 + 2);
        let all = numbers(&series, 0);
        assert_eq!((all.len(), all[0], series.last_number()), (MAX_SAMPLES, 3, MAX_SAMPLES as u64 + 2));
        assert_eq!(numbers(&series, 1).len(), MAX_SAMPLES);
        assert_eq!(numbers(&series, MAX_SAMPLES as u64 + 1), [MAX_SAMPLES as u64 + 2]);
    }
}
