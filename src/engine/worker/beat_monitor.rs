//! The rules about silence: when a worker without heartbeats, or with heartbeats without progress, is ended.
//!
//! On a busy machine heartbeats are late as well, so progress is judged by their number and not by a clock.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::worker::blame::Silence;
use crate::engine::worker::message::{Beat, BeatStage};

/// Silence after which the kernel is queried for the worker's state.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);

/// Silence after which a worker is given up, unless it was stopped by a signal. A busy machine may leave it no turn for
/// seconds.
const MAX_SILENCE: Duration = Duration::from_secs(5);

/// Time between two queries of its state.
const QUERY_INTERVAL: Duration = Duration::from_millis(250);

/// Heartbeats without progress at which working is stuck: 3 s.
const MAX_WORKING_BEATS: u32 = 12;

/// Heartbeats without progress at which a read of the source has failed: 30 s. A disk may have to spin up.
const MAX_READING_BEATS: u32 = 120;

/// Heartbeats without progress at which a job past its deadline is stuck, not slow: 1 s.
const MIN_STUCK_BEATS: u32 = 4;

/// The last heartbeats of a worker.
#[derive(Clone, Debug)]
pub struct BeatMonitor {
    last_beat: Instant,
    progress: u64,
    stage: BeatStage,
    /// Heartbeats since progress or stage last changed.
    unchanged_beats: u32,
}

impl BeatMonitor {
    pub fn new(now: Instant) -> Self {
        Self { last_beat: now, progress: 0, stage: BeatStage::Idle, unchanged_beats: 0 }
    }

    /// Records a heartbeat. Some if the worker has to be ended.
    pub fn record(&mut self, beat: Beat, now: Instant) -> Option<Silence> {
        self.last_beat = now;
        let is_unchanged = (beat.progress, beat.stage) == (self.progress, self.stage);
        self.unchanged_beats = if is_unchanged { self.unchanged_beats + 1 } else { 0 };
        (self.progress, self.stage) = (beat.progress, beat.stage);
        match self.stage {
            BeatStage::Working if self.unchanged_beats >= MAX_WORKING_BEATS => {
                Some(Silence::NoProgress { is_reading: false })
            }
            BeatStage::Reading if self.unchanged_beats >= MAX_READING_BEATS => {
                Some(Silence::NoProgress { is_reading: true })
            }
            _ => None,
        }
    }

    /// Judges the time since the last heartbeat. Some if the worker has to be ended. `process_state` gives the state letter
    /// of `/proc/<pid>/stat`.
    pub fn check_silence(&self, now: Instant, process_state: impl FnOnce() -> Option<char>) -> Option<Silence> {
        let silent_for = now.duration_since(self.last_beat);
        if silent_for < SUSPECT_AFTER {
            return None;
        }
        let state = process_state().unwrap_or('?');
        (matches!(state, 'T' | 't') || silent_for >= MAX_SILENCE).then_some(Silence::NoBeat { state })
    }

    /// When to call [`Self::check_silence`] next.
    pub fn next_check(&self, now: Instant) -> Instant {
        (self.last_beat + SUSPECT_AFTER).max(now + QUERY_INTERVAL)
    }

    /// Starts the silence anew, after a time in which the server did not read.
    pub fn resume(&mut self, now: Instant) {
        self.last_beat = now;
        self.unchanged_beats = 0;
    }

    /// Whether it works without progress, with no read of its source under way.
    pub fn is_stuck(&self) -> bool {
        self.stage == BeatStage::Working && self.unchanged_beats >= MIN_STUCK_BEATS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_millis(250);

    /// The beat at which the monitor ends the worker, and why, if `beats` are spaced by `interval`.
    fn end_after(beats: impl IntoIterator<Item = (u64, BeatStage)>, interval: Duration) -> Option<(usize, Silence)> {
        let mut now = Instant::now();
        let mut monitor = BeatMonitor::new(now);
        for (number, (progress, stage)) in beats.into_iter().enumerate() {
            now += interval;
            if let Some(silence) = monitor.record(Beat { progress, stage }, now) {
                return Some((number, silence));
            }
        }
        None
    }

    #[test]
    fn work_without_progress_ends_after_twelve_beats_however_late_they_are() {
        for interval in [BEAT, BEAT * 8] {
            let ended = end_after(std::iter::repeat_n((7, BeatStage::Working), 100), interval);
            assert_eq!(ended, Some((12, Silence::NoProgress { is_reading: false })));
        }
    }

    #[test]
    fn progress_idleness_and_reads_are_not_stuck() {
        assert_eq!(end_after((0..1000).map(|n| (n / 11, BeatStage::Working)), BEAT), None);
        assert_eq!(end_after(std::iter::repeat_n((7, BeatStage::Idle), 1000), BEAT), None);
        assert_eq!(end_after(std::iter::repeat_n((7, BeatStage::Reading), 120), BEAT), None);
        let reading = end_after(std::iter::repeat_n((7, BeatStage::Reading), 200), BEAT);
        assert_eq!(reading, Some((120, Silence::NoProgress { is_reading: true })));
    }

    #[test]
    fn a_read_that_returned_gives_the_work_all_its_beats() {
        let beats = std::iter::repeat_n((7, BeatStage::Reading), 100).chain([(7, BeatStage::Working)]);
        assert_eq!(end_after(beats, BEAT), None);
    }

    #[test]
    fn silence_ends_a_stopped_worker_at_once_and_others_after_five_seconds() {
        let start = Instant::now();
        let monitor = BeatMonitor::new(start);
        let check = |ms: u64, state: char| monitor.check_silence(start + Duration::from_millis(ms), || Some(state));
        assert_eq!(check(999, 'T'), None);
        assert_eq!(check(1000, 'T'), Some(Silence::NoBeat { state: 'T' }));
        assert_eq!(check(1000, 't'), Some(Silence::NoBeat { state: 't' }));
        for state in ['R', 'S', 'D'] {
            assert_eq!(check(4999, state), None, "{state}");
            assert_eq!(check(5000, state), Some(Silence::NoBeat { state }));
        }
        let without_process = monitor.check_silence(start + MAX_SILENCE, || None);
        assert_eq!(without_process, Some(Silence::NoBeat { state: '?' }));
    }

    #[test]
    fn silence_starts_anew_after_a_time_without_reading() {
        let start = Instant::now();
        let mut monitor = BeatMonitor::new(start);
        let later = start + Duration::from_secs(20);
        monitor.resume(later);
        assert_eq!(monitor.check_silence(later + BEAT, || Some('T')), None);
        assert!(monitor.next_check(later) >= later + SUSPECT_AFTER);
    }

    #[test]
    fn a_job_past_its_deadline_is_stuck_only_if_it_works_without_progress() {
        let is_stuck_after = |count: usize, stage: BeatStage| {
            let mut monitor = BeatMonitor::new(Instant::now());
            for _ in 0..count {
                monitor.record(Beat { progress: 1, stage }, Instant::now());
            }
            monitor.is_stuck()
        };
        assert!(is_stuck_after(5, BeatStage::Working));
        assert!(!is_stuck_after(4, BeatStage::Working));
        assert!(!is_stuck_after(50, BeatStage::Reading));
    }
}
