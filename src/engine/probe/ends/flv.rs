//! FLV (Adobe Flash Video File Format Specification 10.1, annex E): the timestamps of the last tags.

use super::parse_be;

const AUDIO: u8 = 8;
const VIDEO: u8 = 9;
const SCRIPT: u8 = 18;
/// Type, size, timestamp, stream id.
const HEADER_BYTES: usize = 11;

/// The latest timestamp of audio and video among the complete tags in a piece of the file, seconds.
pub(super) fn last_timestamp(bytes: &[u8]) -> Option<f64> {
    let mut latest = None;
    let mut position = 0;
    while position + HEADER_BYTES < bytes.len() {
        match parse_tag(bytes, position) {
            Some((kind, milliseconds, len)) => {
                if kind != SCRIPT {
                    latest = latest.max(Some(milliseconds));
                }
                position += len;
            }
            None => position += 1,
        }
    }
    latest.map(|milliseconds| milliseconds as f64 / 1000.0)
}

/// Type, timestamp in milliseconds and length of the tag at `position`. A tag is valid if its length is repeated after it.
fn parse_tag(bytes: &[u8], position: usize) -> Option<(u8, u64, usize)> {
    let tag_type = *bytes.get(position)?;
    if !matches!(tag_type, AUDIO | VIDEO | SCRIPT) || parse_be::<3>(bytes, position + 8)? != 0 {
        return None;
    }
    let len = HEADER_BYTES + parse_be::<3>(bytes, position + 1)? as usize;
    if parse_be::<4>(bytes, position + len)? != len as u64 {
        return None;
    }
    // The upper eight bits of the timestamp follow the lower ones.
    let milliseconds = parse_be::<3>(bytes, position + 4)? | parse_be::<1>(bytes, position + 7)? << 24;
    Some((tag_type, milliseconds, len + 4))
}
