//! Temporal units of AV1 as samples: without temporal delimiters, which ISO media files do not contain ("AV1 Codec ISO Media
//! File Format Binding" section 2.4).

use super::{ConversionError, ConvertedTrack, TrackConfig};
use crate::domain::cmaf::Sample;
use crate::domain::cmaf::entry::av1::{Obu, obus};
use crate::domain::cmaf::times::squeeze_decode_times;
use crate::domain::mpegts::elementary_stream::ElementaryStream;
use crate::domain::mpegts::unwrap_timestamp;
use crate::domain::time::Ticks;

/// Reads a stream of temporal units in the low-overhead format, one in each PES packet. Keyframes keep their sequence headers,
/// as the binding requires; all must be equal.
pub(super) fn read(
    stream: &ElementaryStream,
    end: Ticks,
    config: Option<&TrackConfig>,
) -> Result<ConvertedTrack, ConversionError> {
    let mut sequence_header = match config {
        Some(TrackConfig::Av1 { sequence_header }) => Some(sequence_header.clone()),
        Some(_) => return Err(ConversionError::ConfigChanged),
        None => None,
    };
    let (mut samples, mut payload) = (Vec::new(), Vec::new());
    for (pts, temporal_unit) in stream.packets() {
        let pts = unwrap_timestamp(pts.ok_or(ConversionError::NoTimestamp)?, end);
        let (start, mut is_keyframe) = (payload.len(), None);
        for obu in obus(temporal_unit) {
            let obu = obu?;
            match obu.kind {
                Obu::TEMPORAL_DELIMITER | Obu::PADDING => continue,
                Obu::SEQUENCE_HEADER => {
                    let first = sequence_header.get_or_insert_with(|| obu.bytes.to_vec());
                    if *first != obu.bytes {
                        return Err(ConversionError::ConfigChanged);
                    }
                }
                Obu::FRAME_HEADER | Obu::FRAME => {
                    is_keyframe.get_or_insert(obu.is_shown_keyframe());
                }
                _ => {}
            }
            payload.extend_from_slice(obu.bytes);
        }
        let is_keyframe = is_keyframe.ok_or(ConversionError::Damaged("a temporal unit has no frame"))?;
        let size = u32::try_from(payload.len() - start);
        let size = size.map_err(|_| ConversionError::Damaged("a temporal unit is too long"))?;
        samples.push(Sample { size, dts: pts.0, pts: pts.0, is_keyframe });
    }
    let sequence_header = sequence_header.ok_or(ConversionError::Damaged("the segment has no sequence header"))?;
    squeeze_decode_times(&mut samples, end.0);
    Ok(ConvertedTrack { config: TrackConfig::Av1 { sequence_header }, samples, payload, end: end.0 })
}
