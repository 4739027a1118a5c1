//! Reads SubRip (SRT): numbered blocks, often typed by hand.

use super::cue_text::{self, from_markup};
use super::{Cue, MAX_CUES, timing, visible_cue};

/// Reads every block that has a timing line. Numbers may be missing or wrong, and blank lines within a text are joined.
pub fn parse(text: &str) -> Vec<Cue> {
    let mut cues = Vec::new();
    let mut block: Option<(i64, i64, Vec<&str>)> = None;
    let mut finish = |block: Option<(i64, i64, Vec<&str>)>, ends_at_timing_line: bool| {
        let Some((start, end, mut lines)) = block else { return };
        // A number directly above the next timing line belongs to the next block.
        if ends_at_timing_line && lines.last().is_some_and(|line| is_number(line)) {
            lines.pop();
        }
        let (settings, text) = extract_position(&lines.join("\n"));
        cues.extend(visible_cue(start, end, settings, from_markup(&text)));
    };
    let mut block_count = 0;
    for line in text.lines() {
        if let Some((start, end, _)) = timing::parse_timing_line(line) {
            finish(block.take(), true);
            block_count += 1;
            if block_count > MAX_CUES {
                break;
            }
            block = Some((start, end, Vec::new()));
        } else if let Some((_, _, lines)) = &mut block {
            lines.push(line);
        }
    }
    finish(block, false);
    cues
}

fn is_number(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
}

/// Removes `{\an8}` and similar tags, which many SRT files borrow from ASS. Returns cue settings and the remaining text.
fn extract_position(text: &str) -> (String, String) {
    let mut settings = String::new();
    let mut out = String::new();
    let mut rest = cue_text::truncate(text);
    while let Some((before, after)) = rest.split_once("{\\") {
        out.push_str(before);
        let Some((tags, after)) = after.split_once('}') else {
            out.push_str("{\\");
            rest = after;
            break;
        };
        if tags.split('\\').any(|tag| matches!(tag, "an7" | "an8" | "an9")) {
            settings = "line:0".to_owned();
        }
        rest = after;
    }
    out.push_str(rest);
    (settings, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_however_they_are_typed() {
        let numbers = "1\n00:00:01,000 --> 00:00:02,000\none\ntwo\n\n00:00:03,000 --> 00:00:04,000\n42\n\n\
                       x9\n00:00:05,000 --> 00:00:06,000 X1:0\n7\n\n8\n00:00:07,000 --> 00:00:08,000\nlast";
        let blank_line = "1\n00:00:01,000 --> 00:00:02,000\none\n\ntwo\n\n2\n00:00:03,000 --> 00:00:04,000\nthree";
        let impossible_times = "1\n99:99:99,999 --> -1:00:00,000\nx\n\n2\n00:00:05,000 --> 00:00:01,000\ny\n\n\
                                3\n00:00:06,000 --> 00:00:07,000\nz\n";
        let with_and_without: &[_] =
            &[(1000, 2000, "one\ntwo"), (3000, 4000, "42\nx9"), (5000, 6000, "7"), (7000, 8000, "last")];
        for (case, text, expected) in [
            ("with and without numbers", numbers, with_and_without),
            ("a blank line inside a text", blank_line, &[(1000, 2000, "one\ntwo"), (3000, 4000, "three")]),
            ("impossible times", impossible_times, &[(6000, 7000, "z")]),
        ] {
            let cues = parse(text);
            let found: Vec<_> = cues.iter().map(|cue| (cue.start_ms, cue.end_ms, cue.text.as_str())).collect();
            assert_eq!(found, expected, "{case}");
        }
    }

    #[test]
    fn a_borrowed_position_becomes_a_setting() {
        let cues = parse("1\n00:00:01,000 --> 00:00:02,000\n{\\an8}top {\\i1}x{ \\y}\n");
        assert_eq!((cues[0].settings.as_str(), cues[0].text.as_str()), ("line:0", "top x{ \\y}"));
    }
}
