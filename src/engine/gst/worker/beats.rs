//! Heartbeats, from a thread of their own: they continue whatever the work does, and contain its progress.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::connection::Connection;
use super::log_layer::LogForwarder;
use crate::domain::worker::frame::FrameKind;
use crate::engine::gst::progress;
use crate::engine::worker::message::{Beat, BeatStage};
use crate::telemetry::traces::now_nanos;

/// Time from one heartbeat to the next while there is a job.
const INTERVAL: Duration = Duration::from_millis(250);

/// Without a job, this many intervals have one heartbeat: less than the second after which the server looks at a silent worker.
const IDLE_INTERVALS: u32 = 3;

/// The current job, as heartbeats report it.
#[derive(Debug, Default)]
pub(super) struct Activity {
    has_job: AtomicBool,
    job: AtomicU32,
    /// The last segment that a run may make.
    gate: AtomicUsize,
    /// The segment that a run delivers next.
    next: AtomicUsize,
    /// Whether the job waits for the server to read, or for the network.
    is_waiting: AtomicBool,
    /// When the run began or continued with the segment that is next, nanoseconds since 1970.
    working_since: AtomicU64,
}

impl Activity {
    /// Begins a job that makes no segments. False if another one is not over.
    pub(super) fn begin(&self, job: u32) -> bool {
        self.begin_run(job, 0, usize::MAX)
    }

    /// Begins a run from segment `first` through `gate`. False if another job is not over.
    pub(super) fn begin_run(&self, job: u32, first: usize, gate: usize) -> bool {
        if self.has_job.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.job.store(job, Ordering::Relaxed);
        self.next.store(first, Ordering::Relaxed);
        self.gate.store(gate, Ordering::Relaxed);
        self.is_waiting.store(false, Ordering::Relaxed);
        self.note_work();
        true
    }

    /// When the work on the segment that is next began, nanoseconds since 1970.
    pub(super) fn working_since(&self) -> u64 {
        self.working_since.load(Ordering::Relaxed)
    }

    fn note_work(&self) {
        self.working_since.store(now_nanos(), Ordering::Relaxed);
    }

    fn is_at_gate(&self) -> bool {
        // Segments are delivered in order, so the run has no open segment once the gate's one was delivered.
        self.next.load(Ordering::Relaxed) > self.gate.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.has_job.store(false, Ordering::Release);
    }

    /// The number of the current job.
    pub(super) fn job(&self) -> Option<u32> {
        self.has_job.load(Ordering::Acquire).then(|| self.job.load(Ordering::Relaxed))
    }

    pub(super) fn set_waiting(&self, is_waiting: bool) {
        self.is_waiting.store(is_waiting, Ordering::Relaxed);
    }

    pub(super) fn raise_gate(&self, through: usize) {
        if self.is_at_gate() {
            self.note_work();
        }
        self.gate.fetch_max(through, Ordering::Relaxed);
    }

    /// A segment was delivered: the run continues with the one after it.
    pub(super) fn set_delivered(&self, index: usize) {
        progress().add(1);
        self.next.store(index + 1, Ordering::Relaxed);
        self.note_work();
    }

    fn stage(&self, is_reading: bool) -> BeatStage {
        if self.job().is_none() || self.is_at_gate() || self.is_waiting.load(Ordering::Relaxed) {
            BeatStage::Idle
        } else if is_reading {
            BeatStage::Reading
        } else {
            BeatStage::Working
        }
    }
}

/// Starts the thread of the heartbeats; the first one follows after an interval.
///
/// # Errors
/// When no thread can be started.
pub(super) fn start(connection: Arc<Connection>, activity: Arc<Activity>, log: Arc<LogForwarder>) -> io::Result<()> {
    let beat = move || {
        for interval in 1u32.. {
            std::thread::sleep(INTERVAL);
            log.report_dropped();
            if activity.job().is_none() && !interval.is_multiple_of(IDLE_INTERVALS) {
                continue;
            }
            let stage = activity.stage(progress().is_reading());
            let beat = Beat { progress: progress().count(), stage };
            connection.send_json(FrameKind::Beat, activity.job().unwrap_or(0), &beat);
        }
    };
    std::thread::Builder::new().name("beats".to_owned()).spawn(beat).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_idle_only_when_it_waits_for_the_server() {
        let activity = Activity::default();
        assert_eq!(activity.stage(true), BeatStage::Idle, "no job");
        assert!(activity.begin_run(3, 5, 6));
        assert!(!activity.begin(4), "one job at a time");
        assert_eq!((activity.stage(false), activity.stage(true)), (BeatStage::Working, BeatStage::Reading));
        activity.set_delivered(5);
        assert_eq!(activity.stage(false), BeatStage::Working);
        activity.set_delivered(6);
        assert_eq!(activity.stage(true), BeatStage::Idle, "at its gate");
        activity.raise_gate(8);
        assert_eq!(activity.stage(false), BeatStage::Working);
        activity.raise_gate(1);
        assert_eq!(activity.stage(false), BeatStage::Working, "a gate never falls");
        activity.set_waiting(true);
        assert_eq!(activity.stage(false), BeatStage::Idle, "the server does not read");
        activity.end();
        assert!(activity.begin(4));
        assert_eq!((activity.job(), activity.stage(false)), (Some(4), BeatStage::Working));
    }
}
