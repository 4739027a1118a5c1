use proptest::prelude::*;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn save_at(position: f64) -> ProgressSave {
    ProgressSave {
        position_seconds: Some(position),
        duration_seconds: Some(5400.0),
        player: Some("web".into()),
        ..ProgressSave::default()
    }
}

fn merge_save(stored: Option<&ProgressRecord>, save: ProgressSave, now: Timestamp) -> SaveResult {
    let item = ProgressItem {
        media_id: "f_1".into(),
        path: "/library/film.mkv".into(),
        title: "film".into(),
        size_bytes: 1,
        duration_seconds: None,
    };
    super::merge_save(stored, &item, save, now)
}

fn applied(verdict: SaveResult) -> ProgressRecord {
    match verdict {
        SaveResult::Applied(record) => record,
        SaveResult::Stale(record) => panic!("refused for {record:?}"),
    }
}

fn record(position: f64, duration: f64) -> ProgressRecord {
    applied(merge_save(None, ProgressSave { duration_seconds: Some(duration), ..save_at(position) }, at(0)))
}

#[test]
fn the_last_write_wins_without_client_times() {
    let first = applied(merge_save(None, save_at(100.0), at(0)));
    assert_eq!((first.version, first.position_seconds, first.first_watched_at), (1, 100.0, at(0)));
    let second = applied(merge_save(Some(&first), save_at(50.0), at(10)));
    assert_eq!((second.version, second.position_seconds), (2, 50.0));
    assert_eq!((second.first_watched_at, second.last_watched_at, second.updated_at), (at(0), at(10), at(10)));
}

#[test]
fn an_older_save_changes_nothing() {
    let stored = applied(merge_save(None, save_at(100.0), at(0)));
    let late = ProgressSave { client_updated_at: Some(at(-1)), ..save_at(7.0) };
    assert_eq!(merge_save(Some(&stored), late, at(5)), SaveResult::Stale(stored.clone()));
    let same = ProgressSave { client_updated_at: Some(at(0)), ..save_at(7.0) };
    assert_eq!(applied(merge_save(Some(&stored), same, at(5))).position_seconds, 7.0);
    let other = ProgressSave { version: Some(3), ..save_at(7.0) };
    assert_eq!(merge_save(Some(&stored), other.clone(), at(5)), SaveResult::Stale(stored.clone()));
    assert!(matches!(merge_save(None, other, at(5)), SaveResult::Stale(record) if record.version == 0));
    let right = ProgressSave { version: Some(1), ..save_at(7.0) };
    assert_eq!(applied(merge_save(Some(&stored), right, at(5))).version, 2);
    let both = ProgressSave { version: Some(1), client_updated_at: Some(at(-1)), ..save_at(7.0) };
    assert!(matches!(merge_save(Some(&stored), both, at(5)), SaveResult::Stale(_)), "both conditions apply");
}

#[test]
fn a_clock_years_ahead_blocks_no_other_device() {
    let ahead = ProgressSave { client_updated_at: Some(at(1_000_000_000)), ..save_at(100.0) };
    let stored = applied(merge_save(None, ahead, at(0)));
    assert_eq!(stored.updated_at, at(0));
    let honest = ProgressSave { client_updated_at: Some(at(10)), ..save_at(120.0) };
    assert_eq!(applied(merge_save(Some(&stored), honest, at(10))).position_seconds, 120.0);
}

#[test]
fn a_record_from_a_wrong_server_clock_refuses_nothing() {
    let ahead = applied(merge_save(None, save_at(500.0), at(1_000_000)));
    for now in [at(500), at(900_000)] {
        let recent_save = ProgressSave { client_updated_at: Some(now - SignedDuration::from_secs(5)), ..save_at(20.0) };
        assert_eq!(applied(merge_save(Some(&ahead), recent_save.clone(), now)).position_seconds, 20.0);
        let reset = ahead.to_reset(at(1_000_000));
        assert_eq!(applied(merge_save(Some(&reset), recent_save, now)).position_seconds, 20.0);
    }
    assert!(ahead.has_future_time(at(900_000)) && !ahead.has_future_time(at(999_000)));
    let back = ahead.clone().without_future_times(at(900_000));
    assert_eq!((back.updated_at, back.last_watched_at, back.version), (at(900_000), at(900_000), ahead.version));
}

#[test]
fn a_day_offline_is_listed_where_it_was_watched() {
    let stored =
        applied(merge_save(None, ProgressSave { client_updated_at: Some(at(-86_400)), ..save_at(100.0) }, at(0)));
    assert_eq!((stored.last_watched_at, stored.updated_at), (at(-86_400), at(-86_400)));
}

#[test]
fn viewings_are_counted_when_they_end() {
    let done = |stored: Option<&ProgressRecord>, completed, now| {
        applied(merge_save(stored, ProgressSave { completed: Some(completed), ..save_at(5400.0) }, at(now)))
    };
    let first = done(None, true, 0);
    assert_eq!((first.play_count, first.completed_at, first.ever_completed), (1, Some(at(0)), true));
    let again = done(Some(&first), true, 5);
    assert_eq!((again.play_count, again.completed_at), (1, Some(at(0))), "still the same viewing");
    let rewatch = done(Some(&again), false, 10);
    assert_eq!((rewatch.play_count, rewatch.completed, rewatch.ever_completed), (1, false, true));
    let second = done(Some(&rewatch), true, 20);
    assert_eq!((second.play_count, second.completed_at), (2, Some(at(20))));
    let marked = ProgressSave { completed: Some(true), marks_watched: true, ..save_at(5400.0) };
    assert_eq!(applied(merge_save(Some(&second), marked, at(30))).play_count, 3);
}

#[test]
fn a_stray_zero_can_be_undone() {
    let mut stored = applied(merge_save(None, save_at(1312.5), at(0)));
    stored = applied(merge_save(Some(&stored), save_at(0.0), at(5)));
    assert_eq!(stored.position_seconds, 0.0);
    assert_eq!(stored.earlier_positions, [EarlierPosition { position_seconds: 1312.5, saved_at: at(0) }]);
    for n in 1..=7 {
        stored = applied(merge_save(Some(&stored), save_at(60.0 + f64::from(n)), at(10)));
        stored = applied(merge_save(Some(&stored), save_at(0.0), at(11)));
    }
    let kept: Vec<f64> = stored.earlier_positions.iter().map(|past| past.position_seconds).collect();
    assert_eq!(kept, [67.0, 66.0, 65.0, 64.0, 63.0]);

    let far = applied(merge_save(None, save_at(1312.5), at(0)));
    let positions = |save| applied(merge_save(Some(&far), save, at(5))).earlier_positions;
    let not_completed = ProgressSave { completed: Some(false), ..save_at(0.0) };
    assert_eq!(positions(not_completed).len(), 1, "the API's body always has it");
    for explicit in [
        ProgressSave { client_updated_at: Some(at(5)), ..save_at(0.0) },
        ProgressSave { version: Some(1), ..save_at(0.0) },
        ProgressSave { completed: Some(true), ..save_at(0.0) },
    ] {
        assert_eq!(positions(explicit), [], "an explicit save is not stray");
    }
    let near = applied(merge_save(None, save_at(60.0), at(0)));
    assert_eq!(applied(merge_save(Some(&near), save_at(0.0), at(5))).earlier_positions, []);
}

#[test]
fn a_reset_is_not_undone_by_a_late_device() {
    let stored = applied(merge_save(None, save_at(1312.5), at(0)));
    let reset = stored.to_reset(at(100));
    assert_eq!((reset.position_seconds, reset.version, reset.is_reset), (0.0, 2, true));
    let late = ProgressSave { client_updated_at: Some(at(50)), ..save_at(1400.0) };
    assert_eq!(merge_save(Some(&reset), late, at(110)), SaveResult::Stale(reset.clone()));
    let fresh = applied(merge_save(Some(&reset), save_at(8.0), at(120)));
    assert_eq!((fresh.version, fresh.is_reset, fresh.first_watched_at, fresh.play_count), (3, false, at(120), 0));
}

#[test]
fn playback_resumes_between_start_and_end_titles() {
    for (position, duration, resume) in [
        (0.0, 5400.0, 0.0),
        (53.9, 5400.0, 0.0),
        (54.0, 5400.0, 54.0),
        (4.9, 300.0, 0.0),
        (5.0, 300.0, 5.0),
        (5130.0, 5400.0, 5130.0),
        (5130.5, 5400.0, 0.0),
        (270.0, 300.0, 270.0),
        (270.5, 300.0, 0.0),
        (4.0, 0.0, 0.0),
        (900.0, 0.0, 900.0),
    ] {
        assert_eq!(record(position, duration).resume_seconds(), resume, "{position} of {duration}");
    }
    let mut done = record(2000.0, 5400.0);
    done.completed = true;
    assert_eq!(done.resume_seconds(), 0.0);
}

#[test]
fn percentages_are_of_the_whole() {
    assert_eq!(percentage(1312.5, 5400.0), 24.31);
    assert_eq!(percentage(10.0, 0.0), 0.0);
    assert_eq!(percentage(10.0, 5.0), 100.0);
}

/// Every order in which two devices' saves can arrive, with each device's own order kept.
fn interleavings(a: &[ProgressSave], b: &[ProgressSave]) -> Vec<Vec<ProgressSave>> {
    match (a.split_first(), b.split_first()) {
        (None, _) => vec![b.to_vec()],
        (_, None) => vec![a.to_vec()],
        (Some((first, rest)), Some((other, others))) => {
            let begins = |head: &ProgressSave, tails: Vec<Vec<ProgressSave>>| -> Vec<Vec<ProgressSave>> {
                tails.into_iter().map(|tail| [vec![head.clone()], tail].concat()).collect()
            };
            [begins(first, interleavings(rest, b)), begins(other, interleavings(a, others))].concat()
        }
    }
}

proptest! {
    /// Two devices in one book: whatever the order of arrival, the newest position by client time is stored in the end.
    #[test]
    fn the_newest_client_time_wins_after_every_interleaving(
        times in proptest::collection::hash_set(-3600_i64..240, 1..8),
        split in 0_usize..8,
        step_seconds in 0_i64..20,
    ) {
        let saves: Vec<ProgressSave> = times.iter().map(|time| ProgressSave {
            client_updated_at: Some(at(*time)),
            ..save_at((time + 3600) as f64 + 1.0)
        }).collect();
        let newest = times.iter().max().unwrap();
        let (a, b) = saves.split_at(split.min(saves.len()));
        for order in interleavings(a, b) {
            let mut stored: Option<ProgressRecord> = None;
            for (n, next) in order.into_iter().enumerate() {
                // Arrival at any speed; no device's clock is more than the allowed skew ahead of ours.
                if let SaveResult::Applied(record) = merge_save(stored.as_ref(), next, at(n as i64 * step_seconds)) {
                    stored = Some(record);
                }
            }
            let stored = stored.unwrap();
            prop_assert_eq!(stored.position_seconds, (newest + 3600) as f64 + 1.0);
            prop_assert_eq!(stored.updated_at, at(*newest));
        }
    }

    /// Versions increase by one with every applied save and with no other.
    #[test]
    fn versions_count_what_was_applied(
        saves in proptest::collection::vec((proptest::option::of(-50_i64..50), proptest::option::of(0_u64..6)), 1..12),
    ) {
        let mut stored: Option<ProgressRecord> = None;
        let mut applied = 0;
        for (n, (time, version)) in saves.into_iter().enumerate() {
            let next = ProgressSave { client_updated_at: time.map(at), version, ..save_at(n as f64) };
            match merge_save(stored.as_ref(), next, at(n as i64)) {
                SaveResult::Applied(record) => {
                    applied += 1;
                    prop_assert_eq!(record.version, applied);
                    stored = Some(record);
                }
                SaveResult::Stale(record) => prop_assert_eq!(record.version, applied),
            }
        }
    }
}
