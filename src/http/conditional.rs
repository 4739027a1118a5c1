//! Conditional requests (`If-None-Match`, `If-Match`, `If-Range`; RFC 9110 section 13), for responses with a strong ETag.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};

/// The result of evaluating the preconditions of a `GET` or `HEAD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreconditionResult {
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
        let since_epoch = modified.duration_since(SystemTime::UNIX_EPOCH).ok();
        Self { etag, modified: since_epoch.map(|age| SystemTime::UNIX_EPOCH + Duration::from_secs(age.as_secs())) }
    }

    /// Evaluates the preconditions in the order of section 13.2.2.
    pub fn evaluate(&self, headers: &HeaderMap) -> PreconditionResult {
        if let Some(matched) = any_tag_matches(headers, IF_MATCH, |tag| tag == self.etag) {
            if !matched {
                return PreconditionResult::Failed;
            }
        } else if let (Some(limit), Some(modified)) = (date_header(headers, IF_UNMODIFIED_SINCE), self.modified)
            && modified > limit
        {
            return PreconditionResult::Failed;
        }
        if let Some(matched) =
            any_tag_matches(headers, IF_NONE_MATCH, |tag| tag.strip_prefix("W/").unwrap_or(tag) == self.etag)
        {
            if matched {
                return PreconditionResult::NotModified;
            }
        } else if let (Some(since), Some(modified)) = (date_header(headers, IF_MODIFIED_SINCE), self.modified)
            && modified <= since
        {
            return PreconditionResult::NotModified;
        }
        PreconditionResult::Proceed
    }

    /// The range to honour: a single `Range` header whose `If-Range`, if any, matches these validators exactly.
    pub fn applicable_range<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let mut ranges = headers.get_all(RANGE).iter();
        let range = ranges.next().filter(|_| ranges.next().is_none())?.to_str().ok()?;
        let mut conditions = headers.get_all(IF_RANGE).iter();
        let Some(condition) = conditions.next() else { return Some(range) };
        if conditions.next().is_some() {
            return None;
        }
        let condition = condition.to_str().ok()?.trim();
        let is_match = if condition.starts_with('"') || condition.starts_with("W/") {
            condition == self.etag
        } else {
            httpdate::parse_http_date(condition).ok().is_some_and(|date| Some(date) == self.modified)
        };
        is_match.then_some(range)
    }
}

/// Whether `*` or any listed entity tag matches; None when the header is absent.
fn any_tag_matches(headers: &HeaderMap, name: HeaderName, matches_tag: impl Fn(&str) -> bool) -> Option<bool> {
    let mut values = headers.get_all(name).iter().peekable();
    values.peek()?;
    Some(values.filter_map(|value| value.to_str().ok()).any(|value| {
        // A tag may contain a comma, but ours never do: splitting at commas cannot produce a false match.
        value.trim() == "*" || value.split(',').any(|tag| matches_tag(tag.trim()))
    }))
}

/// The date in a header that occurs once and is valid; None otherwise.
fn date_header(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    httpdate::parse_http_date(value.to_str().ok()?.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn preconditions_are_evaluated_in_the_order_of_the_rfc() {
        use PreconditionResult::*;
        let modified = httpdate::parse_http_date("Sat, 29 Oct 1994 19:43:31 GMT").unwrap() + Duration::from_millis(700);
        let validators = Validators::new("\"a-1\"", modified);
        let (exact, before, after) =
            ("Sat, 29 Oct 1994 19:43:31 GMT", "Sat, 29 Oct 1994 19:43:30 GMT", "Saturday, 29-Oct-94 19:43:32 GMT");
        let table: &[(&[(&'static str, &str)], PreconditionResult)] = &[
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
            (&[("if-unmodified-since", exact)], Proceed),
            (&[("if-unmodified-since", "yesterday")], Proceed),
            (&[("if-none-match", "\"a-1\"")], NotModified),
            (&[("if-none-match", "W/\"a-1\"")], NotModified),
            (&[("if-none-match", "*")], NotModified),
            (&[("if-none-match", "\"x\"")], Proceed),
            (&[("if-none-match", "\"x\""), ("if-modified-since", after)], Proceed),
            (&[("if-modified-since", exact)], NotModified),
            (&[("if-modified-since", after)], NotModified),
            (&[("if-modified-since", before)], Proceed),
            (&[("if-modified-since", "soon")], Proceed),
            (&[("if-match", "\"x\""), ("if-none-match", "\"a-1\"")], Failed),
        ];
        for (lines, expected) in table {
            assert_eq!(validators.evaluate(&headers(lines)), *expected, "{lines:?}");
        }
    }

    #[test]
    fn a_range_is_honoured_only_for_the_state_its_condition_names() {
        let modified = httpdate::parse_http_date("Sat, 29 Oct 1994 19:43:31 GMT").unwrap();
        let validators = Validators::new("\"a-1\"", modified);
        let honours = |condition: &[&str]| {
            let mut lines = vec![("range", "bytes=0-1")];
            lines.extend(condition.iter().map(|value| ("if-range", *value)));
            validators.applicable_range(&headers(&lines)).is_some()
        };
        assert!(honours(&[]) && honours(&["\"a-1\""]) && honours(&["Sat, 29 Oct 1994 19:43:31 GMT"]));
        assert!(!honours(&["W/\"a-1\""]) && !honours(&["\"x\""]) && !honours(&["Sat, 29 Oct 1994 19:43:32 GMT"]));
        assert!(!honours(&["a-1"]) && !honours(&["\"a-1\"", "\"a-1\""]));
        assert_eq!(validators.applicable_range(&headers(&[("range", "bytes=0-1"), ("range", "bytes=2-3")])), None);
    }
}
