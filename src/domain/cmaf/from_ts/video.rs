//! Access units of video as samples: each NAL unit with its length in four bytes (ISO/IEC 14496-15 section 5.3.2).

use super::annex_b::nal_units;
use super::{ConversionError, ConvertedTrack, TrackConfig};
use crate::domain::cmaf::Sample;
use crate::domain::cmaf::times::squeeze_decode_times;
use crate::domain::mpegts::elementary_stream::ElementaryStream;
use crate::domain::mpegts::unwrap_timestamp;
use crate::domain::time::Ticks;

/// Most parameter sets of a stream. Encoders write two or three; the records in sample entries have room for few more.
const MAX_PARAMETER_SETS: usize = 32;

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

    /// The parameter sets of an access unit, without repetitions.
    fn parameter_sets(self, access_unit: &[u8]) -> Result<Vec<Vec<u8>>, ConversionError> {
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

/// Reads a stream of video. The parameter sets are those of the first access unit, or of `config` if it has none.
///
/// H.264 keeps its parameter sets in the samples too, with those of `config` before a first access unit without any. HEVC
/// has them in `config` alone, and others are an error.
pub(super) fn read(
    stream: &ElementaryStream,
    codec: VideoCodec,
    end: Ticks,
    config: Option<&TrackConfig>,
) -> Result<ConvertedTrack, ConversionError> {
    let published = match config {
        Some(TrackConfig::Video { codec: expected, parameter_sets }) if *expected == codec => Some(parameter_sets),
        Some(_) => return Err(ConversionError::ConfigChanged),
        None => None,
    };
    let own = stream.packets().next().map(|(_, bytes)| codec.parameter_sets(bytes)).transpose()?.unwrap_or_default();
    let is_in_band = codec == VideoCodec::H264;
    let (mut samples, mut payload) = (Vec::new(), Vec::new());
    let parameter_sets = match published {
        Some(sets) if !is_in_band || own.is_empty() => sets.clone(),
        _ => own.clone(),
    };
    if is_in_band && own.is_empty() {
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
                UnitKind::KeyframeSlice => is_keyframe = true,
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
    squeeze_decode_times(&mut samples, end.0);
    Ok(ConvertedTrack { config: TrackConfig::Video { codec, parameter_sets }, samples, payload, end: end.0 })
}

/// Appends a NAL unit with its length.
fn push_unit(payload: &mut Vec<u8>, unit: &[u8]) -> Result<(), ConversionError> {
    let length = u32::try_from(unit.len()).map_err(|_| ConversionError::Damaged("a NAL unit is too long"))?;
    payload.extend_from_slice(&length.to_be_bytes());
    payload.extend_from_slice(unit);
    Ok(())
}
