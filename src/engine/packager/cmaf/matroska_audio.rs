//! The audio of a segment from a Matroska file: the frames that begin in it, of blocks found through the cues of any track.
//!
//! Blocks have rounded times, and only the first frame of a laced block has one: an [`AudioClock`] counts samples. Which
//! segment a frame belongs to is decided by the file's times.

use super::matroska_video::MAX_ELEMENTS;
use super::samples::SegmentSamples;
use crate::domain::cmaf::audio_frames::AudioFrames;
use crate::domain::cmaf::times::AudioClock;
use crate::domain::grid::Grid;
use crate::domain::time::Ticks;
use crate::engine::RunError;
use crate::engine::container::ContainerError;
use crate::engine::container::bytes::{ReadAt, SampleBytes, Truncated};
use crate::engine::container::matroska::{Block, ClusterLayout, Cue, TrackEntry, split_lacing};

/// How far before a segment's start the file may store its first audio, and how far after its end its last; muxers
/// interleave more closely than that.
const MAX_AUDIO_LEAD: Ticks = Ticks::from_ms(1000);
const MAX_INTERLEAVE: Ticks = Ticks::from_ms(5000);

/// Blocks may step back in time, in real files by up to a laced block.
const MAX_STEP_BACK: Ticks = Ticks::from_ms(200);

#[derive(Debug)]
pub(super) struct MatroskaAudio {
    layout: ClusterLayout,
    /// Track number.
    number: u64,
    /// Bytes that the container removed from the start of every frame.
    prefix: Vec<u8>,
    /// Subtracted from a block's time to get source time: the file's first timestamp, and the codec's delay.
    offset: Ticks,
    frames: AudioFrames,
    /// Source time of the first frame.
    first_time: Ticks,
    /// Source time and cluster of every cue, ascending.
    cues: Vec<(Ticks, u64)>,
}

/// A frame of a block.
struct BlockFrame {
    /// Source time by the file: the block's, plus the frames before it.
    time: Ticks,
    range: (u64, u32),
    /// Length, samples.
    samples: u32,
    /// Whether its block states its time, or that of frames before it which belong to another segment.
    is_first: bool,
}

impl MatroskaAudio {
    pub(super) fn new(
        layout: ClusterLayout,
        track: &TrackEntry,
        frames: AudioFrames,
        first_block: &Block,
        cues: &[Cue],
        start: Ticks,
    ) -> Self {
        let offset = start + Ticks::from_nanos_floor(track.delay_nanos.into());
        let cue_time = |cue: &Cue| i64::try_from(cue.time).map_or(Ticks::MAX, |time| layout.to_ticks(time)) - start;
        let mut cues: Vec<(Ticks, u64)> = cues.iter().map(|cue| (cue_time(cue), cue.cluster)).collect();
        cues.sort_unstable();
        cues.dedup_by_key(|(_, cluster)| *cluster);
        cues.shrink_to_fit();
        let first_time = layout.to_ticks(first_block.time) - offset;
        Self { layout, number: track.number, prefix: track.stripped_bytes.clone(), offset, frames, first_time, cues }
    }

    pub(super) fn timescale(&self) -> u32 {
        self.frames.sample_rate
    }

    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.cues.len() * size_of::<(Ticks, u64)>() + self.prefix.len()
    }

    /// The frames that begin in a segment. Priming belongs to the first segment.
    pub(super) fn segment_samples(
        &self,
        file: &(impl ReadAt + ?Sized),
        grid: &Grid,
        number: usize,
    ) -> Result<SegmentSamples, RunError> {
        let start = if number == 0 { Ticks::MIN } else { grid.segment_start(number) };
        let end = grid.segment_start(number + 1);
        let (mut clock, mut found, mut next_time) = (self.new_clock(), SegmentSamples::default(), None);
        let mut is_broken = false;
        let is_finished = self.layout.walk_blocks(file, self.cluster_before(start), MAX_ELEMENTS, |block| {
            let time = self.layout.to_ticks(block.time) - self.offset;
            let is_in_file = block.offset.checked_add(block.size).is_some_and(|end| end <= file.len());
            if !is_in_file {
                return false;
            }
            if block.track != self.number {
                return time - MAX_INTERLEAVE < end;
            }
            let Ok(frames) = self.block_frames(file, &block, time, start) else {
                is_broken = true;
                return false;
            };
            for frame in frames {
                if frame.time < end {
                    let at = clock.end().filter(|_| !frame.is_first);
                    let at = at.map_or(frame.time, |end| Ticks::from_units(end, self.timescale()));
                    found.push(clock.advance(at, frame.samples, 1), frame.range, self.prefix.len(), true);
                } else if next_time.is_none() {
                    next_time = Some(self.new_clock().advance(frame.time, frame.samples, 1));
                }
            }
            time - MAX_STEP_BACK < end && !found.is_too_long()
        });
        if is_finished != Ok(true) || is_broken {
            return Err(RunError::SourceRead(format!("the clusters of segment {number} cannot be read")));
        }
        let last_end = clock.end().unwrap_or(end.to_units(self.timescale()));
        let is_after_last = |&next: &i64| found.last_time().is_none_or(|last| next > last);
        found.end = next_time.filter(is_after_last).unwrap_or(last_end);
        Ok(found)
    }

    fn new_clock(&self) -> AudioClock {
        AudioClock::new(self.frames.sample_rate, self.first_time, self.layout.to_ticks(1))
    }

    /// The cluster from which all audio from `start` on is found.
    fn cluster_before(&self, start: Ticks) -> u64 {
        let count = self.cues.partition_point(|(time, _)| *time <= start - MAX_AUDIO_LEAD);
        count.checked_sub(1).map_or(self.layout.first_cluster, |last| self.cues[last].1)
    }

    /// The frames of a block that begin at `start` or later.
    fn block_frames(
        &self,
        file: &(impl ReadAt + ?Sized),
        block: &Block,
        time: Ticks,
        start: Ticks,
    ) -> Result<Vec<BlockFrame>, Truncated> {
        // An unlaced block before the segment need not be read.
        if block.lacing == 0 && time < start {
            return Ok(Vec::new());
        }
        let (mut samples_before, mut frames) = (0i64, Vec::new());
        for range in split_lacing(file, block)? {
            let samples = self.frame_samples(file, range);
            let time = time + Ticks::from_units(samples_before, self.timescale());
            if time >= start && range.1 > 0 {
                frames.push(BlockFrame { time, range, samples, is_first: frames.is_empty() });
            }
            samples_before += i64::from(samples);
        }
        Ok(frames)
    }

    fn frame_samples(&self, file: &(impl ReadAt + ?Sized), (offset, size): (u64, u32)) -> u32 {
        if !self.frames.depends_on_bytes() {
            return self.frames.samples(&[]);
        }
        let mut head = [0; AudioFrames::HEAD_BYTES];
        let frame = SampleBytes { file, prefix: &self.prefix, offset, size: size.into() };
        let read = frame.read_at(&mut head, 0);
        self.frames.samples(&head[..read])
    }
}

/// The first block of a track.
pub(super) fn first_block(
    file: &(impl ReadAt + ?Sized),
    layout: ClusterLayout,
    track: u64,
) -> Result<Block, ContainerError> {
    let mut first = None;
    layout.walk_blocks(file, layout.first_cluster, MAX_ELEMENTS / 4, |block| {
        if block.track == track {
            first = Some(block);
        }
        first.is_none()
    })?;
    first.ok_or(ContainerError::Unsupported("the track has no blocks, or begins too late"))
}
