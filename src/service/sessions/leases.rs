//! The leases of a session. A rung, or an audio rendition, is made only while a player requests its segments.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::lock;
use crate::service::renditions::BackendChoice;
use crate::service::renditions::encode_slots::Admission;
use crate::service::renditions::planner::RenditionId;
use crate::service::renditions::runs::{Lease, RenditionProgress};

/// A rung is released when it was not requested for this long. Long enough for a player whose bandwidth estimate wavers,
/// because coming back costs a start. The same applies to audio after a change of the language.
const RELEASE_AFTER: Duration = Duration::from_secs(10);

/// The rung requested last.
#[derive(Clone)]
pub(super) struct CurrentRung {
    pub(super) rung: usize,
    pub(super) backend: BackendChoice,
    pub(super) progress: watch::Receiver<RenditionProgress>,
}

pub(super) struct SessionLeases {
    /// None after the session has ended.
    leases: Mutex<Option<LeaseTable>>,
    /// The session's admission to the encode slots, from its first encoded rung to its end.
    admission: Mutex<Option<Arc<Admission>>>,
    current: watch::Sender<CurrentRung>,
}

struct LeaseTable {
    rungs: Vec<Option<RenditionLease>>,
    audio: Vec<Option<RenditionLease>>,
    /// The audio rendition requested last.
    current_audio: usize,
}

struct RenditionLease {
    lease: Arc<Lease>,
    backend: BackendChoice,
    requested_at: Instant,
}

impl LeaseTable {
    fn get_mut(&mut self, id: RenditionId) -> Option<&mut Option<RenditionLease>> {
        match id {
            RenditionId::Rung(rung) => self.rungs.get_mut(rung),
            RenditionId::Audio(track) => self.audio.get_mut(track),
        }
    }

    /// The leases that may be released: all but that of the rung `current_rung` and that of the current audio.
    fn others(&mut self, current_rung: usize) -> impl Iterator<Item = &mut Option<RenditionLease>> {
        let current_audio = self.current_audio;
        let rungs = self.rungs.iter_mut().enumerate().filter(move |(rung, _)| *rung != current_rung);
        let audio = self.audio.iter_mut().enumerate().filter(move |(track, _)| *track != current_audio);
        rungs.chain(audio).map(|(_, lease)| lease)
    }
}

impl SessionLeases {
    /// The leases of `rung_count` rungs, of which the first has one, and of `audio_count` audio renditions.
    pub(super) fn new(rung_count: usize, audio_count: usize, lease: Arc<Lease>, backend: BackendChoice) -> Self {
        let current = CurrentRung { rung: 0, backend, progress: lease.progress() };
        let mut rungs: Vec<Option<RenditionLease>> = (0..rung_count).map(|_| None).collect();
        let admission = Mutex::new(lease.admission());
        rungs[0] = Some(RenditionLease { lease, backend, requested_at: Instant::now() });
        let audio = (0..audio_count).map(|_| None).collect();
        let leases = Mutex::new(Some(LeaseTable { rungs, audio, current_audio: 0 }));
        Self { leases, admission, current: watch::Sender::new(current) }
    }

    /// The lease of a rendition, if it has one; marks it as requested.
    pub(super) fn request_lease(&self, id: RenditionId) -> Option<Arc<Lease>> {
        let mut table = lock(&self.leases);
        let leases = table.as_mut()?;
        let rendition_lease = leases.get_mut(id)?.as_mut()?;
        rendition_lease.requested_at = Instant::now();
        let (lease, backend) = (rendition_lease.lease.clone(), rendition_lease.backend);
        let is_other_audio = match id {
            RenditionId::Audio(track) => std::mem::replace(&mut leases.current_audio, track) != track,
            RenditionId::Rung(_) => false,
        };
        drop(table);
        self.current.send_if_modified(|current| match id {
            RenditionId::Rung(rung) => {
                let is_changed = current.rung != rung || !current.progress.same_channel(&lease.progress());
                if is_changed {
                    *current = CurrentRung { rung, backend, progress: lease.progress() };
                }
                is_changed
            }
            // Wakes the session's task, which then knows what to release.
            RenditionId::Audio(_) => is_other_audio,
        });
        Some(lease)
    }

    pub(super) fn add_lease(&self, id: RenditionId, lease: Lease, backend: BackendChoice) {
        if let Some(table) = &mut *lock(&self.leases)
            && let Some(slot) = table.get_mut(id)
        {
            if let Some(admission) = lease.admission() {
                lock(&self.admission).get_or_insert(admission);
            }
            slot.get_or_insert_with(|| RenditionLease {
                lease: Arc::new(lease),
                backend,
                requested_at: Instant::now(),
            });
        }
    }

    /// The session's admission to the encode slots, if it has one.
    pub(super) fn admission(&self) -> Option<Arc<Admission>> {
        lock(&self.admission).clone()
    }

    pub(super) fn leased_rungs(&self) -> Vec<bool> {
        lock(&self.leases).iter().flat_map(|table| &table.rungs).map(Option::is_some).collect()
    }

    #[cfg(test)]
    pub(super) fn leased_audio(&self) -> Vec<bool> {
        lock(&self.leases).iter().flat_map(|table| &table.audio).map(Option::is_some).collect()
    }

    /// Whether a leased rung publishes this progress.
    pub(super) fn publishes(&self, progress: &watch::Receiver<RenditionProgress>) -> bool {
        let table = lock(&self.leases);
        let mut rungs = table.iter().flat_map(|table| &table.rungs).flatten();
        rungs.any(|rung_lease| rung_lease.lease.progress().same_channel(progress))
    }

    /// Subscribes to the rung requested last.
    pub(super) fn watch_current(&self) -> watch::Receiver<CurrentRung> {
        self.current.subscribe()
    }

    /// Releases every rung but `kept_rung`, and all audio but that requested last, that has no waiting request and was not
    /// requested for `unused_for`.
    pub(super) fn release_unused(&self, kept_rung: usize, unused_for: Duration) {
        let mut released = Vec::new();
        if let Some(table) = &mut *lock(&self.leases) {
            // A waiting request has a clone of the lease.
            let is_unused = |rendition_lease: &mut RenditionLease| {
                Arc::strong_count(&rendition_lease.lease) == 1 && rendition_lease.requested_at.elapsed() >= unused_for
            };
            released.extend(table.others(kept_rung).filter_map(|slot| slot.take_if(is_unused)));
        }
    }

    /// Releases what players left [`RELEASE_AFTER`] ago.
    pub(super) fn release_left(&self) {
        self.release_unused(self.current.borrow().rung, RELEASE_AFTER);
    }

    /// When the next rendition may have to be released.
    pub(super) fn next_release_at(&self) -> Option<Instant> {
        let current_rung = self.current.borrow().rung;
        let mut table = lock(&self.leases);
        let others = table.as_mut()?.others(current_rung);
        // One with a waiting request is checked again a little later.
        let earliest = Instant::now() + Duration::from_millis(500);
        others
            .filter_map(|rendition_lease| Some(rendition_lease.as_ref()?.requested_at + RELEASE_AFTER))
            .min()
            .map(|at| at.max(earliest))
    }

    /// Releases everything, the admission too, for good.
    pub(super) fn release_all(&self) {
        let table = lock(&self.leases).take();
        drop(table);
        let admission = lock(&self.admission).take();
        drop(admission);
    }
}
