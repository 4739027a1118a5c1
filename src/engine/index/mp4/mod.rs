//! The sample tables of MP4 and QuickTime files (ISO/IEC 14496-12), read without trust.
//!
//! Every table length is checked against its box before anything is allocated, every sum is checked, every look-up is
//! a `get`. `track` reads what `moov` says, `fragments` the samples that `moof` boxes add; both hand out samples with
//! file offsets, so that a packager over byte ranges can stand on the same tables.

mod fragments;
mod track;

use super::boxes::{child, children, top_level};
use super::bytes::ReadAt;
use super::{Candidate, MOST_KEYFRAMES, Refusal, Table};
use crate::domain::time::TICKS_PER_SECOND;
use track::Track;

/// Most bytes of one `moov` (2 h with 551,037 samples: 6.2 MB).
const MOST_MOOV: u64 = 128 << 20;

/// Most samples of one track: 92 hours at 60 fps.
const MOST_SAMPLES: u64 = 20_000_000;

/// One sample, in decoding order. Times in units of the track's clock, before the edit list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    offset: u64,
    size: u32,
    dts: i64,
    duration: u32,
    /// Composition offset.
    shift: i64,
    sync: bool,
}

/// Reads the table of the video that is stream `stream`.
pub(super) fn table(file: &(impl ReadAt + ?Sized), stream: u32) -> Result<Table, Refusal> {
    let boxes = top_level(file);
    let moov = boxes.iter().find(|found| &found.kind == b"moov").ok_or(Refusal::Unread("there is no moov"))?;
    let size = moov.end.min(file.len()).saturating_sub(moov.body);
    if size > MOST_MOOV || moov.end > file.len() {
        return Err(Refusal::Unread("moov is too large or cut short"));
    }
    let moov = file.exact(moov.body, size as usize)?;
    // ffmpeg numbers streams in the order of `trak`.
    let trak = children(&moov).filter(|(kind, _)| kind == b"trak").nth(stream as usize);
    let track = Track::read(trak.ok_or(Refusal::Unread("there is no such track"))?.1, &moov)?;
    let mut builder = Builder::new(&track, file.len());
    track.samples(|sample| builder.take(sample))?;
    if let Some(mvex) = child(&moov, b"mvex") {
        fragments::samples(file, &boxes, mvex, &track, builder.next_dts, |sample| builder.take(sample))?;
    }
    builder.finish()
}

/// Gathers what an index needs while samples pass by.
struct Builder<'a> {
    track: &'a Track,
    file_len: u64,
    candidates: Vec<Candidate>,
    samples: u64,
    first_is_sync: bool,
    first_time: Option<i64>,
    /// Largest presentation end, units of the track.
    end: i64,
    next_dts: i64,
    /// A sample that the file does not hold: what follows is not there.
    cut_short: bool,
}

impl<'a> Builder<'a> {
    fn new(track: &'a Track, file_len: u64) -> Self {
        Self {
            track,
            file_len,
            candidates: Vec::new(),
            samples: 0,
            first_is_sync: false,
            first_time: None,
            end: i64::MIN,
            next_dts: 0,
            cut_short: false,
        }
    }

    fn take(&mut self, sample: Sample) -> Result<(), Refusal> {
        self.samples += 1;
        if self.samples > MOST_SAMPLES || self.candidates.len() > MOST_KEYFRAMES {
            return Err(Refusal::Final("it has too many pictures".into()));
        }
        self.next_dts = sample.dts.saturating_add(i64::from(sample.duration));
        if sample.size == 0 {
            return Ok(());
        }
        let inside = sample.offset.checked_add(u64::from(sample.size)).is_some_and(|end| end <= self.file_len);
        if self.cut_short || !inside {
            self.cut_short = true;
            return Ok(());
        }
        let time = sample.dts.saturating_add(sample.shift);
        if self.first_time.is_none() {
            self.first_time = Some(time);
            self.first_is_sync = sample.sync;
        }
        self.end = self.end.max(time.saturating_add(i64::from(sample.duration)));
        if sample.sync {
            let at = self.track.ticks(time);
            self.candidates.push(Candidate { at, offset: sample.offset, size: u64::from(sample.size) });
        }
        Ok(())
    }

    fn finish(self) -> Result<Table, Refusal> {
        let first = self.first_time.ok_or(Refusal::Final("there are no pictures".into()))?;
        let first = self.track.ticks(first);
        if first < self.track.ticks_of_edit_start() - TICKS_PER_SECOND / 20 {
            return Err(Refusal::Final("its edit list begins inside a group of pictures".into()));
        }
        let end = self.track.ticks(self.end);
        let end = self.track.edit_end().map_or(end, |edit| end.min(edit));
        let candidates = self.candidates.into_iter().filter(|candidate| candidate.at < end).collect();
        Ok(Table { candidates, end, nal_length: self.track.nal_length, headless: !self.first_is_sync })
    }
}
