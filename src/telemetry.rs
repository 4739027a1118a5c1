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

/// Lines kept in memory, and the longest line in bytes: 2 MiB at most.
const KEPT: usize = 1000;
const LONGEST: usize = 2048;

/// Installs the subscriber; a second call does nothing.
pub fn init() {
    let filter = EnvFilter::try_from_env("HEARTHCAST_LOG")
        .or_else(|_| EnvFilter::try_from_default_env())
        .unwrap_or_else(|_| EnvFilter::new("info"));
    let console = plain::layer().with_writer(std::io::stderr);
    let discreet = filter_fn(|meta| may_speak(meta.target()));
    let _ = tracing_subscriber::registry().with(filter).with(discreet).with(console).with(Keeper).try_init();
}

/// Whether a module may log. The RTSP client may not: it logs complete URLs, which can contain passwords.
fn may_speak(target: &str) -> bool {
    target != "retina" && !target.starts_with("retina::")
}

/// A line of the log.
#[derive(Clone, Debug)]
pub struct Line {
    /// Counts from 1, without a gap.
    pub number: u64,
    pub at: Timestamp,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: &'static str,
    /// The module that logged it.
    pub target: &'static str,
    /// The message, then its fields as `name=value`.
    pub text: String,
}

/// The kept lines after the one numbered `after`, oldest first.
pub fn tail(after: u64) -> Vec<Line> {
    let tail = TAIL.lock().unwrap_or_else(PoisonError::into_inner);
    tail.lines.iter().skip_while(|line| line.number <= after).cloned().collect()
}

static TAIL: Mutex<Tail> = Mutex::new(Tail { said: 0, lines: VecDeque::new() });

struct Tail {
    said: u64,
    lines: VecDeque<Line>,
}

impl Tail {
    fn keep(&mut self, level: &'static str, target: &'static str, text: String) {
        self.said += 1;
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(Line { number: self.said, at: Timestamp::now(), level, target, text });
    }
}

/// The layer that keeps the last lines.
struct Keeper;

impl<S: Subscriber> Layer<S> for Keeper {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (mut words, meta) = (Words::default(), event.metadata());
        event.record(&mut words);
        let text = words.text();
        TAIL.lock().unwrap_or_else(PoisonError::into_inner).keep(meta.level().as_str(), meta.target(), text);
    }
}

/// An event formatted as text.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Words {
    fn text(mut self) -> String {
        self.message.push_str(&self.fields);
        let end = self.message.floor_char_boundary(LONGEST);
        self.message.truncate(end);
        self.message
    }
}

impl Visit for Words {
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
    fn who_writes_addresses_whole_is_not_heard() {
        assert!(!may_speak("retina::client::teardown") && !may_speak("retina") && may_speak("hearthcast::engine"));
    }

    #[test]
    fn the_newest_lines_are_kept_and_none_is_endless() {
        let mut tail = Tail { said: 0, lines: VecDeque::new() };
        for number in 0..KEPT + 3 {
            tail.keep("INFO", "test", number.to_string());
        }
        let numbers: Vec<u64> = tail.lines.iter().map(|line| line.number).collect();
        assert_eq!((numbers.len(), numbers[0], numbers[KEPT - 1]), (KEPT, 4, KEPT as u64 + 3));
        let words = Words { message: "é".repeat(LONGEST), fields: String::new() };
        assert_eq!(words.text().len(), LONGEST);
        let words = Words { message: "said".into(), fields: " by=1".into() };
        assert_eq!(words.text(), "said by=1");
    }
}
