//! Keeps panics away from GStreamer: in a probe or a signal handler a panic ends the process (measured).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use gstreamer_app as app;

/// Given to every callback of a pipeline: wakes the run's thread and records a panic. Callbacks do little more, and take no
/// lock that a stopping thread may hold.
#[derive(Clone, Debug)]
pub(super) struct ThreadWaker {
    thread: Thread,
    has_panicked: Arc<AtomicBool>,
    #[cfg(test)]
    injected_fault: InjectedFault,
}

/// The fault to inject next: a panic in this callback, or a fault checked with [`ThreadWaker::take_injected`].
#[cfg(test)]
pub(super) type InjectedFault = Arc<std::sync::Mutex<Option<&'static str>>>;

impl ThreadWaker {
    /// Wakes the calling thread.
    pub(super) fn for_current_thread(#[cfg(test)] injected_fault: InjectedFault) -> Self {
        Self {
            thread: std::thread::current(),
            has_panicked: Arc::default(),
            #[cfg(test)]
            injected_fault,
        }
    }

    /// Whether to inject the fault `kind` now; true only once.
    #[cfg(test)]
    pub(super) fn take_injected(&self, kind: &str) -> bool {
        self.injected_fault.lock().unwrap().take_if(|fault| *fault == kind).is_some()
    }

    /// Whether a callback panicked.
    pub(super) fn has_panicked(&self) -> bool {
        self.has_panicked.load(Ordering::SeqCst)
    }

    /// Wakes the thread when an encoder's input needs data.
    pub(super) fn wake_on_demand(&self, input: &app::AppSrc) {
        let waker = self.clone();
        let callbacks = app::AppSrcCallbacks::builder();
        input.set_callbacks(callbacks.need_data(move |_, _| waker.run_callback("need-data", (), || ())).build());
    }

    /// Runs a callback, then wakes the thread. A panic is caught, recorded in [`Self::has_panicked`], and gives `fallback`.
    pub(super) fn run_callback<T>(&self, kind: &'static str, fallback: T, work: impl FnOnce() -> T) -> T {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(test)]
            assert!(!self.take_injected(kind), "injected into {kind}");
            work()
        }));
        if outcome.is_err() {
            tracing::error!(callback = kind, "a callback of a pipeline panicked");
            self.has_panicked.store(true, Ordering::SeqCst);
        }
        self.thread.unpark();
        outcome.unwrap_or(fallback)
    }
}
