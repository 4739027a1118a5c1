//! The sample description (`stsd`): the decoder's configuration.

use super::super::bytes::Truncated;
use super::super::{ContainerError, refuse_if};
use super::boxes::{child, children, first_whole, parse_full_box};
use crate::domain::cmaf::entry::esds;

/// The sample description of a track, which must have exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SampleDescription {
    /// The record of ISO/IEC 14496-15 section 5.3.3.1 (`avcC`).
    Avc(Vec<u8>),
    /// The record of ISO/IEC 14496-15 section 8.3.3.1 (`hvcC`).
    Hevc(Vec<u8>),
    /// MPEG-4 audio: the AudioSpecificConfig of ISO/IEC 14496-3 section 1.6.2.1.
    Aac(Vec<u8>),
    /// VobSub: its palette, 16 entries of a zero byte, Y, Cr and Cb.
    VobSub(Vec<u8>),
    /// Any other codec, by its four-character code.
    Other([u8; 4]),
}

/// Size of a visual sample entry before its boxes, bytes.
const VISUAL_ENTRY_BYTES: usize = 78;

/// Size of any other sample entry before its boxes, bytes.
const SYSTEM_ENTRY_BYTES: usize = 8;

/// Size of an audio sample entry before its boxes, bytes: ISO, and QuickTime's versions 1 and 2.
const AUDIO_ENTRY_BYTES: [usize; 3] = [28, 44, 64];

/// The description, and the whole sample entry, a box.
pub(super) fn parse_stsd(stsd: &[u8]) -> Result<(SampleDescription, Vec<u8>), ContainerError> {
    let (_, _, mut cursor) = parse_full_box(stsd)?;
    refuse_if(cursor.u32()? != 1, ContainerError::Uncuttable("the track has several sample descriptions"))?;
    let Some((codec, entry)) = children(cursor.0).next() else { return Err(Truncated.into()) };
    let whole = first_whole(cursor.0).ok_or(Truncated)?;
    Ok((describe(codec, entry)?, whole.to_vec()))
}

fn describe(codec: [u8; 4], entry: &[u8]) -> Result<SampleDescription, ContainerError> {
    Ok(match &codec {
        b"avc1" | b"avc2" | b"avc3" | b"avc4" => {
            let avcc = entry.get(VISUAL_ENTRY_BYTES..).and_then(|boxes| child(boxes, b"avcC"));
            SampleDescription::Avc(avcc.ok_or(ContainerError::Unsupported("there is no avcC"))?.to_vec())
        }
        b"hvc1" | b"hev1" | b"dvh1" | b"dvhe" => {
            match entry.get(VISUAL_ENTRY_BYTES..).and_then(|boxes| child(boxes, b"hvcC")) {
                Some(hvcc) => SampleDescription::Hevc(hvcc.to_vec()),
                None => SampleDescription::Other(codec),
            }
        }
        b"mp4a" => {
            let descriptor = AUDIO_ENTRY_BYTES.iter().find_map(|&entry_bytes| {
                let boxes = entry.get(entry_bytes..)?;
                child(boxes, b"esds").or_else(|| child(child(boxes, b"wave")?, b"esds"))
            });
            match descriptor.map(esds::parse) {
                // MPEG-4 audio (ISO/IEC 14496-3), and the three profiles of 13818-7.
                Some(Ok((0x40 | 0x66..=0x68, Some(config)))) => SampleDescription::Aac(config.to_vec()),
                _ => SampleDescription::Other(codec),
            }
        }
        b"mp4s" => {
            let descriptor = entry.get(SYSTEM_ENTRY_BYTES..).and_then(|boxes| child(boxes, b"esds"));
            match descriptor.map(esds::parse) {
                // Registered for sub-pictures by no standard; Nero's choice, which ffmpeg writes too.
                Some(Ok((0xe0, Some(palette)))) => SampleDescription::VobSub(palette.to_vec()),
                _ => SampleDescription::Other(codec),
            }
        }
        _ => SampleDescription::Other(codec),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_vobsub_track_is_described_by_its_palette() {
        let sized = |name: &[u8; 4], body: &[u8]| [&(body.len() as u32 + 8).to_be_bytes(), &name[..], body].concat();
        let entry = |object_type: u8| {
            let config = [&[4, 17, object_type][..], &[0; 12], &[5, 2, 7, 9]].concat();
            let stream = [&[3, 3 + config.len() as u8, 0, 1, 0][..], &config].concat();
            let esds = sized(b"esds", &[&[0; 4][..], &stream].concat());
            let entry = sized(b"mp4s", &[&[0; 8][..], &esds].concat());
            let (description, whole) = parse_stsd(&[&[0, 0, 0, 0, 0, 0, 0, 1][..], &entry, &[0; 3]].concat()).unwrap();
            assert_eq!(whole, entry);
            description
        };
        assert_eq!(entry(0xe0), SampleDescription::VobSub(vec![7, 9]));
        assert_eq!(entry(0x20), SampleDescription::Other(*b"mp4s"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse_stsd(&bytes);
        }
    }
}
