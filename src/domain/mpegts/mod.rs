//! MPEG transport streams: the small container layer that every segment passes, whichever backend made it. Cut, then
//! canonicalise.
//!
//! Pure functions over 188-byte packets (ISO/IEC 13818-1). Input may be garbage: nothing here panics, and what is held
//! is bounded by the caller's budget. A canonical segment begins with PAT and PMT, has fixed PIDs, and closes every
//! continuity counter at a multiple of 16, so that any segment follows any other without a break. Timestamps have 33 bits and
//! wrap.
#![doc = include_str!("README.md")]

pub mod audio_insertion;
pub mod canonical;
pub mod channel_timeline;
pub mod clock_jumps;
pub mod elementary_stream;
pub mod layout;
pub mod live_muxer;
pub mod packet;
pub mod pes;
pub mod program;
pub mod psi;
pub mod segmenter;
pub mod stream_codec;
pub mod timestamp_shift;
pub mod ts_writer;

use super::time::Ticks;

/// PIDs of the program map table (PMT), and of video and audio in every segment.
pub const PMT_PID: u16 = 0x20;
pub const VIDEO_PID: u16 = 0x41;
pub const AUDIO_PID: u16 = 0x42;

/// Unwraps a 33-bit timestamp: the time nearest to `near` that has these 33 bits.
pub fn unwrap_timestamp(timestamp: Ticks, near: Ticks) -> Ticks {
    let forward = (timestamp - near).wrapped();
    near + if forward >= Ticks::WRAP / 2 { forward - Ticks::WRAP } else { forward }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    const WRAP: i64 = Ticks::WRAP.0;

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
        fn unwrapping_finds_the_time_that_was_wrapped(time in -WRAP..20 * WRAP, off in -WRAP / 2 + 1..WRAP / 2) {
            prop_assert_eq!(unwrap_timestamp(Ticks(time).wrapped(), Ticks(time + off)), Ticks(time));
        }
    }
}
