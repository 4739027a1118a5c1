//! The watchdog of runs: it restarts a run that failed or stalled once; then the owner gives up.

use super::{ActiveRun, Owner, STALL_TIMEOUT};
use crate::engine::RunError;

/// Workers that a rendition may lose one after another, without a segment between, before a further loss is a fault.
const MAX_EXTERNAL_LOSSES: u32 = 5;

impl Owner {
    /// Restarts the run where it was after a first fault; gives up after a second one in a row or a changed source. A worker
    /// lost for an external reason is no fault, and no reason for another backend, up to [`MAX_EXTERNAL_LOSSES`].
    pub(super) fn handle_fault(&mut self, run_index: usize, error: RunError) {
        let active = self.runs.remove(run_index);
        self.health.record_failure(self.backend.active_backend_name(), &error);
        if error.is_external_loss() && self.external_losses < MAX_EXTERNAL_LOSSES {
            self.external_losses += 1;
        } else if !self.backend.handle_failure(&error) {
            self.consecutive_faults += 1;
        }
        let gives_up = self.consecutive_faults > 1 || matches!(error, RunError::SourceChanged);
        tracing::warn!(rendition = &*self.rendition_key, segment = active.next_segment, %error, given_up = gives_up, "run failed");
        if gives_up && matches!(error, RunError::SourceRead(_)) && active.delivered == 0 && active.next_segment > 0 {
            // The part before this segment may still play.
            self.consecutive_faults = 0;
            self.end_segment = active.next_segment;
        } else if gives_up {
            self.give_up(error);
        } else if active.is_working() && self.runs.is_empty() {
            self.start_run(active.next_segment);
        }
    }

    /// Handles the end of the encode job. If its readers are gone, this owner ends in a moment too.
    pub(super) fn handle_job_end(&mut self) {
        if self.job_and_turns.as_ref().is_some_and(|(job, _)| job.was_withdrawn()) {
            self.give_up(RunError::Internal("its encode slots went to other viewers".into()));
        }
    }

    pub(super) fn give_up(&mut self, error: RunError) {
        self.progress.send_modify(|progress| progress.failure = Some(error));
    }

    pub(super) fn fail_stalled_runs(&mut self) {
        let is_stalled = |run: &ActiveRun| run.is_working() && run.progressed_at.elapsed() >= STALL_TIMEOUT;
        while let Some(run_index) = self.runs.iter().position(is_stalled) {
            self.handle_fault(run_index, RunError::Stalled(STALL_TIMEOUT.as_secs()));
        }
    }
}
