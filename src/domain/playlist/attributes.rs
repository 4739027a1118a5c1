//! Attributes of playlist tags (draft-pantos-hls-rfc8216bis section 4.2).

use std::fmt::Write;

/// Appends an attribute with a quoted string.
pub fn push_quoted(text: &mut String, name: &str, value: &str) {
    let _ = write!(text, ",{name}=\"{}\"", sanitize(value));
}

/// Appends an attribute with a quoted string, if there is a value.
pub fn push_quoted_if(text: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        push_quoted(text, name, value);
    }
}

/// An enumerated value.
pub fn yes_or_no(value: bool) -> &'static str {
    if value { "YES" } else { "NO" }
}

/// A quoted string contains no quotes, and a playlist no control characters (sections 4.1 and 4.2).
pub fn sanitize(text: &str) -> String {
    text.chars().map(|c| if c == '"' { '\'' } else { c }).filter(|c| !c.is_control()).collect()
}

pub fn push_start_tag(text: &mut String, start_seconds: f64) {
    if start_seconds >= 0.001 {
        let _ = writeln!(text, "#EXT-X-START:TIME-OFFSET={start_seconds:.3},PRECISE=YES");
    }
}

/// A child's URI with the viewer's grant.
pub fn with_grant(name: &str, grant: &str) -> String {
    format!("{name}?st={grant}")
}
