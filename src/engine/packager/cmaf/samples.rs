//! The samples of one segment, as the readers of mp4 and Matroska give them to the track.

use crate::domain::cmaf::Sample;
use crate::domain::cmaf::times::first_decode_time;

/// Maximum number of samples of a segment.
pub(super) const MAX_SAMPLES: usize = 200_000;

/// Samples in decoding order, without the decode times of video. Times in units of the track's timescale, in source time.
#[derive(Debug, Default)]
pub(super) struct SegmentSamples {
    pub samples: Vec<Sample>,
    /// Offset and size of each sample in the file.
    pub ranges: Vec<(u64, u32)>,
    /// First decode time of the next segment.
    pub end: i64,
}

impl SegmentSamples {
    /// Appends a sample at `range`, offset and size. The container removed `prefix_len` bytes from its start.
    pub(super) fn push(&mut self, time: i64, range: (u64, u32), prefix_len: usize, is_keyframe: bool) {
        let size = range.1.saturating_add(prefix_len as u32);
        self.samples.push(Sample { size, dts: time, pts: time, is_keyframe });
        self.ranges.push(range);
    }

    /// Makes the video of a channel's item begin and end with the item: its first frame is shown from time 0 on, and its last
    /// one until `end`, if that is in this segment. Frames after the end are left out.
    pub(super) fn fit_item(&mut self, is_first: bool, end: Option<i64>) {
        let earliest = self.samples.iter().map(|sample| sample.pts).min();
        if let Some(first) = self.samples.first_mut().filter(|first| is_first && Some(first.pts) == earliest) {
            first.pts = first.pts.min(0);
        }
        let Some(end) = end else { return };
        if earliest.is_some_and(|earliest| earliest < end) {
            let is_aired: Vec<bool> = self.samples.iter().map(|sample| sample.pts < end).collect();
            let (mut of_samples, mut of_ranges) = (is_aired.iter(), is_aired.iter());
            self.samples.retain(|_| of_samples.next().is_none_or(|is_aired| *is_aired));
            self.ranges.retain(|_| of_ranges.next().is_none_or(|is_aired| *is_aired));
        }
        self.end = end;
    }

    /// Whether there are more than a segment may have.
    pub(super) fn is_too_long(&self) -> bool {
        self.samples.len() > MAX_SAMPLES
    }

    pub(super) fn last_time(&self) -> Option<i64> {
        self.samples.iter().map(|sample| sample.pts).max()
    }
}

/// The presentation times of the next segment, in decoding order, as far as its first decode time depends on them.
#[derive(Debug, Default)]
pub(super) struct NextSegmentTimes(Vec<i64>);

impl NextSegmentTimes {
    /// Appends a time. Returns whether more are needed: leading pictures precede all others in decoding order (ITU-T H.265
    /// section 3), so the first frame after the keyframe in presentation ends them.
    pub(super) fn push(&mut self, time: i64) -> bool {
        self.0.push(time);
        time <= self.0[0] && self.0.len() < MAX_SAMPLES
    }

    pub(super) fn first_decode_time(self) -> Option<i64> {
        first_decode_time(self.0)
    }
}
