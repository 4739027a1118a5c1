//! Notifications to systemd, or another service manager with its protocol (sd_notify(3)): ready, reloading, stopping, and the
//! watchdog. Without `NOTIFY_SOCKET` nothing is sent.

use std::future::Future;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::MissedTickBehavior;

/// Reports what a server that is not ready yet does.
pub fn notify_status(status: &str) {
    send(&[NotifyState::Status(status)]);
}

/// Reports that the server answers, at its start and after a reload.
pub fn notify_ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports that the configuration is read again; [`notify_ready`] follows.
pub fn notify_reloading() {
    // The service manager takes only the ready notification after this time as the end of the reload.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now, NotifyState::Status("reading the configuration")]),
        Err(fault) => tracing::warn!(%fault, "the monotonic clock cannot be read"),
    }
}

/// Reports that the server ends.
pub fn notify_stopping() {
    send(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
}

/// Feeds the watchdog, if the service manager has one for this process, as long as `check` resolves in time. Otherwise it
/// never ends.
pub async fn feed_watchdog<F: Future<Output = ()>>(check: impl Fn() -> F) {
    match sd_notify::watchdog_enabled() {
        Some(timeout) => feed(timeout, check, || send(&[NotifyState::Watchdog])).await,
        None => std::future::pending().await,
    }
}

/// Calls `notify` after each check that resolved within half of `timeout`. A check begins every quarter, so that a slow one is not
/// taken for a failure.
async fn feed<F: Future<Output = ()>>(timeout: Duration, check: impl Fn() -> F, notify: impl Fn()) {
    let deadline = timeout / 2;
    let mut interval = tokio::time::interval((timeout / 4).max(Duration::from_millis(1)));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        match tokio::time::timeout(deadline, check()).await {
            Ok(()) => notify(),
            Err(_) => tracing::error!(
                "the state did not answer within {deadline:?}; if it stays so, the service manager restarts the server"
            ),
        }
    }
}

fn send(state: &[NotifyState]) {
    if let Err(fault) = sd_notify::notify(state) {
        tracing::warn!(%fault, "the service manager could not be notified");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(120);

    #[tokio::test(start_paused = true)]
    async fn the_watchdog_is_fed_before_it_expires_while_checks_are_slow_but_resolve() {
        let count = AtomicUsize::new(0);
        let slow = || tokio::time::sleep(TIMEOUT / 2 - Duration::from_secs(1));
        let notify = || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let _ = tokio::time::timeout(TIMEOUT * 10, feed(TIMEOUT, slow, notify)).await;
        let fed = count.load(Ordering::Relaxed);
        assert!(fed > 10, "fed {fed} times in ten timeouts");
    }

    #[tokio::test(start_paused = true)]
    async fn the_watchdog_starves_while_a_check_hangs_and_recovers_with_it() {
        let (count, checks) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let hangs_twice = || {
            let number = checks.fetch_add(1, Ordering::Relaxed);
            async move {
                if number < 2 {
                    std::future::pending::<()>().await;
                }
            }
        };
        let notify = || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let two_checks = TIMEOUT + Duration::from_secs(1);
        let mut fed = std::pin::pin!(feed(TIMEOUT, hangs_twice, notify));
        let _ = tokio::time::timeout(two_checks - Duration::from_secs(2), &mut fed).await;
        assert_eq!(count.load(Ordering::Relaxed), 0);
        let _ = tokio::time::timeout(TIMEOUT, &mut fed).await;
        assert!(count.load(Ordering::Relaxed) > 0);
    }
}
