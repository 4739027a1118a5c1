//! When a device or stream token was last used: recorded in memory on every request, stored from time to time.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::domain::time;

/// Unix seconds of the last use; 0 before the first one.
#[derive(Debug)]
pub(super) struct LastUse {
    /// Written without a lock on every request.
    current: AtomicI64,
    /// The value in the store.
    stored: AtomicI64,
}

impl LastUse {
    pub(super) fn from_stored(seconds: i64) -> Self {
        Self { current: seconds.into(), stored: seconds.into() }
    }

    pub(super) fn seconds(&self) -> i64 {
        self.current.load(Ordering::Relaxed)
    }

    /// Records a use; at most one write to shared memory a minute.
    pub(super) fn record(&self, now: i64) {
        if now - self.seconds() >= 60 {
            self.set(now);
        }
    }

    /// Whether it is too far ahead of `now` to be true.
    pub(super) fn is_ahead(&self, now: i64) -> bool {
        time::is_too_far_ahead(self.seconds(), now)
    }

    pub(super) fn set(&self, now: i64) {
        self.current.store(now, Ordering::Relaxed);
    }

    /// Seconds between the stored time and the current one.
    pub(super) fn unstored_seconds(&self) -> i64 {
        (self.seconds() - self.stored.load(Ordering::Relaxed)).abs()
    }

    pub(super) fn mark_stored(&self, seconds: i64) {
        self.stored.store(seconds, Ordering::Relaxed);
    }
}
