//! Writes cue text that players cannot misinterpret.

use super::MAX_CUE_BYTES;

/// Tags that are kept (WebVTT section 4.2.2). Other tags are dropped, but their content stays.
const KEPT_TAGS: [&str; 7] = ["b", "i", "u", "c", "v", "ruby", "rt"];
/// Longest text between `<` and `>` that is treated as a tag, bytes.
const MAX_TAG_BYTES: usize = 512;
const MAX_OPEN_TAGS: usize = 16;
/// Character references that stay as they are.
const KEPT_REFERENCES: [&str; 6] = ["&amp;", "&lt;", "&gt;", "&nbsp;", "&lrm;", "&rlm;"];

/// Converts text with HTML-like tags, as in SRT and WebVTT, to WebVTT cue text.
pub fn from_markup(text: &str) -> String {
    let mut out = CueTextWriter::default();
    let mut rest = truncate(text);
    while let Some(c) = rest.chars().next() {
        if c == '<'
            && let Some((tag, after)) = parse_tag(rest)
        {
            out.write_tag(tag);
            rest = after;
        } else if c == '&'
            && let Some(reference) = KEPT_REFERENCES.iter().find(|&&reference| rest.starts_with(reference))
        {
            out.text.push_str(reference);
            rest = &rest[reference.len()..];
        } else {
            out.write_char(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out.finish()
}

/// The first [`MAX_CUE_BYTES`] of a text.
pub fn truncate(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_CUE_BYTES)]
}

/// The tag at the start of `rest` without its brackets, if it looks like one, and the text after it.
fn parse_tag(rest: &str) -> Option<(&str, &str)> {
    let body = &rest[1..];
    let end = body.bytes().take(MAX_TAG_BYTES).position(|byte| byte == b'>')?;
    let (tag, after) = (&body[..end], &body[end + 1..]);
    let name = tag.strip_prefix('/').unwrap_or(tag);
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) && !tag.contains(['<', '\n'])).then_some((tag, after))
}

/// Writes cue text with balanced tags and without blank lines.
#[derive(Default)]
pub struct CueTextWriter {
    text: String,
    open_tags: Vec<&'static str>,
}

impl CueTextWriter {
    pub fn write_char(&mut self, c: char) {
        match c {
            '&' => self.text.push_str("&amp;"),
            '<' => self.text.push_str("&lt;"),
            '>' => self.text.push_str("&gt;"),
            '\0' => self.text.push('\u{fffd}'),
            '\n' => self.write_line_break(),
            // Some readers treat form feeds and similar characters as line ends.
            c if (c.is_control() && c != '\t') || matches!(c, '\u{2028}' | '\u{2029}') => self.text.push(' '),
            c => self.text.push(c),
        }
    }

    fn write_line_break(&mut self) {
        while self.text.ends_with([' ', '\u{3000}']) {
            self.text.pop();
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Writes a tag given without brackets, e.g. `i`, `/b`, `v Proog`, `font color="red"`.
    fn write_tag(&mut self, tag: &str) {
        let (name, closing) = tag.strip_prefix('/').map_or((tag, false), |name| (name, true));
        let (word, annotation) = name.split_once(char::is_whitespace).unwrap_or((name, ""));
        let (word, classes) = word.split_once('.').unwrap_or((word, ""));
        let word = word.trim_end_matches('/').to_ascii_lowercase();
        if word == "br" {
            return self.write_line_break();
        }
        let Some(tag_name) = KEPT_TAGS.iter().copied().find(|&known| known == word) else { return };
        if closing { self.close_tag(tag_name) } else { self.open_tag(tag_name, classes, annotation) }
    }

    /// Opens a tag unless too many are open.
    pub fn open_tag(&mut self, name: &'static str, classes: &str, annotation: &str) {
        if self.open_tags.len() >= MAX_OPEN_TAGS {
            return;
        }
        self.open_tags.push(name);
        self.text.push('<');
        self.text.push_str(name);
        for class in classes.split('.').filter(|class| !class.is_empty()) {
            // A dash before the closing bracket could form an arrow.
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if class.chars().all(is_allowed) && !class.ends_with('-') {
                self.text.push('.');
                self.text.push_str(class);
            }
        }
        let annotation: String =
            annotation.chars().filter(|c| !c.is_control() && !matches!(c, '&' | '<' | '>')).collect();
        let annotation = annotation.trim_start().trim_end_matches(|c: char| c == '-' || c.is_whitespace());
        if name == "v" && !annotation.is_empty() {
            self.text.push(' ');
            self.text.push_str(annotation);
        }
        self.text.push('>');
    }

    /// Closes a tag and all tags opened since. A tag that is not open is ignored.
    pub fn close_tag(&mut self, name: &str) {
        if let Some(depth) = self.open_tags.iter().rposition(|open| *open == name) {
            self.close_to_depth(depth);
        }
    }

    fn close_to_depth(&mut self, depth: usize) {
        for name in self.open_tags.drain(depth..).rev() {
            self.text.push_str("</");
            self.text.push_str(name);
            self.text.push('>');
        }
    }

    /// The text with all tags closed; empty if it shows nothing.
    pub fn finish(mut self) -> String {
        self.close_to_depth(0);
        let text = without_blank_lines(&self.text);
        if strip_tags(&text).trim().is_empty() { String::new() } else { text }
    }
}

fn without_blank_lines(text: &str) -> String {
    text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Cue text without tags, references resolved.
pub fn strip_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_tag = false;
    for c in text.chars() {
        match c {
            '<' => in_tag = true,
            '>' if in_tag => in_tag = false,
            c if !in_tag => out.push(c),
            _ => {}
        }
    }
    unescape(&out)
}

/// Resolves the character references that a [`CueTextWriter`] leaves.
pub fn unescape(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}");
    text.replace("&lrm;", "\u{200e}").replace("&rlm;", "\u{200f}").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_kept_dropped_or_shown_as_text() {
        for (text, cue) in [
            ("<i>one</i> <b>two</b>", "<i>one</i> <b>two</b>"),
            ("<I>open", "<i>open</i>"),
            ("</b>never opened", "never opened"),
            ("<b><i>crossed</b></i>", "<b><i>crossed</i></b>"),
            ("<font color=\"red\">red</font>", "red"),
            ("<script>alert(1)</script><img src=x onerror=alert(1)>", "alert(1)"),
            ("one<br/>two<BR>three", "one\ntwo\nthree"),
            ("<v Proog>Emo?</v>", "<v Proog>Emo?</v>"),
            ("<v.loud.x\" Mary \"&\" Ann>hi", "<v.loud Mary \"\" Ann>hi</v>"),
            ("<c.highlight>x</c>", "<c.highlight>x</c>"),
            ("<v Jean-Luc -- -->x</v><c.a-->y", "<v Jean-Luc>x</v><c>y</c>"),
            ("<00:00:01.000>karaoke", "&lt;00:00:01.000&gt;karaoke"),
            ("I <3 you & me --> 5 < 6", "I &lt;3 you &amp; me --&gt; 5 &lt; 6"),
            ("&lt;b&gt; &amp; &nbsp;&copy;", "&lt;b&gt; &amp; &nbsp;&amp;copy;"),
            ("a\0b\u{c}c", "a\u{fffd}b c"),
            ("\n\none \n\n two\n", "one\n two"),
            ("<i></i>  <b> </b>", ""),
            ("<i>\n\n</i>x", "<i>\n</i>x"),
        ] {
            assert_eq!(from_markup(text), cue, "{text}");
        }
    }

    #[test]
    fn a_line_of_two_megabytes_is_truncated() {
        assert_eq!(from_markup(&"A".repeat(2_000_000)).len(), MAX_CUE_BYTES);
        assert!(from_markup(&"é<i>".repeat(100_000)).len() < 3 * MAX_CUE_BYTES);
    }
}
