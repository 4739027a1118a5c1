//! FLV (Adobe Flash Video File Format Specification 10.1, annex E): the timestamps of the last tags.

use super::{largest_number, parse_be};

const AUDIO: u8 = 8;
const VIDEO: u8 = 9;
const SCRIPT: u8 = 18;
/// Type, size, timestamp, stream id.
const HEADER_BYTES: usize = 11;

/// The latest timestamp of audio and video among the complete tags in a piece of the file, seconds.
pub(super) fn last_timestamp(bytes: &[u8]) -> Option<f64> {
    largest_number(bytes, parse_tag).map(|milliseconds| milliseconds as f64 / 1000.0)
}

/// Timestamp in milliseconds (0 for a script) and length of a tag. It is valid if its length is repeated after it.
fn parse_tag(bytes: &[u8]) -> Option<(u64, usize)> {
    let tag_type = *bytes.first()?;
    if !matches!(tag_type, AUDIO | VIDEO | SCRIPT) || parse_be::<3>(bytes, 8)? != 0 {
        return None;
    }
    let len = HEADER_BYTES + parse_be::<3>(bytes, 1)? as usize;
    if parse_be::<4>(bytes, len)? != len as u64 {
        return None;
    }
    // The upper eight bits of the timestamp follow the lower ones.
    let milliseconds = parse_be::<3>(bytes, 4)? | parse_be::<1>(bytes, 7)? << 24;
    Some((if tag_type == SCRIPT { 0 } else { milliseconds }, len + 4))
}
