//! Work that waits until nothing was played for a while.

use std::time::Duration;

use tokio::time::Instant;

use crate::service::Service;

/// How long nothing may have been played before such work begins.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// The shortest and longest pause after a piece of work. In between it is as long as the work took.
const MIN_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Whether something is played now.
pub(super) fn is_busy(service: &Service) -> bool {
    let has_session = || !service.sessions.live_sessions().is_empty();
    service.library.has_open_files() || has_session() || !service.viewers.watched_channels().is_empty()
}

/// When something was last played, as far as this was checked.
pub struct IdleTime {
    last_busy: Option<Instant>,
}

impl Default for IdleTime {
    fn default() -> Self {
        Self { last_busy: Some(Instant::now()) }
    }
}

impl IdleTime {
    /// As if nothing had been played for long.
    pub fn passed() -> Self {
        Self { last_busy: None }
    }

    /// How long such work must wait still; zero if it may begin.
    pub fn remaining(&mut self, service: &Service) -> Duration {
        if is_busy(service) {
            self.last_busy = Some(Instant::now());
        }
        let idle_from = self.last_busy.map(|last_busy| last_busy + IDLE_TIME);
        idle_from.map_or(Duration::ZERO, |idle_from| idle_from.saturating_duration_since(Instant::now()))
    }

    /// Waits until such work may begin.
    pub async fn wait(&mut self, service: &Service) {
        loop {
            let remaining = self.remaining(service);
            if remaining.is_zero() {
                return;
            }
            tokio::time::sleep(remaining).await;
        }
    }

    /// Does a piece of such work when it may begin, and then pauses.
    pub async fn run<T>(&mut self, service: &Service, work: impl Future<Output = T>) -> T {
        self.wait(service).await;
        let started = Instant::now();
        let result = work.await;
        tokio::time::sleep(Self::pause_after(started.elapsed())).await;
        result
    }

    /// The pause after work that took this long.
    pub fn pause_after(worked: Duration) -> Duration {
        worked.clamp(MIN_PAUSE, MAX_PAUSE)
    }
}
