//! Histograms: how many measured durations were within each bound, as Prometheus counts them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, seconds. Longer durations count in the total only.
pub const BOUNDS_SECONDS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Durations that were measured since the server started. Threads may record into it together.
#[derive(Debug, Default)]
pub struct Histogram {
    /// Durations in each bucket alone, without those in smaller ones.
    buckets: [AtomicU64; BOUNDS_SECONDS.len()],
    count: AtomicU64,
    sum_micros: AtomicU64,
}

/// The counts of a histogram at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistogramCounts {
    /// Durations of at most each of [`BOUNDS_SECONDS`].
    pub within: [u64; BOUNDS_SECONDS.len()],
    pub count: u64,
    pub sum_seconds: f64,
}

impl Histogram {
    pub fn record(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        if let Some(bucket) = BOUNDS_SECONDS.iter().position(|bound| seconds <= *bound) {
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub fn counts(&self) -> HistogramCounts {
        let mut total = 0;
        let within = std::array::from_fn(|bucket| {
            total += self.buckets[bucket].load(Ordering::Relaxed);
            total
        });
        // A duration recorded meanwhile may be in a bucket already.
        let count = self.count.load(Ordering::Relaxed).max(total);
        HistogramCounts { within, count, sum_seconds: self.sum_micros.load(Ordering::Relaxed) as f64 / 1e6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_its_bucket_and_in_all_larger_ones() {
        let histogram = Histogram::default();
        for millis in [1, 2, 400, 61_000] {
            histogram.record(Duration::from_millis(millis));
        }
        let counts = histogram.counts();
        assert_eq!(counts.within, [1, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3]);
        assert_eq!((counts.count, counts.sum_seconds), (4, 61.403));
    }
}
