//! Frame rates and 90 kHz ticks: the exact arithmetic of every grid. Instants of the two clocks of a channel.

use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// Ticks per second of an MPEG transport stream (ISO/IEC 13818-1).
pub const TICKS_PER_SECOND: i64 = 90_000;

/// A frame rate as an exact fraction, frames per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FrameRate {
    pub num: u32,
    pub den: u32,
}

pub const STANDARD_RATES: [FrameRate; 8] = [
    FrameRate { num: 24_000, den: 1001 },
    FrameRate { num: 24, den: 1 },
    FrameRate { num: 25, den: 1 },
    FrameRate { num: 30_000, den: 1001 },
    FrameRate { num: 30, den: 1 },
    FrameRate { num: 50, den: 1 },
    FrameRate { num: 60_000, den: 1001 },
    FrameRate { num: 60, den: 1 },
];

impl FrameRate {
    /// The standard rate nearest to a rounded one, e.g. 30000/1001 for 29.97.
    pub fn nearest_standard(rounded: f64) -> Option<Self> {
        STANDARD_RATES.into_iter().find(|rate| (rate.as_f64() - rounded).abs() < 0.005)
    }

    /// None when either part is zero.
    pub fn new(num: u32, den: u32) -> Option<Self> {
        (num > 0 && den > 0).then_some(Self { num, den })
    }

    pub fn as_f64(self) -> f64 {
        f64::from(self.num) / f64::from(self.den)
    }

    /// Start of frame `n` in ticks, rounded to the nearest.
    pub fn frame_start_ticks(self, n: u64) -> i64 {
        rescale(i128::from(n) * i128::from(self.den), TICKS_PER_SECOND, self.num)
    }

    /// The frame on air at `ticks`: the largest n whose start is at or before it (half a frame of grace).
    pub fn frame_at(self, ticks: i64) -> u64 {
        rescale(ticks.max(0), self.num, i64::from(self.den) * TICKS_PER_SECOND) as u64
    }
}

/// `value * to / from`, rounded to the nearest; limited to a quarter of the range, so that sums of results do not overflow.
pub fn rescale(value: impl Into<i128>, to: impl Into<i128>, from: impl Into<i128>) -> i64 {
    let (value, to, from) = (value.into(), to.into(), from.into());
    let limit = i128::from(i64::MAX / 4);
    (value * to * 2 + from).div_euclid(from * 2).clamp(-limit, limit) as i64
}

/// Seconds to ticks, rounded to the nearest.
pub fn to_ticks(seconds: f64) -> i64 {
    (seconds * TICKS_PER_SECOND as f64).round() as i64
}

pub fn to_seconds(ticks: i64) -> f64 {
    ticks as f64 / TICKS_PER_SECOND as f64
}

/// Defines instants of one clock, ms since 1970. Durations are `i64`, ms.
macro_rules! instant_ms {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl $name {
            pub const MIN: Self = Self(i64::MIN);
            pub const MAX: Self = Self(i64::MAX);

            pub fn saturating_add(self, ms: i64) -> Self {
                Self(self.0.saturating_add(ms))
            }

            pub fn saturating_sub(self, ms: i64) -> Self {
                Self(self.0.saturating_sub(ms))
            }

            /// Ms since an earlier instant.
            pub fn saturating_since(self, earlier: Self) -> i64 {
                self.0.saturating_sub(earlier.0)
            }
        }

        impl Add<i64> for $name {
            type Output = Self;

            fn add(self, ms: i64) -> Self {
                Self(self.0 + ms)
            }
        }

        impl Sub<i64> for $name {
            type Output = Self;

            fn sub(self, ms: i64) -> Self {
                Self(self.0 - ms)
            }
        }

        impl Sub for $name {
            type Output = i64;

            fn sub(self, earlier: Self) -> i64 {
                self.0 - earlier.0
            }
        }
    };
}

instant_ms! {
    /// A wall-clock instant, ms since 1970.
    WallMs
}

instant_ms! {
    /// An instant of a channel's own time, ms since 1970. It equals wall-clock time unless the channel has a clock of its own,
    /// and then only the [`ChannelClock`](super::channel_clock::ChannelClock) converts between the two.
    ChannelMs
}

impl From<jiff::Timestamp> for WallMs {
    fn from(at: jiff::Timestamp) -> Self {
        Self(at.as_millisecond())
    }
}

impl WallMs {
    /// The wall-clock time of a channel instant, for a channel without a clock of its own.
    pub fn without_clock(at: ChannelMs) -> Self {
        Self(at.0)
    }
}

impl ChannelMs {
    /// The channel time of a wall-clock instant, for a channel without a clock of its own.
    pub fn without_clock(at: WallMs) -> Self {
        Self(at.0)
    }

    /// From ticks since 1970, rounded down.
    pub fn from_ticks(ticks: i64) -> Self {
        Self(ticks.div_euclid(90))
    }

    /// Ticks since 1970.
    pub fn to_ticks(self) -> i64 {
        self.0.saturating_mul(90)
    }
}

/// How far ahead of the clock a stored time may be, seconds: a day. A time further ahead was written while the clock was
/// wrong.
const MAX_AHEAD_SECONDS: i64 = 86_400;

/// Whether a stored time is too far ahead of `now` to be true; both unix seconds.
pub fn is_too_far_ahead(at: i64, now: i64) -> bool {
    at.saturating_sub(now) > MAX_AHEAD_SECONDS
}

/// An instant as the API sends it: ISO 8601, UTC, milliseconds, `Z`.
pub fn format_timestamp(at: jiff::Timestamp) -> String {
    format!("{at:.3}")
}

/// Formats a file time like [`format_timestamp`]; a time beyond the range of the calendar becomes 1970-01-01.
pub fn file_instant(at: std::time::SystemTime) -> String {
    format_timestamp(jiff::Timestamp::try_from(at).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

/// Formats unix ms like [`format_timestamp`], without the cost of time zone handling: a guide has many times.
pub fn format_ms(ms: i64) -> String {
    std::str::from_utf8(&format_ms_bytes(ms)).unwrap_or_default().to_owned()
}

/// Formats unix ms like [`format_timestamp`], as bytes and without allocation.
pub fn format_ms_bytes(ms: i64) -> [u8; 24] {
    let (day, rest) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000) as u32);
    let (year, month, date) = civil_date(day);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let mut put = |at, value| write_two_digits(&mut text, at, value);
    put(0, year / 100);
    put(2, year % 100);
    put(5, month);
    put(8, date);
    put(11, rest / 3_600_000);
    put(14, rest / 60_000 % 60);
    put(17, rest / 1000 % 60);
    put(21, rest % 100);
    text[20] = b'0' + (rest / 100 % 10) as u8;
    text
}

/// Writes the last two digits of a number at a position of a text.
pub fn write_two_digits(text: &mut [u8], at: usize, value: u32) {
    text[at] = b'0' + (value / 10 % 10) as u8;
    text[at + 1] = b'0' + (value % 10) as u8;
}

/// Year, month and day of a day counted from 1970. Years are taken to begin in March, so that the leap day is the last.
pub fn civil_date(day: i64) -> (u32, u32, u32) {
    // Days since 1 March of the year 0; an era is 400 years.
    let day = (day + 719_468).clamp(0, 3_652_425);
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    ((era * 400 + year + next) as u32, month as u32, date as u32)
}

/// Seconds rounded to 1 ms, as the API sends them.
pub fn round_to_ms(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_those_of_the_calendar() {
        // Years 0 to 9999, at steps that cover every hour, day and month.
        for ms in (-62_135_596_800_000..253_370_764_800_000i64).step_by(86_399_977 * 331) {
            let expected = format_timestamp(jiff::Timestamp::from_millisecond(ms).unwrap());
            assert_eq!(format_ms(ms), expected);
        }
    }

    #[test]
    fn a_file_time_beyond_the_calendar_is_1970() {
        use std::time::{Duration, UNIX_EPOCH};
        for (at, text) in [
            (UNIX_EPOCH + Duration::from_micros(1_767_225_600_123_400), "2026-01-01T00:00:00.123Z"),
            (UNIX_EPOCH + Duration::from_secs(1 << 40), "1970-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(file_instant(at), text);
        }
    }
}
