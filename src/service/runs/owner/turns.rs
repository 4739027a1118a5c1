//! Turns at the encode slots: what this rendition needs, and how it waits without a slot.

use tokio::time::Instant;

use super::{Active, DUE_MS, Owner, PARKED, RUNS, Reading};
use crate::service::encode_slots::RenditionNeed;

impl Owner {
    /// Milliseconds on the clock that all encodes share.
    pub(super) fn now_ms(&self) -> i64 {
        self.turns.as_ref().map_or(0, |(job, _)| job.slots().now_ms())
    }

    /// Start of a segment, milliseconds from the start of the item.
    pub(super) fn start_ms(&self, index: usize) -> i64 {
        self.work.grid.segment_start(index) / 90
    }

    /// Reports what is needed and learns how many runs may work. Surplus runs that are paused are stopped.
    pub(super) fn take_turn(&mut self) {
        let Some((job, _)) = &self.turns else { return };
        let need = self.need();
        self.allowed = job.update(need);
        while self.runs.len() > self.allowed.max(1) {
            let rests = (0..self.runs.len()).filter(|&at| !self.runs[at].works());
            let Some(at) = rests.min_by_key(|&at| self.is_asked(&self.runs[at])) else { break };
            self.runs.remove(at);
        }
        let waits = self.allowed == 0 && need.deadline_ms.is_some() && need.working_runs == 0;
        self.parked = waits.then(|| self.parked.unwrap_or_else(Instant::now));
        if self.parked.is_some_and(|parked| parked.elapsed() >= PARKED) && !self.runs.is_empty() {
            tracing::debug!(rendition = &*self.name, "stopped a run that waited too long for an encode slot");
            self.runs.clear();
        }
    }

    fn need(&self) -> RenditionNeed {
        let second_ms = match self.runs.len() {
            0 => None,
            1 => self.uncovered().into_iter().filter(|&n| self.is_read_by_others(n)).map(|n| self.due_ms(n)).min(),
            _ => self.deadline_ms(),
        };
        let working = self.runs.iter().filter(|run| run.works()).count().min(RUNS);
        let is_complete = working == 0 && self.segments.rendition_usage(&self.name).segments >= self.end;
        RenditionNeed { deadline_ms: self.deadline_ms(), second_deadline_ms, run_count: self.runs.len(), working_runs: working, is_complete }
    }

    /// When the first reader runs dry; None if nothing is missing.
    fn deadline_ms(&self) -> Option<i64> {
        let missing = |reading: &Reading| {
            let index = self.missing_at(reading.at)?;
            Some(reading.clock.deadline_ms(self.start_ms(index)))
        };
        let waiting = (0..self.waiting.len()).map(|n| self.due_ms(n));
        let ahead = self.readers.values().filter(|_| !self.transcoder.has_instant_start()).filter_map(missing);
        ahead.chain(waiting).min()
    }

    /// When a waiting request must be answered.
    fn due_ms(&self, waiting: usize) -> i64 {
        let waiting = &self.waiting[waiting];
        let since = self.now_ms() - i64::try_from(waiting.since.elapsed().as_millis()).unwrap_or(i64::MAX);
        let reading = self.readers.get(&(waiting.command.reader.as_ptr() as usize));
        let played = reading.map(|reading| reading.clock.deadline_ms(self.start_ms(waiting.command.index)));
        played.map_or(since, |played| played.min(since + DUE_MS))
    }

    /// How many more runs may start a segment now.
    pub(super) fn may_work(&self) -> usize {
        self.allowed.saturating_sub(self.runs.iter().filter(|run: &&Active| run.works()).count())
    }
}
