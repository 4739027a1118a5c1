//! The watchdog of runs: runs that fail or stall are restarted once; then the owner gives up.

use super::{Active, Owner, STALL};
use crate::engine::RunError;

impl Owner {
    /// The first fault costs a restart where the run was; the second in a row, or a changed source, ends the work.
    pub(super) fn fault(&mut self, at: usize, error: RunError) {
        let active = self.runs.remove(at);
        self.standing.failed(&error);
        if !self.transcoder.failed(&error) {
            self.faults += 1;
        }
        let last = self.faults > 1 || matches!(error, RunError::SourceChanged);
        tracing::warn!(rendition = &*self.name, segment = active.next, %error, given_up = last, "run failed");
        if last && matches!(error, RunError::SourceRead(_)) && active.delivered == 0 && active.next > 0 {
            // What lies before may well play.
            self.faults = 0;
            self.end = active.next;
        } else if last {
            self.fail(error);
        } else if active.works() && self.runs.is_empty() {
            self.start(active.next);
        }
    }

    /// The encode job has ended. Where its readers are gone, so is this owner in a moment.
    pub(super) fn ended(&mut self) {
        if self.turns.as_ref().is_some_and(|(job, _)| job.was_withdrawn()) {
            self.fail(RunError::Internal("its encode slots went to other viewers".into()));
        }
    }

    pub(super) fn fail(&mut self, error: RunError) {
        self.progress.send_modify(|progress| progress.failure = Some(error));
    }

    pub(super) fn stalls(&mut self) {
        let stalled = |run: &Active| run.works() && run.since.elapsed() >= STALL;
        while let Some(at) = self.runs.iter().position(stalled) {
            self.fault(at, RunError::Stalled(STALL.as_secs()));
        }
    }
}
