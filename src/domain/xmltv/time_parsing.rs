//! Parses times and episode numbers of imported guides.

use jiff::civil::date;
use jiff::tz::TimeZone;

/// Minutes east of UTC of the time zones that guides name. An ambiguous name means the first zone that had it.
const NAMED_ZONES: [(i64, &str); 15] = [
    (0, "UTC GMT Z UT WET"),
    (60, "WEST BST CET MEZ"),
    (120, "CEST MESZ EET"),
    (180, "EEST MSK"),
    (540, "JST"),
    (600, "AEST"),
    (660, "AEDT"),
    (720, "NZST"),
    (-240, "EDT"),
    (-300, "EST CDT"),
    (-360, "CST MDT"),
    (-420, "MST PDT"),
    (-480, "PST"),
    (-540, "AKST"),
    (-600, "HST"),
];

/// Parses an instant to unix ms: `YYYYMMDDhhmmss +hhmm`; parts at the end may be missing. Without a zone or with an
/// unknown one it is UTC (as the XMLTV DTD says).
pub fn parse_time(text: &str) -> Option<i64> {
    let text = text.trim();
    // Not XMLTV, but it occurs: ISO 8601.
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(at.as_millisecond());
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits < 4 || digits % 2 != 0 {
        return None;
    }
    let part = |from: usize, absent: i8| match text.get(from..from + 2).filter(|_| digits >= from + 2) {
        Some(two) => two.parse().ok(),
        None => Some(absent),
    };
    let year: i16 = text[..4].parse().ok()?;
    let civil_date = valid_date(year, part(4, 1)?, part(6, 1)?)?;
    // Accepts a leap second, and 24 as the hour.
    let (hour, minute, second) = (part(8, 0)?, part(10, 0)?, part(12, 0)?.min(59));
    let (hour_of_day, next_day_ms) = if hour == 24 { (0, 86_400_000) } else { (hour, 0) };
    if hour_of_day > 23 || minute > 59 {
        return None;
    }
    let at = civil_date.at(hour_of_day, minute, second, 0).to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond();
    Some(at + next_day_ms - parse_zone_minutes(text[digits.min(text.len())..].trim()) * 60_000)
}

fn valid_date(year: i16, month: i8, day: i8) -> Option<jiff::civil::Date> {
    let valid = (1900..=2200).contains(&year) && (1..=12).contains(&month) && day >= 1;
    let month_days = valid.then(|| date(year, month, 1).days_in_month())?;
    (day <= month_days).then(|| date(year, month, day))
}

/// Parses a time zone to minutes east of UTC; 0 if it is unknown.
fn parse_zone_minutes(text: &str) -> i64 {
    let is_named = |names: &str| names.split(' ').any(|name| name.eq_ignore_ascii_case(text));
    if let Some((minutes, _)) = NAMED_ZONES.iter().find(|(_, names)| is_named(names)) {
        return *minutes;
    }
    let (sign, rest) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (_, Some(rest)) => (-1, rest),
        _ => return 0,
    };
    let digits: String = rest.chars().filter(char::is_ascii_digit).take(4).collect();
    let number: i64 = digits.parse().unwrap_or(0);
    let minutes = if digits.len() <= 2 { number * 60 } else { number / 100 * 60 + number % 100 };
    if minutes > 14 * 60 { 0 } else { sign * minutes }
}

/// Parses season and episode, counted from 1, from `xmltv_ns` (`1 . 4/12 . 0/1`, counted from 0) or `onscreen`
/// (`S02E05`).
pub fn parse_episode(system: &str, text: &str) -> (Option<u32>, Option<u32>) {
    if system.eq_ignore_ascii_case("xmltv_ns") {
        let mut parts = text.split('.').map(|part| {
            let number = part.split('/').next().unwrap_or_default().trim().parse::<u32>().ok();
            number.and_then(|number| number.checked_add(1)).filter(|number| *number < 100_000)
        });
        return (parts.next().flatten(), parts.next().flatten());
    }
    let text = text.trim().to_ascii_lowercase();
    let number = |from: usize| {
        let digits: String =
            text.get(from..).unwrap_or_default().chars().take_while(char::is_ascii_digit).take(5).collect();
        digits.parse::<u32>().ok()
    };
    let season = text.strip_prefix('s').and_then(|_| number(1));
    let episode = text.find('e').filter(|at| season.is_some() || *at == 0).and_then(|at| number(at + 1));
    (season.filter(|_| episode.is_some()), episode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_time_notations_are_parsed() {
        let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        for (text, expected) in [
            ("20260329003000 +0100", "2026-03-28T23:30:00Z"),
            ("20260329040000 +0200", "2026-03-29T02:00:00Z"),
            ("20260101", "2026-01-01T00:00:00Z"),
            ("2026", "2026-01-01T00:00:00Z"),
            ("202601010630", "2026-01-01T06:30:00Z"),
            ("20260101070000 EST", "2026-01-01T12:00:00Z"),
            ("20260101080000 -0500", "2026-01-01T13:00:00Z"),
            ("20260101080000 -05:30", "2026-01-01T13:30:00Z"),
            ("20260101080000+01", "2026-01-01T07:00:00Z"),
            (" 20260101080000 XYZ ", "2026-01-01T08:00:00Z"),
            ("20010829000500 BST", "2001-08-28T23:05:00Z"),
            ("20260101240000", "2026-01-02T00:00:00Z"),
            ("20260630235960", "2026-06-30T23:59:59Z"),
            ("2026-01-01T08:00:00+01:00", "2026-01-01T07:00:00Z"),
            ("20260101080000 +9999", "2026-01-01T08:00:00Z"),
        ] {
            assert_eq!(parse_time(text), Some(at(expected)), "{text}");
        }
        for wrong in
            ["", "now", "20261301", "20260230", "20260101250000", "20260101006100", "99999999999999", "202", "é"]
        {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn episodes_are_counted_from_one() {
        for (system, text, expected) in [
            ("xmltv_ns", "1 . 4/12 . 0/1", (Some(2), Some(5))),
            ("xmltv_ns", ".4.", (None, Some(5))),
            ("xmltv_ns", "1..", (Some(2), None)),
            ("xmltv_ns", "x", (None, None)),
            ("onscreen", "S02E05", (Some(2), Some(5))),
            ("onscreen", "s2 e5", (Some(2), Some(5))),
            ("onscreen", "E7", (None, Some(7))),
            ("onscreen", "Series 2", (None, None)),
            ("dd_progid", "EP123456789012", (None, None)),
        ] {
            assert_eq!(parse_episode(system, text), expected, "{system} {text}");
        }
    }
}
