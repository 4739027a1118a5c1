//! Who watches which channel, and which are kept warm although nobody does.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A viewer who asks for nothing for so long is gone.
const IDLE: Duration = Duration::from_secs(30);

/// Viewers known at once at most: who comes later still watches, uncounted.
const MOST: usize = 10_000;

/// How a channel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Idle,
    Warm,
    Starting,
    Live,
    /// What is on cannot be shown: a slate stands for it.
    Error,
}

impl State {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Warm => "warm",
            Self::Starting => "starting",
            Self::Live => "live",
            Self::Error => "error",
        }
    }
}

struct Viewer {
    seen: Instant,
    /// Where a view that does not follow the clock began, ms.
    start_ms: Option<i64>,
}

/// All viewers.
#[derive(Default)]
pub struct Viewers {
    by_session: Mutex<HashMap<(u32, String), Viewer>>,
    warm: Mutex<HashMap<u32, Instant>>,
}

impl Viewers {
    /// Notes that somebody watches; a start that was said before is kept.
    pub fn seen(&self, channel: u32, session: &str, start_ms: Option<i64>) -> Option<i64> {
        let mut all = self.lock();
        let key = (channel, session.to_owned());
        if let Some(viewer) = all.get_mut(&key) {
            viewer.seen = Instant::now();
            if start_ms.is_some() && viewer.start_ms.is_none() {
                viewer.start_ms = start_ms;
            }
            return viewer.start_ms;
        }
        if all.len() < MOST {
            all.insert(key, Viewer { seen: Instant::now(), start_ms });
        }
        start_ms
    }

    /// Where a viewer's view began, when that was kept.
    pub fn start_of(&self, channel: u32, session: &str) -> Option<i64> {
        self.lock().get(&(channel, session.to_owned()))?.start_ms
    }

    /// Somebody leaves; false when they were not there.
    pub fn leave(&self, channel: u32, session: &str) -> bool {
        self.lock().remove(&(channel, session.to_owned())).is_some()
    }

    pub fn count(&self, channel: u32) -> usize {
        let live = |((of, _), viewer): &(&(u32, String), &Viewer)| *of == channel && viewer.seen.elapsed() < IDLE;
        self.lock().iter().filter(live).count()
    }

    /// Keeps a channel ready for a while.
    pub fn keep_warm(&self, channel: u32, ttl: Duration) {
        let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + ttl;
        let known = warm.entry(channel).or_insert(until);
        *known = until.max(*known);
    }

    /// Channels that are kept ready.
    pub fn warm(&self) -> HashSet<u32> {
        let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        warm.retain(|_, until| *until > now);
        warm.keys().copied().collect()
    }

    pub(super) fn watched(&self) -> HashSet<u32> {
        self.lock().keys().map(|(channel, _)| *channel).collect()
    }

    pub(super) fn expire(&self) {
        self.lock().retain(|_, viewer| viewer.seen.elapsed() < IDLE);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(u32, String), Viewer>> {
        self.by_session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
