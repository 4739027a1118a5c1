//! Waiting that tells a run that stands still from a machine that is too busy to run it.

use std::time::{Duration, Instant};

/// Most that one look counts for. Whoever waits looks ten times a second.
const LOOK: Duration = Duration::from_millis(250);

/// A watch that counts only while its owner looks at it. On a machine so busy that the looking thread sleeps for seconds,
/// the threads it waits for slept too: by the clock of the wall, runs were given up that were still moving (measured: up
/// to 7 s between two looks at a load of 18 on two cores).
#[derive(Debug)]
pub(super) struct Patience {
    spent: Duration,
    looked: Instant,
}

impl Patience {
    pub(super) fn begin() -> Self {
        Self { spent: Duration::ZERO, looked: Instant::now() }
    }

    /// How much was spent up to now.
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
