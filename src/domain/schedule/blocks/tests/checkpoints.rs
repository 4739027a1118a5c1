//! Checkpoints and cached days: they save work and change no answer.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Continuing from checkpoints gives the same answers as computing everything from the beginning.
    #[test]
    fn checkpoints_change_no_answer(grid in any_grid(), seed: u64, fillers: bool, days in 0i64..300, jumps in prop::collection::vec(0i64..320 * 24 * HOUR, 6)) {
        let zone = "Europe/Berlin";
        let start = at("2026-02-20T11:17", zone);
        let first = ScheduleDefinition::new(start, request(zone, seed, grid, (6, 5), fillers));
        let (now, far) = (start + days * 24 * HOUR, start + 320 * 24 * HOUR);
        first.programme_at(far).unwrap();
        first.programme_at(now).unwrap();
        let (now, far) = (WallMs::without_clock(now), WallMs::without_clock(far));
        let checkpoints = blocks(&first).new_checkpoints(now);
        prop_assert!(checkpoints.is_some() || days < 9);
        prop_assert_eq!(blocks(&first).new_checkpoints(now), None, "already returned");
        let stored = serde_json::to_value(&checkpoints).unwrap();
        let is_past = |checkpoint: &serde_json::Value| checkpoint["day"].as_i64().unwrap() <= now.0.div_euclid(24 * HOUR);
        prop_assert!(stored.as_array().into_iter().flatten().all(is_past), "no future checkpoints: {stored}");
        // Those that an older version stored do not keep present ones from being stored.
        prop_assert!(blocks(&first).new_checkpoints(far).is_some());
        prop_assert!(blocks(&first).new_checkpoints(now).is_some() || days < 9);
        // Through the stored form.
        let checkpoints = serde_json::from_str(&serde_json::to_string(&checkpoints.unwrap_or_default()).unwrap()).unwrap();
        let (resumed, cold) = (without_caches(&first), without_caches(&first));
        blocks(&resumed).resume_from(checkpoints);
        for jump in jumps {
            prop_assert_eq!(resumed.programme_at(start + jump), cold.programme_at(start + jump));
        }
    }
}

#[test]
fn an_old_channel_resumes_from_checkpoints() {
    let zone = "Europe/Berlin";
    let start = at("2016-01-01T05:00", zone);
    let first = ScheduleDefinition::new(start, request(zone, 9, week(), (40, 9), true));
    let now = start + 9 * 365 * 24 * HOUR + 12_345_678;
    let on = first.programme_at(now);
    let resumed = without_caches(&first);
    blocks(&resumed).resume_from(blocks(&first).new_checkpoints(WallMs::without_clock(now)).unwrap());
    assert_eq!(resumed.programme_at(now), on);
    // A week back too.
    assert_eq!(resumed.programme_at(now - 7 * 24 * HOUR), first.programme_at(now - 7 * 24 * HOUR));
    assert!(blocks(&resumed).cached_state_count() <= 6, "days before the checkpoints were not computed");
    assert!(blocks(&first).cached_state_count() <= 9 * 365 / 128 + 20, "the cache stays small");
}

#[test]
fn instants_years_away_are_found() {
    let zone = "America/New_York";
    let start = at("2020-01-01T05:00", zone);
    let definition = ScheduleDefinition::new(start, request(zone, 9, week(), (40, 9), true));
    let years = |n: i64| start + n * 365 * 24 * HOUR + 12_345_678;
    let there = [10, 3, 12, 0, 25].map(|n| definition.programme_at(years(n)).unwrap());
    let back = [25, 0, 12, 3, 10].map(|n| without_caches(&definition).programme_at(years(n)).unwrap());
    assert!(there.iter().eq(back.iter().rev()));
    definition.programme_at(years(0)).unwrap();
    assert!(blocks(&definition).cached_state_count() <= 4096 / 128, "no states of other eras than the first are left");
    let ordinals = [3, 1, 0, 2].map(|n| there[n].ordinal);
    assert!(ordinals.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(definition.programme_at(start - 1), None);
}
