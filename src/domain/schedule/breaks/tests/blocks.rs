//! Breaks in block schedules.

use super::*;
use crate::domain::schedule::blocks::{
    Block, BlockGrid, BlockLayer, BlockSchedule, BlockSlot, BlockSource, DayCache, FillerRanges,
};
use crate::domain::schedule::segmentation::audio_segmentation;
use crate::domain::schedule::tests::plain_request;

impl ScheduleRevision {
    /// The request this revision was made from.
    fn to_request(&self) -> RevisionRequest {
        let (items, blocks) = (self.items.clone(), self.blocks.clone());
        RevisionRequest { seed: self.seed, mode: self.mode, items, mid_roll_count: self.mid_roll_count, blocks }
    }
}

/// Films all day in blocks of four hours.
fn block_definition(seed: u64, films: Vec<ScheduleItem>, mid: u32, pad_minutes: u16) -> ScheduleDefinition {
    let mut items = films;
    let content = items.len() as u32;
    items.extend(fillers(mid as usize));
    let slate = items.len() as u32;
    items.push(ScheduleItem {
        segmentation: audio_segmentation(172_800.0),
        duration_ms: 172_800_000,
        ..item(String::new(), &Grid::from_step(2.0, 9.0), &[])
    });
    let block = |hour: u16| Block {
        start_minutes: hour * 60,
        end_minutes: None,
        slots: vec![BlockSlot { source: 0, order: ScheduleMode::Shuffle, count: None }],
    };
    let layers = vec![BlockLayer { blocks: (0..6).map(|n| block(n * 4)).collect(), ..BlockLayer::default() }];
    let blocks = BlockSchedule {
        zone: "Europe/Berlin".to_owned(),
        grid: BlockGrid { day_start_minutes: 300, pad_minutes, layers },
        sources: vec![BlockSource { name: "films".into(), items: 0..content }],
        filler: FillerRanges { mid: content..slate, ..FillerRanges::default() },
        programme_count: content,
        slate_item: slate,
        start_positions: vec![0],
        day_cache: DayCache::default(),
    };
    let request = plain_request(seed, ScheduleMode::Blocks, assign_ids(items));
    ScheduleDefinition::new(START, RevisionRequest { blocks: Some(Arc::new(blocks)), ..request })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// Block schedules too: parts in order, filler between, and each programme whole where its block has room.
    #[test]
    fn block_schedules_air_programmes_with_breaks(seed: u64, mid in 1u32..5, pad in prop::sample::select(vec![0u16, 30]), jumps in prop::collection::vec(0i64..30 * 24 * 3_600_000, 20)) {
        let definition = block_definition(seed, films(6, seed), mid, pad);
        let walked: Vec<Programme> = definition.programmes_between(START, START + 31 * 24 * 3_600_000).collect();
        let mut broken = 0;
        for pair in walked.windows(2) {
            prop_assert_eq!((pair[1].start_ms, pair[1].ordinal), (pair[0].end_ms, pair[0].ordinal + 1));
            let segments = definition.item_of(&pair[0]).segment_count(pair[0].part_index, pair[0].end_ms - pair[0].start_ms);
            prop_assert_eq!(pair[1].media_sequence, pair[0].media_sequence + segments);
            if pair[1].continues_programme && definition.is_filler(&pair[1]) {
                broken += 1;
                prop_assert!(pair[0].part_index.is_some());
            }
            if let Some(part @ 1..) = pair[1].part_index {
                prop_assert!(pair[1].continues_programme && pair[0].continues_programme && definition.is_filler(&pair[0]), "{} {:?}", part, pair);
            }
        }
        prop_assert!(broken > 0 || definition.revisions[0].programme_items().iter().all(|film| film.breaks.is_empty()));
        let until = walked.last().unwrap().start_ms - 8 * 3_600_000;
        for film in walked.iter().filter(|on| on.part_index == Some(0) && on.start_ms < until) {
            let (start, end) = definition.programme_bounds(film.start_ms).unwrap();
            prop_assert_eq!(start, film.start_ms);
            let parts = walked.iter().filter(|on| (start..end).contains(&on.start_ms) && on.part_index.is_some());
            let over = parts.map(|on| on.end_ms - on.start_ms).sum::<i64>() - definition.item_of(film).duration_ms;
            prop_assert!((0..10_000).contains(&over) || film.start_ms == START, "{film:?} {over}");
        }
        let channel = channel(definition, false);
        for at in jumps.iter().map(|jump| START + *jump) {
            let expected = walked[walked.partition_point(|programme| programme.end_ms <= at)];
            prop_assert_eq!(channel.definition.programme_at(at), Some(expected));
            let wall_ms = WallMs::without_clock(at);
            let entry = channel.guide_entries(wall_ms, wall_ms + 1, wall_ms).next().unwrap();
            prop_assert!(channel.definition.is_filler(&expected) || entry.programme.item_index == expected.item_index);
            let (start, end) = channel.definition.programme_bounds(at).unwrap();
            prop_assert!(start <= expected.start_ms && expected.end_ms <= end);
            prop_assert!(!channel.definition.programme_at(start).unwrap().continues_programme && !channel.definition.programme_at(end).unwrap().continues_programme);
            let revised = channel.definition.with_revision(at + 1, block_definition(seed, films(5, seed), mid, pad).revisions[0].to_request());
            let (last, next) = (revised.programme_at(at).unwrap(), revised.programme_at(at + 1).unwrap());
            prop_assert_eq!(next.media_sequence, last.media_sequence + revised.segment_ranges(&last).len() as u64);
            prop_assert!(entry.programme.start_ms <= start && end <= entry.programme.end_ms);
        }
    }
}

#[test]
fn an_item_that_fits_only_without_breaks_has_none() {
    let film = |minutes: f64| {
        let grid = Grid::from_step(2.0, minutes * 60.0);
        item(format!("/{minutes}"), &grid, &(1..30).map(|k| to_ticks(k as f64 * 720.0)).collect::<Vec<_>>())
    };
    // Filler of ten seconds: nineteen breaks take more than three minutes.
    let aired = |minutes: f64| -> (usize, i64) {
        let definition = block_definition(1, vec![film(minutes)], 1, 0);
        let day = START + 24 * 3_600_000;
        // 8:00 in Berlin.
        let (start, end) = definition.programme_bounds(day + 7 * 3_600_000).unwrap();
        let on = definition.programme_at(start).unwrap();
        let all = definition.programmes_between(start, end);
        let within = all.filter(|on| on.continues_programme && definition.is_filler(on)).count();
        (within, end - start - definition.item_of(&on).duration_ms)
    };
    let (breaks, more) = aired(230.0);
    assert!(breaks > 10 && more == breaks as i64 * 9_960, "{breaks} {more}");
    assert_eq!(aired(239.0), (0, 0));
}
