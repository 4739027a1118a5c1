//! H.264 samples as a byte stream (ITU-T H.264 annex B), in the form ffmpeg gives them.

use super::sps::reorder_depth;
use crate::engine::tables::Refusal;
use crate::engine::tables::bytes::{Cursor, Short};

const SLICE: u8 = 1;
const IDR: u8 = 5;
const SPS: u8 = 7;
const PPS: u8 = 8;
const DELIMITER: u8 = 9;

/// A delimiter that allows every kind of slice.
const ANY_PICTURE: [u8; 6] = [0, 0, 0, 1, DELIMITER, 0xf0];

/// How a track's samples are written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Avc {
    /// Bytes of a unit's length: 1, 2 or 4.
    length: usize,
    /// Parameter sets with start codes.
    sps: Vec<u8>,
    pps: Vec<u8>,
}

impl Avc {
    /// From the decoder's configuration record (ISO/IEC 14496-15 section 5.3.3.1).
    pub(super) fn read(record: &[u8]) -> Result<Self, Refusal> {
        let mut cursor = Cursor(record);
        cursor.take(4)?;
        let length = usize::from(cursor.u8()? & 3) + 1;
        if length == 3 {
            return Err(Refusal::Unread("its units have lengths of three bytes"));
        }
        let count = cursor.u8()? & 0x1f;
        let sps = units(&mut cursor, count)?;
        let count = cursor.u8()?;
        let pps = units(&mut cursor, count)?;
        Ok(Self { length, sps, pps })
    }

    /// How many pictures are held back to show them in order; None where that is not said.
    pub(super) fn reorder_depth(&self) -> Option<usize> {
        // Several sets may say different things.
        let mut starts = self.sps.windows(4).filter(|four| four == &[0, 0, 0, 1]);
        let only = starts.next().is_some() && starts.next().is_none();
        reorder_depth(self.sps.get(4..).filter(|_| only)?)
    }

    /// The parts of one sample, put behind `out`: a delimiter where it has none, parameter sets before an IDR picture that comes without. False
    /// when its units do not fill it exactly; ffmpeg leaves such pictures out as well.
    pub(super) fn parts<'a>(&'a self, sample: &'a [u8], out: &mut Vec<&'a [u8]>) -> bool {
        let units = Units { rest: sample, length: self.length };
        let mut delimited = false;
        let mut in_front = true;
        for unit in units {
            let Ok(unit) = unit else { return false };
            let kind = kind(unit);
            in_front &= kind != SLICE && kind != IDR;
            delimited |= in_front && kind == DELIMITER;
        }
        if !delimited {
            out.push(&ANY_PICTURE);
        }
        let (mut first, mut sps, mut pps, mut begun) = (true, false, false, false);
        for unit in units.flatten() {
            match kind(unit) {
                SPS => sps = true,
                PPS => {
                    if !sps {
                        out.push(&self.sps);
                        first &= self.sps.is_empty();
                    }
                    (sps, pps) = (true, true);
                }
                IDR if !begun => {
                    begun = true;
                    let sets: [&[u8]; 2] = match (sps, pps) {
                        (false, false) => [&self.sps, &self.pps],
                        (true, false) => [&[], &self.pps],
                        _ => [&[], &[]],
                    };
                    for set in sets {
                        out.push(set);
                        first &= set.is_empty();
                    }
                }
                _ => {}
            }
            let long = first || matches!(kind(unit), SPS | PPS);
            out.push(if long { &[0, 0, 0, 1] } else { &[0, 0, 1] });
            out.push(unit);
            first = false;
        }
        !first
    }
}

/// The sets of one kind in a configuration record, with start codes.
fn units(cursor: &mut Cursor, count: u8) -> Result<Vec<u8>, Short> {
    let mut sets = Vec::new();
    for _ in 0..count {
        let length = usize::from(cursor.u16()?);
        sets.extend_from_slice(&[0, 0, 0, 1]);
        sets.extend_from_slice(cursor.take(length)?);
    }
    Ok(sets)
}

fn kind(unit: &[u8]) -> u8 {
    unit.first().map_or(0, |head| head & 0x1f)
}

/// The units of a sample; empty ones are passed over, and one that is longer than what is left is an error.
#[derive(Clone, Copy)]
struct Units<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Iterator for Units<'a> {
    type Item = Result<&'a [u8], Short>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let mut cursor = Cursor(self.rest);
            let unit = cursor.take(self.length).and_then(|length| {
                let length = length.iter().fold(0usize, |sum, &byte| sum << 8 | usize::from(byte));
                cursor.take(length)
            });
            self.rest = cursor.0;
            match unit {
                Ok([]) => {}
                Ok(unit) => return Some(Ok(unit)),
                Err(short) => {
                    self.rest = &[];
                    return Some(Err(short));
                }
            }
        }
    }
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
        let mut out = Vec::new();
        assert!(avc.parts(&sample, &mut out));
        out.concat()
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
        let whole = |sample: &[u8]| avc(4).parts(sample, &mut Vec::new());
        assert!(whole(&[0, 0, 0, 2, 0x41, 2]));
        assert!(!whole(&[0, 0, 0, 9, 0x41, 2]));
        assert!(!whole(&[0, 0, 0, 1, 0x41, 2]), "a length cut short");
        assert!(!whole(&[0, 0, 0, 0]), "nothing in it");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            record in proptest::collection::vec(any::<u8>(), 0..40),
            bytes in proptest::collection::vec(0u8..12, 0..60),
            length in prop_oneof![Just(1usize), Just(2), Just(4)],
        ) {
            let _ = Avc::read(&record);
            let _ = avc(length).parts(&bytes, &mut Vec::new());
        }
    }
}
