//! Read-ahead: produces the segments that each reader will request next.

use std::ops::Range;

use tokio::time::Instant;

use super::{ActiveRun, Owner};
use crate::domain::time::Ticks;

/// How far a run works ahead of its furthest reader: seconds of media, and the least number of segments.
const READ_AHEAD_SECONDS: f64 = 20.0;
const MIN_READ_AHEAD_SEGMENTS: usize = 3;

impl Owner {
    /// The segments that should be ready for a reader at `segment`.
    pub(super) fn read_ahead_window(&self, segment: usize) -> Range<usize> {
        let grid = &self.spec.grid;
        let until = grid.segment_start(segment) + Ticks::from_seconds(READ_AHEAD_SECONDS);
        segment..(grid.segment_at(until) + 1).max(segment + 1 + MIN_READ_AHEAD_SEGMENTS).min(self.end_segment)
    }

    /// The first segment in the window of a reader at `segment` that must be made. None while an earlier one is still being
    /// looked up: a run from a later one on would have to move back.
    pub(super) fn first_missing(&self, segment: usize) -> Option<usize> {
        let first = self.read_ahead_window(segment).find(|&index| !self.is_available(index))?;
        self.must_be_made(first).then_some(first)
    }

    /// The first missing segment of every reader's window. Empty for a backend that starts at once: with read-ahead, large
    /// segments of two readers would keep evicting each other from memory.
    pub(super) fn missing_segments(&self) -> Vec<usize> {
        if self.backend.has_instant_start() {
            return Vec::new();
        }
        self.reader_positions.values().filter_map(|reader| self.first_missing(reader.segment)).collect()
    }

    /// Moves idle runs to the segments that readers will request next, and ends a run that no reader follows.
    pub(super) fn schedule_read_ahead(&mut self) {
        for missing_index in self.missing_segments() {
            if self.runs.iter().any(|run| self.covers(run, missing_index)) {
                continue;
            }
            let missing_segments = self.missing_segments();
            let is_idle = |run: &ActiveRun| {
                !self.is_requested(run) && !missing_segments.iter().any(|&index| self.covers(run, index))
            };
            if let Some(run_index) = self.runs.iter().position(is_idle) {
                self.replace_run(run_index, missing_index);
            } else if self.runs.is_empty() {
                self.start_run(missing_index);
            }
        }
        if self.runs.len() > 1 {
            let is_needed = |run: &ActiveRun| {
                self.is_requested(run)
                    || self.reader_positions.values().any(|reader_position| {
                        self.read_ahead_window(reader_position.segment).contains(&run.next_segment)
                    })
            };
            if let Some(run_index) = self.runs.iter().position(|run| !is_needed(run)) {
                self.runs.remove(run_index);
            }
        }
    }

    /// How far a run at `next_segment` should go to fill a window. It stops before a long series of stored segments.
    fn read_ahead_target(&self, next_segment: usize, window: Range<usize>) -> Option<usize> {
        let mut last_missing = None;
        for index in next_segment.max(window.start)..window.end {
            if self.must_be_made(index) {
                if index - last_missing.unwrap_or(next_segment) > self.reach_segments() {
                    break;
                }
                last_missing = Some(index);
            }
        }
        last_missing
    }

    pub(super) fn allow_progress(&mut self) {
        let takes_turns = self.job_and_turns.is_some();
        for run_index in 0..self.runs.len() {
            if takes_turns && (self.runs[run_index].is_working() || self.startable_runs() == 0) {
                continue;
            }
            let next = self.runs[run_index].next_segment;
            let requested_segments = self.waiting_requests.iter().map(|waiting| waiting.request.index);
            let last_requested = requested_segments
                .filter(|&index| !self.lookups.may_find(index) && self.covers(&self.runs[run_index], index))
                .max();
            let read_ahead_readers = self.reader_positions.values().filter(|_| !self.backend.has_instant_start());
            let read_ahead_targets = read_ahead_readers.filter_map(|reader_position| {
                self.read_ahead_target(next, self.read_ahead_window(reader_position.segment))
            });
            let Some(target) = last_requested.into_iter().chain(read_ahead_targets).max() else { continue };
            let active = &mut self.runs[run_index];
            // One segment at a time, so that the encode slot can be handed over at the next boundary.
            let target = if takes_turns { target.min(active.next_segment) } else { target };
            if target > active.allowed_through {
                if !active.is_working() {
                    active.progressed_at = Instant::now();
                }
                active.allowed_through = target;
                active.run.allow_through(target);
            }
        }
    }
}
