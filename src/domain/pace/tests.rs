use proptest::prelude::*;

use super::*;

const START: i64 = 1_767_225_600_000;

/// An event in the life of a clock, with the time since the previous one, ms.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Watch,
    Leave,
    Skip { over_ms: i64, unseen: bool },
    Turn,
}

fn deed() -> impl Strategy<Value = (i64, Deed)> {
    let skip = (1..5_000_000_i64, any::<bool>()).prop_map(|(over_ms, unseen)| Deed::Skip { over_ms, unseen });
    let deed = prop_oneof![8 => Just(Deed::Watch), 2 => Just(Deed::Leave), 3 => skip, 1 => Just(Deed::Turn)];
    (prop_oneof![4 => 0..40_000_i64, 1 => 0..90_000_000_i64], deed)
}

/// The clock after a list of events, and the instant of the last one.
fn lived(deeds: &[(i64, Deed)]) -> (Pace, i64) {
    let (mut pace, mut now) = (Pace::new(START), START);
    for (pause, deed) in deeds {
        now += pause;
        pace = did(&pace, now, *deed);
    }
    (pace, now)
}

fn did(pace: &Pace, now: i64, deed: Deed) -> Pace {
    let same = || pace.clone();
    match deed {
        Deed::Watch => pace.running(now, now + 30_000).unwrap_or_else(same),
        Deed::Leave => pace.halted(now).unwrap_or_else(same),
        Deed::Skip { over_ms, unseen } if pace.waits() => {
            let to_ms = pace.at(now) + over_ms;
            pace.skipped(
                now,
                Jump { to_ms, passed: over_ms.unsigned_abs() / 2000, changes: 1, ticks: over_ms * 90, unseen },
            )
        }
        Deed::Skip { .. } => same(),
        Deed::Turn => pace.turned(now, !pace.waits()),
    }
}

fn deeds() -> impl Strategy<Value = Vec<(i64, Deed)>> {
    prop::collection::vec(deed(), 0..60)
}

proptest! {
    #[test]
    fn it_never_goes_back_and_never_faster_than_time_but_for_skips(
        deeds in deeds(), instants in prop::collection::vec(0..400_000_000_i64, 2..40),
    ) {
        let (pace, _) = lived(&deeds);
        let mut instants: Vec<i64> = instants.iter().map(|at| START - 1_000_000 + at).collect();
        instants.sort_unstable();
        let skipped: i64 = pace.runs().windows(2).map(|pair| pair[1].at_ms - pair[0].end()).sum();
        prop_assert!(pace.runs().windows(2).all(|pair| pair[0].to_ms <= pair[1].from_ms && pair[0].end() <= pair[1].at_ms));
        for pair in instants.windows(2) {
            let gone = pace.at(pair[1]) - pace.at(pair[0]);
            prop_assert!(gone >= 0 && gone <= pair[1] - pair[0] + skipped, "{gone} in {pair:?}");
        }
    }

    #[test]
    fn from_an_instant_to_the_channels_time_and_back(deeds in deeds(), at in -1_000_000..400_000_000_i64) {
        let (pace, now) = lived(&deeds);
        for pace in [pace.clone(), pace.ahead(now)] {
            let (instant, time) = (START + at, pace.at(START + at));
            let (first, last) = (pace.reached(time), pace.left(time));
            prop_assert!(first <= instant && pace.at(first) == time, "{first} {instant}");
            prop_assert!(pace.at(first - 1) < time);
            // The clock stays paused after the last interval, so there is no last instant.
            prop_assert!(instant <= last || pace.stands(instant), "{instant} {last}");
            // A skipped channel time counts as reached when the time after it is.
            let reached = pace.reached(instant);
            prop_assert!(reached == ENDLESS || pace.at(reached) >= instant && pace.at(reached - 1) < instant);
        }
    }

    #[test]
    fn what_was_stays_whatever_happens_then(deeds in deeds(), more in deeds(), back in 1..3_000_000_i64) {
        let (before, now) = lived(&deeds);
        let (mut after, mut then) = (before.clone(), now);
        for (pause, deed) in more {
            then += pause;
            // An `unseen` skip may undo the interval before it; it is the only event that can.
            let deed = match deed { Deed::Skip { over_ms, .. } => Deed::Skip { over_ms, unseen: false }, other => other };
            after = did(&after, then, deed);
        }
        if after.known_ms() <= now - back {
            prop_assert_eq!(before.at(now - back), after.at(now - back));
        }
        prop_assert!(after.at(then) >= before.at(now));
    }

    #[test]
    fn what_is_kept_one_by_one_is_found_again(deeds in deeds()) {
        let (pace, now) = lived(&deeds);
        let mut shuffled: Vec<Run> = pace.runs().to_vec();
        shuffled.reverse();
        prop_assert_eq!(&Pace::of(shuffled).unwrap(), &pace);
        // An interval stored with a later end ends where the next one begins.
        if let Some(next) = pace.running(now + 100_000, now + 130_000)
            && let Some((_, older)) = next.runs().split_last()
            && next.runs().len() > 1
            && pace.waits()
        {
            let mut kept = older.to_vec();
            kept.last_mut().unwrap().to_ms += 20_000;
            kept.push(*next.runs().last().unwrap());
            prop_assert_eq!(Pace::of(kept).unwrap(), next);
        }
        let text = serde_json::to_string(pace.runs()).unwrap();
        prop_assert_eq!(serde_json::from_str::<Vec<Run>>(&text).unwrap(), pace.runs());
    }

    #[test]
    fn legs_are_what_was_aired(deeds in deeds()) {
        let (pace, now) = lived(&deeds);
        let legs = pace.legs();
        prop_assert!(legs.windows(2).all(|pair| pair[0].to_ms < pair[1].from_ms), "{:?}", legs);
        prop_assert!(legs.first().unwrap().from_ms == i64::MIN && legs.last().unwrap().to_ms == i64::MAX);
        let time = pace.at(now);
        prop_assert!(legs.iter().any(|leg| (leg.from_ms..=leg.to_ms).contains(&time)));
        for run in pace.runs() {
            prop_assert!(legs.iter().any(|leg| leg.from_ms <= run.at_ms && run.end() <= leg.to_ms));
        }
    }

    #[test]
    fn guides_are_told_when_they_say_something_else(deeds in deeds(), next in deed(), at in 0..5_000_000_i64) {
        let (pace, now) = lived(&deeds);
        let (pause, deed) = next;
        let then = now + pause;
        let after = did(&pace, then, deed);
        let says = |pace: &Pace, now: i64| pace.ahead(now).at(then + at);
        if pace.stamp(now) == after.stamp(then) {
            prop_assert_eq!(says(&pace, now), says(&after, then));
        }
        prop_assert!(pace.changed_ms(now) <= now + 1_000);
    }
}

#[test]
fn it_runs_while_somebody_is_there_and_stands_else() {
    let pace = Pace::new(START);
    assert_eq!((pace.at(START - 5), pace.at(START + 99_999)), (START - 5, START));
    let pace = pace.running(START + 100_000, START + 130_000).unwrap();
    assert_eq!((pace.at(START + 110_000), pace.at(START + 500_000)), (START + 10_000, START + 30_000));
    assert_eq!(pace.running(START + 101_000, START + 130_000), None, "already runs that long");
    let pace = pace.running(START + 120_000, START + 150_000).unwrap();
    assert_eq!(pace.runs().len(), 2, "the interval is extended");
    let pace = pace.halted(START + 125_000).unwrap();
    assert_eq!((pace.at(START + 900_000), pace.halted(START + 126_000)), (START + 25_000, None));
    // Guides assume that the clock resumes at the next full minute.
    let ahead = pace.ahead(START + 900_001);
    assert_eq!((ahead.at(START + 960_000), ahead.at(START + 960_001)), (START + 25_000, START + 25_001));
    assert_eq!(ahead.reached(START + 25_000), START + 125_000);
    // On demand off, and on again.
    let free = pace.turned(START + 1_000_000, false);
    assert!(!free.waits() && free.running(START + 1_000_001, START + 2_000_000).is_none());
    assert_eq!(free.at(START + 1_000_000 + 86_400_000), START + 25_000 + 86_400_000);
    let again = free.turned(START + 2_000_000, true);
    assert!(again.waits() && again.at(START + 3_000_000) == START + 1_025_000);
}

#[test]
fn what_was_skipped_through_leaves_nothing() {
    let pace = Pace::new(START).running(START, START + 30_000).unwrap();
    let jump = |to_ms, unseen| Jump { to_ms, passed: 3, changes: 0, ticks: 9, unseen };
    let first = pace.skipped(START + 5_000, jump(START + 60_000, false));
    assert_eq!((first.at(START + 4_999), first.at(START + 6_000)), (START + 4_999, START + 61_000));
    assert_eq!(first.at(START + 99_000), START + 85_000, "runs until the end set before the skip");
    let second = first.skipped(START + 5_500, jump(START + 120_000, true));
    assert_eq!((second.runs().len(), second.legs().len()), (2, 2));
    assert_eq!((second.at(START + 5_499), second.at(START + 5_500)), (START + 5_000, START + 120_000));
    assert_eq!((second.leg(START + 120_000).ticks, second.leg(START).ticks), (9, 0));
}

#[test]
fn what_is_remembered_is_bounded_and_enough_for_a_list() {
    let (mut pace, mut now) = (Pace::new(START), START);
    for _ in 0..3000 {
        now += 3_600_000;
        pace = pace.running(now, now + 2_000).unwrap();
        let known: i64 = pace.runs().iter().map(|run| run.to_ms - run.from_ms).sum();
        assert!(pace.runs().len() <= MOST && (known >= LEAST_MS || pace.known_ms() == START), "{known}");
    }
    assert_eq!(pace.at(now), START + 2999 * 2_000, "dropping old intervals moves nothing");
    let late = now + 400 * 24 * 3_600_000;
    let pace = pace.running(late, late + 2_000).unwrap();
    assert!(pace.runs().len() < 100 && pace.at(late) == START + 3000 * 2_000, "{}", pace.runs().len());
    let pace = (0..2000).fold(pace, |pace, n| {
        let now = late + 10 + n;
        pace.skipped(now, Jump { to_ms: pace.at(now) + 60_000, passed: 0, changes: 0, ticks: 0, unseen: false })
    });
    assert_eq!(pace.runs().len(), MOST);
}
