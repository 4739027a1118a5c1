//! The maintenance task: it starts recordings when they are due, applies series rules, and removes expired recordings.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{FileAction, RunningRecording, lock, recorder};
use crate::domain::recording::{self, Recording, RecordingEvent, RecordingState};
use crate::service::Service;

/// The longest sleep. The clock may be set meanwhile, and the computer may be suspended.
const MAX_SLEEP: Duration = Duration::from_secs(30);

/// How often rules are applied, unless a channel or a guide changes.
const PLANNING_INTERVAL: Duration = Duration::from_secs(600);

/// Most recordings at once; later ones wait and are then made from catch-up segments.
const MAX_RUNNING: usize = 16;

/// Starts the task unless it runs. Must be called inside the runtime.
pub fn start_maintenance(service: &Arc<Service>) {
    let recordings = &service.recordings;
    if recordings.folder.is_none() || recordings.is_maintained.swap(true, Ordering::SeqCst) {
        return;
    }
    let (wake_signal, guide_changed) = (recordings.wake_signal.clone(), service.channels.guide_changed.clone());
    let weak_service = Arc::downgrade(service);
    service.tasks.spawn(async move {
        let mut last_planned: Option<(Instant, i64)> = None;
        loop {
            let Some(service) = weak_service.upgrade() else { return };
            let changed_ms = service.channels.changed_ms();
            if last_planned.is_none_or(|(planned_at, planned_changed_ms)| {
                planned_changed_ms != changed_ms || planned_at.elapsed() >= PLANNING_INTERVAL
            }) {
                apply_rules(&service).await;
                last_planned = Some((Instant::now(), changed_ms));
            }
            service.recordings.retry_unsaved().await;
            let pause = start_due(&service).await;
            drop(service);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = wake_signal.notified() => {}
                () = guide_changed.notified() => {}
            }
        }
    });
}

/// Follows moved programmes, applies every rule and removes expired recordings.
async fn apply_rules(service: &Arc<Service>) {
    service.follow_entries().await;
    for rule in service.recordings.rules() {
        if let Err(fault) = service.plan_rule(&rule.id).await {
            tracing::warn!(rule.id = rule.id, %fault, "a series could not be scheduled");
        }
    }
    let recordings = &service.recordings;
    let expired = recording::expired_ids(lock(&recordings.all).values(), recordings.now_ms());
    for id in expired {
        match recordings.remove(&id, FileAction::Delete).await {
            Ok(_) => tracing::info!(recording.id = id, "expired recording deleted"),
            Err(fault) => tracing::warn!(recording.id = id, %fault, "an expired recording could not be deleted"),
        }
    }
}

/// Starts due and interrupted recordings; returns how long to sleep until the next one.
async fn start_due(service: &Arc<Service>) -> Duration {
    let recordings = &service.recordings;
    let now_ms = recordings.now_ms();
    lock(&recordings.running_tasks).retain(|_, running| !running.task.is_finished());
    let mut open: Vec<_> = recordings.all().into_iter().filter(|recording| recording.state.is_open()).collect();
    open.sort_by_key(|recording| (recording.state == RecordingState::Scheduled, recording.padded_range_ms().0));
    let mut pause = MAX_SLEEP;
    for recording in open {
        let due_in_ms = recording.padded_range_ms().0 - now_ms;
        if let Ok(sleep_ms @ 1..) = u64::try_from(due_in_ms) {
            pause = pause.min(Duration::from_millis(sleep_ms));
            continue;
        }
        if recordings.is_running(&recording.id) {
            continue;
        }
        if lock(&recordings.running_tasks).len() >= MAX_RUNNING {
            pause = pause.min(Duration::from_secs(1));
            break;
        }
        let begin = |saved: &mut Recording| {
            saved.apply(RecordingEvent::Begin, now_ms);
        };
        if recording.state == RecordingState::Scheduled
            && let Err(fault) = recordings.edit(&recording.id, begin).await
        {
            tracing::warn!(recording.id = recording.id, %fault, "a recording could not be started");
            pause = pause.min(Duration::from_secs(5));
            continue;
        }
        let mut running = lock(&recordings.running_tasks);
        // It may have been cancelled meanwhile. A later cancellation finds it among the running ones.
        if !recordings.get(&recording.id).is_ok_and(|one| one.state == RecordingState::Recording) {
            continue;
        }
        let stop = service.tasks.stop_token();
        let recorder = recorder::run(service.clone(), recording.id.clone(), stop.clone());
        let wake_signal = recordings.wake_signal.clone();
        let task = service.tasks.spawn_graceful(async move {
            recorder.await;
            wake_signal.notify_one();
        });
        running.insert(recording.id, RunningRecording { stop, task });
    }
    pause
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::domain::recording::tests::recording;

    #[tokio::test]
    async fn a_recording_cancelled_while_it_is_started_does_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let service = Service::open(Config::new(folder.path().join("state"), folder.path().join("cache"))).unwrap();
        let recordings = &service.recordings;
        let now_ms = service.clock.now().as_millisecond();
        let due = recording("rec_a", 1, now_ms - 1000, now_ms + 3_600_000);
        recordings.store_recording(due.clone()).await.unwrap();
        let editing = recordings.edit_lock.lock().await;
        // Runs when `start_due` has read the recording and waits for the lock.
        let cancel = async {
            recordings.store_recording(Recording { state: RecordingState::Cancelled, ..due }).await.unwrap();
            drop(editing);
        };
        tokio::join!(start_due(&service), cancel);
        assert!(!recordings.is_running("rec_a"));
        assert_eq!(recordings.get("rec_a").unwrap().state, RecordingState::Cancelled);
    }
}
