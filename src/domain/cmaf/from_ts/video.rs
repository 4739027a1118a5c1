//! Access units of video as samples: each NAL unit with its length in four bytes (ISO/IEC 14496-15 section 5.3.2).

use super::annex_b::nal_units;
use super::{ConversionError, ConvertedTrack, TrackConfig};
use crate::domain::cmaf::Sample;
use crate::domain::cmaf::entry::hevc::HdrMessages;
use crate::domain::cmaf::times::squeeze_decode_times;
use crate::domain::mpegts::elementary_stream::ElementaryStream;
use crate::domain::mpegts::unwrap_timestamp;
use crate::domain::sei;
use crate::domain::time::Ticks;

/// Most parameter sets of a stream. Encoders write two or three; the records in sample entries have room for few more.
const MAX_PARAMETER_SETS: usize = 32;

/// Most pictures that are decoded after a random access point and presented before it: a decoder keeps 16 (ITU-T H.265 table
/// A.8).
const MAX_LEADING_PICTURES: i64 = 16;

/// A codec whose access units are byte streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoCodec {
    H264,
    Hevc,
}

/// Kinds of NAL units that the conversion distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitKind {
    Delimiter,
    ParameterSet,
    /// A slice of a picture at which decoding can start.
    KeyframeSlice,
    /// Messages of H.264 about the picture that follows: decoding can start at it.
    RecoveryPoint,
    Other,
}

impl VideoCodec {
    /// `nal_unit_type` (ITU-T H.264 table 7-1, H.265 table 7-1).
    fn unit_type(self, unit: &[u8]) -> u8 {
        let first = unit.first().copied().unwrap_or_default();
        match self {
            Self::H264 => first & 0x1f,
            Self::Hevc => first >> 1 & 0x3f,
        }
    }

    fn unit_kind(self, unit: &[u8]) -> UnitKind {
        match (self, self.unit_type(unit)) {
            (Self::H264, 9) | (Self::Hevc, 35) => UnitKind::Delimiter,
            (Self::H264, 7 | 8) | (Self::Hevc, 32..=34) => UnitKind::ParameterSet,
            // IDR; BLA, IDR and CRA.
            (Self::H264, 5) | (Self::Hevc, 16..=21) => UnitKind::KeyframeSlice,
            (Self::H264, 6) if sei::has_recovery_point(unit) => UnitKind::RecoveryPoint,
            _ => UnitKind::Other,
        }
    }

    pub(super) fn is_sequence_parameter_set(self, unit: &[u8]) -> bool {
        let sps = match self {
            Self::H264 => 7,
            Self::Hevc => 33,
        };
        self.unit_type(unit) == sps
    }

    /// The parameter sets of an access unit, without start codes and repetitions.
    ///
    /// # Errors
    /// If there are more than encoders write.
    pub fn parameter_sets(self, access_unit: &[u8]) -> Result<Vec<Vec<u8>>, ConversionError> {
        let mut sets: Vec<Vec<u8>> = Vec::new();
        for unit in nal_units(access_unit).filter(|unit| self.unit_kind(unit) == UnitKind::ParameterSet) {
            if sets.iter().any(|set| set == unit) {
                continue;
            }
            if sets.len() == MAX_PARAMETER_SETS {
                return Err(ConversionError::Damaged("an access unit has too many parameter sets"));
            }
            sets.push(unit.to_vec());
        }
        Ok(sets)
    }
}

/// The parts of a track's description that its first access unit states.
struct Description {
    parameter_sets: Vec<Vec<u8>>,
    messages: HdrMessages,
}

impl Description {
    fn read(access_unit: &[u8], codec: VideoCodec) -> Result<Self, ConversionError> {
        let messages = match codec {
            VideoCodec::H264 => HdrMessages::default(),
            VideoCodec::Hevc => HdrMessages::read(nal_units(access_unit)),
        };
        Ok(Self { parameter_sets: codec.parameter_sets(access_unit)?, messages })
    }
}

/// Reads a stream of video. Its description is that of the first access unit, or that of `config`.
///
/// H.264 keeps its parameter sets in the samples too, with those of `config` before a first access unit without any. HEVC
/// has them in the description alone, and others are an error.
pub(super) fn read(
    stream: &ElementaryStream,
    codec: VideoCodec,
    end: Ticks,
    config: Option<&TrackConfig>,
) -> Result<ConvertedTrack, ConversionError> {
    let published = match config {
        Some(TrackConfig::Video { codec: expected, parameter_sets, messages }) if *expected == codec => {
            Some(Description { parameter_sets: parameter_sets.clone(), messages: messages.clone() })
        }
        Some(_) => return Err(ConversionError::ConfigChanged),
        None => None,
    };
    let (_, first_unit) = stream.packets().next().ok_or(ConversionError::NoPackets)?;
    let own = Description::read(first_unit, codec)?;
    let is_in_band = codec == VideoCodec::H264;
    let (mut samples, mut payload) = (Vec::new(), Vec::new());
    let lacks_sets = own.parameter_sets.is_empty();
    let Description { parameter_sets, messages } = published.filter(|_| !is_in_band || lacks_sets).unwrap_or(own);
    if is_in_band && lacks_sets {
        parameter_sets.iter().try_for_each(|unit| push_unit(&mut payload, unit))?;
    }
    let mut start = 0;
    for (pts, access_unit) in stream.packets() {
        let pts = unwrap_timestamp(pts.ok_or(ConversionError::NoTimestamp)?, end);
        let (mut is_keyframe, mut has_units) = (false, false);
        for unit in nal_units(access_unit) {
            match codec.unit_kind(unit) {
                UnitKind::Delimiter => continue,
                UnitKind::ParameterSet if is_in_band => {}
                UnitKind::ParameterSet if parameter_sets.iter().any(|set| set == unit) => continue,
                UnitKind::ParameterSet => return Err(ConversionError::ConfigChanged),
                UnitKind::KeyframeSlice | UnitKind::RecoveryPoint => is_keyframe = true,
                UnitKind::Other => {}
            }
            has_units = true;
            push_unit(&mut payload, unit)?;
        }
        let size = u32::try_from(payload.len() - start).ok().filter(|_| has_units);
        let size = size.ok_or(ConversionError::Damaged("an access unit of video is empty or too long"))?;
        samples.push(Sample { size, dts: pts.0, pts: pts.0, is_keyframe });
        start = payload.len();
    }
    let end = last_frame_end(&samples, end.0);
    squeeze_decode_times(&mut samples, end);
    Ok(ConvertedTrack { config: TrackConfig::Video { codec, parameter_sets, messages }, samples, payload, end })
}

/// Where the last frame ends in presentation: at the segment's `end`, or earlier by some frames if those are missing. They are
/// leading pictures of the next segment (open GOP), which is decoded from the first of them.
fn last_frame_end(samples: &[Sample], end: i64) -> i64 {
    let mut times: Vec<i64> = samples.iter().map(|sample| sample.pts).collect();
    times.sort_unstable();
    let mut intervals: Vec<i64> = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    intervals.sort_unstable();
    let (Some(last), Some(&interval)) = (times.last(), intervals.get(intervals.len() / 2)) else { return end };
    let missing = end.saturating_sub(*last).saturating_sub(interval);
    let is_led = missing > interval / 2 && missing <= interval.saturating_mul(MAX_LEADING_PICTURES);
    if is_led { last.saturating_add(interval) } else { end }
}

/// Appends a NAL unit with its length.
fn push_unit(payload: &mut Vec<u8>, unit: &[u8]) -> Result<(), ConversionError> {
    let length = u32::try_from(unit.len()).map_err(|_| ConversionError::Damaged("a NAL unit is too long"))?;
    payload.extend_from_slice(&length.to_be_bytes());
    payload.extend_from_slice(unit);
    Ok(())
}
