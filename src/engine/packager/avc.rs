//! H.264 samples as a byte stream (ITU-T H.264 annex B), in the form that ffmpeg writes.

use super::parcel::Stretch;
use super::sps::reorder_depth;
use crate::domain::mpegts::layout::PayloadPart as _;
use crate::engine::tables::Refusal;
use crate::engine::tables::bytes::{Cursor, ReadAt, Short};

const SLICE: u8 = 1;
const IDR: u8 = 5;
const SPS: u8 = 7;
const PPS: u8 = 8;
const DELIMITER: u8 = 9;

/// Bytes read at once to find NAL units: for most samples this covers all headers.
const WINDOW: usize = 64;

/// Maximum number of NAL units of one picture.
const MOST_UNITS: usize = 20_000;

/// An access unit delimiter that allows every slice type.
const ANY_PICTURE: [u8; 6] = [0, 0, 0, 1, DELIMITER, 0xf0];

/// How a track's samples are converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Avc {
    /// Size of a NAL unit's length field: 1, 2 or 4 bytes.
    length: usize,
    /// Parameter sets with start codes.
    sps: Vec<u8>,
    pps: Vec<u8>,
}

/// One NAL unit of a sample and its position in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nal {
    kind: u8,
    offset: u64,
    len: u32,
}

impl Avc {
    /// From the decoder's configuration record (ISO/IEC 14496-15 section 5.3.3.1).
    pub(super) fn read(record: &[u8]) -> Result<Self, Refusal> {
        let mut cursor = Cursor(record);
        cursor.take(4)?;
        let length = usize::from(cursor.u8()? & 3) + 1;
        if length == 3 {
            return Err(Refusal::Unread("NAL unit lengths of three bytes"));
        }
        let count = cursor.u8()? & 0x1f;
        let sps = units(&mut cursor, count)?;
        let count = cursor.u8()?;
        let pps = units(&mut cursor, count)?;
        Ok(Self { length, sps, pps })
    }

    /// How many pictures are buffered for reordering; None if this is not stated.
    pub(super) fn reorder_depth(&self) -> Option<usize> {
        // Several sets may state different depths.
        let mut starts = self.sps.windows(4).filter(|four| four == &[0, 0, 0, 1]);
        let only = starts.next().is_some() && starts.next().is_none();
        reorder_depth(self.sps.get(4..).filter(|_| only)?)
    }

    /// Bytes that are inserted into pictures and are not in the samples; [`Self::parts`] refers to them.
    pub(super) fn own(&self) -> Vec<u8> {
        [&ANY_PICTURE[..], &self.sps, &self.pps].concat()
    }

    /// Finds the NAL units of a sample, reading little more than their first bytes. Returns false if they do not fill the
    /// sample exactly or are too many for a picture; ffmpeg drops such pictures as well.
    ///
    /// # Errors
    /// If the file ends before the sample.
    pub(super) fn units(
        &self,
        file: &(impl ReadAt + ?Sized),
        (offset, size): (u64, u32),
        out: &mut Vec<Nal>,
    ) -> Result<bool, Short> {
        out.clear();
        let end = offset.checked_add(u64::from(size)).ok_or(Short)?;
        let (mut at, mut window) = (offset, Window { file, end, from: 0, bytes: [0; WINDOW], filled: 0 });
        while at < end {
            if end - at < self.length as u64 {
                return Ok(false);
            }
            let length = window.get(at, self.length)?.iter().fold(0u32, |sum, &byte| sum << 8 | u32::from(byte));
            at += self.length as u64;
            if u64::from(length) > end - at || out.len() >= MOST_UNITS {
                return Ok(false);
            }
            if length > 0 {
                let kind = window.get(at, 1)?[0] & 0x1f;
                out.push(Nal { kind, offset: at, len: length });
            }
            at += u64::from(length);
        }
        Ok(true)
    }

    /// Appends the parts of one sample with these NAL units to `out`: a delimiter if it has none, and parameter sets
    /// before an IDR picture without them. Returns false if the sample is empty.
    pub(super) fn parts(&self, units: &[Nal], out: &mut Vec<Stretch>) -> bool {
        const LONG: Stretch = Stretch::Own { from: 0, len: 4 };
        const SHORT: Stretch = Stretch::Own { from: 1, len: 3 };
        let delimiter = ANY_PICTURE.len() as u32;
        let sps = Stretch::Own { from: delimiter, len: self.sps.len() as u32 };
        let pps = Stretch::Own { from: delimiter + self.sps.len() as u32, len: self.pps.len() as u32 };
        let in_front = units.iter().take_while(|unit| !matches!(unit.kind, SLICE | IDR));
        if !in_front.into_iter().any(|unit| unit.kind == DELIMITER) {
            out.push(Stretch::Own { from: 0, len: delimiter });
        }
        let (mut first, mut has_sps, mut has_pps, mut begun) = (true, false, false, false);
        for unit in units {
            let mut set = |set: Stretch| {
                out.push(set);
                first &= set.byte_len() == 0;
            };
            match unit.kind {
                SPS => has_sps = true,
                PPS => {
                    if !has_sps {
                        set(sps);
                    }
                    (has_sps, has_pps) = (true, true);
                }
                IDR if !begun => {
                    begun = true;
                    if !has_sps && !has_pps {
                        set(sps);
                    }
                    if !has_pps {
                        set(pps);
                    }
                }
                _ => {}
            }
            let long = first || matches!(unit.kind, SPS | PPS);
            out.push(if long { LONG } else { SHORT });
            out.push(Stretch::File { offset: unit.offset, len: unit.len });
            first = false;
        }
        !first
    }
}

/// A buffered view of a sample's headers.
struct Window<'f, F: ?Sized> {
    file: &'f F,
    /// End of the sample; nothing is read after it.
    end: u64,
    from: u64,
    bytes: [u8; WINDOW],
    filled: usize,
}

impl<F: ReadAt + ?Sized> Window<'_, F> {
    /// `count` bytes, which must be before the end.
    fn get(&mut self, at: u64, count: usize) -> Result<&[u8], Short> {
        if at < self.from || at + count as u64 > self.from + self.filled as u64 {
            let most = (self.end - at).min(WINDOW as u64) as usize;
            self.filled = self.file.read_at(&mut self.bytes[..most], at);
            self.from = at;
        }
        let from = (at - self.from) as usize;
        self.bytes[..self.filled].get(from..from + count).ok_or(Short)
    }
}

/// The parameter sets of one type in a configuration record, with start codes.
fn units(cursor: &mut Cursor, count: u8) -> Result<Vec<u8>, Short> {
    let mut sets = Vec::new();
    for _ in 0..count {
        let length = usize::from(cursor.u16()?);
        sets.extend_from_slice(&[0, 0, 0, 1]);
        sets.extend_from_slice(cursor.take(length)?);
    }
    Ok(sets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn avc(length: usize) -> Avc {
        let record = [1, 77, 0, 30, 0xfc | (length - 1) as u8, 0xe1, 0, 2, 0x67, 1, 1, 0, 1, 0x68];
        Avc::read(&record).unwrap()
    }

    fn sample(length: usize, units: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for unit in units {
            bytes.extend_from_slice(&(unit.len() as u32).to_be_bytes()[4 - length..]);
            bytes.extend_from_slice(unit);
        }
        bytes
    }

    fn written(length: usize, units: &[&[u8]]) -> Vec<u8> {
        let (avc, sample) = (avc(length), sample(length, units));
        assert!(whole(&avc, &sample));
        let (mut found, mut out) = (Vec::new(), Vec::new());
        avc.units(&sample[..], (0, sample.len() as u32), &mut found).unwrap();
        avc.parts(&found, &mut out);
        let own = avc.own();
        let bytes = |part: &Stretch| match *part {
            Stretch::Own { from, len } => own[from as usize..][..len as usize].to_vec(),
            Stretch::File { offset, len } => sample[offset as usize..][..len as usize].to_vec(),
        };
        out.iter().flat_map(bytes).collect()
    }

    fn whole(avc: &Avc, sample: &[u8]) -> bool {
        let mut found = Vec::new();
        avc.units(sample, (0, sample.len() as u32), &mut found).unwrap() && avc.parts(&found, &mut Vec::new())
    }

    #[test]
    fn pictures_get_delimiters_and_keyframes_parameter_sets_whatever_the_length_field() {
        for length in [1, 2, 4] {
            let delimiter = [0, 0, 0, 1, 9, 0xf0];
            let sets = [0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68];
            let plain = written(length, &[&[0x41, 2]]);
            assert_eq!(plain, [&delimiter[..], &[0, 0, 0, 1, 0x41, 2]].concat());
            let keyframe = written(length, &[&[0x65, 0x80], &[0x65, 3]]);
            assert_eq!(keyframe, [&delimiter[..], &sets, &[0, 0, 1, 0x65, 0x80, 0, 0, 1, 0x65, 3]].concat());
            let message_first = written(length, &[&[6, 1], &[0x65, 3]]);
            assert_eq!(message_first, [&delimiter[..], &[0, 0, 0, 1, 6, 1], &sets, &[0, 0, 1, 0x65, 3]].concat());
            let complete = written(length, &[&[9, 0x10], &[0x67, 7], &[0x68, 7], &[0x65, 3]]);
            let own = [0, 0, 0, 1, 9, 0x10, 0, 0, 0, 1, 0x67, 7, 0, 0, 0, 1, 0x68, 7, 0, 0, 1, 0x65, 3];
            assert_eq!(complete, own);
        }
    }

    #[test]
    fn a_unit_longer_than_its_sample_spoils_the_picture() {
        let whole = |sample: &[u8]| whole(&avc(4), sample);
        assert!(whole(&[0, 0, 0, 2, 0x41, 2]));
        assert!(!whole(&[0, 0, 0, 9, 0x41, 2]));
        assert!(!whole(&[0, 0, 0, 1, 0x41, 2]), "a truncated length field");
        assert!(!whole(&[0, 0, 0, 0]), "an empty unit");
        assert!(
            avc(4).units(&[0, 0, 0, 1, 0x41][..], (0, 9), &mut Vec::new()).is_err(),
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
            let _ = Avc::read(&record);
            let _ = whole(&avc(length), &bytes);
        }
    }
}
