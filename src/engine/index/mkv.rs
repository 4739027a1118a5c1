//! The keyframes of a Matroska track, by its cues.

use super::{Candidate, MOST_KEYFRAMES, Table};
use crate::engine::tables::Refusal;
use crate::engine::tables::bytes::{ReadAt, Short};
use crate::engine::tables::matroska::{Block, Cue, Layout, Track};

/// Most elements walked over in a cluster to find a cue's block.
const MOST_STEPS: usize = 4_000;

/// Most elements walked over behind the last cue, to find the end.
const MOST_TAIL_STEPS: usize = 40_000;

/// Bytes of a NAL unit's length by the decoder's configuration. Without one the stream has start codes (seen in the wild).
fn nal_length(track: &Track) -> Result<u8, Refusal> {
    if !track.is_avc() {
        return Err(Refusal::Unread("the track is not H.264 in its usual form"));
    }
    match track.private.first() {
        Some(1) => Ok((track.private.get(4).ok_or(Short)? & 3) + 1),
        _ => Ok(0),
    }
}

/// What the cues say of a track's keyframes; candidates are numbered as the cues are.
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
            return Err(Refusal::Final("it has too many keyframes".into()));
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
    /// The block a cue points to.
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

    /// Where the first block of the video is.
    fn first(&self) -> Result<u64, Refusal> {
        let mut first = None;
        self.walk(self.layout.first, MOST_STEPS, |block| {
            first = Some(block.offset);
            false
        })?;
        first.ok_or(Refusal::Unread("there is no first block"))
    }

    /// The latest picture behind a cue, and the shortest step between two; in ticks.
    fn latest(&self, cue: &Cue) -> Result<(i64, Option<i64>), Refusal> {
        let mut times = Vec::new();
        self.walk(cue.cluster, MOST_TAIL_STEPS, |block| {
            // A block that the file does not hold ends the stream.
            let whole = block.offset.checked_add(block.size).is_some_and(|end| end <= self.file.len());
            if whole {
                times.push(block.time);
            }
            whole
        })?;
        times.sort_unstable();
        let latest = *times.last().ok_or(Refusal::Unread("there are no blocks behind the last cue"))?;
        let step = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|&step| step > 0).min();
        Ok((self.layout.ticks(latest), step.map(|step| self.layout.ticks(step))))
    }

    /// Calls `each` for every block of the video from a cluster on, until it says no.
    fn walk(&self, cluster: u64, steps: usize, mut each: impl FnMut(Block) -> bool) -> Result<(), Refusal> {
        let mut laced = false;
        self.layout.walk(self.file, cluster, steps, |block| {
            let own = block.track == self.track;
            laced |= own && block.lacing != 0;
            !laced && (!own || each(block))
        })?;
        if laced { Err(Refusal::Unread("its pictures are laced")) } else { Ok(()) }
    }
}
