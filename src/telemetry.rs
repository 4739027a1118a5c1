//! Logging (tracing) to standard error, filtered by `HEARTHCAST_LOG` or `RUST_LOG` (default `info`). The last lines stay in
//! memory for admins.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt as plain};

pub mod traces;

/// Lines kept in memory, and the longest line in bytes: 2 MiB at most.
const MAX_LINES: usize = 1000;
const MAX_LINE_BYTES: usize = 2048;

/// Installs the subscriber; a second call does nothing.
pub fn init() {
    let filter = log_filter();
    let console = plain::layer().with_writer(std::io::stderr);
    let targets = filter_fn(|meta| may_log(meta.target()));
    let recent_lines = LineLayer(keep_line);
    let _ = tracing_subscriber::registry().with(filter).with(targets).with(console).with(recent_lines).try_init();
}

/// Installs a subscriber that passes level, module and text of each line to `forward`, instead of [`init`]: in worker
/// processes, whose log is part of the server's.
pub fn forward_to(forward: impl Fn(&'static str, &'static str, String) + Send + Sync + 'static) {
    let targets = filter_fn(|meta| may_log(meta.target()));
    let _ = tracing_subscriber::registry().with(log_filter()).with(targets).with(LineLayer(forward)).try_init();
}

fn log_filter() -> EnvFilter {
    EnvFilter::try_from_env("HEARTHCAST_LOG")
        .or_else(|_| EnvFilter::try_from_default_env())
        .unwrap_or_else(|_| EnvFilter::new("info"))
}

/// Whether a module may log. The RTSP client may not: it logs complete URLs, which can contain passwords.
fn may_log(target: &str) -> bool {
    target != "retina" && !target.starts_with("retina::")
}

/// A line of the log.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// Counts from 1, without a gap.
    pub number: u64,
    pub time: Timestamp,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: &'static str,
    /// The module that logged it.
    pub target: &'static str,
    /// The message, then its fields as `name=value`.
    pub text: String,
}

/// The kept lines after the one numbered `after`, oldest first.
pub fn lines_after(after: u64) -> Vec<LogLine> {
    let tail = RECENT_LINES.lock().unwrap_or_else(PoisonError::into_inner);
    tail.lines.iter().skip_while(|line| line.number <= after).cloned().collect()
}

static RECENT_LINES: Mutex<RecentLines> = Mutex::new(RecentLines { last_number: 0, lines: VecDeque::new() });

struct RecentLines {
    last_number: u64,
    lines: VecDeque<LogLine>,
}

impl RecentLines {
    fn push(&mut self, level: &'static str, target: &'static str, text: String) {
        self.last_number += 1;
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(LogLine { number: self.last_number, time: Timestamp::now(), level, target, text });
    }
}

/// The layer that passes level, module and text of each line to a function.
struct LineLayer<F>(F);

impl<S: Subscriber, F: Fn(&'static str, &'static str, String) + 'static> Layer<S> for LineLayer<F> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (mut event_text, meta) = (EventText::default(), event.metadata());
        event.record(&mut event_text);
        (self.0)(meta.level().as_str(), meta.target(), event_text.text());
    }
}

/// Keeps a line in memory.
fn keep_line(level: &'static str, target: &'static str, text: String) {
    RECENT_LINES.lock().unwrap_or_else(PoisonError::into_inner).push(level, target, text);
}

/// An event formatted as text.
#[derive(Default)]
struct EventText {
    message: String,
    fields: String,
}

impl EventText {
    fn text(mut self) -> String {
        self.message.push_str(&self.fields);
        let max_end = self.message.floor_char_boundary(MAX_LINE_BYTES);
        self.message.truncate(max_end);
        self.message
    }
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string never fails.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_log_complete_urls_are_silenced() {
        assert!(!may_log("retina::client::teardown") && !may_log("retina") && may_log("hearthcast::engine"));
    }

    #[test]
    fn lines_are_passed_on_with_level_module_and_fields() {
        let lines = std::sync::Arc::new(Mutex::new(Vec::new()));
        let received = lines.clone();
        let layer = LineLayer(move |level: &'static str, target: &'static str, text: String| {
            received.lock().unwrap().push((level, target, text));
        });
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || tracing::warn!(segment = 4, "slow"));
        let expected = ("WARN", module_path!(), "slow segment=4".to_owned());
        assert_eq!(*lines.lock().unwrap(), [expected]);
    }

    #[test]
    fn the_newest_lines_are_kept_and_long_ones_truncated() {
        let mut tail = RecentLines { last_number: 0, lines: VecDeque::new() };
        for number in 0..MAX_LINES + 3 {
            tail.push("INFO", "test", number.to_string());
        }
        let numbers: Vec<u64> = tail.lines.iter().map(|line| line.number).collect();
        assert_eq!((numbers.len(), numbers[0], numbers[MAX_LINES - 1]), (MAX_LINES, 4, MAX_LINES as u64 + 3));
        let words = EventText { message: "é".repeat(MAX_LINE_BYTES), fields: String::new() };
        assert_eq!(words.text().len(), MAX_LINE_BYTES);
        let words = EventText { message: "started".into(), fields: " by=1".into() };
        assert_eq!(words.text(), "started by=1");
    }
}
