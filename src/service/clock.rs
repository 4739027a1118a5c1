//! The one clock of the use cases.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

/// Tells the time. All clones tell the same.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    ahead_ms: Arc<AtomicI64>,
}

impl Clock {
    /// Now.
    pub fn now(&self) -> Timestamp {
        let ahead = jiff::SignedDuration::from_millis(self.ahead_ms.load(Ordering::Relaxed));
        Timestamp::now().checked_add(ahead).unwrap_or(Timestamp::MAX)
    }

    /// Lets time pass at once: what takes a minute or a month is tested without waiting for it.
    pub fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.ahead_ms.fetch_add(ms, Ordering::Relaxed);
    }
}
