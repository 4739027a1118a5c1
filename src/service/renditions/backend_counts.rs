//! Work of each backend, counted since the server started.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Starts, outcomes and encodes by the name of the backend.
#[derive(Debug, Default)]
pub struct BackendCounts(Mutex<BTreeMap<&'static str, BackendCount>>);

/// The counts of one backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendCount {
    pub started: u64,
    /// Of those started.
    pub failed: u64,
    /// Of those started: the ones that reached the end of their source. The others were stopped, or still run.
    pub finished: u64,
    /// Length of the encoded segments, and the time their encodes took.
    pub encoded: Duration,
    pub encode_time: Duration,
}

impl BackendCounts {
    pub fn count_start(&self, backend: &'static str) {
        self.lock().entry(backend).or_default().started += 1;
    }

    pub fn count_failure(&self, backend: &'static str) {
        self.lock().entry(backend).or_default().failed += 1;
    }

    pub fn count_finish(&self, backend: &'static str) {
        self.lock().entry(backend).or_default().finished += 1;
    }

    /// Counts an encoded segment: its length, and the time from the segment before.
    pub fn count_encode(&self, backend: &'static str, length: Duration, spent: Duration) {
        let mut counts = self.lock();
        let count = counts.entry(backend).or_default();
        count.encoded += length;
        count.encode_time += spent;
    }

    /// The counts of the backends that were used.
    pub fn snapshot(&self) -> BTreeMap<&'static str, BackendCount> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, BackendCount>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_by_backend() {
        let counts = BackendCounts::default();
        counts.count_start("ffmpeg");
        counts.count_start("ffmpeg");
        counts.count_failure("ffmpeg");
        counts.count_start("packager");
        counts.count_finish("packager");
        counts.count_encode("ffmpeg", Duration::from_secs(4), Duration::from_secs(1));
        counts.count_encode("ffmpeg", Duration::from_secs(2), Duration::from_secs(1));
        let (encoded, encode_time) = (Duration::from_secs(6), Duration::from_secs(2));
        let expected = [
            ("ffmpeg", BackendCount { started: 2, failed: 1, encoded, encode_time, ..BackendCount::default() }),
            ("packager", BackendCount { started: 1, finished: 1, ..BackendCount::default() }),
        ];
        assert_eq!(counts.snapshot(), BTreeMap::from(expected));
    }
}
