//! Counts what GStreamer does in this process, so that "working", "waiting for the disk" and "stuck" can be distinguished.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Progress of all pipelines of this process. Counting takes no lock, because streaming threads do it.
#[derive(Debug, Default)]
pub struct ProgressCounter {
    count: AtomicU64,
    /// Reads of source files that have not returned yet.
    reads: AtomicU32,
}

impl ProgressCounter {
    /// Counts bytes read, or one per frame or fragment.
    pub fn add(&self, amount: u64) {
        self.count.fetch_add(amount, Ordering::Relaxed);
    }

    /// A number without a unit: bytes read, frames and fragments since the process started. It grows while anything
    /// happens.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Marks a read of a source file as under way until the guard is dropped.
    pub fn reading(&self) -> ReadGuard<'_> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        ReadGuard(self)
    }

    /// Whether a read of a source file has not returned yet.
    pub fn is_reading(&self) -> bool {
        self.reads.load(Ordering::Relaxed) > 0
    }
}

/// Exists while a source file is read.
#[derive(Debug)]
#[must_use = "the read ends when the guard is dropped"]
pub struct ReadGuard<'a>(&'a ProgressCounter);

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        self.0.reads.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The counter of this process.
pub fn progress() -> &'static ProgressCounter {
    static PROGRESS: ProgressCounter = ProgressCounter { count: AtomicU64::new(0), reads: AtomicU32::new(0) };
    &PROGRESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_under_way_until_the_last_guard_is_dropped() {
        let counter = ProgressCounter::default();
        let (first, second) = (counter.reading(), counter.reading());
        drop(first);
        assert!(counter.is_reading());
        drop(second);
        assert!(!counter.is_reading());
        counter.add(4096);
        counter.add(1);
        assert_eq!(counter.count(), 4097);
    }
}
