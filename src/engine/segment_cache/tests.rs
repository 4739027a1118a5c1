//! Which segments stay in memory, on disk, and for how long.

use super::*;

/// A cache in a folder of its own, and the name of a rendition.
fn cache(memory: u64, disk: u64) -> (tempfile::TempDir, SegmentCache, Arc<str>) {
    let folder = tempfile::tempdir().unwrap();
    let budget = CacheLimits { memory_bytes: memory, rendition_memory_bytes: memory, disk_bytes: disk };
    let cache = SegmentCache::open(&folder.path().join("segments"), budget).unwrap();
    (folder, cache, "r".into())
}

fn count_files(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.flatten().map(|entry| if entry.path().is_dir() { count_files(&entry.path()) } else { 1 }).sum()
}

fn segment_bytes(byte: u8) -> Bytes {
    vec![byte; 100].into()
}

fn segment_content(byte: u8) -> SegmentContent {
    SegmentContent::InMemory(segment_bytes(byte))
}

fn whole_bytes(stored: Option<StoredSegment>) -> Bytes {
    match stored.unwrap().content {
        SegmentContent::InMemory(bytes) => bytes,
        SegmentContent::Lazy(_) => panic!("it was stored as bytes"),
    }
}

#[tokio::test]
async fn evicted_segments_are_read_back_from_disk_until_it_is_full() {
    let (folder, cache, name) = cache(200, 200);
    let _hold = cache.hold(&name);
    for index in 0..5 {
        cache.put(&name, index, segment_content(index as u8), None).await;
    }
    assert!(cache.get(&name, 0).await.is_none(), "the oldest was dropped");
    for index in 1..5 {
        assert_eq!(whole_bytes(cache.get(&name, index).await), segment_bytes(index as u8));
    }
    assert_eq!(cache.rendition_usage(&name), RenditionUsage { segments: 4, bytes: 400 });
    assert_eq!(cache.usage(), CacheUsage { memory_bytes: 200, disk_bytes: 200, hits: 4, misses: 1 });
    assert_eq!(count_files(folder.path()), 2);
    cache.clear();
    assert_eq!(count_files(folder.path()), 0);
}

#[tokio::test]
async fn reproducible_segments_are_dropped_and_validated_by_their_inputs() {
    let (folder, cache, name) = cache(200, 1000);
    let _hold = cache.hold(&name);
    let content = || segment_content(0);
    let first = cache.put(&name, 0, content(), Some("a")).await;
    for index in 1..4 {
        let stored = cache.put(&name, index, content(), Some("a")).await;
        assert_ne!(stored.etag, first.etag, "another segment");
    }
    let usage = RenditionUsage { segments: 2, bytes: 200 };
    assert_eq!((cache.rendition_usage(&name), count_files(folder.path())), (usage, 0));
    assert!(!cache.contains(&name, 0) && cache.contains(&name, 3));
    assert_eq!(cache.put(&name, 0, content(), Some("a")).await.etag, first.etag);
    let other = cache.put(&name, 0, content(), Some("b")).await;
    assert_ne!(other.etag, first.etag, "another version of the file");
}

#[tokio::test]
async fn a_damaged_file_counts_as_absent() {
    let (folder, cache, name) = cache(100, 1000);
    let _hold = cache.hold(&name);
    cache.put(&name, 0, segment_content(1), None).await;
    cache.put(&name, 1, segment_content(2), None).await;
    std::fs::write(folder.path().join("segments/r/0.ts"), vec![9; 100]).unwrap();
    assert!(cache.get(&name, 0).await.is_none());
    assert!(!cache.contains(&name, 0));
}

#[tokio::test]
async fn a_failing_disk_costs_old_segments_only() {
    let (folder, cache, name) = cache(200, 1000);
    // A file in place of the folder: every write fails.
    std::fs::remove_dir_all(folder.path().join("segments")).unwrap();
    std::fs::write(folder.path().join("segments"), "").unwrap();
    let _hold = cache.hold(&name);
    for index in 0..4 {
        cache.put(&name, index, segment_content(index as u8), None).await;
    }
    assert_eq!(cache.rendition_usage(&name), RenditionUsage { segments: 2, bytes: 200 });
    assert_eq!(whole_bytes(cache.get(&name, 3).await), segment_bytes(3));
}

#[tokio::test(start_paused = true)]
async fn segments_linger_after_the_last_hold_then_go() {
    let (folder, cache, name) = cache(100, 1000);
    let hold = cache.hold(&name);
    cache.put(&name, 0, segment_content(1), None).await;
    cache.put(&name, 1, segment_content(2), None).await;
    drop(hold);
    cache.evict_expired();
    assert!(cache.contains(&name, 0) && cache.contains(&name, 1));
    let second_hold = cache.hold(&name);
    tokio::time::advance(LINGER * 2).await;
    cache.evict_expired();
    assert!(cache.contains(&name, 0), "held again");
    drop(second_hold);
    tokio::time::advance(LINGER).await;
    cache.evict_expired();
    assert_eq!((cache.rendition_usage(&name), count_files(folder.path())), (RenditionUsage::default(), 0));
}

#[tokio::test]
async fn files_of_an_earlier_process_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let segments = folder.path().join("segments");
    std::fs::create_dir_all(segments.join("old")).unwrap();
    std::fs::write(segments.join("old/3.ts"), "x").unwrap();
    let budget = CacheLimits { memory_bytes: 1, rendition_memory_bytes: 1, disk_bytes: 1 };
    SegmentCache::open(&segments, budget).unwrap();
    assert_eq!(count_files(folder.path()), 0);
}

#[tokio::test]
async fn the_etag_is_that_of_the_bytes() {
    let (_folder, cache, name) = cache(1000, 0);
    let first = cache.put(&name, 0, segment_content(1), None).await;
    let same = cache.put(&name, 1, segment_content(1), None).await;
    let other = cache.put(&name, 2, segment_content(2), None).await;
    assert_eq!(first.etag, same.etag);
    assert_ne!(first.etag, other.etag);
}
