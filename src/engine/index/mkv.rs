//! Keyframe candidates of a Matroska track, by its cues.

use super::{Candidate, MOST_KEYFRAMES, Table};
use crate::engine::tables::Refusal;
use crate::engine::tables::bytes::{ReadAt, Short};
use crate::engine::tables::matroska::{Block, Cue, Layout, Track};

/// Maximum number of elements visited in a cluster to find a cue's block.
const MOST_STEPS: usize = 4_000;

/// Maximum number of elements visited after the last cue to find the end.
const MOST_TAIL_STEPS: usize = 40_000;

/// Size of a NAL unit's length field by the decoder's configuration, bytes. Without one the stream has start codes (seen
/// in real files).
fn nal_length(track: &Track) -> Result<u8, Refusal> {
    if !track.is_avc() {
        return Err(Refusal::Unread("the track is not V_MPEG4/ISO/AVC"));
    }
    match track.private.first() {
        Some(1) => Ok((track.private.get(4).ok_or(Short)? & 3) + 1),
        _ => Ok(0),
    }
}

/// The candidates of a track by its cues, numbered as the cues.
pub(super) fn table(
    file: &(impl ReadAt + ?Sized),
    layout: Layout,
    track: &Track,
    cues: &[Cue],
) -> Result<Table, Refusal> {
    let nal_length = nal_length(track)?;
    let blocks = Blocks { file, layout, track: track.number };
    let mut candidates = Vec::new();
    for (number, cue) in cues.iter().enumerate() {
        if candidates.len() > MOST_KEYFRAMES {
            return Err(Refusal::Final("the video has too many keyframes".into()));
        }
        let found = blocks.find(cue)?.ok_or(Refusal::Unread("a cue points to no block"))?;
        let (at, number) = (layout.ticks(found.time), number as u32);
        candidates.push(Candidate { at, number, offset: found.offset, size: found.size });
    }
    let first = blocks.first()?;
    let last = cues.last().ok_or(Refusal::Unread("there are no cues for the video"))?;
    let (latest, step) = blocks.latest(last)?;
    let picture = track.duration.map(|nanoseconds| (u128::from(nanoseconds) * 90_000 / 1_000_000_000) as i64);
    let end = latest + picture.or(step).unwrap_or(3_600);
    let headless = candidates.first().is_none_or(|cue| cue.offset != first);
    Ok(Table { candidates, end, nal_length, headless })
}

/// Finds blocks of the video in clusters.
struct Blocks<'a, F: ?Sized> {
    file: &'a F,
    layout: Layout,
    track: u64,
}

impl<F: ReadAt + ?Sized> Blocks<'_, F> {
    /// The block that a cue points to.
    fn find(&self, cue: &Cue) -> Result<Option<Block>, Refusal> {
        let wanted = i64::try_from(cue.time).map_err(|_| Short)?;
        let mut found = None;
        self.walk(cue.cluster, MOST_STEPS, |block| {
            if block.time == wanted {
                found = Some(block);
            }
            found.is_none()
        })?;
        Ok(found)
    }

    /// Position of the first block of the video.
    fn first(&self) -> Result<u64, Refusal> {
        let mut first = None;
        self.walk(self.layout.first, MOST_STEPS, |block| {
            first = Some(block.offset);
            false
        })?;
        first.ok_or(Refusal::Unread("there is no first block"))
    }

    /// Time of the latest frame after a cue, and the shortest step between two frames; in ticks.
    fn latest(&self, cue: &Cue) -> Result<(i64, Option<i64>), Refusal> {
        let mut times = Vec::new();
        self.walk(cue.cluster, MOST_TAIL_STEPS, |block| {
            // A block beyond the end of the file ends the stream.
            let whole = block.offset.checked_add(block.size).is_some_and(|end| end <= self.file.len());
            if whole {
                times.push(block.time);
            }
            whole
        })?;
        times.sort_unstable();
        let latest = *times.last().ok_or(Refusal::Unread("there are no blocks after the last cue"))?;
        let step = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|&step| step > 0).min();
        Ok((self.layout.ticks(latest), step.map(|step| self.layout.ticks(step))))
    }

    /// Calls `each` for every block of the video from a cluster on, until it returns false.
    fn walk(&self, cluster: u64, steps: usize, mut each: impl FnMut(Block) -> bool) -> Result<(), Refusal> {
        let mut laced = false;
        self.layout.walk(self.file, cluster, steps, |block| {
            let own = block.track == self.track;
            laced |= own && block.lacing != 0;
            !laced && (!own || each(block))
        })?;
        if laced { Err(Refusal::Unread("the video uses lacing")) } else { Ok(()) }
    }
}
