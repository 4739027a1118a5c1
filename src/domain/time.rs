//! 90 kHz ticks and frame rates: the exact arithmetic of every grid. Instants of the two clocks of a channel.

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use serde::{Deserialize, Serialize};

/// A time or a duration in ticks of 90 kHz, the clock of MPEG transport streams (ISO/IEC 13818-1). Operators saturate: the
/// ends of the range stand for "always" and "never".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticks(pub i64);

impl Ticks {
    pub const PER_SECOND: i64 = 90_000;
    const PER_MS: i64 = Self::PER_SECOND / 1000;
    pub const ZERO: Self = Self(0);
    pub const MIN: Self = Self(i64::MIN);
    pub const MAX: Self = Self(i64::MAX);
    /// Timestamps of a stream have 33 bits and wrap after 26.5 hours.
    pub const WRAP: Self = Self(1 << 33);

    pub const fn from_ms(ms: i64) -> Self {
        Self(ms.saturating_mul(Self::PER_MS))
    }

    /// Rounded down to a whole tick.
    pub const fn from_nanos_floor(nanoseconds: u128) -> Self {
        Self((nanoseconds * Self::PER_SECOND as u128 / 1_000_000_000) as i64)
    }

    /// Rounded to the nearest tick.
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds * Self::PER_SECOND as f64).round() as i64)
    }

    /// From units of a clock with `timescale` units per second, rounded to the nearest tick.
    pub fn from_units(units: impl Into<i128>, timescale: impl Into<i128>) -> Self {
        Self(rescale(units, Self::PER_SECOND, timescale))
    }

    /// In units of a clock with `timescale` units per second, rounded to the nearest.
    pub fn to_units(self, timescale: impl Into<i128>) -> i64 {
        rescale(self.0, timescale, Self::PER_SECOND)
    }

    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / Self::PER_SECOND as f64
    }

    /// Milliseconds, rounded down.
    pub const fn as_ms_floor(self) -> i64 {
        self.0.div_euclid(Self::PER_MS)
    }

    /// Milliseconds, rounded to the nearest.
    pub const fn as_ms_rounded(self) -> i64 {
        Self(self.0 + Self::PER_MS / 2).as_ms_floor()
    }

    /// The 33 bits that a stream stores.
    pub const fn wrapped(self) -> Self {
        Self(self.0.rem_euclid(Self::WRAP.0))
    }

    /// How many whole steps fit, rounded down.
    pub const fn div_euclid(self, step: Self) -> i64 {
        self.0.div_euclid(step.0)
    }

    /// How many steps cover it, rounded up.
    pub const fn div_ceil(self, step: Self) -> i64 {
        -(-self.0).div_euclid(step.0)
    }

    pub const fn abs(self) -> Self {
        Self(self.0.saturating_abs())
    }
}

/// Implements an operator of two operands.
macro_rules! operator {
    ($trait:ident::$method:ident, |$a:ident: $left:ty, $b:ident: $right:ty| -> $output:ty { $value:expr }) => {
        impl $trait<$right> for $left {
            type Output = $output;

            fn $method(self, $b: $right) -> $output {
                let $a = self;
                $value
            }
        }
    };
}

operator!(Add::add, |a: Ticks, b: Ticks| -> Ticks { Ticks(a.0.saturating_add(b.0)) });
operator!(Sub::sub, |a: Ticks, b: Ticks| -> Ticks { Ticks(a.0.saturating_sub(b.0)) });
operator!(Mul::mul, |a: Ticks, factor: i64| -> Ticks { Ticks(a.0.saturating_mul(factor)) });
operator!(Div::div, |a: Ticks, divisor: i64| -> Ticks { Ticks(a.0 / divisor) });

impl Neg for Ticks {
    type Output = Self;

    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl AddAssign for Ticks {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// A frame rate as an exact fraction, frames per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FrameRate {
    pub num: u32,
    pub den: u32,
}

/// By the `frame_rate_code` of MPEG-2 video, from 1 on (ISO/IEC 13818-2 table 6-4).
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

    /// Start of frame `n`, rounded to the nearest tick.
    pub fn frame_start(self, n: u64) -> Ticks {
        Ticks::from_units(i128::from(n) * i128::from(self.den), self.num)
    }

    /// The frame on air at `time`: the largest n whose start is at or before it (half a frame of grace).
    pub fn frame_at(self, time: Ticks) -> u64 {
        rescale(time.0.max(0), self.num, i64::from(self.den) * Ticks::PER_SECOND) as u64
    }
}

/// `value * to / from`, rounded to the nearest; limited to a quarter of the range, so that sums of results do not overflow.
pub fn rescale(value: impl Into<i128>, to: impl Into<i128>, from: impl Into<i128>) -> i64 {
    let (value, to, from) = (value.into(), to.into(), from.into());
    let limit = i128::from(i64::MAX / 4);
    let (dividend, divisor) = (value * to * 2 + from, from * 2);
    // Of 64 bits, a division takes a small part of the time, and there are some for each sample of a film.
    let quotient = match (i64::try_from(dividend), i64::try_from(divisor)) {
        (Ok(dividend), Ok(divisor)) => dividend.div_euclid(divisor).into(),
        _ => dividend.div_euclid(divisor),
    };
    quotient.clamp(-limit, limit) as i64
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

        operator!(Add::add, |at: $name, ms: i64| -> $name { $name(at.0 + ms) });
        operator!(Sub::sub, |at: $name, ms: i64| -> $name { $name(at.0 - ms) });
        operator!(Sub::sub, |at: $name, earlier: $name| -> i64 { at.0 - earlier.0 });
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
    /// Converts an instant of a channel that has no clock: its channel time is wall-clock time.
    pub fn without_clock(at: ChannelMs) -> Self {
        Self(at.0)
    }
}

impl ChannelMs {
    /// Converts a wall-clock instant to the time of a channel that has no clock: the two are equal.
    pub fn without_clock(at: WallMs) -> Self {
        Self(at.0)
    }

    /// From a time since 1970, rounded down.
    pub fn from_ticks(ticks: Ticks) -> Self {
        Self(ticks.as_ms_floor())
    }

    /// The time since 1970.
    pub fn to_ticks(self) -> Ticks {
        Ticks::from_ms(self.0)
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
    fn ticks_are_rounded_as_named() {
        let milliseconds = |ticks| (Ticks(ticks).as_ms_floor(), Ticks(ticks).as_ms_rounded());
        assert_eq!([-46, -45, 44, 45].map(milliseconds), [(-1, -1), (-1, 0), (0, 0), (0, 1)]);
        assert_eq!([-1, 0, 1].map(|ticks| Ticks(ticks).div_euclid(Ticks(9))), [-1, 0, 0]);
        assert_eq!([-1, 0, 1].map(|ticks| Ticks(ticks).div_ceil(Ticks(9))), [0, 0, 1]);
        assert_eq!((Ticks(-1).wrapped(), Ticks::MIN - Ticks(1)), (Ticks::WRAP - Ticks(1), Ticks::MIN));
    }

    proptest::proptest! {
        #[test]
        fn a_rescaled_value_is_the_nearest_one_however_large(
            bits in 0u32..62, value in i64::MIN / 4..i64::MAX / 4, to in 1i64..1 << 32, from in 1i64..1 << 32,
        ) {
            let value = value >> bits;
            let (exact, result) = (i128::from(value) * i128::from(to), i128::from(rescale(value, to, from)));
            let limit = i128::from(i64::MAX / 4);
            let error = (exact - result * i128::from(from)) * 2;
            let is_nearest = -i128::from(from) <= error && error < i128::from(from);
            proptest::prop_assert!(is_nearest || result.abs() == limit);
        }
    }

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
