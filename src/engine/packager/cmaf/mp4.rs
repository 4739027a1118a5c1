//! The samples of a segment, from the tables of an mp4 file.

mod sizes;

use super::samples::{MAX_SAMPLES, NextSegmentTimes, SegmentSamples};
use crate::domain::cmaf::times::video_timescale;
use crate::domain::grid::Grid;
use crate::domain::time::Ticks;
use crate::engine::RunError;
use crate::engine::container::bytes::ReadAt;
use crate::engine::container::mp4::{Mp4Track, Sample};
use crate::engine::container::{ContainerError, refuse_if};
use crate::engine::index::{self, KeyframeIndex, RecoveryPoints};
use crate::engine::packager::keyframe_samples::KeyframeSamples;
use crate::engine::packager::mp4::check_edit_start;

/// Video, and its keyframes.
#[derive(Debug)]
pub(super) struct Mp4Video {
    track: Mp4Track,
    timescale: u32,
    /// The file's first timestamp, in units of the timescale.
    start: i64,
    keyframes: KeyframeSamples,
}

#[derive(Debug)]
pub(super) struct Mp4Audio {
    track: Mp4Track,
    /// The file's first timestamp.
    start: Ticks,
}

impl Mp4Video {
    pub(super) fn read(
        file: &(impl ReadAt + ?Sized),
        track: Mp4Track,
        start: Ticks,
    ) -> Result<(Self, KeyframeIndex), ContainerError> {
        let (index, keyframes) = index::index_mp4_track(file, start, &track, RecoveryPoints::Accepted)?;
        check_edit_start(&track)?;
        let keyframes = KeyframeSamples::new(keyframes.iter().map(|keyframe| keyframe.number).collect())?;
        let timescale = video_timescale(track.timing.timescale());
        Ok((Self { track, timescale, start: start.to_units(timescale), keyframes }, index))
    }

    pub(super) fn timescale(&self) -> u32 {
        self.timescale
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.track.samples.memory_bytes() + self.keyframes.memory_bytes()
    }

    /// The frames of a segment: from its keyframe to that of the next segment, in decoding order. The last segment ends
    /// with the last group of pictures that begins in the edit, as in ffmpeg: telephones write an edit that ends a frame or
    /// two early.
    pub(super) fn segment_samples(
        &self,
        index: &KeyframeIndex,
        grid: &Grid,
        number: usize,
    ) -> Result<SegmentSamples, RunError> {
        let (first, end) = (self.first_sample(index, grid, number)?, self.first_sample(index, grid, number + 1)?);
        let mut found = SegmentSamples::default();
        let samples = self.track.samples.iter_from(first).take_while(|sample| sample.number < end);
        let samples = samples.take_while(|sample| !self.is_after_edit(sample));
        let mut latest_end = i64::MIN;
        for sample in samples.filter(|sample| sample.size > 0).take(MAX_SAMPLES + 1) {
            let is_keyframe = self.keyframes.contains(sample.number);
            let duration_end = sample.presentation_time().saturating_add(i64::from(sample.duration));
            latest_end = latest_end.max(self.to_units(duration_end));
            found.push(self.time_of(&sample), (sample.offset, sample.size), 0, is_keyframe);
        }
        let mut next = NextSegmentTimes::default();
        let mut next_samples = self.track.samples.iter_from(end).filter(|sample| sample.size > 0);
        while next_samples.next().is_some_and(|sample| next.push(self.time_of(&sample))) {}
        let own_end = || found.last_time().map_or(latest_end, |last| latest_end.max(last.saturating_add(1)));
        found.end = next.first_decode_time().unwrap_or_else(own_end);
        Ok(found)
    }

    /// Offset and size of a keyframe by its place in the index.
    pub(super) fn keyframe_range(&self, place: usize) -> Option<(u64, u32)> {
        let sample = self.track.samples.iter_from(self.keyframes.number(place)?).next()?;
        Some((sample.offset, sample.size))
    }

    /// Number of a segment's first sample; of the last sample plus one for the end of the grid.
    fn first_sample(&self, index: &KeyframeIndex, grid: &Grid, segment: usize) -> Result<u32, RunError> {
        self.keyframes.first_sample(index, grid, segment, self.track.samples.len())
    }

    /// Whether a sample begins a group of pictures after the edit.
    fn is_after_edit(&self, sample: &Sample) -> bool {
        let timing = &self.track.timing;
        let edit_end = timing.edit_end().filter(|_| sample.is_sync);
        edit_end.is_some_and(|end| timing.presentation_ticks(sample.presentation_time()) >= end)
    }

    fn time_of(&self, sample: &Sample) -> i64 {
        self.to_units(sample.presentation_time())
    }

    fn to_units(&self, presentation_time: i64) -> i64 {
        self.track.timing.presentation_units(presentation_time, self.timescale).saturating_sub(self.start)
    }
}

impl Mp4Audio {
    pub(super) fn read(track: Mp4Track, start: Ticks) -> Result<Self, ContainerError> {
        refuse_if(track.samples.is_reordered(), ContainerError::Unsupported("the audio has composition offsets"))?;
        if track.sample_span.first_presented.is_none() {
            return Err(ContainerError::Unsupported("the audio track has no samples"));
        }
        Ok(Self { track, start })
    }

    pub(super) fn timescale(&self) -> u32 {
        self.track.timing.timescale()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.track.samples.memory_bytes()
    }

    /// End of the last frame, or of the edit if that is earlier; in source time.
    pub(super) fn end(&self) -> Ticks {
        self.track.end() - self.start
    }

    fn source_time(&self, dts: i64) -> Ticks {
        self.track.timing.decode_ticks(dts) - self.start
    }

    fn edit_end(&self) -> Ticks {
        self.track.timing.edit_end().map_or(Ticks::MAX, |end| end - self.start)
    }

    /// The frames that begin in a segment; encoder priming belongs to the first segment. Frames after the edit are
    /// padding, which players would play.
    pub(super) fn segment_samples(&self, grid: &Grid, number: usize) -> SegmentSamples {
        let (timing, timescale) = (&self.track.timing, self.timescale());
        let units = |dts: i64| timing.presentation_units(dts, timescale).saturating_sub(self.start.to_units(timescale));
        let first_time = if number == 0 { Ticks::MIN } else { grid.segment_start(number) };
        let end_time = grid.segment_start(number + 1);
        let edit_end = self.edit_end();
        let first = self.track.samples.find_by_dts(|dts| self.source_time(dts) >= first_time);
        let mut found = SegmentSamples { end: end_time.to_units(timescale), ..SegmentSamples::default() };
        for sample in self.track.samples.iter_from(first).filter(|sample| sample.size > 0) {
            let time = self.source_time(sample.dts);
            if time >= edit_end || found.is_too_long() {
                break;
            }
            // The frame before it lasts until then.
            if time >= end_time {
                found.end = units(sample.dts);
                break;
            }
            found.end = units(sample.dts.saturating_add(i64::from(sample.duration)));
            found.push(units(sample.dts), (sample.offset, sample.size), 0, true);
        }
        found
    }
}
