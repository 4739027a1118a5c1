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
    /// If a box is missing or damaged, or if this program never writes such a codec.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::entry::{aac, avc};
    use crate::domain::cmaf::init::{IDENTITY_MATRIX, InitTrack, TrackHeader, write_init};
    use proptest::prelude::*;

    fn video_init() -> (Vec<u8>, SampleEntry, VideoFormat) {
        let format = VideoFormat { width: 64, height: 48, pixel_aspect: Some((3, 2)), ..VideoFormat::default() };
        let record = [1, 0x42, 0xc0, 0x0a, 0xff, 0xe1, 0, 4, 0x67, 0x42, 0xc0, 0x0a, 1, 0, 1, 0x68];
        let entry = avc::entry_with(&record, &format, avc::ParameterSets::InBand).unwrap();
        let header = TrackHeader::Video { format: &format, matrix: IDENTITY_MATRIX };
        let init = write_init(&InitTrack { header, timescale: 90_000, language: None, entry: &entry });
        (init, entry, format)
    }

    fn audio_init() -> (Vec<u8>, SampleEntry) {
        let entry = aac::entry(&[0x11, 0x90]).unwrap();
        let header = TrackHeader::Audio;
        (write_init(&InitTrack { header, timescale: 48_000, language: Some("de-AT"), entry: &entry }), entry)
    }

    #[test]
    fn an_init_segment_reads_back() {
        let (init, entry, format) = video_init();
        let description = InitDescription::read(&init).unwrap();
        assert_eq!((description.kind(), &*description.entry.codecs), (TrackKind::Video, "avc3.42C00A"));
        assert_eq!(description, InitDescription { entry, video_format: Some(format), timescale: 90_000 });
        let (init, entry) = audio_init();
        let description = InitDescription::read(&init).unwrap();
        assert_eq!((description.kind(), &*description.entry.codecs), (TrackKind::Audio, "mp4a.40.2"));
        assert_eq!(description, InitDescription { entry, video_format: None, timescale: 48_000 });
    }

    #[test]
    fn a_media_segment_alone_has_no_init_segment() {
        let (init, _) = audio_init();
        let ftyp_len = u32::from_be_bytes(*init.first_chunk().unwrap()) as usize;
        for bytes in [&b"\0\0\0\x08moof"[..], &init[ftyp_len..], &init[..ftyp_len], &init[..init.len() - 1], b""] {
            assert_eq!(split_init(bytes), None);
        }
    }

    proptest! {
        #[test]
        fn a_segment_is_split_where_its_init_segment_ends(media in proptest::collection::vec(any::<u8>(), 0..60)) {
            for init in [video_init().0, audio_init().0] {
                let segment = [&init[..], &media].concat();
                prop_assert_eq!(split_init(&segment), Some((&init[..], &media[..])));
            }
        }

        #[test]
        fn damaged_bytes_are_read_without_panic(
            is_video: bool, damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..8),
            end in any::<proptest::sample::Index>(),
        ) {
            let mut bytes = if is_video { video_init().0 } else { audio_init().0 };
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            for bytes in [&bytes[..], &bytes[..end.index(bytes.len())]] {
                let _ = InitDescription::read(bytes);
                if let Some((init, media)) = split_init(bytes) {
                    prop_assert_eq!(init.len() + media.len(), bytes.len());
                }
            }
        }
    }
}
