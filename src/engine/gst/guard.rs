//! Nothing that panics may reach GStreamer: in a probe or a signal that ends the process (measured).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;

/// What every callback of a pipeline gets: the thread to wake, and where to tell of its own failure. Callbacks do no
/// more than that and take no lock that a stopping thread may hold.
#[derive(Clone, Debug)]
pub(super) struct Wake {
    /// Held for as long as it takes to read or write it.
    thread: Arc<Mutex<Thread>>,
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
            thread: Arc::new(Mutex::new(std::thread::current())),
            broken: Arc::default(),
            #[cfg(test)]
            injected,
        }
    }

    /// The same for another pipeline, that may pass to another thread alone.
    pub(super) fn apart(&self) -> Self {
        let mut other = self.clone();
        other.thread = Arc::new(Mutex::new(self.thread.lock().unwrap_or_else(PoisonError::into_inner).clone()));
        other.broken = Arc::default();
        other
    }

    /// From now on the calling thread is woken.
    pub(super) fn pass_here(&self) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = std::thread::current();
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
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).unpark();
        outcome.unwrap_or(otherwise)
    }
}
