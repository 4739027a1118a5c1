//! A sample of a segment, as the readers of mp4 and Matroska give it to the package.

use crate::domain::mpegts::psi::TrackKind;
use crate::domain::time::Ticks;

/// A sample to be written into a segment; times in source time.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentSample {
    pub track: TrackKind,
    pub offset: u64,
    pub size: u32,
    pub dts: Ticks,
    pub pts: Ticks,
    pub is_keyframe: bool,
}
