//! The sizes of all segments of a grid, by one walk over the tables.

use super::{Mp4Audio, Mp4Video};
use crate::domain::cmaf::moof::head_len;
use crate::domain::cmaf::segment_sizes::SegmentSize;
use crate::domain::grid::Grid;
use crate::domain::mpegts::psi::TrackKind;
use crate::engine::RunError;
use crate::engine::container::mp4::Sample;
use crate::engine::index::KeyframeIndex;

/// The samples of a segment, counted.
#[derive(Debug, Default)]
struct SampleCount {
    samples: u64,
    payload_bytes: u64,
    /// Duration of the samples, if it is the same for all of them.
    common_duration: Option<u32>,
    /// Size of the first frame, if that is a keyframe.
    keyframe_bytes: Option<u64>,
}

impl SampleCount {
    fn push(&mut self, sample: &Sample) {
        let is_same = self.samples == 0 || self.common_duration == Some(sample.duration);
        self.common_duration = is_same.then_some(sample.duration);
        self.samples += 1;
        self.payload_bytes += u64::from(sample.size);
    }

    fn segment_size(&self, kind: TrackKind) -> SegmentSize {
        let head = head_len(kind, self.samples, self.common_duration.is_some());
        let keyframe_bytes = self.keyframe_bytes.map(|bytes| head + bytes);
        SegmentSize { bytes: head + self.payload_bytes, keyframe_bytes }
    }
}

impl Mp4Video {
    /// The sizes of the segments that [`Self::segment_samples`] gives.
    ///
    /// # Errors
    /// If the grid was not made from this video.
    pub(in crate::engine::packager::cmaf) fn segment_sizes(
        &self,
        index: &KeyframeIndex,
        grid: &Grid,
    ) -> Result<Vec<SegmentSize>, RunError> {
        let mut samples = self.track.samples.iter_from(0).peekable();
        let mut sizes = Vec::with_capacity(grid.len());
        for number in 0..grid.len() {
            let end = self.first_sample(index, grid, number + 1)?;
            let (mut count, mut is_in_edit) = (SampleCount::default(), true);
            while let Some(sample) = samples.next_if(|sample| sample.number < end) {
                is_in_edit = is_in_edit && !self.is_after_edit(&sample);
                if !is_in_edit || sample.size == 0 {
                    continue;
                }
                if count.samples == 0 && self.keyframes.contains(sample.number) {
                    count.keyframe_bytes = Some(sample.size.into());
                }
                count.push(&sample);
            }
            sizes.push(count.segment_size(TrackKind::Video));
        }
        Ok(sizes)
    }
}

impl Mp4Audio {
    /// The sizes of the segments that [`Self::segment_samples`] gives. Where stated durations and times differ, a size may
    /// be off by four bytes a frame.
    pub(in crate::engine::packager::cmaf) fn segment_sizes(&self, grid: &Grid) -> Vec<SegmentSize> {
        let mut counts: Vec<SampleCount> = (0..grid.len()).map(|_| SampleCount::default()).collect();
        let mut number = 0;
        for sample in self.track.samples.iter_from(0).filter(|sample| sample.size > 0) {
            let time = self.source_time(sample.dts);
            if time >= self.edit_end() || time >= grid.end() {
                break;
            }
            while time >= grid.segment_start(number + 1) {
                number += 1;
            }
            counts[number].push(&sample);
        }
        counts.iter().map(|count| count.segment_size(TrackKind::Audio)).collect()
    }
}
