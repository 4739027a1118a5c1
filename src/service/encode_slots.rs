//! The only owner of this machine's encode slots: it admits viewers and decides which run works now.
//!
//! An [`Admission`] promises one viewer (a session, or everyone who watches a channel together) that its encodes keep up. It
//! is refused when the shares add up to more than the slots. An [`EncodeJob`] is one rendition that is encoded for those
//! viewers: its owner task reports what the rendition needs, and learns how many of its runs may work. The decision who gets
//! a slot is in [`crate::domain::encode_slots`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use crate::domain::encode_slots::{self as rules, SlotDemand, Throughput};

/// All encode slots of the program.
pub struct EncodeSlots {
    slots: usize,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last_id: u64,
    /// Slots reserved for encodes that cannot take turns.
    reserved: usize,
    /// Pixels per second of slot time, over all encodes.
    throughput: Throughput,
    admissions: BTreeMap<u64, Admitted>,
    jobs: BTreeMap<u64, Job>,
}

struct Admitted {
    /// The share is kept while none of the viewer's renditions is encoded.
    lasting: bool,
    /// The last known share of a slot.
    share: f64,
}

struct Job {
    /// Pixels per second of media.
    cost: f64,
    /// Seconds of media per second of slot time.
    speed: Throughput,
    /// Admissions of its leases, one for each lease.
    viewers: Vec<u64>,
    need: Need,
    held: usize,
    assigned: usize,
    delivered: usize,
    /// Runs that may work.
    allowed: watch::Sender<usize>,
}

/// A job that was started, the viewer's admission, and the number of its runs that may work.
type Begun = (Arc<EncodeJob>, Arc<Admission>, watch::Receiver<usize>);

/// The present need of a rendition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Need {
    /// When the buffer of its first reader is empty, by [`EncodeSlots::now_ms`]; None when nothing is missing.
    pub deadline_ms: Option<i64>,
    /// The deadline of a second run.
    pub second_ms: Option<i64>,
    /// Existing runs, working or resting.
    pub runs: usize,
    /// Runs in the middle of a segment: their slots become free only at its end.
    pub working: usize,
    /// All segments are made.
    pub is_complete: bool,
}

/// The viewer a rendition is encoded for.
#[derive(Clone, Copy)]
pub enum Viewer<'a> {
    /// A new viewer, admitted as long as something is encoded for it.
    Session,
    /// A new viewer of successive programmes, who keeps the share between them.
    Channel,
    /// A viewer who is already admitted.
    Admitted(&'a Arc<Admission>),
}

/// The slots do not suffice for one more viewer.
#[derive(Clone, Copy, Debug)]
pub struct Full;

/// The promise to a viewer. It ends when the last handle is dropped.
pub struct Admission {
    slots: Arc<EncodeSlots>,
    id: u64,
}

/// One rendition that is encoded, until it is ended or its last viewer gives its share back.
pub struct EncodeJob {
    slots: Arc<EncodeSlots>,
    id: u64,
    withdrawn: AtomicBool,
}

/// A whole slot, for an encode that cannot take turns.
pub struct Reserved(Arc<EncodeSlots>);

impl EncodeSlots {
    pub fn new(slots: usize) -> Arc<Self> {
        Arc::new(Self { slots, began: Instant::now(), state: Mutex::default() })
    }

    /// Number of slots.
    pub fn count(&self) -> usize {
        self.slots
    }

    /// Slots in use: by working runs, by resting runs that would continue at once, and reserved ones.
    pub fn in_use(&self) -> usize {
        let state = self.lock();
        state.reserved + state.held()
    }

    /// Number of viewers that have a share of the slots.
    pub fn viewers(&self) -> usize {
        let mut state = self.lock();
        let shares = state.shares();
        state.reserved + shares.iter().filter(|share| **share > 0.0).count()
    }

    /// Whether some shares are only estimates, because their renditions have no segment yet.
    pub fn is_measuring(&self) -> bool {
        self.lock().jobs.values().any(|job| !job.need.is_complete && job.speed.per_second().is_none())
    }

    /// Milliseconds since this object was created.
    pub fn now_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Reserves a whole slot, if the viewers do not need it.
    pub fn reserve(self: &Arc<Self>) -> Option<Reserved> {
        let mut state = self.lock();
        if !state.fits(self.slots, 1.0) {
            return None;
        }
        state.reserved += 1;
        state.assign(self.slots, None);
        Some(Reserved(self.clone()))
    }

    /// Starts a job of `cost` pixels per second of media; returns how many of its runs may work.
    ///
    /// # Errors
    /// [`Full`] for a new viewer whose share does not fit.
    pub fn begin(self: &Arc<Self>, cost: f64, viewer: Viewer<'_>) -> Result<Begun, Full> {
        let mut state = self.lock();
        let share = rules::slot_share(rules::expected_speed(cost, state.throughput.per_second()));
        let admission = match viewer {
            Viewer::Admitted(admission) => admission.clone(),
            _ if !state.fits(self.slots, share) => return Err(Full),
            _ => self.admit(&mut state, viewer, share),
        };
        let (allowed, seen) = watch::channel(0);
        let id = state.next_id();
        let job = Job {
            cost,
            speed: Throughput::default(),
            viewers: vec![admission.id],
            need: Need::default(),
            held: 0,
            assigned: 0,
            delivered: 0,
            allowed,
        };
        state.jobs.insert(id, job);
        Ok((Arc::new(EncodeJob { slots: self.clone(), id, withdrawn: AtomicBool::new(false) }), admission, seen))
    }

    fn admit(self: &Arc<Self>, state: &mut State, viewer: Viewer<'_>, share: f64) -> Arc<Admission> {
        let id = state.next_id();
        state.admissions.insert(id, Admitted { lasting: matches!(viewer, Viewer::Channel), share });
        Arc::new(Admission { slots: self.clone(), id })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn held(&self) -> usize {
        self.jobs.values().map(|job| job.held).sum()
    }

    /// The share a rendition needs: zero when it is complete.
    fn share(&self, job: &Job) -> f64 {
        let expected = || rules::expected_speed(job.cost, self.throughput.per_second());
        if job.need.is_complete { 0.0 } else { rules::slot_share(job.speed.per_second().unwrap_or_else(expected)) }
    }

    /// The share of each viewer, earlier viewers first. A shared rendition counts for its first viewer. A viewer reads one
    /// of its renditions at a time, so only the most costly one counts.
    fn shares(&mut self) -> Vec<f64> {
        let known: Vec<(u64, f64)> = self.jobs.iter().map(|(id, job)| (*id, self.share(job))).collect();
        let mut counted = BTreeSet::new();
        let mut shares = Vec::with_capacity(self.admissions.len());
        for (viewer, admitted) in &mut self.admissions {
            let own = known.iter().filter(|(id, share)| *share > 0.0 && self.jobs[id].viewers.contains(viewer));
            let own: Vec<(u64, f64)> = own.copied().collect();
            if own.is_empty() {
                shares.push(if admitted.lasting { admitted.share } else { 0.0 });
                continue;
            }
            admitted.share = own.iter().map(|(_, share)| *share).fold(0.0, f64::max);
            let first = own.iter().filter(|(id, _)| counted.insert(*id));
            shares.push(first.map(|(_, share)| *share).fold(0.0, f64::max));
        }
        shares
    }

    fn fits(&mut self, slots: usize, share: f64) -> bool {
        let shares = self.shares();
        rules::has_capacity(slots.saturating_sub(self.reserved), shares, share)
    }

    /// Decides again which jobs may work. The job `releasing` gives up excess slots now; others do so when they are
    /// notified.
    fn assign(&mut self, slots: usize, releasing: Option<u64>) {
        let slots = slots.saturating_sub(self.reserved);
        let demand = |job: &Job| SlotDemand {
            viewer_number: job.viewers.iter().copied().min().unwrap_or(u64::MAX),
            share: self.share(job),
            deadline_ms: job.need.deadline_ms,
            second_deadline_ms: job.need.second_ms,
            held_slots: job.held.min(job.need.runs.max(1)),
            delivered_segments: job.delivered,
        };
        let demands: Vec<SlotDemand> = self.jobs.values().map(demand).collect();
        let assigned = rules::assign_slots(slots, &demands);
        let mut granted: Vec<(Option<i64>, u64)> = Vec::new();
        for (((id, job), demand), assigned) in self.jobs.iter_mut().zip(&demands).zip(assigned) {
            job.assigned = if job.need.is_complete { 0 } else { assigned };
            if releasing == Some(*id) && job.held > job.assigned {
                job.held = job.assigned.max(job.need.working.min(job.held));
            }
            if job.assigned > job.held {
                granted.push((demand.deadline_ms, *id));
            }
        }
        granted.sort_unstable();
        let mut free = slots.saturating_sub(self.held());
        for (_, id) in granted {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let more = (job.assigned - job.held).min(free);
            if job.held == 0 {
                job.delivered = 0;
            }
            (job.held, free) = (job.held + more, free - more);
        }
        for job in self.jobs.values() {
            let allowed = job.held.min(job.assigned);
            job.allowed.send_if_modified(|known| std::mem::replace(known, allowed) != allowed);
        }
    }
}

impl EncodeJob {
    /// Reports what the rendition needs; returns how many of its runs may work. Changes arrive through the receiver, which
    /// closes when the job has ended.
    pub fn update(&self, need: Need) -> usize {
        let mut state = self.slots.lock();
        let Some(job) = state.jobs.get_mut(&self.id) else { return 0 };
        job.need = need;
        state.assign(self.slots.slots, Some(self.id));
        state.jobs.get(&self.id).map_or(0, |job| job.held.min(job.assigned))
    }

    /// Counts a segment of `media` seconds. `spent` is the slot time it took, seconds; None if that is not typical of the
    /// segments to come.
    pub fn delivered(&self, media: f64, spent: Option<f64>) {
        let mut state = self.slots.lock();
        let Some(job) = state.jobs.get_mut(&self.id) else { return };
        job.delivered += 1;
        if let Some(spent) = spent {
            job.speed.add(media, spent);
            let pixels = job.cost * media;
            state.throughput.add(pixels, spent);
        }
    }

    /// Adds a viewer to the job, at no cost. None when the job has ended.
    pub fn join(&self, viewer: Viewer<'_>) -> Option<Arc<Admission>> {
        let mut state = self.slots.lock();
        if !state.jobs.contains_key(&self.id) {
            return None;
        }
        let admission = match viewer {
            Viewer::Admitted(admission) => admission.clone(),
            _ => self.slots.admit(&mut state, viewer, 0.0),
        };
        if let Some(job) = state.jobs.get_mut(&self.id) {
            job.viewers.push(admission.id);
        }
        Some(admission)
    }

    /// Removes a viewer from the job.
    pub fn leave(&self, admission: &Admission) {
        self.remove(admission, false);
    }

    /// Removes a viewer that gives its share back to others. Without other viewers the job ends.
    pub fn withdraw(&self, admission: &Admission) {
        self.remove(admission, true);
    }

    /// Whether the job ended because its last viewer gave its share back.
    pub fn was_withdrawn(&self) -> bool {
        self.withdrawn.load(Ordering::Relaxed)
    }

    fn remove(&self, admission: &Admission, withdraws: bool) {
        let mut state = self.slots.lock();
        // A lasting admission keeps its present share.
        state.shares();
        if let Some(job) = state.jobs.get_mut(&self.id)
            && let Some(at) = job.viewers.iter().position(|viewer| *viewer == admission.id)
        {
            job.viewers.swap_remove(at);
            if withdraws && job.viewers.is_empty() {
                self.withdrawn.store(true, Ordering::Relaxed);
                state.jobs.remove(&self.id);
            }
            state.assign(self.slots.slots, None);
        }
    }

    /// Ends the job and frees its slots.
    pub fn end(&self) {
        let mut state = self.slots.lock();
        if state.jobs.remove(&self.id).is_some() {
            state.assign(self.slots.slots, None);
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
        state.assign(self.slots.slots, None);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.reserved -= 1;
        state.assign(self.0.slots, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pixels per second that no slot can keep up with.
    const HEAVY: f64 = 1e9;

    #[test]
    fn a_channel_keeps_its_share_from_one_programme_to_the_next_and_a_session_does_not() {
        let slots = EncodeSlots::new(1);
        let (job, channel, _) = slots.begin(HEAVY, Viewer::Channel).ok().unwrap();
        job.leave(&channel);
        job.end();
        assert!(slots.begin(1.0, Viewer::Session).is_err() && slots.reserve().is_none());
        assert_eq!((slots.viewers(), slots.in_use()), (1, 0));
        let (job, same, _) = slots.begin(HEAVY, Viewer::Admitted(&channel)).ok().unwrap();
        job.leave(&same);
        job.end();
        drop((channel, same));
        let (job, _session, _) = slots.begin(HEAVY, Viewer::Session).ok().unwrap();
        assert!(slots.begin(1.0, Viewer::Session).is_err());
        job.update(Need { is_complete: true, ..Need::default() });
        assert!(slots.begin(1.0, Viewer::Session).is_ok(), "all segments are made");
    }

    #[test]
    fn what_is_watched_together_counts_once_and_passes_to_whoever_stays() {
        let slots = EncodeSlots::new(2);
        let (job, first, _) = slots.begin(HEAVY, Viewer::Session).ok().unwrap();
        let second = job.join(Viewer::Session).unwrap();
        let (_other, _third, _) = slots.begin(HEAVY, Viewer::Session).ok().unwrap();
        assert_eq!(slots.viewers(), 2);
        job.leave(&first);
        drop(first);
        assert!(slots.begin(1.0, Viewer::Session).is_err());
        job.withdraw(&second);
        assert!(job.join(Viewer::Session).is_none(), "a job without viewers has ended");
        assert!(slots.begin(1.0, Viewer::Session).is_ok());
    }

    #[test]
    fn a_slot_is_handed_over_at_the_end_of_a_segment() {
        let slots = EncodeSlots::new(1);
        let (one, _a, mut one_allowed) = slots.begin(1.0, Viewer::Session).ok().unwrap();
        let (two, _b, two_allowed) = slots.begin(1.0, Viewer::Session).ok().unwrap();
        let need = |deadline_ms, working| Need { deadline_ms: Some(deadline_ms), runs: 1, working, ..Need::default() };
        assert_eq!(
            (one.update(need(20_000, 0)), two.update(need(1_000, 0))),
            (1, 0),
            "the first job must make its first segment"
        );
        one.delivered(2.0, None);
        assert_eq!(one.update(need(22_000, 1)), 0, "the other job is urgent");
        assert_eq!((*one_allowed.borrow_and_update(), *two_allowed.borrow()), (0, 0));
        assert_eq!(one.update(need(22_000, 0)), 0);
        assert_eq!((*two_allowed.borrow(), slots.in_use()), (1, 1));
        two.end();
        assert_eq!((*one_allowed.borrow(), slots.in_use()), (1, 1));
        let reserved = EncodeSlots::new(2);
        let held = reserved.reserve().unwrap();
        assert_eq!((reserved.in_use(), reserved.viewers()), (1, 1));
        drop(held);
        assert_eq!(reserved.in_use(), 0);
    }
}
