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
pub struct Alarm(Arc<Mutex<Option<Armed>>>);

/// A timer that will wake the connection's task.
struct Armed {
    until: Instant,
    timer: Pin<Box<tokio::time::Sleep>>,
}

struct Deadline {
    at: Instant,
    alarm: Alarm,
}

impl Timer for Alarm {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, at: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Deadline { at, alarm: self.clone() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

impl Sleep for Deadline {}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let now = self.alarm.now();
        if self.at <= now {
            return Poll::Ready(());
        }
        let mut armed = self.alarm.0.lock().expect("the lock is not poisoned");
        if armed.as_ref().is_some_and(|armed| now < armed.until && armed.until <= self.at) {
            return Poll::Pending;
        }
        let mut timer = match armed.take() {
            Some(Armed { mut timer, .. }) => {
                timer.as_mut().reset(self.at.into());
                timer
            }
            None => Box::pin(tokio::time::sleep_until(self.at.into())),
        };
        // The deadline is in the future, so the poll is pending and registers the task's waker. Without `unconstrained`,
        // a timer that yields to tokio's cooperative budget would not register it.
        let polled = pin!(tokio::task::unconstrained(timer.as_mut())).poll(context);
        *armed = Some(Armed { until: self.at, timer });
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const LONG: Duration = Duration::from_secs(15);

    #[tokio::test(start_paused = true)]
    async fn each_deadline_is_kept_though_the_timer_is_set_for_an_earlier_one() {
        let alarm = Alarm::default();
        let start = alarm.now();
        for quick in 0..10 {
            let mut head = alarm.sleep_until(alarm.now() + LONG);
            assert!(poll_fn(|context| Poll::Ready(head.as_mut().poll(context))).await.is_pending(), "{quick}");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        alarm.sleep(LONG).await;
        assert_eq!(alarm.now() - start, Duration::from_secs(25));
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_deadline_sets_the_timer_sooner() {
        let alarm = Alarm::default();
        let start = alarm.now();
        let mut long = alarm.sleep(LONG);
        assert!(poll_fn(|context| Poll::Ready(long.as_mut().poll(context))).await.is_pending());
        alarm.sleep(Duration::from_secs(1)).await;
        assert_eq!(alarm.now() - start, Duration::from_secs(1));
        long.await;
        assert_eq!(alarm.now() - start, LONG);
    }
}
