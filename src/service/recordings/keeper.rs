//! The maintenance task: it starts recordings when they are due, applies series rules, and removes expired recordings.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::{Fate, Running, lock, recorder};
use crate::domain::recording::{self, RecordingEvent, RecordingState};
use crate::service::Service;

/// The longest sleep. The clock may be set meanwhile, and the computer may be suspended.
const LONGEST: Duration = Duration::from_secs(30);

/// How often rules are applied, unless a channel or a guide changes.
const PLANNED: Duration = Duration::from_secs(600);

/// Most recordings at once; later ones wait and are then made from catch-up segments.
const MOST_AT_ONCE: usize = 16;

/// Starts the task unless it runs. Must be called inside the runtime.
pub fn wake(service: &Arc<Service>) {
    let recordings = &service.recordings;
    if recordings.shelf.is_none() || recordings.kept.swap(true, Ordering::SeqCst) {
        return;
    }
    let call = recordings.call.clone();
    let service = Arc::downgrade(service);
    tokio::spawn(async move {
        let mut planned: Option<(Instant, i64)> = None;
        loop {
            let Some(service) = service.upgrade() else { return };
            if service.recordings.stopping.load(Ordering::SeqCst) {
                return;
            }
            let changed = service.channels.changed_ms();
            if planned.is_none_or(|(at, known)| known != changed || at.elapsed() >= PLANNED) {
                apply(&service).await;
                planned = Some((Instant::now(), changed));
            }
            service.recordings.save_late().await;
            let pause = begin(&service).await;
            drop(service);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = call.notified() => {}
            }
        }
    });
}

/// Follows moved programmes, applies every rule and removes expired recordings.
async fn apply(service: &Arc<Service>) {
    service.follow_entries().await;
    for rule in service.recordings.rules() {
        if let Err(fault) = service.plan(&rule.id).await {
            tracing::warn!(rule.id = rule.id, %fault, "a series could not be scheduled");
        }
    }
    let now_ms = service.clock.now().as_millisecond();
    let expired = recording::expired_ids(lock(&service.recordings.all).values(), now_ms);
    for id in expired {
        match service.recordings.remove(&id, Fate::Delete, now_ms).await {
            Ok(_) => tracing::info!(recording.id = id, "expired recording deleted"),
            Err(fault) => tracing::warn!(recording.id = id, %fault, "an expired recording could not be deleted"),
        }
    }
}

/// Starts due and interrupted recordings; returns how long to sleep until the next one.
async fn begin(service: &Arc<Service>) -> Duration {
    let recordings = &service.recordings;
    let now_ms = service.clock.now().as_millisecond();
    lock(&recordings.running).retain(|_, running| !running.task.is_finished());
    let mut open: Vec<_> = recordings.all().into_iter().filter(|one| one.state.is_open()).collect();
    open.sort_by_key(|one| (one.state == RecordingState::Scheduled, one.padded_range_ms().0));
    let mut pause = LONGEST;
    for one in open {
        let early = one.padded_range_ms().0 - now_ms;
        if let Ok(early @ 1..) = u64::try_from(early) {
            pause = pause.min(Duration::from_millis(early));
            continue;
        }
        if recordings.is_running(&one.id) {
            continue;
        }
        if lock(&recordings.running).len() >= MOST_AT_ONCE {
            pause = pause.min(Duration::from_secs(1));
            break;
        }
        if one.state == RecordingState::Scheduled
            && let Err(fault) = recordings.edit(&one.id, |one| one.apply(RecordingEvent::Begin, now_ms)).await
        {
            tracing::warn!(recording.id = one.id, %fault, "a recording could not be started");
            pause = pause.min(Duration::from_secs(5));
            continue;
        }
        let (stop, stopped) = watch::channel(false);
        let mut running = lock(&recordings.running);
        if recordings.stopping.load(Ordering::SeqCst) {
            break;
        }
        // It may have been cancelled meanwhile. A later cancellation finds it among the running ones.
        if !recordings.get(&one.id).is_ok_and(|one| one.state == RecordingState::Recording) {
            continue;
        }
        let (whole, id, call) = (service.clone(), one.id.clone(), recordings.call.clone());
        let task = tokio::spawn(async move {
            recorder::run(whole, id, stopped).await;
            call.notify_one();
        });
        running.insert(one.id, Running { stop, task });
    }
    pause
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::domain::recording::Recording;
    use crate::domain::recording::tests::recording;

    #[tokio::test]
    async fn a_recording_cancelled_while_it_is_started_does_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let service = Service::open(Config::new(folder.path().join("state"), folder.path().join("cache"))).unwrap();
        let recordings = &service.recordings;
        let now_ms = service.clock.now().as_millisecond();
        let due = recording("rec_a", 1, now_ms - 1000, now_ms + 3_600_000);
        recordings.put(due.clone()).await.unwrap();
        let editing = recordings.editing.lock().await;
        // Runs when `begin` has read the recording and waits for the lock.
        let cancel = async {
            recordings.put(Recording { state: RecordingState::Cancelled, ..due }).await.unwrap();
            drop(editing);
        };
        tokio::join!(begin(&service), cancel);
        assert!(!recordings.is_running("rec_a"));
        assert_eq!(recordings.get("rec_a").unwrap().state, RecordingState::Cancelled);
    }
}
