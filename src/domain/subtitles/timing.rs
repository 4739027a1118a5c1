//! Parses times of SRT and WebVTT leniently.

/// Parses `[[H…]H:]M:S[,.]fff` to milliseconds. None for anything else, including negative times and minutes or seconds
/// over 59.
pub fn parse_time(text: &str) -> Option<i64> {
    let (whole_seconds, fraction) = match text.trim().split_once([',', '.']) {
        Some((whole, fraction)) => (whole, parse_fraction(fraction)?),
        None => (text.trim(), 0),
    };
    let mut parts = whole_seconds.split(':').map(parse_number);
    let (first, second, third) = (parts.next()??, parts.next()??, parts.next());
    let (hours, minutes, seconds) = match third {
        Some(seconds) => (first, second, seconds?),
        None => (0, first, second),
    };
    if parts.next().is_some() || hours > 9999 || minutes > 59 || seconds > 59 {
        return None;
    }
    Some(((hours * 60 + minutes) * 60 + seconds) * 1000 + fraction)
}

/// Parses one to four digits; surrounding blanks are allowed.
fn parse_number(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// Parses the digits after the decimal point: `5` is 500 ms, `0419` is 41 ms.
fn parse_fraction(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.len() > 9 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.bytes().chain(*b"000").take(3).fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}

/// Parses `start --> end rest`: both times and the text after them.
pub fn parse_timing_line(text: &str) -> Option<(i64, i64, &str)> {
    let (start, rest) = text.split_once("-->")?;
    let rest = rest.trim_start();
    let (end, rest) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
    Some((parse_time(start)?, parse_time(end)?, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_read_generously_but_not_wrongly() {
        for (text, ms) in [
            ("00:00:01,000", Some(1000)),
            ("00:01.5", Some(1500)),
            ("1:02:03", Some(3_723_000)),
            ("100:00:00.000", Some(360_000_000)),
            (" 00:00,000 ", Some(0)),
            ("00:00:59,9999", Some(59_999)),
            ("99:99:99,999", None),
            ("-1:00:00,000", None),
            ("00:60:00", None),
            ("12", None),
            ("1:2:3:4", None),
            ("00:00:01,-5", None),
            ("99999:00:00", None),
            ("", None),
        ] {
            assert_eq!(parse_time(text), ms, "{text}");
        }
    }

    #[test]
    fn a_timing_line_may_lack_blanks_and_carry_settings() {
        assert_eq!(parse_timing_line("00:00:01,000-->00:00:02,000"), Some((1000, 2000, "")));
        let line = "00:01.000 --> 00:02.000 line:0  align:start";
        assert_eq!(parse_timing_line(line), Some((1000, 2000, "line:0  align:start")));
        assert_eq!(parse_timing_line("--> --> -->"), None);
        assert_eq!(parse_timing_line("a --> b"), None);
    }
}
