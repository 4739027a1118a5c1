//! The one clock of the use cases.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

/// Stands for "not stopped" in `stopped_ms`.
const RUNNING: i64 = i64::MIN;

/// Tells the time. All clones tell the same.
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
    /// Now.
    pub fn now(&self) -> Timestamp {
        match self.stopped_ms.load(Ordering::Relaxed) {
            RUNNING => Timestamp::now(),
            ms => Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX),
        }
    }

    /// Stops the clock if it runs, and moves it on: what takes a minute or a month is tested without waiting for it.
    pub fn advance(&self, by: Duration) {
        let ms = self.now().as_millisecond().saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX));
        self.stopped_ms.store(ms, Ordering::Relaxed);
    }
}
