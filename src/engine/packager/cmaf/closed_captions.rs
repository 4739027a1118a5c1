//! Finds closed captions in the pictures of a track.

use std::num::NonZeroUsize;

use super::samples::SegmentSamples;
use crate::domain::closed_captions::{CaptionChannel, CaptionScanner};
use crate::domain::cmaf::SampleEntry;
use crate::domain::sei::{REGISTERED_BY_T35, read_messages};
use crate::engine::container::bytes::{ReadAt, SampleBytes};

/// Pictures read in each place: a second or more of video, because a picture has few bytes of captions.
pub(super) const MAX_PICTURES: usize = 32;

/// Bytes read of a picture: its messages precede its slices.
const MAX_HEAD_BYTES: u64 = 4 << 10;

/// How NAL units are stored in samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NalFormat {
    /// Bytes of the length before each unit.
    length_bytes: usize,
    /// Bytes of a unit's header: 1 in H.264, 2 in HEVC.
    header_bytes: NonZeroUsize,
}

impl NalFormat {
    /// Of H.264 and HEVC; None for other codecs.
    pub(super) fn of(entry: &SampleEntry) -> Option<Self> {
        // Box type, offset of the field in its content (ISO/IEC 14496-15 sections 5.3.3.1.2 and 8.3.3.1.2), bytes of header.
        let records = [(b"avcC", 4, 1), (b"hvcC", 21, 2)];
        records.into_iter().find_map(|(kind, field, header_bytes)| {
            let at = entry.bytes.windows(4).position(|window| window == kind)?;
            let length_bytes = usize::from(entry.bytes.get(at + 4 + field)? & 3) + 1;
            Some(Self { length_bytes, header_bytes: NonZeroUsize::new(header_bytes)? })
        })
    }

    fn is_message(self, unit: &[u8]) -> bool {
        match (self.header_bytes.get(), unit.first()) {
            (1, Some(first)) => first & 0x1f == 6,
            (_, Some(first)) => matches!(first >> 1 & 0x3f, 39 | 40),
            (_, None) => false,
        }
    }
}

/// Reads the messages of some pictures of each of these segments, which have `prefix` before each sample.
pub(super) fn find_captions(
    file: &(impl ReadAt + ?Sized),
    format: NalFormat,
    prefix: &[u8],
    segments: &[SegmentSamples],
) -> Vec<CaptionChannel> {
    let mut scanner = CaptionScanner::default();
    for &(offset, size) in segments.iter().flat_map(|segment| segment.ranges.iter().take(MAX_PICTURES)) {
        let picture = SampleBytes { file, prefix, offset, size: size.into() };
        let mut head = vec![0; picture.len().min(MAX_HEAD_BYTES) as usize];
        let count = picture.read_at(&mut head, 0);
        for unit in whole_units(&head[..count], format.length_bytes).filter(|unit| format.is_message(unit)) {
            read_messages(unit, format.header_bytes, |kind, message| {
                if kind == REGISTERED_BY_T35 {
                    scanner.read_message(message);
                }
            });
        }
    }
    scanner.into_channels()
}

/// The NAL units of a sample, up to one that is truncated.
fn whole_units(mut bytes: &[u8], length_bytes: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_at_checked(length_bytes)?;
        let length = length.iter().fold(0usize, |sum, &byte| sum << 8 | usize::from(byte));
        let (unit, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        Some(unit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(bytes: &[u8]) -> SampleEntry {
        SampleEntry { bytes: bytes.to_vec(), codecs: String::new(), supplemental_codecs: None, channels: None }
    }

    fn nal_format(length_bytes: usize, header_bytes: usize) -> NalFormat {
        NalFormat { length_bytes, header_bytes: NonZeroUsize::new(header_bytes).unwrap() }
    }

    #[test]
    fn the_format_is_that_of_the_record() {
        assert_eq!(NalFormat::of(&entry(b"....avc1....avcC\x01\x64\0\x1f\xff\xe1")), Some(nal_format(4, 1)));
        let hevc = [&b"....hvc1....hvcC"[..], &[0; 21], &[0xfd]].concat();
        assert_eq!(NalFormat::of(&entry(&hevc)), Some(nal_format(2, 2)));
        assert_eq!(NalFormat::of(&entry(b"....hvcC")), None, "truncated");
        assert_eq!(NalFormat::of(&entry(b"....vp09....vpcC\0\0\0\0")), None);
    }

    #[test]
    fn messages_before_the_slices_are_read() {
        // Resume caption loading (CEA-608).
        let message = [&[4, 14, 0xb5, 0, 0x31][..], b"GA94\x03", &[0xc1, 0xff, 0xfc, 0x94, 0x20, 0xff, 0x80]].concat();
        for (format, header, delimiter) in
            [(nal_format(4, 1), &[6][..], &[9][..]), (nal_format(2, 2), &[0x4e, 1], &[0x46, 1])]
        {
            let unit = [header, &message].concat();
            let picture: Vec<u8> = [delimiter, &unit, &[0x65; 9]]
                .into_iter()
                .flat_map(|unit| [&(unit.len() as u32).to_be_bytes()[4 - format.length_bytes..], unit].concat())
                .collect();
            let (prefix, stored) = picture.split_at(3);
            let segment = |size: usize| SegmentSamples { ranges: vec![(0, size as u32)], ..SegmentSamples::default() };
            let found = |size: usize| find_captions(stored, format, prefix, &[segment(size)]);
            assert_eq!(found(stored.len()), [CaptionChannel::Cea608(1)]);
            assert_eq!(found(10), [], "truncated");
        }
    }
}
