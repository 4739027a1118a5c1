//! The samples of a segment from a Matroska file: its blocks, found through the cues.
//!
//! Blocks carry only presentation times, in whole milliseconds. Decode times follow from the order of the blocks:
//! presentation times in ascending order, shifted by the reordering depth. Audio times are put back on the grid of AAC
//! frames, which the milliseconds were rounded from.

use super::aac::Adts;
use super::avc::Avc;
use super::package::Item;
use crate::domain::grid::Grid;
use crate::domain::mpegts::segmenter::MAX_PRIMING;
use crate::domain::mpegts::psi::TrackKind as Lane;
use crate::domain::time::TICKS_PER_SECOND;
use crate::engine::RunError;
use crate::engine::index::{self, Index};
use crate::engine::tables::Refusal;
use crate::engine::tables::bytes::{ReadAt, Short};
use crate::engine::tables::matroska::{self, Block, Layout, frames};

/// Maximum number of elements visited for one segment: 30 s of a film with a dozen tracks is under 20,000.
const MOST_STEPS: usize = 400_000;

/// How far after a segment's end the file may store its last audio, ticks; muxers interleave more closely than that.
const PATIENCE: i64 = 5 * TICKS_PER_SECOND;

/// Samples per AAC frame.
const FRAME: i64 = 1024;

/// The tracks of a file.
#[derive(Debug)]
pub(super) struct Film {
    layout: Layout,
    /// Track number of the video.
    video: u64,
    /// For each keyframe of the index, the cluster where reading starts.
    clusters: Vec<u64>,
    /// Reordering depth, frames.
    depth: usize,
    /// Duration of one frame, nanoseconds.
    picture: u64,
    audio: Option<Sound>,
}

#[derive(Clone, Copy, Debug)]
struct Sound {
    number: u64,
    /// Codec delay in units of the timestamp scale; subtracted from every time.
    delay: i64,
    /// Sample rate, Hz.
    rate: i64,
    /// Time of the first frame, in samples.
    first: i64,
}

/// An AAC frame; its time in ticks of the file's clock.
struct Heard {
    at: i64,
    offset: u64,
    size: u32,
}

impl Film {
    pub(super) fn weight(&self) -> usize {
        self.clusters.len() * size_of::<u64>()
    }

    pub(super) fn read(
        file: &(impl ReadAt + ?Sized),
        video: u32,
        audio: Option<u32>,
        start: i64,
    ) -> Result<(Self, Avc, Option<Adts>, Index), Refusal> {
        let film = matroska::Film::read(file)?;
        let layout = film.layout;
        let picture = film.track(video)?;
        if !picture.is_avc() || picture.private.first() != Some(&1) {
            return Err(Refusal::Unread("the video is not H.264 with an avcC record"));
        }
        if picture.delay > 0 {
            return Err(Refusal::Unread("the video has a codec delay"));
        }
        let avc = Avc::read(&picture.private)?;
        let depth = avc.reorder_depth().ok_or(Refusal::Unread("the video does not state its reordering depth"))?;
        let duration = picture.duration.ok_or(Refusal::Unread("the video does not state its frame duration"))?;
        let cues = film.cues(picture.number)?;
        let (index, numbers) = index::of_cues(file, start, layout, &picture, &cues)?;
        if !numbers.is_sorted() {
            return Err(Refusal::Unread("keyframes are out of order"));
        }
        let cluster = |&number: &u32| cues.get(number as usize).map(|cue| cue.cluster);
        let clusters = numbers.iter().map(cluster).collect::<Option<_>>().ok_or(Short)?;
        let (audio, adts) = match audio {
            None => (None, None),
            Some(stream) => {
                let (sound, adts) = Sound::read(file, layout, &film.track(stream)?)?;
                (Some(sound), Some(adts))
            }
        };
        let film = Self { layout, video: picture.number, clusters, depth, picture: duration, audio };
        Ok((film, avc, adts, index))
    }

    /// The samples of a segment.
    pub(super) fn items(
        &self,
        file: &(impl ReadAt + ?Sized),
        index: &Index,
        grid: &Grid,
        number: usize,
        start: i64,
    ) -> Result<Vec<Item>, RunError> {
        let at = if number == 0 { Some(0) } else { index.keyframes.binary_search(&grid.segment_start(number)).ok() };
        let at = at.ok_or_else(|| RunError::Internal(format!("segment {number} does not begin with a keyframe")))?;
        let first = if number == 0 { i64::MIN } else { grid.segment_start(number) + start };
        let last = number + 1 >= grid.len();
        let behind = if last { i64::MAX } else { grid.segment_start(number + 1) + start };
        let heard_from = if number == 0 { start - MAX_PRIMING + 1 } else { first };
        let span = Span { first, behind, heard_from, heard_to: grid.segment_start(number + 1) + start };
        // Start one group of pictures earlier, for its times and late audio; further back only if groups are very short.
        let mut from = at.saturating_sub(1);
        let found = loop {
            let cluster = if from == 0 { self.layout.first } else { self.clusters[from] };
            let found = self
                .gather(file, cluster, &span)
                .map_err(|Short| RunError::SourceRead(format!("the clusters of segment {number} cannot be read")))?;
            if from == 0 || found.before.len() >= self.depth {
                break found;
            }
            from = from.saturating_sub(4);
        };
        Ok(self.timed(found, index, start))
    }

    /// Reads blocks from a cluster on until the segment is complete.
    fn gather(&self, file: &(impl ReadAt + ?Sized), cluster: u64, span: &Span) -> Result<Found, Short> {
        let mut found = Found::default();
        let (mut seen, mut heard) = (false, self.audio.is_none());
        let mut failed = false;
        let within = self.layout.walk(file, cluster, MOST_STEPS, |block| {
            let at = self.layout.ticks(block.time);
            let whole = block.offset.checked_add(block.size).is_some_and(|end| end <= file.len());
            if !whole {
                return false;
            }
            if block.track == self.video {
                match u32::try_from(block.size) {
                    _ if at < span.first => found.before.push(at),
                    Ok(size) if at < span.behind => found.pictures.push((at, block.offset, size)),
                    _ => seen = true,
                }
            } else if let Some(audio) = self.audio.filter(|audio| audio.number == block.track) {
                match audio.frames(file, self.layout, &block) {
                    Ok(frames) => {
                        heard |= frames.first().is_some_and(|frame| frame.at >= span.behind);
                        let inside = |frame: &Heard| (span.heard_from..span.heard_to).contains(&frame.at);
                        found.sound.extend(frames.into_iter().filter(inside));
                    }
                    Err(Short) => failed = true,
                }
            }
            let late = block.track == self.video && at.saturating_sub(PATIENCE) >= span.behind;
            !(failed || late || seen && heard)
        })?;
        if within && !failed { Ok(found) } else { Err(Short) }
    }

    /// Assigns a decode time to every frame.
    fn timed(&self, found: Found, index: &Index, start: i64) -> Vec<Item> {
        let mut before = found.before;
        before.sort_unstable();
        let mut times: Vec<i64> = found.pictures.iter().map(|(at, ..)| *at).collect();
        times.sort_unstable();
        let first = times.first().copied().unwrap_or(start);
        // Before the first frame, times continue backwards at the frame rate.
        let missing = self.depth.saturating_sub(before.len());
        let earlier = (1..=missing).rev().map(|n| {
            let nanoseconds = i128::from(self.picture) * (n as i128);
            first - (nanoseconds * i128::from(TICKS_PER_SECOND) / 1_000_000_000) as i64
        });
        let known = before.len().saturating_sub(self.depth);
        let order: Vec<i64> = earlier.chain(before[known..].iter().copied()).chain(times).collect();
        let pictures = found.pictures.iter().zip(order).map(|(&(at, offset, size), dts)| Item {
            lane: Lane::Video,
            offset,
            size,
            dts: dts.min(at) - start,
            pts: at - start,
            keyframe: index.keyframes.binary_search(&(at - start)).is_ok(),
        });
        let sound = found.sound.iter().map(|frame| Item {
            lane: Lane::Audio,
            offset: frame.offset,
            size: frame.size,
            dts: frame.at - start,
            pts: frame.at - start,
            keyframe: false,
        });
        pictures.chain(sound).filter(|item| item.size > 0).collect()
    }
}

/// The time ranges of a segment, in ticks of the file's clock.
struct Span {
    first: i64,
    behind: i64,
    heard_from: i64,
    heard_to: i64,
}

/// The blocks of a segment: times of earlier frames, its frames in decoding order, its audio.
#[derive(Default)]
struct Found {
    before: Vec<i64>,
    pictures: Vec<(i64, u64, u32)>,
    sound: Vec<Heard>,
}

impl Sound {
    fn read(file: &(impl ReadAt + ?Sized), layout: Layout, track: &matroska::Track) -> Result<(Self, Adts), Refusal> {
        if track.codec != b"A_AAC" {
            return Err(Refusal::Unread("the audio is not A_AAC"));
        }
        let adts = Adts::read(&track.private)?;
        let rate = adts.rate().ok_or(Short)?;
        let scale = layout.scale;
        let delay = i64::try_from((track.delay + scale / 2) / scale).map_err(|_| Short)?;
        let mut first = None;
        layout.walk(file, layout.first, 4_000, |block| {
            if block.track == track.number {
                first = Some(block.time);
            }
            first.is_none()
        })?;
        let mut sound = Self { number: track.number, delay, rate, first: 0 };
        sound.first = sound.samples(layout, first.ok_or(Refusal::Unread("the audio begins too late"))?);
        Ok((sound, adts))
    }

    /// A block's time in samples, as precise as the file's clock.
    fn samples(&self, layout: Layout, time: i64) -> i64 {
        let nanoseconds = i128::from(time.saturating_sub(self.delay)) * i128::from(layout.scale);
        let most = i128::from(i64::MAX / 4);
        ((nanoseconds * i128::from(self.rate) * 2 + 1_000_000_000).div_euclid(2_000_000_000)).clamp(-most, most) as i64
    }

    /// The frames of a block. Their times are on the frame grid that starts at the first frame. A block that is off the
    /// grid by more than the clock's rounding keeps its own time.
    fn frames(&self, file: &(impl ReadAt + ?Sized), layout: Layout, block: &Block) -> Result<Vec<Heard>, Short> {
        let near = self.samples(layout, block.time);
        let on_grid = self.first + (near - self.first + FRAME / 2).div_euclid(FRAME) * FRAME;
        let rounding = (i128::from(layout.scale) * i128::from(self.rate) / 1_000_000_000) as i64 + 1;
        let first = if (on_grid - near).abs() <= rounding { on_grid } else { near };
        let ticks = |samples: i64| {
            (i128::from(samples) * i128::from(TICKS_PER_SECOND) * 2 + i128::from(self.rate))
                .div_euclid(i128::from(self.rate) * 2) as i64
        };
        let frames = frames(file, block)?.into_iter().enumerate();
        Ok(frames.map(|(n, (offset, size))| Heard { at: ticks(first + n as i64 * FRAME), offset, size }).collect())
    }
}
