use std::collections::HashMap;

use proptest::prelude::*;

use super::segmentation::{Segmentation, VideoFormat, audio_segmentation};
use super::*;

/// All modes but `Blocks`, which needs a schedule by the clock.
pub const MODES: [ScheduleMode; 5] = [
    ScheduleMode::Sequential,
    ScheduleMode::Shuffle,
    ScheduleMode::ShuffleInOrder,
    ScheduleMode::Random,
    ScheduleMode::Weighted,
];

/// 2001.
const START: ChannelMs = ChannelMs(978_307_200_000);
const TEN_YEARS: i64 = 315_576_000_000;

/// An item of weight 1 without breaks.
pub fn schedule_item(path: &str, duration_ms: i64, segmentation: Segmentation) -> ScheduleItem {
    let (path, title) = (path.to_owned(), path.to_owned());
    ScheduleItem { path, title, duration_ms, weight: 1, segmentation, ..ScheduleItem::default() }
}

/// A request without filler and blocks.
pub fn plain_request(seed: u64, mode: ScheduleMode, items: ScheduleItems) -> RevisionRequest {
    RevisionRequest { seed, mode, items, mid_roll_count: 0, blocks: None }
}

fn items(count: usize, salt: u64) -> ScheduleItems {
    let item = |n: usize| {
        let path = format!("/lib/show {}/{n}.mkv", n % 3);
        let duration_ms = 1_000 + (salt.wrapping_mul(n as u64 + 1) % 7_000_000) as i64;
        ScheduleItem {
            title: n.to_string(),
            weight: 1 + (n as u32 * 7 + salt as u32 % 5) % 9,
            video_format: VideoFormat { height: 360 + n as u32 % 2, ..VideoFormat::default() },
            ..schedule_item(&path, duration_ms, audio_segmentation(duration_ms as f64 / 1000.0))
        }
    };
    assign_ids((0..count).map(item).collect())
}

fn request(mode: ScheduleMode, seed: u64, count: usize) -> RevisionRequest {
    plain_request(seed, mode, items(count, seed))
}

fn titles(definition: &ScheduleDefinition, from: ChannelMs, count: usize) -> Vec<String> {
    ProgrammeIter::starting_at(definition, from).take(count).map(|p| definition.item_of(&p).title.clone()).collect()
}

pub fn any_mode() -> impl Strategy<Value = ScheduleMode> {
    prop::sample::select(MODES.to_vec())
}

proptest! {
    /// At any instant exactly one programme is on, its neighbours touch it, and the way it is reached makes no difference.
    #[test]
    fn programmes_tile_time(
        mode in any_mode(), seed: u64, count in 1usize..40, at in 0..TEN_YEARS, edit in 0..TEN_YEARS,
    ) {
        let (at, first) = (START + at, ScheduleDefinition::new(START, request(mode, seed, count)));
        for definition in [first.clone(), first.with_revision(first.programme_at(START + edit).unwrap().end_ms, request(mode, seed, count + 3))] {
            let on = definition.programme_at(at).unwrap();
            prop_assert!(on.start_ms <= at && at < on.end_ms, "{on:?}");
            prop_assert_eq!(definition.programme_at(on.start_ms), Some(on));
            prop_assert_eq!(definition.programme_at(on.end_ms - 1), Some(on));
            let next = definition.programme_at(on.end_ms).unwrap();
            prop_assert_eq!(next.start_ms, on.end_ms);
            prop_assert!(next.ordinal == on.ordinal + 1 || next.revision_index != on.revision_index && next.ordinal > on.ordinal);
            prop_assert_eq!(next.media_sequence, on.media_sequence + definition.item_of(&on).segment_count(on.part_index, on.end_ms - on.start_ms));
            prop_assert_eq!(next.discontinuities, on.discontinuities + u64::from(definition.revisions[next.revision_index].items.len() > 1 || next.revision_index != on.revision_index));
            if let Some(before) = definition.programme_at(on.start_ms - 1) {
                prop_assert_eq!(before.end_ms, on.start_ms);
                prop_assert!(before.ordinal + 1 == on.ordinal || before.revision_index != on.revision_index && before.ordinal < on.ordinal);
            }
            for (walked, n) in ProgrammeIter::starting_at(&definition, at - 50_000_000).take(25).zip(0..) {
                prop_assert_eq!(definition.programme_at(walked.end_ms - 1), Some(walked), "{}", n);
            }
        }
    }

    /// The guides of two adjacent ranges add up to the guide of both.
    #[test]
    fn guides_of_neighbouring_spans_are_the_guide_of_both(mode in any_mode(), seed: u64, a in 0..TEN_YEARS, long in 0i64..400_000_000, cut in 0i64..400_000_000) {
        let definition = ScheduleDefinition::new(START, request(mode, seed, 12));
        let (from, to) = (START + a, START + a + long);
        let middle = from + cut % (long + 1);
        let mut parts: Vec<_> = definition.programmes_between(from, middle).collect();
        parts.extend(definition.programmes_between(middle, to));
        parts.dedup();
        prop_assert_eq!(parts, definition.programmes_between(from, to).collect::<Vec<_>>());
    }

    /// Every cycle airs every item as often as it should; its length does not depend on its order.
    #[test]
    fn a_cycle_airs_every_item(mode in any_mode(), seed: u64, count in 1usize..60, cycle: u64) {
        let ScheduleDefinition { revisions } = ScheduleDefinition::new(START, request(mode, seed, count));
        let order = revisions[0].cycle_order(cycle);
        let mut aired: HashMap<u32, usize> = HashMap::new();
        order.iter().for_each(|index| *aired.entry(*index).or_default() += 1);
        for (index, item) in (0u32..).zip(revisions[0].items.iter()) {
            prop_assert_eq!(aired.get(&index).copied(), Some(revisions[0].mode.copies_per_cycle(item)));
        }
        prop_assert_eq!(order.len() as u64, revisions[0].programmes_per_cycle());
        prop_assert_eq!(revisions[0].total_ms(&order), revisions[0].cycle_ms());
    }

    /// An edit changes neither past nor current programmes, nor any ordinal given out for them.
    #[test]
    fn an_edit_keeps_past_and_current_programmes(
        mode in any_mode(), other in any_mode(), seed: u64, edits in prop::collection::vec((0i64..90_000_000, 1usize..30), 1..6),
    ) {
        let mut definition = ScheduleDefinition::new(START, request(mode, seed, 10));
        // Nor where the edit comes before the channel begins: guides name what is to come.
        let (named, early) = (definition.programme_at(START + 14 * 24 * 3_600_000), definition.with_revision(START, request(other, seed, 3)));
        prop_assert!(early.programme_at(START).unwrap().ordinal > named.unwrap().ordinal);
        let mut now = START;
        for (wait, count) in edits {
            now = now + wait;
            let on = definition.programme_at(now).unwrap();
            let aired: Vec<_> = definition.programmes_between(START, on.end_ms).collect();
            let aired_items: Vec<_> = aired.iter().map(|p| definition.item_of(p).clone()).collect();
            let edited = definition.with_revision(on.end_ms, request(if count % 2 == 0 { mode } else { other }, seed, count));
            let still: Vec<_> = edited.programmes_between(START, on.end_ms).collect();
            prop_assert_eq!(&aired, &still);
            prop_assert_eq!(aired_items, still.iter().map(|p| edited.item_of(p).clone()).collect::<Vec<_>>());
            let next = edited.programme_at(on.end_ms).unwrap();
            // Ordinals that guides may have used are not reused.
            let named = definition.programme_at(on.end_ms + 14 * 24 * 3_600_000).unwrap();
            prop_assert_eq!(next.start_ms, on.end_ms);
            prop_assert!(next.ordinal > named.ordinal, "{} is reused", next.ordinal);
            prop_assert_eq!(next.media_sequence, on.media_sequence + definition.item_of(&on).segmentation.segment_count());
            prop_assert!(edited.revisions.windows(2).all(|pair| pair[0].start_ms < pair[1].start_ms));
            definition = edited;
        }
    }

    /// Removing or adding an item leaves all others in their shuffled order.
    #[test]
    fn other_items_keep_their_ranks(seed: u64, cycle: u64, count in 2usize..60, out in 0usize..60) {
        let whole = ScheduleRevision { mode: ScheduleMode::ShuffleInOrder, ..ScheduleDefinition::new(ChannelMs(0), request(ScheduleMode::Shuffle, seed, count)).revisions[0].clone() };
        let mut fewer = whole.clone();
        let removed = fewer.items[out % count].clone();
        fewer.items = fewer.items.iter().filter(|item| item.id != removed.id).cloned().collect();
        // With `ShuffleInOrder`, the positions of the shows follow from the ranks.
        let shows = |revision: &ScheduleRevision, without: Option<&str>| -> Vec<String> {
            revision.cycle_order(cycle).iter().map(|i| &revision.items[*i as usize])
                .filter(|item| without.is_none_or(|show| item.show_folder() != show)).map(|item| item.show_folder().to_owned()).collect()
        };
        prop_assert_eq!(shows(&whole, Some(removed.show_folder())), shows(&fewer, Some(removed.show_folder())));
    }

    /// No item comes back soon across a cycle's end.
    #[test]
    fn a_shuffle_keeps_returns_apart(seed: u64, count in 3usize..90, cycle in 0u64..1_000_000) {
        let ScheduleDefinition { revisions } = ScheduleDefinition::new(START, request(ScheduleMode::Shuffle, seed, count));
        let mut line = revisions[0].cycle_order(cycle);
        line.extend(revisions[0].cycle_order(cycle + 1));
        let gap = (count / 3).min(20);
        for (at, index) in line.iter().enumerate() {
            prop_assert!(!line[at + 1..].iter().take(gap).any(|other| other == index), "at {}", at);
        }
    }

    /// The episodes of a show come in their order.
    #[test]
    fn shows_keep_the_order_of_their_episodes(seed: u64, count in 1usize..60, cycle: u64) {
        let ScheduleDefinition { revisions } = ScheduleDefinition::new(START, request(ScheduleMode::ShuffleInOrder, seed, count));
        let order = revisions[0].cycle_order(cycle);
        for show in 0..3 {
            let aired: Vec<u32> = order.iter().copied().filter(|index| index % 3 == show).collect();
            prop_assert!(aired.is_sorted(), "{:?}", aired);
        }
    }
}

#[test]
fn an_item_put_in_while_a_cycle_runs_repeats_nothing_of_it() {
    for mode in [ScheduleMode::Sequential, ScheduleMode::Shuffle, ScheduleMode::ShuffleInOrder] {
        let definition = ScheduleDefinition::new(START, request(mode, 7, 30));
        let on = ProgrammeIter::starting_at(&definition, START).nth(11).unwrap();
        let aired = titles(&definition, START, 12);
        let edited = definition.with_revision(on.end_ms, request(mode, 7, 31));
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
    let definition = ScheduleDefinition::new(START, plain_request(3, ScheduleMode::Weighted, items));
    let line = titles(&definition, START, 1000);
    let count = |title: &str| line.iter().filter(|aired| *aired == title).count();
    assert_eq!(["0", "1", "2", "3"].map(count), [500, 100, 100, 300]);
    let twice = line.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(twice < 150, "{twice} of 1000 are repeats");
}

#[test]
fn orders_are_fixed_for_ever() {
    let line = |mode| titles(&ScheduleDefinition::new(START, request(mode, 42, 9)), START + TEN_YEARS, 12).join(" ");
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
fn nothing_airs_before_the_first_programme() {
    let definition = ScheduleDefinition::new(START, request(ScheduleMode::Shuffle, 1, 5));
    assert_eq!(definition.programme_at(START - 1), None);
    assert_eq!(definition.programmes_between(START - TEN_YEARS, START).count(), 0);
    assert_eq!(definition.programmes_between(START - TEN_YEARS, START + 1).count(), 1);
    assert_eq!(ScheduleDefinition::default().programme_at(START), None);
}
