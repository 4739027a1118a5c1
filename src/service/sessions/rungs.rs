//! The rungs of a session and their leases. A rung is encoded only while a player requests its segments.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::lock;
use crate::service::renditions::BackendChoice;
use crate::service::renditions::encode_slots::Admission;
use crate::service::renditions::runs::{Lease, RenditionProgress};

/// A rung is released when it was not requested for this long. Long enough for a player whose bandwidth estimate wavers,
/// because coming back costs a start.
const RELEASE_AFTER: Duration = Duration::from_secs(10);

/// The rung requested last.
#[derive(Clone)]
pub(super) struct CurrentRung {
    pub(super) rung: usize,
    pub(super) backend: BackendChoice,
    pub(super) progress: watch::Receiver<RenditionProgress>,
}

pub(super) struct RungLeases {
    /// One entry per rung; None after the session has ended.
    leases: Mutex<Option<Vec<Option<RungLease>>>>,
    /// The session's admission to the encode slots, from its first encoded rung to its end.
    admission: Mutex<Option<Arc<Admission>>>,
    current: watch::Sender<CurrentRung>,
}

struct RungLease {
    lease: Arc<Lease>,
    backend: BackendChoice,
    requested_at: Instant,
}

impl RungLeases {
    /// `rung_count` rungs, of which the first is leased.
    pub(super) fn new(rung_count: usize, lease: Arc<Lease>, backend: BackendChoice) -> Self {
        let current = CurrentRung { rung: 0, backend, progress: lease.progress() };
        let mut leases: Vec<Option<RungLease>> = (0..rung_count).map(|_| None).collect();
        let admission = Mutex::new(lease.admission());
        leases[0] = Some(RungLease { lease, backend, requested_at: Instant::now() });
        Self { leases: Mutex::new(Some(leases)), admission, current: watch::Sender::new(current) }
    }

    /// The lease of a rung, if it has one; marks the rung as requested.
    pub(super) fn request_lease(&self, rung: usize) -> Option<Arc<Lease>> {
        let mut leases = lock(&self.leases);
        let rung_lease = leases.as_mut()?.get_mut(rung)?.as_mut()?;
        rung_lease.requested_at = Instant::now();
        let (lease, backend) = (rung_lease.lease.clone(), rung_lease.backend);
        drop(leases);
        self.current.send_if_modified(|current| {
            let is_changed = current.rung != rung || !current.progress.same_channel(&lease.progress());
            if is_changed {
                *current = CurrentRung { rung, backend, progress: lease.progress() };
            }
            is_changed
        });
        Some(lease)
    }

    pub(super) fn add_lease(&self, rung: usize, lease: Lease, backend: BackendChoice) {
        if let Some(leases) = &mut *lock(&self.leases)
            && let Some(slot) = leases.get_mut(rung)
        {
            if let Some(admission) = lease.admission() {
                lock(&self.admission).get_or_insert(admission);
            }
            slot.get_or_insert_with(|| RungLease { lease: Arc::new(lease), backend, requested_at: Instant::now() });
        }
    }

    /// The session's admission to the encode slots, if it has one.
    pub(super) fn admission(&self) -> Option<Arc<Admission>> {
        lock(&self.admission).clone()
    }

    pub(super) fn leased_rungs(&self) -> Vec<bool> {
        lock(&self.leases).iter().flatten().map(Option::is_some).collect()
    }

    /// Whether a leased rung publishes this progress.
    pub(super) fn publishes(&self, progress: &watch::Receiver<RenditionProgress>) -> bool {
        let leases = lock(&self.leases);
        leases.iter().flatten().flatten().any(|rung_lease| rung_lease.lease.progress().same_channel(progress))
    }

    /// Subscribes to the rung requested last.
    pub(super) fn watch_current(&self) -> watch::Receiver<CurrentRung> {
        self.current.subscribe()
    }

    /// Releases every rung but `kept_rung` that has no waiting request and was not requested for `unused_for`.
    pub(super) fn release_unused(&self, kept_rung: usize, unused_for: Duration) {
        let mut released = Vec::new();
        if let Some(leases) = &mut *lock(&self.leases) {
            for (rung, slot) in leases.iter_mut().enumerate() {
                // A waiting request has a clone of the lease.
                let is_unused = |rung_lease: &mut RungLease| {
                    Arc::strong_count(&rung_lease.lease) == 1 && rung_lease.requested_at.elapsed() >= unused_for
                };
                if rung != kept_rung {
                    released.extend(slot.take_if(is_unused));
                }
            }
        }
    }

    /// Releases rungs that players left [`RELEASE_AFTER`] ago.
    pub(super) fn release_left(&self) {
        self.release_unused(self.current.borrow().rung, RELEASE_AFTER);
    }

    /// When the next rung may have to be released.
    pub(super) fn next_release_at(&self) -> Option<Instant> {
        let current_rung = self.current.borrow().rung;
        let leases = lock(&self.leases);
        let other_rungs = leases.as_ref()?.iter().enumerate().filter(|(rung, _)| *rung != current_rung);
        // A rung with a waiting request is checked again a little later.
        let earliest = Instant::now() + Duration::from_millis(500);
        other_rungs
            .filter_map(|(_, rung_lease)| Some(rung_lease.as_ref()?.requested_at + RELEASE_AFTER))
            .min()
            .map(|at| at.max(earliest))
    }

    /// Releases every rung and the admission, for good.
    pub(super) fn release_all(&self) {
        let leases = lock(&self.leases).take();
        drop(leases);
        let admission = lock(&self.admission).take();
        drop(admission);
    }
}
