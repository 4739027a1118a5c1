//! Renditions that take turns at the encode slots.

use super::*;
use crate::service::renditions::encode_slots::RenditionNeed;

/// Watches as a player does: a buffer of 6 s, then in real time. Returns how many segments came too late.
async fn count_late_segments(lease: &Lease, segments: usize) -> usize {
    lease.segment(0).await.unwrap();
    let began = tokio::time::Instant::now();
    let mut late_segments = 0;
    for index in 1..segments {
        // Segments of 2 s, except for the first two of 1 s.
        let played_at = began + Duration::from_secs(2) * (index as u32 - 1).max(1);
        tokio::time::sleep_until(played_at - Duration::from_secs(6).min(played_at - began)).await;
        lease.segment(index).await.unwrap();
        late_segments += usize::from(tokio::time::Instant::now() > played_at);
    }
    late_segments
}

#[tokio::test(start_paused = true)]
async fn two_renditions_share_one_slot_and_neither_viewer_waits() {
    let bench = bench_with_jobs(FakeBackend::with_segment_time(Duration::from_millis(500)), 1);
    let (first, two) = (bench.lease(240), bench.lease(242));
    let late_segments = tokio::join!(count_late_segments(&first, 60), count_late_segments(&two, 60));
    assert_eq!(late_segments, (0, 0));
    assert_eq!(bench.fake.run_starts(), [0, 0], "a run that waits for its turn pauses and continues");
    assert_eq!(bench.runs.active_jobs(), 1);
    // Both are far ahead: a third viewer starts as soon as one segment is made.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let three = bench.lease(244);
    let began = tokio::time::Instant::now();
    three.segment(50).await.unwrap();
    assert_eq!(began.elapsed().as_millis() / 100, 5, "{:?}", began.elapsed());
    drop((first, two, three));
    wait_until(|| bench.fake.live_runs() == 0).await;
    assert_eq!(bench.runs.active_jobs(), 0);
}

#[tokio::test(start_paused = true)]
async fn renditions_that_overload_the_slot_still_take_turns_of_several_segments() {
    let bench = bench_with_jobs(FakeBackend::with_segment_time(Duration::from_millis(1500)), 1);
    let first = bench.lease(240);
    let admission = first.admission().unwrap();
    let viewer = AdmissionRequest::Admitted(&admission);
    let two = bench.runs.lease(Arc::new(bench.fake.clone()), bench.rendition_spec(360), viewer).unwrap();
    let began = tokio::time::Instant::now();
    tokio::join!(read_segments(&first, 0..15), read_segments(&two, 0..15));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(bench.fake.run_starts(), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_turn_is_stopped_after_a_while_and_later_continues() {
    let bench = bench_with_jobs(one_second_backend(), 1);
    let lease = bench.lease(240);
    lease.segment(3).await.unwrap();
    wait_until(|| lease.progress().borrow().activity == RunActivity::Idle).await;
    // An encode that cannot take turns has the only slot.
    let slots = bench.runs.encode_slots();
    assert!(slots.reserve_slot().is_none(), "the viewer needs it");
    let viewer = lease.admission().unwrap();
    let (job, admission, _allowed) = slots.start_job(1.0, AdmissionRequest::Admitted(&viewer)).ok().unwrap();
    let segments_before = bench.fake.segments_made();
    let need = RenditionNeed { deadline_ms: Some(i64::MIN / 2), run_count: 1, ..RenditionNeed::default() };
    job.update(need);
    wait_until(|| job.update(RenditionNeed { working_runs: 1, ..need }) == 1).await;
    let answer = tokio::join!(tokio::time::timeout(Duration::from_secs(60), lease.segment(20)), async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!((bench.fake.live_runs(), lease.progress().borrow().activity), (1, RunActivity::Working));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!((bench.fake.live_runs(), bench.fake.segments_made()), (0, segments_before));
        job.remove_viewer(&admission);
        job.end();
    });
    answer.0.unwrap().unwrap();
    assert_eq!(bench.fake.run_starts(), [3, 20]);
}
