use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;

use super::*;
use crate::domain::channel::Channel;
use crate::domain::schedule::segmentation::audio_segmentation;
use crate::domain::schedule::tests::schedule_item;
use crate::domain::schedule::{
    Programme, ProgrammeIter, RevisionRequest, ScheduleDefinition, ScheduleItem, assign_ids,
};
use crate::domain::time::{ChannelMs, WallMs};

mod checkpoints;

const HOUR: i64 = 3_600_000;

/// Two sources, a series of `a` short episodes and `b` films of odd lengths, then four kinds of filler and the slate.
fn request(zone: &str, seed: u64, grid: BlockGrid, (a, b): (u32, u32), fillers: bool) -> RevisionRequest {
    let item = |path: String, duration_ms: i64| {
        schedule_item(&path, duration_ms, audio_segmentation(duration_ms as f64 / 1000.0))
    };
    let mut items: Vec<ScheduleItem> =
        (0..a).map(|n| item(format!("/a/{n}"), 1_200_000 + i64::from(n) * 61_000)).collect();
    items.extend((0..b).map(|n| item(format!("/b/{n}"), 4_000_000 + (i64::from(n) * 977_003) % 5_000_000)));
    let content = a + b;
    let mut filler = FillerRanges { cooldown_ms: HOUR / 2, ..FillerRanges::default() };
    if fillers {
        items.extend([20, 45, 90, 200].map(|s: i64| item(format!("/filler/{s}"), s * 1000)));
        filler.pre = content..content + 1;
        filler.post = content + 1..content + 2;
        filler.tail = content..content + 3;
        filler.fallback = content + 3..content + 4;
    }
    let slate = items.len() as u32;
    items.push(item(String::new(), 48 * HOUR));
    let items = assign_ids(items);
    let source = |name: &str, items| BlockSource { name: name.into(), items };
    let blocks = BlockSchedule {
        zone: zone.to_owned(),
        start_positions: vec![0; grid.streams().len()],
        grid,
        sources: vec![source("a", 0..a), source("b", a..content)],
        filler,
        programme_count: content,
        slate_item: slate,
        day_cache: DayCache::default(),
    };
    RevisionRequest { seed, mode: ScheduleMode::Blocks, items, mid_roll_count: 0, blocks: Some(Arc::new(blocks)) }
}

fn blocks(definition: &ScheduleDefinition) -> &BlockSchedule {
    definition.revisions[0].blocks.as_ref().unwrap()
}

/// A copy with empty day caches.
fn without_caches(definition: &ScheduleDefinition) -> ScheduleDefinition {
    let mut definition = definition.clone();
    for revision in &mut definition.revisions {
        let blocks = (**revision.blocks.as_ref().unwrap()).clone();
        revision.blocks = Some(Arc::new(blocks));
    }
    definition
}

fn slot(source: u32, order: ScheduleMode, count: Option<u32>) -> BlockSlot {
    BlockSlot { source, order, count }
}

fn block(at: u16, slots: Vec<BlockSlot>) -> Block {
    Block { start_minutes: at, end_minutes: None, slots }
}

/// A grid of days from 5:00.
fn grid_of(layers: Vec<BlockLayer>) -> BlockGrid {
    BlockGrid { day_start_minutes: 300, pad_minutes: 0, layers }
}

/// One source all day.
fn all_day(weekdays: u8, source: u32, order: ScheduleMode) -> BlockLayer {
    BlockLayer { weekdays, blocks: vec![block(300, vec![slot(source, order, None)])], ..BlockLayer::default() }
}

/// Episodes all day, a film at 20:15; on weekends films all day.
fn week() -> BlockGrid {
    let film = block(20 * 60 + 15, vec![slot(1, ScheduleMode::Shuffle, Some(1))]);
    grid_of(vec![
        BlockLayer { blocks: vec![film], ..BlockLayer::default() },
        all_day(0b110_0000, 1, ScheduleMode::Shuffle),
        all_day(0, 0, ScheduleMode::Sequential),
    ])
}

fn at(text: &str, zone: &str) -> ChannelMs {
    let civil: jiff::civil::DateTime = text.parse().unwrap();
    ChannelMs(civil.to_zoned(TimeZone::get(zone).unwrap()).unwrap().timestamp().as_millisecond())
}

fn title<'a>(definition: &'a ScheduleDefinition, programme: &Programme) -> &'a str {
    &definition.item_of(programme).title
}

#[test]
fn times_of_day_survive_every_dst_change() {
    // Zone, a date on which DST begins or ends, the skipped or repeated time, and the expected instant.
    let table = [
        ("Europe/Berlin", "2026-03-29", "02:30", "2026-03-29T01:00:00Z"),
        ("Europe/Berlin", "2026-10-25", "02:30", "2026-10-25T00:30:00Z"),
        ("America/New_York", "2026-03-08", "02:15", "2026-03-08T07:00:00Z"),
        ("America/New_York", "2026-11-01", "01:15", "2026-11-01T05:15:00Z"),
        ("Australia/Lord_Howe", "2026-10-04", "02:10", "2026-10-03T15:30:00Z"),
        ("Australia/Lord_Howe", "2026-04-05", "01:40", "2026-04-04T14:40:00Z"),
        ("America/Sao_Paulo", "2026-07-01", "00:00", "2026-07-01T03:00:00Z"),
        ("Africa/Cairo", "2026-04-24", "00:30", "2026-04-23T22:00:00Z"),
        ("Asia/Kathmandu", "2028-02-29", "05:00", "2028-02-28T23:15:00Z"),
        ("UTC", "2026-12-31", "23:59", "2026-12-31T23:59:00Z"),
    ];
    for (zone, date, time, expected) in table {
        let (date, time): (Date, jiff::civil::Time) = (date.parse().unwrap(), time.parse().unwrap());
        let minutes = time.hour() as u16 * 60 + time.minute() as u16;
        let found = wall_clock::instant_of(&TimeZone::get(zone).unwrap(), date, minutes);
        assert_eq!(Timestamp::from_millisecond(found.0).unwrap().to_string(), expected, "{zone} {date} {time}");
    }
    // Every day of three years, in six zones: days touch, and every instant lies in the day that has begun.
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Cairo", "UTC"] {
        let zone = TimeZone::get(zone).unwrap();
        for day_start in [0, 90, 150, 300] {
            let mut lengths = std::collections::BTreeMap::<i64, u32>::new();
            for day in 20_454..20_454 + 3 * 365 {
                let start = wall_clock::instant_of(&zone, wall_clock::date_of_day(day), day_start);
                let end = wall_clock::instant_of(&zone, wall_clock::date_of_day(day + 1), day_start);
                *lengths.entry((end - start) / 60_000).or_default() += 1;
                for instant in [start, start + 1, start + (end - start) / 2, end - 1] {
                    assert_eq!(wall_clock::broadcast_day(&zone, day_start, instant), day, "{zone:?} {day_start} {day}");
                }
            }
            let usual = lengths.remove(&1440).unwrap();
            assert!(usual >= 3 * 365 - 12 && lengths.values().sum::<u32>() <= 12, "{lengths:?}");
            assert!(lengths.keys().all(|minutes| (1380..=1500).contains(minutes)), "{lengths:?}");
        }
    }
}

#[test]
fn the_evening_film_begins_at_2015_on_every_day_of_the_year() {
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        let start = at("2026-01-01T05:00", zone);
        let definition = ScheduleDefinition::new(start, request(zone, 1, week(), (40, 9), true));
        for day in 0..365 {
            let date = Date::constant(2026, 1, 1).saturating_add(day.days());
            let evening = date.at(20, 15, 0, 0).to_zoned(TimeZone::get(zone).unwrap()).unwrap();
            let evening_ms = ChannelMs(evening.timestamp().as_millisecond());
            let on = definition.programme_at(evening_ms).unwrap();
            // The bumper before the film begins exactly on time.
            assert_eq!(on.start_ms, evening_ms, "{zone} {date}");
            let film = ProgrammeIter::starting_at(&definition, on.end_ms).next().unwrap();
            assert!(title(&definition, &film).starts_with("/b/"), "{zone} {date}: {}", title(&definition, &film));
        }
    }
}

#[test]
fn seasons_weekdays_and_layers_decide_by_the_day() {
    let zone = "Europe/Berlin";
    let seasonal = |season, order| BlockLayer { season: Some(season), ..all_day(0, 1, order) };
    let grid = grid_of(vec![
        // Across the end of the year.
        seasonal(((12, 24), (1, 2)), ScheduleMode::Sequential),
        seasonal(((2, 29), (2, 29)), ScheduleMode::Random),
        all_day(1 << 6, 1, ScheduleMode::Shuffle),
        all_day(0, 0, ScheduleMode::Sequential),
    ]);
    let start = at("2027-12-01T05:00", zone);
    let definition = ScheduleDefinition::new(start, request(zone, 1, grid, (30, 30), false));
    for (when, source) in [
        ("2027-12-24T03:50", "/a/"),
        ("2027-12-24T05:01", "/b/"),
        ("2028-01-02T23:00", "/b/"),
        ("2028-01-03T02:00", "/b/"),
        ("2028-01-03T05:30", "/a/"),
        ("2028-02-28T12:00", "/a/"),
        ("2028-02-29T12:00", "/b/"),
        ("2028-03-01T12:00", "/a/"),
        ("2028-03-05T12:00", "/b/"),
        ("2028-03-06T12:00", "/a/"),
        ("2029-02-28T12:00", "/a/"),
        ("2029-03-01T12:00", "/a/"),
    ] {
        let on = definition.programme_at(at(when, zone)).unwrap();
        assert!(title(&definition, &on).starts_with(source), "{when}: {}", title(&definition, &on));
    }
}

#[test]
fn a_series_continues_from_day_to_day_without_gap_or_repeat() {
    let zone = "Europe/Berlin";
    let start = at("2026-01-01T05:00", zone);
    // Films above it, weekends, both DST changes: the series waits, then continues.
    let definition = ScheduleDefinition::new(start, request(zone, 3, week(), (40, 9), true));
    let (mut episodes, mut films) = (Vec::new(), Vec::new());
    for programme in definition.programmes_between(start, start + 365 * 24 * HOUR) {
        match title(&definition, &programme).strip_prefix("/a/") {
            Some(number) => {
                let over = programme.end_ms - programme.start_ms - definition.item_of(&programme).duration_ms;
                assert!((0..10_000).contains(&over), "aired whole: {programme:?}");
                episodes.push(number.parse::<usize>().unwrap());
            }
            None if !definition.is_filler(&programme) => films.push(programme.item_index),
            None => {}
        }
    }
    assert!(episodes.len() > 8000 && films.len() > 1000, "{} {}", episodes.len(), films.len());
    assert!(episodes.iter().enumerate().all(|(at, number)| *number == at % 40));
    // Films: each once in every nine.
    for nine in films.chunks_exact(9) {
        assert_eq!(nine.iter().collect::<std::collections::HashSet<_>>().len(), 9);
    }
}

#[test]
fn programmes_begin_on_the_grid_and_filler_has_a_cooldown() {
    let zone = "Asia/Kathmandu";
    let start = at("2026-01-01T05:00", zone);
    let mut grid = week();
    (grid.pad_minutes, grid.layers) = (30, vec![grid.layers.remove(2)]);
    let definition = ScheduleDefinition::new(start, request(zone, 3, grid, (7, 2), true));
    let mut last_on = std::collections::HashMap::new();
    let mut content = 0;
    for programme in definition.programmes_between(start, start + 20 * 24 * HOUR) {
        let title = title(&definition, &programme);
        if title.starts_with("/a/") {
            content += 1;
            let lead = definition.programme_at(programme.start_ms - 1).unwrap();
            assert_eq!(definition.item_of(&lead).title, "/filler/20");
            assert_eq!(lead.start_ms.0.rem_euclid(HOUR / 2), 15 * 60_000, "a zone of 5:45: {programme:?}");
        }
        // The filler of 90 s is neither before nor after a programme.
        if title == "/filler/90"
            && let Some(before) = last_on.insert(title.to_owned(), programme.end_ms)
        {
            assert!(programme.start_ms - before >= HOUR / 2, "{programme:?}");
        }
    }
    assert_eq!(content, 20 * 48);
}

#[test]
fn items_that_do_not_fit_wait_and_oversized_ones_are_cut() {
    let zone = "UTC";
    let start = at("2026-01-01T05:00", zone);
    let grid = |slots: Vec<BlockSlot>, until| {
        let blocks = vec![Block { start_minutes: 300, end_minutes: until, slots }];
        grid_of(vec![BlockLayer { blocks, ..BlockLayer::default() }])
    };
    // Films of 66 minutes and more in an hour; the rest of the day is slate.
    let films = || vec![slot(1, ScheduleMode::Sequential, None)];
    let short = ScheduleDefinition::new(start, request(zone, 3, grid(films(), Some(360)), (1, 3), false));
    let aired: Vec<_> = short.programmes_between(start, start + 3 * 24 * HOUR).collect();
    assert_eq!(aired.iter().map(|p| title(&short, p)).collect::<Vec<_>>(), ["/b/0", "", "/b/1", "", "/b/2", ""]);
    assert!(aired.iter().step_by(2).all(|p| p.end_ms - p.start_ms == HOUR));
    // Two of them in four hours: the third waits for tomorrow.
    let long = ScheduleDefinition::new(start, request(zone, 3, grid(films(), Some(540)), (1, 3), true));
    let day = |n: i64| -> Vec<_> {
        let day = start + n * 24 * HOUR;
        let on = long.programmes_between(day, day + 24 * HOUR).filter(|p| !long.is_filler(p));
        on.map(|p| title(&long, &p).to_owned()).collect()
    };
    assert_eq!(
        (day(0), day(1), day(2)),
        (vec!["/b/0".into(), "/b/1".into()], vec!["/b/2".into(), "/b/0".into()], vec!["/b/1".into(), "/b/2".into()])
    );
}

#[test]
fn a_guide_that_hides_filler_tiles_time_and_names_the_programme_of_every_instant() {
    let zone = "America/New_York";
    let start = at("2026-10-20T08:00", zone);
    let grid = BlockGrid { pad_minutes: 15, ..week() };
    let mut channel = crate::domain::channel::tests::channel(1);
    channel.definition = ScheduleDefinition::new(start, request(zone, 5, grid, (9, 7), true));
    let definition = channel.definition.clone();
    let to = start + 30 * 24 * HOUR;
    let wall_ms = WallMs::without_clock;
    let guide = |channel: &Channel, from, to| -> Vec<Programme> {
        let entries = channel.guide_entries(wall_ms(from), wall_ms(to), WallMs(0));
        entries.map(|entry| entry.programme).collect()
    };
    let whole = guide(&channel, ChannelMs(0), to);
    assert_eq!(whole[0].start_ms, start);
    assert!(whole.windows(2).all(|pair| pair[0].end_ms == pair[1].start_ms && pair[0].ordinal < pair[1].ordinal));
    let hidden = whole.iter().filter(|entry| definition.is_filler(entry)).count();
    assert_eq!((hidden, whole.len() > 1000), (1, true), "filler begins an entry only where nothing precedes it");
    for n in 0..10_000 {
        let instant = start + n * ((to - start) / 10_000) + n % 997;
        let on = definition.programme_at(instant).unwrap();
        let entry = &whole[whole.partition_point(|entry| entry.end_ms <= instant)];
        let same = definition.is_filler(&on)
            || (entry.item_index, entry.ordinal, entry.start_ms) == (on.item_index, on.ordinal, on.start_ms);
        assert!(same && entry.start_ms <= on.start_ms && on.end_ms <= entry.end_ms, "{on:?} {entry:?}");
    }
    // A guide has the same entries wherever it begins.
    for n in 0..200 {
        let from = start + n * 12_345_677;
        let part = guide(&channel, from, from + HOUR);
        let expected = whole.iter().filter(|entry| entry.end_ms > from && entry.start_ms < from + HOUR);
        assert!(part.iter().eq(expected), "{n}");
    }
    channel.settings.show_filler = true;
    let all = guide(&channel, ChannelMs(0), to);
    assert!(all.iter().copied().eq(definition.programmes_between(ChannelMs(0), to)));
}

fn any_grid() -> impl Strategy<Value = BlockGrid> {
    use ScheduleMode::{Random, Sequential, Shuffle, ShuffleInOrder};
    let order = prop::sample::select(vec![Sequential, Shuffle, ShuffleInOrder, Random]);
    let slot =
        (0u32..2, order, prop::option::of(1u32..4)).prop_map(|(source, order, count)| slot(source, order, count));
    let block = (0u16..96, prop::collection::vec(slot, 1..3)).prop_map(|(at, slots)| block(at * 15, slots));
    let season = prop::option::of(((1u8..13, 1u8..29), (1u8..13, 1u8..29)));
    let layer = (season, 0u8..128, prop::collection::vec(block, 1..5))
        .prop_map(|(season, weekdays, blocks)| BlockLayer { season, weekdays, blocks });
    let start = prop::sample::select(vec![0u16, 300, 345]);
    let grid = (start, prop::sample::select(vec![0u16, 5, 30]), prop::collection::vec(layer, 1..4));
    grid.prop_map(|(day_start_minutes, pad_minutes, layers)| BlockGrid { day_start_minutes, pad_minutes, layers })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the blocks: programmes tile time, segments are numbered without a gap, and the way an instant is reached
    /// makes no difference.
    #[test]
    fn days_tile_time(grid in any_grid(), seed: u64, fillers: bool, zone in prop::sample::select(vec!["Europe/Berlin", "America/New_York", "Asia/Kathmandu"]), jumps in prop::collection::vec(0i64..60 * 24 * HOUR, 30)) {
        // Across the DST changes of spring.
        let start = at("2026-02-20T11:17", zone);
        let definition = ScheduleDefinition::new(start, request(zone, seed, grid, (6, 5), fillers));
        let walked: Vec<Programme> = definition.programmes_between(start, start + 62 * 24 * HOUR).collect();
        prop_assert_eq!((walked[0].start_ms, walked[0].ordinal, walked[0].media_sequence), (start, 0, 0));
        for pair in walked.windows(2) {
            prop_assert_eq!((pair[1].start_ms, pair[1].ordinal), (pair[0].end_ms, pair[0].ordinal + 1));
            prop_assert!(pair[0].start_ms < pair[0].end_ms);
            let segments = definition.item_of(&pair[0]).segment_count(pair[0].part_index, pair[0].end_ms - pair[0].start_ms);
            prop_assert_eq!(pair[1].media_sequence, pair[0].media_sequence + segments);
        }
        let cold = without_caches(&definition);
        for jump in jumps {
            let on = cold.programme_at(start + jump).unwrap();
            let expected = walked[walked.partition_point(|programme| programme.end_ms <= start + jump)];
            prop_assert_eq!(on, expected);
        }
    }

    /// A new plan begins at the end of the current programme. Aired programmes stay, and series that are in both continue.
    #[test]
    fn an_edit_keeps_past_and_current_programmes(grid in any_grid(), other in any_grid(), seed: u64, edit in 0i64..20 * 24 * HOUR) {
        let zone = "Europe/Berlin";
        let start = at("2026-03-20T05:00", zone);
        let first = ScheduleDefinition::new(start, request(zone, seed, grid, (6, 5), true));
        let on = first.programme_at(start + edit).unwrap();
        let second = first.with_revision(on.end_ms, request(zone, seed, other, (6, 5), true));
        let aired: Vec<_> = first.programmes_between(start, on.end_ms).collect();
        prop_assert_eq!(aired, second.programmes_between(start, on.end_ms).collect::<Vec<_>>());
        let next = second.programme_at(on.end_ms).unwrap();
        prop_assert_eq!((next.start_ms, next.revision_index), (on.end_ms, 1));
        let named = first.programme_at(on.end_ms + 14 * 24 * HOUR).unwrap();
        prop_assert!(next.ordinal > named.ordinal, "{} is reused", next.ordinal);
        prop_assert_eq!(next.media_sequence, on.media_sequence + first.item_of(&on).segment_count(on.part_index, on.end_ms - on.start_ms));
        let last = first.programmes_between(start, on.end_ms).filter(|p| title(&first, p).starts_with("/a/")).last();
        let streams = |definition: &ScheduleDefinition, n: usize| definition.revisions[n].blocks.clone().unwrap().grid.streams();
        // Series that are sequential in both, and in no other order that would mix with it.
        let alone = |list: &[(u32, ScheduleMode)]| list.iter().filter(|(source, _)| *source == 0).all(|(_, mode)| *mode == ScheduleMode::Sequential);
        if let Some(last) = last
            && [0, 1].iter().all(|n| alone(&streams(&second, *n)))
            && let Some(next) = second.programmes_between(on.end_ms, on.end_ms + 100 * 24 * HOUR).find(|p| title(&second, p).starts_with("/a/"))
        {
            prop_assert_eq!(next.item_index, (last.item_index + 1) % 6);
        }
    }
}
