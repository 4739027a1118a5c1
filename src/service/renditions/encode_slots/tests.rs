use std::time::Duration;

use super::*;
use crate::error::Error;

/// Pixels per second that no slot can keep up with.
const HEAVY: f64 = 1e9;

#[test]
fn a_channel_keeps_its_share_from_one_programme_to_the_next_and_a_session_does_not() {
    let slots = EncodeSlots::new(1);
    let (job, channel, _) = slots.start_job(HEAVY, AdmissionRequest::Channel).ok().unwrap();
    job.remove_viewer(&channel);
    job.end();
    assert!(slots.start_job(1.0, AdmissionRequest::Session).is_err() && slots.reserve_slot().is_none());
    assert_eq!((slots.viewer_count(), slots.used_slots()), (1, 0));
    let (job, same, _) = slots.start_job(HEAVY, AdmissionRequest::Admitted(&channel)).ok().unwrap();
    job.remove_viewer(&same);
    job.end();
    drop((channel, same));
    let (job, _session, _) = slots.start_job(HEAVY, AdmissionRequest::Session).ok().unwrap();
    assert!(slots.start_job(1.0, AdmissionRequest::Session).is_err());
    job.update(RenditionNeed { is_complete: true, ..RenditionNeed::default() });
    assert!(slots.start_job(1.0, AdmissionRequest::Session).is_ok(), "all segments are made");
}

#[test]
fn viewers_of_one_job_share_its_cost_and_the_last_one_keeps_it() {
    let slots = EncodeSlots::new(2);
    let (job, first, _) = slots.start_job(HEAVY, AdmissionRequest::Session).ok().unwrap();
    let second = job.add_viewer(AdmissionRequest::Session).unwrap();
    let (_other, _third, _) = slots.start_job(HEAVY, AdmissionRequest::Session).ok().unwrap();
    assert_eq!(slots.viewer_count(), 2);
    job.remove_viewer(&first);
    drop(first);
    assert!(slots.start_job(1.0, AdmissionRequest::Session).is_err());
    job.withdraw(&second);
    assert!(job.add_viewer(AdmissionRequest::Session).is_none(), "a job without viewers has ended");
    assert!(slots.start_job(1.0, AdmissionRequest::Session).is_ok());
}

#[test]
fn a_slot_is_handed_over_at_the_end_of_a_segment() {
    let slots = EncodeSlots::new(1);
    let (one, _a, mut one_allowed) = slots.start_job(1.0, AdmissionRequest::Session).ok().unwrap();
    let (two, _b, two_allowed) = slots.start_job(1.0, AdmissionRequest::Session).ok().unwrap();
    let need = |deadline_ms, working| RenditionNeed {
        deadline_ms: Some(deadline_ms),
        run_count: 1,
        working_runs: working,
        ..RenditionNeed::default()
    };
    let allowed = (one.update(need(20_000, 0)), two.update(need(1_000, 0)));
    assert_eq!(allowed, (1, 0), "the first job must make its first segment");
    one.record_segment(2.0, None);
    assert_eq!(one.update(need(22_000, 1)), 0, "the other job is urgent");
    assert_eq!((*one_allowed.borrow_and_update(), *two_allowed.borrow()), (0, 0));
    assert_eq!(one.update(need(22_000, 0)), 0);
    assert_eq!((*two_allowed.borrow(), slots.used_slots()), (1, 1));
    two.end();
    assert_eq!((*one_allowed.borrow(), slots.used_slots()), (1, 1));
    let reserved = EncodeSlots::new(2);
    let reserved_slot = reserved.reserve_slot().unwrap();
    assert_eq!((reserved.used_slots(), reserved.viewer_count()), (1, 1));
    drop(reserved_slot);
    assert_eq!(reserved.used_slots(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_viewer_is_woken_when_a_share_becomes_free() {
    let slots = EncodeSlots::new(1);
    let (job, first, _) = slots.start_job(HEAVY, AdmissionRequest::Session).ok().unwrap();
    let attempts = std::sync::atomic::AtomicUsize::new(0);
    let attempt = async || {
        attempts.fetch_add(1, Ordering::Relaxed);
        let started = slots.start_job(HEAVY, AdmissionRequest::Session);
        started.map_err(|SlotsExhausted| Error::new(Code::TranscoderBusy, "all encode slots are in use"))
    };
    let started = Instant::now();
    let deadline = started + Duration::from_secs(2);
    let release = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        job.withdraw(&first);
    };
    let (second, ()) = tokio::join!(slots.retry_when_busy(deadline, &attempt, || AfterRefusal::Wait), release);
    assert!(second.is_ok() && started.elapsed() == Duration::from_millis(700));
    assert_eq!(attempts.load(Ordering::Relaxed), 2, "it does not poll");
    let third = slots.retry_when_busy(Instant::now(), &attempt, || AfterRefusal::Wait).await;
    assert!(third.is_err_and(|refusal| refusal.code == Code::TranscoderBusy));
}
