//! What is to be packaged: the tables of the chosen tracks, and any segment out of them.

use super::aac::Adts;
use super::avc::Avc;
use super::pieces::Pieces;
use crate::domain::grid::Grid;
use crate::domain::mpegts::cut::PRIMING;
use crate::domain::mpegts::tables::{Entry, Track as Lane};
use crate::domain::mpegts::write::{Unit, Writer};
use crate::domain::time::{TICKS_PER_SECOND, ticks};
use crate::engine::index::{self, Index};
use crate::engine::tables::Refusal;
use crate::engine::tables::bytes::ReadAt;
use crate::engine::tables::mp4::{Description, Movie, Sample, Track};
use crate::engine::{RunError, TIMELINE_BASE_SECONDS};

/// Most bytes and samples of one segment: 10 s at 200 Mbit/s.
const MOST_BYTES: u64 = 256 << 20;
const MOST_SAMPLES: usize = 200_000;

/// The tracks of one rendition, held for as long as segments of it are wanted.
#[derive(Debug)]
pub struct Package {
    video: Option<Picture>,
    audio: Option<Sound>,
    /// The file's first timestamp, ticks: source time is counted from it.
    start: i64,
}

#[derive(Debug)]
struct Picture {
    track: Track,
    avc: Avc,
    index: Index,
    /// The samples of the index's keyframes.
    numbers: Vec<u32>,
}

#[derive(Debug)]
struct Sound {
    track: Track,
    adts: Adts,
}

/// A sample on its way into a segment; times in ticks of source time.
struct Item {
    lane: Lane,
    offset: u64,
    size: u32,
    dts: i64,
    pts: i64,
    keyframe: bool,
}

impl Package {
    /// Reads the tables of stream `video` and stream `audio` (ffmpeg's numbers) of an mp4 file that begins at
    /// `start_seconds` of its own clock.
    pub(super) fn read(
        file: &(impl ReadAt + ?Sized),
        video: Option<u32>,
        audio: Option<u32>,
        start_seconds: f64,
    ) -> Result<Self, Refusal> {
        let start = ticks(start_seconds);
        let movie = Movie::read(file)?;
        let video = video.map(|stream| Picture::read(file, movie.track(stream)?, start)).transpose()?;
        let audio = audio.map(|stream| Sound::read(movie.track(stream)?)).transpose()?;
        Ok(Self { video, audio, start })
    }

    /// Where its video may be cut; None without video.
    pub fn index(&self) -> Option<&Index> {
        self.video.as_ref().map(|video| &video.index)
    }

    /// Segment `number` of a grid that was made from this index.
    pub(super) fn segment(
        &self,
        file: &(impl ReadAt + ?Sized),
        grid: &Grid,
        number: usize,
    ) -> Result<Vec<u8>, RunError> {
        let mut items = Vec::new();
        if let Some(video) = &self.video {
            items.extend(video.items(grid, number, self.start)?.take(MOST_SAMPLES + 1));
        }
        if let Some(audio) = &self.audio {
            items.extend(audio.items(grid, number, self.start).take(MOST_SAMPLES + 1));
        }
        let bytes: u64 = items.iter().map(|item| u64::from(item.size)).sum();
        if items.len() > MOST_SAMPLES || bytes > MOST_BYTES {
            return Err(RunError::SourceRead(format!("segment {number} is too large")));
        }
        // Pictures first where both are due: a stable sort.
        items.sort_by_key(|item| item.dts);
        let wanted = items.iter().map(|item| (item.offset, item.size)).collect();
        let pieces = Pieces::read(file, wanted)
            .map_err(|_| RunError::SourceRead(format!("the bytes of segment {number} are not there")))?;
        Ok(self.write(&items, &pieces, bytes as usize))
    }

    fn write(&self, items: &[Item], pieces: &Pieces, bytes: usize) -> Vec<u8> {
        let clock = if self.video.is_some() { Lane::Video } else { Lane::Audio };
        let base = TIMELINE_BASE_SECONDS * TICKS_PER_SECOND;
        let mut writer = Writer::new(clock, bytes);
        let mut unit = Vec::new();
        for item in items {
            let Some(sample) = pieces.get(item.offset, item.size) else { continue };
            let whole = match (item.lane, &self.video, &self.audio) {
                (Lane::Video, Some(video), _) => video.avc.write(sample, &mut unit),
                (Lane::Audio, _, Some(audio)) => audio.adts.write(sample, &mut unit),
                _ => false,
            };
            if whole {
                writer.put(&Unit {
                    track: item.lane,
                    pts: base + item.pts,
                    dts: (item.lane == Lane::Video).then_some(base + item.dts),
                    random_access: item.keyframe,
                    bytes: &unit,
                });
            }
        }
        let entry = |lane: Lane, stream_type| Entry { pid: lane.pid(), stream_type, descriptors: Vec::new() };
        let video = self.video.as_ref().map(|_| entry(Lane::Video, 0x1b));
        let audio = self.audio.as_ref().map(|_| entry(Lane::Audio, 0x0f));
        writer.finish(&video.into_iter().chain(audio).collect::<Vec<_>>())
    }
}

impl Picture {
    fn read(file: &(impl ReadAt + ?Sized), track: Track, start: i64) -> Result<Self, Refusal> {
        let Description::Avc(record) = &track.description else {
            return Err(Refusal::Unread("its pictures are no H.264"));
        };
        let avc = Avc::read(record)?;
        let (index, numbers) = index::of_track(file, start, &track)?;
        let timing = &track.timing;
        // Such pictures ffmpeg decodes but does not show, and how many of them depends on what lies around them.
        if timing.shown(track.span.earliest) < timing.begin() {
            return Err(Refusal::Unread("pictures lie before its edit"));
        }
        if timing.end().is_some_and(|end| timing.shown(track.span.latest) >= end) {
            return Err(Refusal::Unread("pictures lie behind its edit"));
        }
        steady(&track)?;
        if !numbers.is_sorted() {
            return Err(Refusal::Unread("its keyframes are out of order"));
        }
        Ok(Self { track, avc, index, numbers })
    }

    /// The pictures of a segment: from its keyframe to the next segment's.
    fn items(&self, grid: &Grid, number: usize, start: i64) -> Result<impl Iterator<Item = Item>, RunError> {
        let sample = |segment: usize| -> Result<u32, RunError> {
            if segment == 0 {
                return Ok(0);
            }
            if segment >= grid.len() {
                return Ok(self.track.samples.len());
            }
            let found = self.index.keyframes.binary_search(&grid.start(segment)).ok();
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
    fn read(track: Track) -> Result<Self, Refusal> {
        let Description::Aac(config) = &track.description else {
            return Err(Refusal::Unread("its sound is no AAC"));
        };
        let adts = Adts::read(config)?;
        if track.samples.is_reordered() {
            return Err(Refusal::Unread("its sound has composition offsets"));
        }
        if track.span.first.is_none() {
            return Err(Refusal::Unread("it has no sound"));
        }
        steady(&track)?;
        Ok(Self { track, adts })
    }

    /// The frames that begin in a segment; encoder priming belongs to the first. What begins behind the edit is padding,
    /// which ffmpeg leaves out.
    fn items(&self, grid: &Grid, number: usize, start: i64) -> impl Iterator<Item = Item> {
        let timing = self.track.timing;
        let from = if number == 0 { 1 - PRIMING } else { grid.start(number) };
        let to = timing.end().map_or(i64::MAX, |end| end - start).min(grid.start(number + 1));
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

/// Every sample must have a time of its own in ticks: ffmpeg moves those that have not.
fn steady(track: &Track) -> Result<(), Refusal> {
    if track.timing.decoded(i64::from(track.span.step)) > track.timing.decoded(0) {
        Ok(())
    } else {
        Err(Refusal::Unread("samples share a time"))
    }
}
