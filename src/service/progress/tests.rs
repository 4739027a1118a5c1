use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::domain::progress::MediaType;

const DAY: Duration = Duration::from_secs(86_400);

fn open(folder: &std::path::Path, clock: &Clock) -> Progress {
    let store = Store::open_waiting(folder).unwrap();
    Progress::open(store, Tree::Progress, clock.clone(), Events::new("run".to_owned())).unwrap()
}

/// Saves `position`, sent by a device at time `at`, or by one that sends no time.
async fn save(progress: &Progress, user: &str, item: &str, position: f64, at: Option<Timestamp>) -> Verdict {
    let make = |_: Option<&Record>| Save {
        media_id: item.to_owned(),
        path: format!("/films/{item}.mkv"),
        size_bytes: 1,
        media_type: MediaType::Video,
        title: item.to_owned(),
        position_seconds: position,
        duration_seconds: 3600.0,
        completed: Some(false),
        player: "web".to_owned(),
        device_id: None,
        audio_stream_index: None,
        subtitle_stream_index: None,
        book: None,
        marks_watched: false,
        client_updated_at: at,
        version: None,
    };
    progress.save(user, item, make).await.unwrap()
}

fn listed(progress: &Progress) -> Vec<String> {
    let page = progress.history("u_1", Filter::default(), None, 9).unwrap();
    page.records.into_iter().map(|record| record.media_id).collect()
}

#[tokio::test]
async fn a_clock_that_was_ahead_once_freezes_no_progress_and_no_history() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::default());
    clock.advance(Duration::ZERO);
    let progress = open(folder.path(), &clock);
    let years = 73 * 365 * DAY;
    clock.advance(years);
    save(&progress, "u_1", "first", 100.0, None).await;
    save(&progress, "u_1", "second", 100.0, None).await;
    clock.set_back(years);
    // A device whose clock is a few seconds slow.
    let said = clock.now() - SignedDuration::from_secs(5);
    assert!(matches!(save(&progress, "u_1", "first", 200.0, Some(said)).await, Verdict::Applied(_)));
    let earlier = said - SignedDuration::from_secs(60);
    assert!(matches!(save(&progress, "u_1", "first", 150.0, Some(earlier)).await, Verdict::Stale(_)), "in order again");

    progress.tidy(|_| true).await.unwrap();
    clock.advance(DAY);
    progress.tidy(|_| true).await.unwrap();
    clock.advance(Duration::from_secs(1));
    save(&progress, "u_1", "third", 100.0, None).await;
    assert_eq!(listed(&progress)[0], "third");
    drop(progress);
    let progress = open(folder.path(), &clock);
    assert_eq!(listed(&progress)[0], "third", "corrected durably");
    let second = progress.of("u_1", "second").unwrap().unwrap();
    assert!(second.last_watched_at <= clock.now() && second.updated_at <= clock.now(), "{second:?}");
}

#[tokio::test]
async fn what_a_user_made_meanwhile_saves_is_kept() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::default());
    let progress = open(folder.path(), &clock);
    save(&progress, "u_gone", "film", 100.0, None).await;
    save(&progress, "u_new", "film", 100.0, None).await;
    // The new user is unknown while the records are scanned, and known by the time a record is deleted.
    let asked = Arc::new(Mutex::new(HashSet::new()));
    let is_user = move |user: &str| !asked.lock().unwrap().insert(user.to_owned()) && user == "u_new";
    progress.tidy(is_user).await.unwrap();
    assert!(progress.of("u_new", "film").unwrap().is_some());
    assert!(progress.of("u_gone", "film").unwrap().is_none());
}

#[tokio::test]
async fn a_record_that_follows_its_item_is_moved_in_one_change() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::default());
    let progress = open(folder.path(), &clock);
    save(&progress, "u_1", "old", 100.0, None).await;
    let changes = || std::fs::read_to_string(folder.path().join("journal")).unwrap().lines().count();
    let before = changes();
    progress.carry("u_1", "old", "new").await.unwrap();
    assert_eq!((changes(), listed(&progress)), (before + 1, vec!["new".to_owned()]));
    drop(progress);
    assert_eq!(listed(&open(folder.path(), &clock)), ["new"]);
}
