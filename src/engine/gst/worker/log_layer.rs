//! The log of this process, sent to the server within a budget.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::connection::Connection;
use crate::domain::worker::frame::FrameKind;
use crate::engine::worker::message::LogMessage;

/// Most lines sent in a second.
const MAX_LINES_A_SECOND: u32 = 100;

const SECOND: Duration = Duration::from_secs(1);

/// Counts the lines of the current second. Further ones are dropped, and their number is sent in the next second.
#[derive(Debug)]
struct LogBudget {
    second_start: Instant,
    line_count: u32,
    dropped_count: u64,
}

impl LogBudget {
    fn new(now: Instant) -> Self {
        Self { second_start: now, line_count: 0, dropped_count: 0 }
    }

    /// Whether a line may be sent now.
    fn take_line(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.second_start) >= SECOND {
            (self.second_start, self.line_count) = (now, 0);
        }
        let is_allowed = self.line_count < MAX_LINES_A_SECOND;
        if is_allowed {
            self.line_count += 1;
        } else {
            self.dropped_count += 1;
        }
        is_allowed
    }

    /// The number of lines dropped in a second that is over; None if there is nothing to report.
    fn take_dropped(&mut self, now: Instant) -> Option<u64> {
        let is_over = now.saturating_duration_since(self.second_start) >= SECOND;
        (is_over && self.dropped_count > 0).then(|| std::mem::take(&mut self.dropped_count))
    }
}

/// Sends log lines to the server.
#[derive(Debug)]
pub(super) struct LogForwarder {
    connection: Arc<Connection>,
    budget: Mutex<LogBudget>,
}

impl LogForwarder {
    pub(super) fn new(connection: Arc<Connection>) -> Arc<Self> {
        Arc::new(Self { connection, budget: Mutex::new(LogBudget::new(Instant::now())) })
    }

    /// Makes it the receiver of everything this process logs.
    pub(super) fn install(self: &Arc<Self>) {
        let forwarder = self.clone();
        crate::telemetry::forward_to(move |level, target, text| forwarder.forward(level, target, text));
    }

    fn forward(&self, level: &str, target: &str, text: String) {
        self.report_dropped();
        let is_allowed = self.budget.lock().unwrap_or_else(PoisonError::into_inner).take_line(Instant::now());
        if is_allowed {
            self.send(level, target, text);
        }
    }

    /// Sends how many lines were dropped in the last second, if any. Called by the heartbeat too, because a worker may log
    /// nothing afterwards.
    pub(super) fn report_dropped(&self) {
        let dropped = self.budget.lock().unwrap_or_else(PoisonError::into_inner).take_dropped(Instant::now());
        if let Some(count) = dropped {
            self.send("WARN", module_path!(), format!("{count} lines of a worker's log were dropped"));
        }
    }

    fn send(&self, level: &str, target: &str, text: String) {
        let message = LogMessage { level: level.to_owned(), target: target.to_owned(), text };
        self.connection.send_json(FrameKind::Log, 0, &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_budget_are_counted_and_reported_in_the_next_second() {
        let start = Instant::now();
        let mut budget = LogBudget::new(start);
        let sent = (0..150).filter(|_| budget.take_line(start)).count();
        assert_eq!(sent, 100);
        let late = start + Duration::from_millis(999);
        assert!(!budget.take_line(late));
        assert_eq!(budget.take_dropped(late), None, "the second is not over");
        let next = start + SECOND;
        assert_eq!(budget.take_dropped(next), Some(51));
        assert_eq!(budget.take_dropped(next), None, "reported once");
        assert!(budget.take_line(next), "a new second has a new budget");
        assert_eq!((0..150).filter(|_| budget.take_line(next)).count(), 99);
    }
}
