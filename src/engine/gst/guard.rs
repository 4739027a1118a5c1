//! Nothing that panics may reach GStreamer: in a probe or a signal that ends the process (measured).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// What every callback of a pipeline gets: the thread to wake, and where to tell of its own failure. Callbacks do no
/// more than that and take no lock that a stopping thread may hold.
#[derive(Clone, Debug)]
pub(super) struct Wake {
    thread: Thread,
    broken: Arc<AtomicBool>,
    #[cfg(test)]
    injected: Injected,
}

/// The fault that happens next: a panic in this kind of callback, or one asked for with [`Wake::hit`].
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

    /// Whether the fault wanted is `kind`; it happens once.
    #[cfg(test)]
    pub(super) fn hit(&self, kind: &str) -> bool {
        self.injected.lock().unwrap().take_if(|wanted| *wanted == kind).is_some()
    }

    /// A callback panicked.
    pub(super) fn broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// Runs a callback, then wakes the thread. A panic stays in here and is told by [`Wake::broken`].
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
