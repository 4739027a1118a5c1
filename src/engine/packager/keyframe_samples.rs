//! The keyframes of an mp4 track, with which its segments begin.

use crate::domain::grid::Grid;
use crate::engine::RunError;
use crate::engine::container::{ContainerError, refuse_if};
use crate::engine::index::KeyframeIndex;

/// The sample numbers of a keyframe index's entries.
#[derive(Debug)]
pub(super) struct KeyframeSamples(Vec<u32>);

impl KeyframeSamples {
    /// # Errors
    /// If the keyframes are not in the order of the file.
    pub(super) fn new(numbers: Vec<u32>) -> Result<Self, ContainerError> {
        refuse_if(!numbers.is_sorted(), ContainerError::Unsupported("keyframes are out of order"))?;
        Ok(Self(numbers))
    }

    /// Whether the sample with this number is a keyframe.
    pub(super) fn contains(&self, number: u32) -> bool {
        self.0.binary_search(&number).is_ok()
    }

    /// The sample number of an entry of the index.
    pub(super) fn number(&self, place: usize) -> Option<u32> {
        self.0.get(place).copied()
    }

    /// Number of the first sample of a segment; 0 for the first segment, `sample_count` after the last one.
    ///
    /// # Errors
    /// `Internal` if the grid was not made from this index.
    pub(super) fn first_sample(
        &self,
        index: &KeyframeIndex,
        grid: &Grid,
        segment: usize,
        sample_count: u32,
    ) -> Result<u32, RunError> {
        if segment == 0 {
            return Ok(0);
        }
        if segment >= grid.len() {
            return Ok(sample_count);
        }
        let entry = index.keyframes.binary_search(&grid.segment_start(segment)).ok();
        let missing = || RunError::Internal(format!("segment {segment} does not begin with a keyframe"));
        entry.and_then(|entry| self.0.get(entry).copied()).ok_or_else(missing)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.len() * size_of::<u32>()
    }
}
