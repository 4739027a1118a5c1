//! The clock of a file with timestamp discontinuities: joined recordings, a restarted receiver, another programme.
//!
//! The file is taken as sections within which the clock is continuous. Source time is the sum of the sections: the shift of
//! a section makes it begin where the section before it ends.

use serde::{Deserialize, Serialize};

use super::TIMESTAMP_WRAP;
use super::packet::PACKET_LEN;
use super::timestamp_shift::shift_packet;
use crate::domain::time::TICKS_PER_SECOND;

/// Source times span one turn of the 33 bits, starting this long before 0, because audio may precede the first video
/// frame.
const MAX_BEFORE_START: i64 = 3600 * TICKS_PER_SECOND;

/// A range of bytes with a continuous clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockSection {
    #[serde(rename = "at")]
    pub start_byte: u64,
    /// Added to its timestamps to get source time, ticks of 90 kHz, modulo 2^33.
    #[serde(rename = "shift")]
    pub shift_ticks: i64,
}

/// The shift for a packet at this byte offset, ticks. The sections must be in order.
fn shift_at(sections: &[ClockSection], byte: u64) -> i64 {
    let next = sections.partition_point(|section| section.start_byte <= byte);
    sections.get(next.saturating_sub(1)).map_or(0, |section| section.shift_ticks)
}

/// Source time of a timestamp at this byte offset, ticks. Correct for items of up to 25 hours.
pub fn source_time(sections: &[ClockSection], byte: u64, timestamp: i64) -> i64 {
    (timestamp + shift_at(sections, byte) + MAX_BEFORE_START).rem_euclid(TIMESTAMP_WRAP) - MAX_BEFORE_START
}

/// Rewrites the timestamps of the packet at this byte offset to source time plus `ticks`.
pub fn shift_to_source_time(sections: &[ClockSection], byte: u64, ticks: i64, packet: &mut [u8; PACKET_LEN]) {
    shift_packet(packet, shift_at(sections, byte) + ticks);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_time_is_the_sum_of_the_sections() {
        let second = TICKS_PER_SECOND;
        // 10 s starting at 5000 s, then 12 s starting at 100 s, then 8 s across the wrap of the 33 bits.
        let sections = [
            ClockSection { start_byte: 0, shift_ticks: -5000 * second },
            ClockSection { start_byte: 1000, shift_ticks: -90 * second },
            ClockSection { start_byte: 2000, shift_ticks: 22 * second - (TIMESTAMP_WRAP - 3 * second) },
        ];
        let time = |at, timestamp: i64| source_time(&sections, at, timestamp.rem_euclid(TIMESTAMP_WRAP));
        assert_eq!(time(0, 5000 * second), 0);
        assert_eq!(time(999, 5009 * second), 9 * second);
        assert_eq!(time(1000, 100 * second), 10 * second);
        assert_eq!(time(2000, -3 * second), 22 * second);
        assert_eq!(time(2500, 4 * second), 29 * second);
        assert_eq!(time(0, 4999 * second), -second);
        assert_eq!(source_time(&[], 7, 90), 90);
    }
}
