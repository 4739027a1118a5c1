//! Playlists and guides of channels that air on demand, over random viewing sessions.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::tests::{MODES, START, items};
use super::*;
use crate::domain::channel::Output;
use crate::domain::schedule::{Mode, Wanted};

const TARGET: u64 = 3;

/// A viewer's visit: time away before it (ms), playlist polls, and the polls at which they skip.
#[derive(Clone, Debug)]
struct Visit {
    away_ms: i64,
    polls: Vec<i64>,
    skip_at: Vec<usize>,
    /// Whether the viewer reports leaving, or just stops polling.
    leaves: bool,
}

fn visits() -> impl Strategy<Value = Vec<Visit>> {
    let away = prop_oneof![0..40_000_i64, 0..200_000_000_i64];
    let polls = prop::collection::vec(1..6_000_i64, 1..40);
    let visit = (away, polls, prop::collection::vec(0..40_usize, 0..5), any::<bool>());
    let visit = visit.prop_map(|(away_ms, polls, skip_at, leaves)| Visit { away_ms, polls, skip_at, leaves });
    prop::collection::vec(visit, 1..8)
}

fn channel(mode: Mode, seed: u64, count: usize) -> Channel {
    let mut channel = crate::domain::channel::tests::channel(1);
    channel.definition = Definition::new(START, Wanted { seed, mode, items: items(count, seed), mid: 0, blocks: None });
    channel.output = Arc::new(Output { target: TARGET, ..Output::default() });
    channel.face.least_seconds = 0;
    channel.pace = Some(Arc::new(Pace::new(START)));
    channel
}

fn give(channel: &mut Channel, pace: Option<Pace>) {
    if let Some(pace) = pace {
        // Through the stored form, as after a restart.
        let kept = serde_json::to_string(pace.runs()).unwrap();
        assert_eq!(Pace::of(serde_json::from_str(&kept).unwrap()).as_ref(), Some(&pace));
        channel.pace = Some(Arc::new(pace));
    }
}

fn window(channel: &Channel, now: i64) -> Vec<Slot> {
    listed(&channel.definition, channel.pace.as_deref(), View::Live, TARGET, channel.time(now))
}

/// Checks a list against earlier lists: sequence numbers and discontinuities, by segment name.
fn hold(channel: &Channel, list: &[Slot], seen: &mut HashMap<(i64, usize), Slot>) -> Result<(), TestCaseError> {
    let pace = channel.pace.as_deref().unwrap();
    for pair in list.windows(2) {
        prop_assert_eq!(pair[1].sequence, pair[0].sequence + 1, "{:?}", pair);
        prop_assert!(pair[1].changes - pair[0].changes <= 1, "{:?}", pair);
        let line = |slot: &Slot, at: i64| at - pace.leg(slot.programme_ms).ticks;
        prop_assert_eq!(
            line(&pair[1], pair[1].start),
            line(&pair[0], pair[0].end),
            "timestamps are continuous: {:?}",
            pair
        );
        prop_assert!(pace.left(pair[0].start / 90) < pace.left(pair[1].start / 90), "dates increase: {:?}", pair);
    }
    for slot in list {
        let known = *seen.entry((slot.programme_ms, slot.index)).or_insert(*slot);
        prop_assert_eq!(known, *slot, "differs from an earlier list");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 170, ..ProptestConfig::default() })]

    /// However viewers come, leave and skip: lists only slide, are numbered without a gap and describe a segment the same
    /// way each time, and their timestamps have no step. At any instant the guide names what the segment shows.
    #[test]
    fn what_is_skipped_leaves_no_hole(
        mode in prop::sample::select(MODES.to_vec()), seed: u64, count in 1usize..9, visits in visits(),
        instants in prop::collection::vec(0.0..1.0_f64, 60),
    ) {
        let mut channel = channel(mode, seed, count);
        let (mut now, mut seen, mut last) = (START + 5_000, HashMap::new(), None::<Slot>);
        let mut aired = 0;
        for visit in visits {
            now += visit.away_ms;
            for (n, poll) in visit.polls.iter().enumerate() {
                now += poll;
                let pace = channel.pace.clone().unwrap();
                give(&mut channel, pace.running(now, now + 30_000));
                if visit.skip_at.contains(&n) {
                    let pace = channel.pace.clone().unwrap();
                    let jump = jump(&channel, now).unwrap();
                    prop_assert_eq!(Some(jump.to_ms), channel.definition.programme(channel.time(now)).map(|on| on.end_ms));
                    let before = window(&channel, now);
                    give(&mut channel, Some(pace.skipped(now, jump)));
                    prop_assert_eq!(window(&channel, now), before, "listed segments stay");
                }
                let list = window(&channel, now);
                hold(&channel, &list, &mut seen)?;
                if let (Some(before), Some(after)) = (last, list.last()) {
                    prop_assert!(after.sequence >= before.sequence, "{before:?} {after:?}");
                    aired += after.sequence - before.sequence;
                    if aired > 40 {
                        let length: i64 = list.iter().map(|slot| slot.end - slot.start).sum();
                        prop_assert!(list.len() >= LEAST_SEGMENTS && length >= 11 * 90_000);
                    }
                }
                last = list.last().copied().or(last);
            }
            if visit.leaves {
                let pace = channel.pace.clone().unwrap();
                give(&mut channel, pace.halted(now));
            }
        }
        let (definition, pace) = (&channel.definition, channel.pace.as_deref().unwrap());
        for at in instants {
            let at = START + ((now - START) as f64 * at) as i64;
            let entry = channel.guide(at, at + 1, now).next().unwrap();
            let time = channel.time(at);
            prop_assert!((entry.programme.start_ms..entry.programme.end_ms).contains(&at));
            let slot = slots(definition, Some(pace), time).next().unwrap();
            let cut = slot.start > time * 90;
            let on = definition.programme(if cut { time } else { slot.programme_ms }).unwrap();
            prop_assert_eq!((entry.programme.ordinal, entry.path), (on.ordinal, &*definition.item(&on).path));
        }
        let from_start = listed(definition, Some(pace), View::From(START), TARGET, channel.time(now));
        hold(&channel, &from_start, &mut seen)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// A guide requested in parts equals the whole guide: no gap, no overlap, and no programme twice.
    #[test]
    fn a_guide_in_parts_is_the_whole(
        seed: u64, visits in visits(), parts in prop::collection::vec(1..90_000_000_i64, 1..6), back in 0..90_000_000_i64,
    ) {
        let mut channel = channel(Mode::Shuffle, seed, 6);
        let mut now = START;
        for visit in visits {
            now += visit.away_ms;
            for n in 0..visit.polls.len() {
                now += visit.polls[n];
                let pace = channel.pace.clone().unwrap();
                give(&mut channel, pace.running(now, now + 30_000));
                if visit.skip_at.contains(&n) {
                    let pace = channel.pace.clone().unwrap();
                    let jump = jump(&channel, now).unwrap();
                    give(&mut channel, Some(pace.skipped(now, jump)));
                }
            }
        }
        let guide = |from: i64, to: i64| -> Vec<(u64, i64, i64)> {
            let entries = channel.guide(from, to, now).map(|entry| entry.programme);
            entries.map(|programme| (programme.ordinal, programme.start_ms, programme.end_ms)).collect()
        };
        let from = (now - back).max(START);
        let mut at = from;
        let mut together = Vec::new();
        for part in &parts {
            together.extend(guide(at, at + part));
            at += part;
        }
        together.dedup();
        let whole = guide(from, at);
        prop_assert_eq!(&together, &whole);
        prop_assert!(whole.windows(2).all(|pair| pair[0].2 == pair[1].1 && pair[0].0 < pair[1].0), "{:?}", whole);
        prop_assert!(whole.first().is_some_and(|first| first.1 <= from) && whole.last().is_some_and(|last| last.2 >= at));
    }
}

#[test]
fn the_past_ends_where_it_was_left_and_the_rest_is_not_waited_for() {
    let mut channel = channel(Mode::Sequential, 3, 4);
    let pace = channel.pace.clone().unwrap();
    give(&mut channel, pace.running(START, START + 30_000));
    let pace = channel.pace.clone().unwrap();
    let jump = jump(&channel, START + 13_500).unwrap();
    give(&mut channel, Some(pace.skipped(START + 13_500, jump)));
    let (definition, pace) = (&channel.definition, channel.pace.as_deref());
    let list = |to: i64, now: i64| {
        let (view, time) = (View::Between(START, channel.time(to)), channel.time(now));
        let slots = listed(definition, pace, view, TARGET, time);
        let ended = is_over(definition, pace, view, &slots, time, pace.unwrap().stands(now));
        (slots.len(), playlist(&slots, pace, view, TARGET, ended, "").contains("ENDLIST"))
    };
    let (first, ended) = list(START + 13_500, START + 14_000);
    assert!(ended && first >= 4, "does not wait for a segment cut short");
    let (more, ended) = list(START + 19_000, START + 19_000);
    assert!(more > first && !ended, "waits for the segment in progress");
    let (all, ended) = list(START + 90_000, START + 90_000);
    assert!(all > more && ended, "unless the clock is paused");
}
