//! Bit rates and I-frames, as playlists state them, from the sizes of a rendition's segments.

use crate::domain::grid::Grid;
use crate::domain::playlist::IFrame;

/// The size of a media segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentSize {
    pub bytes: u64,
    /// Length of the range from byte 0 to the end of the first frame, if that is a keyframe of video.
    pub keyframe_bytes: Option<u64>,
}

/// Bits per second (RFC 8216 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRates {
    /// Of the largest set of consecutive segments between 0.5 and 1.5 target durations, for `BANDWIDTH`.
    pub peak: u64,
    /// For `AVERAGE-BANDWIDTH`.
    pub average: u64,
}

impl BitRates {
    /// From the sizes of all segments of a grid.
    pub fn new(sizes: &[SegmentSize], grid: &Grid) -> Self {
        let rate = |bytes: u64, seconds: f64| (bytes as f64 * 8.0 / seconds.max(0.001)).ceil() as u64;
        let average = rate(sizes.iter().map(|size| size.bytes).sum(), grid.end().as_seconds());
        let target_seconds = grid.target_duration() as f64;
        let mut peak = average;
        for first in 0..sizes.len() {
            let (mut bytes, mut seconds) = (0, 0.0);
            for (segment, size) in sizes.iter().enumerate().skip(first) {
                bytes += size.bytes;
                seconds += grid.segment_length(segment).as_seconds();
                if seconds > 1.5 * target_seconds {
                    break;
                }
                if seconds >= 0.5 * target_seconds {
                    peak = peak.max(rate(bytes, seconds));
                }
            }
        }
        Self { peak, average }
    }
}

/// The I-frames of the segments that begin with a keyframe.
pub fn iframes(sizes: &[SegmentSize]) -> Vec<IFrame> {
    let ranges = sizes.iter().enumerate();
    ranges.filter_map(|(segment, size)| Some(IFrame { segment, bytes: 0..size.keyframe_bytes? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Ticks;

    fn sizes(bytes: &[u64]) -> Vec<SegmentSize> {
        bytes.iter().map(|&bytes| SegmentSize { bytes, keyframe_bytes: Some(bytes / 2) }).collect()
    }

    #[test]
    fn the_peak_is_that_of_a_set_and_not_of_one_short_segment() {
        // Of 4 s, 0.5 s and 3.5 s; the target duration is 4 s.
        let bounds = [0, 4000, 4500, 8000].map(Ticks::from_ms);
        let grid = Grid::Keyframes { bounds: bounds.into() };
        // 8 Mbit/s, 16 Mbit/s and 4 Mbit/s.
        let sizes = sizes(&[4_000_000, 1_000_000, 1_750_000]);
        assert_eq!(BitRates::new(&sizes, &grid), BitRates { peak: 8_888_889, average: 6_750_000 });
        let short = Grid::Keyframes { bounds: [0, 300].map(Ticks::from_ms).into() };
        let alone = BitRates::new(&sizes[1..2], &short);
        assert_eq!(alone.peak, alone.average, "a film shorter than half the target duration");
    }

    #[test]
    fn segments_without_a_keyframe_are_not_listed() {
        let mut sizes = sizes(&[100, 200, 300]);
        sizes[1].keyframe_bytes = None;
        let listed: Vec<_> = iframes(&sizes).into_iter().map(|frame| (frame.segment, frame.bytes)).collect();
        assert_eq!(listed, [(0, 0..50), (2, 0..150)]);
    }
}
