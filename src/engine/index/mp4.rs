//! Keyframe candidates of an mp4 track.

use super::{Candidate, MOST_KEYFRAMES, Table};
use crate::domain::time::TICKS_PER_SECOND;
use crate::engine::tables::Refusal;
use crate::engine::tables::mp4::{Description, Track};

/// Size of a NAL unit's length field by the decoder's configuration, bytes.
///
/// # Errors
/// The track is not H.264 with an `avcC` record.
pub fn nal_length(track: &Track) -> Result<u8, Refusal> {
    let Description::Avc(record) = &track.description else {
        return Err(Refusal::Unread("the description is not avc1 or avc3"));
    };
    let length = record.get(4).ok_or(Refusal::Unread("avcC is truncated"))? & 3;
    Ok(length + 1)
}

/// The candidates of a track by its tables.
pub(super) fn table(track: &Track) -> Result<Table, Refusal> {
    let nal_length = nal_length(track)?;
    let (first, sync) = track.span.first.ok_or(Refusal::Final("there are no frames".into()))?;
    if track.timing.shown(first) < track.timing.begin() - TICKS_PER_SECOND / 20 {
        return Err(Refusal::Final("the edit list begins inside a group of pictures".into()));
    }
    let end = track.end();
    let mut candidates = Vec::new();
    for sample in track.samples.walk(0).filter(|sample| sample.sync && sample.size > 0) {
        let at = track.timing.shown(sample.time());
        if at >= end {
            continue;
        }
        if candidates.len() >= MOST_KEYFRAMES {
            return Err(Refusal::Final("the video has too many keyframes".into()));
        }
        let size = u64::from(sample.size);
        candidates.push(Candidate { at, number: sample.number, offset: sample.offset, size });
    }
    Ok(Table { candidates, end, nal_length, headless: !sync })
}
