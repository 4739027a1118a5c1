//! Advanced SubStation Alpha (ASS) and SSA: extracts dialogue text and times. Positioning and drawing are left to
//! renderers.

use super::cue_text::{self, CueTextWriter};
use super::{Cue, MAX_CUES, timing, visible_cue};

/// Default columns of both dialects, if a file does not define its own.
pub(super) const DEFAULT_COLUMNS: [&str; 10] =
    ["layer", "start", "end", "style", "name", "marginl", "marginr", "marginv", "effect", "text"];

/// Most columns of a `Format:` line; both dialects have ten.
const MAX_COLUMNS: usize = 64;

pub fn parse(text: &str) -> Vec<Cue> {
    let mut cues = Vec::new();
    let mut in_events = false;
    let mut columns: Vec<String> = DEFAULT_COLUMNS.map(str::to_owned).into();
    for line in text.lines() {
        let line = line.trim_start();
        if line.starts_with('[') {
            in_events = line.trim_end().eq_ignore_ascii_case("[events]");
        } else if in_events && let Some((kind, fields)) = line.split_once(':') {
            if kind.eq_ignore_ascii_case("format") {
                columns = parse_columns(fields);
            } else if kind.eq_ignore_ascii_case("dialogue") {
                cues.extend(parse_dialogue(fields, &columns));
            }
            if cues.len() >= MAX_CUES {
                break;
            }
        }
    }
    cues
}

/// Parses the column names of a `Format:` line.
pub(super) fn parse_columns(fields: &str) -> Vec<String> {
    fields.split(',').take(MAX_COLUMNS).map(|name| name.trim().to_ascii_lowercase()).collect()
}

fn parse_dialogue(fields: &str, columns: &[String]) -> Option<Cue> {
    let (start, end) = dialogue_times(fields, columns)?;
    let (settings, text) = convert_text(column_value(fields, columns, "text")?);
    visible_cue(start, end, settings, text)
}

/// Start and end of a `Dialogue:` line, milliseconds. None if it has no valid times; renderers ignore such lines.
pub(super) fn dialogue_times(fields: &str, columns: &[String]) -> Option<(i64, i64)> {
    let time = |name: &str| timing::parse_time(column_value(fields, columns, name)?);
    Some((time("start")?, time("end")?))
}

/// A value of a `Dialogue:` line. The text is the last column and may contain commas.
fn column_value<'a>(fields: &'a str, columns: &[String], name: &str) -> Option<&'a str> {
    fields.splitn(columns.len(), ',').nth(columns.iter().position(|column| column == name)?)
}

/// Converts text with override blocks. Keeps bold, italic, underline and top alignment; drops drawings.
fn convert_text(text: &str) -> (String, String) {
    let mut out = CueTextWriter::default();
    let mut settings = String::new();
    let mut style = [false; 3];
    let mut written_style = [false; 3];
    let mut is_drawing = false;
    let mut rest = cue_text::truncate(text);
    while let Some(c) = rest.chars().next() {
        if c == '{'
            && let Some((block, after)) = rest[1..].split_once('}')
        {
            for tag in block.split('\\').skip(1) {
                match tag {
                    "an7" | "an8" | "an9" | "a5" | "a6" | "a7" => settings = "line:0".to_owned(),
                    "r" => style = [false; 3],
                    _ => match tag.split_at_checked(1) {
                        Some(("b", value)) => set_flag(&mut style[0], value),
                        Some(("i", value)) => set_flag(&mut style[1], value),
                        Some(("u", value)) => set_flag(&mut style[2], value),
                        Some(("p", value)) => set_flag(&mut is_drawing, value),
                        _ => {}
                    },
                }
            }
            rest = after;
            continue;
        }
        let (character, length) = match (c, rest.as_bytes().get(1)) {
            ('\\', Some(b'N')) => ('\n', 2),
            ('\\', Some(b'n')) => (' ', 2),
            ('\\', Some(b'h')) => ('\u{a0}', 2),
            _ => (c, c.len_utf8()),
        };
        if !is_drawing {
            if style != written_style {
                write_style(&mut out, &style);
                written_style = style;
            }
            out.write_char(character);
        }
        rest = &rest[length..];
    }
    (settings, out.finish())
}

/// `1` or a weight turns a style on, `0` turns it off. Anything else is another tag (`\be`, `\iclip`, `\pos`).
fn set_flag(flag: &mut bool, value: &str) {
    if let Ok(number) = value.parse::<u32>() {
        *flag = number != 0;
    }
}

fn write_style(out: &mut CueTextWriter, style: &[bool; 3]) {
    for name in ["b", "i", "u"] {
        out.close_tag(name);
    }
    for (name, _) in ["b", "i", "u"].iter().zip(style).filter(|(_, on)| **on) {
        out.open_tag(name, "", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn override_blocks_become_the_few_tags_that_players_know() {
        for (text, cue) in [
            ("{\\fad(200,200)\\i1}one{\\i0} two", "<i>one</i> two"),
            ("{\\b700}bold{\\i1} both{\\r} none", "<b>bold</b><b><i> both</i></b> none"),
            ("{\\be1\\iclip(0,0,1,1)\\pos(1,2)}plain", "plain"),
            ("one\\Ntwo\\nthree\\hfour", "one\ntwo three\u{a0}four"),
            ("{\\p1}m 0 0 l 100 0{\\p0}after", "after"),
            ("{a comment}word {unclosed", "word {unclosed"),
            ("5 < 6 & <b>no tag</b>", "5 &lt; 6 &amp; &lt;b&gt;no tag&lt;/b&gt;"),
            ("{\\i1}{\\i0}", ""),
        ] {
            assert_eq!(convert_text(text).1, cue, "{text}");
        }
        assert_eq!(convert_text("{\\an8}top"), ("line:0".to_owned(), "top".to_owned()));
    }

    #[test]
    fn columns_are_matched_by_name() {
        let text = "[Script Info]\nDialogue: not here\n[V4+ Styles]\nFormat: Name\n[Events]\n\
                    Format: Marked, Start, End, Style, Text\n\
                    Comment: 0,0:00:00.00,0:00:09.00,Default,no\n\
                    Dialogue: Marked=0,0:00:01.50,1:00:02.00,Default,Hello, you\n\
                    Dialogue: Marked=0,0:00:01.50\nDialogue: x\n";
        let expected = Cue { start_ms: 1500, end_ms: 3_602_000, settings: String::new(), text: "Hello, you".into() };
        assert_eq!(parse(text), [expected]);
    }

    #[test]
    fn columns_are_limited() {
        assert_eq!(parse_columns(&",".repeat(1000)).len(), MAX_COLUMNS);
        for (before, cues) in [(MAX_COLUMNS - 3, 1), (MAX_COLUMNS - 2, 0)] {
            let (names, values) = ("x,".repeat(before), "0,".repeat(before));
            let text =
                format!("[Events]\nFormat: {names}Start, End, Text\nDialogue: {values}0:00:01.00,0:00:02.00,Hello\n");
            assert_eq!(parse(&text).len(), cues, "{before} columns before the start");
        }
    }
}
