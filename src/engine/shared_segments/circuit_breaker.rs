//! A circuit breaker: after faults, the store is left alone for a while.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long the store is left alone.
const OPEN_TIME: Duration = Duration::from_secs(30);

/// Failed requests in a row after which it is left alone. One that was too slow suffices, because it cost a viewer's time.
const MAX_FAILURES: u32 = 3;

/// The fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It was answered with an error, or not at all, without a wait.
    Failed,
    TooSlow,
}

#[derive(Debug, Default)]
pub(super) struct CircuitBreaker {
    state: Mutex<BreakerState>,
}

#[derive(Debug, Default)]
struct BreakerState {
    /// Failures since the last success.
    failures: u32,
    /// No request is made before this; the first one after it is a trial, and the others are not made until it has a result.
    open_until: Option<Instant>,
    is_trying: bool,
}

impl CircuitBreaker {
    /// Whether a request would be made now.
    pub fn is_closed(&self, now: Instant) -> bool {
        self.lock().open_until.is_none_or(|until| now >= until)
    }

    /// Whether to make a request now, which takes at most `longest`.
    pub fn try_pass(&self, now: Instant, longest: Duration) -> bool {
        let mut state = self.lock();
        match state.open_until {
            None => true,
            Some(until) if now < until => false,
            Some(_) => {
                // A trial that is dropped leaves no result: the next one may start when this one would have ended.
                (state.open_until, state.is_trying) = (Some(now + longest), true);
                true
            }
        }
    }

    pub fn record_success(&self) {
        let mut state = self.lock();
        (state.failures, state.is_trying) = (0, false);
        if state.open_until.take().is_some() {
            tracing::info!("the segment store answers again");
        }
    }

    pub fn record_fault(&self, now: Instant, fault: Fault, reason: &str) {
        let mut state = self.lock();
        state.failures += 1;
        if state.open_until.is_some() && !state.is_trying {
            // A request from before it opened.
            return;
        }
        // After a failed trial, it stays open.
        state.is_trying = false;
        if fault == Fault::TooSlow || state.failures >= MAX_FAILURES || state.open_until.is_some() {
            state.open_until = Some(now + OPEN_TIME);
            tracing::warn!(reason, "the segment store is not used for {} s", OPEN_TIME.as_secs());
        } else {
            tracing::warn!(reason, "a request to the segment store failed");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BreakerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Duration = Duration::from_secs(1);

    #[test]
    fn a_slow_answer_or_three_failures_open_it_and_one_trial_decides_later() {
        let (breaker, start) = (CircuitBreaker::default(), Instant::now());
        for failures in 1..=3 {
            assert!(breaker.try_pass(start, READ), "{failures}");
            breaker.record_fault(start, Fault::Failed, "refused");
        }
        assert!(!breaker.try_pass(start, READ) && !breaker.is_closed(start + OPEN_TIME - READ));
        let later = start + OPEN_TIME;
        assert!(breaker.is_closed(later) && breaker.try_pass(later, READ));
        assert!(!breaker.try_pass(later, READ), "there is one trial at a time");
        breaker.record_fault(later, Fault::Failed, "refused");
        assert!(!breaker.is_closed(later + READ));
        assert!(breaker.try_pass(later + OPEN_TIME, READ));
        breaker.record_success();
        assert!(breaker.try_pass(later + OPEN_TIME, READ) && breaker.try_pass(later + OPEN_TIME, READ));
        breaker.record_fault(later, Fault::TooSlow, "late");
        assert!(!breaker.is_closed(later));
    }

    #[test]
    fn failures_between_successes_do_not_open_it() {
        let (breaker, now) = (CircuitBreaker::default(), Instant::now());
        for _ in 0..10 {
            breaker.record_fault(now, Fault::Failed, "reset");
            breaker.record_success();
        }
        assert!(breaker.is_closed(now));
    }

    #[test]
    fn a_trial_without_a_result_does_not_keep_it_open() {
        let (breaker, start) = (CircuitBreaker::default(), Instant::now());
        breaker.record_fault(start, Fault::TooSlow, "late");
        assert!(breaker.try_pass(start + OPEN_TIME, READ));
        assert!(breaker.try_pass(start + OPEN_TIME + READ, READ));
    }
}
