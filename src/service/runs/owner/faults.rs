//! The watchdog of runs: it restarts a run that failed or stalled once; then the owner gives up.

use super::{Active, Owner, STALL};
use crate::engine::RunError;

impl Owner {
    /// Restarts the run where it was after a first fault; gives up after a second one in a row or a changed source.
    pub(super) fn fault(&mut self, at: usize, error: RunError) {
        let active = self.runs.remove(at);
        self.standing.failed(&error);
        if !self.transcoder.handle_failure(&error) {
            self.faults += 1;
        }
        let last = self.faults > 1 || matches!(error, RunError::SourceChanged);
        tracing::warn!(rendition = &*self.name, segment = active.next, %error, given_up = last, "run failed");
        if last && matches!(error, RunError::SourceRead(_)) && active.delivered == 0 && active.next > 0 {
            // The part before this segment may still play.
            self.faults = 0;
            self.end = active.next;
        } else if last {
            self.fail(error);
        } else if active.works() && self.runs.is_empty() {
            self.start(active.next);
        }
    }

    /// Handles the end of the encode job. If its readers are gone, this owner ends in a moment too.
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
