//! Keeps panics away from GStreamer: in a probe or a signal handler a panic ends the process (measured).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// Given to every callback of a pipeline: wakes the run's thread and records a panic. Callbacks do little else, and take no
/// lock that a stopping thread may hold.
#[derive(Clone, Debug)]
pub(super) struct Wake {
    thread: Thread,
    broken: Arc<AtomicBool>,
    #[cfg(test)]
    injected: Injected,
}

/// The fault to inject next: a panic in this callback, or a fault checked with [`Wake::hit`].
#[cfg(test)]
pub(super) type Injected = Arc<std::sync::Mutex<Option<&'static str>>>;

impl Wake {
    /// Wakes the calling thread.
    pub(super) fn here(#[cfg(test)] injected: Injected) -> Self {
        Self {
            thread: std::thread::current(),
            broken: Arc::default(),
            #[cfg(test)]
            injected,
        }
    }

    /// Whether to inject the fault `kind` now; true only once.
    #[cfg(test)]
    pub(super) fn hit(&self, kind: &str) -> bool {
        self.injected.lock().unwrap().take_if(|wanted| *wanted == kind).is_some()
    }

    /// Whether a callback panicked.
    pub(super) fn broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// Runs a callback, then wakes the thread. A panic is caught, recorded in [`Wake::broken`], and gives `otherwise`.
    pub(super) fn callback<T>(&self, kind: &'static str, otherwise: T, work: impl FnOnce() -> T) -> T {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(test)]
            assert!(!self.hit(kind), "injected into {kind}");
            work()
        }));
        if outcome.is_err() {
            tracing::error!(callback = kind, "a callback of a pipeline panicked");
            self.broken.store(true, Ordering::SeqCst);
        }
        self.thread.unpark();
        outcome.unwrap_or(otherwise)
    }
}
