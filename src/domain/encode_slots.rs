//! Encode slots: which renditions are encoded now, and whether one more viewer can be served.
//!
//! A machine encodes as many renditions at once as it has encode slots. A rendition far enough ahead of its readers leaves
//! its slot to another, so more viewers than slots can watch. This module only decides; `service::renditions::encode_slots` applies the
//! decision.

use std::collections::{BTreeMap, BTreeSet};

/// Segments a rendition makes before it leaves its slot to one that is only a little more urgent: starting a run costs
/// as much as one or two segments.
const TURN_SEGMENTS: usize = 3;

/// How much sooner another rendition's reader must run dry to end a turn early, ms. With less, a run that is slow to start
/// is interrupted so often that viewers wait. In 36 of 15,000 simulated cases in which viewers join within 8 s, one of them
/// got one segment late.
const URGENT_MS: i64 = 4_000;

/// Safety factor over the measured share: a scene may be harder to encode, and a run has to start.
const HEADROOM: f64 = 1.2;

/// Minimum share of a slot. It bounds how many runs wait, paused, for their turn.
const MIN_SHARE: f64 = 0.1;

/// Pixels per second that one slot is assumed to encode before anything was measured. Two cores of 2015 do more.
const UNMEASURED_PIXELS: f64 = 60e6;

/// Rounding of sums of shares.
const EPSILON: f64 = 1e-9;

/// How far before the furthest request a request may be without counting as a seek, segments.
const SEEK_BACK: usize = 8;

/// How far after the furthest request a request may be without counting as a seek, segments.
const SEEK_AHEAD: usize = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SlotDemand {
    /// Admission number of its earliest viewer; earlier viewers have lower ones.
    pub viewer_number: u64,
    /// The share of a slot that keeps up with its readers.
    pub share: f64,
    /// When its first reader runs dry, ms of any clock; None when nothing is missing.
    pub deadline_ms: Option<i64>,
    /// Deadline for a second run if two readers are far apart, ms; None if none is needed.
    pub second_deadline_ms: Option<i64>,
    pub held_slots: usize,
    /// Segments it delivered since it got its slot.
    pub delivered_segments: usize,
}

impl SlotDemand {
    /// The deadline used for ranking: within its turn a rendition keeps its slot unless another one is urgent.
    fn rank_ms(&self, deadline_ms: i64) -> i64 {
        let is_in_turn = self.held_slots > 0 && self.delivered_segments < TURN_SEGMENTS;
        if is_in_turn { deadline_ms - URGENT_MS } else { deadline_ms }
    }

    /// It has not delivered the segment it got its slot for. Without this rule two renditions could take the slot from
    /// each other for ever.
    fn is_starting(&self) -> bool {
        self.held_slots > 0 && self.delivered_segments == 0
    }
}

/// The number of slots each rendition may use, in the order of `demands`.
///
/// The nearest deadline is served first. When the shares add up to more than `slots`, later viewers get what earlier ones
/// leave. A rendition that needs nothing keeps its slot as long as no other needs one.
pub fn assign_slots(slots: usize, demands: &[SlotDemand]) -> Vec<usize> {
    let entitled = entitled_viewers(slots, demands);
    let mut first: Vec<_> = demands
        .iter()
        .enumerate()
        .filter_map(|(n, demand)| {
            let deadline = demand.rank_ms(demand.deadline_ms?);
            Some((!demand.is_starting(), !entitled.contains(&demand.viewer_number), deadline, demand.viewer_number, n))
        })
        .collect();
    first.sort_unstable();
    let mut second: Vec<_> = demands
        .iter()
        .enumerate()
        .filter_map(|(n, demand)| Some((demand.held_slots < 2, demand.second_deadline_ms?, n)))
        .collect();
    second.sort_unstable();
    let is_idle = |n: &usize| demands[*n].deadline_ms.is_none();
    let idle = (0..demands.len()).filter(is_idle).flat_map(|n| std::iter::repeat_n(n, demands[n].held_slots));
    let mut assigned = vec![0; demands.len()];
    let order = first.iter().map(|first| first.4).chain(second.iter().map(|second| second.2)).chain(idle);
    for n in order.take(slots) {
        assigned[n] += 1;
    }
    assigned
}

/// Viewers whose shares fit into the slots, earlier ones first. The headroom for harder scenes may be used up.
fn entitled_viewers(slots: usize, demands: &[SlotDemand]) -> BTreeSet<u64> {
    let mut shares: BTreeMap<u64, f64> = BTreeMap::new();
    for demand in demands {
        let needed = if demand.share < 1.0 { demand.share / HEADROOM } else { 1.0 };
        let share = shares.entry(demand.viewer_number).or_default();
        *share = share.max(needed);
    }
    let mut sum = 0.0;
    let has_room = |(_, share): &(u64, f64)| {
        sum += share;
        sum <= slots as f64 + EPSILON
    };
    shares.into_iter().take_while(has_room).map(|(viewer, _)| viewer).collect()
}

/// Whether one more viewer can be served in addition to those admitted. A viewer never needs more than one slot.
pub fn has_capacity(slots: usize, admitted: impl IntoIterator<Item = f64>, share: f64) -> bool {
    let sum: f64 = admitted.into_iter().chain([share]).map(|share| share.min(1.0)).sum();
    sum <= slots as f64 + EPSILON
}

/// The share of a slot that a rendition needs. `speed` is seconds of media per second of slot time.
pub fn slot_share(speed: f64) -> f64 {
    (HEADROOM / speed.max(0.001)).clamp(MIN_SHARE, 1.0)
}

/// The expected speed of a rendition that decodes and encodes `pixels` per second, before it was measured: from what a slot
/// of this machine encoded for others, otherwise from a cautious constant.
pub fn expected_speed(pixels: f64, measured_pixels: Option<f64>) -> f64 {
    measured_pixels.unwrap_or(UNMEASURED_PIXELS) / pixels.max(1.0)
}

/// Pixels per second that a rendition costs: those it encodes, and half of those it decodes.
pub fn pixel_cost(encoded: (u32, u32, f64), decoded: Option<(u32, u32, f64)>) -> f64 {
    let pixels = |(width, height, rate): (u32, u32, f64)| f64::from(width) * f64::from(height) * rate;
    pixels(encoded) + pixels(decoded.unwrap_or(encoded)) / 2.0
}

/// A mean of amounts per second of slot time; old measurements fade.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throughput {
    amount: f64,
    seconds: f64,
}

impl Throughput {
    pub fn add(&mut self, amount: f64, seconds: f64) {
        self.amount = self.amount * 0.8 + amount;
        self.seconds = self.seconds * 0.8 + seconds.max(0.001);
    }

    /// None before the first measurement.
    pub fn per_second(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.amount / self.seconds)
    }
}

/// When a reader needs each segment, as if it played at normal speed from its first request on. A reader that requests
/// faster than that fills its own buffer and is in no hurry.
#[derive(Clone, Copy, Debug)]
pub struct PlaybackClock {
    furthest_segment: usize,
    /// When it would have played the item's start, ms.
    item_start_ms: i64,
}

impl PlaybackClock {
    /// Begins with the request for a segment that starts at `start_ms` of the item.
    pub fn starting_at(index: usize, start_ms: i64, now_ms: i64) -> Self {
        Self { furthest_segment: index, item_start_ms: now_ms - start_ms }
    }

    /// Notes a request. A reader that comes later than expected had paused.
    pub fn note_request(&mut self, index: usize, start_ms: i64, now_ms: i64) {
        if index > self.furthest_segment + SEEK_AHEAD || index + SEEK_BACK < self.furthest_segment {
            *self = Self::starting_at(index, start_ms, now_ms);
        } else if index >= self.furthest_segment {
            self.furthest_segment = index;
            self.item_start_ms = self.item_start_ms.max(now_ms - start_ms);
        }
    }

    /// Notes that the reader got a segment it waited for; playback stood still when that was late.
    pub fn note_delivery(&mut self, index: usize, start_ms: i64, now_ms: i64) {
        if index >= self.furthest_segment {
            self.item_start_ms = self.item_start_ms.max(now_ms - start_ms);
        }
    }

    /// When the reader needs what starts at `start_ms` of the item, ms.
    pub fn deadline_ms(&self, start_ms: i64) -> i64 {
        self.item_start_ms + start_ms
    }
}

#[cfg(test)]
mod tests;
