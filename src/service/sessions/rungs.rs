//! The rungs of a session: which are pulled, and their leases. A rung is made only while somebody pulls it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::lock;
use crate::service::encode_slots::Admission;
use crate::service::runs::{Lease, Progress};

/// A rung that was left, and not pulled for so long, is let go. Long enough for a player that is unsure of its line, for
/// coming back costs a start.
const LEFT: Duration = Duration::from_secs(10);

/// Who was chosen to make a rung's segments, and why.
pub(super) type Producer = (&'static str, &'static str);

/// The rung pulled last.
#[derive(Clone)]
pub(super) struct Current {
    pub(super) rung: usize,
    pub(super) producer: Producer,
    pub(super) progress: watch::Receiver<Progress>,
}

pub(super) struct Rungs {
    /// One for each rung; None when the session has ended.
    held: Mutex<Option<Vec<Option<Held>>>>,
    /// The session's promise of encode slots, from the first rung that is encoded to the session's end.
    admission: Mutex<Option<Arc<Admission>>>,
    current: watch::Sender<Current>,
}

struct Held {
    lease: Arc<Lease>,
    producer: Producer,
    pulled: Instant,
}

impl Rungs {
    /// So many rungs, the first of them held.
    pub(super) fn new(rungs: usize, lease: Lease, producer: Producer) -> Self {
        let current = Current { rung: 0, producer, progress: lease.progress() };
        let mut held: Vec<Option<Held>> = (0..rungs).map(|_| None).collect();
        let admission = Mutex::new(lease.admission());
        held[0] = Some(Held { lease: Arc::new(lease), producer, pulled: Instant::now() });
        Self { held: Mutex::new(Some(held)), admission, current: watch::Sender::new(current) }
    }

    /// The lease of a rung that is held, which is pulled by that.
    pub(super) fn pull(&self, rung: usize) -> Option<Arc<Lease>> {
        let mut held = lock(&self.held);
        let found = held.as_mut()?.get_mut(rung)?.as_mut()?;
        found.pulled = Instant::now();
        let (lease, producer) = (found.lease.clone(), found.producer);
        drop(held);
        self.current.send_if_modified(|current| {
            let other = current.rung != rung || !current.progress.same_channel(&lease.progress());
            if other {
                *current = Current { rung, producer, progress: lease.progress() };
            }
            other
        });
        Some(lease)
    }

    /// Holds a rung from now on.
    pub(super) fn hold(&self, rung: usize, lease: Lease, producer: Producer) {
        if let Some(held) = &mut *lock(&self.held)
            && let Some(place) = held.get_mut(rung)
        {
            if let Some(admission) = lease.admission() {
                lock(&self.admission).get_or_insert(admission);
            }
            place.get_or_insert_with(|| Held { lease: Arc::new(lease), producer, pulled: Instant::now() });
        }
    }

    /// The session's promise of encode slots, if it has one.
    pub(super) fn admission(&self) -> Option<Arc<Admission>> {
        lock(&self.admission).clone()
    }

    /// Which rungs are held.
    pub(super) fn held(&self) -> Vec<bool> {
        lock(&self.held).iter().flatten().map(Option::is_some).collect()
    }

    /// Whether the run of this progress is held by a rung.
    pub(super) fn holds(&self, progress: &watch::Receiver<Progress>) -> bool {
        let held = lock(&self.held);
        held.iter().flatten().flatten().any(|held| held.lease.progress().same_channel(progress))
    }

    /// The rung pulled last, watched.
    pub(super) fn current(&self) -> watch::Receiver<Current> {
        self.current.subscribe()
    }

    /// Lets go of rungs that were left, that nobody waits for and that were not pulled for `since`: all but `kept`.
    pub(super) fn leave(&self, kept: usize, since: Duration) {
        let mut dropped = Vec::new();
        if let Some(held) = &mut *lock(&self.held) {
            for (rung, place) in held.iter_mut().enumerate() {
                // A request that waits has a share of the lease.
                let left = |held: &mut Held| Arc::strong_count(&held.lease) == 1 && held.pulled.elapsed() >= since;
                if rung != kept {
                    dropped.extend(place.take_if(left));
                }
            }
        }
    }

    /// Lets go of what was left long ago.
    pub(super) fn tidy(&self) {
        self.leave(self.current.borrow().rung, LEFT);
    }

    /// When there may be something to tidy.
    pub(super) fn tidy_at(&self) -> Option<Instant> {
        let current = self.current.borrow().rung;
        let held = lock(&self.held);
        let left = held.as_ref()?.iter().enumerate().filter(|(rung, _)| *rung != current);
        // One that is still waited for is looked at again a little later.
        let soon = Instant::now() + Duration::from_millis(500);
        left.filter_map(|(_, held)| Some(held.as_ref()?.pulled + LEFT)).min().map(|at| at.max(soon))
    }

    /// Lets go of everything, for good.
    pub(super) fn end(&self) {
        let held = lock(&self.held).take();
        drop(held);
        let admission = lock(&self.admission).take();
        drop(admission);
    }
}
