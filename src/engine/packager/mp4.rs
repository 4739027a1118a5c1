//! The tables of an mp4 file's tracks, and the samples of a segment.

use super::aac::Adts;
use super::avc::Avc;
use super::package::Item;
use crate::domain::grid::Grid;
use crate::domain::mpegts::segmenter::MAX_PRIMING;
use crate::domain::mpegts::psi::TrackKind as Lane;
use crate::engine::RunError;
use crate::engine::index::{self, Index};
use crate::engine::tables::Refusal;
use crate::engine::tables::bytes::ReadAt;
use crate::engine::tables::mp4::{Description, Sample, Track};

/// The video track and its keyframes.
#[derive(Debug)]
pub(super) struct Picture {
    track: Track,
    /// Sample numbers of the keyframe index's entries.
    numbers: Vec<u32>,
}

/// The audio track.
#[derive(Debug)]
pub(super) struct Sound {
    track: Track,
}

impl Picture {
    pub(super) fn read(file: &(impl ReadAt + ?Sized), track: Track, start: i64) -> Result<(Self, Avc, Index), Refusal> {
        let Description::Avc(record) = &track.description else {
            return Err(Refusal::Unread("the video is not H.264"));
        };
        let avc = Avc::read(record)?;
        let (index, numbers) = index::of_track(file, start, &track)?;
        let timing = &track.timing;
        // ffmpeg decodes such frames without showing them, and how many depends on the frames around them.
        if timing.shown(track.span.earliest) < timing.begin() {
            return Err(Refusal::Unread("frames before the edit"));
        }
        if timing.end().is_some_and(|end| timing.shown(track.span.latest) >= end) {
            return Err(Refusal::Unread("frames after the edit"));
        }
        steady(&track)?;
        if !numbers.is_sorted() {
            return Err(Refusal::Unread("keyframes are out of order"));
        }
        Ok((Self { track, numbers }, avc, index))
    }

    pub(super) fn weight(&self) -> usize {
        self.track.samples.weight() + self.numbers.len() * size_of::<u32>()
    }

    /// The frames of a segment: from its keyframe to that of the next segment.
    pub(super) fn items(
        &self,
        index: &Index,
        grid: &Grid,
        number: usize,
        start: i64,
    ) -> Result<impl Iterator<Item = Item>, RunError> {
        let sample = |segment: usize| -> Result<u32, RunError> {
            if segment == 0 {
                return Ok(0);
            }
            if segment >= grid.len() {
                return Ok(self.track.samples.len());
            }
            let found = index.keyframes.binary_search(&grid.segment_start(segment)).ok();
            let missing = || RunError::Internal(format!("segment {segment} does not begin with a keyframe"));
            found.and_then(|at| self.numbers.get(at).copied()).ok_or_else(missing)
        };
        let (first, behind) = (sample(number)?, sample(number + 1)?);
        let samples = self.track.samples.walk(first).take_while(move |sample| sample.number < behind);
        let timing = self.track.timing;
        Ok(samples.filter(|sample| sample.size > 0).map(move |sample| Item {
            lane: Lane::Video,
            offset: sample.offset,
            size: sample.size,
            dts: timing.decoded(sample.dts) - start,
            pts: timing.shown(sample.time()) - start,
            keyframe: self.numbers.binary_search(&sample.number).is_ok(),
        }))
    }
}

impl Sound {
    pub(super) fn read(track: Track) -> Result<(Self, Adts), Refusal> {
        let Description::Aac(config) = &track.description else {
            return Err(Refusal::Unread("the audio is not AAC"));
        };
        let adts = Adts::read(config)?;
        if track.samples.is_reordered() {
            return Err(Refusal::Unread("the audio has composition offsets"));
        }
        if track.span.first.is_none() {
            return Err(Refusal::Unread("the audio track has no samples"));
        }
        steady(&track)?;
        Ok((Self { track }, adts))
    }

    pub(super) fn weight(&self) -> usize {
        self.track.samples.weight()
    }

    /// The frames that begin in a segment; encoder priming belongs to the first segment. Frames after the edit are
    /// padding, which ffmpeg drops.
    pub(super) fn items(&self, grid: &Grid, number: usize, start: i64) -> impl Iterator<Item = Item> {
        let timing = self.track.timing;
        let from = if number == 0 { 1 - MAX_PRIMING } else { grid.segment_start(number) };
        let to = timing.end().map_or(i64::MAX, |end| end - start).min(grid.segment_start(number + 1));
        let at = move |sample: &Sample| timing.decoded(sample.dts) - start;
        let first = self.track.samples.find(|dts| timing.decoded(dts) - start >= from);
        let samples = self.track.samples.walk(first).take_while(move |sample| at(sample) < to);
        samples.filter(|sample| sample.size > 0).map(move |sample| Item {
            lane: Lane::Audio,
            offset: sample.offset,
            size: sample.size,
            dts: at(&sample),
            pts: at(&sample),
            keyframe: false,
        })
    }
}

/// Requires distinct times in ticks: ffmpeg shifts samples that share one.
fn steady(track: &Track) -> Result<(), Refusal> {
    if track.timing.decoded(i64::from(track.span.step)) > track.timing.decoded(0) {
        Ok(())
    } else {
        Err(Refusal::Unread("samples share a timestamp"))
    }
}
