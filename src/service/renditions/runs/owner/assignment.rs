//! Assignment: which run covers a request, and which one moves to a request that none covers.

use std::time::Duration;

use super::{ActiveRun, MAX_RUNS, Owner};

/// A request at most this many segments ahead of a run waits for that run; starting another one costs about as much.
const ENCODE_REACH_SEGMENTS: usize = 3;
const COPY_REACH_SEGMENTS: usize = 12;

/// Segments a run delivers before it leaves a reader who follows it. A start costs as much as one or two segments.
const MIN_RUN_SEGMENTS: usize = 3;

/// A request that no run covers may take over a busy run after waiting this long.
const TAKEOVER_AFTER: Duration = Duration::from_secs(3);

impl Owner {
    /// Requests (indices into `waiting_requests`) that the store does not answer and no run covers.
    pub(super) fn uncovered_requests(&self) -> Vec<usize> {
        let is_uncovered = |position: &usize| {
            let index = self.waiting_requests[*position].request.index;
            !self.lookups.may_find(index) && !self.runs.iter().any(|run| self.covers(run, index))
        };
        (0..self.waiting_requests.len()).filter(is_uncovered).collect()
    }

    pub(super) fn covers(&self, run: &ActiveRun, index: usize) -> bool {
        (run.next_segment..=run.next_segment + self.reach_segments()).contains(&index)
    }

    pub(super) fn reach_segments(&self) -> usize {
        if self.backend.has_instant_start() {
            0
        } else if self.spec.rendition.encodes_video() {
            ENCODE_REACH_SEGMENTS
        } else {
            COPY_REACH_SEGMENTS
        }
    }

    pub(super) fn is_requested(&self, run: &ActiveRun) -> bool {
        self.waiting_requests.iter().any(|waiting| self.covers(run, waiting.request.index))
    }

    /// Gives a run to one of the uncovered requests. False if all of them must wait.
    pub(super) fn assign_run(&mut self, uncovered: &[usize]) -> bool {
        let oldest = *uncovered
            .iter()
            .min_by_key(|&&request_index| self.waiting_requests[request_index].requested_at)
            .expect("never called without any");
        if self.runs.is_empty() {
            return self.start_run(self.waiting_requests[oldest].request.index);
        }
        let index = self.waiting_requests[oldest].request.index;
        if self.runs.len() < MAX_RUNS && self.has_other_readers(oldest) && self.start_run(index) {
            return true;
        }
        // An idle run moves to the nearest request; a run with a reader first delivers `MIN_RUN_SEGMENTS` segments.
        let missing_segments = self.missing_segments();
        let is_idle = |run: &ActiveRun| {
            let is_followed = missing_segments.iter().any(|&index| self.covers(run, index));
            !self.is_requested(run) && (!is_followed || run.delivered >= MIN_RUN_SEGMENTS)
        };
        let idle_runs = (0..self.runs.len()).filter(|&run_index| is_idle(&self.runs[run_index]));
        let nearest = idle_runs
            .flat_map(|run_index| uncovered.iter().map(move |&request_index| (run_index, request_index)))
            .min_by_key(|&(run_index, request_index)| {
                self.waiting_requests[request_index].request.index.abs_diff(self.runs[run_index].next_segment)
            });
        if let Some((run_index, request_index)) = nearest {
            return self.replace_run(run_index, self.waiting_requests[request_index].request.index);
        }
        // All runs have requests: after `TAKEOVER_AFTER`, the oldest request takes a run that has delivered something.
        let replaceable = self.runs.iter().position(|run| run.delivered > 0);
        match replaceable {
            Some(run_index) if self.waiting_requests[oldest].requested_at.elapsed() >= TAKEOVER_AFTER => {
                self.replace_run(run_index, index)
            }
            _ => false,
        }
    }

    /// Whether every run has a reader other than the waiting one, which then is a second viewer and not a seek.
    pub(super) fn has_other_readers(&self, request_index: usize) -> bool {
        let requester = &self.waiting_requests[request_index].request.reader_identity;
        let other_positions = self.reader_positions.values().filter(|position| !position.reader.ptr_eq(requester));
        self.runs.iter().all(|run| {
            other_positions.clone().any(|position| self.read_ahead_window(position.segment).contains(&run.next_segment))
        })
    }

    pub(super) fn replace_run(&mut self, run_index: usize, first_segment: usize) -> bool {
        self.runs.remove(run_index);
        self.start_run(first_segment)
    }
}
