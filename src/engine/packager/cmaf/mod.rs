//! CMAF segments of one track of an mp4 or Matroska file (`domain::cmaf`): the head is generated, the samples are byte ranges
//! of the file.

mod closed_captions;
mod keyframe_film;
mod matroska_audio;
mod matroska_entry;
mod matroska_video;
mod mp4;
mod samples;
mod segment;
#[cfg(test)]
mod tests;
mod track;

pub(super) use segment::{CmafSegment, ExtentCursor};
pub use track::{AiredPosition, CmafTrack};
