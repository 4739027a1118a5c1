//! H.264 samples as a byte stream (ITU-T H.264 annex B), in the form that ffmpeg writes.

use super::extent::Extent;
use super::sps::reorder_depth;
use crate::domain::mpegts::layout::PayloadPart as _;
use crate::engine::container::avc::AvcRecord;
use crate::engine::container::bytes::{ReadAt, Truncated};
use crate::engine::container::{ContainerError, refuse_if};

const SLICE: u8 = 1;
const IDR: u8 = 5;
const SPS: u8 = 7;
const PPS: u8 = 8;
const DELIMITER: u8 = 9;

/// Bytes read at once to find NAL units: for most samples this covers all headers.
const WINDOW_BYTES: usize = 64;

/// Maximum number of NAL units of one picture.
const MAX_UNITS: usize = 20_000;

/// An access unit delimiter that allows every slice type.
const ACCESS_UNIT_DELIMITER: [u8; 6] = [0, 0, 0, 1, DELIMITER, 0xf0];

/// How a track's samples are converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AvcConfig {
    /// Size of a NAL unit's length field: 1, 2 or 4 bytes.
    length_size: usize,
    /// Parameter sets with start codes.
    sps: Vec<u8>,
    pps: Vec<u8>,
    /// How many pictures are buffered for reordering; None if this is not stated.
    pub(super) reorder_depth: Option<usize>,
}

/// One NAL unit of a sample and its position in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct NalUnit {
    unit_type: u8,
    offset: u64,
    len: u32,
}

impl AvcConfig {
    /// From the decoder's configuration record.
    pub(super) fn parse(record: &[u8]) -> Result<Self, ContainerError> {
        let AvcRecord { length_size, sps, pps } = AvcRecord::parse(record)?;
        refuse_if(length_size == 3, ContainerError::Unsupported("NAL unit lengths of three bytes"))?;
        // Several sets may state different depths.
        let reorder_depth = if let [single] = sps[..] { reorder_depth(single) } else { None };
        let with_start_codes =
            |sets: &[&[u8]]| -> Vec<u8> { sets.iter().flat_map(|set| [&[0, 0, 0, 1][..], set].concat()).collect() };
        let (sps, pps) = (with_start_codes(&sps), with_start_codes(&pps));
        Ok(Self { length_size: length_size.into(), sps, pps, reorder_depth })
    }

    /// Bytes that are inserted into pictures and are not in the samples; [`Self::append_parts`] refers to them.
    pub(super) fn generated_bytes(&self) -> Vec<u8> {
        [&ACCESS_UNIT_DELIMITER[..], &self.sps, &self.pps].concat()
    }

    /// Finds the NAL units of a sample, reading little more than their first bytes. Returns false if they do not fill the
    /// sample exactly or are too many for a picture; ffmpeg drops such pictures as well.
    ///
    /// # Errors
    /// If the file ends before the sample.
    pub(super) fn find_units(
        &self,
        file: &(impl ReadAt + ?Sized),
        (offset, size): (u64, u32),
        out: &mut Vec<NalUnit>,
    ) -> Result<bool, Truncated> {
        out.clear();
        let end = offset.checked_add(u64::from(size)).ok_or(Truncated)?;
        let (mut position, mut window) =
            (offset, SampleWindow { file, end, start: 0, bytes: [0; WINDOW_BYTES], filled: 0 });
        while position < end {
            if end - position < self.length_size as u64 {
                return Ok(false);
            }
            let length =
                window.bytes_at(position, self.length_size)?.iter().fold(0u32, |sum, &byte| sum << 8 | u32::from(byte));
            position += self.length_size as u64;
            if u64::from(length) > end - position || out.len() >= MAX_UNITS {
                return Ok(false);
            }
            if length > 0 {
                let unit_type = window.bytes_at(position, 1)?[0] & 0x1f;
                out.push(NalUnit { unit_type, offset: position, len: length });
            }
            position += u64::from(length);
        }
        Ok(true)
    }

    /// Appends the parts of one sample with these NAL units to `out`: a delimiter if it has none, and parameter sets
    /// before an IDR picture without them. Returns false if the sample is empty.
    pub(super) fn append_parts(&self, units: &[NalUnit], out: &mut Vec<Extent>) -> bool {
        const LONG_START_CODE: Extent = Extent::Generated { start: 0, len: 4 };
        const SHORT_START_CODE: Extent = Extent::Generated { start: 1, len: 3 };
        let delimiter_len = ACCESS_UNIT_DELIMITER.len() as u32;
        let sps = Extent::Generated { start: delimiter_len, len: self.sps.len() as u32 };
        let pps = Extent::Generated { start: delimiter_len + self.sps.len() as u32, len: self.pps.len() as u32 };
        let before_slices = units.iter().take_while(|unit| !matches!(unit.unit_type, SLICE | IDR));
        if !before_slices.into_iter().any(|unit| unit.unit_type == DELIMITER) {
            out.push(Extent::Generated { start: 0, len: delimiter_len });
        }
        let (mut is_first, mut has_sps, mut has_pps, mut has_idr) = (true, false, false, false);
        for unit in units {
            let mut push_set = |set: Extent| {
                out.push(set);
                is_first &= set.byte_len() == 0;
            };
            match unit.unit_type {
                SPS => has_sps = true,
                PPS => {
                    if !has_sps {
                        push_set(sps);
                    }
                    (has_sps, has_pps) = (true, true);
                }
                IDR if !has_idr => {
                    has_idr = true;
                    if !has_sps && !has_pps {
                        push_set(sps);
                    }
                    if !has_pps {
                        push_set(pps);
                    }
                }
                _ => {}
            }
            let is_long = is_first || matches!(unit.unit_type, SPS | PPS);
            out.push(if is_long { LONG_START_CODE } else { SHORT_START_CODE });
            out.push(Extent::File { offset: unit.offset, len: unit.len });
            is_first = false;
        }
        !is_first
    }
}

/// A buffered view of a sample's headers.
struct SampleWindow<'f, F: ?Sized> {
    file: &'f F,
    /// End of the sample; nothing is read after it.
    end: u64,
    start: u64,
    bytes: [u8; WINDOW_BYTES],
    filled: usize,
}

impl<F: ReadAt + ?Sized> SampleWindow<'_, F> {
    /// `count` bytes, which must be before the end.
    fn bytes_at(&mut self, offset: u64, count: usize) -> Result<&[u8], Truncated> {
        if offset < self.start || offset + count as u64 > self.start + self.filled as u64 {
            let max_bytes = (self.end - offset).min(WINDOW_BYTES as u64) as usize;
            self.filled = self.file.read_at(&mut self.bytes[..max_bytes], offset);
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        self.bytes[..self.filled].get(from..from + count).ok_or(Truncated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn avc_config(length_size: usize) -> AvcConfig {
        let record = [1, 77, 0, 30, 0xfc | (length_size - 1) as u8, 0xe1, 0, 2, 0x67, 1, 1, 0, 1, 0x68];
        AvcConfig::parse(&record).unwrap()
    }

    fn sample(length_size: usize, units: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for unit in units {
            bytes.extend_from_slice(&(unit.len() as u32).to_be_bytes()[4 - length_size..]);
            bytes.extend_from_slice(unit);
        }
        bytes
    }

    fn convert(length_size: usize, units: &[&[u8]]) -> Vec<u8> {
        let (avc, sample) = (avc_config(length_size), sample(length_size, units));
        assert!(is_convertible(&avc, &sample));
        let (mut found_units, mut out) = (Vec::new(), Vec::new());
        avc.find_units(&sample[..], (0, sample.len() as u32), &mut found_units).unwrap();
        avc.append_parts(&found_units, &mut out);
        let generated_bytes = avc.generated_bytes();
        let bytes = |part: &Extent| match *part {
            Extent::Generated { start: from, len } => generated_bytes[from as usize..][..len as usize].to_vec(),
            Extent::File { offset, len } => sample[offset as usize..][..len as usize].to_vec(),
        };
        out.iter().flat_map(bytes).collect()
    }

    fn is_convertible(avc: &AvcConfig, sample: &[u8]) -> bool {
        let mut found_units = Vec::new();
        avc.find_units(sample, (0, sample.len() as u32), &mut found_units).unwrap()
            && avc.append_parts(&found_units, &mut Vec::new())
    }

    #[test]
    fn pictures_get_delimiters_and_keyframes_parameter_sets_with_any_length_size() {
        for length_size in [1, 2, 4] {
            let delimiter = [0, 0, 0, 1, 9, 0xf0];
            let sets = [0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68];
            let plain = convert(length_size, &[&[0x41, 2]]);
            assert_eq!(plain, [&delimiter[..], &[0, 0, 0, 1, 0x41, 2]].concat());
            let keyframe = convert(length_size, &[&[0x65, 0x80], &[0x65, 3]]);
            assert_eq!(keyframe, [&delimiter[..], &sets, &[0, 0, 1, 0x65, 0x80, 0, 0, 1, 0x65, 3]].concat());
            let message_first = convert(length_size, &[&[6, 1], &[0x65, 3]]);
            assert_eq!(message_first, [&delimiter[..], &[0, 0, 0, 1, 6, 1], &sets, &[0, 0, 1, 0x65, 3]].concat());
            let complete = convert(length_size, &[&[9, 0x10], &[0x67, 7], &[0x68, 7], &[0x65, 3]]);
            let own = [0, 0, 0, 1, 9, 0x10, 0, 0, 0, 1, 0x67, 7, 0, 0, 0, 1, 0x68, 7, 0, 0, 1, 0x65, 3];
            assert_eq!(complete, own);
        }
    }

    #[test]
    fn a_picture_with_a_unit_longer_than_its_sample_is_dropped() {
        let is_convertible = |sample: &[u8]| is_convertible(&avc_config(4), sample);
        assert!(is_convertible(&[0, 0, 0, 2, 0x41, 2]));
        assert!(!is_convertible(&[0, 0, 0, 9, 0x41, 2]));
        assert!(!is_convertible(&[0, 0, 0, 1, 0x41, 2]), "a truncated length field");
        assert!(!is_convertible(&[0, 0, 0, 0]), "an empty unit");
        assert!(
            avc_config(4).find_units(&[0, 0, 0, 1, 0x41][..], (0, 9), &mut Vec::new()).is_err(),
            "the file ends before the sample"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            record in proptest::collection::vec(any::<u8>(), 0..40),
            bytes in proptest::collection::vec(0u8..12, 0..60),
            length in prop_oneof![Just(1usize), Just(2), Just(4)],
        ) {
            let _ = AvcConfig::parse(&record);
            let _ = is_convertible(&avc_config(length), &bytes);
        }
    }
}
