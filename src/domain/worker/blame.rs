//! Who is to blame when a worker dies: a pure function of the evidence.
//!
//! A fault of the code comes with a record that the worker's signal handler wrote, or with an exit of its own. A signal sent by
//! another process carries the sender's process id; SIGKILL leaves nothing. Only what is the job's fault may lead to a quarantine,
//! and only after a replay ended the same way.

use serde::{Deserialize, Serialize};

/// `si_code` of a signal sent by `tgkill`, as abort(3) does.
const SI_TKILL: i32 = -6;

const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;
const SIGABRT: i32 = 6;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
const SIGKILL: i32 = 9;
const SIGSEGV: i32 = 11;
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;
const SIGSYS: i32 = 31;

/// The record of the worker's signal handler from before it died (siginfo_t).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalRecord {
    pub signal: i32,
    /// `si_code`: above 0 the kernel raised it, otherwise a process sent it.
    pub code: i32,
    /// `si_pid` of the sender, for signals that were sent; 0 from outside a pid namespace.
    pub sender: i32,
    /// Name of the thread it hit.
    pub thread: String,
}

/// Why the server killed a worker that had not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// No heartbeat; the state letter of `/proc/<pid>/stat`.
    NoBeat { state: char },
    /// Heartbeats without progress.
    NoProgress { is_reading: bool },
    /// The job's deadline passed.
    Deadline,
}

/// The known facts about the end of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    pub pid: i32,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    pub record: Option<SignalRecord>,
    /// Set when the server killed it.
    pub silence: Option<Silence>,
    /// Whether the kernel counted an out-of-memory kill in the worker's own control group.
    pub was_own_oom: bool,
}

/// Who is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blame {
    /// The job: another backend continues, and a replay decides about a quarantine.
    Job,
    /// An outside cause: the same backend continues, no mark.
    Outside,
    /// A death that nothing explains. Several of one file count as the job's fault.
    Unexplained,
    /// The disk: the same backend continues, no mark.
    Storage,
}

/// Judges the end of a worker.
pub fn judge(evidence: &Evidence) -> Blame {
    match evidence.silence {
        Some(Silence::NoBeat { state: 'D' } | Silence::NoProgress { is_reading: true }) => return Blame::Storage,
        Some(Silence::NoBeat { state: 'T' | 't' }) => return Blame::Outside,
        Some(Silence::NoProgress { is_reading: false } | Silence::Deadline) => return Blame::Job,
        // The thread of the heartbeats is independent of the work, so this is a machine too busy to run it.
        Some(Silence::NoBeat { .. }) => return Blame::Unexplained,
        None => {}
    }
    if evidence.was_own_oom {
        return Blame::Job;
    }
    if let Some(record) = &evidence.record {
        let is_own_abort = record.code == SI_TKILL && record.sender == evidence.pid;
        return if record.code > 0 || is_own_abort { Blame::Job } else { Blame::Outside };
    }
    match (evidence.exit_signal, evidence.exit_code) {
        (Some(SIGKILL), _) => Blame::Outside,
        // Without a record: the stack was exhausted.
        (Some(SIGSEGV | SIGBUS | SIGILL | SIGFPE | SIGTRAP | SIGABRT | SIGSYS | SIGXCPU | SIGXFSZ), _) => Blame::Job,
        (Some(_), _) => Blame::Outside,
        // It ended by itself in the middle of a job.
        (None, Some(_)) => Blame::Job,
        (None, None) => Blame::Unexplained,
    }
}

/// Deaths of workers with different files within this time are the machine's fault, milliseconds.
const MACHINE_WINDOW_MS: i64 = 10_000;
const MACHINE_FILES: usize = 3;

/// Unexplained deaths of one file within this time count as its fault, milliseconds.
const UNEXPLAINED_WINDOW_MS: i64 = 600_000;
const MAX_UNEXPLAINED: usize = 3;

/// Deaths kept at most.
const MAX_DEATHS: usize = 64;

/// The consequence of a death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// Try again at the same backend, without a mark.
    Retry,
    /// Try again at the other backend, and replay the job alone.
    Replay,
    /// No marks and no replays for a while: the machine is failing.
    BackOff,
}

/// The recent deaths of all workers.
#[derive(Clone, Debug, Default)]
pub struct DeathLog {
    /// Time, key and blame of each, the oldest first.
    deaths: Vec<(i64, String, Blame)>,
}

impl DeathLog {
    /// Records a death at `now_ms` while the work `key` was done, and says what follows.
    pub fn record(&mut self, now_ms: i64, key: &str, blame: Blame) -> Consequence {
        self.deaths.retain(|(at_ms, ..)| now_ms - at_ms <= UNEXPLAINED_WINDOW_MS);
        if self.deaths.len() == MAX_DEATHS {
            self.deaths.remove(0);
        }
        self.deaths.push((now_ms, key.to_owned(), blame));
        let recent_keys: std::collections::BTreeSet<&str> = self
            .deaths
            .iter()
            .filter(|(at_ms, _, blame)| now_ms - at_ms <= MACHINE_WINDOW_MS && *blame != Blame::Storage)
            .map(|(_, key, _)| key.as_str())
            .collect();
        if recent_keys.len() >= MACHINE_FILES {
            return Consequence::BackOff;
        }
        let unexplained = self.deaths.iter().filter(|(_, other, blame)| other == key && *blame == Blame::Unexplained);
        match blame {
            Blame::Job => Consequence::Replay,
            Blame::Unexplained if unexplained.count() >= MAX_UNEXPLAINED => Consequence::Replay,
            _ => Consequence::Retry,
        }
    }
}

#[cfg(test)]
mod tests;
