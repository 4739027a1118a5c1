use std::cell::Cell;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::FutureExt;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn open(folder: &std::path::Path, clock: &Clock) -> Arc<ProgressStore> {
    let store = Store::open_waiting(folder).unwrap();
    Arc::new(ProgressStore::open(store, Tree::Progress, clock.clone(), Events::new("run".to_owned())).unwrap())
}

fn new_progress() -> (tempfile::TempDir, Clock, Arc<ProgressStore>) {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::default());
    let progress = open(folder.path(), &clock);
    (folder, clock, progress)
}

/// Saves `position`, sent by a device at time `at`, or by one that sends no time.
async fn save(progress: &ProgressStore, user: &str, item: &str, position: f64, at: Option<Timestamp>) -> SaveResult {
    let item = ProgressItem::new_file(item.to_owned(), &format!("/films/{item}.mkv"), 1);
    save_item(progress, user, item, position, at).await
}

async fn save_item(
    progress: &ProgressStore,
    user: &str,
    item: ProgressItem,
    position: f64,
    at: Option<Timestamp>,
) -> SaveResult {
    let save = ProgressSave {
        position_seconds: Some(position),
        duration_seconds: Some(3600.0),
        completed: Some(false),
        player: Some("web".to_owned()),
        client_updated_at: at,
        ..ProgressSave::default()
    };
    progress.save(user, item, save, |_| true).await.unwrap()
}

fn listed_ids(progress: &ProgressStore) -> Vec<String> {
    let page = progress.history("u_1", HistoryFilter::default(), None, 9).unwrap();
    page.entries.into_iter().map(|record| record.media_id).collect()
}

#[tokio::test]
async fn a_clock_that_was_once_ahead_does_not_freeze_progress_or_history() {
    let (folder, clock, progress) = new_progress();
    clock.advance(Duration::ZERO);
    let years = 73 * 365 * DAY;
    clock.advance(years);
    save(&progress, "u_1", "first", 100.0, None).await;
    save(&progress, "u_1", "second", 100.0, None).await;
    clock.set_back(years);
    // A device whose clock is a few seconds slow.
    let device_time = clock.now() - SignedDuration::from_secs(5);
    assert!(matches!(save(&progress, "u_1", "first", 200.0, Some(device_time)).await, SaveResult::Applied(_)));
    let earlier = device_time - SignedDuration::from_secs(60);
    let second_save = save(&progress, "u_1", "first", 150.0, Some(earlier)).await;
    assert!(matches!(second_save, SaveResult::Stale(_)), "in order again");

    progress.clean_up(|_| true).await.unwrap();
    clock.advance(DAY);
    progress.clean_up(|_| true).await.unwrap();
    clock.advance(Duration::from_secs(1));
    save(&progress, "u_1", "third", 100.0, None).await;
    assert_eq!(listed_ids(&progress)[0], "third");
    drop(progress);
    let progress = open(folder.path(), &clock);
    assert_eq!(listed_ids(&progress)[0], "third", "corrected durably");
    let second = progress.record("u_1", "second").unwrap().unwrap();
    assert!(second.last_watched_at <= clock.now() && second.updated_at <= clock.now(), "{second:?}");
}

#[tokio::test]
async fn records_of_a_user_added_during_cleanup_are_kept() {
    let (_folder, _clock, progress) = new_progress();
    save(&progress, "u_gone", "film", 100.0, None).await;
    save(&progress, "u_new", "film", 100.0, None).await;
    // The new user is unknown while the records are scanned, and known by the time a record is deleted.
    let checked_users = Arc::new(Mutex::new(HashSet::new()));
    let is_user = move |user: &str| !checked_users.lock().unwrap().insert(user.to_owned()) && user == "u_new";
    progress.clean_up(is_user).await.unwrap();
    assert!(progress.record("u_new", "film").unwrap().is_some());
    assert!(progress.record("u_gone", "film").unwrap().is_none());
}

#[tokio::test]
async fn a_save_under_way_when_its_user_is_removed_writes_nothing() {
    let (_folder, _clock, progress) = new_progress();
    let item = ProgressItem::new_file("film".to_owned(), "/films/film.mkv", 1);
    let save = ProgressSave { position_seconds: Some(100.0), ..ProgressSave::default() };
    let is_present = Cell::new(true);
    let item_lock = progress.item_lock("u_1", "film").lock().await;
    let mut saving = std::pin::pin!(progress.save("u_1", item, save, |_| is_present.get()));
    assert!(saving.as_mut().now_or_never().is_none());
    is_present.set(false);
    drop(item_lock);
    assert_eq!(saving.await.unwrap_err().code, Code::Unauthorized);
    assert!(progress.record("u_1", "film").unwrap().is_none() && listed_ids(&progress).is_empty());
}

#[tokio::test]
async fn a_record_that_follows_its_item_is_moved_in_one_change() {
    let (folder, clock, progress) = new_progress();
    save(&progress, "u_1", "old", 100.0, None).await;
    let changes = || std::fs::read_to_string(folder.path().join("journal")).unwrap().lines().count();
    let changes_before = changes();
    progress.move_record("u_1", "old", "new").await.unwrap();
    assert_eq!((changes(), listed_ids(&progress)), (changes_before + 1, vec!["new".to_owned()]));
    drop(progress);
    assert_eq!(listed_ids(&open(folder.path(), &clock)), ["new"]);
}

/// An id of the same item after a change, with another lock.
fn other_id(progress: &ProgressStore, from: &str) -> String {
    let mut ids = (0..).map(|n| format!("{from} {n}"));
    ids.find(|id| progress.lock_index("u_1", id) != progress.lock_index("u_1", from)).unwrap()
}

#[tokio::test]
async fn a_save_under_way_is_moved_with_its_record() {
    let (_folder, _clock, progress) = new_progress();
    save(&progress, "u_1", "old", 100.0, None).await;
    let to = other_id(&progress, "old");
    // A save has read the record and writes it later.
    let item_lock = progress.item_lock("u_1", "old").lock().await;
    let stored = progress.record("u_1", "old").unwrap().unwrap();
    let mut moving = std::pin::pin!(progress.move_record("u_1", "old", &to));
    assert!(moving.as_mut().now_or_never().is_none());
    progress.replace("u_1", "old", ProgressRecord { position_seconds: 200.0, ..stored }).await.unwrap();
    drop(item_lock);
    moving.await.unwrap();
    assert_eq!(listed_ids(&progress), [to.as_str()]);
    assert!(progress.record("u_1", "old").unwrap().is_none());
    assert_eq!(progress.record("u_1", &to).unwrap().unwrap().position_seconds, 200.0);
}

#[tokio::test]
async fn a_move_whose_caller_is_dropped_is_completed() {
    let (_folder, _clock, progress) = new_progress();
    save(&progress, "u_1", "old", 100.0, None).await;
    assert!(progress.move_record("u_1", "old", "new").now_or_never().is_none());
    while progress.record("u_1", "new").unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let _item_lock = progress.item_lock("u_1", "new").lock().await;
    assert_eq!(listed_ids(&progress), ["new"], "on disk and in memory");
}

fn folder_item(media_id: &str) -> ProgressItem {
    ProgressItem::new_file(media_id.to_owned(), "/books/Title", 0)
}

#[tokio::test]
async fn a_save_or_reset_begun_before_its_folder_changed_follows_the_moved_record() {
    let (_folder, _clock, progress) = new_progress();
    save_item(&progress, "u_1", folder_item("b_old"), 100.0, None).await;
    // The record is moved after the save took the former id of the folder and before it locked the item.
    let item_lock = progress.item_lock("u_1", "b_old").lock().await;
    let mut moving = std::pin::pin!(progress.move_record("u_1", "b_old", "b_new"));
    let mut saving = std::pin::pin!(save_item(&progress, "u_1", folder_item("b_old"), 200.0, None));
    assert!(moving.as_mut().now_or_never().is_none());
    tokio::task::yield_now().await;
    assert!(saving.as_mut().now_or_never().is_none());
    drop(item_lock);
    moving.await.unwrap();
    let SaveResult::Applied(saved) = saving.await else { panic!("a save without a version is applied") };
    assert_eq!((saved.media_id.as_str(), saved.position_seconds, saved.version), ("b_new", 200.0, 2));
    assert_eq!(listed_ids(&progress), ["b_new"], "one record");
    assert_eq!(progress.record("u_1", "b_new").unwrap(), Some(saved));

    assert!(!progress.reset("u_1", "b_old", "/books/Another").await.unwrap());
    assert!(progress.reset("u_1", "b_old", "/books/Title").await.unwrap(), "the moved record");
    assert!(!progress.reset("u_1", "b_old", "/books/Title").await.unwrap());
    assert!(listed_ids(&progress).is_empty() && progress.record("u_1", "b_new").unwrap().is_none());
    // A file that was replaced is another item.
    for id in ["f_old", "f_new"] {
        save_item(&progress, "u_1", folder_item(id), 100.0, None).await;
    }
    assert_eq!(listed_ids(&progress).len(), 2);
}
