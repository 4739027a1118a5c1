//! The clock of a file with timestamp discontinuities: joined recordings, a restarted receiver, another programme.
//!
//! The file is taken as sections within which the clock is continuous. Source time is the sum of the sections: the shift of
//! a section makes it begin where the section before it ends.

use serde::{Deserialize, Serialize};

use super::packet::PACKET_LEN;
use super::timestamp_shift::shift_packet;
use crate::domain::time::Ticks;

/// Source times span one turn of the 33 bits, starting this long before 0, because audio may precede the first video
/// frame.
const MAX_BEFORE_START: Ticks = Ticks::from_ms(3_600_000);

/// A range of bytes with a continuous clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockSection {
    #[serde(rename = "at")]
    pub start_byte: u64,
    /// Added to its timestamps to get source time, modulo 2^33.
    pub shift: Ticks,
}

/// The shift for a packet at this byte offset. The sections must be in order.
fn shift_at(sections: &[ClockSection], byte: u64) -> Ticks {
    let next = sections.partition_point(|section| section.start_byte <= byte);
    sections.get(next.saturating_sub(1)).map_or(Ticks::ZERO, |section| section.shift)
}

/// Source time of a timestamp at this byte offset. Correct for items of up to 25 hours.
pub fn source_time(sections: &[ClockSection], byte: u64, timestamp: Ticks) -> Ticks {
    (timestamp + shift_at(sections, byte) + MAX_BEFORE_START).wrapped() - MAX_BEFORE_START
}

/// Rewrites the timestamps of the packet at this byte offset to source time plus `shift`.
pub fn shift_to_source_time(sections: &[ClockSection], byte: u64, shift: Ticks, packet: &mut [u8; PACKET_LEN]) {
    shift_packet(packet, shift_at(sections, byte) + shift);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_time_is_the_sum_of_the_sections() {
        let second = Ticks::from_ms(1000);
        // 10 s starting at 5000 s, then 12 s starting at 100 s, then 8 s across the wrap of the 33 bits.
        let sections = [
            ClockSection { start_byte: 0, shift: -second * 5000 },
            ClockSection { start_byte: 1000, shift: -second * 90 },
            ClockSection { start_byte: 2000, shift: second * 25 - Ticks::WRAP },
        ];
        let time = |at, seconds| source_time(&sections, at, (second * seconds).wrapped());
        assert_eq!(time(0, 5000), Ticks::ZERO);
        assert_eq!(time(999, 5009), second * 9);
        assert_eq!(time(1000, 100), second * 10);
        assert_eq!(time(2000, -3), second * 22);
        assert_eq!(time(2500, 4), second * 29);
        assert_eq!(time(0, 4999), -second);
        assert_eq!(source_time(&[], 7, second), second);
    }
}
