//! Writes cue text that players cannot misinterpret.

use super::MAX_CUE_BYTES;

/// Tags that are kept (WebVTT section 4.2.2). Other tags are dropped, but their content stays.
const TAGS: [&str; 7] = ["b", "i", "u", "c", "v", "ruby", "rt"];
/// Longest text between `<` and `>` that is treated as a tag, bytes.
const LONGEST_TAG: usize = 512;
/// Largest tag nesting.
const DEEPEST: usize = 16;
/// Character references that stay as they are.
const REFERENCES: [&str; 6] = ["&amp;", "&lt;", "&gt;", "&nbsp;", "&lrm;", "&rlm;"];

/// Converts text with HTML-like tags, as in SRT and WebVTT, to WebVTT cue text.
pub fn marked(text: &str) -> String {
    let mut out = Writer::default();
    let mut rest = clip(text);
    while let Some(c) = rest.chars().next() {
        if c == '<'
            && let Some((tag, after)) = tag(rest)
        {
            out.tag(tag);
            rest = after;
        } else if c == '&'
            && let Some(reference) = REFERENCES.iter().find(|&&reference| rest.starts_with(reference))
        {
            out.text.push_str(reference);
            rest = &rest[reference.len()..];
        } else {
            out.character(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out.finish()
}

/// The first [`MAX_CUE_BYTES`] of a text.
pub fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_CUE_BYTES)]
}

/// The tag at the start of `rest` without its brackets, if it looks like one, and the text after it.
fn tag(rest: &str) -> Option<(&str, &str)> {
    let inside = &rest[1..];
    let end = inside.bytes().take(LONGEST_TAG).position(|byte| byte == b'>')?;
    let (tag, after) = (&inside[..end], &inside[end + 1..]);
    let name = tag.strip_prefix('/').unwrap_or(tag);
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) && !tag.contains(['<', '\n'])).then_some((tag, after))
}

/// Writes cue text with balanced tags and without blank lines.
#[derive(Default)]
pub struct Writer {
    text: String,
    open: Vec<&'static str>,
}

impl Writer {
    pub fn character(&mut self, c: char) {
        match c {
            '&' => self.text.push_str("&amp;"),
            '<' => self.text.push_str("&lt;"),
            '>' => self.text.push_str("&gt;"),
            '\0' => self.text.push('\u{fffd}'),
            '\n' => self.line_break(),
            // Some readers treat form feeds and similar characters as line ends.
            c if (c.is_control() && c != '\t') || matches!(c, '\u{2028}' | '\u{2029}') => self.text.push(' '),
            c => self.text.push(c),
        }
    }

    fn line_break(&mut self) {
        while self.text.ends_with([' ', '\u{3000}']) {
            self.text.pop();
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Writes a tag given without brackets, e.g. `i`, `/b`, `v Proog`, `font color="red"`.
    fn tag(&mut self, tag: &str) {
        let (name, closing) = match tag.strip_prefix('/') {
            Some(name) => (name, true),
            None => (tag, false),
        };
        let (word, annotation) = name.split_once(char::is_whitespace).unwrap_or((name, ""));
        let (word, classes) = word.split_once('.').unwrap_or((word, ""));
        let word = word.trim_end_matches('/').to_ascii_lowercase();
        if word == "br" {
            return self.line_break();
        }
        let Some(known) = TAGS.iter().copied().find(|&known| known == word) else { return };
        if closing { self.close(known) } else { self.open(known, classes, annotation) }
    }

    /// Opens a tag unless too many are open.
    pub fn open(&mut self, name: &'static str, classes: &str, annotation: &str) {
        if self.open.len() >= DEEPEST {
            return;
        }
        self.open.push(name);
        self.text.push('<');
        self.text.push_str(name);
        for class in classes.split('.').filter(|class| !class.is_empty()) {
            // A dash before the closing bracket could form an arrow.
            let sound = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if class.chars().all(sound) && !class.ends_with('-') {
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
    pub fn close(&mut self, name: &str) {
        if let Some(depth) = self.open.iter().rposition(|open| *open == name) {
            self.close_down_to(depth);
        }
    }

    fn close_down_to(&mut self, depth: usize) {
        for name in self.open.drain(depth..).rev() {
            self.text.push_str("</");
            self.text.push_str(name);
            self.text.push('>');
        }
    }

    /// The text with all tags closed; empty if it shows nothing.
    pub fn finish(mut self) -> String {
        self.close_down_to(0);
        let text = without_blank_lines(&self.text);
        if plain(&text).trim().is_empty() { String::new() } else { text }
    }
}

fn without_blank_lines(text: &str) -> String {
    text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Cue text without tags, references resolved.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        match c {
            '<' => inside = true,
            '>' if inside => inside = false,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    unescape(&out)
}

/// Resolves the character references that a [`Writer`] leaves.
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
            assert_eq!(marked(text), cue, "{text}");
        }
    }

    #[test]
    fn a_line_of_two_megabytes_is_cut() {
        assert_eq!(marked(&"A".repeat(2_000_000)).len(), MAX_CUE_BYTES);
        assert!(marked(&"é<i>".repeat(100_000)).len() < 3 * MAX_CUE_BYTES);
    }
}
