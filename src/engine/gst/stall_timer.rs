//! Stall timer that distinguishes a stalled run from a machine too busy to run it.

use std::time::{Duration, Instant};

/// Largest time one poll adds. Callers poll ten times a second.
const MAX_POLL_STEP: Duration = Duration::from_millis(250);

/// A timer that runs only while its owner polls it. On a machine so busy that the polling thread sleeps for seconds, the
/// threads it waits for sleep too: by wall-clock time, runs were given up that still made progress (measured: up to 7 s
/// between two polls at a load of 18 on two cores).
#[derive(Debug)]
pub(super) struct StallTimer {
    elapsed: Duration,
    last_poll: Instant,
}

impl StallTimer {
    pub(super) fn start() -> Self {
        Self { elapsed: Duration::ZERO, last_poll: Instant::now() }
    }

    /// Polls the timer: the time counted so far.
    pub(super) fn poll(&mut self) -> Duration {
        self.poll_at(Instant::now())
    }

    fn poll_at(&mut self, now: Instant) -> Duration {
        self.elapsed += now.saturating_duration_since(self.last_poll).min(MAX_POLL_STEP);
        self.last_poll = now;
        self.elapsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sleep_counts_as_one_poll() {
        let mut timer = StallTimer::start();
        let start = timer.last_poll;
        let ms = Duration::from_millis;
        assert_eq!(timer.poll_at(start + ms(100)), ms(100));
        assert_eq!(timer.poll_at(start + ms(200)), ms(200));
        assert_eq!(timer.poll_at(start + ms(9_200)), ms(450));
        assert_eq!(timer.poll_at(start + ms(9_300)), ms(550));
    }
}
