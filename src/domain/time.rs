//! Frame rates and 90 kHz ticks: the exact arithmetic under every grid.

use serde::{Deserialize, Serialize};

/// Ticks a second of an MPEG transport stream (ISO/IEC 13818-1).
pub const TICKS_PER_SECOND: i64 = 90_000;

/// A frame rate as an exact fraction, frames a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FrameRate {
    pub num: u32,
    pub den: u32,
}

impl FrameRate {
    /// None when either part is zero.
    pub fn new(num: u32, den: u32) -> Option<Self> {
        (num > 0 && den > 0).then_some(Self { num, den })
    }

    pub fn as_f64(self) -> f64 {
        f64::from(self.num) / f64::from(self.den)
    }

    /// Start of frame `n` in ticks, rounded to the nearest.
    pub fn ticks_of(self, n: u64) -> i64 {
        let numerator = i128::from(n) * i128::from(self.den) * i128::from(TICKS_PER_SECOND);
        let num = i128::from(self.num);
        ((numerator * 2 + num) / (num * 2)) as i64
    }

    /// The frame on air at `ticks`: the largest n whose start is at or before it (half a frame of grace).
    pub fn frame_near(self, ticks: i64) -> u64 {
        let numerator = i128::from(ticks.max(0)) * i128::from(self.num) * 2;
        let step = i128::from(self.den) * i128::from(TICKS_PER_SECOND);
        ((numerator + step) / (step * 2)) as u64
    }
}

/// Seconds to ticks, rounded to the nearest.
pub fn ticks(seconds: f64) -> i64 {
    (seconds * TICKS_PER_SECOND as f64).round() as i64
}

/// Ticks to seconds.
pub fn seconds(ticks: i64) -> f64 {
    ticks as f64 / TICKS_PER_SECOND as f64
}

/// An instant as the contract sends it: ISO 8601, UTC, milliseconds, `Z`.
pub fn instant(at: jiff::Timestamp) -> String {
    format!("{at:.3}")
}

/// Seconds rounded to 1 ms, as the contract sends them.
pub fn round_ms(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}
