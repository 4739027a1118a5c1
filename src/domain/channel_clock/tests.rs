use proptest::prelude::*;

use super::*;

const START: WallMs = WallMs(1_767_225_600_000);
const CHANNEL_START: ChannelMs = ChannelMs(START.0);

/// An event in the life of a clock, with the time since the previous one, ms.
#[derive(Clone, Copy, Debug)]
enum ClockEvent {
    Watch,
    Leave,
    Skip { over_ms: i64, unseen: bool },
    Turn,
}

fn any_event() -> impl Strategy<Value = (i64, ClockEvent)> {
    let skip = (1..5_000_000_i64, any::<bool>()).prop_map(|(over_ms, unseen)| ClockEvent::Skip { over_ms, unseen });
    let event =
        prop_oneof![8 => Just(ClockEvent::Watch), 2 => Just(ClockEvent::Leave), 3 => skip, 1 => Just(ClockEvent::Turn)];
    (prop_oneof![4 => 0..40_000_i64, 1 => 0..90_000_000_i64], event)
}

/// The clock after a list of events, and the instant of the last one.
fn clock_after(events: &[(i64, ClockEvent)]) -> (ChannelClock, WallMs) {
    let (mut clock, mut now) = (ChannelClock::new(START), START);
    for (pause, event) in events {
        now = now + *pause;
        clock = apply(&clock, now, *event);
    }
    (clock, now)
}

fn apply(clock: &ChannelClock, now: WallMs, event: ClockEvent) -> ChannelClock {
    let unchanged = || clock.clone();
    match event {
        ClockEvent::Watch => clock.extended(now, now + 30_000).unwrap_or_else(unchanged),
        ClockEvent::Leave => clock.paused(now).unwrap_or_else(unchanged),
        ClockEvent::Skip { over_ms, unseen } if clock.is_on_demand() => {
            let target = SkipTarget {
                to_ms: clock.channel_ms_at(now) + over_ms,
                skipped_segments: over_ms.unsigned_abs() / 2000,
                skipped_discontinuities: 1,
                skipped_time: Ticks::from_ms(over_ms),
                drops_last_interval: unseen,
            };
            clock.with_skip(now, target)
        }
        ClockEvent::Skip { .. } => unchanged(),
        ClockEvent::Turn => clock.with_on_demand(now, !clock.is_on_demand()),
    }
}

fn skip_to(to_ms: ChannelMs) -> SkipTarget {
    let (skipped_segments, skipped_discontinuities, skipped_time) = (3, 0, Ticks(9));
    SkipTarget { to_ms, skipped_segments, skipped_discontinuities, skipped_time, drops_last_interval: false }
}

fn any_events() -> impl Strategy<Value = Vec<(i64, ClockEvent)>> {
    prop::collection::vec(any_event(), 0..60)
}

proptest! {
    #[test]
    fn channel_time_never_runs_back_and_only_skips_run_faster(
        events in any_events(), instants in prop::collection::vec(0..400_000_000_i64, 2..40),
    ) {
        let (clock, _) = clock_after(&events);
        let mut instants: Vec<WallMs> = instants.iter().map(|at| START - 1_000_000 + *at).collect();
        instants.sort_unstable();
        let skipped: i64 = clock.intervals().windows(2).map(|pair| pair[1].channel_from_ms - pair[0].channel_to_ms()).sum();
        prop_assert!(clock.intervals().windows(2).all(|pair| pair[0].to_ms <= pair[1].from_ms && pair[0].channel_to_ms() <= pair[1].channel_from_ms));
        for pair in instants.windows(2) {
            let elapsed = clock.channel_ms_at(pair[1]) - clock.channel_ms_at(pair[0]);
            prop_assert!(elapsed >= 0 && elapsed <= pair[1] - pair[0] + skipped, "{elapsed} in {pair:?}");
        }
    }

    #[test]
    fn from_an_instant_to_the_channels_time_and_back(events in any_events(), at in -1_000_000..400_000_000_i64) {
        let (clock, now) = clock_after(&events);
        for clock in [clock.clone(), clock.projected(now)] {
            let (instant, time) = (START + at, clock.channel_ms_at(START + at));
            let (first, last) = (clock.first_wall_ms(time), clock.last_wall_ms(time));
            prop_assert!(first <= instant && clock.channel_ms_at(first) == time, "{first:?} {instant:?}");
            prop_assert!(clock.channel_ms_at(first - 1) < time);
            // The clock stays paused after the last interval, so there is no last instant.
            prop_assert!(instant <= last || clock.is_paused_at(instant), "{instant:?} {last:?}");
            // A skipped channel time counts as reached when the time after it is.
            let other_time = CHANNEL_START + at;
            let reached = clock.first_wall_ms(other_time);
            prop_assert!(reached == ENDLESS || clock.channel_ms_at(reached) >= other_time && clock.channel_ms_at(reached - 1) < other_time);
        }
    }

    #[test]
    fn the_past_never_changes(events in any_events(), more in any_events(), back in 1..3_000_000_i64) {
        let (before, now) = clock_after(&events);
        let (mut after, mut then) = (before.clone(), now);
        for (pause, event) in more {
            then = then + pause;
            // An `unseen` skip may undo the interval before it; it is the only event that can.
            let event = match event { ClockEvent::Skip { over_ms, .. } => ClockEvent::Skip { over_ms, unseen: false }, other => other };
            after = apply(&after, then, event);
        }
        if after.recorded_since_ms() <= now - back {
            prop_assert_eq!(before.channel_ms_at(now - back), after.channel_ms_at(now - back));
        }
        prop_assert!(after.channel_ms_at(then) >= before.channel_ms_at(now));
    }

    #[test]
    fn a_clock_survives_storage(events in any_events()) {
        let (clock, now) = clock_after(&events);
        let mut shuffled: Vec<RunningInterval> = clock.intervals().to_vec();
        shuffled.reverse();
        prop_assert_eq!(&ChannelClock::from_stored(shuffled).unwrap(), &clock);
        // An interval stored with a later end ends where the next one begins.
        if let Some(next) = clock.extended(now + 100_000, now + 130_000)
            && let Some((_, older)) = next.intervals().split_last()
            && next.intervals().len() > 1
            && clock.is_on_demand()
        {
            let mut stored = older.to_vec();
            let last = stored.last_mut().unwrap();
            last.to_ms = last.to_ms + 20_000;
            stored.push(*next.intervals().last().unwrap());
            prop_assert_eq!(ChannelClock::from_stored(stored).unwrap(), next);
        }
        let text = serde_json::to_string(clock.intervals()).unwrap();
        prop_assert_eq!(serde_json::from_str::<Vec<RunningInterval>>(&text).unwrap(), clock.intervals());
    }

    #[test]
    fn aired_intervals_cover_what_was_aired(events in any_events()) {
        let (clock, now) = clock_after(&events);
        let intervals = clock.aired_intervals();
        prop_assert!(intervals.windows(2).all(|pair| pair[0].to_ms < pair[1].from_ms), "{:?}", intervals);
        prop_assert!(intervals.first().unwrap().from_ms == ChannelMs::MIN && intervals.last().unwrap().to_ms == ChannelMs::MAX);
        let time = clock.channel_ms_at(now);
        prop_assert!(intervals.iter().any(|interval| (interval.from_ms..=interval.to_ms).contains(&time)));
        for run in clock.intervals() {
            prop_assert!(intervals.iter().any(|interval| interval.from_ms <= run.channel_from_ms && run.channel_to_ms() <= interval.to_ms));
        }
    }

    #[test]
    fn the_guide_hash_changes_with_the_guide(events in any_events(), next in any_event(), at in 0..5_000_000_i64) {
        let (clock, now) = clock_after(&events);
        let (pause, event) = next;
        let then = now + pause;
        let after = apply(&clock, then, event);
        let projected_ms = |clock: &ChannelClock, now: WallMs| clock.projected(now).channel_ms_at(then + at);
        if clock.guide_hash(now) == after.guide_hash(then) {
            prop_assert_eq!(projected_ms(&clock, now), projected_ms(&after, then));
        }
        prop_assert!(clock.guide_changed_ms(now) <= now + 1_000);
    }
}

#[test]
fn the_clock_runs_with_viewers_and_pauses_without() {
    let clock = ChannelClock::new(START);
    assert_eq!(
        (clock.channel_ms_at(START - 5), clock.channel_ms_at(START + 99_999)),
        (CHANNEL_START - 5, CHANNEL_START)
    );
    let clock = clock.extended(START + 100_000, START + 130_000).unwrap();
    let since_start = |clock: &ChannelClock, at: [i64; 2]| at.map(|at| clock.channel_ms_at(START + at) - CHANNEL_START);
    assert_eq!(since_start(&clock, [110_000, 500_000]), [10_000, 30_000]);
    assert_eq!(clock.extended(START + 101_000, START + 130_000), None, "already runs that long");
    let clock = clock.extended(START + 120_000, START + 150_000).unwrap();
    assert_eq!(clock.intervals().len(), 2, "the interval is extended");
    let clock = clock.paused(START + 125_000).unwrap();
    assert_eq!((clock.channel_ms_at(START + 900_000), clock.paused(START + 126_000)), (CHANNEL_START + 25_000, None));
    // Guides assume that the clock resumes at the next full minute.
    let ahead = clock.projected(START + 900_001);
    assert_eq!(since_start(&ahead, [960_000, 960_001]), [25_000, 25_001]);
    assert_eq!(ahead.first_wall_ms(CHANNEL_START + 25_000), START + 125_000);
    // On demand off, and on again.
    let free = clock.with_on_demand(START + 1_000_000, false);
    assert!(!free.is_on_demand() && free.extended(START + 1_000_001, START + 2_000_000).is_none());
    assert_eq!(free.channel_ms_at(START + 1_000_000 + 86_400_000), CHANNEL_START + 25_000 + 86_400_000);
    let again = free.with_on_demand(START + 2_000_000, true);
    assert!(again.is_on_demand() && again.channel_ms_at(START + 3_000_000) == CHANNEL_START + 1_025_000);
}

#[test]
fn an_unseen_interval_is_dropped_by_the_next_skip() {
    let clock = ChannelClock::new(START).extended(START, START + 30_000).unwrap();
    let jump = |to_ms, unseen| SkipTarget { drops_last_interval: unseen, ..skip_to(to_ms) };
    let first = clock.with_skip(START + 5_000, jump(CHANNEL_START + 60_000, false));
    let since_start = |clock: &ChannelClock, at: [i64; 2]| at.map(|at| clock.channel_ms_at(START + at) - CHANNEL_START);
    assert_eq!(since_start(&first, [4_999, 6_000]), [4_999, 61_000]);
    assert_eq!(first.channel_ms_at(START + 99_000), CHANNEL_START + 85_000, "runs until the end set before the skip");
    let second = first.with_skip(START + 5_500, jump(CHANNEL_START + 120_000, true));
    assert_eq!((second.intervals().len(), second.aired_intervals().len()), (2, 2));
    assert_eq!(since_start(&second, [5_499, 5_500]), [5_000, 120_000]);
    let skipped = [CHANNEL_START + 120_000, CHANNEL_START].map(|at| second.interval_of(at).skipped_time);
    assert_eq!(skipped, [Ticks(9), Ticks::ZERO]);
}

#[test]
fn stored_intervals_are_bounded_and_cover_a_playlist() {
    let (mut clock, mut now) = (ChannelClock::new(START), START);
    for _ in 0..3000 {
        now = now + 3_600_000;
        clock = clock.extended(now, now + 2_000).unwrap();
        let covered_ms: i64 = clock.intervals().iter().map(|run| run.to_ms - run.from_ms).sum();
        assert!(clock.intervals().len() <= MAX_INTERVALS);
        assert!(covered_ms >= MIN_COVERED_MS || clock.recorded_since_ms() == START, "{covered_ms}");
    }
    assert_eq!(clock.channel_ms_at(now), CHANNEL_START + 2999 * 2_000, "dropping old intervals moves nothing");
    let late = now + 400 * 24 * 3_600_000;
    let clock = clock.extended(late, late + 2_000).unwrap();
    let count = clock.intervals().len();
    assert!(count < 100 && clock.channel_ms_at(late) == CHANNEL_START + 3000 * 2_000, "{count}");
    let clock = (0..2000).fold(clock, |clock, n| {
        let now = late + 10 + n;
        clock.with_skip(now, skip_to(clock.channel_ms_at(now) + 60_000))
    });
    assert_eq!(clock.intervals().len(), MAX_INTERVALS);
}
