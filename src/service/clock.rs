//! The clock of all use cases, and the repair of times that were written while it was wrong.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::time::WallMs;

/// The value of `stopped_ms` for a clock that is not stopped.
const RUNNING: i64 = i64::MIN;

/// The current time. All clones share one state.
#[derive(Clone, Debug)]
pub struct Clock {
    stopped_ms: Arc<AtomicI64>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { stopped_ms: Arc::new(RUNNING.into()) }
    }
}

impl Clock {
    /// The current time.
    pub fn now(&self) -> Timestamp {
        match self.stopped_ms.load(Ordering::Relaxed) {
            RUNNING => Timestamp::now(),
            ms => Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX),
        }
    }

    /// The current time.
    pub fn now_ms(&self) -> WallMs {
        self.now().into()
    }

    /// Stops the clock if it runs, and sets it back.
    pub fn set_back(&self, by: Duration) {
        let ms = self.now().as_millisecond().saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX));
        self.stopped_ms.store(ms, Ordering::Relaxed);
    }

    /// Stops the clock if it runs, and moves it forward, so that tests need not wait for a minute or a month.
    pub fn advance(&self, by: Duration) {
        let ms = self.now().as_millisecond().saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX));
        self.stopped_ms.store(ms, Ordering::Relaxed);
    }
}

/// How long times may be ahead of the clock before they are set back, seconds: a day.
const SET_BACK_AFTER_SECONDS: i64 = 86_400;

/// Decides when times too far ahead of the clock are set back.
///
/// A clock that was once ahead leaves times that are in the future for years. A slow clock, as on a machine without a
/// battery before it has reached a time server, makes every time look like that; setting them back then would sign out every
/// user once the clock is right. Therefore times are set back only after they have been ahead for a day.
#[derive(Debug, Default)]
pub struct FutureTimeGuard {
    /// Unix seconds: when the first such time was found; None if none was found.
    found_seconds: Mutex<Option<i64>>,
}

impl FutureTimeGuard {
    /// Whether times ahead of `now_seconds` (unix seconds), if there are any, are to be set back. To be called periodically.
    pub fn is_due(&self, has_future_times: bool, now_seconds: i64) -> bool {
        let mut found_seconds = self.found_seconds.lock().unwrap_or_else(PoisonError::into_inner);
        *found_seconds = if has_future_times {
            Some(found_seconds.map_or(now_seconds, |since| since.min(now_seconds)))
        } else {
            None
        };
        found_seconds.is_some_and(|found_seconds| now_seconds - found_seconds >= SET_BACK_AFTER_SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn future_times_are_set_back_after_a_day_unless_the_clock_is_slow() {
        let guard = FutureTimeGuard::default();
        assert!(!guard.is_due(true, 1_000_000) && !guard.is_due(true, 1_086_399));
        assert!(guard.is_due(true, 1_086_400));
        let guard = FutureTimeGuard::default();
        // The clock starts in 1970 and is then corrected: no time is ahead any more.
        assert!(!guard.is_due(true, 60) && !guard.is_due(false, 1_700_000_000));
        assert!(!guard.is_due(true, 1_700_000_060), "a time found later has its own day");
    }
}
