//! Splits an ASS script into lines, so that a time range of it can be rendered alone.

use super::ass::{DEFAULT_COLUMNS, dialogue_times, parse_columns};

/// An ASS script with the times of its dialogue lines.
#[derive(Clone, Debug, Default)]
pub struct AssScript {
    text: String,
    /// Per line: offset of its end in the text, and (start, end) in milliseconds if it is dialogue.
    lines: Vec<(usize, Option<(i64, i64)>)>,
}

impl AssScript {
    pub fn new(text: String) -> Self {
        let mut lines = Vec::new();
        let mut in_events = false;
        let mut column_names: Vec<String> = DEFAULT_COLUMNS.map(str::to_owned).into();
        let mut end = 0;
        for full_line in text.split_inclusive('\n') {
            end += full_line.len();
            let line = full_line.trim();
            let mut shown_between = None;
            // Lines of an attached font may begin with `[`, but contain no lower-case letters.
            if line.starts_with('[') && line.ends_with(']') {
                in_events = line.eq_ignore_ascii_case("[events]");
            } else if in_events && let Some((kind, fields)) = line.split_once(':') {
                if kind.eq_ignore_ascii_case("format") {
                    column_names = parse_columns(fields);
                } else if kind.eq_ignore_ascii_case("dialogue") {
                    shown_between = dialogue_times(fields, &column_names);
                }
            }
            lines.push((end, shown_between));
        }
        Self { text, lines }
    }

    /// The script without the dialogue lines that are never shown in `start_ms..end_ms`. All other lines stay, in order.
    pub fn excerpt(&self, start_ms: i64, end_ms: i64) -> String {
        let mut out = String::new();
        let mut begin = 0;
        for &(end, when) in &self.lines {
            if when.is_none_or(|(from, to)| from < end_ms && to > start_ms) {
                out.push_str(&self.text[begin..end]);
            }
            begin = end;
        }
        out
    }

    /// True if any dialogue is shown in `start_ms..end_ms`.
    pub fn has_dialogue(&self, start_ms: i64, end_ms: i64) -> bool {
        self.lines.iter().any(|(_, when)| when.is_some_and(|(from, to)| from < end_ms && to > start_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[Script Info]\r\nPlayResX: 384\r\n\r\n[Events]\r\nFormat: Start, End, Style, Text\r\n\
        Dialogue: 0:00:01.00,0:00:02.00,Default,one, and more\r\nComment: 0:00:01.00,0:00:02.00,Default,note\r\n\
        Dialogue: 0:00:02.00,0:00:09.50,Default,two\r\n[Fonts]\r\nfontname: a_0.ttf\r\n[:DIALOGUE\r\n";

    #[test]
    fn dialogue_outside_the_range_is_dropped() {
        let script = AssScript::new(TEXT.into());
        assert_eq!(script.excerpt(0, 10_000), TEXT);
        let without_first = TEXT.replace("Dialogue: 0:00:01.00,0:00:02.00,Default,one, and more\r\n", "");
        assert_eq!(script.excerpt(2_000, 4_000), without_first);
        assert!(script.has_dialogue(9_000, 10_000));
        assert!(!script.has_dialogue(9_500, 10_000) && !script.has_dialogue(0, 1_000));
        assert!(!script.excerpt(10_000, 20_000).contains("Dialogue"));
        assert!(script.excerpt(10_000, 20_000).ends_with("[Fonts]\r\nfontname: a_0.ttf\r\n[:DIALOGUE\r\n"));
    }
}
