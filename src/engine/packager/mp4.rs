//! The tables of an mp4 file's tracks, and the samples of a segment.

use super::aac::AdtsConfig;
use super::avc::AvcConfig;
use super::keyframe_samples::KeyframeSamples;
use super::segment_sample::SegmentSample;
use crate::domain::grid::Grid;
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::mpegts::segmenter::MAX_PRIMING;
use crate::domain::time::Ticks;
use crate::engine::RunError;
use crate::engine::container::bytes::ReadAt;
use crate::engine::container::mp4::{Mp4Track, Sample, SampleDescription};
use crate::engine::container::{ContainerError, refuse_if};
use crate::engine::index::{self, KeyframeIndex, RecoveryPoints};

/// The video track and its keyframes.
#[derive(Debug)]
pub(super) struct Mp4Video {
    track: Mp4Track,
    keyframes: KeyframeSamples,
}

/// The audio track.
#[derive(Debug)]
pub(super) struct Mp4Audio {
    track: Mp4Track,
}

impl Mp4Video {
    pub(super) fn read(
        file: &(impl ReadAt + ?Sized),
        track: Mp4Track,
        start: Ticks,
    ) -> Result<(Self, AvcConfig, KeyframeIndex), ContainerError> {
        let SampleDescription::Avc(record) = &track.description else {
            return Err(ContainerError::Unsupported("the video is not H.264"));
        };
        let avc = AvcConfig::parse(record)?;
        let (index, keyframes) = index::index_mp4_track(file, start, &track, RecoveryPoints::Refused)?;
        check_edit_start(&track)?;
        let timing = &track.timing;
        if timing.edit_end().is_some_and(|end| timing.presentation_ticks(track.sample_span.latest) >= end) {
            return Err(ContainerError::Unsupported("frames after the edit"));
        }
        check_distinct_times(&track)?;
        let keyframes = KeyframeSamples::new(keyframes.iter().map(|keyframe| keyframe.number).collect())?;
        Ok((Self { track, keyframes }, avc, index))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.track.samples.memory_bytes() + self.keyframes.memory_bytes()
    }

    /// The frames of a segment: from its keyframe to that of the next segment.
    pub(super) fn segment_samples(
        &self,
        index: &KeyframeIndex,
        grid: &Grid,
        number: usize,
        start: Ticks,
    ) -> Result<impl Iterator<Item = SegmentSample>, RunError> {
        let first_sample = |segment: usize| self.keyframes.first_sample(index, grid, segment, self.track.samples.len());
        let (first, end) = (first_sample(number)?, first_sample(number + 1)?);
        let samples = self.track.samples.iter_from(first).take_while(move |sample| sample.number < end);
        let timing = self.track.timing;
        Ok(samples.filter(|sample| sample.size > 0).map(move |sample| SegmentSample {
            track: TrackKind::Video,
            offset: sample.offset,
            size: sample.size,
            dts: timing.decode_ticks(sample.dts) - start,
            pts: timing.presentation_ticks(sample.presentation_time()) - start,
            is_keyframe: self.keyframes.contains(sample.number),
        }))
    }
}

impl Mp4Audio {
    pub(super) fn read(track: Mp4Track) -> Result<(Self, AdtsConfig), ContainerError> {
        let SampleDescription::Aac(config) = &track.description else {
            return Err(ContainerError::Unsupported("the audio is not AAC"));
        };
        let adts = AdtsConfig::parse(config)?;
        refuse_if(track.samples.is_reordered(), ContainerError::Unsupported("the audio has composition offsets"))?;
        if track.sample_span.first_presented.is_none() {
            return Err(ContainerError::Unsupported("the audio track has no samples"));
        }
        check_distinct_times(&track)?;
        Ok((Self { track }, adts))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.track.samples.memory_bytes()
    }

    /// The frames that begin in a segment; encoder priming belongs to the first segment. Frames after the edit are
    /// padding, which ffmpeg drops.
    pub(super) fn segment_samples(
        &self,
        grid: &Grid,
        number: usize,
        start: Ticks,
    ) -> impl Iterator<Item = SegmentSample> {
        let timing = self.track.timing;
        let first_time = if number == 0 { Ticks(1) - MAX_PRIMING } else { grid.segment_start(number) };
        let end_time = timing.edit_end().map_or(Ticks::MAX, |end| end - start).min(grid.segment_start(number + 1));
        let source_time = move |sample: &Sample| timing.decode_ticks(sample.dts) - start;
        let first = self.track.samples.find_by_dts(|dts| timing.decode_ticks(dts) - start >= first_time);
        let samples = self.track.samples.iter_from(first).take_while(move |sample| source_time(sample) < end_time);
        samples.filter(|sample| sample.size > 0).map(move |sample| SegmentSample {
            track: TrackKind::Audio,
            offset: sample.offset,
            size: sample.size,
            dts: source_time(&sample),
            pts: source_time(&sample),
            is_keyframe: false,
        })
    }
}

/// Requires video to begin with its edit. ffmpeg decodes earlier frames without showing them, and how many depends on the
/// frames around them.
pub(super) fn check_edit_start(track: &Mp4Track) -> Result<(), ContainerError> {
    let timing = &track.timing;
    let is_early = timing.presentation_ticks(track.sample_span.earliest) < timing.edit_start();
    refuse_if(is_early, ContainerError::Unsupported("frames before the edit"))
}

/// Requires distinct times in ticks: ffmpeg shifts samples that share one.
fn check_distinct_times(track: &Mp4Track) -> Result<(), ContainerError> {
    let step = track.timing.decode_ticks(i64::from(track.sample_span.min_step));
    refuse_if(step <= track.timing.decode_ticks(0), ContainerError::Unsupported("samples share a timestamp"))
}
