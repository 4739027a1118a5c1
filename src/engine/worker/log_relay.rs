//! The log of a worker, emitted again as this process's own.

use tokio::time::{Duration, Instant};
use tracing::Span;

use crate::engine::worker::message::LogMessage;

/// Longest text of a line, bytes. The rest is cut off.
const MAX_LINE_BYTES: usize = 2_000;

/// Longest name of a line's module, bytes.
const MAX_TARGET_BYTES: usize = 100;

/// Lines of a worker in a second. Further ones are counted.
const MAX_LINES: u32 = 200;

/// The lines of one worker.
#[derive(Debug)]
pub struct LogRelay {
    span: Span,
    second_began: Instant,
    /// Lines in this second.
    lines: u32,
    dropped_lines: u64,
}

impl LogRelay {
    /// For the worker with this number and process id.
    pub fn new(number: u32, pid: u32) -> Self {
        let span = tracing::info_span!("worker", id = number, pid);
        Self { span, second_began: Instant::now(), lines: 0, dropped_lines: 0 }
    }

    /// Emits a line with its level.
    pub fn emit(&mut self, message: &LogMessage) {
        if self.second_began.elapsed() >= Duration::from_secs(1) {
            let dropped_lines = std::mem::take(&mut self.dropped_lines);
            if dropped_lines > 0 {
                self.span.in_scope(|| tracing::warn!(dropped_lines, "a worker logs too much"));
            }
            (self.second_began, self.lines) = (Instant::now(), 0);
        }
        if self.lines == MAX_LINES {
            self.dropped_lines += 1;
            return;
        }
        self.lines += 1;
        let (text, module) = (plain_text(&message.text, MAX_LINE_BYTES), plain_text(&message.target, MAX_TARGET_BYTES));
        self.span.in_scope(|| match message.level.as_str() {
            "ERROR" => tracing::error!(module, "{text}"),
            "WARN" => tracing::warn!(module, "{text}"),
            "INFO" => tracing::info!(module, "{text}"),
            "DEBUG" => tracing::debug!(module, "{text}"),
            _ => tracing::trace!(module, "{text}"),
        });
    }

    /// The span of this worker, for messages about it.
    pub fn span(&self) -> &Span {
        &self.span
    }
}

/// At most `max_bytes` of a text, with spaces in place of control characters: a terminal would execute them.
fn plain_text(text: &str, max_bytes: usize) -> String {
    let text = &text[..text.floor_char_boundary(max_bytes)];
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_plain() {
        assert_eq!(plain_text("a\u{1b}[31m\nb", 100), "a [31m b");
        assert_eq!(plain_text("ää", 3), "ä");
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_lines_is_counted_and_not_emitted() {
        let mut relay = LogRelay::new(1, 1);
        let line = LogMessage { level: "INFO".into(), target: "gst".into(), text: "line".into() };
        for _ in 0..MAX_LINES + 50 {
            relay.emit(&line);
        }
        assert_eq!((relay.lines, relay.dropped_lines), (MAX_LINES, 50));
        tokio::time::advance(Duration::from_secs(1)).await;
        relay.emit(&line);
        assert_eq!((relay.lines, relay.dropped_lines), (1, 0));
    }
}
