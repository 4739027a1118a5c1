//! The head of a media segment: `moof` and the header of `mdat`, which the samples' own bytes follow (ISO/IEC 14496-12 section
//! 8.8, ISO/IEC 23000-19 section 7.3).
//!
//! A segment is one fragment of one track. Its length is known before a sample is read. A segment without samples is a `moof`
//! alone.

use super::Sample;
use super::boxes::{push_box, push_full_box, push_u32};
use super::init::TRACK_ID;
use crate::domain::mpegts::psi::TrackKind;

/// Size of a box's header, bytes.
const HEADER_LEN: u32 = 8;

/// Flags of `tfhd` (section 8.8.7).
const DEFAULT_DURATION: u32 = 0x08;
const DEFAULT_FLAGS: u32 = 0x20;
const DEFAULT_BASE_IS_MOOF: u32 = 0x02_0000;

/// Flags of `trun` (section 8.8.8).
const DATA_OFFSET: u32 = 0x01;
const DURATIONS: u32 = 0x100;
const SIZES: u32 = 0x200;
const SAMPLE_FLAGS: u32 = 0x400;
const COMPOSITION_OFFSETS: u32 = 0x800;

/// Flags of samples (section 8.8.3.1): `sample_depends_on` = 2 (on no other); 1 and `sample_is_non_sync_sample`.
const SYNC_SAMPLE: u32 = 0x0200_0000;
const NON_SYNC_SAMPLE: u32 = 0x0101_0000;

/// A fragment of one track.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// All samples of audio are sync samples and are presented when they are decoded.
    pub kind: TrackKind,
    /// `sequence_number` of `mfhd`, from 1.
    pub sequence_number: u32,
    /// In decoding order; times in units of the track's timescale.
    pub samples: &'a [Sample],
    /// Decode time of the next fragment's first sample, where the last sample ends. A fragment without samples is here.
    pub end: i64,
    /// Added to every time, so that none is negative.
    pub base: i64,
}

/// The bytes of a segment before its samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragmentHead {
    pub bytes: Vec<u8>,
    /// Where `bytes` has `baseMediaDecodeTime`, 64 bits: for [`shift_decode_time`].
    pub decode_time_at: usize,
    /// Size of the samples, bytes.
    pub payload_len: u32,
}

impl FragmentHead {
    /// Size of the segment, bytes.
    pub fn content_length(&self) -> u64 {
        self.bytes.len() as u64 + u64::from(self.payload_len)
    }
}

/// Why a segment cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("the segment is larger than 4 GiB")]
    TooLarge,
    #[error("the decode time {0} of a segment is negative or too large")]
    DecodeTime(i128),
    #[error("the duration {0} of a sample is negative or too large")]
    Duration(i128),
    #[error("the composition offset {0} of a sample has more than 32 bits")]
    CompositionOffset(i128),
    #[error("there is no decode time at byte {0} of the segment")]
    NoDecodeTime(usize),
}

/// Lays out a fragment. The durations of its samples are the differences of their decode times, and their sum is the time
/// from the first decode time to `end`.
///
/// # Errors
/// If `mdat` would be larger than 4 GiB, or if a time does not fit its field.
pub fn lay_out(fragment: &Fragment) -> Result<FragmentHead, LayoutError> {
    let &Fragment { kind, sequence_number, samples, end, base } = fragment;
    let payload_len = samples.iter().map(|sample| u64::from(sample.size)).fold(0, u64::saturating_add);
    let payload_len = u32::try_from(payload_len).map_err(|_| LayoutError::TooLarge)?;
    let mdat_size = payload_len.checked_add(HEADER_LEN).ok_or(LayoutError::TooLarge)?;
    let decode_time = i128::from(samples.first().map_or(end, |sample| sample.dts)) + i128::from(base);
    let decode_time = u64::try_from(decode_time).map_err(|_| LayoutError::DecodeTime(decode_time))?;
    let run = SampleRun::new(kind, samples, end)?;

    let mut out = Vec::with_capacity(128 + run.len());
    let mut decode_time_at = 0;
    let mut data_offset_at = None;
    push_box(&mut out, b"moof", |out| {
        push_full_box(out, b"mfhd", 0, 0, |out| push_u32(out, sequence_number));
        push_box(out, b"traf", |out| {
            run.push_tfhd(out);
            push_full_box(out, b"tfdt", 1, 0, |out| {
                decode_time_at = out.len();
                out.extend_from_slice(&decode_time.to_be_bytes());
            });
            if !samples.is_empty() {
                data_offset_at = Some(run.push_trun(out));
            }
        });
    });
    let moof_size = u32::try_from(out.len()).map_err(|_| LayoutError::TooLarge)?;
    // GStreamer 1.22 aborts on a `moof` without samples that an `mdat` follows.
    let mdat_header_len = if payload_len > 0 { HEADER_LEN } else { 0 };
    let data_offset = moof_size.checked_add(mdat_header_len).and_then(|offset| i32::try_from(offset).ok());
    let data_offset = data_offset.ok_or(LayoutError::TooLarge)?;
    if let Some(at) = data_offset_at {
        out[at..at + 4].copy_from_slice(&data_offset.to_be_bytes());
    }
    if payload_len > 0 {
        push_u32(&mut out, mdat_size);
        out.extend_from_slice(b"mdat");
    }
    Ok(FragmentHead { bytes: out, decode_time_at, payload_len })
}

/// Size of the head that [`lay_out`] writes for this many samples, bytes. `has_common_duration`: all samples last equally
/// long.
pub fn head_len(kind: TrackKind, samples: u64, has_common_duration: bool) -> u64 {
    // `moof`, `mfhd`, `traf`, `tfhd` with a track id, and `tfdt`.
    const FIXED: u64 = 8 + 16 + 8 + 16 + 20;
    let (defaults, sample_fields) = match (kind, has_common_duration && samples > 0) {
        (TrackKind::Video, _) => (0, 16),
        (TrackKind::Audio, false) => (4, 8),
        (TrackKind::Audio, true) => (8, 4),
    };
    // `trun`, and the header of `mdat`.
    let run = if samples > 0 { 20 + u64::from(HEADER_LEN) } else { 0 };
    FIXED + defaults + run + samples.saturating_mul(sample_fields)
}

/// Moves a segment in time by `shift` units of its timescale. `decode_time_at` is [`FragmentHead::decode_time_at`].
///
/// # Errors
/// If there is no `tfdt`, or if the new time is negative; then nothing is changed.
pub fn shift_decode_time(head: &mut [u8], decode_time_at: usize, shift: i64) -> Result<(), LayoutError> {
    let start = decode_time_at.checked_sub(HEADER_LEN as usize);
    let tfdt = start.and_then(|start| head.get_mut(start..)?.first_chunk_mut::<16>());
    let Some([b't', b'f', b'd', b't', 1, 0, 0, 0, field @ ..]) = tfdt else {
        return Err(LayoutError::NoDecodeTime(decode_time_at));
    };
    let time = i128::from(u64::from_be_bytes(*field)) + i128::from(shift);
    *field = u64::try_from(time).map_err(|_| LayoutError::DecodeTime(time))?.to_be_bytes();
    Ok(())
}

/// The fields of `tfhd` and `trun` about the samples.
struct SampleRun<'a> {
    kind: TrackKind,
    samples: &'a [Sample],
    /// Duration and composition offset of each sample.
    times: Vec<(u32, i32)>,
    /// The duration, if it is the same for all samples of audio.
    common_duration: Option<u32>,
}

impl<'a> SampleRun<'a> {
    fn new(kind: TrackKind, samples: &'a [Sample], end: i64) -> Result<Self, LayoutError> {
        let next_times = samples.iter().skip(1).map(|sample| sample.dts).chain([end]);
        let times = samples.iter().zip(next_times).map(|(sample, next)| {
            let duration = i128::from(next) - i128::from(sample.dts);
            let offset = i128::from(sample.pts) - i128::from(sample.dts);
            let duration = u32::try_from(duration).map_err(|_| LayoutError::Duration(duration))?;
            let offset = i32::try_from(offset).map_err(|_| LayoutError::CompositionOffset(offset))?;
            Ok((duration, offset))
        });
        let times: Vec<(u32, i32)> = times.collect::<Result<_, _>>()?;
        let first = times.first().map(|&(duration, _)| duration).filter(|_| kind == TrackKind::Audio);
        let common_duration = first.filter(|first| times.iter().all(|(duration, _)| duration == first));
        Ok(Self { kind, samples, times, common_duration })
    }

    /// Bytes of the samples' fields at most.
    fn len(&self) -> usize {
        self.samples.len() * if self.kind == TrackKind::Video { 16 } else { 8 }
    }

    /// The track fragment header (section 8.8.7).
    fn push_tfhd(&self, out: &mut Vec<u8>) {
        let duration_flag = if self.common_duration.is_some() { DEFAULT_DURATION } else { 0 };
        let sample_flags = (self.kind == TrackKind::Audio).then_some(SYNC_SAMPLE);
        let sample_flags_flag = if sample_flags.is_some() { DEFAULT_FLAGS } else { 0 };
        push_full_box(out, b"tfhd", 0, DEFAULT_BASE_IS_MOOF | duration_flag | sample_flags_flag, |out| {
            push_u32(out, TRACK_ID);
            self.common_duration.into_iter().chain(sample_flags).for_each(|field| push_u32(out, field));
        });
    }

    /// The track run (section 8.8.8) of version 1, with signed composition offsets. Returns where the data offset is.
    fn push_trun(&self, out: &mut Vec<u8>) -> usize {
        let fields = match (self.kind, self.common_duration) {
            (TrackKind::Video, _) => DURATIONS | SIZES | SAMPLE_FLAGS | COMPOSITION_OFFSETS,
            (TrackKind::Audio, None) => DURATIONS | SIZES,
            (TrackKind::Audio, Some(_)) => SIZES,
        };
        let mut data_offset_at = 0;
        push_full_box(out, b"trun", 1, DATA_OFFSET | fields, |out| {
            push_u32(out, self.samples.len() as u32);
            data_offset_at = out.len();
            push_u32(out, 0);
            for (sample, &(duration, offset)) in self.samples.iter().zip(&self.times) {
                if fields & DURATIONS != 0 {
                    push_u32(out, duration);
                }
                push_u32(out, sample.size);
                if self.kind == TrackKind::Video {
                    push_u32(out, if sample.is_keyframe { SYNC_SAMPLE } else { NON_SYNC_SAMPLE });
                    out.extend_from_slice(&offset.to_be_bytes());
                }
            }
        });
        data_offset_at
    }
}

#[cfg(test)]
mod tests;
