//! The source of a rendition's segments in the packager, in either format.

use super::cmaf::{AiredPosition, CmafTrack};
use super::lazy_segment::LazySegment;
use super::muxed_tracks::MuxedTracks;
use crate::domain::grid::Grid;
use crate::domain::segment_format::SegmentFormat;
use crate::engine::container::bytes::ReadAt;
use crate::engine::index::KeyframeIndex;
use crate::engine::source::SourceFile;
use crate::engine::{Result, RunError};

/// The tracks of one rendition, kept while its segments may be requested.
#[derive(Debug)]
pub enum Package {
    /// H.264 and AAC as a transport stream.
    Muxed(Box<MuxedTracks>),
    /// One track as CMAF.
    Cmaf(Box<CmafTrack>),
}

impl From<MuxedTracks> for Package {
    fn from(tracks: MuxedTracks) -> Self {
        Self::Muxed(Box::new(tracks))
    }
}

impl From<CmafTrack> for Package {
    fn from(track: CmafTrack) -> Self {
        Self::Cmaf(Box::new(track))
    }
}

impl Package {
    /// The format of its segments.
    pub fn format(&self) -> SegmentFormat {
        match self {
            Self::Muxed(_) => SegmentFormat::MpegTs,
            Self::Cmaf(_) => SegmentFormat::Fmp4,
        }
    }

    /// The track, with its init segment; None for a transport stream.
    pub fn cmaf_track(&self) -> Option<&CmafTrack> {
        match self {
            Self::Muxed(_) => None,
            Self::Cmaf(track) => Some(track),
        }
    }

    /// Where the video may be cut; None without video.
    pub fn index(&self) -> Option<&KeyframeIndex> {
        match self {
            Self::Muxed(tracks) => tracks.index(),
            Self::Cmaf(track) => track.index(),
        }
    }

    /// Approximate memory used, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Muxed(tracks) => tracks.memory_bytes(),
            Self::Cmaf(track) => track.memory_bytes(),
        }
    }

    /// Lays out a segment of copied video on a channel's timeline, to be read when it is sent.
    ///
    /// # Errors
    /// As for a session; `Internal` for a transport stream.
    pub fn lay_out_aired(
        &self,
        file: &SourceFile,
        grid: &Grid,
        number: usize,
        position: &AiredPosition,
    ) -> Result<LazySegment> {
        match self {
            Self::Cmaf(track) => Ok(track.lay_out_aired(file, grid, number, position)?.into()),
            Self::Muxed(_) => Err(RunError::Internal("a transport stream has no place of its own on a channel".into())),
        }
    }

    /// Lays out segment `number` of a grid, to be read when it is sent. The grid was made from this index, or, for one track
    /// of audio, from that of the video beside it.
    ///
    /// # Errors
    /// `SourceRead` if the file ends before its samples, or if there are too many.
    pub(super) fn lay_out_segment(
        &self,
        file: &(impl ReadAt + ?Sized),
        grid: &Grid,
        number: usize,
    ) -> Result<LazySegment> {
        Ok(match self {
            Self::Muxed(tracks) => tracks.lay_out_segment(file, grid, number)?.into(),
            Self::Cmaf(track) => track.lay_out_segment(file, grid, number)?.into(),
        })
    }
}
