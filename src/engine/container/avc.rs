//! The decoder configuration record of H.264 (`avcC`, ISO/IEC 14496-15 section 5.3.3.1) and its parameter sets.

use h264_reader::nal::sps::SeqParameterSet;
use h264_reader::nal::{Nal, RefNal};

use super::bytes::{ByteCursor, Truncated};

pub struct AvcRecord<'a> {
    /// Size of a NAL unit's length field, bytes.
    pub length_size: u8,
    pub sps: Vec<&'a [u8]>,
    pub pps: Vec<&'a [u8]>,
}

impl<'a> AvcRecord<'a> {
    pub fn parse(record: &'a [u8]) -> Result<Self, Truncated> {
        let mut cursor = ByteCursor(record);
        cursor.take(4)?;
        let length_size = (cursor.u8()? & 3) + 1;
        let mut take_sets = |count_mask: u8| -> Result<Vec<&'a [u8]>, Truncated> {
            let count = cursor.u8()? & count_mask;
            (0..count).map(|_| cursor.u16().and_then(|len| cursor.take(usize::from(len)))).collect()
        };
        Ok(Self { length_size, sps: take_sets(0x1f)?, pps: take_sets(0xff)? })
    }
}

/// None if it cannot be parsed.
pub fn parse_sps(nal: &[u8]) -> Option<SeqParameterSet> {
    // The parser needs a NAL unit with a body.
    let nal = Some(nal).filter(|nal| nal.len() >= 4 && nal[0] & 0x1f == 7)?;
    SeqParameterSet::from_bits(RefNal::new(nal, &[], true).rbsp_bits()).ok()
}
