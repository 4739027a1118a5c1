//! The clock of a file with timestamp discontinuities: joined recordings, a restarted receiver, another programme.
//!
//! The file is taken as pieces within which the clock is continuous. Source time is the sum of the pieces: the offset of a
//! piece makes it begin where the piece before it ends.

use serde::{Deserialize, Serialize};

use super::WRAP;
use super::packet::LEN;
use super::shift::shift_packet;
use crate::domain::time::TICKS_PER_SECOND;

/// Source times span one turn of the 33 bits, starting this long before 0, because audio may precede the first video
/// frame.
const BEFORE_START: i64 = 3600 * TICKS_PER_SECOND;

/// A range of bytes with a continuous clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Offset of its first byte in the file.
    #[serde(rename = "at")]
    pub at: u64,
    /// Added to its timestamps to get source time, ticks of 90 kHz, modulo 2^33.
    #[serde(rename = "shift")]
    pub shift: i64,
}

/// The shift for a packet at byte offset `at`, ticks. The pieces must be in order.
pub fn shift_at(pieces: &[Piece], at: u64) -> i64 {
    let after = pieces.partition_point(|piece| piece.at <= at);
    pieces.get(after.saturating_sub(1)).map_or(0, |piece| piece.shift)
}

/// Source time of a timestamp at byte offset `at`, ticks. Correct for items of up to 25 hours.
pub fn source_time(pieces: &[Piece], at: u64, timestamp: i64) -> i64 {
    (timestamp + shift_at(pieces, at) + BEFORE_START).rem_euclid(WRAP) - BEFORE_START
}

/// Rewrites the timestamps of the packet at byte offset `at` to source time plus `by` ticks.
pub fn repair(pieces: &[Piece], at: u64, by: i64, packet: &mut [u8; LEN]) {
    shift_packet(packet, shift_at(pieces, at) + by);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_time_is_the_sum_of_the_pieces() {
        let second = TICKS_PER_SECOND;
        // 10 s starting at 5000 s, then 12 s starting at 100 s, then 8 s across the wrap of the 33 bits.
        let pieces = [
            Piece { at: 0, shift: -5000 * second },
            Piece { at: 1000, shift: -90 * second },
            Piece { at: 2000, shift: 22 * second - (WRAP - 3 * second) },
        ];
        let time = |at, timestamp: i64| source_time(&pieces, at, timestamp.rem_euclid(WRAP));
        assert_eq!(time(0, 5000 * second), 0);
        assert_eq!(time(999, 5009 * second), 9 * second);
        assert_eq!(time(1000, 100 * second), 10 * second);
        assert_eq!(time(2000, -3 * second), 22 * second);
        assert_eq!(time(2500, 4 * second), 29 * second);
        assert_eq!(time(0, 4999 * second), -second);
        assert_eq!(source_time(&[], 7, 90), 90);
    }
}
