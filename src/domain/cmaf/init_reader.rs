//! Init segments that this program wrote, read back: where one ends in a segment, and how a playlist describes its track.

use super::entry::{EntryError, child, copied, take_box};
use super::{SampleEntry, VideoFormat};
use crate::domain::bytes::ByteCursor;
use crate::domain::mpegts::psi::TrackKind;

/// The track of an init segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitDescription {
    /// With the codec string of RFC 6381.
    pub entry: SampleEntry,
    /// None for audio.
    pub video_format: Option<VideoFormat>,
    /// Units per second of the track's times.
    pub timescale: u32,
}

impl InitDescription {
    /// # Errors
    /// If a box is missing or damaged, or if the codec is none that this program writes.
    pub fn read(init: &[u8]) -> Result<Self, EntryError> {
        let path = |from, kinds: &[&[u8; 4]]| {
            let found = kinds.iter().try_fold(from, |body, kind| child(body, kind));
            found.ok_or(EntryError::Truncated)
        };
        let mdia = path(init, &[b"moov", b"trak", b"mdia"])?;
        // Version, flags, times and, in `hdlr`, `pre_defined`.
        let mut mdhd = ByteCursor(path(mdia, &[b"mdhd"])?);
        mdhd.take(12)?;
        let timescale = mdhd.u32()?;
        let is_video = path(mdia, &[b"hdlr"])?.get(8..12) == Some(b"vide");
        // Version, flags and number of entries, then the entry.
        let sample_entry = path(mdia, &[b"minf", b"stbl", b"stsd"])?.get(8..).ok_or(EntryError::Truncated)?;
        let entry = copied::entry(sample_entry)?;
        let video_format = is_video.then(|| copied::video_format(sample_entry)).transpose()?;
        Ok(Self { entry, video_format, timescale })
    }

    pub fn kind(&self) -> TrackKind {
        if self.video_format.is_some() { TrackKind::Video } else { TrackKind::Audio }
    }
}

/// Splits a segment that contains its own init segment (`ftyp` and `moov`): the init segment, and the media segment after
/// it. None if the bytes do not begin with an init segment.
pub fn split_init(segment: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = ByteCursor(segment);
    for expected in [b"ftyp", b"moov"] {
        let (kind, _) = take_box(&mut rest).ok()?;
        if kind != *expected {
            return None;
        }
    }
    segment.split_at_checked(segment.len() - rest.0.len())
}
