//! The rules of runs, with a scripted backend and paused time.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::domain::worker::blame::Blame;
use crate::engine::content::SegmentContent;
use crate::engine::fake_backend::FakeBackend;
use crate::engine::fallback::FallbackBackend;
use crate::engine::segment_cache::CacheLimits;
use crate::service::renditions::sample_spec::sample_spec;

mod shared_store;
mod slot_turns;

struct Bench {
    folder: tempfile::TempDir,
    fake: FakeBackend,
    runs: Runs,
}

fn bench_with_jobs(fake: FakeBackend, max_jobs: usize) -> Bench {
    let limits = CacheLimits { memory_bytes: 64 << 20, rendition_memory_bytes: 64 << 20, disk_bytes: 0 };
    bench_with_cache(limits, fake, max_jobs)
}

fn bench_with_cache(limits: CacheLimits, fake: FakeBackend, max_jobs: usize) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.mp4"), "film").unwrap();
    let segments = SegmentCache::open(&folder.path().join("segments"), limits).unwrap();
    Bench { runs: Runs::new(segments, max_jobs, BackgroundTasks::default()), fake, folder }
}

impl Bench {
    /// 100 segments of 2 s, encoded at `height`.
    fn rendition_spec(&self, height: u32) -> Arc<RenditionSpec> {
        Arc::new(sample_spec(self.folder.path(), height))
    }

    fn try_lease(&self, height: u32) -> Result<Lease> {
        self.runs.lease(Arc::new(self.fake.clone()), self.rendition_spec(height), AdmissionRequest::Session)
    }

    fn lease(&self, height: u32) -> Lease {
        self.try_lease(height).unwrap()
    }
}

async fn wait_until(mut is_met: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if is_met() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("condition not met within 100 s of paused time");
}

async fn read_segments(lease: &Lease, segments: Range<usize>) {
    for index in segments {
        lease.segment(index).await.unwrap();
    }
}

fn one_second_backend() -> FakeBackend {
    FakeBackend::with_segment_time(Duration::from_secs(1))
}

fn bytes_of(stored: StoredSegment) -> Bytes {
    match stored.content {
        SegmentContent::InMemory(bytes) => bytes,
        SegmentContent::Lazy(_) => panic!("the fake backend produces bytes"),
    }
}

#[tokio::test(start_paused = true)]
async fn five_readers_of_one_rendition_cost_one_encode() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let leases: Vec<Lease> = (0..5).map(|_| bench.lease(240)).collect();
    for index in 0..20 {
        for lease in &leases {
            let stored = lease.segment(index).await.unwrap();
            assert_eq!(bytes_of(stored), FakeBackend::segment_bytes(&bench.rendition_spec(240).rendition, index));
        }
    }
    assert_eq!(bench.fake.run_starts(), [0]);
    assert_eq!(bench.runs.active_jobs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_pauses_ahead_of_its_reader_and_continues_when_followed() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let lease = bench.lease(240);
    lease.segment(0).await.unwrap();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(bench.fake.segments_made(), 13, "the requested segment, and 20 s beyond its start");
    assert_eq!(lease.progress().borrow().activity, RunActivity::Idle);
    lease.segment(5).await.unwrap();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!((bench.fake.segments_made(), bench.fake.run_starts()), (16, vec![0]));
}

#[tokio::test(start_paused = true)]
async fn an_instant_backend_produces_segments_only_on_request() {
    // Memory for one segment: read-ahead for one reader would evict the segment of the other.
    let spec = bench_with_jobs(one_second_backend(), 1).rendition_spec(240);
    let segment_bytes = FakeBackend::segment_bytes(&spec.rendition, 0).len() as u64;
    let bench = bench_with_cache(
        CacheLimits { memory_bytes: segment_bytes, rendition_memory_bytes: segment_bytes, disk_bytes: 1 << 20 },
        FakeBackend::with_instant_start(Duration::from_secs(1)),
        2,
    );
    let (near, far) = (bench.lease(240), bench.lease(240));
    let first_segment = near.segment(0).await.unwrap();
    far.segment(60).await.unwrap();
    for index in 1..5 {
        near.segment(index).await.unwrap();
        far.segment(60 + index).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(bench.fake.segments_made(), 10);
    assert_eq!(std::fs::read_dir(bench.folder.path().join("segments")).unwrap().count(), 0, "none went to disk");
    let second_response = near.segment(0).await.unwrap();
    assert_eq!((&second_response.etag, bench.fake.segments_made()), (&first_segment.etag, 11));
    assert_eq!(bytes_of(second_response), bytes_of(first_segment));
}

#[tokio::test(start_paused = true)]
async fn two_readers_at_different_positions_both_progress_on_one_slot() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let (near, far) = (bench.lease(240), bench.lease(240));
    let began = tokio::time::Instant::now();
    let read_segments = async |lease: &Lease, from: usize| {
        for index in from..from + 15 {
            tokio::time::timeout(Duration::from_secs(20), lease.segment(index)).await.unwrap().unwrap();
        }
    };
    tokio::join!(read_segments(&near, 0), read_segments(&far, 60));
    assert!(began.elapsed() < Duration::from_secs(90), "{:?}", began.elapsed());
    assert!(bench.fake.run_starts().len() < 20, "{:?}", bench.fake.run_starts());
}

#[tokio::test(start_paused = true)]
async fn a_second_viewer_at_another_position_gets_a_second_run_when_a_slot_is_free() {
    let bench = bench_with_jobs(one_second_backend(), 2);
    let (near, far) = (bench.lease(240), bench.lease(240));
    tokio::join!(read_segments(&near, 0..15), read_segments(&far, 60..75));
    assert_eq!(bench.fake.run_starts().len(), 2);
    assert_eq!(bench.runs.active_jobs(), 2);
    drop(far);
    near.segment(16).await.unwrap();
    wait_until(|| bench.runs.active_jobs() == 1 && bench.fake.live_runs() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_seek_moves_the_run_and_stored_segments_are_not_produced_again() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let lease = bench.lease(240);
    lease.segment(50).await.unwrap();
    wait_until(|| bench.fake.segments_made() == 11).await;
    lease.segment(45).await.unwrap();
    lease.segment(55).await.unwrap();
    wait_until(|| lease.progress().borrow().activity == RunActivity::Idle).await;
    read_segments(&lease, 45..66).await;
    let kept = bench.runs.segments.rendition_usage(&lease.owner.rendition_key).segments;
    assert_eq!(bench.fake.segments_made(), kept, "nothing was made twice");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_does_not_hold_a_run() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let lease = bench.lease(240);
    for index in [90, 70, 30, 10] {
        let cancelled = tokio::time::timeout(Duration::from_millis(200), lease.segment(index)).await;
        assert!(cancelled.is_err());
    }
    let began = tokio::time::Instant::now();
    lease.segment(50).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_dies_is_restarted_where_it_was() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    bench.fake.fail_at(7, RunError::Encoder("killed".into()));
    let lease = bench.lease(240);
    read_segments(&lease, 0..12).await;
    assert_eq!(bench.fake.run_starts(), [0, 7]);
    let (_, fault) = bench.runs.health().last_fault().expect("the fault is kept although no reader noticed it");
    assert!(matches!(fault, RunError::Encoder(_)), "{fault}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_dies_twice_at_one_segment_is_given_up_and_a_new_lease_starts_over() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    bench.fake.fail_at(3, RunError::Decode("garbage".into()));
    bench.fake.fail_at(3, RunError::Decode("garbage".into()));
    let lease = bench.lease(240);
    lease.segment(0).await.unwrap();
    assert!(matches!(lease.segment(3).await, Err(RunError::Decode(_))));
    assert!(matches!(lease.segment(4).await, Err(RunError::Decode(_))));
    assert!(matches!(lease.progress().borrow().failure, Some(RunError::Decode(_))));
    drop(lease);
    let new_lease = bench.lease(240);
    new_lease.segment(3).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stalled_run_is_given_up() {
    let bench = bench_with_jobs(FakeBackend::with_segment_time(Duration::from_secs(1000)), 1);
    let lease = bench.lease(240);
    let began = tokio::time::Instant::now();
    let health = bench.runs.health();
    assert_eq!((health.waiting_requests(), health.last_fault().is_some()), (0, false));
    let given_up = async {
        tokio::join!(lease.segment(0), lease.segment(1), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(health.waiting_requests(), 2);
        })
    };
    let (first, second, ()) = given_up.await;
    assert!(matches!((first, second), (Err(RunError::Stalled(30)), Err(RunError::Stalled(30)))));
    assert_eq!(health.waiting_requests(), 0);
    assert!(matches!(health.last_fault(), Some((_, RunError::Stalled(30)))));
    assert_eq!(began.elapsed().as_secs(), 60, "one restart, then it gives up");
}

#[tokio::test(start_paused = true)]
async fn a_changed_source_ends_the_rendition() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let lease = bench.lease(240);
    std::fs::write(bench.folder.path().join("film.mp4"), "another film").unwrap();
    assert!(matches!(lease.segment(0).await, Err(RunError::SourceChanged)));
}

#[tokio::test(start_paused = true)]
async fn a_network_is_not_queried_when_a_run_starts() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let mut spec = bench.rendition_spec(240);
    Arc::get_mut(&mut Arc::get_mut(&mut spec).unwrap().source).unwrap().is_local = false;
    let lease = bench.runs.lease(Arc::new(bench.fake.clone()), spec, AdmissionRequest::Session).unwrap();
    std::fs::write(bench.folder.path().join("film.mp4"), "it").unwrap();
    // A real backend would detect the change, on a thread that may wait.
    assert!(lease.segment(0).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_viewer_beyond_capacity_is_refused_at_once_until_another_leaves() {
    // Barely faster than real time: no time is left for a second viewer.
    let bench = bench_with_jobs(FakeBackend::with_segment_time(Duration::from_millis(1900)), 1);
    let first = bench.lease(240);
    read_segments(&first, 0..8).await;
    let refused = bench.try_lease(360).err().unwrap();
    assert_eq!((refused.code, refused.retry_after), (Code::TranscoderBusy, Some(5)));
    assert_eq!(refused.details, Some(serde_json::json!({"active": 1, "max": 1})));
    let joined = bench.lease(240);
    drop(first);
    assert!(bench.try_lease(360).is_err(), "the first one's rendition is still watched");
    // In the middle of a segment that a request waits for: its slot is still free at once.
    let (answer, ()) = tokio::join!(joined.segment(60), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(joined.withdraw() && joined.was_withdrawn());
    });
    assert!(answer.is_err());
    let began = tokio::time::Instant::now();
    bench.lease(360).segment(0).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_complete_rendition_frees_its_encode_slot() {
    let bench = bench_with_jobs(FakeBackend::with_segment_time(Duration::from_millis(1)), 1);
    let lease = bench.lease(240);
    read_segments(&lease, 0..100).await;
    wait_until(|| bench.runs.active_jobs() == 0 && bench.fake.live_runs() == 0).await;
    assert_eq!(lease.progress().borrow().activity, RunActivity::Complete);
    assert_eq!(lease.progress().borrow().produced_seconds, 200.0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_when_the_last_lease_is_gone() {
    let bench = bench_with_jobs(one_second_backend(), 4);
    for round in 0..100 {
        let lease = bench.lease(240 + 2 * (round % 3));
        if round % 2 == 0 {
            lease.segment(round as usize % 50).await.unwrap();
        }
    }
    wait_until(|| bench.fake.live_runs() == 0).await;
    assert_eq!(bench.runs.active_jobs(), 0);
    bench.runs.tasks.shutdown().await;
    bench.runs.segments.clear();
    assert!(!bench.folder.path().join("segments").exists());
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_runs_with_waiting_requests() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let lease = bench.lease(240);
    let (answer, ()) = tokio::join!(lease.segment(50), async {
        wait_until(|| bench.fake.live_runs() == 1).await;
        bench.runs.tasks.shutdown().await;
    });
    assert!(answer.is_err());
    wait_until(|| bench.fake.live_runs() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_backend_takes_over_for_good_and_is_allowed_a_failure_of_its_own() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let (first, last) = (one_second_backend(), one_second_backend());
    first.fail_at(3, RunError::Encoder("gone".into()));
    last.fail_at(6, RunError::Decode("once".into()));
    let fallback = FallbackBackend::new(Arc::new(first.clone()), Arc::new(last.clone()));
    let lease = bench.runs.lease(Arc::new(fallback), bench.rendition_spec(240), AdmissionRequest::Session).unwrap();
    read_segments(&lease, 0..10).await;
    assert_eq!(first.run_starts(), [0]);
    assert_eq!(last.run_starts(), [3, 6]);
    let progress = lease.progress().borrow().clone();
    assert!(matches!(progress.fallback_cause, Some(RunError::Encoder(_))), "{progress:?}");
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_is_no_reason_for_another_backend() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let (first, last) = (one_second_backend(), one_second_backend());
    first.fail_at(1, RunError::SourceChanged);
    let fallback = FallbackBackend::new(Arc::new(first), Arc::new(last.clone()));
    let lease = bench.runs.lease(Arc::new(fallback), bench.rendition_spec(240), AdmissionRequest::Session).unwrap();
    lease.segment(0).await.unwrap();
    assert!(matches!(lease.segment(1).await, Err(RunError::SourceChanged)));
    assert_eq!(last.run_starts(), [] as [usize; 0]);
}

fn lost_worker(blame: Blame) -> RunError {
    RunError::WorkerLost { blame, text: "it ended".into() }
}

#[tokio::test(start_paused = true)]
async fn a_worker_lost_for_an_external_reason_is_no_fault_and_keeps_its_backend() {
    for blame in [Blame::Outside, Blame::Unexplained, Blame::Storage] {
        let bench = bench_with_jobs(one_second_backend(), 1);
        let (first, last) = (one_second_backend(), one_second_backend());
        // Five in a row, twice: a segment in between starts the count anew.
        for index in [3, 3, 3, 3, 3, 5, 5, 5, 5, 5] {
            first.fail_at(index, lost_worker(blame));
        }
        let fallback = FallbackBackend::new(Arc::new(first.clone()), Arc::new(last.clone()));
        let lease = bench.runs.lease(Arc::new(fallback), bench.rendition_spec(240), AdmissionRequest::Session).unwrap();
        read_segments(&lease, 0..10).await;
        assert_eq!(first.run_starts(), [0, 3, 3, 3, 3, 3, 5, 5, 5, 5, 5], "{blame:?}");
        assert_eq!(last.run_starts(), [] as [usize; 0], "{blame:?}");
        assert_eq!(lease.progress().borrow().fallback_cause, None, "{blame:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_sixth_worker_lost_in_a_row_counts() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let (first, last) = (one_second_backend(), one_second_backend());
    for _ in 0..6 {
        first.fail_at(3, lost_worker(Blame::Outside));
    }
    let fallback = FallbackBackend::new(Arc::new(first.clone()), Arc::new(last.clone()));
    let lease = bench.runs.lease(Arc::new(fallback), bench.rendition_spec(240), AdmissionRequest::Session).unwrap();
    read_segments(&lease, 0..5).await;
    assert_eq!((first.run_starts().len(), last.run_starts()), (6, vec![3]));
    // Without another backend the rendition ends instead of starting workers for ever.
    let alone = bench_with_jobs(one_second_backend(), 1);
    for _ in 0..20 {
        alone.fake.fail_at(0, lost_worker(Blame::Outside));
    }
    let lease = alone.lease(240);
    assert!(matches!(lease.segment(0).await, Err(RunError::WorkerLost { blame: Blame::Outside, .. })));
    assert_eq!(alone.fake.run_starts().len(), 7, "five are excused, and two faults in a row end it");
}

#[tokio::test(start_paused = true)]
async fn a_worker_lost_by_its_job_switches_the_backend_at_once() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let (first, last) = (one_second_backend(), one_second_backend());
    first.fail_at(3, lost_worker(Blame::Job));
    let fallback = FallbackBackend::new(Arc::new(first.clone()), Arc::new(last.clone()));
    let lease = bench.runs.lease(Arc::new(fallback), bench.rendition_spec(240), AdmissionRequest::Session).unwrap();
    read_segments(&lease, 0..5).await;
    assert_eq!((first.run_starts(), last.run_starts()), (vec![0], vec![3]));
    assert_eq!(lease.progress().borrow().fallback_cause, Some(lost_worker(Blame::Job)));
}

#[tokio::test]
async fn segments_are_kept_under_the_version_of_the_file_they_were_made_from() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let key_of = |spec: &RenditionSpec| super::rendition_key(&bench.fake, spec);
    let before = bench.rendition_spec(240);
    assert_eq!(key_of(&before), key_of(&bench.rendition_spec(240)), "two openings of one file share their segments");
    let path = bench.folder.path().join("film.mp4");
    // Rewritten in place with the same length, and its modification time restored.
    let modified_at = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, bytes).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified_at).unwrap();
    let after = bench.rendition_spec(240);
    assert_eq!((before.source.modified, &before.fingerprint), (after.source.modified, &after.fingerprint));
    assert_ne!(key_of(&before), key_of(&after));
}
