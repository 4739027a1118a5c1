//! A contiguous range of a segment's payload.

use crate::domain::mpegts::layout::PayloadPart;

/// A contiguous range of a sample's bytes as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// In the bytes generated for the segment, which the segment keeps.
    Generated { start: u32, len: u32 },
    /// In the file.
    File { offset: u64, len: u32 },
}

impl Extent {
    /// The range of the file that it takes.
    pub(super) fn file_range(self) -> Option<(u64, u32)> {
        match self {
            Self::File { offset, len } => Some((offset, len)),
            Self::Generated { .. } => None,
        }
    }

    /// At most `max` bytes of it, after the first `skipped`.
    pub(super) fn part(self, skipped: u32, max: u32) -> Self {
        match self {
            Self::Generated { start, len } => {
                Self::Generated { start: start.saturating_add(skipped), len: len.saturating_sub(skipped).min(max) }
            }
            Self::File { offset, len } => {
                Self::File { offset: offset.saturating_add(skipped.into()), len: len.saturating_sub(skipped).min(max) }
            }
        }
    }
}

impl PayloadPart for Extent {
    fn byte_len(&self) -> usize {
        let (Self::Generated { len, .. } | Self::File { len, .. }) = *self;
        len as usize
    }
}
