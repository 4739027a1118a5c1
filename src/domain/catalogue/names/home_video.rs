//! Videos of cameras and telephones: their names have numbers and dates.

use super::episode_number::{EpisodeNumber, valid_date};
use super::scan::{is_word_start, number_at};
use super::{ItemKind, Names};
use jiff::civil::Date;

/// Beginnings of the names that cameras give, before a number.
const PREFIXES: [&str; 19] = [
    "img",
    "vid",
    "mvi",
    "mov",
    "dsc",
    "dscf",
    "dscn",
    "pxl",
    "gopr",
    "gx",
    "gh",
    "gp",
    "dji",
    "mah",
    "p",
    "wp",
    "signal",
    "video",
    "whatsapp video",
];

pub(super) fn parse(stem: &str) -> Names {
    let date = EpisodeNumber::find_date(stem).and_then(|number| number.aired_on).or_else(|| compact_date(stem));
    Names { aired_on: date, ..Names::new(ItemKind::HomeVideo, stem.replace('_', " ").trim().to_owned()) }
}

/// `IMG_1234`, `VID_20190714_123456`, `20190714_123456`.
pub(super) fn is_camera_name(stem: &str) -> bool {
    let lower = stem.to_ascii_lowercase();
    let letters = lower.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    let prefix: &str = lower.split(|c: char| c.is_ascii_digit()).next().unwrap_or("");
    let rest = &lower[prefix.len()..];
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    let is_plain = rest.bytes().all(|byte| !byte.is_ascii_alphabetic());
    let is_whatsapp = rest.split("-wa").nth(1).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let has_prefix = PREFIXES.contains(&prefix.trim_end_matches(['_', '-', ' ']));
    if has_prefix {
        return digits >= 4 && (is_plain || is_whatsapp) && !(prefix == "p" && digits < 7);
    }
    letters.is_empty() && digits >= 8 && compact_date(stem).is_some()
}

/// Eight digits that are a day: `20190714`.
fn compact_date(stem: &str) -> Option<Date> {
    let text = stem.as_bytes();
    (0..text.len()).filter(|at| is_word_start(text, *at)).find_map(|at| {
        let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (day, _) = number_at(&text[..at + digits.min(8)], at, 8..=8)?;
        valid_date(day / 10_000, day / 100 % 100, day % 100).filter(|date| date.year() >= 1970)
    })
}
