//! Read-ahead: produces the segments that each reader will request next.

use std::ops::Range;

use tokio::time::Instant;

use super::{Active, Owner};
use crate::domain::time::to_ticks;

/// How far a run works ahead of its furthest reader: seconds of media, and the least number of segments.
const AHEAD_SECONDS: f64 = 20.0;
const AHEAD_SEGMENTS: usize = 3;

impl Owner {
    /// The segments that should be ready for a reader at segment `at`.
    pub(super) fn window(&self, at: usize) -> Range<usize> {
        let grid = &self.work.grid;
        let until = grid.segment_start(at) + to_ticks(AHEAD_SECONDS);
        at..(grid.segment_at(until) + 1).max(at + 1 + AHEAD_SEGMENTS).min(self.end)
    }

    /// The first missing segment in the window of a reader at segment `at`.
    pub(super) fn missing_at(&self, at: usize) -> Option<usize> {
        self.window(at).find(|&index| !self.segments.contains(&self.name, index))
    }

    /// The first missing segment of every reader's window. Empty for a backend that starts at once: with read-ahead, large
    /// segments of two readers would keep evicting each other from memory.
    pub(super) fn missing(&self) -> Vec<usize> {
        if self.transcoder.has_instant_start() {
            return Vec::new();
        }
        self.readers.values().filter_map(|reading| self.missing_at(reading.at)).collect()
    }

    /// Moves idle runs to the segments that readers will request next, and ends a run that no reader follows.
    pub(super) fn read_ahead(&mut self) {
        for index in self.missing() {
            if self.runs.iter().any(|run| self.covers(run, index)) {
                continue;
            }
            let needed = self.missing();
            let idle = |run: &Active| !self.is_asked(run) && !needed.iter().any(|&index| self.covers(run, index));
            if let Some(at) = self.runs.iter().position(idle) {
                self.replace(at, index);
            } else if self.runs.is_empty() {
                self.start(index);
            }
        }
        if self.runs.len() > 1 {
            let wanted = |run: &Active| {
                self.is_asked(run) || self.readers.values().any(|reading| self.window(reading.at).contains(&run.next))
            };
            if let Some(at) = self.runs.iter().position(|run| !wanted(run)) {
                self.runs.remove(at);
            }
        }
    }

    /// How far a run at `next` should go to fill a window. It stops before a long series of stored segments.
    fn ahead_of(&self, next: usize, window: Range<usize>) -> Option<usize> {
        let mut last = None;
        for index in next.max(window.start)..window.end {
            if !self.segments.contains(&self.name, index) {
                if index - last.unwrap_or(next) > self.reach() {
                    break;
                }
                last = Some(index);
            }
        }
        last
    }

    pub(super) fn raise_gates(&mut self) {
        let takes_turns = self.turns.is_some();
        for at in 0..self.runs.len() {
            if takes_turns && (self.runs[at].works() || self.may_work() == 0) {
                continue;
            }
            let next = self.runs[at].next;
            let asked = self.waiting.iter().map(|waiting| waiting.command.index);
            let asked = asked.filter(|&index| self.covers(&self.runs[at], index)).max();
            let readers = self.readers.values().filter(|_| !self.transcoder.has_instant_start());
            let ahead = readers.filter_map(|reading| self.ahead_of(next, self.window(reading.at)));
            let Some(target) = asked.into_iter().chain(ahead).max() else { continue };
            let active = &mut self.runs[at];
            // One segment at a time, so that the encode slot can be handed over at the next boundary.
            let target = if takes_turns { target.min(active.next) } else { target };
            if target > active.gate {
                if !active.works() {
                    active.since = Instant::now();
                }
                active.gate = target;
                active.run.allow_through(target);
            }
        }
    }
}
