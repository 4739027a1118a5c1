//! Keyframe candidates of a Matroska track, by its cues.

use super::frame_kind::FrameSyntax;
use super::{Candidate, CandidateTable, MAX_KEYFRAMES, RecoveryPoints};
use crate::domain::time::Ticks;
use crate::engine::container::bytes::{ReadAt, Truncated};
use crate::engine::container::matroska::{Block, ClusterLayout, Cue, TrackEntry};
use crate::engine::container::{ContainerError, refuse_if};

/// Maximum number of elements visited in a cluster to find a cue's block.
const MAX_CUE_ELEMENTS: usize = 4_000;

/// Maximum number of elements visited after the last cue to find the end.
const MAX_TAIL_ELEMENTS: usize = 40_000;

/// How the track's frames are recognized. H.264 without a decoder configuration has start codes (seen in real files).
fn frame_syntax(track: &TrackEntry, recovery_points: RecoveryPoints) -> Result<FrameSyntax, ContainerError> {
    Ok(match (&*track.codec, track.codec_private.first()) {
        (b"V_MPEG4/ISO/AVC", Some(1)) => FrameSyntax::of_avc(&track.codec_private, recovery_points)?,
        (b"V_MPEG4/ISO/AVC", _) => FrameSyntax::Avc { length_size: 0, recovery_points },
        (b"V_MPEGH/ISO/HEVC", _) => FrameSyntax::of_hevc(&track.codec_private)?,
        (b"V_AV1", _) => FrameSyntax::Av1,
        (b"V_VP9", _) => FrameSyntax::Vp9,
        _ => return Err(ContainerError::Unsupported("keyframes of this codec are not recognized")),
    })
}

/// The candidates of a track by its cues, numbered as the cues.
pub(super) fn candidate_table(
    file: &(impl ReadAt + ?Sized),
    layout: ClusterLayout,
    track: &TrackEntry,
    cues: &[Cue],
    recovery_points: RecoveryPoints,
) -> Result<CandidateTable, ContainerError> {
    let syntax = frame_syntax(track, recovery_points)?;
    let video_blocks = VideoBlocks { file, layout, track: track.number };
    let mut candidates = Vec::new();
    for (number, cue) in cues.iter().enumerate() {
        refuse_if(candidates.len() > MAX_KEYFRAMES, ContainerError::Uncuttable("the video has too many keyframes"))?;
        let block = video_blocks.find_cue_block(cue)?.ok_or(ContainerError::Unsupported("a cue points to no block"))?;
        let (time, number) = (layout.to_ticks(block.time), number as u32);
        candidates.push(Candidate { time, number, offset: block.offset, size: block.size });
    }
    let first_offset = video_blocks.first_offset()?;
    let last_cue = cues.last().ok_or(ContainerError::Unsupported("there are no cues for the video"))?;
    let (latest, step) = video_blocks.latest_frame(last_cue)?;
    let frame_duration = track.frame_nanos.map(|nanoseconds| Ticks::from_nanos_floor(nanoseconds.into()));
    let end = latest + frame_duration.or(step).unwrap_or(Ticks::from_ms(40));
    let starts_without_keyframe = candidates.first().is_none_or(|cue| cue.offset != first_offset);
    let prefix = track.stripped_bytes.clone();
    Ok(CandidateTable { candidates, end, syntax, prefix, starts_without_keyframe })
}

/// Finds blocks of the video in clusters.
struct VideoBlocks<'a, F: ?Sized> {
    file: &'a F,
    layout: ClusterLayout,
    track: u64,
}

impl<F: ReadAt + ?Sized> VideoBlocks<'_, F> {
    /// The block that a cue points to.
    fn find_cue_block(&self, cue: &Cue) -> Result<Option<Block>, ContainerError> {
        let cue_time = i64::try_from(cue.time).map_err(|_| Truncated)?;
        let mut found = None;
        self.walk_video(cue.cluster, MAX_CUE_ELEMENTS, |block| {
            if block.time == cue_time {
                found = Some(block);
            }
            found.is_none()
        })?;
        Ok(found)
    }

    /// Position of the first block of the video.
    fn first_offset(&self) -> Result<u64, ContainerError> {
        let mut offset = None;
        self.walk_video(self.layout.first_cluster, MAX_CUE_ELEMENTS, |block| {
            offset = Some(block.offset);
            false
        })?;
        offset.ok_or(ContainerError::Unsupported("there is no first block"))
    }

    /// Time of the latest frame after a cue, and the shortest step between two frames.
    fn latest_frame(&self, cue: &Cue) -> Result<(Ticks, Option<Ticks>), ContainerError> {
        let mut times = Vec::new();
        self.walk_video(cue.cluster, MAX_TAIL_ELEMENTS, |block| {
            // A block beyond the end of the file ends the stream.
            let is_in_file = block.offset.checked_add(block.size).is_some_and(|end| end <= self.file.len());
            if is_in_file {
                times.push(block.time);
            }
            is_in_file
        })?;
        times.sort_unstable();
        let latest = *times.last().ok_or(ContainerError::Unsupported("there are no blocks after the last cue"))?;
        let step = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|&step| step > 0).min();
        Ok((self.layout.to_ticks(latest), step.map(|step| self.layout.to_ticks(step))))
    }

    /// Calls `visit` for every block of the video from a cluster on, until it returns false.
    fn walk_video(&self, cluster: u64, max: usize, mut visit: impl FnMut(Block) -> bool) -> Result<(), ContainerError> {
        let mut is_laced = false;
        self.layout.walk_blocks(self.file, cluster, max, |block| {
            let is_video = block.track == self.track;
            is_laced |= is_video && block.lacing != 0;
            !is_laced && (!is_video || visit(block))
        })?;
        if is_laced { Err(ContainerError::Unsupported("the video uses lacing")) } else { Ok(()) }
    }
}
