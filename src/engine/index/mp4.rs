//! Keyframe candidates of an mp4 track.

use super::frame_kind::FrameSyntax;
use super::{Candidate, CandidateTable, MAX_KEYFRAMES, RecoveryPoints};
use crate::domain::time::Ticks;
use crate::engine::container::mp4::{Mp4Track, Sample, SampleDescription};
use crate::engine::container::{ContainerError, refuse_if};

/// How the track's frames are recognized.
///
/// # Errors
/// The codec is not supported, or its configuration is missing.
fn frame_syntax(track: &Mp4Track, recovery_points: RecoveryPoints) -> Result<FrameSyntax, ContainerError> {
    Ok(match &track.description {
        SampleDescription::Avc(record) => FrameSyntax::of_avc(record, recovery_points)?,
        SampleDescription::Hevc(record) => FrameSyntax::of_hevc(record)?,
        SampleDescription::Other([b'a', b'v', b'0', b'1']) => FrameSyntax::Av1,
        SampleDescription::Other([b'v', b'p', b'0', b'9']) => FrameSyntax::Vp9,
        _ => return Err(ContainerError::Unsupported("keyframes of this codec are not recognized")),
    })
}

/// The candidates of a track by its tables.
pub(super) fn candidate_table(
    track: &Mp4Track,
    recovery_points: RecoveryPoints,
) -> Result<CandidateTable, ContainerError> {
    let syntax = frame_syntax(track, recovery_points)?;
    let (first_time, is_sync) =
        track.sample_span.first_presented.ok_or(ContainerError::Uncuttable("there are no frames"))?;
    if track.timing.presentation_ticks(first_time) < track.timing.edit_start() - Ticks::from_ms(50) {
        return Err(ContainerError::Uncuttable("the edit list begins inside a group of pictures"));
    }
    let end = track.end();
    let mut candidates = Vec::new();
    // Some writers list only closed groups of pictures as sync samples.
    let accepts_open = syntax.has_open_keyframes();
    let is_candidate = |sample: &Sample| {
        sample.size > 0 && (sample.is_sync || accepts_open && track.samples.is_grouped_random_access(sample.number))
    };
    for sample in track.samples.iter_from(0).filter(is_candidate) {
        let time = track.timing.presentation_ticks(sample.presentation_time());
        if time >= end {
            continue;
        }
        refuse_if(candidates.len() >= MAX_KEYFRAMES, ContainerError::Uncuttable("the video has too many keyframes"))?;
        let size = u64::from(sample.size);
        candidates.push(Candidate { time, number: sample.number, offset: sample.offset, size });
    }
    Ok(CandidateTable { candidates, end, syntax, prefix: Vec::new(), starts_without_keyframe: !is_sync })
}
