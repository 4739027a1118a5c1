//! Cues of a file that has none, found by visiting its blocks: recordings that were interrupted, and live streams.

use std::time::{Duration, Instant};

use super::{Block, ContainerError, Cue, MatroskaFile, ReadAt, refuse_if};

/// Limits of a scan: two hours of a film with three tracks have 500,000 blocks, which takes a second from the page cache.
const MAX_ELEMENTS: usize = 4_000_000;
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// Blocks between two checks of the time.
const BLOCKS_PER_CHECK: usize = 1024;

impl<F: ReadAt + ?Sized> MatroskaFile<'_, F> {
    /// The cues of a track. If the file has none, its blocks that may be keyframes, by a scan of the file.
    pub fn read_or_scan_cues(&self, track: u64) -> Result<Vec<Cue>, ContainerError> {
        if self.cues.is_some() {
            return self.read_cues(track);
        }
        self.scan(|block, _| block.track == track && block.may_be_keyframe)
    }

    /// Like [`Self::read_all_cues`]. If the file has none, the first block of every cluster, by a scan of the file.
    pub fn read_or_scan_all_cues(&self) -> Result<Vec<Cue>, ContainerError> {
        if self.cues.is_some() {
            return self.read_all_cues();
        }
        self.scan(|block, cues| cues.last().is_none_or(|last| last.cluster != block.cluster))
    }

    /// A cue for each block that `is_cue` selects, given the cues before it.
    fn scan(&self, is_cue: impl Fn(&Block, &[Cue]) -> bool) -> Result<Vec<Cue>, ContainerError> {
        let deadline = Instant::now() + TIME_LIMIT;
        let (mut cues, mut count, mut is_late) = (Vec::new(), 0usize, false);
        let result = self.layout.walk_blocks(self.file, self.layout.first_cluster, MAX_ELEMENTS, |block| {
            count += 1;
            is_late = count.is_multiple_of(BLOCKS_PER_CHECK) && Instant::now() > deadline;
            let is_in_file = block.offset.checked_add(block.size).is_some_and(|end| end <= self.file.len());
            if let Ok(time) = u64::try_from(block.time)
                && is_in_file
                && is_cue(&block, &cues)
            {
                cues.push(Cue { time, cluster: block.cluster });
            }
            is_in_file && !is_late
        });
        // Damaged or half an element at the end: the blocks before it are played.
        let is_finished = result.unwrap_or(true);
        let slow = ContainerError::Unsupported("there are no Cues, and a scan takes too long");
        refuse_if(is_late || !is_finished, slow)?;
        Ok(cues)
    }
}
