//! Bit rates and I-frames, as playlists state them, from the sizes of a rendition's segments.

use crate::domain::grid::Grid;
use crate::domain::playlist::IFrame;
use crate::domain::time::Ticks;

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
    /// The peak of the I-frame playlist; None without keyframes.
    pub iframe_peak: Option<u64>,
}

impl BitRates {
    /// From the sizes of all segments of a grid.
    pub fn new(sizes: &[SegmentSize], grid: &Grid) -> Self {
        let segments = sizes.iter().enumerate();
        let segments: Vec<_> =
            segments.map(|(segment, size)| (size.bytes, grid.segment_length(segment).as_seconds())).collect();
        let average = bit_rate(sizes.iter().map(|size| size.bytes).sum(), grid.end().as_seconds());
        let frames = iframes(sizes);
        let durations = IFrame::durations(&frames, grid);
        let durations = durations.into_iter().map(Ticks::as_seconds);
        let frames: Vec<_> =
            frames.iter().map(|frame| frame.bytes.as_ref().map_or(0, |bytes| bytes.end)).zip(durations).collect();
        Self { peak: peak_rate(&segments).unwrap_or_default().max(average), average, iframe_peak: peak_rate(&frames) }
    }
}

fn bit_rate(bytes: u64, seconds: f64) -> u64 {
    (bytes as f64 * 8.0 / seconds.max(0.001)).ceil() as u64
}

/// Of the largest set of consecutive segments, each with its size in bytes and its length in seconds, between 0.5 and 1.5
/// target durations. None without segments.
fn peak_rate(segments: &[(u64, f64)]) -> Option<u64> {
    let target_seconds = segments.iter().map(|(_, seconds)| seconds.round()).reduce(f64::max)?.max(1.0);
    let whole = segments.iter().fold((0, 0.0), |(bytes, seconds), (more, longer)| (bytes + more, seconds + longer));
    let mut peak = bit_rate(whole.0, whole.1);
    for first in 0..segments.len() {
        let (mut bytes, mut seconds) = (0, 0.0);
        for (more, longer) in &segments[first..] {
            bytes += more;
            seconds += longer;
            if seconds > 1.5 * target_seconds {
                break;
            }
            if seconds >= 0.5 * target_seconds {
                peak = peak.max(bit_rate(bytes, seconds));
            }
        }
    }
    Some(peak)
}

/// The I-frames of the segments that begin with a keyframe.
pub fn iframes(sizes: &[SegmentSize]) -> Vec<IFrame> {
    let ranges = sizes.iter().enumerate();
    ranges.filter_map(|(segment, size)| Some(IFrame { segment, bytes: Some(0..size.keyframe_bytes?) })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // Of I-frames of half the size.
        let iframe_peak = Some(4_444_445);
        assert_eq!(BitRates::new(&sizes, &grid), BitRates { peak: 8_888_889, average: 6_750_000, iframe_peak });
        let short = Grid::Keyframes { bounds: [0, 300].map(Ticks::from_ms).into() };
        let alone = BitRates::new(&sizes[1..2], &short);
        assert_eq!(alone.peak, alone.average, "a film shorter than half the target duration");
    }

    #[test]
    fn a_frame_of_two_segments_is_shown_for_both() {
        let mut sizes = sizes(&[1_000_000; 3]);
        let grid = Grid::Keyframes { bounds: [0, 2000, 4000, 6000].map(Ticks::from_ms).into() };
        // 500 kB every 2 s.
        assert_eq!(BitRates::new(&sizes, &grid).iframe_peak, Some(2_000_000));
        sizes[1].keyframe_bytes = None;
        assert_eq!(BitRates::new(&sizes, &grid).iframe_peak, Some(2_000_000), "the last frame is shown for 2 s");
        sizes[2].keyframe_bytes = None;
        assert_eq!(BitRates::new(&sizes, &grid).iframe_peak, Some(666_667), "one frame for 6 s");
        sizes[0].keyframe_bytes = None;
        assert_eq!(BitRates::new(&sizes, &grid).iframe_peak, None);
    }

    #[test]
    fn segments_without_a_keyframe_are_not_listed() {
        let mut sizes = sizes(&[100, 200, 300]);
        sizes[1].keyframe_bytes = None;
        let listed: Vec<_> = iframes(&sizes).into_iter().map(|frame| (frame.segment, frame.bytes)).collect();
        assert_eq!(listed, [(0, Some(0..50)), (2, Some(0..150))]);
    }
}
