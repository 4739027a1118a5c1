//! Turns at the encode slots: what this rendition needs, and how it waits without a slot.

use tokio::time::Instant;

use super::{ActiveRun, MAX_PARKED, MAX_RUNS, MAX_WAIT_MS, Owner, ReaderPosition};
use crate::service::renditions::encode_slots::RenditionNeed;

impl Owner {
    /// Milliseconds on the clock that all encodes share.
    pub(super) fn now_ms(&self) -> i64 {
        self.job_and_turns.as_ref().map_or(0, |(job, _)| job.slots().now_ms())
    }

    /// Start of a segment, milliseconds from the start of the item.
    pub(super) fn start_ms(&self, index: usize) -> i64 {
        self.spec.grid.segment_start(index).as_ms_floor()
    }

    /// Reports what is needed and learns how many runs may work. Surplus runs that are paused are stopped.
    pub(super) fn update_turn(&mut self) {
        let Some((job, _)) = &self.job_and_turns else { return };
        let need = self.slot_need();
        self.allowed_runs = job.update(need);
        while self.runs.len() > self.allowed_runs.max(1) {
            let paused_runs = (0..self.runs.len()).filter(|&run_index| !self.runs[run_index].is_working());
            let Some(run_index) = paused_runs.min_by_key(|&run_index| self.is_requested(&self.runs[run_index])) else {
                break;
            };
            self.runs.remove(run_index);
        }
        let is_waiting = self.allowed_runs == 0 && need.deadline_ms.is_some() && need.working_runs == 0;
        self.parked_since = is_waiting.then(|| self.parked_since.unwrap_or_else(Instant::now));
        if self.parked_since.is_some_and(|parked| parked.elapsed() >= MAX_PARKED) && !self.runs.is_empty() {
            tracing::debug!(rendition = &*self.rendition_key, "stopped a run that waited too long for an encode slot");
            self.runs.clear();
        }
    }

    fn slot_need(&self) -> RenditionNeed {
        let second_deadline_ms = match self.runs.len() {
            0 => None,
            1 => self
                .uncovered_requests()
                .into_iter()
                .filter(|&request_index| self.has_other_readers(request_index))
                .map(|request_index| self.request_deadline_ms(request_index))
                .min(),
            _ => self.deadline_ms(),
        };
        let busy = self.runs.iter().filter(|run| run.is_working()).count().min(MAX_RUNS);
        let is_complete = busy == 0 && self.segments.rendition_usage(&self.rendition_key).segments >= self.end_segment;
        RenditionNeed {
            deadline_ms: self.deadline_ms(),
            second_deadline_ms,
            run_count: self.runs.len(),
            working_runs: busy,
            is_complete,
        }
    }

    /// When the first reader runs dry; None if nothing is missing.
    fn deadline_ms(&self) -> Option<i64> {
        let read_ahead_deadline = |reader_position: &ReaderPosition| {
            let index = self.first_missing(reader_position.segment)?;
            Some(reader_position.playback_clock.deadline_ms(self.start_ms(index)))
        };
        let needs_run = |position: &usize| !self.lookups.may_find(self.waiting_requests[*position].request.index);
        let request_deadlines =
            (0..self.waiting_requests.len()).filter(needs_run).map(|position| self.request_deadline_ms(position));
        let positions = self.reader_positions.values().filter(|_| !self.backend.has_instant_start());
        let read_ahead_deadlines = positions.filter_map(read_ahead_deadline);
        read_ahead_deadlines.chain(request_deadlines).min()
    }

    /// When a waiting request must be answered.
    fn request_deadline_ms(&self, request_index: usize) -> i64 {
        let waiting = &self.waiting_requests[request_index];
        let since_ms = self.now_ms() - i64::try_from(waiting.requested_at.elapsed().as_millis()).unwrap_or(i64::MAX);
        let reader_position = self.reader_positions.get(&(waiting.request.reader_identity.as_ptr() as usize));
        let playback_deadline_ms = reader_position
            .map(|reader_position| reader_position.playback_clock.deadline_ms(self.start_ms(waiting.request.index)));
        playback_deadline_ms.map_or(since_ms, |played| played.min(since_ms + MAX_WAIT_MS))
    }

    /// How many more runs may start a segment now.
    pub(super) fn startable_runs(&self) -> usize {
        self.allowed_runs.saturating_sub(self.runs.iter().filter(|run: &&ActiveRun| run.is_working()).count())
    }
}
