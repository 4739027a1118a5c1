use std::collections::HashMap;

use proptest::prelude::*;

use super::cut::{Cut, Look, steps};
use super::*;

const MODES: [Mode; 5] = [Mode::Sequential, Mode::Shuffle, Mode::ShuffleInOrder, Mode::Random, Mode::Weighted];

/// 2001.
const START: i64 = 978_307_200_000;
const TEN_YEARS: i64 = 315_576_000_000;

fn items(count: usize, salt: u64) -> Items {
    let item = |n: usize| Item {
        id: 0,
        path: format!("/lib/show {}/{n}.mkv", n % 3),
        title: n.to_string(),
        duration_ms: 1_000 + (salt.wrapping_mul(n as u64 + 1) % 7_000_000) as i64,
        weight: 1 + (n as u32 * 7 + salt as u32 % 5) % 9,
        cut: Cut::default(),
        look: Look { height: 360 + n as u32 % 2, ..Look::default() },
        breaks: Box::default(),
    };
    let mut items: Vec<Item> = (0..count).map(item).collect();
    for item in &mut items {
        item.cut = steps(item.duration_ms as f64 / 1000.0);
    }
    itemize(items)
}

fn wanted(mode: Mode, seed: u64, count: usize) -> Wanted {
    Wanted { seed, mode, items: items(count, seed), mid: 0, blocks: None }
}

fn titles(definition: &Definition, from: i64, count: usize) -> Vec<String> {
    Walk::at(definition, from).take(count).map(|p| definition.item(&p).title.clone()).collect()
}

fn a_mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(MODES.to_vec())
}

proptest! {
    /// At any instant exactly one programme is on, its neighbours touch it, and the way it is reached makes no difference.
    #[test]
    fn programmes_tile_time(
        mode in a_mode(), seed: u64, count in 1usize..40, at in START..START + TEN_YEARS, edit in 0..TEN_YEARS,
    ) {
        let first = Definition::new(START, wanted(mode, seed, count));
        for definition in [first.clone(), first.revised(first.programme(START + edit).unwrap().end_ms, wanted(mode, seed, count + 3))] {
            let on = definition.programme(at).unwrap();
            prop_assert!(on.start_ms <= at && at < on.end_ms, "{on:?}");
            prop_assert_eq!(definition.programme(on.start_ms), Some(on));
            prop_assert_eq!(definition.programme(on.end_ms - 1), Some(on));
            let next = definition.programme(on.end_ms).unwrap();
            prop_assert_eq!(next.start_ms, on.end_ms);
            prop_assert!(next.ordinal == on.ordinal + 1 || next.revision != on.revision && next.ordinal > on.ordinal);
            prop_assert_eq!(next.sequence, on.sequence + definition.item(&on).segments(on.part, on.end_ms - on.start_ms));
            prop_assert_eq!(next.changes, on.changes + u64::from(definition.revisions[next.revision].items.len() > 1 || next.revision != on.revision));
            if let Some(before) = definition.programme(on.start_ms - 1) {
                prop_assert_eq!(before.end_ms, on.start_ms);
                prop_assert!(before.ordinal + 1 == on.ordinal || before.revision != on.revision && before.ordinal < on.ordinal);
            }
            for (walked, n) in Walk::at(&definition, at - 50_000_000).take(25).zip(0..) {
                prop_assert_eq!(definition.programme(walked.end_ms - 1), Some(walked), "{}", n);
            }
        }
    }

    /// The guides of two adjacent ranges add up to the guide of both.
    #[test]
    fn guides_of_neighbouring_spans_are_the_guide_of_both(mode in a_mode(), seed: u64, a in 0..TEN_YEARS, long in 0i64..400_000_000, cut in 0i64..400_000_000) {
        let definition = Definition::new(START, wanted(mode, seed, 12));
        let (from, to) = (START + a, START + a + long);
        let middle = from + cut % (long + 1);
        let mut parts: Vec<_> = definition.programmes(from, middle).collect();
        parts.extend(definition.programmes(middle, to));
        parts.dedup();
        prop_assert_eq!(parts, definition.programmes(from, to).collect::<Vec<_>>());
    }

    /// Every cycle airs every item as often as it should; its length does not depend on its order.
    #[test]
    fn a_cycle_airs_every_item(mode in a_mode(), seed: u64, count in 1usize..60, cycle: u64) {
        let Definition { revisions } = Definition::new(START, wanted(mode, seed, count));
        let order = revisions[0].order(cycle);
        let mut aired: HashMap<u32, usize> = HashMap::new();
        order.iter().for_each(|index| *aired.entry(*index).or_default() += 1);
        for (index, item) in (0u32..).zip(revisions[0].items.iter()) {
            prop_assert_eq!(aired.get(&index).copied(), Some(revisions[0].copies(item)));
        }
        prop_assert_eq!(order.len() as u64, revisions[0].slots());
        prop_assert_eq!(revisions[0].length_of(&order), revisions[0].cycle_ms());
    }

    /// An edit changes neither past nor current programmes, nor any ordinal given out for them.
    #[test]
    fn an_edit_leaves_alone_what_was_on(
        mode in a_mode(), other in a_mode(), seed: u64, edits in prop::collection::vec((0i64..90_000_000, 1usize..30), 1..6),
    ) {
        let mut definition = Definition::new(START, wanted(mode, seed, 10));
        // Nor where the edit comes before the channel begins: guides name what is to come.
        let (named, early) = (definition.programme(START + 14 * 24 * 3_600_000), definition.revised(START, wanted(other, seed, 3)));
        prop_assert!(early.programme(START).unwrap().ordinal > named.unwrap().ordinal);
        let mut now = START;
        for (wait, count) in edits {
            now += wait;
            let on = definition.programme(now).unwrap();
            let aired: Vec<_> = definition.programmes(START, on.end_ms).collect();
            let known: Vec<_> = aired.iter().map(|p| definition.item(p).clone()).collect();
            let edited = definition.revised(on.end_ms, wanted(if count % 2 == 0 { mode } else { other }, seed, count));
            let still: Vec<_> = edited.programmes(START, on.end_ms).collect();
            prop_assert_eq!(&aired, &still);
            prop_assert_eq!(known, still.iter().map(|p| edited.item(p).clone()).collect::<Vec<_>>());
            let next = edited.programme(on.end_ms).unwrap();
            // Ordinals that guides may have used are not reused.
            let named = definition.programme(on.end_ms + 14 * 24 * 3_600_000).unwrap();
            prop_assert_eq!(next.start_ms, on.end_ms);
            prop_assert!(next.ordinal > named.ordinal, "{} is reused", next.ordinal);
            prop_assert_eq!(next.sequence, on.sequence + definition.item(&on).cut.segments());
            prop_assert!(edited.revisions.windows(2).all(|pair| pair[0].start_ms < pair[1].start_ms));
            definition = edited;
        }
    }

    /// Removing or adding an item leaves all others in their shuffled order.
    #[test]
    fn the_ranks_of_others_stay(seed: u64, cycle: u64, count in 2usize..60, out in 0usize..60) {
        let whole = Revision { mode: Mode::ShuffleInOrder, ..Definition::new(0, wanted(Mode::Shuffle, seed, count)).revisions[0].clone() };
        let mut fewer = whole.clone();
        let gone = fewer.items[out % count].clone();
        fewer.items = fewer.items.iter().filter(|item| item.id != gone.id).cloned().collect();
        // With `ShuffleInOrder`, the positions of the shows follow from the ranks.
        let shows = |revision: &Revision, without: Option<&str>| -> Vec<String> {
            revision.order(cycle).iter().map(|i| &revision.items[*i as usize])
                .filter(|item| without.is_none_or(|show| item.show() != show)).map(|item| item.show().to_owned()).collect()
        };
        prop_assert_eq!(shows(&whole, Some(gone.show())), shows(&fewer, Some(gone.show())));
    }

    /// No item comes back soon across a cycle's end.
    #[test]
    fn a_shuffle_keeps_returns_apart(seed: u64, count in 3usize..90, cycle in 0u64..1_000_000) {
        let Definition { revisions } = Definition::new(START, wanted(Mode::Shuffle, seed, count));
        let mut line = revisions[0].order(cycle);
        line.extend(revisions[0].order(cycle + 1));
        let gap = (count / 3).min(20);
        for (at, index) in line.iter().enumerate() {
            prop_assert!(!line[at + 1..].iter().take(gap).any(|other| other == index), "at {}", at);
        }
    }

    /// The episodes of a show come in their order.
    #[test]
    fn shows_keep_the_order_of_their_episodes(seed: u64, count in 1usize..60, cycle: u64) {
        let Definition { revisions } = Definition::new(START, wanted(Mode::ShuffleInOrder, seed, count));
        let order = revisions[0].order(cycle);
        for show in 0..3 {
            let aired: Vec<u32> = order.iter().copied().filter(|index| index % 3 == show).collect();
            prop_assert!(aired.is_sorted(), "{:?}", aired);
        }
    }
}

#[test]
fn an_item_put_in_while_a_cycle_runs_repeats_nothing_of_it() {
    for mode in [Mode::Sequential, Mode::Shuffle, Mode::ShuffleInOrder] {
        let definition = Definition::new(START, wanted(mode, 7, 30));
        let on = Walk::at(&definition, START).nth(11).unwrap();
        let aired = titles(&definition, START, 12);
        let edited = definition.revised(on.end_ms, wanted(mode, 7, 31));
        let rest = titles(&edited, on.end_ms, 19);
        assert!(rest.iter().all(|title| !aired.contains(title)), "{mode:?}: {aired:?} then {rest:?}");
        assert!(rest.contains(&"30".to_owned()), "{mode:?}: the new item comes in this cycle");
    }
}

#[test]
fn an_item_that_weighs_more_comes_more_often_and_not_at_once() {
    let mut items = items(4, 1);
    for (item, weight) in Arc::make_mut(&mut items).iter_mut().zip([5, 1, 1, 3]) {
        Arc::make_mut(item).weight = weight;
    }
    let definition = Definition::new(START, Wanted { seed: 3, mode: Mode::Weighted, items, mid: 0, blocks: None });
    let line = titles(&definition, START, 1000);
    let count = |title: &str| line.iter().filter(|aired| *aired == title).count();
    assert_eq!(["0", "1", "2", "3"].map(count), [500, 100, 100, 300]);
    let twice = line.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(twice < 150, "{twice} of 1000 are repeats");
}

#[test]
fn orders_are_fixed_for_ever() {
    let line = |mode| titles(&Definition::new(START, wanted(mode, 42, 9)), START + TEN_YEARS, 12).join(" ");
    assert_eq!(MODES.map(line), GOLDEN);
}

const GOLDEN: [&str; 5] = [
    "3 4 5 6 7 8 0 1 2 3 4 5",
    "4 6 5 1 2 8 7 4 5 2 3 0",
    "4 6 2 7 5 8 2 1 4 5 0 3",
    "1 2 4 1 5 6 4 2 3 8 7 3",
    "6 4 2 5 7 6 3 0 2 6 2 7",
];

#[test]
fn nothing_is_on_before_the_first_programme() {
    let definition = Definition::new(START, wanted(Mode::Shuffle, 1, 5));
    assert_eq!(definition.programme(START - 1), None);
    assert_eq!(definition.programmes(START - TEN_YEARS, START).count(), 0);
    assert_eq!(definition.programmes(START - TEN_YEARS, START + 1).count(), 1);
    assert_eq!(Definition::default().programme(START), None);
}
