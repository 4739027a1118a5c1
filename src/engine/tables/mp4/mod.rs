//! The sample tables of MP4 and QuickTime files (ISO/IEC 14496-12), read from untrusted bytes.
//!
//! Every table length is checked against its box before anything is allocated, every sum is checked, and every look-up is
//! a `get`. `track` reads a track in `moov`, `tables` its samples, and `fragments` the samples of `moof` boxes. `timing`
//! computes the same times as ffmpeg, because ffmpeg makes the segments of files that this reader refuses.

mod boxes;
pub mod description;
mod fragments;
mod samples;
mod tables;
mod timing;
mod track;

use super::Refusal;
use super::bytes::ReadAt;
use boxes::{Placed, child, children, top_level};
pub use description::Description;
pub use samples::Sample;
pub use track::Track;

/// Maximum size of `moov`, bytes (2 h with 551,037 samples: 6.2 MB).
const MOST_MOOV: u64 = 256 << 20;

/// Maximum number of samples of one track: 92 hours at 60 fps.
const MOST_SAMPLES: u64 = 20_000_000;

/// An mp4 file's header.
pub struct Movie<'a, F: ?Sized> {
    file: &'a F,
    boxes: Vec<Placed>,
    moov: Vec<u8>,
}

impl<'a, F: ReadAt + ?Sized> Movie<'a, F> {
    pub fn read(file: &'a F) -> Result<Self, Refusal> {
        let boxes = top_level(file);
        let moov = boxes.iter().find(|found| &found.kind == b"moov").ok_or(Refusal::Unread("there is no moov"))?;
        let size = moov.end.min(file.len()).saturating_sub(moov.body);
        if size > MOST_MOOV || moov.end > file.len() {
            return Err(Refusal::Unread("moov is too large or truncated"));
        }
        let moov = file.exact(moov.body, size as usize)?;
        Ok(Self { file, boxes, moov })
    }

    /// The track with ffmpeg's number `stream`, which counts in the order of `trak` boxes.
    pub fn track(&self, stream: u32) -> Result<Track, Refusal> {
        let trak = children(&self.moov).filter(|(kind, _)| kind == b"trak").nth(stream as usize);
        let (_, trak) = trak.ok_or(Refusal::Unread("there is no such track"))?;
        let mut track = Track::read(trak, &self.moov)?;
        let inside = |sample: &Sample| sample.end() <= self.file.len();
        if let Some(mvex) = child(&self.moov, b"mvex") {
            track.samples.survey(|sample| Ok(inside(sample)))?;
            let before = track.samples.len();
            fragments::append(self.file, &self.boxes, mvex, &mut track)?;
            track.timing.fragmented = track.samples.len() > before;
        }
        track.survey(inside)?;
        Ok(track)
    }
}
