//! Writes text and times for XMLTV.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::domain::time::{civil_date, write_two_digits};

/// Writes text with XML escapes. Characters that XML 1.0 cannot represent (section 2.2) are dropped.
pub fn escape(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut copied_to = 0;
    let mut at = 0;
    while at < bytes.len() {
        let (replacement, source_len): (&[u8], usize) = match bytes[at] {
            b'&' => (b"&amp;", 1),
            b'<' => (b"&lt;", 1),
            b'>' => (b"&gt;", 1),
            b'"' => (b"&quot;", 1),
            // XML parsers turn them into spaces in attributes anyway.
            b'\t' | b'\n' | b'\r' => (b" ", 1),
            0..=0x1f => (b"", 1),
            // U+FFFE and U+FFFF.
            0xef if bytes[at + 1] == 0xbf && bytes[at + 2] >= 0xbe => (b"", 3),
            _ => {
                at += 1;
                continue;
            }
        };
        out.extend_from_slice(&bytes[copied_to..at]);
        out.extend_from_slice(replacement);
        at += source_len;
        copied_to = at;
    }
    out.extend_from_slice(&bytes[copied_to..]);
}

/// Writes an instant as `YYYYMMDDhhmmss +hhmm`, rounded down to the second.
pub fn write_time(out: &mut Vec<u8>, at_ms: i64, zone: Option<&TimeZone>) {
    let seconds = at_ms.div_euclid(1000);
    let offset = zone
        .zip(Timestamp::from_second(seconds).ok())
        .map_or(0, |(zone, at)| i64::from(zone.to_offset(at).seconds()) / 60);
    let local = seconds + offset * 60;
    let (day, rest) = (local.div_euclid(86_400), local.rem_euclid(86_400) as u32);
    let (year, month, date) = civil_date(day);
    let mut text = *b"00000000000000 +0000";
    let mut put = |at, value| write_two_digits(&mut text, at, value);
    put(0, year / 100);
    put(2, year % 100);
    put(4, month);
    put(6, date);
    put(8, rest / 3600);
    put(10, rest / 60 % 60);
    put(12, rest % 60);
    let offset_minutes = offset.unsigned_abs() as u32;
    put(16, offset_minutes / 60);
    put(18, offset_minutes % 60);
    if offset < 0 {
        text[15] = b'-';
    }
    out.extend_from_slice(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_match_the_calendar() {
        let zones = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Australia/Lord_Howe"];
        let zones = zones.map(|name| TimeZone::get(name).unwrap());
        // From 1900 to 2200, in steps that hit every hour and both sides of every clock change.
        for at in (-2_208_988_800_000..7_258_118_400_000i64).step_by(1_000_003 * 977) {
            let instant = Timestamp::from_millisecond(at).unwrap();
            for zone in &zones {
                let local = zone.to_offset(instant).seconds() % 60 == 0;
                let expected = instant.to_zoned(zone.clone()).strftime("%Y%m%d%H%M%S %z").to_string();
                let mut text = Vec::new();
                write_time(&mut text, at, Some(zone));
                // Historical offsets have seconds, which XMLTV cannot express.
                assert!(!local || text == expected.as_bytes(), "{expected} {:?}", String::from_utf8_lossy(&text));
            }
        }
        let mut text = Vec::new();
        write_time(&mut text, 1_787_508_000_999, None);
        assert_eq!(text, b"20260823180000 +0000");
    }

    #[test]
    fn characters_invalid_in_xml_are_dropped() {
        let mut out = Vec::new();
        escape(&mut out, "a<b> & \"c\"\u{0}\u{1f}\u{fffe}\u{ffff}\u{fffd}\u{7f}\r\n\tö🎬]]>");
        assert_eq!(String::from_utf8(out).unwrap(), "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}\u{7f}   ö🎬]]&gt;");
    }
}
