//! MPEG transport streams: the small container layer that every segment passes, whichever backend made it. Cut, then
//! canonicalise.
//!
//! Pure functions over 188-byte packets (ISO/IEC 13818-1). Input may be garbage: nothing here panics, and what is held
//! is bounded by the caller's budget. A canonical segment begins with PAT and PMT, has fixed PIDs, and closes every
//! continuity counter at a multiple of 16, so that any segment follows any other without a break. Timestamps have 33 bits and
//! wrap.
#![doc = include_str!("README.md")]

pub mod canonical;
pub mod channel_timeline;
pub mod clock_jumps;
pub mod layout;
pub mod live_muxer;
pub mod packet;
pub mod pes;
pub mod program;
pub mod psi;
pub mod segmenter;
pub mod timestamp_shift;
pub mod ts_writer;

/// PIDs of the program map table (PMT), and of video and audio in every segment.
pub const PMT_PID: u16 = 0x20;
pub const VIDEO_PID: u16 = 0x41;
pub const AUDIO_PID: u16 = 0x42;

/// Timestamps have 33 bits at 90 kHz and wrap after 26.5 hours.
pub const TIMESTAMP_WRAP: i64 = 1 << 33;

/// Unwraps a 33-bit timestamp: the time nearest to `near` that has these 33 bits. Ticks of 90 kHz.
pub fn unwrap_timestamp(timestamp: i64, near: i64) -> i64 {
    let forward = (timestamp - near).rem_euclid(TIMESTAMP_WRAP);
    near + if forward >= TIMESTAMP_WRAP / 2 { forward - TIMESTAMP_WRAP } else { forward }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A stream as chunks of these sizes, in turn.
    pub fn chunks<'a>(mut stream: &'a [u8], sizes: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
        sizes.iter().cycle().map_while(move |size| {
            let (chunk, rest) = stream.split_at((*size).min(stream.len()));
            stream = rest;
            (!chunk.is_empty()).then_some(chunk)
        })
    }

    proptest! {
        #[test]
        fn unwrapping_finds_the_time_that_was_wrapped(time in -TIMESTAMP_WRAP..20 * TIMESTAMP_WRAP, off in -TIMESTAMP_WRAP / 2 + 1..TIMESTAMP_WRAP / 2) {
            prop_assert_eq!(unwrap_timestamp(time.rem_euclid(TIMESTAMP_WRAP), time + off), time);
        }
    }
}
