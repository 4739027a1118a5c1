//! Byte ranges: the `Range` header of a request (RFC 9110 section 14), held against a file's length.

/// The result of a `Range` header for a representation of a given length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolvedRange {
    /// No range, or one that must be ignored: all bytes, with 200.
    Whole,
    /// One range of bytes, with 206.
    Part(ByteRange),
    /// No existing byte, with 416.
    Unsatisfiable,
}

/// Bytes `first` to `last`, both included; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    pub first: u64,
    pub last: u64,
}

impl ByteRange {
    #[allow(clippy::len_without_is_empty, reason = "a byte range is never empty")]
    pub fn len(self) -> u64 {
        self.last - self.first + 1
    }
}

/// Maximum number of ranges in one header (RFC 9110 section 17.15); more are ignored.
const MAX_RANGES: usize = 32;

/// One element of a range set, before the length is known.
#[derive(Clone, Copy)]
enum RangeSpec {
    Between(u64, u64),
    Last(u64),
}

/// Parses a `Range` value for a representation of `len` bytes.
///
/// Several ranges are joined if they touch or overlap, and ignored otherwise: section 14.2 allows that, no player sends
/// them, and a multipart response could cost far more than the file. A malformed set and an unknown unit are ignored too.
/// Numbers too large for 64 bits count as past every end.
pub fn resolve_range(header: &str, len: u64) -> ResolvedRange {
    let Some(set) = range_set(header) else { return ResolvedRange::Whole };
    let mut ranges: Vec<ByteRange> = Vec::new();
    let (mut has_elements, mut has_empty_suffix) = (false, false);
    for (index, element) in range_elements(set).enumerate() {
        let Some(spec) = parse_spec(element).filter(|_| index < MAX_RANGES) else { return ResolvedRange::Whole };
        has_elements = true;
        match spec {
            RangeSpec::Between(first, _) if first >= len => {}
            RangeSpec::Between(first, last) => ranges.push(ByteRange { first, last: last.min(len - 1) }),
            RangeSpec::Last(0) => {}
            // Satisfiable by section 14.1.2, but `Content-Range` cannot express an empty range.
            RangeSpec::Last(_) if len == 0 => has_empty_suffix = true,
            RangeSpec::Last(count) => ranges.push(ByteRange { first: len.saturating_sub(count), last: len - 1 }),
        }
    }
    ranges.sort_unstable_by_key(|span| span.first);
    let mut ranges = ranges.into_iter();
    let Some(mut joined) = ranges.next() else {
        return if has_elements && !has_empty_suffix { ResolvedRange::Unsatisfiable } else { ResolvedRange::Whole };
    };
    for range in ranges {
        if range.first > joined.last.saturating_add(1) {
            return ResolvedRange::Whole;
        }
        joined.last = joined.last.max(range.last);
    }
    ResolvedRange::Part(joined)
}

/// The part after the unit; None for a unit other than bytes.
fn range_set(header: &str) -> Option<&str> {
    let (unit, set) = header.split_once('=')?;
    unit.trim().eq_ignore_ascii_case("bytes").then_some(set)
}

fn range_elements(set: &str) -> impl Iterator<Item = &str> {
    set.split(',').map(|element| element.trim_matches([' ', '\t'])).filter(|element| !element.is_empty())
}

/// None if the whole header must be ignored.
fn parse_spec(element: &str) -> Option<RangeSpec> {
    let (first, last) = element.split_once('-')?;
    Some(match (first, last) {
        ("", count) => RangeSpec::Last(parse_number(count)?),
        (first, "") => RangeSpec::Between(parse_number(first)?, u64::MAX),
        (first, last) => {
            let (first, last) = (parse_number(first)?, parse_number(last)?);
            (first <= last).then_some(RangeSpec::Between(first, last))?
        }
    })
}

/// Digits only; an overflow becomes the maximum.
fn parse_number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn part(first: u64, last: u64) -> ResolvedRange {
        ResolvedRange::Part(ByteRange { first, last })
    }

    #[test]
    fn each_form_is_read_as_the_rfc_says() {
        let whole = ResolvedRange::Whole;
        let unsatisfiable = ResolvedRange::Unsatisfiable;
        let table: [(u64, ResolvedRange, &[&str]); 17] = [
            (1000, part(0, 499), &["bytes=0-499"]),
            (1000, part(500, 999), &["bytes=500-999", "bytes=500-", "bytes=-500"]),
            (1000, part(0, 0), &["bytes=0-0"]),
            (1000, part(999, 999), &["bytes=-1"]),
            (1000, part(0, 999), &["bytes=-5000", "bytes=0-18446744073709551615", "bytes=0-99999999999999999999999"]),
            (1000, part(0, 999), &["bytes=-99999999999999999999999"]),
            (1000, part(990, 999), &["bytes=990-1009"]),
            (1000, part(1, 2), &["BYTES=1-2", "bytes= 1-2 ", "bytes=1-2,", "bytes=,1-2"]),
            (1000, unsatisfiable, &["bytes=1000-", "bytes=1000-1001", "bytes=99999999999999999999999-", "bytes=-0"]),
            (1000, unsatisfiable, &["bytes=2000-,3000-"]),
            (0, unsatisfiable, &["bytes=0-", "bytes=0-0"]),
            (0, whole, &["bytes=-5"]),
            (u64::MAX, part(0, u64::MAX - 1), &["bytes=0-"]),
            (1000, whole, &["bytes=5-2", "bytes=", "bytes=,", "bytes", "bytes=a-b", "bytes=1", "bytes=-"]),
            (1000, whole, &["bytes=+1-2", "bytes=1-2-3", "bytes=0x1-2", "seconds=1-2", "", "bytes=0-9,20-29"]),
            (1000, part(0, 19), &["bytes=0-9,10-19", "bytes=10-19, 0-14"]),
            (1000, part(0, 9), &["bytes=0-9,2000-", "bytes=0-9,-0"]),
        ];
        for (len, expected, headers) in table {
            for header in headers {
                assert_eq!(resolve_range(header, len), expected, "{header} of {len}");
            }
        }
        let many = format!("bytes={}", vec!["0-9"; 33].join(","));
        assert_eq!(resolve_range(&many, 1000), ResolvedRange::Whole);
    }

    proptest! {
        /// One range selects exactly the bytes that a check of every index selects.
        #[test]
        fn one_range_equals_a_walk_over_every_index(len in 0u64..50, first in 0u64..60, last in 0u64..60, form in 0..3) {
            let (header, keep): (String, Box<dyn Fn(u64) -> bool>) = match form {
                0 => (format!("bytes={first}-"), Box::new(move |at| at >= first)),
                1 => (format!("bytes=-{last}"), Box::new(move |at| at + last >= len)),
                _ => (format!("bytes={first}-{last}"), Box::new(move |at| (first..=last).contains(&at))),
            };
            let kept: Vec<u64> = (0..len).filter(|at| keep(*at)).collect();
            match resolve_range(&header, len) {
                ResolvedRange::Part(span) => {
                    prop_assert_eq!((span.first..=span.last).collect::<Vec<_>>(), kept.clone());
                    prop_assert_eq!(span.len(), kept.len() as u64);
                }
                ResolvedRange::Unsatisfiable => prop_assert!(kept.is_empty()),
                ResolvedRange::Whole => prop_assert!((form == 2 && first > last) || (form == 1 && len == 0 && last > 0)),
            }
        }

        /// Several ranges are joined exactly when the bytes they select have no gap.
        #[test]
        fn several_ranges_join_exactly_when_they_leave_no_hole(
            len in 1u64..40,
            pairs in prop::collection::vec((0u64..45, 0u64..10), 1..6),
        ) {
            let specs: Vec<String> = pairs.iter().map(|(first, more)| format!("{first}-{}", first + more)).collect();
            let picked: Vec<u64> =
                (0..len).filter(|at| pairs.iter().any(|(first, more)| (*first..=first + more).contains(at))).collect();
            let hole = picked.windows(2).any(|pair| pair[1] != pair[0] + 1);
            let expected = match (picked.first(), hole) {
                (None, _) => ResolvedRange::Unsatisfiable,
                (Some(_), true) => ResolvedRange::Whole,
                (Some(first), false) => part(*first, *picked.last().unwrap()),
            };
            prop_assert_eq!(resolve_range(&format!("bytes={}", specs.join(", ")), len), expected);
        }

        /// No text and no length makes it panic or leave the file.
        #[test]
        fn no_text_leaves_the_file(header in "(bytes=)?[0-9,\\- ]{0,60}|.{0,40}", len in any::<u64>()) {
            if let ResolvedRange::Part(span) = resolve_range(&header, len) {
                prop_assert!(span.first <= span.last && span.last < len);
            }
        }
    }
}
