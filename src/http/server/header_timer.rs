//! The deadline of each request head (against slowloris clients), with one timer per connection.
//!
//! hyper creates a timer for each head and drops it when the head has arrived, a moment later. That locks the runtime's
//! timer wheel twice per request. Here a deadline is a number: the connection's only timer is armed for the first one
//! and re-armed when it fires early, about once per deadline length.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// The timer of one connection. Only the task of that connection may poll its sleeps.
#[derive(Clone, Default)]
pub struct HeaderTimer(Arc<Mutex<Option<ArmedTimer>>>);

/// A timer that will wake the connection's task.
struct ArmedTimer {
    fires_at: Instant,
    timer: Pin<Box<tokio::time::Sleep>>,
}

struct HeaderDeadline {
    deadline: Instant,
    timer: HeaderTimer,
}

impl Timer for HeaderTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(HeaderDeadline { deadline, timer: self.clone() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

impl Sleep for HeaderDeadline {}

impl Future for HeaderDeadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let now = self.timer.now();
        if self.deadline <= now {
            return Poll::Ready(());
        }
        let mut armed_timer = self.timer.0.lock().expect("the lock is not poisoned");
        if armed_timer.as_ref().is_some_and(|armed| now < armed.fires_at && armed.fires_at <= self.deadline) {
            return Poll::Pending;
        }
        let mut timer = match armed_timer.take() {
            Some(ArmedTimer { mut timer, .. }) => {
                timer.as_mut().reset(self.deadline.into());
                timer
            }
            None => Box::pin(tokio::time::sleep_until(self.deadline.into())),
        };
        // The deadline is in the future, so the poll is pending and registers the task's waker. Without `unconstrained`,
        // a timer that yields to tokio's cooperative budget would not register it.
        let poll = pin!(tokio::task::unconstrained(timer.as_mut())).poll(context);
        *armed_timer = Some(ArmedTimer { fires_at: self.deadline, timer });
        poll
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(15);

    #[tokio::test(start_paused = true)]
    async fn each_deadline_is_met_although_the_timer_fires_for_an_earlier_one() {
        let timer = HeaderTimer::default();
        let start = timer.now();
        for request_number in 0..10 {
            let mut head = timer.sleep_until(timer.now() + DEADLINE);
            assert!(poll_fn(|context| Poll::Ready(head.as_mut().poll(context))).await.is_pending(), "{request_number}");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        timer.sleep(DEADLINE).await;
        assert_eq!(timer.now() - start, Duration::from_secs(25));
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_deadline_makes_the_timer_fire_earlier() {
        let timer = HeaderTimer::default();
        let start = timer.now();
        let mut long_sleep = timer.sleep(DEADLINE);
        assert!(poll_fn(|context| Poll::Ready(long_sleep.as_mut().poll(context))).await.is_pending());
        timer.sleep(Duration::from_secs(1)).await;
        assert_eq!(timer.now() - start, Duration::from_secs(1));
        long_sleep.await;
        assert_eq!(timer.now() - start, DEADLINE);
    }
}
