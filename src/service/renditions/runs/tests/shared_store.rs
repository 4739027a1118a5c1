//! Runs of a server with a store that servers share, here in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use futures_util::future::{BoxFuture, pending};

use super::*;
use crate::engine::shared_segments::{ObjectBucket, SegmentObject};

/// A bucket in memory, which takes a while for each answer, or never answers.
#[derive(Debug, Default)]
struct MemoryBucket {
    objects: Arc<Mutex<BTreeMap<String, SegmentObject>>>,
    is_silent: AtomicBool,
    reads: AtomicU32,
}

/// Answers take one to four times this long, and arrive in reverse order.
const ANSWER_TIME: Duration = Duration::from_millis(5);
const MAX_ANSWER_TIME: Duration = Duration::from_millis(20);

impl ObjectBucket for MemoryBucket {
    fn get(&self, path: &str) -> BoxFuture<'static, Result<Option<SegmentObject>, String>> {
        if self.is_silent.load(Ordering::Relaxed) {
            return Box::pin(pending());
        }
        let found = lock(&self.objects).get(path).cloned();
        let answer_time = ANSWER_TIME * (4 - self.reads.fetch_add(1, Ordering::Relaxed) % 4);
        Box::pin(async move {
            tokio::time::sleep(answer_time).await;
            Ok(found)
        })
    }

    fn put(&self, path: &str, object: SegmentObject) -> BoxFuture<'static, Result<(), String>> {
        let (objects, path) = (self.objects.clone(), path.to_owned());
        Box::pin(async move {
            lock(&objects).insert(path, object);
            Ok(())
        })
    }
}

/// Another server with the same film and the same store.
fn server(bucket: &Arc<MemoryBucket>) -> Bench {
    let mut bench = bench_with_jobs(one_second_backend(), 1);
    let film = std::fs::OpenOptions::new().write(true).open(bench.folder.path().join("film.mp4")).unwrap();
    film.set_modified(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap();
    let (shared, uploads) = SharedSegments::new(bucket.clone(), Duration::from_secs(1));
    bench.runs.tasks.spawn(uploads.run());
    bench.runs.shared = Some(shared);
    bench
}

/// Segments of the film.
fn segment_count(bench: &Bench) -> usize {
    bench.rendition_spec(240).grid.len()
}

/// How often a server found a segment in the store.
fn hits(bench: &Bench) -> u64 {
    bench.runs.shared.as_ref().unwrap().counts().hits
}

#[tokio::test(start_paused = true)]
async fn a_film_that_is_wholly_in_the_store_is_played_without_a_run() {
    let bucket = Arc::new(MemoryBucket::default());
    let (first, second) = (server(&bucket), server(&bucket));
    let lease = first.lease(240);
    let mut etags = Vec::new();
    let count = segment_count(&first);
    for index in 0..count {
        etags.push(lease.segment(index).await.unwrap().etag);
    }
    wait_until(|| lock(&bucket.objects).len() == count).await;
    drop(lease);

    let (lease, start) = (second.lease(240), tokio::time::Instant::now());
    for (index, etag) in etags.iter().enumerate() {
        assert_eq!(lease.segment(index).await.unwrap().etag, *etag);
    }
    assert!(start.elapsed() <= MAX_ANSWER_TIME * count as u32, "{:?}", start.elapsed());
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((second.fake.run_starts(), hits(&second)), (vec![], count as u64));
    assert_eq!(second.runs.active_jobs(), 0, "no encode slot was used");
}

#[tokio::test(start_paused = true)]
async fn a_negative_answer_costs_its_own_time_once() {
    let bench = server(&Arc::default());
    let (lease, start) = (bench.lease(240), tokio::time::Instant::now());
    read_segments(&lease, 0..20).await;
    assert!(start.elapsed() <= Duration::from_secs(20) + MAX_ANSWER_TIME, "{:?}", start.elapsed());
    assert_eq!(bench.fake.run_starts(), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_run_makes_what_is_missing_and_stops_before_what_is_stored() {
    let bucket = Arc::new(MemoryBucket::default());
    let (first, second) = (server(&bucket), server(&bucket));
    let lease = first.lease(240);
    // With their read-ahead of 10 segments, 20 to 40 and 60 to 80.
    for index in [20, 30, 60, 70] {
        lease.segment(index).await.unwrap();
        tokio::time::sleep(Duration::from_secs(40)).await;
    }
    let stored = lock(&bucket.objects).len();
    drop(lease);
    let lease = second.lease(240);
    let count = segment_count(&second);
    for index in 0..count {
        lease.segment(index).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(hits(&second) as usize, stored);
    assert_eq!(second.fake.segments_made() + stored, count, "{:?}", second.fake.run_starts());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stops_answering_delays_one_segment_by_its_deadline() {
    let bucket = Arc::new(MemoryBucket::default());
    let bench = server(&bucket);
    let lease = bench.lease(240);
    read_segments(&lease, 0..3).await;
    bucket.is_silent.store(true, Ordering::Relaxed);
    let start = tokio::time::Instant::now();
    read_segments(&lease, 50..60).await;
    let elapsed = start.elapsed();
    assert!(elapsed <= Duration::from_secs(10 + 1), "{elapsed:?}");
}
