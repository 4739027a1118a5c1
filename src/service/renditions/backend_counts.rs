//! Work of each backend, counted since the server started.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Starts and failures by the name of the backend.
#[derive(Debug, Default)]
pub struct BackendCounts(Mutex<BTreeMap<&'static str, BackendCount>>);

/// The counts of one backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendCount {
    pub started: u64,
    /// Of those started.
    pub failed: u64,
}

impl BackendCounts {
    pub fn count_start(&self, backend: &'static str) {
        self.lock().entry(backend).or_default().started += 1;
    }

    pub fn count_failure(&self, backend: &'static str) {
        self.lock().entry(backend).or_default().failed += 1;
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
    fn starts_and_failures_are_counted_by_backend() {
        let counts = BackendCounts::default();
        counts.count_start("ffmpeg");
        counts.count_start("ffmpeg");
        counts.count_failure("ffmpeg");
        counts.count_start("packager");
        let expected =
            [("ffmpeg", BackendCount { started: 2, failed: 1 }), ("packager", BackendCount { started: 1, failed: 0 })];
        assert_eq!(counts.snapshot(), BTreeMap::from(expected));
    }
}
