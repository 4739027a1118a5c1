//! Cues of a file that has none, found by visiting its blocks: recordings that were interrupted, and live streams.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Block, ContainerError, Cue, MatroskaFile, ReadAt, refuse_if};

/// Limits of a scan: two hours of a film with three tracks have 500,000 blocks, which takes a second from the page cache.
const MAX_ELEMENTS: usize = 4_000_000;
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// Blocks between two checks of the time.
const BLOCKS_PER_CHECK: usize = 1024;

/// Most tracks that are looked at for video.
const MAX_TRACKS: u32 = 128;

/// Most cues that are found, and most that are kept for another reader: those of ten hours with a keyframe and a cluster every
/// second, some MB.
const MAX_CUES: usize = 2 << 20;
const MAX_SHARED_CUES: usize = 128 << 10;

/// The blocks of a file at which readers of its tracks may start.
#[derive(Debug, Default)]
struct BlockScan {
    /// Blocks of video that may be keyframes, each with the number of its track.
    keyframes: Vec<(u64, Cue)>,
    /// The first block of every cluster.
    clusters: Vec<Cue>,
}

/// The scan of one file, made by the first reader that needs it, and used by those of the other tracks.
#[derive(Debug, Default)]
pub struct SharedScan(Mutex<Option<Arc<BlockScan>>>);

impl<F: ReadAt + ?Sized> MatroskaFile<'_, F> {
    /// The cues of a track of video. If the file has none, its blocks that may be keyframes, by a scan of the file.
    pub fn read_or_scan_cues(&self, track: u64, shared: &SharedScan) -> Result<Vec<Cue>, ContainerError> {
        if self.cues.is_some() {
            return self.read_cues(track);
        }
        let scan = self.scan_once(shared)?;
        Ok(scan.keyframes.iter().filter(|(number, _)| *number == track).map(|(_, cue)| *cue).collect())
    }

    /// Like [`Self::read_all_cues`]. If the file has none, the first block of every cluster, by a scan of the file.
    pub fn read_or_scan_all_cues(&self, shared: &SharedScan) -> Result<Vec<Cue>, ContainerError> {
        if self.cues.is_some() {
            return self.read_all_cues();
        }
        Ok(self.scan_once(shared)?.clusters.clone())
    }

    /// The scan that another reader made, or a new one. Readers at the same time wait for one scan.
    fn scan_once(&self, shared: &SharedScan) -> Result<Arc<BlockScan>, ContainerError> {
        let mut known = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(scan) = &*known {
            return Ok(scan.clone());
        }
        let scan = Arc::new(self.scan()?);
        if scan.cue_count() <= MAX_SHARED_CUES {
            *known = Some(scan.clone());
        }
        Ok(scan)
    }

    fn scan(&self) -> Result<BlockScan, ContainerError> {
        let tracks = (0..MAX_TRACKS).filter_map(|stream| self.read_compressed_track(stream).ok());
        let video: Vec<u64> =
            tracks.filter(|(track, _)| track.video_format.is_some()).map(|(track, _)| track.number).collect();
        let deadline = Instant::now() + TIME_LIMIT;
        let (mut scan, mut count, mut is_late) = (BlockScan::default(), 0usize, false);
        let result = self.layout.walk_blocks(self.file, self.layout.first_cluster, MAX_ELEMENTS, |block| {
            count += 1;
            is_late = count.is_multiple_of(BLOCKS_PER_CHECK) && Instant::now() > deadline;
            let is_in_file = block.offset.checked_add(block.size).is_some_and(|end| end <= self.file.len());
            if is_in_file {
                scan.push(&block, video.contains(&block.track));
            }
            is_in_file && !is_late && scan.cue_count() <= MAX_CUES
        });
        // Damaged or half an element at the end: the blocks before it are played.
        let is_finished = result.unwrap_or(true);
        let slow = ContainerError::Unsupported("there are no Cues, and a scan takes too long");
        refuse_if(is_late || !is_finished || scan.cue_count() > MAX_CUES, slow)?;
        Ok(scan)
    }
}

impl BlockScan {
    fn push(&mut self, block: &Block, is_video: bool) {
        let Ok(time) = u64::try_from(block.time) else { return };
        let cue = Cue { time, cluster: block.cluster };
        if is_video && block.may_be_keyframe {
            self.keyframes.push((block.track, cue));
        }
        if self.clusters.last().is_none_or(|last| last.cluster != block.cluster) {
            self.clusters.push(cue);
        }
    }

    fn cue_count(&self) -> usize {
        self.keyframes.len() + self.clusters.len()
    }
}
