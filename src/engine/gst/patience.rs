//! Stall timer that distinguishes a stalled run from a machine too busy to run it.

use std::time::{Duration, Instant};

/// Largest time one poll adds. Callers poll ten times a second.
const LOOK: Duration = Duration::from_millis(250);

/// A timer that runs only while its owner polls it. On a machine so busy that the polling thread sleeps for seconds, the
/// threads it waits for sleep too: by wall-clock time, runs were given up that still made progress (measured: up to 7 s
/// between two polls at a load of 18 on two cores).
#[derive(Debug)]
pub(super) struct Patience {
    spent: Duration,
    looked: Instant,
}

impl Patience {
    pub(super) fn begin() -> Self {
        Self { spent: Duration::ZERO, looked: Instant::now() }
    }

    /// Polls the timer: the time counted so far.
    pub(super) fn spent(&mut self) -> Duration {
        self.look(Instant::now())
    }

    fn look(&mut self, now: Instant) -> Duration {
        self.spent += now.saturating_duration_since(self.looked).min(LOOK);
        self.looked = now;
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_through_counts_as_one_look() {
        let mut patience = Patience::begin();
        let start = patience.looked;
        let ms = Duration::from_millis;
        assert_eq!(patience.look(start + ms(100)), ms(100));
        assert_eq!(patience.look(start + ms(200)), ms(200));
        assert_eq!(patience.look(start + ms(9_200)), ms(450));
        assert_eq!(patience.look(start + ms(9_300)), ms(550));
    }
}
