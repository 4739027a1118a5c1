//! Times of day as instants, across daylight saving time (DST): a time in the spring gap moves to the first valid instant, a
//! repeated time takes the earlier offset.

use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan};

use crate::domain::time::WallMs;

/// The instant of a time of day. A time that occurs twice (DST ends) means the earlier instant, one that is skipped (DST
/// begins) the first instant after the change.
pub fn instant_of(zone: &TimeZone, date: Date, minutes: u16) -> WallMs {
    let at = date.at((minutes / 60) as i8, (minutes % 60) as i8, 0, 0);
    let with_offset = |offset: jiff::tz::Offset| offset.to_timestamp(at).unwrap_or(Timestamp::MAX);
    let found = match zone.to_ambiguous_zoned(at).offset() {
        AmbiguousOffset::Unambiguous { offset } => with_offset(offset),
        AmbiguousOffset::Fold { before, .. } => with_offset(before),
        AmbiguousOffset::Gap { before, .. } => {
            // With the offset before the change it lies after the change, and no other change is nearer.
            let after_change = with_offset(before);
            zone.preceding(after_change + 1.second()).next().map_or(after_change, |change| change.timestamp())
        }
    };
    found.into()
}

/// The date of a day counted from 1970.
pub fn date_of_day(day: i64) -> Date {
    let days = i32::try_from(day).unwrap_or(i32::MAX).clamp(-300_000, 2_900_000);
    Date::constant(1970, 1, 1).saturating_add(days.days())
}

/// The broadcast day that contains an instant, counted from 1970.
pub fn broadcast_day(zone: &TimeZone, day_start: u16, at_ms: WallMs) -> i64 {
    let at = Timestamp::from_millisecond(at_ms.0).unwrap_or(Timestamp::MAX);
    let local = at_ms.0 + i64::from(zone.to_offset(at).seconds()) * 1000;
    let day = local.div_euclid(86_400_000);
    // DST may have ended since, so that the day has begun although its start time comes a second time.
    (day - 1..=day + 1).rev().find(|day| instant_of(zone, date_of_day(*day), day_start) <= at_ms).unwrap_or(day - 1)
}

/// The next instant, this one included, at which the minutes of the day are a multiple of `step_minutes`.
pub fn next_multiple(zone: &TimeZone, at_ms: WallMs, step_minutes: u16) -> WallMs {
    if step_minutes == 0 {
        return at_ms;
    }
    let at = Timestamp::from_millisecond(at_ms.0).unwrap_or(Timestamp::MAX);
    let offset = i64::from(zone.to_offset(at).seconds()) * 1000;
    let (local, step) = (at_ms.0 + offset, i64::from(step_minutes) * 60_000);
    let midnight = local.div_euclid(86_400_000) * 86_400_000;
    WallMs(midnight + (local - midnight + step - 1) / step * step - offset)
}
