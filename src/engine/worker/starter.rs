//! Starts workers: the registry first, and never in a busy loop.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::process::{WorkerProcess, WorkerSettings, make_registry};
use super::statistics::Statistics;
use crate::engine::process::sandbox::WorkerKind;

/// Starts in a row that may fail before the pause.
const MAX_FAILED_STARTS: u32 = 3;

/// Pause after these; each further failure begins another one.
const START_PAUSE: Duration = Duration::from_secs(30);

/// Decides when a start may be tried.
#[derive(Debug, Default)]
struct StartBackoff {
    failures: u32,
    paused_until: Option<Instant>,
}

impl StartBackoff {
    /// The end of the pause; None if a start may be tried.
    fn pause_end(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| now < *until)
    }

    fn record(&mut self, is_started: bool, now: Instant) {
        self.failures = if is_started { 0 } else { self.failures + 1 };
        self.paused_until = (self.failures >= MAX_FAILED_STARTS).then(|| now + START_PAUSE);
    }
}

/// Starts the workers of a pool.
#[derive(Debug)]
pub struct WorkerStarter {
    settings: WorkerSettings,
    next_number: AtomicU32,
    has_registry: OnceCell<()>,
    is_making_first_registry: AtomicBool,
    backoff: Mutex<StartBackoff>,
    pub statistics: Arc<Statistics>,
}

impl WorkerStarter {
    pub fn new(settings: WorkerSettings) -> Self {
        Self {
            settings,
            next_number: AtomicU32::new(1),
            has_registry: OnceCell::new(),
            is_making_first_registry: AtomicBool::new(false),
            backoff: Mutex::default(),
            statistics: Arc::default(),
        }
    }

    /// Starts a worker; the first call makes GStreamer's registry.
    ///
    /// # Errors
    /// Why it did not start, or that starts are paused after three failures.
    pub async fn start(&self, kind: WorkerKind) -> Result<WorkerProcess, String> {
        if self.pause_end().is_some() {
            return Err(format!("media workers do not start; the next try follows within {} s", START_PAUSE.as_secs()));
        }
        let started = self.try_start(kind).await;
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner).record(started.is_ok(), Instant::now());
        match &started {
            Ok(worker) => self.statistics.record_sandbox(worker.sandbox().clone()),
            Err(cause) => tracing::warn!(cause, "a media worker did not start"),
        }
        started
    }

    async fn try_start(&self, kind: WorkerKind) -> Result<WorkerProcess, String> {
        self.has_registry.get_or_try_init(|| self.make_registry()).await?;
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        WorkerProcess::start(&self.settings, number, kind).await
    }

    async fn make_registry(&self) -> Result<(), String> {
        self.is_making_first_registry.store(!self.settings.registry_path().exists(), Ordering::Relaxed);
        let made = make_registry(&self.settings).await;
        self.is_making_first_registry.store(false, Ordering::Relaxed);
        made
    }

    /// Makes GStreamer's registry again. Workers that run have the former one.
    ///
    /// # Errors
    /// Why it was not made.
    pub async fn renew_registry(&self) -> Result<(), String> {
        make_registry(&self.settings).await
    }

    /// Whether GStreamer's registry is being made where there was none: no worker starts for about a second.
    pub fn is_making_first_registry(&self) -> bool {
        self.is_making_first_registry.load(Ordering::Relaxed)
    }

    /// The end of the pause after failed starts; None if a start may be tried.
    pub fn pause_end(&self) -> Option<Instant> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner).pause_end(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Whether a starter with a program that takes long says that it makes the first registry.
    async fn is_making(folder: &std::path::Path) -> bool {
        let program = folder.join("slow");
        std::fs::write(&program, "#!/bin/sh\nexec sleep 60\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let settings = WorkerSettings { program, cache: folder.to_owned() };
        let starter = Arc::new(WorkerStarter::new(settings));
        assert!(!starter.is_making_first_registry(), "it has not begun");
        let mut start = Box::pin(starter.start(WorkerKind::Media));
        let pending = tokio::time::timeout(Duration::from_millis(1), &mut start).await;
        assert!(pending.is_err(), "a start waits for the registry");
        starter.is_making_first_registry()
    }

    #[tokio::test]
    async fn only_the_first_registry_is_one_to_wait_for() {
        let folder = tempfile::tempdir().unwrap();
        assert!(is_making(folder.path()).await);
        std::fs::write(folder.path().join("gstreamer-registry.bin"), "an older one").unwrap();
        assert!(!is_making(folder.path()).await);
    }

    #[test]
    fn three_failures_in_a_row_pause_the_starts() {
        let mut backoff = StartBackoff::default();
        let start = Instant::now();
        backoff.record(false, start);
        backoff.record(false, start);
        assert_eq!(backoff.pause_end(start), None);
        backoff.record(false, start);
        assert_eq!(backoff.pause_end(start), Some(start + START_PAUSE));
        let later = start + START_PAUSE;
        assert_eq!(backoff.pause_end(later), None, "one more try");
        backoff.record(false, later);
        assert_eq!(backoff.pause_end(later), Some(later + START_PAUSE));
        backoff.record(true, later);
        assert_eq!(backoff.pause_end(later), None);
        backoff.record(false, later);
        assert_eq!(backoff.pause_end(later), None, "failures are counted anew");
    }
}
