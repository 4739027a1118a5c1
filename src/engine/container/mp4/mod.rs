//! The sample tables of MP4 and QuickTime files (ISO/IEC 14496-12), read from untrusted bytes.
//!
//! Every table length is checked against its box before anything is allocated, every sum is checked, and every look-up is
//! a `get`. `track` reads a track in `moov`, `sample_tables` its samples, and `fragments` the samples of `moof` boxes.
//! `timing` computes the same times as ffmpeg, because ffmpeg makes the segments of files that this reader refuses.

pub mod boxes;
mod description;
mod fragments;
mod sample_groups;
pub mod sample_tables;
mod samples;
mod timing;
mod track;

use super::bytes::ReadAt;
use super::{ContainerError, refuse_if};
use boxes::{FileBox, child, children, top_level};
pub use description::SampleDescription;
pub use samples::{Sample, SampleSizes};
pub use track::Mp4Track;

/// Maximum number of top-level boxes read: a day of one-second fragments, twice over.
const MAX_BOXES: usize = 200_000;

/// Maximum size of `moov`, bytes (2 h with 551,037 samples: 6.2 MB).
const MAX_MOOV_BYTES: u64 = 256 << 20;

/// Maximum number of samples of one track: 92 hours at 60 fps.
const MAX_SAMPLES: u64 = 20_000_000;

/// An mp4 file's header.
pub struct Mp4File<'a, F: ?Sized> {
    pub file: &'a F,
    pub boxes: Vec<FileBox>,
    pub moov: Vec<u8>,
}

impl<'a, F: ReadAt + ?Sized> Mp4File<'a, F> {
    pub fn read(file: &'a F) -> Result<Self, ContainerError> {
        let boxes: Vec<FileBox> = top_level(file).take(MAX_BOXES).map_while(Result::ok).collect();
        let moov = boxes.iter().find(|file_box| &file_box.box_type == b"moov");
        let moov = moov.ok_or(ContainerError::Unsupported("there is no moov"))?;
        let size = moov.end.min(file.len()).saturating_sub(moov.body);
        let is_unreadable = size > MAX_MOOV_BYTES || moov.end > file.len();
        refuse_if(is_unreadable, ContainerError::Unsupported("moov is too large or truncated"))?;
        let moov = file.read_exact(moov.body, size as usize)?;
        Ok(Self { file, boxes, moov })
    }

    /// The track with ffmpeg's number `stream`, which counts in the order of `trak` boxes. Fragments with negative composition
    /// offsets are refused: ffmpeg shows their frames later than the file states, by an amount that depends on what it has
    /// read.
    pub fn read_track(&self, stream: u32) -> Result<Mp4Track, ContainerError> {
        let track = self.read_signed_track(stream)?;
        let is_shifted = track.timing.is_fragmented && track.samples.min_composition_offset() < 0;
        refuse_if(is_shifted, ContainerError::Unsupported("fragments have negative composition offsets"))?;
        Ok(track)
    }

    /// Like [`Self::read_track`], with all presentation times as the file states them.
    pub fn read_signed_track(&self, stream: u32) -> Result<Mp4Track, ContainerError> {
        let trak = children(&self.moov).filter(|(kind, _)| kind == b"trak").nth(stream as usize);
        let (_, trak) = trak.ok_or(ContainerError::Unsupported("there is no such track"))?;
        let mut track = Mp4Track::parse(trak, &self.moov)?;
        let is_in_file = |sample: &Sample| sample.end() <= self.file.len();
        if let Some(mvex) = child(&self.moov, b"mvex") {
            track.samples.truncate_and_index(|sample| Ok(is_in_file(sample)))?;
            let moov_samples = track.samples.len();
            fragments::append_fragments(self.file, &self.boxes, mvex, &mut track)?;
            track.timing.is_fragmented = track.samples.len() > moov_samples;
        }
        track.index_samples(is_in_file)?;
        Ok(track)
    }
}
