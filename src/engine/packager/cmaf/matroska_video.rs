//! The video of a segment from a Matroska file: the blocks from its keyframe to that of the next segment, found through the
//! cues.
//!
//! Blocks have presentation times only, in rounded units, which a [`FrameClock`] puts back on the frame rate.

use super::samples::{NextSegmentTimes, SegmentSamples};
use crate::domain::cmaf::times::FrameClock;
use crate::domain::grid::Grid;
use crate::domain::time::Ticks;
use crate::engine::RunError;
use crate::engine::container::bytes::{ReadAt, Truncated};
use crate::engine::container::matroska::{Block, ClusterLayout, Cue, TrackEntry};
use crate::engine::container::{ContainerError, refuse_if};
use crate::engine::index::{self, KeyframeIndex, RecoveryPoints};

/// Maximum number of elements visited for one segment: 30 s of a film with a dozen tracks is under 20,000.
pub(super) const MAX_ELEMENTS: usize = 400_000;

#[derive(Debug)]
pub(super) struct MatroskaVideo {
    layout: ClusterLayout,
    /// Track number.
    number: u64,
    /// Bytes that the container removed from the start of every frame.
    prefix: Vec<u8>,
    /// Subtracted from a block's time to get source time: the file's first timestamp, and the codec's delay.
    offset: Ticks,
    clock: FrameClock,
    /// Of the keyframe index's entries.
    keyframes: Vec<KeyframeBlock>,
}

#[derive(Clone, Copy, Debug)]
struct KeyframeBlock {
    /// Relative to the segment's body.
    cluster: u64,
    /// Position of its data in the file.
    offset: u64,
}

impl MatroskaVideo {
    pub(super) fn read(
        file: &(impl ReadAt + ?Sized),
        layout: ClusterLayout,
        track: &TrackEntry,
        cues: &[Cue],
        start: Ticks,
    ) -> Result<(Self, KeyframeIndex), ContainerError> {
        let offset = start + Ticks::from_nanos_floor(track.delay_nanos.into());
        let (index, candidates) =
            index::index_matroska_track(file, offset, layout, track, cues, RecoveryPoints::Accepted)?;
        let block = |candidate: &index::Candidate| {
            let cluster = cues.get(candidate.number as usize)?.cluster;
            Some(KeyframeBlock { cluster, offset: candidate.offset })
        };
        let keyframes: Vec<KeyframeBlock> = candidates.iter().map(block).collect::<Option<_>>().ok_or(Truncated)?;
        let is_in_order = keyframes.is_sorted_by_key(|keyframe| keyframe.offset);
        refuse_if(!is_in_order, ContainerError::Unsupported("keyframes are out of order"))?;
        let origin = index.keyframes.first().copied().unwrap_or_default();
        let clock = FrameClock::new(track.frame_nanos, origin);
        let prefix = track.stripped_bytes.clone();
        Ok((Self { layout, number: track.number, prefix, offset, clock, keyframes }, index))
    }

    pub(super) fn timescale(&self) -> u32 {
        self.clock.timescale()
    }

    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.keyframes.len() * size_of::<KeyframeBlock>() + self.prefix.len()
    }

    /// Offset and size of a keyframe by its place in the index.
    pub(super) fn keyframe_range(&self, file: &(impl ReadAt + ?Sized), place: usize) -> Option<(u64, u32)> {
        let keyframe = self.keyframes.get(place)?;
        let mut found = None;
        let walked = self.layout.walk_blocks(file, keyframe.cluster, MAX_ELEMENTS, |block| {
            if block.offset == keyframe.offset {
                found = range_in_file(&block, file.len());
            }
            block.offset < keyframe.offset
        });
        walked.ok().and(found)
    }

    /// The frames of a segment, in decoding order.
    pub(super) fn segment_samples(
        &self,
        file: &(impl ReadAt + ?Sized),
        index: &KeyframeIndex,
        grid: &Grid,
        number: usize,
    ) -> Result<SegmentSamples, RunError> {
        let keyframe = |segment: usize| -> Result<KeyframeBlock, RunError> {
            let position =
                if segment == 0 { Ok(0) } else { index.keyframes.binary_search(&grid.segment_start(segment)) };
            let missing = || RunError::Internal(format!("segment {segment} does not begin with a keyframe"));
            position.ok().and_then(|position| self.keyframes.get(position).copied()).ok_or_else(missing)
        };
        let first = keyframe(number)?;
        let is_last = number + 1 >= grid.len();
        let next_offset = if is_last { u64::MAX } else { keyframe(number + 1)?.offset };
        let cluster = if number == 0 { self.layout.first_cluster } else { first.cluster };
        let (mut found, mut next) = (SegmentSamples::default(), NextSegmentTimes::default());
        let is_finished = self.layout.walk_blocks(file, cluster, MAX_ELEMENTS, |block| {
            if block.track != self.number || block.offset < first.offset {
                return true;
            }
            let Some(range) = range_in_file(&block, file.len()) else { return false };
            let time = self.clock.to_units(self.layout.to_ticks(block.time) - self.offset);
            if block.offset >= next_offset {
                return next.push(time);
            }
            if block.size > 0 {
                let is_keyframe =
                    self.keyframes.binary_search_by_key(&block.offset, |keyframe| keyframe.offset).is_ok();
                found.push(time, range, self.prefix.len(), is_keyframe);
            }
            !found.is_too_long()
        });
        if is_finished != Ok(true) {
            return Err(RunError::SourceRead(format!("the clusters of segment {number} cannot be read")));
        }
        let stated_end = if is_last { index.end } else { grid.segment_start(number + 1) };
        let own_end = || {
            let end = self.clock.to_units(stated_end);
            found.last_time().map_or(end, |last| end.max(last.saturating_add(1)))
        };
        found.end = next.first_decode_time().unwrap_or_else(own_end);
        Ok(found)
    }
}

/// Offset and size of a block's data; None if the file ends before it.
fn range_in_file(block: &Block, file_len: u64) -> Option<(u64, u32)> {
    let end = block.offset.checked_add(block.size)?;
    (end <= file_len).then_some((block.offset, u32::try_from(block.size).ok()?))
}
