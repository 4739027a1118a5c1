//! The only owner of this machine's encode slots: it admits viewers and decides which run works now.
//!
//! An [`Admission`] promises one viewer (a session, or everyone who watches a channel together) that its encodes keep up. It
//! is refused when the shares add up to more than the slots. An [`EncodeJob`] is one rendition that is encoded for those
//! viewers: its owner task reports what the rendition needs, and learns how many of its runs may work. The decision who gets
//! a slot is in [`crate::domain::encode_slots`].

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use crate::domain::encode_slots::{self as rules, SlotDemand, Throughput};
use crate::error::{Code, Result};

/// All encode slots of the program.
pub struct EncodeSlots {
    slot_count: AtomicUsize,
    started: Instant,
    state: Mutex<SlotState>,
    /// Sent when shares became free or known, so that a refused viewer may fit now.
    capacity_changes: watch::Sender<()>,
}

#[derive(Default)]
struct SlotState {
    last_id: u64,
    /// Slots reserved for encodes that cannot take turns.
    reserved_slots: usize,
    /// Pixels per second of slot time, over all encodes.
    throughput: Throughput,
    admissions: BTreeMap<u64, AdmittedViewer>,
    jobs: BTreeMap<u64, JobState>,
}

struct AdmittedViewer {
    /// The share is kept while none of the viewer's renditions is encoded.
    keeps_share: bool,
    /// The last known share of a slot.
    share: f64,
}

struct JobState {
    /// Pixels per second of media.
    cost: f64,
    /// Seconds of media per second of slot time.
    speed: Throughput,
    /// Admissions of its leases, one for each lease.
    viewers: Vec<u64>,
    need: RenditionNeed,
    held_slots: usize,
    assigned_slots: usize,
    delivered_segments: usize,
    /// Runs that may work.
    allowed_runs: watch::Sender<usize>,
}

/// A job that was started, the viewer's admission, and the number of its runs that may work.
type StartedJob = (Arc<EncodeJob>, Arc<Admission>, watch::Receiver<usize>);

/// The present need of a rendition.
#[derive(Clone, Copy, Debug, Default)]
pub struct RenditionNeed {
    /// When the buffer of its first reader is empty, by [`EncodeSlots::now_ms`]; None when nothing is missing.
    pub deadline_ms: Option<i64>,
    /// The deadline of a second run.
    pub second_deadline_ms: Option<i64>,
    /// Existing runs, working or resting.
    pub run_count: usize,
    /// Runs in the middle of a segment: their slots become free only at its end.
    pub working_runs: usize,
    /// All segments are made.
    pub is_complete: bool,
}

/// The viewer a rendition is encoded for.
#[derive(Clone, Copy)]
pub enum AdmissionRequest<'a> {
    /// A new viewer, admitted as long as something is encoded for it.
    Session,
    /// A new viewer of successive programmes, who keeps the share between them.
    Channel,
    /// A viewer who is already admitted.
    Admitted(&'a Arc<Admission>),
}

/// The next step after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterRefusal {
    /// A share was given up for it.
    TryAgain,
    /// A share may become free or known.
    Wait,
    GiveUp,
}

/// The slots do not suffice for one more viewer.
#[derive(Clone, Copy, Debug)]
pub struct SlotsExhausted;

/// The promise to a viewer. It ends when the last handle is dropped.
pub struct Admission {
    slots: Arc<EncodeSlots>,
    id: u64,
}

/// One rendition that is encoded, until it is ended or its last viewer gives its share back.
pub struct EncodeJob {
    slots: Arc<EncodeSlots>,
    id: u64,
    is_withdrawn: AtomicBool,
}

/// A whole slot, for an encode that cannot take turns.
pub struct ReservedSlot(Arc<EncodeSlots>);

impl EncodeSlots {
    pub fn new(slot_count: usize) -> Arc<Self> {
        let (state, capacity_changes) = (Mutex::default(), watch::Sender::new(()));
        Arc::new(Self { slot_count: slot_count.into(), started: Instant::now(), state, capacity_changes })
    }

    /// Number of slots.
    pub fn slot_count(&self) -> usize {
        self.slot_count.load(Ordering::Relaxed)
    }

    /// Changes the number of slots, because remote workers came or went. Viewers that were admitted stay.
    pub fn set_slot_count(&self, slot_count: usize) {
        self.slot_count.store(slot_count, Ordering::Relaxed);
        self.release_shares(&mut self.lock());
    }

    /// Slots in use: by working runs, by resting runs that would continue at once, and reserved ones.
    pub fn used_slots(&self) -> usize {
        let state = self.lock();
        state.reserved_slots + state.held_slots()
    }

    /// Renditions whose readers need segments, and that wait for a slot.
    pub fn waiting_renditions(&self) -> usize {
        let state = self.lock();
        state.jobs.values().filter(|job| job.need.deadline_ms.is_some() && job.held_slots == 0).count()
    }

    /// Number of viewers that have a share of the slots.
    pub fn viewer_count(&self) -> usize {
        let mut state = self.lock();
        let shares = state.viewer_shares();
        state.reserved_slots + shares.iter().filter(|share| **share > 0.0).count()
    }

    /// Whether some shares are only estimates, because their renditions have no segment yet.
    pub fn is_measuring(&self) -> bool {
        self.lock().jobs.values().any(|job| !job.need.is_complete && job.speed.per_second().is_none())
    }

    /// Milliseconds since this object was created.
    pub fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Repeats an attempt that is refused with `TRANSCODER_BUSY`: whenever a share becomes free or known, and once more at the
    /// deadline. After a refusal, `make_room` says whether to try again at once, to wait or to give up.
    ///
    /// # Errors
    /// Those of the attempt.
    pub async fn retry_when_busy<T, F: Future<Output = Result<T>>>(
        &self,
        deadline: Instant,
        mut attempt: impl FnMut() -> F,
        mut make_room: impl FnMut() -> AfterRefusal,
    ) -> Result<T> {
        let mut changes = self.capacity_changes.subscribe();
        loop {
            changes.mark_unchanged();
            let is_last = Instant::now() >= deadline;
            let refusal = match attempt().await {
                Err(busy) if busy.code == Code::TranscoderBusy => busy,
                answer => return answer,
            };
            match make_room() {
                AfterRefusal::TryAgain if !is_last => {}
                AfterRefusal::Wait if !is_last => {
                    let _ = tokio::time::timeout_at(deadline, changes.changed()).await;
                }
                _ => return Err(refusal),
            }
        }
    }

    /// Reserves a whole slot, if the viewers do not need it.
    pub fn reserve_slot(self: &Arc<Self>) -> Option<ReservedSlot> {
        let mut state = self.lock();
        if !state.has_capacity(self.slot_count(), 1.0) {
            return None;
        }
        state.reserved_slots += 1;
        state.assign_slots(self.slot_count(), None);
        Some(ReservedSlot(self.clone()))
    }

    /// Whether one slot is expected to make a rendition of `cost` pixels per second of media in real time, with headroom.
    pub fn keeps_up_with(&self, cost: f64) -> bool {
        rules::slot_share(rules::expected_speed(cost, self.lock().throughput.per_second())) < 1.0
    }

    /// Starts a job of `cost` pixels per second of media; returns how many of its runs may work.
    ///
    /// # Errors
    /// [`SlotsExhausted`] for a new viewer whose share does not fit.
    pub fn start_job(self: &Arc<Self>, cost: f64, viewer: AdmissionRequest<'_>) -> Result<StartedJob, SlotsExhausted> {
        let mut state = self.lock();
        let share = rules::slot_share(rules::expected_speed(cost, state.throughput.per_second()));
        let admission = match viewer {
            AdmissionRequest::Admitted(admission) => admission.clone(),
            _ if !state.has_capacity(self.slot_count(), share) => return Err(SlotsExhausted),
            _ => self.admit(&mut state, viewer, share),
        };
        let (allowed, receiver) = watch::channel(0);
        let id = state.next_id();
        let job = JobState {
            cost,
            speed: Throughput::default(),
            viewers: vec![admission.id],
            need: RenditionNeed::default(),
            held_slots: 0,
            assigned_slots: 0,
            delivered_segments: 0,
            allowed_runs: allowed,
        };
        state.jobs.insert(id, job);
        Ok((Arc::new(EncodeJob { slots: self.clone(), id, is_withdrawn: AtomicBool::new(false) }), admission, receiver))
    }

    fn admit(self: &Arc<Self>, state: &mut SlotState, viewer: AdmissionRequest<'_>, share: f64) -> Arc<Admission> {
        let id = state.next_id();
        state.admissions.insert(id, AdmittedViewer { keeps_share: matches!(viewer, AdmissionRequest::Channel), share });
        Arc::new(Admission { slots: self.clone(), id })
    }

    /// Decides again after shares became free or smaller, and wakes refused viewers.
    fn release_shares(&self, state: &mut SlotState) {
        state.assign_slots(self.slot_count(), None);
        self.capacity_changes.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotState {
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn held_slots(&self) -> usize {
        self.jobs.values().map(|job| job.held_slots).sum()
    }

    /// The share a rendition needs: zero when it is complete.
    fn job_share(&self, job: &JobState) -> f64 {
        let expected = || rules::expected_speed(job.cost, self.throughput.per_second());
        if job.need.is_complete { 0.0 } else { rules::slot_share(job.speed.per_second().unwrap_or_else(expected)) }
    }

    /// The share of each viewer, earlier viewers first. A shared rendition counts for its first viewer. A viewer reads one
    /// of its renditions at a time, so only the most costly one counts.
    fn viewer_shares(&mut self) -> Vec<f64> {
        let job_shares: Vec<(u64, f64)> = self.jobs.iter().map(|(id, job)| (*id, self.job_share(job))).collect();
        let mut counted = BTreeSet::new();
        let mut shares = Vec::with_capacity(self.admissions.len());
        for (viewer, admitted) in &mut self.admissions {
            let own = job_shares.iter().filter(|(id, share)| *share > 0.0 && self.jobs[id].viewers.contains(viewer));
            let own: Vec<(u64, f64)> = own.copied().collect();
            if own.is_empty() {
                shares.push(if admitted.keeps_share { admitted.share } else { 0.0 });
                continue;
            }
            admitted.share = own.iter().map(|(_, share)| *share).fold(0.0, f64::max);
            let counted_shares = own.iter().filter(|(id, _)| counted.insert(*id));
            shares.push(counted_shares.map(|(_, share)| *share).fold(0.0, f64::max));
        }
        shares
    }

    fn has_capacity(&mut self, slot_count: usize, share: f64) -> bool {
        let shares = self.viewer_shares();
        rules::has_capacity(slot_count.saturating_sub(self.reserved_slots), shares, share)
    }

    /// Decides again which jobs may work. The job `releasing` gives up excess slots now; others do so when they are
    /// notified.
    fn assign_slots(&mut self, slot_count: usize, releasing: Option<u64>) {
        let usable_slots = slot_count.saturating_sub(self.reserved_slots);
        let demand = |job: &JobState| SlotDemand {
            viewer_number: job.viewers.iter().copied().min().unwrap_or(u64::MAX),
            share: self.job_share(job),
            deadline_ms: job.need.deadline_ms,
            second_deadline_ms: job.need.second_deadline_ms,
            held_slots: job.held_slots.min(job.need.run_count.max(1)),
            delivered_segments: job.delivered_segments,
        };
        let demands: Vec<SlotDemand> = self.jobs.values().map(demand).collect();
        let assigned = rules::assign_slots(usable_slots, &demands);
        let mut waiting_jobs: Vec<(Option<i64>, u64)> = Vec::new();
        for (((id, job), demand), assigned) in self.jobs.iter_mut().zip(&demands).zip(assigned) {
            job.assigned_slots = if job.need.is_complete { 0 } else { assigned };
            if releasing == Some(*id) && job.held_slots > job.assigned_slots {
                job.held_slots = job.assigned_slots.max(job.need.working_runs.min(job.held_slots));
            }
            if job.assigned_slots > job.held_slots {
                waiting_jobs.push((demand.deadline_ms, *id));
            }
        }
        waiting_jobs.sort_unstable();
        let mut free = usable_slots.saturating_sub(self.held_slots());
        for (_, id) in waiting_jobs {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let granted = (job.assigned_slots - job.held_slots).min(free);
            if job.held_slots == 0 {
                job.delivered_segments = 0;
            }
            (job.held_slots, free) = (job.held_slots + granted, free - granted);
        }
        for job in self.jobs.values() {
            let allowed = job.held_slots.min(job.assigned_slots);
            job.allowed_runs.send_if_modified(|current| std::mem::replace(current, allowed) != allowed);
        }
    }
}

impl EncodeJob {
    /// Reports what the rendition needs; returns how many of its runs may work. Changes arrive through the receiver, which
    /// closes when the job has ended.
    pub fn update(&self, need: RenditionNeed) -> usize {
        let mut state = self.slots.lock();
        let Some(job) = state.jobs.get_mut(&self.id) else { return 0 };
        let was_complete = std::mem::replace(&mut job.need, need).is_complete;
        state.assign_slots(self.slots.slot_count(), Some(self.id));
        if need.is_complete && !was_complete {
            self.slots.capacity_changes.send_replace(());
        }
        state.jobs.get(&self.id).map_or(0, |job| job.held_slots.min(job.assigned_slots))
    }

    /// Counts a segment of `media` seconds. `spent` is the slot time it took, seconds; None if that is not typical of the
    /// segments to come.
    pub fn record_segment(&self, media: f64, spent: Option<f64>) {
        let mut state = self.slots.lock();
        let Some(job) = state.jobs.get_mut(&self.id) else { return };
        job.delivered_segments += 1;
        if let Some(spent) = spent {
            job.speed.add(media, spent);
            let pixels = job.cost * media;
            state.throughput.add(pixels, spent);
            self.slots.capacity_changes.send_replace(());
        }
    }

    /// Adds a viewer to the job, at no cost. None when the job has ended.
    pub fn add_viewer(&self, viewer: AdmissionRequest<'_>) -> Option<Arc<Admission>> {
        let mut state = self.slots.lock();
        if !state.jobs.contains_key(&self.id) {
            return None;
        }
        let admission = match viewer {
            AdmissionRequest::Admitted(admission) => admission.clone(),
            _ => self.slots.admit(&mut state, viewer, 0.0),
        };
        if let Some(job) = state.jobs.get_mut(&self.id) {
            job.viewers.push(admission.id);
        }
        Some(admission)
    }

    /// Removes a viewer from the job.
    pub fn remove_viewer(&self, admission: &Admission) {
        self.remove(admission, false);
    }

    /// Removes a viewer that gives its share back to others. Without other viewers the job ends.
    pub fn withdraw(&self, admission: &Admission) {
        self.remove(admission, true);
    }

    /// Whether the job ended because its last viewer gave its share back.
    pub fn was_withdrawn(&self) -> bool {
        self.is_withdrawn.load(Ordering::Relaxed)
    }

    fn remove(&self, admission: &Admission, gives_share_back: bool) {
        let mut state = self.slots.lock();
        // A lasting admission keeps its present share.
        state.viewer_shares();
        if let Some(job) = state.jobs.get_mut(&self.id)
            && let Some(index) = job.viewers.iter().position(|viewer| *viewer == admission.id)
        {
            job.viewers.swap_remove(index);
            if gives_share_back && job.viewers.is_empty() {
                self.is_withdrawn.store(true, Ordering::Relaxed);
                state.jobs.remove(&self.id);
            }
            self.slots.release_shares(&mut state);
        }
    }

    /// Ends the job and frees its slots.
    pub fn end(&self) {
        let mut state = self.slots.lock();
        if state.jobs.remove(&self.id).is_some() {
            self.slots.release_shares(&mut state);
        }
    }

    pub fn slots(&self) -> &EncodeSlots {
        &self.slots
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        state.admissions.remove(&self.id);
        self.slots.release_shares(&mut state);
    }
}

impl Drop for ReservedSlot {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.reserved_slots -= 1;
        self.0.release_shares(&mut state);
    }
}

#[cfg(test)]
mod tests;
