//! FLV (Adobe Flash Video File Format Specification 10.1, annex E): the timestamps of the last tags.

use super::big;

const AUDIO: u8 = 8;
const VIDEO: u8 = 9;
const SCRIPT: u8 = 18;
/// Type, size, timestamp, stream id.
const HEADER: usize = 11;

/// The latest timestamp of audio and video among the complete tags in a piece of the file, seconds.
pub(super) fn last_timestamp(piece: &[u8]) -> Option<f64> {
    let mut latest = None;
    let mut at = 0;
    while at + HEADER < piece.len() {
        match tag(piece, at) {
            Some((kind, milliseconds, len)) => {
                if kind != SCRIPT {
                    latest = latest.max(Some(milliseconds));
                }
                at += len;
            }
            None => at += 1,
        }
    }
    latest.map(|milliseconds| milliseconds as f64 / 1000.0)
}

/// Type, timestamp in milliseconds and length of the tag at `at`. A tag is valid if its length is repeated after it.
fn tag(piece: &[u8], at: usize) -> Option<(u8, u64, usize)> {
    let kind = *piece.get(at)?;
    if !matches!(kind, AUDIO | VIDEO | SCRIPT) || big::<3>(piece, at + 8)? != 0 {
        return None;
    }
    let len = HEADER + big::<3>(piece, at + 1)? as usize;
    if big::<4>(piece, at + len)? != len as u64 {
        return None;
    }
    // The upper eight bits of the timestamp follow the lower ones.
    let milliseconds = big::<3>(piece, at + 4)? | big::<1>(piece, at + 7)? << 24;
    Some((kind, milliseconds, len + 4))
}
