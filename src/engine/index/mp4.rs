//! The keyframes of an mp4 track.

use super::{Candidate, MOST_KEYFRAMES, Table};
use crate::domain::time::TICKS_PER_SECOND;
use crate::engine::tables::Refusal;
use crate::engine::tables::mp4::{Description, Track};

/// Bytes of a NAL unit's length by the decoder's configuration.
///
/// # Errors
/// The track is no H.264 whose units have lengths.
pub fn nal_length(track: &Track) -> Result<u8, Refusal> {
    let Description::Avc(record) = &track.description else {
        return Err(Refusal::Unread("the description is not avc1 or avc3"));
    };
    let length = record.get(4).ok_or(Refusal::Unread("avcC is cut short"))? & 3;
    Ok(length + 1)
}

/// What the track's tables say of its keyframes.
pub(super) fn table(track: &Track) -> Result<Table, Refusal> {
    let nal_length = nal_length(track)?;
    let (first, sync) = track.span.first.ok_or(Refusal::Final("there are no pictures".into()))?;
    if track.timing.shown(first) < track.timing.begin() - TICKS_PER_SECOND / 20 {
        return Err(Refusal::Final("its edit list begins inside a group of pictures".into()));
    }
    let end = track.end();
    let mut candidates = Vec::new();
    for sample in track.samples.walk(0).filter(|sample| sample.sync && sample.size > 0) {
        let at = track.timing.shown(sample.time());
        if at >= end {
            continue;
        }
        if candidates.len() >= MOST_KEYFRAMES {
            return Err(Refusal::Final("it has too many pictures".into()));
        }
        let size = u64::from(sample.size);
        candidates.push(Candidate { at, number: sample.number, offset: sample.offset, size });
    }
    Ok(Table { candidates, end, nal_length, headless: !sync })
}
