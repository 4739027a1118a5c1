//! The decision by example and by simulation.

use proptest::prelude::*;

use super::*;

fn without_slot(viewer: u64, deadline_ms: i64) -> SlotDemand {
    SlotDemand { viewer_number: viewer, share: 0.4, deadline_ms: Some(deadline_ms), ..SlotDemand::default() }
}

fn with_slot(viewer: u64, deadline_ms: i64, delivered: usize) -> SlotDemand {
    SlotDemand { held_slots: 1, delivered_segments: delivered, ..without_slot(viewer, deadline_ms) }
}

#[test]
fn the_earliest_deadline_is_served_first() {
    assert_eq!(assign_slots(1, &[without_slot(1, 9_000), without_slot(2, 3_000), without_slot(3, 6_000)]), [0, 1, 0]);
    assert_eq!(assign_slots(2, &[without_slot(1, 9_000), without_slot(2, 3_000), without_slot(3, 6_000)]), [0, 1, 1]);
}

#[test]
fn a_turn_has_three_segments_unless_another_reader_is_about_to_run_dry() {
    let other = without_slot(2, 6_000);
    assert_eq!(assign_slots(1, &[with_slot(1, 7_000, 1), other]), [1, 0]);
    assert_eq!(assign_slots(1, &[with_slot(1, 7_000, TURN_SEGMENTS), other]), [0, 1]);
    assert_eq!(assign_slots(1, &[with_slot(1, 11_000, 1), other]), [0, 1]);
    assert_eq!(assign_slots(1, &[with_slot(1, 90_000, 0), other]), [1, 0], "it owes the segment it got the slot for");
}

#[test]
fn a_rendition_that_needs_nothing_keeps_its_slot_until_another_needs_it() {
    let idle = SlotDemand { deadline_ms: None, ..with_slot(1, 0, 9) };
    assert_eq!(assign_slots(1, &[idle]), [1]);
    assert_eq!(assign_slots(1, &[idle, without_slot(2, 50_000)]), [0, 1]);
    assert_eq!(assign_slots(2, &[idle, without_slot(2, 50_000)]), [1, 1]);
}

#[test]
fn a_second_run_gets_only_what_the_first_runs_of_others_leave() {
    let apart = SlotDemand { second_deadline_ms: Some(0), ..with_slot(1, 0, 5) };
    assert_eq!(assign_slots(2, &[apart]), [2]);
    assert_eq!(assign_slots(2, &[apart, without_slot(2, 99_000)]), [1, 1]);
    assert_eq!(assign_slots(1, &[apart]), [1]);
}

#[test]
fn earlier_viewers_keep_their_share_when_the_machine_is_too_slow_for_all() {
    let slow = |demand: SlotDemand| SlotDemand { share: 0.7, ..demand };
    let (early, late) = (slow(without_slot(1, 15_000)), slow(with_slot(2, 0, 1)));
    assert_eq!(assign_slots(1, &[late, early]), [0, 1]);
    let idle = SlotDemand { deadline_ms: None, ..early };
    assert_eq!(assign_slots(1, &[late, idle]), [1, 0], "the rest is for the later one");
    // Two renditions of one viewer count once.
    let next = slow(SlotDemand { viewer_number: 1, ..without_slot(1, 60_000) });
    let third = SlotDemand { share: 0.4, ..without_slot(3, 0) };
    assert_eq!(assign_slots(1, &[early, next, third]), [0, 0, 1]);
}

#[test]
fn viewers_are_admitted_while_their_shares_fit() {
    assert!(has_capacity(1, [], 5.0), "one viewer is always admitted");
    assert!(has_capacity(1, [0.5], 0.5) && !has_capacity(1, [0.5, 0.2], 0.4));
    assert!(has_capacity(2, [7.0], 3.0) && !has_capacity(2, [7.0, 0.2], 1.0));
    assert!(!has_capacity(0, [], 0.1));
    // 720p30 and 1080p30 from the same size, on a machine without measurements.
    let share_at = |height: u32, measured: Option<f64>| {
        slot_share(expected_speed(pixel_cost((height * 16 / 9, height, 30.0), None), measured))
    };
    let expected = |height| share_at(height, None);
    assert!(expected(360) < 0.25 && expected(720) > 0.5 && expected(1080) >= 1.0);
    let mut measured = Throughput::default();
    assert_eq!(measured.per_second(), None);
    measured.add(240e6, 1.0);
    let share = |height| share_at(height, measured.per_second());
    assert!(has_capacity(1, [share(720)], share(720)) && !has_capacity(1, [share(1080)], share(1080) * 2.0));
}

#[test]
fn a_reader_needs_what_it_requests_when_it_would_play_it() {
    let start = |index: usize| index as i64 * 2_000;
    let mut clock = PlaybackClock::starting_at(10, start(10), 1_000);
    assert_eq!((clock.deadline_ms(start(10)), clock.deadline_ms(start(13))), (1_000, 7_000));
    // It fills its buffer: no hurry.
    clock.note_request(11, start(11), 1_100);
    clock.note_request(12, start(12), 1_200);
    assert_eq!(clock.deadline_ms(start(13)), 7_000);
    // It got the next one 3 s late.
    clock.note_delivery(13, start(13), 10_000);
    assert_eq!(clock.deadline_ms(start(14)), 12_000);
    // Another viewer, a little later in the film, delays no other.
    clock.note_request(9, start(9), 11_000);
    assert_eq!(clock.deadline_ms(start(14)), 12_000);
    // Seeks begin anew, ahead and back.
    clock.note_request(40, start(40), 12_000);
    assert_eq!(clock.deadline_ms(start(40)), 12_000);
    clock.note_request(2, start(2), 13_000);
    assert_eq!(clock.deadline_ms(start(3)), 15_000);
}

/// One rendition in the simulation.
#[derive(Clone, Debug, Default)]
struct Simulated {
    /// Slot time of a segment of 2 s, ms.
    segment_ms: i64,
    joins_ms: i64,
    made: i64,
    working_until_ms: Option<i64>,
    held: usize,
    delivered: usize,
    starts: usize,
    late: usize,
    shown: i64,
    clock: Option<PlaybackClock>,
}

impl Simulated {
    fn new(segment_ms: i64, joins_ms: i64) -> Self {
        Self { segment_ms, joins_ms, ..Self::default() }
    }

    fn share(&self) -> f64 {
        slot_share(2_000.0 / self.segment_ms as f64)
    }

    fn demand(&self, viewer: u64) -> SlotDemand {
        let missing = self.made - self.shown < 10;
        SlotDemand {
            viewer_number: viewer,
            share: self.share(),
            deadline_ms: self.clock.filter(|_| missing).map(|clock| clock.deadline_ms(self.made * 2_000)),
            second_deadline_ms: None,
            held_slots: self.held,
            delivered_segments: self.delivered,
        }
    }
}

const TWO_MINUTES_MS: i64 = 120_000;
const TEN_MINUTES_MS: i64 = 600_000;
const STEP_MS: i64 = 20;

/// Delay that the steps of the simulation may add to a segment that is just in time, ms.
const TOLERANCE_MS: i64 = 5 * STEP_MS;

/// A whole number of steps: otherwise every segment would take up to a step more than its share says.
fn segment_ms(range: std::ops::Range<i64>) -> impl Strategy<Value = i64> {
    (range.start / STEP_MS..range.end / STEP_MS).prop_map(|steps| steps * STEP_MS)
}

/// Lets renditions share the slots.
fn simulate(slots: usize, duration_ms: i64, all: &mut [Simulated]) {
    for now in (0..duration_ms).step_by(STEP_MS as usize) {
        for one in all.iter_mut() {
            if now == one.joins_ms {
                one.clock = Some(PlaybackClock::starting_at(0, 0, now));
            }
            if one.working_until_ms.is_some_and(|until| until <= now) {
                one.working_until_ms = None;
                (one.made, one.delivered) = (one.made + 1, one.delivered + 1);
                if let Some(clock) = &mut one.clock {
                    let index = one.made - 1;
                    let deadline_ms = clock.deadline_ms(index * 2_000);
                    if deadline_ms < now && index == one.shown {
                        one.late += usize::from(index >= 3 && deadline_ms + TOLERANCE_MS < now);
                        clock.note_delivery(index as usize, index * 2_000, now);
                    }
                }
            }
            if let Some(clock) = one.clock
                && one.shown < one.made
                && clock.deadline_ms(one.shown * 2_000) <= now
            {
                one.shown += 1;
            }
        }
        let demands: Vec<SlotDemand> = all.iter().enumerate().map(|(n, one)| one.demand(n as u64)).collect();
        let assigned = assign_slots(slots, &demands);
        assert!(assigned.iter().sum::<usize>() <= slots);
        for (one, target) in all.iter_mut().zip(&assigned) {
            if *target == 0 && one.working_until_ms.is_none() {
                one.held = 0;
            }
        }
        for (n, target) in assigned.iter().enumerate() {
            let used: usize = all.iter().map(|one| one.held).sum();
            if *target > 0 && all[n].held == 0 && used < slots {
                (all[n].held, all[n].delivered) = (1, 0);
                all[n].starts += 1;
            }
        }
        for (n, one) in all.iter_mut().enumerate() {
            if one.held > 0 && assigned[n] > 0 && one.working_until_ms.is_none() && demands[n].deadline_ms.is_some() {
                one.working_until_ms = Some(now + one.segment_ms);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn admitted_viewers_miss_at_most_one_segment_while_others_join(
        slots in 1usize..3,
        viewers in proptest::collection::vec((segment_ms(100..1500), 0i64..40), 1..7),
    ) {
        let mut admitted: Vec<Simulated> = Vec::new();
        for (segment_ms, joins) in viewers {
            let one = Simulated::new(segment_ms, joins * 1_000);
            if has_capacity(slots, admitted.iter().map(Simulated::share), one.share()) {
                admitted.push(one);
            }
        }
        simulate(slots, TWO_MINUTES_MS, &mut admitted);
        for one in &admitted {
            prop_assert!(one.late <= 1, "{} late: {admitted:?}", one.late);
            prop_assert!(one.starts as i64 <= one.made, "more turns than segments: {one:?}");
        }
    }

    #[test]
    fn a_slow_machine_serves_its_earliest_viewer_and_starves_none(
        first in segment_ms(200..1600),
        others in proptest::collection::vec(segment_ms(1000..4000), 1..4),
    ) {
        let mut all = vec![Simulated::new(first, 0)];
        all.extend(others.iter().map(|segment_ms| Simulated::new(*segment_ms, 500)));
        // Long enough for the earliest viewer to fill its buffer and leave time to the others.
        simulate(1, TEN_MINUTES_MS, &mut all);
        // One segment of another may be under way when its own is missing.
        prop_assert!(all[0].late <= 3, "{all:?}");
        prop_assert!(all[1].made >= 2, "{all:?}");
        for one in &all {
            prop_assert!(one.starts as i64 <= one.made + 1, "turns without a segment: {one:?}");
        }
    }
}
