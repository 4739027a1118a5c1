use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;

use super::*;
use crate::domain::schedule::cut::{Look, steps};
use crate::domain::schedule::{Definition, Item, Programme, Walk, Wanted, itemize};

const HOUR: i64 = 3_600_000;

/// Two sources, a series of `a` short episodes and `b` films of odd lengths, then four kinds of filler and the slate.
fn wanted(zone: &str, seed: u64, grid: Grid, (a, b): (u32, u32), fillers: bool) -> Wanted {
    let item = |path: String, duration_ms: i64| Item {
        id: 0,
        title: path.clone(),
        path,
        duration_ms,
        weight: 1,
        cut: steps(duration_ms as f64 / 1000.0),
        look: Look::default(),
        breaks: Box::default(),
    };
    let mut items: Vec<Item> = (0..a).map(|n| item(format!("/a/{n}"), 1_200_000 + i64::from(n) * 61_000)).collect();
    items.extend((0..b).map(|n| item(format!("/b/{n}"), 4_000_000 + (i64::from(n) * 977_003) % 5_000_000)));
    let content = a + b;
    let mut filler = Filler { cooldown_ms: HOUR / 2, ..Filler::default() };
    if fillers {
        items.extend([20, 45, 90, 200].map(|s: i64| item(format!("/filler/{s}"), s * 1000)));
        filler.pre = content..content + 1;
        filler.post = content + 1..content + 2;
        filler.tail = content..content + 3;
        filler.fallback = content + 3..content + 4;
    }
    let slate = items.len() as u32;
    items.push(item(String::new(), 48 * HOUR));
    let items = itemize(items);
    let begin = vec![0; grid.streams().len()];
    let sources = vec![Source { name: "a".into(), items: 0..a }, Source { name: "b".into(), items: a..content }];
    let blocks = Blocks { zone: zone.to_owned(), grid, sources, filler, content, slate, begin, days: Days::default() };
    Wanted { seed, mode: Mode::Blocks, items, mid: 0, blocks: Some(Arc::new(blocks)) }
}

fn blocks(definition: &Definition) -> &Blocks {
    definition.revisions[0].blocks.as_ref().unwrap()
}

/// A copy with empty day caches.
fn cold(definition: &Definition) -> Definition {
    let mut definition = definition.clone();
    for revision in &mut definition.revisions {
        let blocks = (**revision.blocks.as_ref().unwrap()).clone();
        revision.blocks = Some(Arc::new(blocks));
    }
    definition
}

fn slot(source: u32, order: Mode, count: Option<u32>) -> Slot {
    Slot { source, order, count }
}

fn block(at: u16, slots: Vec<Slot>) -> Block {
    Block { at, until: None, slots }
}

/// Episodes all day, a film at 20:15; on weekends films all day.
fn week() -> Grid {
    let film = slot(1, Mode::Shuffle, Some(1));
    Grid {
        day_start: 300,
        pad_minutes: 0,
        layers: vec![
            Layer { blocks: vec![block(20 * 60 + 15, vec![film])], ..Layer::default() },
            Layer {
                weekdays: 0b110_0000,
                blocks: vec![block(300, vec![slot(1, Mode::Shuffle, None)])],
                ..Layer::default()
            },
            Layer { blocks: vec![block(300, vec![slot(0, Mode::Sequential, None)])], ..Layer::default() },
        ],
    }
}

fn at(text: &str, zone: &str) -> i64 {
    let civil: jiff::civil::DateTime = text.parse().unwrap();
    civil.to_zoned(TimeZone::get(zone).unwrap()).unwrap().timestamp().as_millisecond()
}

fn title<'a>(definition: &'a Definition, programme: &Programme) -> &'a str {
    &definition.item(programme).title
}

#[test]
fn times_of_day_hold_over_every_change_of_the_clock() {
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
        let found = wall::instant(&TimeZone::get(zone).unwrap(), date, minutes);
        assert_eq!(Timestamp::from_millisecond(found).unwrap().to_string(), expected, "{zone} {date} {time}");
    }
    // Every day of three years, in six zones: days touch, and every instant lies in the day that has begun.
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Cairo", "UTC"] {
        let zone = TimeZone::get(zone).unwrap();
        for day_start in [0, 90, 150, 300] {
            let mut lengths = std::collections::BTreeMap::<i64, u32>::new();
            for day in 20_454..20_454 + 3 * 365 {
                let start = wall::instant(&zone, wall::date(day), day_start);
                let end = wall::instant(&zone, wall::date(day + 1), day_start);
                *lengths.entry((end - start) / 60_000).or_default() += 1;
                for inside in [start, start + 1, (start + end) / 2, end - 1] {
                    assert_eq!(wall::day_of(&zone, day_start, inside), day, "{zone:?} {day_start} {day}");
                }
            }
            let usual = lengths.remove(&1440).unwrap();
            assert!(usual >= 3 * 365 - 12 && lengths.values().sum::<u32>() <= 12, "{lengths:?}");
            assert!(lengths.keys().all(|minutes| (1380..=1500).contains(minutes)), "{lengths:?}");
        }
    }
}

#[test]
fn what_is_on_at_a_quarter_past_eight_is_a_film_on_every_day_of_the_year() {
    for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        let start = at("2026-01-01T05:00", zone);
        let definition = Definition::new(start, wanted(zone, 1, week(), (40, 9), true));
        for day in 0..365 {
            let date = Date::constant(2026, 1, 1).saturating_add(day.days());
            let evening = date.at(20, 15, 0, 0).to_zoned(TimeZone::get(zone).unwrap()).unwrap();
            let on = definition.programme(evening.timestamp().as_millisecond()).unwrap();
            // The bumper before the film begins exactly on time.
            assert_eq!(on.start_ms, evening.timestamp().as_millisecond(), "{zone} {date}");
            let film = Walk::at(&definition, on.end_ms).next().unwrap();
            assert!(title(&definition, &film).starts_with("/b/"), "{zone} {date}: {}", title(&definition, &film));
        }
    }
}

#[test]
fn seasons_weekdays_and_layers_decide_by_the_day() {
    let zone = "Europe/Berlin";
    let layer = |season, weekdays, source, order| Layer {
        season,
        weekdays,
        blocks: vec![block(300, vec![slot(source, order, None)])],
    };
    let grid = Grid {
        day_start: 300,
        pad_minutes: 0,
        layers: vec![
            // Across the end of the year.
            layer(Some(((12, 24), (1, 2))), 0, 1, Mode::Sequential),
            layer(Some(((2, 29), (2, 29))), 0, 1, Mode::Random),
            layer(None, 1 << 6, 1, Mode::Shuffle),
            layer(None, 0, 0, Mode::Sequential),
        ],
    };
    let start = at("2027-12-01T05:00", zone);
    let definition = Definition::new(start, wanted(zone, 1, grid, (30, 30), false));
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
        let on = definition.programme(at(when, zone)).unwrap();
        assert!(title(&definition, &on).starts_with(source), "{when}: {}", title(&definition, &on));
    }
}

#[test]
fn a_series_goes_on_from_day_to_day_without_a_gap_or_a_repeat() {
    let zone = "Europe/Berlin";
    let start = at("2026-01-01T05:00", zone);
    // Films above it, weekends, both DST changes: the series waits, then continues.
    let definition = Definition::new(start, wanted(zone, 3, week(), (40, 9), true));
    let (mut episodes, mut films) = (Vec::new(), Vec::new());
    for programme in definition.programmes(start, start + 365 * 24 * HOUR) {
        match title(&definition, &programme).strip_prefix("/a/") {
            Some(number) => {
                let over = programme.end_ms - programme.start_ms - definition.item(&programme).duration_ms;
                assert!((0..10_000).contains(&over), "aired whole: {programme:?}");
                episodes.push(number.parse::<usize>().unwrap());
            }
            None if !definition.is_filler(&programme) => films.push(programme.item),
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
fn programmes_begin_on_the_grid_and_filler_stays_away_for_a_while() {
    let zone = "Asia/Kathmandu";
    let start = at("2026-01-01T05:00", zone);
    let mut grid = week();
    (grid.pad_minutes, grid.layers) = (30, vec![grid.layers.remove(2)]);
    let definition = Definition::new(start, wanted(zone, 3, grid, (7, 2), true));
    let mut last_on = std::collections::HashMap::new();
    let mut content = 0;
    for programme in definition.programmes(start, start + 20 * 24 * HOUR) {
        let title = title(&definition, &programme);
        if title.starts_with("/a/") {
            content += 1;
            let lead = definition.programme(programme.start_ms - 1).unwrap();
            assert_eq!(definition.item(&lead).title, "/filler/20");
            assert_eq!(lead.start_ms.rem_euclid(HOUR / 2), 15 * 60_000, "a zone of 5:45: {programme:?}");
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
fn what_does_not_fit_waits_and_what_never_fits_is_cut() {
    let zone = "UTC";
    let start = at("2026-01-01T05:00", zone);
    let grid = |slots: Vec<Slot>, until| Grid {
        day_start: 300,
        pad_minutes: 0,
        layers: vec![Layer { blocks: vec![Block { at: 300, until, slots }], ..Layer::default() }],
    };
    // Films of 66 minutes and more in an hour; the rest of the day is slate.
    let short =
        Definition::new(start, wanted(zone, 3, grid(vec![slot(1, Mode::Sequential, None)], Some(360)), (1, 3), false));
    let aired: Vec<_> = short.programmes(start, start + 3 * 24 * HOUR).collect();
    assert_eq!(aired.iter().map(|p| title(&short, p)).collect::<Vec<_>>(), ["/b/0", "", "/b/1", "", "/b/2", ""]);
    assert!(aired.iter().step_by(2).all(|p| p.end_ms - p.start_ms == HOUR));
    // Two of them in four hours: the third waits for tomorrow.
    let long =
        Definition::new(start, wanted(zone, 3, grid(vec![slot(1, Mode::Sequential, None)], Some(540)), (1, 3), true));
    let day = |n: i64| -> Vec<_> {
        let day = start + n * 24 * HOUR;
        let on = long.programmes(day, day + 24 * HOUR).filter(|p| !long.is_filler(p));
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
    let grid = Grid { pad_minutes: 15, ..week() };
    let mut channel = crate::domain::channel::tests::channel(1);
    channel.definition = Definition::new(start, wanted(zone, 5, grid, (9, 7), true));
    let definition = channel.definition.clone();
    let to = start + 30 * 24 * HOUR;
    let whole: Vec<Programme> = channel.guide(0, to, 0).map(|entry| entry.programme).collect();
    assert_eq!(whole[0].start_ms, start);
    assert!(whole.windows(2).all(|pair| pair[0].end_ms == pair[1].start_ms && pair[0].ordinal < pair[1].ordinal));
    let hidden = whole.iter().filter(|entry| definition.is_filler(entry)).count();
    assert_eq!((hidden, whole.len() > 1000), (1, true), "filler begins an entry only where nothing precedes it");
    for n in 0..10_000 {
        let instant = start + n * ((to - start) / 10_000) + n % 997;
        let on = definition.programme(instant).unwrap();
        let entry = &whole[whole.partition_point(|entry| entry.end_ms <= instant)];
        let same = definition.is_filler(&on)
            || (entry.item, entry.ordinal, entry.start_ms) == (on.item, on.ordinal, on.start_ms);
        assert!(same && entry.start_ms <= on.start_ms && on.end_ms <= entry.end_ms, "{on:?} {entry:?}");
    }
    // A guide has the same entries wherever it begins.
    for n in 0..200 {
        let from = start + n * 12_345_677;
        let part: Vec<Programme> = channel.guide(from, from + HOUR, 0).map(|entry| entry.programme).collect();
        let expected = whole.iter().filter(|entry| entry.end_ms > from && entry.start_ms < from + HOUR);
        assert!(part.iter().eq(expected), "{n}");
    }
    channel.face.show_filler = true;
    let all: Vec<Programme> = channel.guide(0, to, 0).map(|entry| entry.programme).collect();
    assert!(all.iter().copied().eq(definition.programmes(0, to)));
}

fn a_grid() -> impl Strategy<Value = Grid> {
    let order = prop::sample::select(vec![Mode::Sequential, Mode::Shuffle, Mode::ShuffleInOrder, Mode::Random]);
    let slot =
        (0u32..2, order, prop::option::of(1u32..4)).prop_map(|(source, order, count)| slot(source, order, count));
    let block = (0u16..96, prop::collection::vec(slot, 1..3)).prop_map(|(at, slots)| block(at * 15, slots));
    let season = prop::option::of(((1u8..13, 1u8..29), (1u8..13, 1u8..29)));
    let layer = (season, 0u8..128, prop::collection::vec(block, 1..5)).prop_map(|(season, weekdays, blocks)| Layer {
        season,
        weekdays,
        blocks,
    });
    (
        prop::sample::select(vec![0u16, 300, 345]),
        prop::sample::select(vec![0u16, 5, 30]),
        prop::collection::vec(layer, 1..4),
    )
        .prop_map(|(day_start, pad_minutes, layers)| Grid { day_start, pad_minutes, layers })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the blocks: programmes tile time, segments are numbered without a gap, and the way an instant is reached
    /// makes no difference.
    #[test]
    fn days_tile_time(grid in a_grid(), seed: u64, fillers: bool, zone in prop::sample::select(vec!["Europe/Berlin", "America/New_York", "Asia/Kathmandu"]), jumps in prop::collection::vec(0i64..60 * 24 * HOUR, 30)) {
        // Across the DST changes of spring.
        let start = at("2026-02-20T11:17", zone);
        let definition = Definition::new(start, wanted(zone, seed, grid, (6, 5), fillers));
        let walked: Vec<Programme> = definition.programmes(start, start + 62 * 24 * HOUR).collect();
        prop_assert_eq!((walked[0].start_ms, walked[0].ordinal, walked[0].sequence), (start, 0, 0));
        for pair in walked.windows(2) {
            prop_assert_eq!((pair[1].start_ms, pair[1].ordinal), (pair[0].end_ms, pair[0].ordinal + 1));
            prop_assert!(pair[0].start_ms < pair[0].end_ms);
            let segments = definition.item(&pair[0]).segments(pair[0].part, pair[0].end_ms - pair[0].start_ms);
            prop_assert_eq!(pair[1].sequence, pair[0].sequence + segments);
        }
        let cold = cold(&definition);
        for jump in jumps {
            let on = cold.programme(start + jump).unwrap();
            let expected = walked[walked.partition_point(|programme| programme.end_ms <= start + jump)];
            prop_assert_eq!(on, expected);
        }
    }

    /// Continuing from checkpoints gives the same answers as computing everything from the beginning.
    #[test]
    fn marks_change_no_answer(grid in a_grid(), seed: u64, fillers: bool, known in 0i64..300, asked in prop::collection::vec(0i64..320 * 24 * HOUR, 6)) {
        let zone = "Europe/Berlin";
        let start = at("2026-02-20T11:17", zone);
        let first = Definition::new(start, wanted(zone, seed, grid, (6, 5), fillers));
        let (now, far) = (start + known * 24 * HOUR, start + 320 * 24 * HOUR);
        first.programme(far).unwrap();
        first.programme(now).unwrap();
        let marks = blocks(&first).fresh_marks(now);
        prop_assert!(marks.is_some() || known < 9);
        prop_assert_eq!(blocks(&first).fresh_marks(now), None, "already returned");
        let stored = serde_json::to_value(&marks).unwrap();
        let is_past = |mark: &serde_json::Value| mark["day"].as_i64().unwrap() <= now.div_euclid(24 * HOUR);
        prop_assert!(stored.as_array().into_iter().flatten().all(is_past), "no future checkpoints: {stored}");
        // Those that an older version stored do not keep present ones from being stored.
        prop_assert!(blocks(&first).fresh_marks(far).is_some());
        prop_assert!(blocks(&first).fresh_marks(now).is_some() || known < 9);
        // Through the stored form.
        let marks = serde_json::from_str(&serde_json::to_string(&marks.unwrap_or_default()).unwrap()).unwrap();
        let (resumed, cold) = (cold(&first), cold(&first));
        blocks(&resumed).resume(marks);
        for jump in asked {
            prop_assert_eq!(resumed.programme(start + jump), cold.programme(start + jump));
        }
    }

    /// A new plan begins at the end of the current programme. Aired programmes stay, and series that are in both continue.
    #[test]
    fn an_edit_leaves_alone_what_was_on(grid in a_grid(), other in a_grid(), seed: u64, edit in 0i64..20 * 24 * HOUR) {
        let zone = "Europe/Berlin";
        let start = at("2026-03-20T05:00", zone);
        let first = Definition::new(start, wanted(zone, seed, grid, (6, 5), true));
        let on = first.programme(start + edit).unwrap();
        let second = first.revised(on.end_ms, wanted(zone, seed, other, (6, 5), true));
        let aired: Vec<_> = first.programmes(start, on.end_ms).collect();
        prop_assert_eq!(aired, second.programmes(start, on.end_ms).collect::<Vec<_>>());
        let next = second.programme(on.end_ms).unwrap();
        prop_assert_eq!((next.start_ms, next.revision), (on.end_ms, 1));
        let named = first.programme(on.end_ms + 14 * 24 * HOUR).unwrap();
        prop_assert!(next.ordinal > named.ordinal, "{} is reused", next.ordinal);
        prop_assert_eq!(next.sequence, on.sequence + first.item(&on).segments(on.part, on.end_ms - on.start_ms));
        let last = first.programmes(start, on.end_ms).filter(|p| title(&first, p).starts_with("/a/")).last();
        let streams = |definition: &Definition, n: usize| definition.revisions[n].blocks.clone().unwrap().grid.streams();
        // Series that are sequential in both, and in no other order that would mix with it.
        let alone = |list: &[(u32, Mode)]| list.iter().filter(|(source, _)| *source == 0).all(|(_, mode)| *mode == Mode::Sequential);
        if let Some(last) = last
            && [0, 1].iter().all(|n| alone(&streams(&second, *n)))
            && let Some(next) = second.programmes(on.end_ms, on.end_ms + 100 * 24 * HOUR).find(|p| title(&second, p).starts_with("/a/"))
        {
            prop_assert_eq!(next.item, (last.item + 1) % 6);
        }
    }
}

#[test]
fn an_old_channel_goes_on_from_its_marks_without_its_past() {
    let zone = "Europe/Berlin";
    let start = at("2016-01-01T05:00", zone);
    let first = Definition::new(start, wanted(zone, 9, week(), (40, 9), true));
    let now = start + 9 * 365 * 24 * HOUR + 12_345_678;
    let on = first.programme(now);
    let resumed = cold(&first);
    blocks(&resumed).resume(blocks(&first).fresh_marks(now).unwrap());
    assert_eq!(resumed.programme(now), on);
    // A week back too.
    assert_eq!(resumed.programme(now - 7 * 24 * HOUR), first.programme(now - 7 * 24 * HOUR));
    assert!(blocks(&resumed).known_days() <= 6, "days before the checkpoints were not computed");
    assert!(blocks(&first).known_days() <= 9 * 365 / 128 + 20, "the cache stays small");
}

#[test]
fn instants_years_away_are_found_from_anywhere() {
    let zone = "America/New_York";
    let start = at("2020-01-01T05:00", zone);
    let definition = Definition::new(start, wanted(zone, 9, week(), (40, 9), true));
    let years = |n: i64| start + n * 365 * 24 * HOUR + 12_345_678;
    let there = [10, 3, 12, 0, 25].map(|n| definition.programme(years(n)).unwrap());
    let back = [25, 0, 12, 3, 10].map(|n| cold(&definition).programme(years(n)).unwrap());
    assert!(there.iter().eq(back.iter().rev()));
    definition.programme(years(0)).unwrap();
    assert!(blocks(&definition).known_days() <= 4096 / 128, "no states of other eras than the first are left");
    assert!(
        there[3].ordinal < there[1].ordinal
            && there[1].ordinal < there[0].ordinal
            && there[0].ordinal < there[2].ordinal
    );
    assert_eq!(definition.programme(start - 1), None);
}
