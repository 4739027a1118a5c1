//! Conditional requests (`If-None-Match`, `If-Match`, `If-Range`; RFC 9110 section 13), for responses with a strong ETag.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};

/// The result of evaluating the preconditions of a `GET` or `HEAD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Proceed,
    /// 304
    NotModified,
    /// 412
    Failed,
}

/// The validators of a response: a strong entity tag with its quotes, and the modification time in whole seconds.
#[derive(Clone, Copy)]
pub struct Validators<'a> {
    pub etag: &'a str,
    pub modified: Option<SystemTime>,
}

impl<'a> Validators<'a> {
    /// HTTP dates have whole seconds; a time before 1970 is dropped.
    pub fn new(etag: &'a str, modified: SystemTime) -> Self {
        let age = modified.duration_since(SystemTime::UNIX_EPOCH).ok();
        Self { etag, modified: age.map(|age| SystemTime::UNIX_EPOCH + Duration::from_secs(age.as_secs())) }
    }

    /// Evaluates the preconditions in the order of section 13.2.2.
    pub fn evaluate(&self, headers: &HeaderMap) -> Outcome {
        if let Some(matched) = listed(headers, IF_MATCH, |tag| tag == self.etag) {
            if !matched {
                return Outcome::Failed;
            }
        } else if let (Some(limit), Some(modified)) = (date(headers, IF_UNMODIFIED_SINCE), self.modified)
            && modified > limit
        {
            return Outcome::Failed;
        }
        if let Some(matched) = listed(headers, IF_NONE_MATCH, |tag| tag.strip_prefix("W/").unwrap_or(tag) == self.etag)
        {
            if matched {
                return Outcome::NotModified;
            }
        } else if let (Some(since), Some(modified)) = (date(headers, IF_MODIFIED_SINCE), self.modified)
            && modified <= since
        {
            return Outcome::NotModified;
        }
        Outcome::Proceed
    }

    /// The range to honour: a single `Range` header whose `If-Range`, if any, matches these validators exactly.
    pub fn range<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let mut ranges = headers.get_all(RANGE).iter();
        let range = ranges.next().filter(|_| ranges.next().is_none())?.to_str().ok()?;
        let mut conditions = headers.get_all(IF_RANGE).iter();
        let Some(condition) = conditions.next() else { return Some(range) };
        if conditions.next().is_some() {
            return None;
        }
        let condition = condition.to_str().ok()?.trim();
        let holds = if condition.starts_with('"') || condition.starts_with("W/") {
            condition == self.etag
        } else {
            httpdate::parse_http_date(condition).ok().is_some_and(|date| Some(date) == self.modified)
        };
        holds.then_some(range)
    }
}

/// Whether `*` or any listed entity tag matches; None when the header is absent.
fn listed(headers: &HeaderMap, name: HeaderName, fits: impl Fn(&str) -> bool) -> Option<bool> {
    let mut values = headers.get_all(name).iter().peekable();
    values.peek()?;
    Some(values.filter_map(|value| value.to_str().ok()).any(|value| {
        // A tag may contain a comma, but ours never do: splitting at commas cannot produce a false match.
        value.trim() == "*" || value.split(',').any(|tag| fits(tag.trim()))
    }))
}

/// The date in a header that occurs once and is valid; None otherwise.
fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    httpdate::parse_http_date(value.to_str().ok()?.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).fold(
            HeaderMap::new(),
            |mut map, (name, value)| {
                map.append(name, value);
                map
            },
        )
    }

    #[test]
    fn preconditions_are_evaluated_in_the_order_of_the_rfc() {
        use Outcome::*;
        let modified = httpdate::parse_http_date("Sat, 29 Oct 1994 19:43:31 GMT").unwrap() + Duration::from_millis(700);
        let it = Validators::new("\"a-1\"", modified);
        let (at, before, after) =
            ("Sat, 29 Oct 1994 19:43:31 GMT", "Sat, 29 Oct 1994 19:43:30 GMT", "Saturday, 29-Oct-94 19:43:32 GMT");
        let table: &[(&[(&'static str, &str)], Outcome)] = &[
            (&[], Proceed),
            (&[("if-match", "\"a-1\"")], Proceed),
            (&[("if-match", "*")], Proceed),
            (&[("if-match", "\"x\", \"a-1\"")], Proceed),
            (&[("if-match", "\"x\""), ("if-match", "\"a-1\"")], Proceed),
            (&[("if-match", "W/\"a-1\"")], Failed),
            (&[("if-match", "\"x\"")], Failed),
            (&[("if-match", "a-1")], Failed),
            (&[("if-match", "\"a-1\""), ("if-unmodified-since", before)], Proceed),
            (&[("if-unmodified-since", before)], Failed),
            (&[("if-unmodified-since", at)], Proceed),
            (&[("if-unmodified-since", "yesterday")], Proceed),
            (&[("if-none-match", "\"a-1\"")], NotModified),
            (&[("if-none-match", "W/\"a-1\"")], NotModified),
            (&[("if-none-match", "*")], NotModified),
            (&[("if-none-match", "\"x\"")], Proceed),
            (&[("if-none-match", "\"x\""), ("if-modified-since", after)], Proceed),
            (&[("if-modified-since", at)], NotModified),
            (&[("if-modified-since", after)], NotModified),
            (&[("if-modified-since", before)], Proceed),
            (&[("if-modified-since", "soon")], Proceed),
            (&[("if-match", "\"x\""), ("if-none-match", "\"a-1\"")], Failed),
        ];
        for (lines, expected) in table {
            assert_eq!(it.evaluate(&headers(lines)), *expected, "{lines:?}");
        }
    }

    #[test]
    fn a_range_is_honoured_only_for_the_state_its_condition_names() {
        let modified = httpdate::parse_http_date("Sat, 29 Oct 1994 19:43:31 GMT").unwrap();
        let it = Validators::new("\"a-1\"", modified);
        let range = |condition: &[&str]| {
            let mut lines = vec![("range", "bytes=0-1")];
            lines.extend(condition.iter().map(|value| ("if-range", *value)));
            it.range(&headers(&lines)).is_some()
        };
        assert!(range(&[]) && range(&["\"a-1\""]) && range(&["Sat, 29 Oct 1994 19:43:31 GMT"]));
        assert!(!range(&["W/\"a-1\""]) && !range(&["\"x\""]) && !range(&["Sat, 29 Oct 1994 19:43:32 GMT"]));
        assert!(!range(&["a-1"]) && !range(&["\"a-1\"", "\"a-1\""]));
        assert_eq!(it.range(&headers(&[("range", "bytes=0-1"), ("range", "bytes=2-3")])), None);
    }
}
