//! Keyframe candidates of an mp4 track.

use super::{Candidate, CandidateTable, MAX_KEYFRAMES};
use crate::domain::time::Ticks;
use crate::engine::container::avc::AvcRecord;
use crate::engine::container::mp4::{Mp4Track, SampleDescription};
use crate::engine::container::{ContainerError, refuse_if};

/// Size of a NAL unit's length field by the decoder's configuration, bytes.
///
/// # Errors
/// The track is not H.264 with an `avcC` record.
pub fn nal_length_size(track: &Mp4Track) -> Result<u8, ContainerError> {
    let SampleDescription::Avc(record) = &track.description else {
        return Err(ContainerError::Unsupported("the description is not avc1 or avc3"));
    };
    Ok(AvcRecord::parse(record)?.length_size)
}

/// The candidates of a track by its tables.
pub(super) fn candidate_table(track: &Mp4Track) -> Result<CandidateTable, ContainerError> {
    let nal_length_size = nal_length_size(track)?;
    let (first_time, is_sync) =
        track.sample_span.first_presented.ok_or(ContainerError::Uncuttable("there are no frames"))?;
    if track.timing.presentation_ticks(first_time) < track.timing.edit_start() - Ticks::from_ms(50) {
        return Err(ContainerError::Uncuttable("the edit list begins inside a group of pictures"));
    }
    let end = track.end();
    let mut candidates = Vec::new();
    for sample in track.samples.iter_from(0).filter(|sample| sample.is_sync && sample.size > 0) {
        let time = track.timing.presentation_ticks(sample.presentation_time());
        if time >= end {
            continue;
        }
        refuse_if(candidates.len() >= MAX_KEYFRAMES, ContainerError::Uncuttable("the video has too many keyframes"))?;
        let size = u64::from(sample.size);
        candidates.push(Candidate { time, number: sample.number, offset: sample.offset, size });
    }
    Ok(CandidateTable { candidates, end, nal_length_size, starts_without_keyframe: !is_sync })
}
