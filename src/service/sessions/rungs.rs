//! The rungs of a session and their leases. A rung is encoded only while a player requests its segments.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::lock;
use crate::service::encode_slots::Admission;
use crate::service::runs::{Lease, Progress};

/// A rung is released when it was not requested for this long. Long enough for a player whose bandwidth estimate wavers,
/// because coming back costs a start.
const LEFT: Duration = Duration::from_secs(10);

/// The backend chosen for a rung, and why.
pub(super) type Producer = (&'static str, &'static str);

/// The rung requested last.
#[derive(Clone)]
pub(super) struct Current {
    pub(super) rung: usize,
    pub(super) producer: Producer,
    pub(super) progress: watch::Receiver<Progress>,
}

pub(super) struct Rungs {
    /// One entry per rung; None after the session has ended.
    held: Mutex<Option<Vec<Option<Held>>>>,
    /// The session's admission to the encode slots, from its first encoded rung to its end.
    admission: Mutex<Option<Arc<Admission>>>,
    current: watch::Sender<Current>,
}

struct Held {
    lease: Arc<Lease>,
    producer: Producer,
    pulled: Instant,
}

impl Rungs {
    /// `rungs` rungs, of which the first is leased.
    pub(super) fn new(rungs: usize, lease: Lease, producer: Producer) -> Self {
        let current = Current { rung: 0, producer, progress: lease.progress() };
        let mut held: Vec<Option<Held>> = (0..rungs).map(|_| None).collect();
        let admission = Mutex::new(lease.admission());
        held[0] = Some(Held { lease: Arc::new(lease), producer, pulled: Instant::now() });
        Self { held: Mutex::new(Some(held)), admission, current: watch::Sender::new(current) }
    }

    /// The lease of a rung, if it has one; marks the rung as requested.
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

    /// Keeps the lease of a rung.
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

    /// The session's admission to the encode slots, if it has one.
    pub(super) fn admission(&self) -> Option<Arc<Admission>> {
        lock(&self.admission).clone()
    }

    /// Which rungs are leased.
    pub(super) fn held(&self) -> Vec<bool> {
        lock(&self.held).iter().flatten().map(Option::is_some).collect()
    }

    /// Whether a leased rung publishes this progress.
    pub(super) fn holds(&self, progress: &watch::Receiver<Progress>) -> bool {
        let held = lock(&self.held);
        held.iter().flatten().flatten().any(|held| held.lease.progress().same_channel(progress))
    }

    /// Subscribes to the rung requested last.
    pub(super) fn current(&self) -> watch::Receiver<Current> {
        self.current.subscribe()
    }

    /// Releases every rung but `kept` that has no waiting request and was not requested for `since`.
    pub(super) fn leave(&self, kept: usize, since: Duration) {
        let mut dropped = Vec::new();
        if let Some(held) = &mut *lock(&self.held) {
            for (rung, place) in held.iter_mut().enumerate() {
                // A waiting request has a clone of the lease.
                let left = |held: &mut Held| Arc::strong_count(&held.lease) == 1 && held.pulled.elapsed() >= since;
                if rung != kept {
                    dropped.extend(place.take_if(left));
                }
            }
        }
    }

    /// Releases rungs that players left [`LEFT`] ago.
    pub(super) fn tidy(&self) {
        self.leave(self.current.borrow().rung, LEFT);
    }

    /// When the next rung may have to be released.
    pub(super) fn tidy_at(&self) -> Option<Instant> {
        let current = self.current.borrow().rung;
        let held = lock(&self.held);
        let left = held.as_ref()?.iter().enumerate().filter(|(rung, _)| *rung != current);
        // A rung with a waiting request is checked again a little later.
        let soon = Instant::now() + Duration::from_millis(500);
        left.filter_map(|(_, held)| Some(held.as_ref()?.pulled + LEFT)).min().map(|at| at.max(soon))
    }

    /// Releases every rung and the admission, for good.
    pub(super) fn end(&self) {
        let held = lock(&self.held).take();
        drop(held);
        let admission = lock(&self.admission).take();
        drop(admission);
    }
}
