//! Waiting for what must come.

use std::time::{Duration, Instant};

/// How long a test waits for what must come. Only a failure takes that long: machines may be slow or busy, so tests wait for events.
pub const MAX_WAIT: Duration = Duration::from_secs(200);

/// Pause between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until a condition is met.
///
/// # Panics
/// After [`MAX_WAIT`], with `failure`.
pub async fn wait_until(failure: &str, mut is_met: impl FnMut() -> bool) {
    let deadline = Instant::now() + MAX_WAIT;
    while !is_met() {
        assert!(Instant::now() < deadline, "{failure}");
        tokio::time::sleep(PAUSE).await;
    }
}
