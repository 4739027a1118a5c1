//! The status of the pool: workers, their ends by cause, and the sandbox.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::domain::worker::SandboxReport;
use crate::domain::worker::blame::{Evidence, Silence};

const SIGKILL: i32 = 9;

/// Longest text of a death, bytes.
pub const MAX_DEATH_TEXT_BYTES: usize = 300;

/// Why a worker ended before its work was done, or was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// By a fault of its code, or by a limit.
    Crashed,
    /// By a signal that a process sent.
    Killed,
    /// It was stopped by a signal, and did not continue.
    Stopped,
    /// It made no progress, or broke the protocol.
    Stuck,
    /// Its file system did not answer.
    Storage,
    /// It had done its number of probes, or had grown.
    Recycled,
}

impl EndCause {
    pub const ALL: [Self; 6] = [Self::Crashed, Self::Killed, Self::Stopped, Self::Stuck, Self::Storage, Self::Recycled];

    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Crashed => "crashed",
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::Stuck => "stuck",
            Self::Storage => "storage",
            Self::Recycled => "recycled",
        }
    }

    /// The cause of a death.
    pub fn of_death(evidence: &Evidence) -> Self {
        match evidence.silence {
            Some(Silence::NoBeat { state: 'T' | 't' }) => return Self::Stopped,
            Some(Silence::NoBeat { state: 'D' } | Silence::NoProgress { is_reading: true }) => return Self::Storage,
            Some(_) => return Self::Stuck,
            None => {}
        }
        let is_sent = evidence.record.as_ref().is_some_and(|record| record.code <= 0 && record.sender != evidence.pid);
        if is_sent || evidence.record.is_none() && evidence.exit_signal == Some(SIGKILL) && !evidence.was_own_oom {
            Self::Killed
        } else {
            Self::Crashed
        }
    }
}

/// The last death of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastDeath {
    pub at: Timestamp,
    /// For people.
    pub text: String,
}

/// The status of a pool, for administrators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// Workers without a job.
    pub ready: usize,
    /// Workers with a job.
    pub busy: usize,
    /// Workers that ended before their work was done, or were recycled, since the server started.
    pub restarted: u64,
    /// Their number by cause: `crashed`, `killed`, `stopped`, `stuck`, `storage` or `recycled`.
    pub causes: BTreeMap<&'static str, u64>,
    /// Files in quarantine.
    pub quarantined: usize,
    /// The sandbox of the workers, as the last one reported it.
    pub sandbox: SandboxReport,
    pub last_death: Option<LastDeath>,
}

/// Counts workers and their ends.
#[derive(Debug, Default)]
pub struct Statistics {
    busy: AtomicUsize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    causes: BTreeMap<&'static str, u64>,
    sandbox: SandboxReport,
    last_death: Option<LastDeath>,
}

/// Counts a worker as busy for as long as it lives.
#[derive(Debug)]
pub struct BusyGuard(Arc<Statistics>);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Statistics {
    pub fn count_busy(self: &Arc<Self>) -> BusyGuard {
        self.busy.fetch_add(1, Ordering::Relaxed);
        BusyGuard(self.clone())
    }

    /// Records a death; its text is for people.
    pub fn record_death(&self, cause: EndCause, text: &str) {
        let text = text[..text.floor_char_boundary(MAX_DEATH_TEXT_BYTES)].to_owned();
        let mut counts = self.counts();
        *counts.causes.entry(cause.as_str()).or_default() += 1;
        counts.last_death = Some(LastDeath { at: Timestamp::now(), text });
    }

    pub fn record_recycling(&self) {
        *self.counts().causes.entry(EndCause::Recycled.as_str()).or_default() += 1;
    }

    /// Records what confines a worker that has started.
    pub fn record_sandbox(&self, sandbox: SandboxReport) {
        self.counts().sandbox = sandbox;
    }

    /// The status with these numbers of idle workers and of files in quarantine.
    pub fn status(&self, ready: usize, quarantined: usize) -> PoolStatus {
        let counts = self.counts();
        PoolStatus {
            ready,
            busy: self.busy.load(Ordering::Relaxed),
            restarted: counts.causes.values().sum(),
            causes: counts.causes.clone(),
            quarantined,
            sandbox: counts.sandbox.clone(),
            last_death: counts.last_death.clone(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::worker::blame::SignalRecord;

    #[test]
    fn each_death_has_its_cause() {
        let silent = |silence| Evidence { silence: Some(silence), exit_signal: Some(9), ..Evidence::default() };
        let recorded = |code, sender| Evidence {
            pid: 70,
            exit_signal: Some(11),
            record: Some(SignalRecord { signal: 11, code, sender, thread: "queue0:src".into() }),
            ..Evidence::default()
        };
        let exited = |exit_signal, exit_code| Evidence { exit_signal, exit_code, ..Evidence::default() };
        let own_oom = Evidence { was_own_oom: true, ..exited(Some(9), None) };
        for (evidence, cause) in [
            (silent(Silence::NoBeat { state: 'T' }), EndCause::Stopped),
            (silent(Silence::NoBeat { state: 'D' }), EndCause::Storage),
            (silent(Silence::NoBeat { state: 'R' }), EndCause::Stuck),
            (silent(Silence::NoProgress { is_reading: true }), EndCause::Storage),
            (silent(Silence::NoProgress { is_reading: false }), EndCause::Stuck),
            (silent(Silence::Deadline), EndCause::Stuck),
            (recorded(1, 0), EndCause::Crashed),
            (recorded(-6, 70), EndCause::Crashed),
            (recorded(0, 1), EndCause::Killed),
            (exited(Some(9), None), EndCause::Killed),
            (own_oom, EndCause::Crashed),
            (exited(Some(11), None), EndCause::Crashed),
            (exited(None, Some(1)), EndCause::Crashed),
        ] {
            assert_eq!(EndCause::of_death(&evidence), cause, "{evidence:?}");
        }
    }

    #[test]
    fn the_status_counts_workers_and_their_ends() {
        let statistics = Arc::new(Statistics::default());
        let guard = statistics.count_busy();
        statistics.record_death(EndCause::Killed, &"ä".repeat(MAX_DEATH_TEXT_BYTES));
        statistics.record_death(EndCause::Crashed, "SIGSEGV in thread queue0:src");
        statistics.record_recycling();
        let status = statistics.status(2, 3);
        assert_eq!((status.ready, status.busy, status.restarted, status.quarantined), (2, 1, 3, 3));
        assert_eq!(status.causes, BTreeMap::from([("crashed", 1), ("killed", 1), ("recycled", 1)]));
        assert_eq!(status.last_death.unwrap().text, "SIGSEGV in thread queue0:src");
        drop(guard);
        assert_eq!(statistics.status(0, 0).busy, 0);
    }
}
