use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::domain::channel::Channel;
use crate::domain::live;
use crate::domain::schedule::blocks::{self, Block, Blocks, Filler, Layer, Slot, Source};
use crate::domain::schedule::cut::{Cut, Look, duration_ms, steps};
use crate::domain::schedule::{Cursor, Definition, Items, Programme, Walk, Wanted, itemize};
use crate::domain::time::{FrameRate, ticks};

const MODES: [Mode; 5] = [Mode::Sequential, Mode::Shuffle, Mode::ShuffleInOrder, Mode::Random, Mode::Weighted];
const START: i64 = 1_767_225_600_000;
const YEAR: i64 = 31_557_600_000;

fn item(path: String, grid: &Grid, marks: &[i64]) -> Item {
    let duration_ms = duration_ms(grid);
    Item {
        id: 0,
        title: path.clone(),
        path,
        duration_ms,
        weight: 1,
        cut: Cut::of(grid),
        look: Look::default(),
        breaks: places(marks.iter().copied(), grid, duration_ms),
    }
}

/// Films with every kind of segmentation, some too short for breaks, most without a whole number of milliseconds.
fn films(count: usize, salt: u64) -> Vec<Item> {
    let film = |n: usize| {
        let length = 200.0 + (mix(salt, n as u64, 3) % 6_000_000) as f64 / 1007.0;
        let grid = match n % 3 {
            0 => Grid::frames(FrameRate { num: 24_000, den: 1001 }, 2.0, length),
            1 => Grid::keyframes(&(1..4000).map(|k| k * 188_003 + k % 5 * 9_001).collect::<Vec<_>>(), 2.0, length),
            _ => Grid::steps(2.0, length),
        };
        let marks: Vec<i64> = (1..40).map(|k| ticks(k as f64 * (100.3 + salt as f64 % 97.0))).collect();
        let film = item(format!("/films {}/{n}.mkv", n % 3), &grid, &marks);
        Item { weight: 1 + n as u32 % 4, look: Look { height: 360 + n as u32 % 2, ..Look::default() }, ..film }
    };
    (0..count).map(film).collect()
}

fn fillers(count: usize) -> Vec<Item> {
    let filler = |n: usize| {
        item(format!("/ads/{n}.mkv"), &Grid::frames(FrameRate { num: 25, den: 1 }, 2.0, 9.96 + n as f64 * 17.3), &[])
    };
    (0..count).map(filler).collect()
}

fn wanted(mode: Mode, seed: u64, (count, mid): (usize, usize)) -> Wanted {
    let mut items = films(count, seed);
    items.extend(fillers(mid));
    for item in items.iter_mut().filter(|_| mid == 0) {
        item.breaks = Box::default();
    }
    Wanted { seed, mode, items: itemize(items), mid: mid as u32, blocks: None }
}

fn a_mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(MODES.to_vec())
}

fn channel(definition: Definition, show_filler: bool) -> Channel {
    let mut channel = crate::domain::channel::tests::channel(1);
    (channel.definition, channel.face.show_filler) = (definition, show_filler);
    channel
}

/// Checks that `next` follows `one`.
fn follows(definition: &Definition, one: &Programme, next: &Programme) -> Result<(), TestCaseError> {
    prop_assert_eq!(next.start_ms, one.end_ms);
    // A new revision skips ordinals that guides may have used.
    prop_assert!(next.ordinal == one.ordinal + 1 || next.revision != one.revision && next.ordinal > one.ordinal);
    let segments = definition.item(one).segments(one.part, one.end_ms - one.start_ms);
    prop_assert_eq!(next.sequence, one.sequence + segments, "{:?}", one);
    prop_assert_eq!(segments, definition.spans(one).len() as u64);
    prop_assert!(one.start_ms < one.end_ms && next.leads != next.within);
    Ok(())
}

#[test]
fn programmes_are_broken_at_chapters_that_lie_apart() {
    let grid = Grid::frames(FrameRate { num: 25, den: 1 }, 2.0, 3600.0);
    let minutes = |marks: &[f64], grid: &Grid| -> Vec<f64> {
        let marks = marks.iter().map(|minute| ticks(minute * 60.0));
        places(marks, grid, duration_ms(grid)).iter().map(|place| f64::from(place.at_ms) / 60_000.0).collect()
    };
    let none: [f64; 0] = [];
    assert_eq!(minutes(&[], &grid), none);
    assert_eq!(minutes(&[0.0, 2.0, 4.9, 8.0, 12.0, 17.9, 18.0, 20.0, 40.0, 56.0, 59.0], &grid), [8.0, 18.0, 40.0]);
    assert_eq!(minutes(&[40.0, -3.0, 20.0, 20.0, 90.0], &grid), [20.0, 40.0], "in any order");
    // Sitcoms have one break; programmes shorter than both edges have none.
    let short = Grid::steps(2.0, 1320.0);
    assert_eq!(minutes(&[2.0, 11.0, 20.0], &short), [11.0]);
    assert_eq!(minutes(&[1.0, 4.0, 5.0, 8.0], &Grid::steps(2.0, 595.0)), none);
    // At the nearer segment bound; copied video has fewer bounds.
    assert_eq!(minutes(&[10.0 + 0.9 / 60.0, 30.0 + 1.1 / 60.0], &grid), [10.0, 30.0 + 2.0 / 60.0]);
    let copied = Grid::keyframes(&(1..600).map(|k| k * 540_000).collect::<Vec<_>>(), 2.0, 3600.0);
    assert_eq!(minutes(&[10.0 + 2.9 / 60.0, 30.0 + 3.1 / 60.0], &copied), [10.0, 30.1]);
}

#[test]
fn places_and_records_are_small() {
    let film = films(2, 1).remove(1);
    assert!(film.breaks.len() > 1);
    let text = serde_json::to_string(&film).unwrap();
    assert!(text.contains("\"breaks\":[["), "{text}");
    let read: Item = serde_json::from_str(&text).unwrap();
    assert_eq!((read.breaks.clone(), read.cut.is_lost()), (film.breaks.clone(), true));
    // If its bounds are lost, everything after it stays in place.
    for part in 0..=film.breaks.len() as u16 {
        let of = film.part(Some(part));
        let (known, lost) = (film.spans(Some(part), of.duration_ms()), read.spans(Some(part), of.duration_ms()));
        assert_eq!((known.len(), known.end(known.len() - 1)), (lost.len(), lost.end(lost.len() - 1)));
    }
    let whole = Item { breaks: Box::default(), ..film };
    assert!(!serde_json::to_string(&whole).unwrap().contains("breaks"));
    let revision = Definition::new(START, wanted(Mode::Shuffle, 1, (3, 0))).revisions[0].clone();
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
            prop_assert_eq!((of.first, of.from_ms), (segment, at_ms));
            let spans = film.spans(Some(part), of.duration_ms());
            prop_assert_eq!((spans.len(), spans.own()), (of.until - of.first, of.until - of.first));
            prop_assert_eq!(spans.zero(), film.cut.grid().start(of.first));
            prop_assert!((spans.zero() - of.from_ms * 90).abs() <= 45);
            for k in 0..spans.len() {
                prop_assert!(spans.start(k) < spans.end(k) && spans.end(k) == spans.start(k + 1));
                prop_assert_eq!(spans.zero() + spans.start(k), film.cut.grid().start(of.first + k));
                prop_assert_eq!(spans.at(spans.start(k)), k);
            }
            prop_assert_eq!(spans.end(spans.len() - 1), of.duration_ms() * 90);
            (segment, at_ms) = (of.until, of.to_ms);
        }
        prop_assert_eq!((segment as u64, at_ms), (film.cut.segments(), film.duration_ms));
        prop_assert_eq!(film.part(None), Part { first: 0, until: segment, from_ms: 0, to_ms: at_ms });
    }

    /// At any instant exactly one part or filler is on, its neighbours touch it, and the way it is reached makes no
    /// difference.
    #[test]
    fn broken_programmes_tile_time(
        mode in a_mode(), seed: u64, count in 1usize..20, mid in 1usize..9, at in 0..10 * YEAR, edit in 0..YEAR,
    ) {
        let first = Definition::new(START, wanted(mode, seed, (count, mid)));
        let end = first.whole(START + edit).unwrap().1;
        let second = first.revised(end, wanted(mode, seed, (count + 3, mid + 1)));
        for definition in [&first, &second] {
            for at in [START + at, end] {
                let on = definition.programme(at).unwrap();
                prop_assert!(on.start_ms <= at && at < on.end_ms, "{on:?}");
                prop_assert_eq!(definition.programme(on.start_ms), Some(on));
                prop_assert_eq!(definition.programme(on.end_ms - 1), Some(on));
                follows(definition, &on, &definition.programme(on.end_ms).unwrap())?;
                let mut before: Option<Programme> = None;
                for walked in Walk::at(definition, (at - 8 * 3_600_000).max(START)).take(20) {
                    if let Some(before) = before {
                        follows(definition, &before, &walked)?;
                    }
                    prop_assert_eq!(definition.programme(walked.end_ms - 1), Some(walked));
                    before = Some(walked);
                }
            }
        }
        // After an edit at any instant, numbers have no gap, and rewinding from anywhere finds the start of the programme.
        let at_once = first.revised(START + edit + 1, wanted(mode, seed, (count, mid)));
        follows(&at_once, &at_once.programme(START + edit).unwrap(), &at_once.programme(START + edit + 1).unwrap())?;
        let mut cursor = Cursor::at(&first, START + at);
        cursor.rewind(&first);
        let began = cursor.next(&first).unwrap();
        prop_assert_eq!((Some(began), began.within), (first.programme(began.start_ms), false));
        prop_assert_eq!(first.whole(START + at).map(|(start, _)| start), Some(began.start_ms));
        prop_assert!(Walk::at(&first, began.start_ms).skip(1).take_while(|on| on.start_ms <= START + at).all(|on| on.within));
        // The edit waits for the whole programme, and nothing before it changes.
        let aired: Vec<_> = first.programmes(START.max(end - 20 * 3_600_000), end).collect();
        prop_assert_eq!(&aired, &second.programmes(START.max(end - 20 * 3_600_000), end).collect::<Vec<_>>());
        let (last, next) = (aired.last().unwrap(), second.programme(end).unwrap());
        prop_assert!(!next.within && !first.is_filler(last));
        prop_assert!(last.part.is_none_or(|part| usize::from(part) == first.item(last).breaks.len()));
    }

    /// Every cycle airs all parts of every item as often as it should, in their order, with filler between two parts and
    /// only there; filler takes turns.
    #[test]
    fn nothing_of_a_broken_programme_is_lost_or_doubled(mode in a_mode(), seed: u64, count in 1usize..20, mid in 1usize..9, cycle in 0u64..100_000) {
        let definition = Definition::new(START, wanted(mode, seed, (count, mid)));
        let revision = &definition.revisions[0];
        let cycles = revision.cycles();
        let (from, to) = (START + cycles.start_ms(cycle), START + cycles.start_ms(cycle + 1));
        let breaks = cycles.breaks_before(cycle + 1) - cycles.breaks_before(cycle);
        let (mut lengths, mut broken, mut before) = (HashMap::<usize, i64>::new(), 0, None::<Programme>);
        let mut turns: Vec<usize> = Vec::new();
        for on in definition.programmes(from, to) {
            if definition.is_filler(&on) {
                let before = before.unwrap();
                prop_assert!(on.within && before.part.is_some_and(|part| usize::from(part) < definition.item(&before).breaks.len()));
                broken += 1;
                turns.push(on.item);
                continue;
            }
            *lengths.entry(on.item).or_default() += on.end_ms - on.start_ms;
            match on.part {
                Some(part @ 1..) => prop_assert_eq!(before.map(|before| (before.item, before.part)), Some((on.item, Some(part - 1)))),
                _ => prop_assert!(!on.within),
            }
            before = Some(on);
        }
        prop_assert_eq!(broken, breaks);
        for (index, item) in revision.content().iter().enumerate() {
            prop_assert_eq!(lengths.get(&index).copied(), Some(item.duration_ms * revision.copies(item) as i64));
        }
        prop_assert_eq!(lengths.len(), revision.content().len());
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
    fn a_guide_tells_of_whole_programmes(mode in a_mode(), seed: u64, shown: bool, long in 0i64..60 * 3_600_000, cut in 0i64..60 * 3_600_000, at in 0..YEAR) {
        let mut hidden = channel(Definition::new(START, wanted(mode, seed, (7, 3))), shown);
        hidden.face.least_seconds = 0;
        let (from, to) = (START + at, START + at + long);
        let middle = from + cut % (long + 1);
        let guide = |from, to| hidden.guide(from, to, from).map(|entry| entry.programme).collect::<Vec<_>>();
        let mut parts = guide(from, middle);
        parts.extend(guide(middle, to));
        parts.dedup();
        let whole = guide(from, to);
        prop_assert_eq!(&parts, &whole);
        prop_assert!(whole.windows(2).all(|pair| pair[0].end_ms == pair[1].start_ms && pair[0].ordinal < pair[1].ordinal));
        for entry in whole {
            if shown {
                prop_assert_eq!(Some(entry), hidden.definition.programme(entry.start_ms));
            } else {
                prop_assert_eq!(Some((entry.start_ms, entry.end_ms)), hidden.definition.whole((entry.start_ms + entry.end_ms) / 2));
            }
            let airing = hidden.airings(entry.end_ms - 1, entry.end_ms).next().unwrap().programme;
            prop_assert_eq!(Some((airing.start_ms, airing.end_ms)), hidden.definition.whole(entry.start_ms));
        }
    }
}

#[test]
fn the_guide_is_what_plays_with_breaks() {
    let (mut within, mut n) = (0, 0u64);
    for mode in MODES {
        let channel = channel(Definition::new(START, wanted(mode, 7, (9, 4))), false);
        for _ in 0..2000 {
            n += 1;
            let at = START + (mix(n, 1, 2) % (10 * YEAR) as u64) as i64;
            let on = channel.definition.programme(at).unwrap();
            let entry = channel.guide(at, at + 1, at).next().unwrap();
            let filler = channel.definition.is_filler(&on);
            assert!(filler || entry.programme.item == on.item, "{on:?} {entry:?}");
            let slot = live::slots(&channel.definition, None, at).next().unwrap();
            assert!(slot.start <= at * 90 && at * 90 < slot.end, "{slot:?}");
            assert_eq!(slot.programme_ms, on.start_ms);
            let item = channel.definition.item(&on);
            let of = item.part(on.part);
            assert!((of.first..of.until).contains(&slot.place));
            // Position in the file: the progress of the programme without its breaks.
            let shown = item.cut.grid().start(slot.place) + (at * 90 - slot.start);
            let told = (at - on.start_ms + channel.entry(on).skipped_ms()) * 90;
            assert!((shown - told).abs() <= 90, "{shown} {told}");
            within += u32::from(filler);
        }
    }
    assert!(within > 50, "{within} of 10,000 in a break");
}

#[test]
fn filler_within_programmes_is_fixed_for_ever() {
    let definition = Definition::new(START, wanted(Mode::Shuffle, 42, (5, 3)));
    let line: Vec<String> = Walk::at(&definition, START + 9 * YEAR)
        .take(16)
        .map(|on| {
            format!(
                "{}{}",
                definition.item(&on).title.split('/').next_back().unwrap(),
                on.part.map_or(String::new(), |part| format!("#{part}"))
            )
        })
        .collect();
    insta::assert_snapshot!(line.join(" "));
}

impl Revision {
    /// The request this revision was made from.
    fn wanted(&self) -> Wanted {
        let (items, blocks) = (self.items.clone(), self.blocks.clone());
        Wanted { seed: self.seed, mode: self.mode, items, mid: self.mid, blocks }
    }
}

/// Films all day in blocks of four hours.
fn by_the_clock(seed: u64, films: Vec<Item>, mid: u32, pad_minutes: u16) -> Definition {
    let mut items = films;
    let content = items.len() as u32;
    items.extend(fillers(mid as usize));
    let slate = items.len() as u32;
    items.push(Item {
        cut: steps(172_800.0),
        duration_ms: 172_800_000,
        ..item(String::new(), &Grid::steps(2.0, 9.0), &[])
    });
    let block = |hour: u16| Block {
        at: hour * 60,
        until: None,
        slots: vec![Slot { source: 0, order: Mode::Shuffle, count: None }],
    };
    let layers = vec![Layer { blocks: (0..6).map(|n| block(n * 4)).collect(), ..Layer::default() }];
    let blocks = Blocks {
        zone: "Europe/Berlin".to_owned(),
        grid: blocks::Grid { day_start: 300, pad_minutes, layers },
        sources: vec![Source { name: "films".into(), items: 0..content }],
        filler: Filler { mid: content..slate, ..Filler::default() },
        content,
        slate,
        begin: vec![0],
        days: blocks::Days::default(),
    };
    Definition::new(
        START,
        Wanted { seed, mode: Mode::Blocks, items: itemize(items), mid: 0, blocks: Some(Arc::new(blocks)) },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// Block schedules too: parts in order, filler between, and each programme whole where its block has room.
    #[test]
    fn days_by_the_clock_hold_broken_programmes(seed: u64, mid in 1u32..5, pad in prop::sample::select(vec![0u16, 30]), jumps in prop::collection::vec(0i64..30 * 24 * 3_600_000, 20)) {
        let definition = by_the_clock(seed, films(6, seed), mid, pad);
        let walked: Vec<Programme> = definition.programmes(START, START + 31 * 24 * 3_600_000).collect();
        let mut broken = 0;
        for pair in walked.windows(2) {
            prop_assert_eq!((pair[1].start_ms, pair[1].ordinal), (pair[0].end_ms, pair[0].ordinal + 1));
            let segments = definition.item(&pair[0]).segments(pair[0].part, pair[0].end_ms - pair[0].start_ms);
            prop_assert_eq!(pair[1].sequence, pair[0].sequence + segments);
            if pair[1].within && definition.is_filler(&pair[1]) {
                broken += 1;
                prop_assert!(pair[0].part.is_some());
            }
            if let Some(part @ 1..) = pair[1].part {
                prop_assert!(pair[1].within && pair[0].within && definition.is_filler(&pair[0]), "{} {:?}", part, pair);
            }
        }
        prop_assert!(broken > 0 || definition.revisions[0].content().iter().all(|film| film.breaks.is_empty()));
        let until = walked.last().unwrap().start_ms - 8 * 3_600_000;
        for film in walked.iter().filter(|on| on.part == Some(0) && on.start_ms < until) {
            let (start, end) = definition.whole(film.start_ms).unwrap();
            prop_assert_eq!(start, film.start_ms);
            let parts = walked.iter().filter(|on| (start..end).contains(&on.start_ms) && on.part.is_some());
            let over = parts.map(|on| on.end_ms - on.start_ms).sum::<i64>() - definition.item(film).duration_ms;
            prop_assert!((0..10_000).contains(&over) || film.start_ms == START, "{film:?} {over}");
        }
        let channel = channel(definition, false);
        for at in jumps.iter().map(|jump| START + jump) {
            let expected = walked[walked.partition_point(|programme| programme.end_ms <= at)];
            prop_assert_eq!(channel.definition.programme(at), Some(expected));
            let entry = channel.guide(at, at + 1, at).next().unwrap();
            prop_assert!(channel.definition.is_filler(&expected) || entry.programme.item == expected.item);
            let (start, end) = channel.definition.whole(at).unwrap();
            prop_assert!(start <= expected.start_ms && expected.end_ms <= end);
            prop_assert!(!channel.definition.programme(start).unwrap().within && !channel.definition.programme(end).unwrap().within);
            let cut = channel.definition.revised(at + 1, by_the_clock(seed, films(5, seed), mid, pad).revisions[0].wanted());
            let (last, next) = (cut.programme(at).unwrap(), cut.programme(at + 1).unwrap());
            prop_assert_eq!(next.sequence, last.sequence + cut.spans(&last).len() as u64);
            prop_assert!(entry.programme.start_ms <= start && end <= entry.programme.end_ms);
        }
    }
}

#[test]
fn what_fits_its_block_without_breaks_only_is_not_broken() {
    let film = |minutes: f64| {
        let grid = Grid::steps(2.0, minutes * 60.0);
        item(format!("/{minutes}"), &grid, &(1..30).map(|k| ticks(k as f64 * 720.0)).collect::<Vec<_>>())
    };
    // Filler of ten seconds: nineteen breaks take more than three minutes.
    let aired = |minutes: f64| -> (usize, i64) {
        let definition = by_the_clock(1, vec![film(minutes)], 1, 0);
        let day = START + 24 * 3_600_000;
        // 8:00 in Berlin.
        let (start, end) = definition.whole(day + 7 * 3_600_000).unwrap();
        let on = definition.programme(start).unwrap();
        let within = definition.programmes(start, end).filter(|on| on.within && definition.is_filler(on)).count();
        (within, end - start - definition.item(&on).duration_ms)
    };
    let (breaks, more) = aired(230.0);
    assert!(breaks > 10 && more == breaks as i64 * 9_960, "{breaks} {more}");
    assert_eq!(aired(239.0), (0, 0));
}

/// Thousands of items are in memory, so a feature few items use must cost the others almost nothing.
#[test]
fn an_item_without_breaks_holds_none() {
    assert_eq!(size_of::<Box<[Break]>>(), 16);
    assert_eq!(size_of::<Break>(), 8);
    let items: Items = wanted(Mode::Shuffle, 3, (4, 0)).items;
    assert!(items.iter().all(|item| item.breaks.is_empty()));
}
