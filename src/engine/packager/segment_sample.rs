//! A sample of a segment, as the readers of mp4 and Matroska give it to the package.

use crate::domain::mpegts::psi::TrackKind;

/// A sample to be written into a segment; times in ticks of source time.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentSample {
    pub track: TrackKind,
    pub offset: u64,
    pub size: u32,
    pub dts: i64,
    pub pts: i64,
    pub is_keyframe: bool,
}
