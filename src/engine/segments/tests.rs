//! Which segments stay in memory, on disk, and for how long.

use super::*;

fn cache(memory: u64, disk: u64) -> (tempfile::TempDir, Segments) {
    let folder = tempfile::tempdir().unwrap();
    let budget = Budget { memory, rendition_memory: memory, disk };
    let cache = Segments::open(&folder.path().join("segments"), budget).unwrap();
    (folder, cache)
}

fn files(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.flatten().map(|e| if e.path().is_dir() { files(&e.path()) } else { 1 }).sum()
}

fn filled(byte: u8) -> Bytes {
    vec![byte; 100].into()
}

fn whole(stored: Option<Stored>) -> Bytes {
    match stored.unwrap().content {
        Content::Whole(bytes) => bytes,
        Content::Parcel(_) => panic!("it was stored as bytes"),
    }
}

#[tokio::test]
async fn what_leaves_memory_reads_back_from_disk_until_that_is_full_too() {
    let (folder, cache) = cache(200, 200);
    let name: Arc<str> = "r".into();
    let _hold = cache.hold(&name);
    for index in 0..5 {
        cache.put(&name, index, filled(index as u8)).await;
    }
    assert!(cache.get(&name, 0).await.is_none(), "the oldest was dropped");
    for index in 1..5 {
        assert_eq!(whole(cache.get(&name, index).await), filled(index as u8));
    }
    assert_eq!(cache.tally(&name), Tally { segments: 4, bytes: 400 });
    assert_eq!(files(folder.path()), 2);
    cache.clear();
    assert_eq!(files(folder.path()), 0);
}

#[tokio::test]
async fn what_is_made_again_at_once_is_dropped_instead_and_named_by_what_it_is_made_of() {
    let (folder, cache) = cache(200, 1000);
    let name: Arc<str> = "r".into();
    let _hold = cache.hold(&name);
    let first = cache.put_light(&name, 0, Content::Whole(filled(0)), "a").await;
    for index in 1..4 {
        let stored = cache.put_light(&name, index, Content::Whole(filled(0)), "a").await;
        assert_ne!(stored.etag, first.etag, "another segment");
    }
    assert_eq!((cache.tally(&name), files(folder.path())), (Tally { segments: 2, bytes: 200 }, 0));
    assert!(!cache.holds(&name, 0) && cache.holds(&name, 3));
    assert_eq!(cache.put_light(&name, 0, Content::Whole(filled(0)), "a").await.etag, first.etag);
    let other = cache.put_light(&name, 0, Content::Whole(filled(0)), "b").await;
    assert_ne!(other.etag, first.etag, "another version of the file");
}

#[tokio::test]
async fn a_damaged_file_counts_as_absent() {
    let (folder, cache) = cache(100, 1000);
    let name: Arc<str> = "r".into();
    let _hold = cache.hold(&name);
    cache.put(&name, 0, filled(1)).await;
    cache.put(&name, 1, filled(2)).await;
    std::fs::write(folder.path().join("segments/r/0.ts"), vec![9; 100]).unwrap();
    assert!(cache.get(&name, 0).await.is_none());
    assert!(!cache.holds(&name, 0));
}

#[tokio::test]
async fn a_disk_that_refuses_costs_old_segments_only() {
    let (folder, cache) = cache(200, 1000);
    // A file in place of the folder: every write fails.
    std::fs::remove_dir_all(folder.path().join("segments")).unwrap();
    std::fs::write(folder.path().join("segments"), "").unwrap();
    let name: Arc<str> = "r".into();
    let _hold = cache.hold(&name);
    for index in 0..4 {
        cache.put(&name, index, filled(index as u8)).await;
    }
    assert_eq!(cache.tally(&name), Tally { segments: 2, bytes: 200 });
    assert_eq!(whole(cache.get(&name, 3).await), filled(3));
}

#[tokio::test(start_paused = true)]
async fn segments_linger_after_the_last_hold_then_go() {
    let (folder, cache) = cache(100, 1000);
    let name: Arc<str> = "r".into();
    let hold = cache.hold(&name);
    cache.put(&name, 0, filled(1)).await;
    cache.put(&name, 1, filled(2)).await;
    drop(hold);
    cache.expire();
    assert!(cache.holds(&name, 0) && cache.holds(&name, 1));
    let again = cache.hold(&name);
    tokio::time::advance(LINGER * 2).await;
    cache.expire();
    assert!(cache.holds(&name, 0), "held again");
    drop(again);
    tokio::time::advance(LINGER).await;
    cache.expire();
    assert_eq!((cache.tally(&name), files(folder.path())), (Tally::default(), 0));
}

#[tokio::test]
async fn a_former_process_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let segments = folder.path().join("segments");
    std::fs::create_dir_all(segments.join("old")).unwrap();
    std::fs::write(segments.join("old/3.ts"), "x").unwrap();
    let budget = Budget { memory: 1, rendition_memory: 1, disk: 1 };
    Segments::open(&segments, budget).unwrap();
    assert_eq!(files(folder.path()), 0);
}

#[tokio::test]
async fn the_etag_is_that_of_the_bytes() {
    let (_folder, cache) = cache(1000, 0);
    let name: Arc<str> = "r".into();
    let first = cache.put(&name, 0, filled(1)).await;
    let same = cache.put(&name, 1, filled(1)).await;
    let other = cache.put(&name, 2, filled(2)).await;
    assert_eq!(first.etag, same.etag);
    assert_ne!(first.etag, other.etag);
}
