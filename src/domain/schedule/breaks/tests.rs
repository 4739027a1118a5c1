use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::domain::channel::Channel;
use crate::domain::live_window;
use crate::domain::schedule::segmentation::{Segmentation, VideoFormat, item_duration_ms};
use crate::domain::schedule::tests::{MODES, any_mode, schedule_item};
use crate::domain::schedule::{
    Programme, ProgrammeCursor, ProgrammeIter, RevisionRequest, ScheduleDefinition, ScheduleItems, assign_ids,
};
use crate::domain::time::{ChannelMs, FrameRate, Ticks, WallMs};

mod blocks;

const START: ChannelMs = ChannelMs(1_767_225_600_000);
const YEAR: i64 = 31_557_600_000;

fn item(path: String, grid: &Grid, chapters: &[Ticks]) -> ScheduleItem {
    let duration_ms = item_duration_ms(grid);
    let breaks = break_positions(chapters.iter().copied(), grid, duration_ms);
    ScheduleItem { breaks, ..schedule_item(&path, duration_ms, Segmentation::from_grid(grid)) }
}

/// Films with every kind of segmentation, some too short for breaks, most without a whole number of milliseconds.
fn films(count: usize, salt: u64) -> Vec<ScheduleItem> {
    let film = |n: usize| {
        let length = 200.0 + (mix_to_u64(salt, n as u64, 3) % 6_000_000) as f64 / 1007.0;
        let keyframes: Vec<Ticks> = (1..4000).map(|k| Ticks(k * 188_003 + k % 5 * 9_001)).collect();
        let grid = match n % 3 {
            0 => Grid::from_frame_rate(FrameRate { num: 24_000, den: 1001 }, 2.0, length),
            1 => Grid::from_keyframes(&keyframes, 2.0, length),
            _ => Grid::from_step(2.0, length),
        };
        let chapters: Vec<Ticks> =
            (1..40).map(|k| Ticks::from_seconds(k as f64 * (100.3 + salt as f64 % 97.0))).collect();
        let film = item(format!("/films {}/{n}.mkv", n % 3), &grid, &chapters);
        ScheduleItem {
            weight: 1 + n as u32 % 4,
            video_format: VideoFormat { height: 360 + n as u32 % 2, ..VideoFormat::default() },
            ..film
        }
    };
    (0..count).map(film).collect()
}

fn fillers(count: usize) -> Vec<ScheduleItem> {
    let filler = |n: usize| {
        let grid = Grid::from_frame_rate(FrameRate { num: 25, den: 1 }, 2.0, 9.96 + n as f64 * 17.3);
        item(format!("/ads/{n}.mkv"), &grid, &[])
    };
    (0..count).map(filler).collect()
}

fn request(mode: ScheduleMode, seed: u64, (count, mid): (usize, usize)) -> RevisionRequest {
    let mut items = films(count, seed);
    items.extend(fillers(mid));
    for item in items.iter_mut().filter(|_| mid == 0) {
        item.breaks = Box::default();
    }
    RevisionRequest { seed, mode, items: assign_ids(items), mid_roll_count: mid as u32, blocks: None }
}

fn channel(definition: ScheduleDefinition, show_filler: bool) -> Channel {
    let mut channel = crate::domain::channel::tests::channel(1);
    (channel.definition, channel.settings.show_filler) = (definition, show_filler);
    channel
}

/// Checks that `next` follows `before`.
fn check_sequence(definition: &ScheduleDefinition, before: &Programme, next: &Programme) -> Result<(), TestCaseError> {
    prop_assert_eq!(next.start_ms, before.end_ms);
    // A new revision skips ordinals that guides may have used.
    let skips = next.revision_index != before.revision_index && next.ordinal > before.ordinal;
    prop_assert!(next.ordinal == before.ordinal + 1 || skips);
    let segments = definition.item_of(before).segment_count(before.part_index, before.end_ms - before.start_ms);
    prop_assert_eq!(next.media_sequence, before.media_sequence + segments, "{:?}", before);
    prop_assert_eq!(segments, definition.segment_ranges(before).len() as u64);
    prop_assert!(before.start_ms < before.end_ms && next.begins_guide_entry != next.continues_programme);
    Ok(())
}

#[test]
fn programmes_are_broken_at_chapters_that_lie_apart() {
    let grid = Grid::from_frame_rate(FrameRate { num: 25, den: 1 }, 2.0, 3600.0);
    let minutes = |chapters: &[f64], grid: &Grid| -> Vec<f64> {
        let positions = chapters.iter().map(|minute| Ticks::from_seconds(minute * 60.0));
        break_positions(positions, grid, item_duration_ms(grid))
            .iter()
            .map(|position| f64::from(position.position_ms) / 60_000.0)
            .collect()
    };
    let none: [f64; 0] = [];
    assert_eq!(minutes(&[], &grid), none);
    assert_eq!(minutes(&[0.0, 2.0, 4.9, 8.0, 12.0, 17.9, 18.0, 20.0, 40.0, 56.0, 59.0], &grid), [8.0, 18.0, 40.0]);
    assert_eq!(minutes(&[40.0, -3.0, 20.0, 20.0, 90.0], &grid), [20.0, 40.0], "in any order");
    // Sitcoms have one break; programmes shorter than both edges have none.
    let short = Grid::from_step(2.0, 1320.0);
    assert_eq!(minutes(&[2.0, 11.0, 20.0], &short), [11.0]);
    assert_eq!(minutes(&[1.0, 4.0, 5.0, 8.0], &Grid::from_step(2.0, 595.0)), none);
    // At the nearer segment bound; copied video has fewer bounds.
    assert_eq!(minutes(&[10.0 + 0.9 / 60.0, 30.0 + 1.1 / 60.0], &grid), [10.0, 30.0 + 2.0 / 60.0]);
    let copied = Grid::from_keyframes(&(1..600).map(|k| Ticks(k * 540_000)).collect::<Vec<_>>(), 2.0, 3600.0);
    assert_eq!(minutes(&[10.0 + 2.9 / 60.0, 30.0 + 3.1 / 60.0], &copied), [10.0, 30.1]);
}

#[test]
fn positions_and_records_are_small() {
    let film = films(2, 1).remove(1);
    assert!(film.breaks.len() > 1);
    let text = serde_json::to_string(&film).unwrap();
    assert!(text.contains("\"breaks\":[["), "{text}");
    let read: ScheduleItem = serde_json::from_str(&text).unwrap();
    assert_eq!((read.breaks.clone(), read.segmentation.has_lost_bounds()), (film.breaks.clone(), true));
    // If its bounds are lost, everything after it stays in place.
    for part in 0..=film.breaks.len() as u16 {
        let of = film.part(Some(part));
        let (kept, lost) =
            (film.segmentation.ranges(of, of.duration_ms()), read.segmentation.ranges(of, of.duration_ms()));
        assert_eq!((kept.len(), kept.segment_end(kept.len() - 1)), (lost.len(), lost.segment_end(lost.len() - 1)));
    }
    let whole = ScheduleItem { breaks: Box::default(), ..film };
    assert!(!serde_json::to_string(&whole).unwrap().contains("breaks"));
    let revision = ScheduleDefinition::new(START, request(ScheduleMode::Shuffle, 1, (3, 0))).revisions[0].clone();
    assert!(!serde_json::to_string(&revision).unwrap().contains("mid"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Parts consist of whole segments of their item, and fill it.
    #[test]
    fn parts_tile_their_item(salt: u64, at in 0usize..6) {
        let film = films(6, salt).remove(at);
        let (mut segment, mut at_ms) = (0, 0);
        for part in 0..=film.breaks.len() as u16 {
            let of = film.part(Some(part));
            prop_assert_eq!((of.first_segment, of.from_ms), (segment, at_ms));
            let ranges = film.segmentation.ranges(of, of.duration_ms());
            prop_assert_eq!((ranges.len(), ranges.own_count()), (of.end_segment - of.first_segment, of.end_segment - of.first_segment));
            prop_assert_eq!(ranges.start_in_item(), film.segmentation.grid().segment_start(of.first_segment));
            prop_assert!((ranges.start_in_item() - Ticks::from_ms(of.from_ms)).abs() <= Ticks(45));
            for k in 0..ranges.len() {
                prop_assert!(ranges.segment_start(k) < ranges.segment_end(k) && ranges.segment_end(k) == ranges.segment_start(k + 1));
                prop_assert_eq!(ranges.start_in_item() + ranges.segment_start(k), film.segmentation.grid().segment_start(of.first_segment + k));
                prop_assert_eq!(ranges.segment_at(ranges.segment_start(k)), k);
            }
            prop_assert_eq!(ranges.segment_end(ranges.len() - 1), Ticks::from_ms(of.duration_ms()));
            (segment, at_ms) = (of.end_segment, of.to_ms);
        }
        prop_assert_eq!((segment as u64, at_ms), (film.segmentation.segment_count(), film.duration_ms));
        prop_assert_eq!(film.part(None), ItemPart { first_segment: 0, end_segment: segment, from_ms: 0, to_ms: at_ms });
    }

    /// At any instant exactly one part or filler is on, its neighbours touch it, and the way it is reached makes no
    /// difference.
    #[test]
    fn broken_programmes_tile_time(
        mode in any_mode(), seed: u64, count in 1usize..20, mid in 1usize..9, at in 0..10 * YEAR, edit in 0..YEAR,
    ) {
        let first = ScheduleDefinition::new(START, request(mode, seed, (count, mid)));
        let end = first.programme_bounds(START + edit).unwrap().1;
        let second = first.with_revision(end, request(mode, seed, (count + 3, mid + 1)));
        for definition in [&first, &second] {
            for at in [START + at, end] {
                let on = definition.programme_at(at).unwrap();
                prop_assert!(on.start_ms <= at && at < on.end_ms, "{on:?}");
                prop_assert_eq!(definition.programme_at(on.start_ms), Some(on));
                prop_assert_eq!(definition.programme_at(on.end_ms - 1), Some(on));
                check_sequence(definition, &on, &definition.programme_at(on.end_ms).unwrap())?;
                let mut before: Option<Programme> = None;
                for walked in ProgrammeIter::starting_at(definition, (at - 8 * 3_600_000).max(START)).take(20) {
                    if let Some(before) = before {
                        check_sequence(definition, &before, &walked)?;
                    }
                    prop_assert_eq!(definition.programme_at(walked.end_ms - 1), Some(walked));
                    before = Some(walked);
                }
            }
        }
        // After an edit at any instant, numbers have no gap, and rewinding from anywhere finds the start of the programme.
        let at_once = first.with_revision(START + edit + 1, request(mode, seed, (count, mid)));
        check_sequence(&at_once, &at_once.programme_at(START + edit).unwrap(), &at_once.programme_at(START + edit + 1).unwrap())?;
        let mut cursor = ProgrammeCursor::starting_at(&first, START + at);
        cursor.rewind_to_start(&first);
        let began = cursor.next_programme(&first).unwrap();
        prop_assert_eq!((Some(began), began.continues_programme), (first.programme_at(began.start_ms), false));
        prop_assert_eq!(first.programme_bounds(START + at).map(|(start, _)| start), Some(began.start_ms));
        prop_assert!(ProgrammeIter::starting_at(&first, began.start_ms).skip(1).take_while(|on| on.start_ms <= START + at).all(|on| on.continues_programme));
        // The edit waits for the whole programme, and nothing before it changes.
        let aired: Vec<_> = first.programmes_between(START.max(end - 20 * 3_600_000), end).collect();
        prop_assert_eq!(&aired, &second.programmes_between(START.max(end - 20 * 3_600_000), end).collect::<Vec<_>>());
        let (last, next) = (aired.last().unwrap(), second.programme_at(end).unwrap());
        prop_assert!(!next.continues_programme && !first.is_filler(last));
        prop_assert!(last.part_index.is_none_or(|part| usize::from(part) == first.item_of(last).breaks.len()));
    }

    /// Every cycle airs all parts of every item as often as it should, in their order, with filler between two parts and
    /// only there; filler takes turns.
    #[test]
    fn nothing_of_a_broken_programme_is_lost_or_doubled(mode in any_mode(), seed: u64, count in 1usize..20, mid in 1usize..9, cycle in 0u64..100_000) {
        let definition = ScheduleDefinition::new(START, request(mode, seed, (count, mid)));
        let revision = &definition.revisions[0];
        let cycles = revision.cycle_positions();
        let (from, to) = (START + cycles.cycle_start_ms(cycle), START + cycles.cycle_start_ms(cycle + 1));
        let breaks = cycles.breaks_before(cycle + 1) - cycles.breaks_before(cycle);
        let (mut lengths, mut broken, mut before) = (HashMap::<usize, i64>::new(), 0, None::<Programme>);
        let mut turns: Vec<usize> = Vec::new();
        for on in definition.programmes_between(from, to) {
            if definition.is_filler(&on) {
                let before = before.unwrap();
                prop_assert!(on.continues_programme && before.part_index.is_some_and(|part| usize::from(part) < definition.item_of(&before).breaks.len()));
                broken += 1;
                turns.push(on.item_index);
                continue;
            }
            *lengths.entry(on.item_index).or_default() += on.end_ms - on.start_ms;
            match on.part_index {
                Some(part @ 1..) => prop_assert_eq!(before.map(|before| (before.item_index, before.part_index)), Some((on.item_index, Some(part - 1)))),
                _ => prop_assert!(!on.continues_programme),
            }
            before = Some(on);
        }
        prop_assert_eq!(broken, breaks);
        for (index, item) in revision.programme_items().iter().enumerate() {
            prop_assert_eq!(lengths.get(&index).copied(), Some(item.duration_ms * revision.mode.copies_per_cycle(item) as i64));
        }
        prop_assert_eq!(lengths.len(), revision.programme_items().len());
        // No filler comes twice in a round, and the start of a round is known.
        let first = (breaks * cycle) % mid as u64;
        let skipped = (mid as u64 - first) as usize % mid;
        for round in turns.get(skipped..).unwrap_or_default().chunks(mid) {
            let once: std::collections::HashSet<_> = round.iter().collect();
            prop_assert_eq!(once.len(), round.len());
        }
    }

    /// A guide that hides filler has one entry per programme, breaks included, and adjacent ranges add up. A guide that
    /// shows filler has an entry with its own id for each part and break.
    #[test]
    fn a_guide_that_hides_filler_names_whole_programmes(mode in any_mode(), seed: u64, shown: bool, long in 0i64..60 * 3_600_000, cut in 0i64..60 * 3_600_000, at in 0..YEAR) {
        let mut hidden = channel(ScheduleDefinition::new(START, request(mode, seed, (7, 3))), shown);
        hidden.settings.min_guide_seconds = 0;
        let (from, to) = (START + at, START + at + long);
        let middle = from + cut % (long + 1);
        let wall_ms = WallMs::without_clock;
        let guide = |from, to| hidden.guide_entries(wall_ms(from), wall_ms(to), wall_ms(from)).map(|entry| entry.programme).collect::<Vec<_>>();
        let mut parts = guide(from, middle);
        parts.extend(guide(middle, to));
        parts.dedup();
        let whole = guide(from, to);
        prop_assert_eq!(&parts, &whole);
        prop_assert!(whole.windows(2).all(|pair| pair[0].end_ms == pair[1].start_ms && pair[0].ordinal < pair[1].ordinal));
        for entry in whole {
            if shown {
                prop_assert_eq!(Some(entry), hidden.definition.programme_at(entry.start_ms));
            } else {
                prop_assert_eq!(Some((entry.start_ms, entry.end_ms)), hidden.definition.programme_bounds(entry.start_ms + (entry.end_ms - entry.start_ms) / 2));
            }
            let airing = hidden.whole_programmes(entry.end_ms - 1, entry.end_ms).next().unwrap();
            prop_assert_eq!(Some((airing.start_ms, airing.end_ms)), hidden.definition.programme_bounds(entry.start_ms));
        }
    }
}

#[test]
fn the_guide_is_what_plays_with_breaks() {
    let (mut within, mut n) = (0, 0u64);
    for mode in MODES {
        let channel = channel(ScheduleDefinition::new(START, request(mode, 7, (9, 4))), false);
        for _ in 0..2000 {
            n += 1;
            let at = START + (mix_to_u64(n, 1, 2) % (10 * YEAR) as u64) as i64;
            let on = channel.definition.programme_at(at).unwrap();
            let wall_ms = WallMs::without_clock(at);
            let entry = channel.guide_entries(wall_ms, wall_ms + 1, wall_ms).next().unwrap();
            let filler = channel.definition.is_filler(&on);
            assert!(filler || entry.programme.item_index == on.item_index, "{on:?} {entry:?}");
            let live = live_window::segments_from(&channel.definition, None, at).next().unwrap();
            let time = at.to_ticks();
            assert!(live.start <= time && time < live.end, "{live:?}");
            assert_eq!(live.programme_start_ms, on.start_ms);
            let item = channel.definition.item_of(&on);
            let of = item.part(on.part_index);
            assert!((of.first_segment..of.end_segment).contains(&live.item_index));
            // Position in the file: the progress of the programme without its breaks.
            let shown = item.segmentation.grid().segment_start(live.item_index) + (time - live.start);
            let expected = Ticks::from_ms(at - on.start_ms + channel.entry_of(on).item_offset_ms());
            assert!((shown - expected).abs() <= Ticks::from_ms(1), "{shown:?} {expected:?}");
            within += u32::from(filler);
        }
    }
    assert!(within > 50, "{within} of 10,000 in a break");
}

#[test]
fn filler_within_programmes_is_fixed_for_ever() {
    let definition = ScheduleDefinition::new(START, request(ScheduleMode::Shuffle, 42, (5, 3)));
    let line: Vec<String> = ProgrammeIter::starting_at(&definition, START + 9 * YEAR)
        .take(16)
        .map(|on| {
            let part = on.part_index.map_or(String::new(), |part| format!("#{part}"));
            format!("{}{part}", definition.item_of(&on).title.split('/').next_back().unwrap())
        })
        .collect();
    insta::assert_snapshot!(line.join(" "));
}

/// Thousands of items are in memory, so a feature few items use must cost the others almost nothing.
#[test]
fn an_item_without_breaks_is_small() {
    assert_eq!(size_of::<Box<[BreakPosition]>>(), 16);
    assert_eq!(size_of::<BreakPosition>(), 8);
    let items: ScheduleItems = request(ScheduleMode::Shuffle, 3, (4, 0)).items;
    assert!(items.iter().all(|item| item.breaks.is_empty()));
}
